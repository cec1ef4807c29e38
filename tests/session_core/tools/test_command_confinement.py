"""What commands leave behind at protected names, in every way in which they run, and the folder as people see it."""

import signal
import sys
from pathlib import Path

import attrs
import pytest
import trio

from session_core.ids import SessionId
from session_core.sandbox import guard
from session_core.tools.background_jobs import open_background_jobs
from session_core.tools.base import ToolContext
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
        "such a change, run the command with change_protected, about which the user is asked]\n[exit code 0]"
    )
    assert names(root) == []


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
