"""Questions that a protocol asks a model beside the conversation."""

from collections.abc import Awaitable, Callable
from typing import Any

import attrs
import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from session_core import limits
from session_core.agent.folder_settings import NoFolderFiles
from session_core.errors import Conflict, InvalidInput
from session_core.ids import MessageId
from session_core.protocols.contexts import (
    BeforeCallContext,
    DirectAnswer,
    DirectFailed,
    DirectRequest,
    FinishNow,
    TooManyQuestions,
)
from session_core.protocols.faults import CallbackContextExpired
from session_core.providers.base import ModelFailed, ModelFinished, ModelRequest, TextChunk, ThinkingChunk
from session_core.providers.catalogue import ModelInfo
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import Hang, Pause, ScriptedProvider, failure, text, tool_call
from session_core.vocabulary import events as ev
from session_core.vocabulary.messages import Message, TextPart, Usage
from session_core.vocabulary.sessions import TurnLimits, TurnOutcome, UsageLine
from tests.session_core.agent._models import PRICES, info
from tests.session_core.service._helpers import new_session, of_type, scripted
from tests.session_core.service._protocols import Watched, fails

USED = Usage(input_tokens=7, output_tokens=2)
QUESTION = DirectRequest(
    messages=(
        Message(
            message_id=MessageId("msg_q"), parent_id=None, role="user", parts=(TextPart(text="why?"),), created_at=0
        ),
    ),
    system="Be brief.",
)
Ask = Callable[[BeforeCallContext], Awaitable[Any]]


class Asked:
    """What became of a turn whose protocol asks beside the conversation, and then ends it."""

    def __init__(self) -> None:
        self.outcome: TurnOutcome | None = None
        self.usage_by: tuple[UsageLine, ...] = ()
        self.recorded: list[ev.UsageRecorded] = []
        self.conversation: list[str] = []


async def play(ask: Ask, *answers: Any, **settings: Any) -> Asked:
    """Run one turn."""

    async def before(context: BeforeCallContext, _: ModelRequest) -> FinishNow:
        await ask(context)
        return FinishNow(text="end")

    asked = Asked()
    factory = Watched(before_model_call=before)
    async with open_checked_service(scripted(*answers, **factory.settings(), **settings)) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "hello")
        asked.outcome = (await service.wait_for_turn(session_id)).outcome
        snapshot = await service.load_session(session_id)
        asked.usage_by = snapshot.usage_by
        asked.conversation = [message.text for message in snapshot.transcript]
        asked.recorded = of_type(service, session_id, ev.UsageRecorded)
    return asked


def question(context: BeforeCallContext, key: str = "k", **changes: Any) -> Awaitable[DirectAnswer]:
    """Ask the usual question, for the same purpose."""
    return context.complete(attrs.evolve(QUESTION, **changes), source="judge", key=key)


async def test_an_answer_and_its_usage() -> None:
    """A question is asked as it is, its answer leaves no trace in the conversation, and its usage counts by purpose."""
    provider = ScriptedProvider(text("be", "cause", thinking="hm", usage=USED))
    answers: list[DirectAnswer] = []

    async def ask(context: BeforeCallContext) -> None:
        answers.append(await question(context, max_output_tokens=9, thinking="low"))

    asked = await play(ask, provider, model_infos=info(prices=PRICES))
    used = attrs.evolve(USED, cost_micros=11)
    assert answers == [DirectAnswer(text="because", model="m", usage=used)]
    assert provider.requests == [
        ModelRequest(
            model="m", messages=QUESTION.messages, system="Be brief.", thinking="low", max_output_tokens=9, tools=()
        )
    ]
    assert asked.usage_by == (UsageLine(model="m", source="judge", calls=1, usage=used),)
    assert asked.conversation == ["hello", "end"]
    assert asked.outcome is not None
    assert (asked.outcome.usage, asked.outcome.steps, asked.outcome.status) == (used, 0, "completed")


class Priced(NoFolderFiles):
    """A folder that has a model of its own, whose prices are known."""

    def get_known(self, cwd: str) -> Any:
        provider = ScriptedProvider(text("because", usage=USED))
        facts = ModelInfo(name="own", provider="p", api_id="own", prices=PRICES)
        folder: Any = super().get_known(cwd)
        return attrs.evolve(folder, providers={"own": provider}, infos={"own": facts})


async def test_a_model_of_the_folder_has_its_price() -> None:
    """A question to a model that only the session's folder has costs what is known of it."""
    answers: list[DirectAnswer] = []

    async def ask(context: BeforeCallContext) -> None:
        answers.append(await question(context, model="own"))

    asked = await play(ask, folders=Priced())
    used = attrs.evolve(USED, cost_micros=11)
    assert answers == [DirectAnswer(text="because", model="own", usage=used)]
    assert asked.usage_by == (UsageLine(model="own", source="judge", calls=1, usage=used),)


async def test_usage_by_purpose_and_model() -> None:
    """Questions are counted by purpose and model; what a provider does not tell is guessed, and says so."""
    other = ScriptedProvider(text("x", usage=USED), text("y", usage=USED))
    models = {"m": ScriptedProvider(text("z" * 9)), "other": other}

    async def ask(context: BeforeCallContext) -> None:
        for source, key, model in (("judge", "1", "other"), ("judge", "2", None), ("scout", "3", "other")):
            await context.complete(attrs.evolve(QUESTION, model=model), source=source, key=key)

    asked = await play(ask, models=models, default_model="m")
    lines = [(line.model, line.source, line.calls, line.usage.estimated) for line in asked.usage_by]
    assert lines == [("other", "judge", 1, False), ("m", "judge", 1, True), ("other", "scout", 1, False)]
    assert (asked.usage_by[0].usage, asked.usage_by[1].usage.output_tokens) == (USED, 3)


async def test_the_same_question_again() -> None:
    """The same question under the same key is answered and paid once in a turn; under another key it is another one."""
    provider = ScriptedProvider(text("one", usage=USED), text("two", usage=USED))
    found: list[str] = []

    async def ask(context: BeforeCallContext) -> None:
        found.extend([(await question(context)).text, (await question(context)).text])
        found.append((await question(context, key="other")).text)

    asked = await play(ask, provider)
    assert (found, len(provider.requests)) == (["one", "one", "two"], 2)
    assert asked.usage_by == (UsageLine(model="m", source="judge", calls=2, usage=USED.plus(USED)),)


@pytest.mark.parametrize(
    "change", [{"system": "x"}, {"messages": ()}, {"model": "m"}, {"max_output_tokens": 1}, {"thinking": "low"}]
)
async def test_another_question_under_the_same_key(change: dict[str, Any]) -> None:
    """Another question under a key that was used is refused, and nothing is asked."""
    provider = ScriptedProvider(text("one"))

    async def ask(context: BeforeCallContext) -> None:
        await question(context)
        with pytest.raises(Conflict) as caught:
            await question(context, **change)
        assert (caught.value.field, caught.value.message) == (
            "key",
            "the key 'k' belongs to another question of this turn",
        )
        with pytest.raises(Conflict):
            await context.complete(QUESTION, source="other", key="k")

    asked = await play(ask, provider)
    assert asked.outcome is not None
    assert (asked.outcome.status, len(provider.requests)) == ("completed", 1)


async def test_the_same_key_at_the_same_time() -> None:
    """A key that is being asked is refused to whoever asks as well; the first one gets its answer."""
    provider = ScriptedProvider((Pause("here"), *text("one")))
    found: list[str] = []

    async def ask(context: BeforeCallContext) -> None:
        async def first() -> None:
            found.append((await question(context)).text)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(first)
            await provider.wait_for_pause("here")
            with pytest.raises(Conflict, match="is being asked right now"):
                await question(context)
            provider.release("here")
        found.append((await question(context)).text)

    asked = await play(ask, provider)
    assert asked.outcome is not None
    assert (asked.outcome.error, found) == (None, ["one", "one"])


BROKEN: dict[str, tuple[Any, str, Usage | None]] = {
    "refused": (failure("auth", "no key"), "auth: no key", None),
    "in the middle": ((TextChunk(text="abc"), *failure("network")), "network: it failed", None),
    "told": ((ModelFailed(kind="network", message="gone", usage=USED),), "network: gone", USED),
    "a bug": ((fails,), "ZeroDivisionError: a bug", None),
    "no end": ((TextChunk(text="abc"),), "the model's answer ended early", None),
}


@pytest.mark.parametrize(("answer", "reason", "used"), BROKEN.values(), ids=BROKEN)
async def test_a_question_that_fails(answer: Any, reason: str, used: Usage | None, quiet_log: None) -> None:
    """A failure is told to the protocol, which may go on; what was used counts, and the key is free again."""
    provider = ScriptedProvider(answer, text("now", usage=USED))
    found: list[str] = []

    async def ask(context: BeforeCallContext) -> None:
        with pytest.raises(DirectFailed) as caught:
            await question(context)
        found.extend([str(caught.value), (await question(context)).text])

    asked = await play(ask, provider)
    assert found == [reason, "now"]
    counted = [event.usage for event in asked.recorded[:-1]]
    said = any(isinstance(item, TextChunk) for item in answer)
    assert len(counted) == (used is not None or said)
    assert counted in ([], [used]) or counted[0].estimated


async def test_an_answer_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that does not end is given up, and counted."""
    monkeypatch.setattr(limits, "MAX_ANSWER_CHARS", 10)
    provider = ScriptedProvider((TextChunk(text="x" * 11), ModelFinished()))

    async def ask(context: BeforeCallContext) -> None:
        with pytest.raises(DirectFailed, match="exceeds the length limit"):
            await question(context)

    assert [event.usage.estimated for event in (await play(ask, provider)).recorded] == [True]


async def test_thinking_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is no part of the answer counts as well: thinking that does not end is given up."""
    monkeypatch.setattr(limits, "MAX_ANSWER_CHARS", 10)
    provider = ScriptedProvider((ThinkingChunk(text="x" * 11), *text("late")))

    async def ask(context: BeforeCallContext) -> None:
        with pytest.raises(DirectFailed, match="exceeds the length limit"):
            await question(context)

    assert [event.usage.estimated for event in (await play(ask, provider)).recorded] == [True]


async def test_questions_without_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A turn asks so many questions, answers so many characters, and then only what it has asked before."""

    async def ask(context: BeforeCallContext) -> None:
        await question(context, key="0")
        for number in range(1, limits.MAX_DIRECT_COMPLETIONS):
            await question(context, key=f"{number}")
        for number in range(limits.MAX_DIRECT_COMPLETIONS, 10_000):
            with pytest.raises(TooManyQuestions, match="at most 200 questions"):
                await question(context, key=f"{number}")
        assert (await question(context, key="0")).text == "fine"

    provider = ScriptedProvider(*[text("fine")] * limits.MAX_DIRECT_COMPLETIONS)
    await play(ask, provider)
    assert len(provider.requests) == limits.MAX_DIRECT_COMPLETIONS

    async def ask_much(context: BeforeCallContext) -> None:
        await question(context, key="0")
        with pytest.raises(TooManyQuestions, match="more than 4 characters"):
            await question(context, key="1")

    monkeypatch.setattr(limits, "MAX_DIRECT_CHARS", 4)
    await play(ask_much, text("fine"))


async def test_what_is_not_asked_for() -> None:
    """Thinking, and tools that were never offered, are no part of the answer."""
    provider = ScriptedProvider((ThinkingChunk(text="hm"), *tool_call("t")[:-1], *text("fine")))
    found: list[str] = []

    async def ask(context: BeforeCallContext) -> None:
        found.append((await question(context)).text)

    await play(ask, provider)
    assert found == ["fine"]


async def test_a_question_that_nobody_catches(quiet_log: None) -> None:
    """A failure that the protocol does not deal with fails its turn, naming it."""
    asked = await play(question, failure("auth", "no key"))
    assert asked.outcome is not None
    assert asked.outcome.error == "the protocol watched failed in before_model_call: DirectFailed: auth: no key"


async def test_limits_hold() -> None:
    """A question counts against the limits of its turn, whose rest bounds its answer; with nothing left, it fails."""
    provider = ScriptedProvider(text("one", usage=Usage(input_tokens=900)), text("two", usage=Usage(input_tokens=200)))

    async def ask(context: BeforeCallContext) -> None:
        await question(context, key="1")
        await question(context, key="2")
        with pytest.raises(DirectFailed, match="stopped after 1,100 tokens; the limit is 1,000"):
            await question(context, key="3")

    asked = await play(ask, provider, turn_limits=TurnLimits(tokens=1_000))
    assert asked.outcome is not None
    assert (asked.outcome.status, asked.outcome.usage.tokens) == ("completed", 1_100)
    first, second = (request.max_output_tokens for request in provider.requests)
    assert first is not None
    assert second is not None
    assert (first > 900, second) == (True, 256)


async def test_questions_side_by_side_share_what_is_left() -> None:
    """Questions that are asked at the same time never use the same rest: each begins when the one before has ended."""
    provider = ScriptedProvider((Pause("first"), *text("one", usage=Usage(input_tokens=1_000))), text("never"))
    refused: list[str] = []

    async def ask(context: BeforeCallContext) -> None:
        async def second() -> None:
            with pytest.raises(DirectFailed) as caught:
                await question(context, key="2")
            refused.append(str(caught.value))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(question, context, "1")
            await provider.wait_for_pause("first")
            nursery.start_soon(second)
            await wait_all_tasks_blocked()
            provider.release("first")

    await play(ask, provider, turn_limits=TurnLimits(tokens=1_000))
    assert (refused, len(provider.requests)) == (["stopped after 1,000 tokens; the limit is 1,000"], 1)


async def test_a_question_that_is_cancelled() -> None:
    """A question that its asker gives up is counted for what it had, and its key is free again."""
    provider = ScriptedProvider((TextChunk(text="abc"), Pause("here"), Hang()), text("now", usage=USED))
    found: list[str] = []

    async def ask(context: BeforeCallContext) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(question, context)
            await provider.wait_for_pause("here")
            nursery.cancel_scope.cancel()
        found.append((await question(context)).text)

    asked = await play(ask, provider)
    assert found == ["now"]
    assert [event.usage.estimated for event in asked.recorded] == [True, False]


async def test_a_stop_while_a_question_is_asked() -> None:
    """A stop ends a question like everything else: it is counted, the turn is stopped, and the next one runs."""
    provider = ScriptedProvider((TextChunk(text="abc"), Pause("here"), Hang()), text("now"))
    factory = Watched(before_model_call=lambda context, _: question(context))
    async with open_checked_service(scripted(provider, **factory.settings())) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "hello")
        await provider.wait_for_pause("here")
        await service.request_stop(session_id)
        assert (await service.wait_for_turn(session_id)).outcome.status == "stopped"
        assert [each.usage.estimated for each in of_type(service, session_id, ev.UsageRecorded)] == [True]
        factory.acts.clear()
        await service.send_user_message(session_id, "again")
        assert (await service.wait_for_turn(session_id)).outcome.final_text == "now"


@pytest.mark.parametrize(
    ("source", "key", "field"),
    [
        ("\ud800", "k", "source"),
        ("s", 7, "key"),
        ("", "k", "source"),
        (" ", "k", "source"),
        ("s", "", "key"),
        ("s", "k" * (limits.MAX_NAME_CHARS + 1), "key"),
    ],
)
async def test_names_that_are_none(source: str, key: Any, field: str) -> None:
    """A purpose or a key that is blank, too long or no text is refused."""

    async def ask(context: BeforeCallContext) -> None:
        with pytest.raises(InvalidInput) as caught:
            await context.complete(QUESTION, source=source, key=key)
        assert caught.value.field == field

    asked = await play(ask)
    assert asked.outcome is not None
    assert asked.outcome.error is None


async def test_a_model_that_there_is_not() -> None:
    """Only models of the service can be asked."""

    async def ask(context: BeforeCallContext) -> None:
        with pytest.raises(DirectFailed, match="there is no model called 'gone' here"):
            await question(context, model="gone")

    assert (await play(ask)).usage_by == ()


async def test_asking_too_late() -> None:
    """After its callback a protocol asks nothing any more, not even by a task that has outlived it."""
    contexts: list[BeforeCallContext] = []

    async def ask(context: BeforeCallContext) -> None:
        await trio.lowlevel.checkpoint()
        contexts.append(context)

    await play(ask)
    async with trio.open_nursery() as nursery:

        async def late() -> None:
            with pytest.raises(CallbackContextExpired):
                await question(contexts[0])

        nursery.start_soon(late)
