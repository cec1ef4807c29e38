"""Stand-ins for missing protected paths: shared between processes, cleaned up after a crash, never a person's own."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from session_core.sandbox import mount_placeholders
from session_core.sandbox.mount_placeholders import CannotConfine, held_stand_ins
from session_core.sandbox.plan import SandboxPlan, hold_places, plan_sandbox
from session_core.sandbox.protected_mounts import clear_stand_ins
from session_core.sandbox.workspace import Workspace

_HOLDER = """
import os, sys
from session_core.sandbox.plan import SandboxPlan, hold_places
with hold_places(SandboxPlan(cwd="/", missing=tuple(sys.argv[1:3]), missing_files=tuple(sys.argv[3:]))):
    os.write(1, b"held\\n")
    sys.stdin.read()
"""


async def _hold(*paths: Path) -> trio.Process:
    """Start another process that holds these stand-ins until its input ends; the first two are folders."""
    holder = await trio.lowlevel.open_process(
        [sys.executable, "-c", _HOLDER, *map(str, paths)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert await holder.stdout.receive_some() == b"held\n"
    return holder


async def _end(holder: trio.Process, *, kill: bool = False) -> None:
    assert holder.stdin is not None
    assert holder.stdout is not None
    if kill:
        holder.kill()
    await holder.stdin.aclose()
    await holder.wait()
    await holder.stdout.aclose()


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_files_come_and_go(tmp_path: Path) -> None:
    """Files that stand in are taken away as folders are, unless somebody has written to them."""
    plan = SandboxPlan(cwd="/", missing_files=(str(tmp_path / ".bashrc"), str(tmp_path / ".zshrc")))
    with hold_places(plan):
        assert _names(tmp_path) == [".bashrc", ".zshrc"]
        with hold_places(plan):
            assert set(held_stand_ins()) == set(plan.missing_files)
            assert [path for path, _ in Workspace(str(tmp_path)).walk(".", ignore=None, limit=9)] == []
        (tmp_path / ".zshrc").write_text("mine")
    assert _names(tmp_path) == [".zshrc"]
    assert held_stand_ins() == ()


def test_a_login_meanwhile_reads_the_same_files(tmp_path: Path) -> None:
    """A login shell that starts while files stand in reads the start files that it would have read without them."""
    (tmp_path / ".profile").write_text("echo from the profile\n")
    plan = SandboxPlan(cwd="/", missing_files=tuple(str(tmp_path / name) for name in (".bash_profile", ".bash_login")))
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    with hold_places(plan):
        said = subprocess.check_output(["bash", "--login", "-c", "true"], env=environment, stderr=subprocess.STDOUT)
    assert b"from the profile" in said


async def test_the_last_process_takes_it_away(tmp_path: Path) -> None:
    """A stand-in that one process has made and another still needs goes with the other one."""
    a, b = tmp_path / "a", tmp_path / "b"
    plan = SandboxPlan(cwd="/", missing=(str(a), str(b)))
    holder = await _hold(a, b)
    with hold_places(plan):
        await _end(holder)
        assert _names(tmp_path) == ["a", "b"]
    assert _names(tmp_path) == []


def test_one_that_was_replaced_while_we_waited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A lock on a folder that was taken away in that moment is worth nothing: the new one is locked instead."""
    place = tmp_path / "a"
    really = fcntl.flock
    tries = 0

    def lock(descriptor: int, how: int) -> None:
        nonlocal tries
        tries += 1
        if tries <= 2:  # another run ends just now, and perhaps a third one begins
            place.rmdir()
        if tries == 1:
            place.mkdir()
        really(descriptor, how)

    with monkeypatch.context() as patched:
        patched.setattr(fcntl, "flock", lock)
        holding = hold_places(SandboxPlan(cwd="/", missing=(str(place),)))
        holding.__enter__()
    assert tries == 3
    descriptor = os.open(place, os.O_RDONLY)
    with pytest.raises(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(descriptor)
    holding.__exit__(None, None, None)
    assert _names(tmp_path) == []


def test_one_that_never_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a stand-in is taken away again and again, the run is refused rather than begun without it."""
    monkeypatch.setattr(mount_placeholders, "_is_same_file", lambda _path, _descriptor: False)
    with pytest.raises(CannotConfine, match="try again"), hold_places(SandboxPlan(cwd="/", missing=(f"{tmp_path}/a",))):
        pytest.fail("it began")


async def test_leftovers_of_a_killed_process(tmp_path: Path) -> None:
    """What a killed process has left goes away at the next start, and nothing that people have made or put there."""
    paths = (tmp_path / ".envrc", tmp_path / ".vscode", tmp_path / ".bashrc")
    await _end(await _hold(*paths), kill=True)
    living = await _hold(tmp_path / ".idea", tmp_path / ".cursor")
    (tmp_path / ".vscode/settings.json").write_text("{}")
    (tmp_path / ".claude").mkdir()
    (tmp_path / ".mcp.json").write_text("")
    (tmp_path / ".zshrc").write_text("")
    everything = [".bashrc", ".claude", ".cursor", ".envrc", ".idea", ".mcp.json", ".vscode", ".zshrc"]
    assert _names(tmp_path) == everything

    clear_stand_ins(str(tmp_path), [str(tmp_path)])

    assert _names(tmp_path) == [name for name in everything if name not in {".bashrc", ".envrc"}]
    await _end(living)
    assert _names(tmp_path) == [".claude", ".mcp.json", ".vscode", ".zshrc"]


async def test_leftovers_go_with_the_next_run(tmp_path: Path) -> None:
    """A run in the same folder takes what a killed one has left for its own stand-ins, and takes them away."""
    home = tmp_path / "home"
    home.mkdir()
    await _end(await _hold(home / ".envrc", home / ".config", home / ".bashrc"), kill=True)
    plan = plan_sandbox(str(home), user_home=str(home), environment={})
    assert str(home / ".bashrc") in plan.missing_files
    assert {str(home / ".envrc"), str(home / ".config")} <= set(plan.missing)
    with hold_places(plan):
        assert len(_names(home)) == len(plan.missing) + len(plan.missing_files)
    assert _names(home) == []
