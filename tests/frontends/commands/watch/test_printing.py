"""What `watch` has to print when its end comes."""

from pathlib import Path
from typing import Any, cast

import trio

import session_core as sc
from frontends.commands.watch.watch import WatchOptions, _Watching
from frontends.shared.output import Output
from frontends.shared.streams import StandardStreams
from frontends.shared.style import Style


class SlowTerminal:
    """Takes what is printed when it is told to."""

    style = Style()

    def __init__(self) -> None:
        self.ready = trio.Event()
        self.shown = ""

    async def write(self, data: str | bytes) -> None:
        """Print."""
        await trio.lowlevel.checkpoint()
        await self.ready.wait()
        self.shown += data if isinstance(data, str) else data.decode()

    async def write_json(self, data: bytes) -> None:
        """Print JSON."""
        await self.write(data)

    def same_place(self, other: object) -> bool:
        """Whether lines of both meet."""
        return self is other


def watching_on(terminal: SlowTerminal, *, json: bool = False) -> _Watching:
    """A watch that prints there."""
    return _Watching(
        WatchOptions(home=Path("/"), json=json), StandardStreams(out=cast("Any", terminal), err=Output(None))
    )


async def test_what_was_taken_is_printed(autojump_clock: trio.testing.MockClock) -> None:
    """Text that was on its way when another session's end ended the watching is not lost."""
    terminal = SlowTerminal()
    watching = watching_on(terminal)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watching._write, [], lambda: "the last words\n")
        await trio.testing.wait_all_tasks_blocked()
        watching.limit_remaining_output()
        nursery.cancel_scope.cancel()
        terminal.ready.set()
    assert "the last words\n" == terminal.shown


async def test_what_waits_its_turn_is_printed(autojump_clock: trio.testing.MockClock) -> None:
    """With --json, what one session had to say while another's was being printed comes at the very end."""
    terminal = SlowTerminal()
    watching = watching_on(terminal, json=True)
    snapshot = sc.ServiceSnapshot(cursor=sc.Cursor(epoch=sc.Epoch("run_1"), seq=1), sessions=())
    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(watching._write, [snapshot], str)
        await trio.testing.wait_all_tasks_blocked()
        watching.limit_remaining_output()
        nursery.cancel_scope.cancel()
        terminal.ready.set()
    await watching.finish()
    assert 3 * (sc.wire.encode(snapshot) + b"\n").decode() == terminal.shown


async def test_a_terminal_that_takes_nothing_holds_up_nobody(autojump_clock: trio.testing.MockClock) -> None:
    """Whoever wants to leave is not kept for longer than a moment."""
    watching = watching_on(SlowTerminal())
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watching._write, [], lambda: "never shown\n")
        await trio.testing.wait_all_tasks_blocked()
        watching.limit_remaining_output()
        nursery.cancel_scope.cancel()
    await watching.finish()
    assert 1.0 == trio.current_time() - began


async def test_a_note_has_its_own_line() -> None:
    """What is said about the connection in the middle of an answer begins a new line, and only then."""
    terminal = SlowTerminal()
    terminal.ready.set()
    both = StandardStreams(out=cast("Any", terminal), err=cast("Any", terminal))
    watching = _Watching(WatchOptions(home=Path("/")), both)
    await watching._write([], lambda: "1 2 3")
    await watching._remark("lost")
    await watching._remark("there again")
    await watching._write([], lambda: " 4\n")
    await watching._remark("ended")
    assert "1 2 3\n(lost)\n(there again)\n 4\n(ended)\n" == terminal.shown
