"""Checks of the parts of a protocol, by values alone: building, options, the driver, and what people see."""

import random
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Final, get_args

import attrs

from session_core.ids import CallId, MessageId, new_session_id
from session_core.protocols.api import ProtocolBundle, ProtocolFactory
from session_core.protocols.driver import (
    Action,
    Actions,
    CheckpointKind,
    CodeDriver,
    Driver,
    DriverFault,
    DriverView,
    ExecuteCode,
    Finish,
    Remember,
    RunTools,
    Tell,
    check_actions,
)
from session_core.protocols.execution import CellResult
from session_core.protocols.options import Materialization, Opening, resolve_options
from session_core.protocols.prose import ProseProjector, Span, project_text
from session_core.providers.base import FailureKind, ModelFailed, StopReason
from session_core.testing.check_protocol_world import TOOL, ProtocolSubject
from session_core.vocabulary.frozen import JsonObject, JsonValue
from session_core.vocabulary.messages import CodePart, Message, Part, TextPart, ToolCallPart, ToolResultPart

VIEWS: Final = 60
"""Random views for each callback of a driver."""
SAID: Final = (
    "Done.",
    "I look.\n```python\nprint(1)\n```\nThen I go on.",
    "```python\nnever closed",
    "````python\n```\n````",
    "```json\n{}\n```",
    "~~~\nnot a cell\n~~~",
    "<plan>first</plan>",
    "one `word` and ``two``\n\n`",
    '{"n": 3}',
    " \n",
)
_TOUCHES: Final = ("open", "socket.", "subprocess.", "os.", "shutil.", "sqlite3.", "urllib.", "tempfile.")

_touched: list[str] | None = None
_watched_thread: int | None = None
_watching = threading.Lock()


# --- building ---------------------------------------------------------------------------------------------------------


async def building_touches_nothing(subject: ProtocolSubject) -> None:
    """`build` neither reads nor writes anything outside the process; the first time it may import its own code."""
    subject.build()
    with _record_touches() as touched:
        subject.build()
    assert not touched, f"building a session's part of the protocol touches nothing outside: {', '.join(touched)}"


async def building_again_gives_the_same(subject: ProtocolSubject) -> None:
    """Two sessions with the same options get the same instructions and tools, and their own executors."""
    first, second = subject.build(), subject.build()
    assert _shape(first) == _shape(second), "what is built follows from the options alone"
    if first.executor is not None:
        assert first.executor is not second.executor, "every session has an executor of its own"


def _shape(bundle: ProtocolBundle) -> tuple[object, ...]:
    executor = bundle.executor
    return (
        bundle.native_tools,
        tuple(tool.spec for tool in bundle.tools),
        None if bundle.instructions is None else bundle.instructions((TOOL.spec,)),
        None if executor is None else (executor.engine, executor.language),
        bundle.prose is None,
    )


@contextmanager
def _record_touches() -> Generator[list[str]]:
    """Record what this thread does to files, sockets and processes."""
    global _touched, _watched_thread  # noqa: PLW0603 - an audit hook cannot be removed, only disabled
    with _watching:
        if _watched_thread is None:
            sys.addaudithook(_audit)
        _watched_thread, _touched = threading.get_ident(), []
        try:
            yield _touched
        finally:
            _touched = None


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _touched is not None and threading.get_ident() == _watched_thread and event.startswith(_TOUCHES):
        _touched.append(f"{event}({arguments[0]!r})" if arguments else event)


# --- options ----------------------------------------------------------------------------------------------------------


async def options_are_decided_at_every_opening(subject: ProtocolSubject) -> None:
    """Options can be resolved for a new session, a child, a fork and a reopened one, each time the same."""
    factory = subject.make()
    new = _resolve(factory, None, subject.options, "create")
    for opening in get_args(Opening):
        recorded = new if opening == "resume" else None
        once, again = (_resolve(factory, recorded, None, opening, parent=new) for _ in range(2))
        assert once == again, f"the options of a session at its {opening} follow from what is known alone"


async def stating_options_again_changes_nothing(subject: ProtocolSubject) -> None:
    """Stating the recorded options of a session again is no conflict."""
    factory = subject.make()
    new = _resolve(factory, None, subject.options, "create")
    resumed = _resolve(factory, new, None, "resume")
    assert resumed == new, f"a session that comes back keeps its options: {dict(resumed)} instead of {dict(new)}"
    restated = _resolve(factory, new, new, "resume")
    assert restated == new, f"stating the same options again gives the same: {dict(restated)} instead of {dict(new)}"


def _resolve(
    factory: ProtocolFactory,
    recorded: JsonObject | None,
    stated: JsonObject | None,
    opening: Opening,
    parent: JsonObject | None = None,
) -> JsonObject:
    """Resolve options; for a child and a fork, `parent` holds those of the session they come from."""
    session_id = new_session_id()
    comes_from = parent if opening in {"child", "fork"} else None
    way = Materialization(
        opening=opening,
        session_id=session_id,
        parent_id=new_session_id() if opening == "child" else None,
        parent=comes_from,
    )
    try:
        return resolve_options(factory.id, factory.options, recorded, stated, way)
    except Exception as error:
        raise AssertionError(f"options can be decided for a session at its {opening}: {error}") from error


# --- the driver -------------------------------------------------------------------------------------------------------


@attrs.frozen
class _DriverQuestion:
    """A question to a driver: the callback and its arguments."""

    name: str
    view: DriverView
    ask: Callable[[Driver], Actions]


async def the_driver_keeps_its_rules(subject: ProtocolSubject) -> None:
    """Whatever a model says, the driver decides how the turn continues, and leaves no tool call without a result."""
    bundle = subject.build()
    for asked in _iterate_questions(subject, bundle):
        first, last = _decide(asked, bundle.driver)
        if asked.name == "on_answer" and asked.view.answer is not None and asked.view.answer.tool_calls:
            gives_up = isinstance(last, Finish) and last.status != "completed"
            tells = any(isinstance(action, Tell) for action in first)
            assert isinstance(last, RunTools) or (gives_up and not tells), (
                f"tool calls are run before anything else happens; after an answer with one the driver wants {last}"
            )
        if isinstance(last, ExecuteCode):
            executor = bundle.executor
            assert executor is not None, "a driver that wants code run comes with an executor"
            assert isinstance(bundle.driver, CodeDriver), "a driver that wants code run can hear what became of it"
            assert last.language == executor.language, f"the executor runs {executor.language}, not {last.language}"


async def the_driver_decides_by_its_view_alone(subject: ProtocolSubject) -> None:
    """The same view leads to the same actions: asked twice, in another order, and from another session."""
    bundle, other = subject.build(), subject.build()
    questions = list(_iterate_questions(subject, bundle))
    once = [_decide(asked, bundle.driver) for asked in questions]
    twice = [_decide(asked, bundle.driver) for asked in questions]
    backwards = [_decide(asked, other.driver) for asked in reversed(questions)][::-1]
    for asked, *decided in zip(questions, once, twice, backwards, strict=True):
        assert decided[0] == decided[1] == decided[2], (
            f"a driver keeps nothing between two calls; in {asked.name} the same view led to "
            f"{' and to '.join(str(each[1]) for each in decided)}"
        )


def _decide(asked: _DriverQuestion, driver: Driver) -> tuple[tuple[Action, ...], Action]:
    try:
        return check_actions(asked.ask(driver))
    except DriverFault as fault:
        raise AssertionError(f"a driver says how the turn goes on; in {asked.name}: {fault}") from fault
    except Exception as error:
        said = asked.view.answer.written_text if asked.view.answer is not None else ""
        raise AssertionError(
            f"a driver has an answer to every view; {asked.name} raised {type(error).__name__}: {error} after {said!r}"
        ) from error


def _iterate_questions(subject: ProtocolSubject, bundle: ProtocolBundle) -> Iterator[_DriverQuestion]:
    """Generate questions about random turns; what a driver wants remembered is in later views, as in a real turn."""
    rng = random.Random(subject.seed)  # noqa: S311 - not a secret, and the same in every run
    memories: list[JsonValue] = [None]
    for _ in range(VIEWS):
        for asked in _iterate_round(rng, bundle, rng.choice(memories)):
            yield asked
            try:
                actions = asked.ask(bundle.driver)
                memories += [action.memory for action in actions if isinstance(action, Remember)]
            except Exception:  # noqa: BLE001, S112 - reported by the caller that asks the question
                continue


def _iterate_round(rng: random.Random, bundle: ProtocolBundle, memory: JsonValue) -> Iterator[_DriverQuestion]:
    schema = rng.choice([None, None, JsonObject({"type": "object"})])
    prompt = rng.choice([None, _build_message("user", (TextPart(text="Go."),))])
    view = DriverView(output_schema=schema, prompt=prompt)
    yield _DriverQuestion("on_start", view, lambda driver: driver.on_start(view))
    answer, results = _random_message(rng, bundle.prose)
    stop: StopReason = rng.choice(("end", "end", "max_tokens", "refused"))
    heard = attrs.evolve(view, step=rng.randint(1, 9), answer=answer, stop_reason=stop, memory=memory)
    yield _DriverQuestion("on_answer", heard, lambda driver: driver.on_answer(heard))
    failure = ModelFailed(kind=rng.choice(get_args(FailureKind)), message="it failed")
    yield _DriverQuestion("on_failure", heard, lambda driver: driver.on_failure(heard, failure))
    if results is not None:
        done = attrs.evolve(heard, results=results)
        yield _DriverQuestion("on_results", done, lambda driver: driver.on_results(done))
    driver = bundle.driver
    cell: CellResult | None = None
    if isinstance(driver, CodeDriver):
        cell = _random_cell(rng)
        ran = attrs.evolve(heard, cell=cell)
        yield _DriverQuestion("on_code", ran, lambda each: each.on_code(ran))  # type: ignore[attr-defined]
    kind: CheckpointKind = rng.choice(get_args(CheckpointKind))
    more = rng.random() < 0.5
    rested = attrs.evolve(heard, cell=cell, results=results)
    yield _DriverQuestion("on_checkpoint", rested, lambda driver: driver.on_checkpoint(rested, kind, more=more))


def _random_cell(rng: random.Random) -> CellResult:
    value = rng.choice([None, 3, JsonObject({"n": 3})])
    return CellResult(
        output=rng.choice(["", "4 files"]),
        error=rng.choice([None, None, "ZeroDivisionError: no"]),
        finished=rng.random() < 0.4,
        value=value,
    )


def _random_message(rng: random.Random, prose: ProseProjector | None) -> tuple[Message, Message | None]:
    said = rng.choice(SAID)
    spans: tuple[Span, ...] = (("text", said),) if prose is None else project_text(prose, said)
    parts: tuple[Part, ...] = tuple(
        TextPart(text=words) if kind == "text" else CodePart(text=words) for kind, words in spans
    )
    if rng.random() < 0.7:
        return _build_message("assistant", parts), None
    call = ToolCallPart(call_id=CallId("call_1"), name=TOOL.spec.name, arguments=JsonObject())
    result = ToolResultPart(call_id=call.call_id, name=call.name, status=rng.choice(("success", "error")), text="so")
    return _build_message("assistant", (*parts, call)), _build_message("tool", (result,))


def _build_message(role: Any, parts: tuple[Part, ...]) -> Message:
    return Message(message_id=MessageId("msg_1"), parent_id=None, role=role, parts=parts, created_at=0)


# --- what people see --------------------------------------------------------------------------------------------------


async def what_people_see_does_not_depend_on_chunks(subject: ProtocolSubject) -> str | None:
    """An answer is divided the same way however it streams in, and nothing is lost or added."""
    projector = subject.build().prose
    if projector is None:
        return "it hides nothing of an answer"
    rng = random.Random(subject.seed)  # noqa: S311 - not a secret, and the same in every run
    for _ in range(VIEWS):
        said = "\n".join(rng.choices(SAID, k=rng.randint(1, 3)))
        whole = project_text(projector, said)
        assert "".join(words for _, words in whole) == said, f"no text of an answer is lost or added: {said!r}"
        stream, spans = projector.open(), list[Span]()
        rest = said
        while rest:
            cut = rng.randint(1, 4)
            spans += stream.feed(rest[:cut])
            rest = rest[cut:]
        spans += stream.close()
        for kind in ("text", "code"):
            streamed = "".join(words for each, words in spans if each == kind)
            at_once = "".join(words for each, words in whole if each == kind)
            assert streamed == at_once, f"what people see is the same however it streams in: {said!r}"
    return None
