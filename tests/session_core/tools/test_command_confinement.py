"""What commands leave behind at protected names, in every way in which they run, and the folder as people see it."""

import math
import signal
import subprocess
import sys
import threading
from pathlib import Path

import attrs
import pytest
import trio

from session_core.ids import SessionId
from session_core.sandbox import guard
from session_core.tools import command_confinement
from session_core.tools.background_jobs import open_background_jobs
from session_core.tools.base import ToolContext
from session_core.tools.command_confinement import ShellSetup, confine, prepare_launch
from session_core.tools.shell import ShellTool
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.sessions import SandboxPolicy
from tests._needs import needs_sandbox
from tests.session_core.tools._running import context, names

pytestmark = needs_sandbox

_KILLED = """
import sys, trio
from session_core.tools.shell import ShellTool
from session_core.vocabulary.frozen import JsonObject
from tests.session_core.tools._running import context
from pathlib import Path
trio.run(ShellTool().run, JsonObject({"command": "touch ready; sleep 1000"}), context(Path(sys.argv[1])))
"""

_ENDS = """
import os, sys, threading
from session_core.sandbox import guard
from session_core.sandbox.plan import plan_sandbox
root = sys.argv[1]
before = plan_sandbox(root, user_home="/nobody", environment={}).before
run = guard.GuardedRun(roots=(root,), before=before, approved=False, outputs=None)
guard.register_run(run)
os.mkdir(os.path.join(root, ".idea"))
real, going_on = guard.check_run, threading.Event()
def check(run, **more):
    going_on.wait()
    return real(run, **more)
guard.check_run = check
guard.FinalCheck(run, lambda: None).take_remarks()
print(os.listdir(root))
import atexit
atexit.register(going_on.set)
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty folder."""
    (tmp_path / "project").mkdir()
    return (tmp_path / "project").resolve()


def _context(root: Path) -> ToolContext:
    return context(root, outputs=str(root.parent / "outputs/session"), session_id=SessionId("session"))


async def _run(root: Path, command: str, **more: object) -> str:
    with trio.fail_after(300):
        return (await ShellTool().run(JsonObject({"command": command, **more}), _context(root))).text


async def test_an_empty_folder_is_empty(root: Path) -> None:
    """Nothing is in a folder that was not there, while a command runs and afterwards."""
    assert await _run(root, "ls -A") == "(no output)\n[exit code 0]"
    assert names(root) == []


async def test_a_killed_service_leaves_nothing(root: Path) -> None:
    """While a command runs the folder is as it was, and a service that is killed meanwhile leaves no trace."""
    command = [sys.executable, "-c", _KILLED, str(root)]
    with trio.fail_after(300):
        process = await trio.lowlevel.open_process(command)
        while not (root / "ready").exists():  # noqa: ASYNC110 - nobody tells us
            await trio.sleep(0.01)
        assert names(root) == ["ready"]
        process.send_signal(signal.SIGKILL)
        await process.wait()
    assert names(root) == ["ready"]


async def test_a_result_says_what_was_set_aside(root: Path) -> None:
    """The result says what it was, where it is now, and what keeps it; the details stay as they are."""
    text = await _run(root, "mkdir .idea; echo done")
    (kept,) = (root.parent / "set-aside/session").iterdir()
    assert text == (
        f"done\n[a protected path, '.idea', appeared while the command ran; it was moved to {str(kept)!r}; to keep "
        "such a change, run the command with change_protected (in a line that a person types: !+protected), about "
        "which the user is asked]\n[exit code 0]"
    )
    assert names(root) == []


async def test_a_repository_that_was_set_aside(root: Path) -> None:
    """The result says that the repository lacks its HEAD, and doing what it says makes it a repository again."""
    text = await _run(root, "mkdir .git; echo ref: refs/heads/main > .git/HEAD")
    (kept,) = (root.parent / "set-aside/session").iterdir()
    assert text == (
        f"(no output)\n[a protected path, '.git', appeared while the command ran; it was moved to {str(kept)!r}; its "
        "'HEAD' was renamed to 'HEAD.set-aside', so that git takes it for no repository: rename it again if you put it "
        "back; to keep such a change, run the command with change_protected (in a line that a person types: "
        "!+protected), about which the user is asked]\n[exit code 0]"
    )
    kept.rename(root / ".git")
    (root / ".git/HEAD.set-aside").rename(root / ".git/HEAD")
    assert (root / ".git/HEAD").read_text() == "ref: refs/heads/main\n"


async def test_an_agreed_command_keeps_it(root: Path) -> None:
    """With a person's agreement nothing is set aside, nor with no sandbox at all."""
    for name, changes in (
        (".idea", {"rights": frozenset({"protected"})}),
        (".zed", {"sandbox": SandboxPolicy(mode="full_access")}),
    ):
        call = JsonObject({"command": f"mkdir {name}", "change_protected": True})
        await ShellTool().run(call, attrs.evolve(_context(root), **changes))
    assert names(root) == [".idea", ".zed"]


async def test_a_program_with_separate_streams(root: Path) -> None:
    """A program that an extension runs is told in its error output."""
    outcome = await ShellTool().run_with_separate_streams(
        JsonObject({"command": "mkdir .idea; echo x"}), _context(root)
    )
    assert (outcome.output, outcome.exit_code) == ("x\n", 0)
    assert "a protected path, '.idea', appeared" in outcome.error_output
    assert names(root) == []


@pytest.mark.parametrize("stopped", [False, True])
async def test_a_background_job(root: Path, stopped: bool) -> None:  # noqa: FBT001 - a parameter of the test
    """A job says it in its last output, whether it ended or was stopped."""
    async with open_background_jobs() as jobs:
        tool, session_id = ShellTool(jobs), SessionId("session")
        command = f"mkdir .idea; touch made; {'sleep 1000' if stopped else 'true'}"
        await tool.run(JsonObject({"command": command, "background": True}), _context(root))
        with trio.fail_after(300):
            while not (root / "made").exists():  # noqa: ASYNC110 - nobody tells us
                await trio.sleep(0.01)
            (job,) = jobs.list(session_id)
            if stopped:
                output = await jobs.stop(session_id, job.job_id)
            else:
                output = await jobs.read(session_id, job.job_id, wait_ms=50_000)
    assert "a protected path, '.idea', appeared" in output.text
    assert names(root) == ["made"]
    assert not guard._pending_remarks, "it is said once"


async def test_a_check_that_fails_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If nobody could look afterwards, the result says so, and the command is not lost."""

    def fail(_run: object, _beginning: object) -> None:
        raise OSError(5, "the disk is gone")

    monkeypatch.setattr(guard, "_Check", fail)
    text = await _run(root, "echo done")
    assert text.startswith("done\n[it could not be checked whether protected files were changed: ")
    assert guard._running == []


async def test_a_link_in_the_project(root: Path) -> None:
    """A command runs confined in a project with a link at a protected path, and the link stays."""
    (root / "cfg").mkdir()
    (root / ".vscode").symlink_to("cfg")
    preview = await ShellTool().preview(JsonObject({"command": "true"}), _context(root))
    assert preview.always_ask is None
    text = await _run(root, "rm .vscode; touch cfg/x || echo closed")
    assert "closed" in text
    assert "the link was restored" in text
    assert (root / ".vscode").readlink() == Path("cfg")


class _SlowCheck:
    """Checks that do not end before `let_end`; those that are made before a command begins do."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began = threading.Event()
        self._may_end = threading.Event()
        real = guard.check_run

        def check(run: guard.GuardedRun, *, beginning: guard.GuardedRun | None = None) -> tuple[str, ...]:
            if beginning is None:
                self.began.set()
                assert self._may_end.wait(60)
            return real(run, beginning=beginning)

        monkeypatch.setattr(guard, "check_run", check)
        monkeypatch.setattr(command_confinement, "STOP_CHECK_S", 0.0)
        monkeypatch.setattr(command_confinement, "CHECK_S", math.inf)

    def let_end(self) -> None:
        """Let all checks end, and wait until they have."""
        self._may_end.set()
        for check in guard._checks.copy():
            check.join(60)
        assert guard._checks == []


async def _stop(root: Path, command: str, slow: _SlowCheck, *, when_checked: bool) -> None:
    """Start a command that makes `made`, and stop it then or while it is being checked."""
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_run, root, command)
            while not (slow.began.is_set() if when_checked else (root / "made").exists()):  # noqa: ASYNC110
                await trio.sleep(0.01)
            nursery.cancel_scope.cancel(reason="a stop")


@pytest.mark.parametrize("when_checked", [False, True])
async def test_a_stop_does_not_wait_for_a_slow_check(
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    when_checked: bool,  # noqa: FBT001 - a parameter of the test
) -> None:
    """A check that takes long holds up no stop; it is made to its end, and the next command says what it found."""
    slow = _SlowCheck(monkeypatch)
    command = f"mkdir .idea; touch made; sleep {0 if when_checked else 1000}"
    await _stop(root, command, slow, when_checked=when_checked)
    assert names(root) == [".idea", "made"]
    slow.let_end()
    assert names(root) == ["made"]
    assert guard._running == []
    assert (await _run(root, "true")).count("'.idea', appeared") == 1


async def test_the_next_command_does_not_see_what_is_still_being_checked(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a stopped command has planted is gone before the next one begins, however long its own check takes."""
    slow = _SlowCheck(monkeypatch)
    await _stop(root, "mkdir .idea; touch made; sleep 1000", slow, when_checked=False)
    (first,) = guard._checks
    async with prepare_launch("true", await confine(_context(root), ShellSetup())) as launch:
        assert names(root) == ["made"]
        assert ["'.idea', appeared" in remark for remark in launch.remarks] == [True]
        slow.let_end()
    assert first.take_remarks() == ()
    assert (guard._running, list(guard._pending_remarks)) == ([], [])


async def test_a_check_that_takes_too_long_is_told(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A result does not wait forever for the check after it; it says so, and the next one says what was found."""
    slow = _SlowCheck(monkeypatch)
    monkeypatch.setattr(command_confinement, "CHECK_S", 0.0)
    assert await _run(root, "mkdir .idea; echo x") == f"x\n[{command_confinement.STILL_CHECKED}]\n[exit code 0]"
    slow.let_end()
    monkeypatch.undo()
    assert (await _run(root, "true")).count("'.idea', appeared") == 1
    assert names(root) == []


async def test_a_stop_at_the_very_end(root: Path) -> None:
    """What is found after a command whose stop comes too late for it is not lost: the next command says it."""
    with trio.fail_after(300):
        with trio.CancelScope() as scope:
            async with prepare_launch("true", await confine(_context(root), ShellSetup())):
                (root / ".idea").mkdir()
                scope.cancel(reason="a stop")
        assert (await _run(root, "true")).count("'.idea', appeared") == 1


async def test_a_stop_while_others_are_checked(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A check of what runs beside a command goes on after a stop, and the next command says what it found."""
    began, may_end = threading.Event(), threading.Event()
    real = guard.check_neighbours

    def check(run: guard.GuardedRun) -> tuple[str, ...]:
        began.set()
        assert may_end.wait(60)
        return real(run)

    threads = trio.to_thread.current_default_thread_limiter()
    with trio.fail_after(300):
        async with prepare_launch("true", await confine(_context(root), ShellSetup())):
            (root / ".idea").mkdir()
            with monkeypatch.context() as patch:
                patch.setattr(command_confinement, "check_neighbours", check)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_run, root, "true")
                    while not began.is_set():  # noqa: ASYNC110 - a thread
                        await trio.sleep(0.01)
                    nursery.cancel_scope.cancel(reason="a stop")
            may_end.set()
            while threads.borrowed_tokens:  # noqa: ASYNC110 - a thread
                await trio.sleep(0.01)
            assert names(root) == []
            assert (await _run(root, "true")).count("'.idea', appeared") == 1


def test_a_program_that_ends_waits_for_a_check(root: Path) -> None:
    """A service that ends just after a stop sets aside what the command has planted all the same."""
    done = subprocess.run(  # noqa: TID251 - a program that ends
        [sys.executable, "-c", _ENDS, str(root)], timeout=60, check=True, capture_output=True, text=True
    )
    assert (done.stdout, [name.rpartition("-")[0] for name in names(root)]) == ("['.idea']\n", [".idea.set-aside"])
