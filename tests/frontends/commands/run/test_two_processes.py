"""One process runs a session in a home, others look on, and one of them is killed."""

import re
import signal
import subprocess
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

import session_core as sc
from tests.frontends._kept import kept_sessions
from tests.frontends._program import LATELY, PROGRAM, ROOT, environment, program

PROMPT = "count to 1000 slowly"


@asynccontextmanager
async def running(*arguments: str) -> AsyncGenerator[trio.Process]:
    """Have a process in the middle of an answer; it is killed at the end, if it still lives."""
    process = await trio.lowlevel.open_process(
        [*PROGRAM, "run", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=ROOT,
        env=environment(),
    )
    assert process.stdout is not None
    try:
        said = b""
        with trio.fail_after(120):
            while b"3 " not in said:
                chunk = await process.stdout.receive_some(100)
                assert chunk, "it ended before it had begun"
                said += chunk
        yield process
    finally:
        process.kill()
        with trio.CancelScope(shield=True):
            await process.wait()
            await process.stdout.aclose()


async def recorded(home: Path, activity: str) -> None:
    """Wait until the list on disk says what the one session does; another process writes it."""
    with trio.fail_after(120):
        while True:
            sessions = await kept_sessions(home)
            if sessions[PROMPT].activity.name == activity:
                return


@pytest.mark.slow
async def test_beside_a_running_process_and_after_its_death(home: Path, tmp_path: Path) -> None:
    """Reading works beside the process that runs a session, writing names it; after kill -9 the session can go on."""
    async with running("--cwd", str(tmp_path), PROMPT) as holder:
        await recorded(home, "streaming")
        shown = await program("show", PROMPT)
        refused = await program("rename", PROMPT, "x")
        holder.send_signal(signal.SIGKILL)
        await holder.wait()

    assert "demo is writing" in shown.out
    first, second = refused.err.splitlines()
    assert (1, "") == (refused.code, refused.out)
    assert first.startswith(f"session-core: this home is in use by process {holder.pid} (")
    assert second.strip().startswith("sessions, show, export")

    remains = await program("sessions")
    went_on = await program("run", "--session", PROMPT, "count to 2")
    assert re.search(f" interrupted +{LATELY}  count to 1000 slowly ", remains.out), "nobody runs it any more"
    assert 0 == went_on.code
    assert went_on.out.endswith("\n1 2 Done.\n")
    assert "✗ Its last turn was interrupted: the program that ran it ended; its partial answer was kept." in went_on.err
    assert (await kept_sessions(home))[PROMPT].activity == sc.Activity(name="idle")


@pytest.mark.slow
async def test_every_command_beside_a_running_process(home: Path, tmp_path: Path) -> None:
    """Listing, searching, a backup and a run without saving work beside the process that runs a session."""
    async with running("--cwd", str(tmp_path), PROMPT):
        await recorded(home, "streaming")
        listed = await program("sessions")
        found = await program("sessions", "--search", "slowly")
        backup = await program("store", "backup", str(tmp_path / "copy.sqlite3"))
        unsaved = await program("run", "--no-save", "--quiet", "count to 2")

    assert re.search(f" answering +{LATELY}  count to 1000 slowly ", listed.out)
    assert "you: count to 1000 slowly" in found.out
    assert (0, "") == (backup.code, backup.err)
    assert (0, "1 2 Done.\n") == (unsaved.code, unsaved.out)


@pytest.mark.slow
async def test_every_command_after_the_death_of_a_process(home: Path, tmp_path: Path) -> None:
    """A session whose process was killed is shown with its partial answer, and can be renamed."""
    async with running("--cwd", str(tmp_path), PROMPT):
        await recorded(home, "streaming")

    remains = await program("show", PROMPT)
    assert "✗ interrupted: the program that ran it has ended; this is what was saved" in remains.out
    assert "\ndemo, cut short\n" in remains.out
    assert remains.err.startswith("Continue with: session-core run --session ")
    assert '"..."' not in remains.err

    renamed = await program("rename", PROMPT, "numbers")
    again = await program("sessions")
    shown = await program("show", "numbers")
    assert (0, "") == (renamed.code, renamed.err)
    assert re.search(f" interrupted +{LATELY}  numbers ", again.out)
    assert "■ the service ended here" in shown.out
    assert "\n1 2 " in shown.out


@pytest.mark.slow
async def test_an_interrupted_turn_goes_on_without_a_word(home: Path, tmp_path: Path) -> None:
    """`run --continue` without a prompt lets the model go on where a killed process left it."""
    here = str(tmp_path)
    async with running("--cwd", here, "count to 12 slowly"):
        pass  # killed at the end of the block
    ended = await program("run", "--continue", "--cwd", here)

    assert 0 == ended.code
    assert "Its last turn was interrupted" in ended.err
    assert "✓ completed in" in ended.err
    assert ended.out.endswith("\n1 2 3 4 5 6 7 8 9 10 11 12 Done.\n"), "it counts again"
