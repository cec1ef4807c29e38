"""What /proc says of processes: who is below whom, who is alive, and who carries a mark."""

import os
import signal
import sys
import uuid
from pathlib import Path

import pytest

from session_core.processes import process_table
from session_core.processes.child import Launch, open_child
from session_core.processes.process_table import descendants, kill_marked


def test_without_proc_every_member_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where zombies cannot be told from the living, a group with members counts as alive."""
    assert process_table.is_group_alive(os.getpgrp())
    assert not process_table.is_group_alive(2**22 + 1)

    monkeypatch.setattr(process_table, "_PROC", tmp_path / "gone")
    assert process_table.is_group_alive(2**22 + 1)


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="only Linux tells the variables of a process")
async def test_marked_processes_are_killed_wherever_they_are() -> None:
    """A process with the mark ends, in whatever session it is, and one with another mark does not."""
    marks = [f"A_MARK={uuid.uuid4().hex}" for _ in range(2)]
    code = "import os, signal; print(os.getpid(), flush=True); signal.pause()"

    def launch(mark: str) -> Launch:
        name, _, value = mark.partition("=")
        return Launch(argv=[sys.executable, "-I", "-S", "-c", code], cwd="/", env={name: value})

    async with open_child(launch(marks[0])) as first, open_child(launch(marks[1])) as second:
        for each in (first, second):
            assert int(await each.stdout.receive_some()) in descendants(os.getpid())
        kill_marked(marks[0].encode())
        assert await first.wait() == -signal.SIGKILL
        assert second.exit_code is None
