"""A child and its pipes, without anybody who restarts it."""

import os
import signal
import sys
from pathlib import Path

import pytest
import trio

from session_core.sep.host.process.extension_log import ExtensionLog
from session_core.sep.host.process.launch_command import ExtensionLaunch
from session_core.sep.host.process.process import open_extension_process
from tests.session_core.sep._children import PATIENCE, is_alive, own_descriptors


def python(code: str, folder: Path) -> ExtensionLaunch:
    return ExtensionLaunch(argv=(sys.executable, "-I", "-S", "-c", code), env={}, cwd=str(folder))


async def test_the_group_can_be_killed_at_once(tmp_path: Path) -> None:
    """A kill ends the child and what it has started, and tells why it is over."""
    code = "import os, signal; print(os.fork(), flush=True); signal.signal(15, signal.SIG_IGN); signal.pause()"
    log = ExtensionLog().open_process_log()
    with trio.fail_after(PATIENCE):
        async with open_extension_process(python(code, tmp_path), log, name="x") as process:
            while len(log.whole.lines()) < 2:  # noqa: ASYNC110 - another process writes them
                await trio.sleep(0.01)
            os.killpg(process.pid, signal.SIGKILL)
            assert await process.wait_over() == "its process was ended by SIGKILL"
            assert await process.wait_exit() == -9
    (grandchild,) = [int(line.text) for line in log.whole.lines() if line.text != "0"]
    assert not is_alive(grandchild)


async def test_an_error_in_the_block_ends_the_child(tmp_path: Path) -> None:
    """Whatever happens to those who use it, the child and its descriptors are gone when the block is left."""
    before = own_descriptors()
    launch, pids = python("import signal; signal.pause()", tmp_path), list[int]()
    with pytest.RaisesGroup(pytest.RaisesExc(ValueError, match="our own")), trio.fail_after(PATIENCE):
        async with open_extension_process(launch, ExtensionLog().open_process_log(), name="x") as process:
            pids.append(process.pid)
            raise ValueError("our own")
    assert [is_alive(pid) for pid in pids] == [False]
    assert own_descriptors() == before


async def test_the_last_words_are_read_to_the_end(tmp_path: Path) -> None:
    """What a child writes to stderr right before its exit is in the log when the block is left, to the last byte."""
    log = ExtensionLog().open_process_log()
    code = "import os; os.write(2, b'a\\n' * 500 + b'the very last'); os._exit(1)"
    with trio.fail_after(PATIENCE):
        async with open_extension_process(python(code, tmp_path), log, name="x") as process:
            assert await process.wait_over() == "its process ended with exit status 1"
    assert log.last_words() == "the very last"


async def test_the_end_of_stdin_is_told(tmp_path: Path) -> None:
    """A child that waits for the end of its input hears it when that is closed, and may still write."""
    code = "import sys; sys.stdin.read(); sys.stderr.write('heard it'); sys.exit(7)"
    log = ExtensionLog().open_process_log()
    with trio.fail_after(PATIENCE):
        async with open_extension_process(python(code, tmp_path), log, name="x") as process:
            await process.close_stdin()
            assert await process.wait_exit() == 7
    assert log.last_words() == "heard it"
