"""A program that dies by SIGKILL at each of its system calls in turn; run as `python -m tests....`, told a folder.

For every number it forks a child that works in a folder of its own and kills itself at that call, until one child gets
through to its end. The parent of it all looks at what the children left.
"""

import os
import signal
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from session_core.ids import TurnId
from tests.session_core.checkpoints._world import SESSION, World

DEADLY = ("open", "write", "fsync", "rename", "replace", "unlink", "mkdir", "fchmod")
FILES = {"a": (b"old a" * 1000, 0o755), "b": (b"old b", 0o600), "d/c": (b"", 0o644)}


def save(world: World) -> None:
    """A turn that changes, removes and makes files."""
    world.agent_writes("turn_1", "a", "new a")
    world.agent_removes("turn_1", "b")
    world.agent_writes("turn_1", "d/c", "new c")
    world.agent_writes("turn_1", "n", "new n")
    world.end("turn_1")


def restore(world: World) -> None:
    """An undo of that turn."""
    undo_id = world.undo("turn_1", noted=True).undo_turn_id
    assert undo_id is not None
    world.store.finish_undo(SESSION, undo_id)


def command(world: World) -> None:
    """A turn that runs a command."""
    world.store.snapshot_tree(SESSION, TurnId("turn_1"), world.workspace)
    world.user_writes("a", "new a")
    (world.root / "b").unlink()
    world.end("turn_1")


def die_at(number: int) -> None:
    """Kill this process at its nth call."""
    left = [number]

    def deadly(call: Callable[..., Any]) -> Callable[..., Any]:
        def count(*arguments: Any, **named: Any) -> Any:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return call(*arguments, **named)

        return count

    for name in DEADLY:
        setattr(os, name, deadly(getattr(os, name)))


def child(folder: Path, what: str, number: int) -> None:
    """Prepare a world, then do the work and die on the way."""
    folder.mkdir()
    # A killed process loses nothing that the system has got; only a loss of power does.
    setattr(os, "fsync", os.fstat)  # noqa: B010 - type checkers know better
    world = World(folder=folder)
    for path, (content, mode) in FILES.items():
        world.user_writes(path, content, mode)
    if what == "restore":
        save(world)
        world.reopen()
    die_at(number)
    {"save": save, "restore": restore, "command": command}[what](world)


def main() -> None:
    """Play all deaths."""
    folder, what = Path(sys.argv[1]), sys.argv[2]
    for number in range(1, 1_000):
        process = os.fork()
        if process == 0:
            try:
                child(folder / str(number), what, number)
                os._exit(0)
            except Exception:  # noqa: BLE001 - whatever it was, it is told, and the child ends
                traceback.print_exc()
            finally:
                os._exit(1)  # a child must never return into the loop
        status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        if status != -signal.SIGKILL:
            sys.exit(status)
    sys.exit("it never came to its end")


if __name__ == "__main__":
    main()
