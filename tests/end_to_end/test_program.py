"""The real program fixes a project: its own process, a model behind HTTP, tools in the sandbox, and the way back."""

import json
import os
import shutil
import sys
from pathlib import Path

import pytest
import trio

from session_core.storage.maintenance.verify import verify_store
from session_core.storage.sqlite import SqliteStore
from session_core.vocabulary.messages import ToolResultPart
from tests._needs import needs_sandbox
from tests.end_to_end._streams import ANTHROPIC, CHAT, Dialect
from tests.frontends._program import PROGRAM, ROOT, Ended
from tests.session_core.providers._replay_server import ReplayServer, Reply, open_replay_server

SAMPLE = ROOT / "tests" / "fixtures" / "sample_repo"
KEY = "canary-key-of-the-program-5e1"
WRONG, RIGHT = "discount_percent // 10\n", "discount_percent // 100\n"
RUN_CHECKS = "python3 -m unittest basket.checks"
ANSWER = "The discount was ten times too large; now the checks pass."
MODELS = {"anthropic": (ANTHROPIC, "anthropic/claude-sonnet-5-5"), "ollama": (CHAT, "ollama/qwen3:8b")}


def _steps(dialect: Dialect) -> list[Reply]:
    """What a model does that is asked to make the checks pass."""
    read = [("bash", {"command": RUN_CHECKS}), ("read", {"path": "basket/prices.py"})]
    edit = [("edit", {"path": "basket/prices.py", "old_text": WRONG.strip(), "new_text": RIGHT.strip()})]
    return [
        Reply(body=dialect.answer("I run the checks and read the code.", read)),
        Reply(body=dialect.answer("A percent is a hundredth.", edit)),
        Reply(body=dialect.answer("", [("bash", {"command": RUN_CHECKS})])),
        Reply(body=dialect.answer(ANSWER)),
    ]


class Desk:
    """A home, a project and a user's folder, all new."""

    def __init__(self, folder: Path, provider: str, base_url: str) -> None:
        self.home, self.project = folder / "home", folder / "project"
        self.code = self.project / "basket" / "prices.py"
        shutil.copytree(SAMPLE, self.project, ignore=shutil.ignore_patterns("__pycache__"))
        self.home.mkdir(mode=0o700)
        self.settings = self.home / "config.toml"
        self.settings.write_text(
            f'model = "{MODELS[provider][1]}"\npermission_mode = "auto_edit"\n'
            f'[[permissions]]\ntool = "bash"\ncommand = "{RUN_CHECKS}"\ndecision = "allow"\n'
            f'[providers.{provider}]\nbase_url = "{base_url}/v1"\n'
        )
        self.variables = {
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PYTHONPATH": str(ROOT),
            "HOME": str(folder / "user"),
            "SESSION_CORE_HOME": str(self.home),
            "ANTHROPIC_API_KEY": KEY,
        }

    async def program(self, *arguments: str) -> Ended:
        """Run the program in the project, as a user would."""
        with trio.fail_after(120):
            done = await trio.run_process(
                [*PROGRAM, *arguments],
                stdin=b"",
                capture_stdout=True,
                capture_stderr=True,
                check=False,
                cwd=self.project,
                env=self.variables,
            )
        return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())

    def leaks(self) -> list[Path]:
        """Files that hold the key."""
        return [path for path in self.home.parent.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


@needs_sandbox
@pytest.mark.parametrize("provider", ["anthropic", pytest.param("ollama", marks=pytest.mark.slow)])
async def test_the_program_fixes_a_project(provider: str, tmp_path: Path) -> None:
    """It reads, edits, runs the checks in the sandbox and answers; the file is fixed, and can be brought back."""
    dialect, model = MODELS[provider]
    async with open_replay_server(*_steps(dialect)) as server:
        desk = Desk(tmp_path, provider, server.base_url)
        before = desk.code.read_text()
        ended = await desk.program("run", "make the checks pass")
    assert 0 == ended.code, ended.err
    assert ended.out.endswith(f"{ANSWER}\n")
    assert "✓ completed" in ended.err
    assert "Traceback" not in ended.err
    _check_requests(server, dialect, model)
    assert WRONG in before
    assert before.replace(WRONG, RIGHT) == desk.code.read_text()
    checked = await trio.run_process([sys.executable, *RUN_CHECKS.split()[1:]], cwd=desk.project, capture_stderr=True)
    assert b"OK" in checked.stderr

    assert KEY not in ended.out + ended.err
    assert [] == desk.leaks()
    session_id = await _check_conversation(desk)
    if provider == "anthropic":
        await _check_other_commands(desk, session_id)
    undone = await desk.program("undo")
    assert 0 == undone.code, undone.err
    assert before == desk.code.read_text()


def _check_requests(server: ReplayServer, dialect: Dialect, model: str) -> None:
    """The model was asked four times, each time with what its tools had found, and with its key if it has one."""
    assert [dialect.path] * 4 == [request.path for request in server.requests]
    assert {model.partition("/")[2]} == {request.json()["model"] for request in server.requests}
    keys = {request.headers.get("x-api-key") for request in server.requests}
    assert ({KEY} if dialect is ANTHROPIC else {None}) == keys
    assert not any("authorization" in request.headers for request in server.requests)
    told = [json.dumps(request.json()["messages"]) for request in server.requests]
    assert "FAILED (failures=1)" in told[1]
    assert "discount_percent // 10" in told[1]
    assert "Ran 2 tests" in told[3]
    assert told[3].rindex("OK") > told[3].rindex("FAILED (failures=1)")


async def _check_other_commands(desk: Desk, session_id: str) -> None:
    """What other commands tell of the session is all there, without the key."""
    exported = await desk.program("export", session_id)
    shown = await desk.program("config", "show")
    assert (0, 0) == (exported.code, shown.code)
    assert ANSWER in exported.out
    assert "***" in shown.out
    assert KEY not in exported.out + exported.err + shown.out + shown.err


async def _check_conversation(desk: Desk) -> str:
    """Whoever opens the home afterwards finds the whole conversation; returns the id of the session."""
    assert () == verify_store(desk.home).findings
    store = SqliteStore(desk.home)
    async with store.open_reader():
        (summary,) = await store.list_sessions()
        messages = (await store.load_messages(summary.session_id, before=1_000, limit=100)).messages
    assert ["user", *["assistant", "tool"] * 3, "assistant"] == [message.role for message in messages]
    results = [part for message in messages for part in message.parts if isinstance(part, ToolResultPart)]
    assert ["bash", "read", "edit", "bash"] == [part.name for part in results]
    assert "success" == results[-1].status
    return summary.session_id
