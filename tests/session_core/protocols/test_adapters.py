"""Short ways to write a protocol: an executor without state, and prose by a plain function."""

from collections.abc import Iterable
from typing import Any

import pytest
import trio

from session_core.protocols.adapters import ProseFunction, ProseProtocol, StatelessExecutor
from session_core.protocols.api import ProtocolBundle, ProtocolFactory
from session_core.protocols.contexts import BuildContext
from session_core.protocols.execution import Cell, CellResult, Execution, KeptState
from session_core.protocols.faults import StateNotKeepable, StateRejected
from session_core.protocols.prose import Span, project_text
from session_core.storage.memory import MemoryStore
from session_core.testing.check_protocol import CellSamples, check_protocol
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import ScriptedProvider, text
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import CodePart, TextPart
from session_core.vocabulary.protocols import ExecutorState
from tests.session_core.service._helpers import new_session, say, scripted, transcript
from tests.session_core.service._protocols import CellDriver, Watched, serving


class Echo(StatelessExecutor):
    """Says what it is given; `wait` never ends."""

    language = "toy"

    async def execute(self, cell: Cell, execution: Execution) -> CellResult:
        if cell.code == "wait":
            await trio.sleep_forever()
        await trio.lowlevel.checkpoint()
        return CellResult(output=cell.code)


class EchoProtocol(ProtocolFactory):
    """Runs every answer that says `run ...`."""

    id = "echo"

    def build(self, context: BuildContext) -> ProtocolBundle:
        return ProtocolBundle(driver=CellDriver(), executor=Echo())


def below_the_line(answer: str) -> Iterable[Span]:
    """Show people what follows a line of three dashes."""
    hidden, line, shown = answer.rpartition("---\n")
    if hidden or line:
        yield "code", hidden + line
    yield "text", shown


async def test_a_stateless_executor_conforms() -> None:
    """An executor that only runs cells keeps the promises of all executors; those about state do not apply."""
    cells = CellSamples(defines="x", shows="y", endless="wait")
    report = await check_protocol(EchoProtocol, script=(text("run x"), text("It is x.")), cells=cells)
    assert {name for name, why in report.skipped.items() if why == "its executor keeps no state"} == {
        "what_code_leaves_behind_is_kept",
        "an_aborted_capture_is_offered_again",
        "a_wrong_state_is_rejected",
    }


async def test_what_a_stateless_executor_has() -> None:
    """It has nothing to save, takes no state of others, and runs in a session that comes back."""
    executor = Echo()
    await executor.probe()
    await executor.restore(None)
    with pytest.raises(StateNotKeepable):
        await executor.capture()
    foreign = KeptState(state=ExecutorState(engine="toy", version=1, root=JsonObject()), leaves={})
    with pytest.raises(StateRejected, match="cannot take that of 'toy'"):
        await executor.restore(foreign)
    assert not executor.dirty

    def answering() -> dict[str, Any]:
        return {"models": {"m": ScriptedProvider(text("run a"), text("done"))}}

    store = MemoryStore()
    async with serving(store, Watched(driver=CellDriver(), executor=Echo()), **answering()) as service:
        session_id = await new_session(service)
        await say(service, session_id)
    async with serving(store, Watched(driver=CellDriver(), executor=Echo()), **answering()) as service:
        await say(service, session_id)
        snapshot = await service.load_session(session_id)
        assert (snapshot.executor, snapshot.executor_points) == (None, ())
        cells = [said for role, said in await transcript(service, session_id) if said.startswith("[Output")]
        assert cells == ["[Output of the cell]\na"] * 2


async def test_a_function_as_a_protocol() -> None:
    """A function that divides answers is a whole protocol: people see its text, and models all of the answer."""
    provider = ScriptedProvider(text("I think", "...\n--", "-\nIt is 4."), text("just this"))
    config = scripted(provider, protocols=(ProseProtocol("lined", below_the_line),), protocol="lined")
    async with open_checked_service(config) as service:
        session_id = await new_session(service)
        assert (await say(service, session_id)).final_text == "It is 4."
        await say(service, session_id, "more")
        answers = [each for each in (await service.load_session(session_id)).transcript if each.role == "assistant"]
        assert [each.parts for each in answers] == [
            (CodePart(text="I think...\n---\n"), TextPart(text="It is 4.")),
            (TextPart(text="just this"),),
        ]
    await check_protocol(ProseProtocol("lined", below_the_line))


async def test_a_function_that_loses_text(quiet_log: None) -> None:
    """A function that changes an answer fails the turn, and is named."""
    lossy = ProseProtocol("lossy", lambda answer: [("text", answer[1:])])
    async with open_checked_service(scripted(text("abc"), protocols=(lossy,), protocol="lossy")) as service:
        outcome = await say(service, await new_session(service))
        assert (outcome.status, outcome.error) == (
            "failed",
            "the protocol lossy failed in prose: it returned text that differs from the answer",
        )


def test_an_empty_answer() -> None:
    """The function is not asked about an answer without text."""
    asked: list[str] = []

    def note(answer: str) -> Iterable[Span]:
        asked.append(answer)
        return [("text", answer)]

    assert project_text(ProseFunction(note), "") == ()
    assert project_text(ProseFunction(note), "a") == (("text", "a"),)
    assert asked == ["a"]
