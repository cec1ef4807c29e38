"""Outputs that are too long for a result: each session has its own, and nothing is left of those that were deleted."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import pytest

from session_core.ids import SessionId
from session_core.sandbox.quarantine import set_aside
from session_core.service.service import SessionService, open_session_service
from session_core.storage.retention_settings import Retention
from session_core.storage.sqlite import SqliteStore
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import ScriptedAnswer, ScriptedProvider, ScriptItem, text, tool_call
from session_core.tools.files import file_tools
from session_core.tools.output_files import OutputFiles
from session_core.tools.shell import ShellTool
from session_core.vocabulary import events as ev
from tests._needs import needs_sandbox
from tests.session_core.service._helpers import new_session, of_type, scripted, trio_now, until

_DAY_MS = 24 * 3_600_000


def _folder(service: SessionService, session_id: SessionId) -> Path:
    found = service.core.agent.tool_config.find_outputs(session_id)
    assert found is not None
    return Path(found)


def _write(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "shell-1.txt").write_text("long")


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


async def _last_result(service: SessionService, script: list[ScriptedAnswer], name: str, **arguments: str) -> str:
    script += [tool_call(name, arguments), text("done")]
    session_id = await new_session(service)
    await service.change_permission_mode(session_id, "full")
    await service.send_user_message(session_id, "go")
    await service.wait_for_turn(session_id)
    return of_type(service, session_id, ev.ToolCallFinished)[-1].result.text


@needs_sandbox
async def test_no_session_reads_the_outputs_of_another(tmp_path: Path) -> None:
    """What a command of one session printed is read by no command and no tool of another one."""
    (tmp_path / "root").mkdir()
    outputs, script = tmp_path / "outputs", list[ScriptedAnswer]()
    provider = ScriptedProvider(*[lambda _request: cast("Sequence[ScriptItem]", script.pop(0))] * 20)
    config = scripted(provider, tools=(ShellTool(), *file_tools()), cwd=str(tmp_path / "root"), outputs=str(outputs))
    async with open_checked_service(config) as service:
        told = await _last_result(service, script, "bash", command="seq 20000")
        [folder] = outputs.iterdir()
        [file] = folder.iterdir()
        assert str(file) in told
        assert file.read_text().startswith("1\n2\n")
        for command in (f"head -c 9 {file}", f"ls {outputs}", f"cat {outputs}/*/*", f"head -c 9 /proc/1/root{file}"):
            assert "1\n2\n" not in await _last_result(service, script, "bash", command=command)
        assert "outside of the folders" in await _last_result(service, script, "read_file", path=str(file))


async def test_a_subagent_uses_the_outputs_of_its_root(tmp_path: Path) -> None:
    """A family has one folder, so that a parent can read what its subagent names; a fork has its own."""
    async with open_checked_service(scripted(outputs=str(tmp_path))) as service:
        root = await new_session(service)
        child = (await service.create_session(parent_id=root)).session_id
        grandchild = (await service.create_session(parent_id=child)).session_id
        other = await new_session(service)
        assert _folder(service, root) == tmp_path / root
        assert [_folder(service, each) for each in (child, grandchild)] == [tmp_path / root] * 2
        assert _folder(service, other) == tmp_path / other
        await service.delete_session(root)
        assert _folder(service, grandchild) in {tmp_path / child, tmp_path / grandchild}


async def test_outputs_end_with_their_session(tmp_path: Path) -> None:
    """Deleting a session deletes its outputs and no others; links in them are not followed."""
    async with open_checked_service(scripted(outputs=str(tmp_path / "outputs"))) as service:
        first, second = await new_session(service), await new_session(service)
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine/file").write_text("")
        for session_id in (first, second):
            _write(_folder(service, session_id))
            (_folder(service, session_id) / "link").symlink_to(tmp_path / "mine")
        await service.delete_session(first)
        await until(lambda: not _folder(service, first).exists())
        assert _names(tmp_path / "outputs") == [second]
        assert (tmp_path / "mine/file").exists()


async def test_what_was_set_aside_outlives_its_session(tmp_path: Path) -> None:
    """What was moved out of a project is not deleted with the session whose command made it."""
    (tmp_path / "project/.idea").mkdir(parents=True)
    async with open_checked_service(scripted(outputs=str(tmp_path / "outputs"))) as service:
        session_id = await new_session(service)
        _write(_folder(service, session_id))
        project = str(tmp_path / "project")
        where = set_aside(project, f"{project}/.idea", str(_folder(service, session_id)))
        await service.delete_session(session_id)
        await until(lambda: not _folder(service, session_id).exists())
    assert where is not None
    assert Path(where.path).parent == tmp_path / "set-aside" / session_id
    assert [Path(where.path).name] == _names(Path(where.path).parent)


@asynccontextmanager
async def _open(home: Path, **settings: Any) -> AsyncGenerator[SessionService]:
    config = scripted(store=SqliteStore(home), outputs=str(home / "outputs"), **settings)
    async with open_session_service(config) as service:
        yield service


async def test_outputs_end_by_retention(tmp_path: Path) -> None:
    """What retention deletes leaves no outputs either."""
    async with _open(tmp_path) as service:
        session_id = await new_session(service)
        _write(_folder(service, session_id))
        await service.archive_session(session_id)
        later = trio_now() + 2 * _DAY_MS
    async with _open(tmp_path, retention=Retention(delete_archived_after_days=1), now=lambda: later):
        await until(lambda: not (tmp_path / "outputs" / session_id).exists())


async def test_a_session_deleted_while_no_service_ran(tmp_path: Path) -> None:
    """The next start removes what was left, and nothing else: files of older versions stay, which nobody reads."""
    async with _open(tmp_path) as service:
        kept_id, gone_id = await new_session(service), await new_session(service)
        _write(_folder(service, kept_id))
        _write(_folder(service, gone_id))
    (tmp_path / "outputs/shell-old.txt").write_text("old")
    async with open_session_service(scripted(store=SqliteStore(tmp_path))) as service:
        await service.delete_session(gone_id)
    assert gone_id in _names(tmp_path / "outputs")
    async with _open(tmp_path):
        await until(lambda: gone_id not in _names(tmp_path / "outputs"))
    assert _names(tmp_path / "outputs") == sorted([kept_id, "shell-old.txt"])


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../x", "x\0", "a" * 101, "é"])
def test_an_id_that_names_no_folder(tmp_path: Path, name: str) -> None:
    """The id of an imported session cannot lead anywhere else."""
    (tmp_path / "outputs").mkdir()
    (tmp_path / "x").mkdir()
    files = OutputFiles(str(tmp_path / "outputs"))
    assert files.find_folder(SessionId(name)) is None
    files.delete_outputs(SessionId(name))
    assert _names(tmp_path) == ["outputs", "x"]
