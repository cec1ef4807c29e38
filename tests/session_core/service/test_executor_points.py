"""What code has left behind belongs to points of the conversation: going back, and forking, go on from what it was."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from session_core import limits
from session_core.ids import MessageId, SessionId
from session_core.protocols.api import ProtocolBundle
from session_core.protocols.contexts import BuildContext
from session_core.protocols.execution import Cell, CellResult, Execution, KeptState, StateCapture, compute_digest
from session_core.service.service import SessionService, open_session_service
from session_core.storage.maintenance.export_import import import_session
from session_core.storage.maintenance.rebuild import rebuild_store
from session_core.storage.maintenance.verify import verify_store
from session_core.storage.sqlite import SqliteStore
from session_core.storage.sqlite_reader import SqliteReader
from session_core.testing.scripted import text
from session_core.vocabulary import commands as c
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.protocols import ExecutorState, StateLeaf
from tests.session_core.service._helpers import new_session, say, scripted, transcript
from tests.session_core.service._protocols import CellDriver, ToyExecutor, Watched
from tests.session_core.storage.maintenance._exports import exported

MUCH = 600


class Keeper(ToyExecutor):
    """Says which cells it knows; keeps each of them as a leaf."""

    async def execute(self, cell: Cell, execution: Execution) -> CellResult:
        if cell.code != "show":
            self.cells.append(cell.code)
        return CellResult(output=",".join(self.cells))

    async def capture(self) -> StateCapture:
        new = {compute_digest(_leaf(each)): _leaf(each) for each in self.cells if each not in self.known}
        leaves = tuple(
            StateLeaf(name=each, digest=compute_digest(_leaf(each)), size=len(_leaf(each))) for each in self.cells
        )
        return StateCapture(state=ExecutorState(engine="toy", version=1, root=JsonObject(), leaves=leaves), new=new)

    async def restore(self, saved: KeptState | None) -> None:
        self.cells = [] if saved is None else [leaf.name for leaf in saved.state.leaves]
        self.known = list(self.cells)


def _leaf(cell: str) -> bytes:
    return cell.encode() * MUCH


class Each(Watched):
    """Gives each session an executor of its own."""

    def build(self, context: BuildContext) -> ProtocolBundle:
        return ProtocolBundle(driver=CellDriver(), executor=Keeper())


@asynccontextmanager
async def opened(place: Path, cells: Sequence[str]) -> AsyncGenerator[SessionService]:
    """A service whose model has one cell run in each turn, and says that it is done."""
    answers = [answer for cell in cells for answer in (text(f"run {cell}"), text("done"))]
    config = scripted(*answers, store=SqliteStore(place), **Each().settings())
    async with open_session_service(config) as service:
        yield service


async def shown(service: SessionService, session_id: SessionId) -> str:
    """Play a turn and return what its cell was told, without the mark."""
    assert (await say(service, session_id)).status == "completed"
    told = [said for role, said in await transcript(service, session_id) if role == "user" and said[0] == "["]
    return told[-1].partition("\n")[2]


async def undo(service: SessionService, session_id: SessionId) -> None:
    """Go back to before the newest message of the user."""
    await service.execute(c.RestoreToMessage(session_id=session_id, files=False))


async def heads(service: SessionService, session_id: SessionId) -> MessageId:
    """Return where the conversation is."""
    head = (await service.load_session(session_id)).head
    assert head is not None
    return head


async def test_going_back_brings_the_state_of_then(tmp_path: Path) -> None:
    """After an undo code finds what the turns before have left, as it does when the undo is gone back on."""
    async with opened(tmp_path, ["a", "b", "show", "c", "show"]) as service:
        session_id = await new_session(service)
        assert ["a", "a,b"] == [await shown(service, session_id) for _ in range(2)]
        both = await heads(service, session_id)
        await undo(service, session_id)
        assert ["a", "a,c"] == [await shown(service, session_id) for _ in range(2)]
        await service.execute(c.SwitchBranch(session_id=session_id, message_id=both))
        assert "a,b" == await shown(service, session_id)


async def test_going_back_holds_after_a_restart(tmp_path: Path) -> None:
    """What an undo has brought back is what a program that starts again goes on from."""
    async with opened(tmp_path, ["a", "b"]) as service:
        session_id = await new_session(service)
        for _ in range(2):
            await shown(service, session_id)
        await undo(service, session_id)
    async with opened(tmp_path, ["show", "c"]) as service:
        assert ["a", "a,c"] == [await shown(service, session_id) for _ in range(2)]


async def test_going_back_to_the_beginning(tmp_path: Path) -> None:
    """Before the first cell there was nothing, and nobody has to be told."""
    async with opened(tmp_path, ["a", "show"]) as service:
        session_id = await new_session(service)
        await shown(service, session_id)
        await undo(service, session_id)
        assert "(no output)" == await shown(service, session_id)


async def test_going_back_too_far(tmp_path: Path) -> None:
    """Where the state is no longer stored code begins anew, and the model is told, once."""
    cells = [f"c{number}" for number in range(limits.MAX_EXECUTOR_POINTS + 2)]
    async with opened(tmp_path, [*cells, "show", "show"]) as service:
        session_id = await new_session(service)
        for _ in cells:
            await shown(service, session_id)
        for _ in range(limits.MAX_EXECUTOR_POINTS):
            await undo(service, session_id)
        assert (await service.load_session(session_id)).executor_lost
        told = await shown(service, session_id)
        assert "no longer stored" in told
        assert "c0" not in told
        assert "(no output)" == await shown(service, session_id)


async def test_a_fork_has_what_its_origin_has(tmp_path: Path) -> None:
    """A fork goes on from what code has left at its point, after a restart too, and changes nothing of its origin."""
    async with opened(tmp_path, ["a", "b", "c", "d"]) as service:
        session_id = await new_session(service)
        await shown(service, session_id)
        first = await heads(service, session_id)
        await shown(service, session_id)
        newest = (await service.fork_session(session_id)).session_id
        older = (await service.fork_session(session_id, at_message_id=first)).session_id
        assert "a,c" == await shown(service, older)
        await service.execute(c.DeleteSession(session_id=session_id))
        assert "a,b,d" == await shown(service, newest)
    async with opened(tmp_path, ["show", "show"]) as service:
        assert ["a,b,d", "a,c"] == [await shown(service, each) for each in (newest, older)]


async def test_a_fork_from_before_what_is_kept(tmp_path: Path) -> None:
    """A fork of a point whose state is gone begins anew, and its model is told."""
    cells = [f"c{number}" for number in range(limits.MAX_EXECUTOR_POINTS + 1)]
    async with opened(tmp_path, [*cells, "show"]) as service:
        session_id = await new_session(service)
        await shown(service, session_id)
        first = await heads(service, session_id)
        for _ in cells[1:]:
            await shown(service, session_id)
        fork = (await service.fork_session(session_id, at_message_id=first)).session_id
        assert "no longer stored" in await shown(service, fork)


async def test_a_fork_in_the_middle_of_a_turn(tmp_path: Path) -> None:
    """Where a turn is cut through, code has what the turn before has left, and the model is told."""
    async with opened(tmp_path, ["a", "b", "show"]) as service:
        session_id = await new_session(service)
        for _ in range(2):
            await shown(service, session_id)
        messages: Any = (await service.load_session(session_id)).transcript
        cell = next(each for each in reversed(messages) if each.source is not None)
        fork = (await service.fork_session(session_id, at_message_id=cell.message_id)).session_id
        told = await shown(service, fork)
    assert "into the middle of a turn" in told
    assert "\na" == told[-2:]


async def test_upkeep_knows_of_earlier_states(tmp_path: Path) -> None:
    """A store that is checked, rebuilt, and exported to another one keeps what people may go back to."""
    async with opened(tmp_path / "old", ["a", "b", "c"]) as service:
        session_id = await new_session(service)
        for _ in range(2):
            await shown(service, session_id)
        await undo(service, session_id)
        await shown(service, session_id)
    assert verify_store(tmp_path / "old").findings == ()
    assert rebuild_store(tmp_path / "old").lost == ()
    reader = SqliteReader(tmp_path / "old")
    async with reader.open_reader():
        lines = await exported(reader, session_id)
    await import_session(lines, SqliteStore(tmp_path / "new"), settings=None)
    for place in ("old", "new"):
        assert verify_store(tmp_path / place).findings == ()
        async with opened(tmp_path / place, ["show"]) as service:
            await undo(service, session_id)
            assert "a" == await shown(service, session_id)
