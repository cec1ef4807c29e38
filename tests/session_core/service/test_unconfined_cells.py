"""Cells of the protocol `code` where nothing can be confined: a person is asked about each one before it runs."""

from pathlib import Path

import attrs
import pytest
import trio

from session_core.agent.hooks import Blocked, HookName
from session_core.ids import SessionId
from session_core.permissions.rules import PermissionRule
from session_core.service.service import SessionService
from session_core.service.turn_host import TurnHost
from session_core.testing.scripted import ScriptedAnswer, text
from session_core.tools.base import ToolFailed
from session_core.vocabulary.events import ApprovalRequested
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.sessions import Approval, PermissionMode
from tests._needs import disable_sandbox
from tests.session_core.service._helpers import new_session
from tests.session_core.service._project import FULL_ACCESS, open_project

CODE = "open('made.txt', 'w').write('new')\nfinish(1)"


def cell(code: str = CODE) -> ScriptedAnswer:
    """An answer that is one cell."""
    return text(f"```python\n{code}\n```")


@pytest.fixture(autouse=True)
def no_sandbox(monkeypatch: pytest.MonkeyPatch) -> None:
    """Be where bubblewrap is refused."""
    disable_sandbox(monkeypatch, "bubblewrap is refused")


async def asked_about(service: SessionService, session_id: SessionId) -> Approval:
    """Send a message, and wait until a person is asked."""
    async with service.subscribe(session_id) as events:
        await service.send_user_message(session_id, "go")
        async for each in events:
            if isinstance(each.event, ApprovalRequested):
                return each.event.approval
    raise AssertionError


async def test_a_yes_runs_the_cell_and_undo_takes_it_back(tmp_path: Path) -> None:
    """Even in the fullest mode the cell is shown and asked about; after a yes it runs, and undo takes it back."""
    async with open_project(tmp_path, {"go": [cell()]}, protocol="code") as project:
        project.put("made.txt", "old")
        session_id = await new_session(project.service)
        approval = await asked_about(project.service, session_id)
        assert "cell" == approval.tool_name
        assert "run Python: open('made.txt', 'w').write('new') ..." == approval.summary
        assert f"{CODE}\n\nfolder: {project.root}\nsandbox: none, it can do anything you can do" == approval.shown
        assert "no sandbox here: bubblewrap is refused, so every cell needs your approval" == approval.reason
        assert {"made.txt": "old"} == project.files(), "nothing has run yet"
        await project.service.answer_approval(session_id, approval.request_id, "allow_once")
        assert 1 == (await project.service.wait_for_turn(session_id)).outcome.output
        assert {"made.txt": "new"} == project.files()
        await project.service.restore_to_message(session_id)
        assert {"made.txt": "old"} == project.files()


async def test_a_no_is_told_to_the_model(tmp_path: Path) -> None:
    """After a no nothing has run, the model is told so with what the person says, and the turn goes on."""
    async with open_project(tmp_path, {"go": [cell(), text("then not")]}, protocol="code") as project:
        session_id = await new_session(project.service)
        approval = await asked_about(project.service, session_id)
        await project.service.answer_approval(session_id, approval.request_id, "deny", message="use a tool")
        outcome = (await project.service.wait_for_turn(session_id)).outcome
        assert ("completed", "then not") == (outcome.status, outcome.final_text)
        assert {} == project.files()
        output = (await project.service.load_session(session_id)).transcript[-2].text
        assert "This call was not allowed. Do not try it again unless asked to. The user says: use a tool" in output


async def test_a_stop_ends_the_question(tmp_path: Path) -> None:
    """A stop while a person is asked leaves nothing running and nothing open."""
    async with open_project(tmp_path, {"go": [cell()]}, protocol="code") as project:
        session_id = await new_session(project.service)
        await asked_about(project.service, session_id)
        await project.service.request_stop(session_id)
        snapshot = await project.service.load_session(session_id)
        assert ((), (), "stopped") == (snapshot.approvals, snapshot.tools, snapshot.activity.name)
        assert {} == project.files()


@pytest.mark.parametrize(
    ("mode", "rules", "why"),
    [
        ("read_only", (), "this session is read-only, and the call runs a program"),
        ("full", (PermissionRule(tool="cell", decision="deny"),), "a rule in the configuration forbids it"),
    ],
)
async def test_nobody_is_asked_for_what_is_forbidden(
    tmp_path: Path, mode: PermissionMode, rules: tuple[PermissionRule, ...], why: str
) -> None:
    """A session that may only read, or a rule against cells, refuses them without asking anybody."""
    scripts = {"go": [cell(), text("then not")]}
    async with open_project(tmp_path, scripts, protocol="code", rules=rules) as project:
        session_id = await new_session(project.service, permission_mode=mode)
        await project.service.send_user_message(session_id, "go")
        assert "then not" == (await project.service.wait_for_turn(session_id)).outcome.final_text
        assert why in (await project.service.load_session(session_id)).transcript[-2].text
        assert {} == project.files()


async def test_full_access_does_not_ask_and_can_be_undone(tmp_path: Path) -> None:
    """Who has chosen to do without a sandbox is not asked, and undo knows what the cell has changed."""
    async with open_project(tmp_path, {"go": [cell()]}, protocol="code", sandbox=FULL_ACCESS) as project:
        session_id = await new_session(project.service)
        await project.service.send_user_message(session_id, "go")
        assert 1 == (await project.service.wait_for_turn(session_id)).outcome.output
        assert {"made.txt": "new"} == project.files()
        await project.service.restore_to_message(session_id)
        assert {} == project.files()


async def test_a_session_that_changed_meanwhile_runs_nothing(tmp_path: Path) -> None:
    """A yes is for what was shown: in another folder the cell does not run."""
    (tmp_path / "beside").mkdir()
    async with open_project(tmp_path, {"go": [cell(), text("then not")]}, protocol="code") as project:
        session_id = await new_session(project.service)
        approval = await asked_about(project.service, session_id)
        await project.service.change_working_directory(session_id, str(tmp_path / "beside"))
        await project.service.answer_approval(session_id, approval.request_id, "allow_once")
        assert "then not" == (await project.service.wait_for_turn(session_id)).outcome.final_text
        assert "would not run as it was shown" in (await project.service.load_session(session_id)).transcript[-2].text
        assert ({}, []) == (project.files(), list((tmp_path / "beside").iterdir()))


async def test_a_folder_that_cannot_be_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the files cannot be saved for an undo, the cell does not run, and the model is told why."""

    async def failing(_host: object) -> None:
        await trio.lowlevel.checkpoint()
        raise ToolFailed("the folder could not be saved")

    monkeypatch.setattr(TurnHost, "before_command", failing)
    scripts = {"go": [cell(), text("then not")]}
    async with open_project(tmp_path, scripts, protocol="code", sandbox=FULL_ACCESS) as project:
        session_id = await new_session(project.service)
        await project.service.send_user_message(session_id, "go")
        assert "then not" == (await project.service.wait_for_turn(session_id)).outcome.final_text
        assert "the folder could not be saved" in (await project.service.load_session(session_id)).transcript[-2].text
        assert {} == project.files()


@attrs.frozen
class NoCells:
    """An extension that lets no cell run."""

    def handles(self, hook: HookName) -> bool:
        return hook == "tool_call"

    async def run(self, hook: HookName, session_id: SessionId, value: JsonObject) -> JsonObject | Blocked:
        return Blocked(reason="no cells here")


async def test_extensions_are_asked_too(tmp_path: Path) -> None:
    """A guard of tool calls sees an unconfined cell before anybody is asked, and may forbid it."""
    scripts = {"go": [cell(), text("then not")]}
    async with open_project(tmp_path, scripts, protocol="code", hooks=NoCells()) as project:
        session_id = await new_session(project.service)
        await project.service.send_user_message(session_id, "go")
        assert "then not" == (await project.service.wait_for_turn(session_id)).outcome.final_text
        output = (await project.service.load_session(session_id)).transcript[-2].text
        assert "Blocked by an extension: no cells here" in output
        assert {} == project.files()
