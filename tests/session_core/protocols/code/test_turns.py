"""Turns of models that write code, from the message to the outcome; what runs the code is a double."""

from itertools import pairwise
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from session_core.ids import SessionId
from session_core.protocols.execution import CellResult, Execution
from session_core.providers.base import ModelFinished, TextChunk
from session_core.service.service import SessionService
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import (
    Hang,
    Pause,
    ScriptedAnswer,
    ScriptedProvider,
    ScriptedTool,
    failure,
    text,
    tool_call,
)
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import TextPart, ToolResultPart
from session_core.vocabulary.sessions import TurnLimits, TurnOutcome
from tests.session_core.protocols.code._fake_executor import CELLS, FakeExecutor, cell, coding
from tests.session_core.service._helpers import new_session, recorded, say, scripted, transcript

SCHEMA = JsonObject({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})


class Played:
    """A service in which a model writes code, and one session of it."""

    def __init__(self, service: SessionService, session_id: SessionId, executor: FakeExecutor) -> None:
        self.service = service
        self.session_id = session_id
        self.executor = executor

    async def said(self) -> list[tuple[str, str]]:
        """The conversation after the first message, as people see it."""
        return (await transcript(self.service, self.session_id))[1:]

    def shown_text(self) -> str:
        """All that people were ever shown as text: as it streamed, and in whole messages."""
        kinds: dict[str, str] = {}
        shown: list[str] = []
        for each in recorded(self.service, self.session_id):
            event = each.event
            if isinstance(event, ev.PartStarted):
                kinds[event.message_id] = event.kind
            elif isinstance(event, ev.PartDelta) and kinds[event.message_id] == "text":
                shown.append(event.text)
            elif isinstance(event, ev.MessageCompleted):
                shown += [part.text for part in event.message.parts if isinstance(part, TextPart)]
        return "".join(shown)


async def play(*answers: ScriptedAnswer, **sent: Any) -> tuple[TurnOutcome, list[tuple[str, str]], FakeExecutor]:
    """Run a turn; returns its outcome, the conversation after the first message, and the executor."""
    executor = FakeExecutor(CELLS)
    provider = ScriptedProvider(*answers)
    async with open_checked_service(scripted(provider, **coding(executor))) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go", **sent)
        outcome = (await service.wait_for_turn(session_id)).outcome
        played = Played(service, session_id, executor)
        assert "```" not in played.shown_text()
        return outcome, await played.said(), executor


async def test_prose_only_finishes() -> None:
    """An answer without a cell is the turn's answer."""
    outcome, said, executor = await play(text("It is ", "4."))
    assert ("completed", "It is 4.", 1, None) == (outcome.status, outcome.final_text, outcome.steps, outcome.output)
    assert [("assistant", "It is 4.")] == said
    assert [] == executor.ran


async def test_a_cell_its_output_and_an_answer() -> None:
    """A cell is run, its output is told to the model, and the model's next answer ends the turn."""
    provider = ScriptedProvider(text(cell("look()", "I look.\n", "\nIt says 5.")), text("There are 4."))
    executor = FakeExecutor(CELLS)
    tool = ScriptedTool("todo.add")
    async with open_checked_service(scripted(provider, tools=(tool,), **coding(executor))) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id)
        assert ("completed", "There are 4.", 2) == (outcome.status, outcome.final_text, outcome.steps)
        assert [
            ("user", "hello"),
            ("assistant", "I look.\n"),
            ("user", "[Output of the cell]\n4 files"),
            ("assistant", "There are 4."),
        ] == await transcript(service, session_id)
    first, second = provider.requests
    assert () == first.tools
    assert "todo_add(**arguments): The scripted tool todo.add." in first.system
    assert cell("look()", "I look.\n", "\nIt says 5.") == second.messages[1].written_text
    assert ["look()"] == executor.ran


async def test_an_error_is_data() -> None:
    """What goes wrong in a cell is told to the model, with what was printed before, and the turn goes on."""
    outcome, said, _ = await play(text(cell("fail()")), text("It failed."))
    assert ("completed", "It failed.") == (outcome.status, outcome.final_text)
    assert ("user", "[Output of the cell]\nbegun\nTraceback\nZeroDivisionError: no") == said[1]


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (text("I look.\n```python\nlook()"), "no closing fence"),
        (text("I look.\n```python\n```"), "no code"),
        (text("I look.\n```python look()```"), "after the language"),
        ((TextChunk(text="I look.\n```py"), ModelFinished(stop_reason="max_tokens")), "cut off"),
    ],
)
async def test_broken_cells_are_repaired(broken: ScriptedAnswer, why: str) -> None:
    """A cell that cannot be run is told as that, and the next one is run."""
    outcome, said, executor = await play(broken, text(cell("look()")), text("4"))
    assert ("completed", "4", 3) == (outcome.status, outcome.final_text, outcome.steps)
    assert ("assistant", "I look.\n") == said[0]
    assert why in said[1][1]
    assert ["look()"] == executor.ran


async def test_only_the_first_cell_is_run() -> None:
    """Of two cells the first is run, and the model is told so beside its output."""
    _, said, executor = await play(text(cell("look()", after=f"\nthen\n{cell('fail()')}")), text("4"))
    assert ["look()"] == executor.ran
    assert "[Output of the cell]\n4 files" == said[1][1]
    assert "Only the first cell" in said[2][1]


async def test_native_calls_are_refused() -> None:
    """A tool that is called by the means of the model's interface, where none is offered, is not run."""
    tool = ScriptedTool("t")
    provider = ScriptedProvider(tool_call("t"), text("so"))
    async with open_checked_service(scripted(provider, tools=(tool,), **coding(FakeExecutor({})))) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id)
        messages = (await service.load_session(session_id)).transcript
    assert ("completed", []) == (outcome.status, tool.calls)
    (result,) = messages[2].parts
    assert isinstance(result, ToolResultPart)
    assert "error" == result.status
    assert "Python functions" in messages[3].text


# --- ends -------------------------------------------------------------------------------------------------------------


async def test_finish_gives_the_output() -> None:
    """The value of `finish` is the output of the turn, and the prose before it is its text."""
    outcome, _, _ = await play(text(cell("finish(3)", "Done.\n")))
    assert ("completed", 3, "Done.\n", 1) == (outcome.status, outcome.output, outcome.final_text, outcome.steps)


async def test_a_value_of_a_shape() -> None:
    """The model is told the shape, prose does not end the turn, a wrong value is told, and a right one ends it."""
    outcome, said, _ = await play(
        text("It is 3."), text(cell("finish(3)")), text(cell("finish({})")), output_schema=SCHEMA
    )
    assert ("completed", JsonObject({"n": 3}), 3) == (outcome.status, outcome.output, outcome.steps)
    told = [words for role, words in said if role == "user"]
    assert '"required": ["n"]' in told[0]
    assert "has no cell" in told[1]
    assert "The value given to finish is not right. At the whole" in told[3]


async def test_no_progress_fails_the_turn() -> None:
    """A model that gets nothing to run is stopped after five steps; the next turn begins anew."""
    fails, done = text(cell("fail()")), text("4")
    answers = (fails, text("```python\n"), text("```python\n```"), fails, fails, fails, done)
    async with open_checked_service(scripted(*answers, **coding(FakeExecutor(CELLS)))) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id)
        assert ("failed", 5) == (outcome.status, outcome.steps)
        why = "no progress: 5 steps in a row without a cell that ran well. The last problem: ZeroDivisionError: no"
        assert why == outcome.error
        assert ("completed", "4") == ((again := await say(service, session_id)).status, again.final_text)


async def test_a_model_that_fails() -> None:
    """A model that cannot be asked fails the turn; what it had begun to write stays, without the cell being seen."""
    begun = (TextChunk(text="I look.\n```pyt"), TextChunk(text="hon\nlook("), *failure("auth"))
    outcome, said, executor = await play(begun)
    assert ("failed", "auth: it failed") == (outcome.status, outcome.error)
    assert [("assistant", "I look.\n")] == said
    assert [] == executor.ran


async def test_steps_are_limited() -> None:
    """The limit of steps ends a turn that would go on writing cells."""
    executor = FakeExecutor(CELLS)
    provider = ScriptedProvider(*[text(cell("look()"))] * 9)
    async with open_checked_service(scripted(provider, **coding(executor))) as service:
        session_id = await new_session(service)
        await service.change_turn_limits(session_id, TurnLimits(steps=3))
        outcome = await say(service, session_id)
        assert ("limit_reached", 3) == (outcome.status, outcome.steps)
        assert ["look()"] * 3 == executor.ran


# --- what people see --------------------------------------------------------------------------------------------------

ENDINGS = (
    (ModelFinished(),),
    (ModelFinished(stop_reason="max_tokens"),),
    (ModelFinished(stop_reason="refused"),),
    failure("auth"),
    (),
    "stop",
)


@given(
    cuts=st.lists(st.integers(0, 60), max_size=6),
    length=st.integers(8, 60),
    ending=st.sampled_from(ENDINGS),
    rnd=st.random_module(),
)
async def test_cells_are_never_seen(cuts: list[int], length: int, ending: Any, rnd: Any) -> None:
    """However an answer is cut into chunks, wherever it breaks off and for whatever reason, no cell is seen as text."""
    whole = cell("look(secret)", "I look.\n", "\nIt says 5.")[:length]
    places = sorted({0, len(whole), *(cut % (len(whole) + 1) for cut in cuts)})
    chunks = [TextChunk(text=whole[a:b]) for a, b in pairwise(places)]
    stops = ending == "stop"
    first: Any = (*chunks, Pause("end"), Hang()) if stops else (*chunks, *ending)
    provider = ScriptedProvider(first, *[text("fine")] * 9)
    executor = FakeExecutor({"look(secret)": CellResult()})
    async with open_checked_service(scripted(provider, **coding(executor))) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        if stops:
            await provider.wait_for_pause("end")
            await service.request_stop(session_id)
        await service.wait_for_turn(session_id)
        shown = Played(service, session_id, executor).shown_text()
    left = shown.replace("fine", "").replace("I look.\n", "")
    assert not left.strip("`"), "only what breaks off before the third backtick has begun no cell"


async def test_a_stop_in_the_middle_of_a_cell() -> None:
    """A stop while a cell runs ends it, tells the model in the next turn, and leaves the session usable."""
    running = trio.Event()

    async def hang(_execution: Execution) -> CellResult:
        running.set()
        await trio.sleep_forever()
        raise AssertionError

    executor = FakeExecutor({**CELLS, "hang()": hang})
    provider = ScriptedProvider(text(cell("hang()", "I wait.\n")), text(cell("look()")), text("4"))
    async with open_checked_service(scripted(provider, **coding(executor))) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        await running.wait()
        await service.request_stop(session_id)
        assert "stopped" == (await service.wait_for_turn(session_id)).outcome.status
        assert "4" == (await say(service, session_id)).final_text
        said = await transcript(service, session_id)
    assert ("assistant", "I wait.\n") == said[1]
    assert "Stopped by the user." in said[2][1]
