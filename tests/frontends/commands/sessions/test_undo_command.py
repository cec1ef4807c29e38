"""`session-core undo`: the conversation and the files are as they were, and what was left alone is told."""

import shlex
from pathlib import Path

import attrs
import pytest
import trio

import session_core as sc
from frontends.commands.sessions.undo import find_message
from frontends.shared.parser import UsageError
from session_core.testing import scripted
from tests.frontends._kept import session_core

Said = pytest.CaptureFixture[str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder to work in, with one file."""
    made = tmp_path / "project"
    made.mkdir()
    (made / "a.txt").write_text("old\n", encoding="utf-8")
    monkeypatch.chdir(made)
    return made


def write(path: str, text: str) -> tuple[scripted.ScriptItem, ...]:
    return scripted.tool_call("write", {"path": path, "content": text})


async def work(home: Path, folder: Path) -> sc.SessionId:
    """Have two turns, each of which writes files, as a configured agent does."""
    provider = scripted.ScriptedProvider(
        write("b.txt", "made\n"), scripted.text("One."), write("c.txt", "made too\n"), scripted.text("Two.")
    )
    place = sc.setup.current_environment(home, str(folder))
    async with sc.setup.open_setup(
        place, flags={"permission_mode": "full", "model": "demo"}, store=sc.SqliteStore(home)
    ) as setup:
        config = attrs.evolve(setup.service, models={"m": provider}, default_model="m")
        async with sc.open_session_service(config) as service:
            session_id = (await service.create_session(name="work")).session_id
            for prompt in ("make b", "make c"):
                await service.send_user_message(session_id, prompt)
                await service.wait_for_turn(session_id)
    assert (folder / "c.txt").exists()
    return session_id


async def conversation(home: Path, session_id: sc.SessionId) -> list[str]:
    async with sc.open_session_service(sc.ServiceConfig(store=sc.SqliteStore(home), wakeups=False)) as service:
        return [each.text for each in (await service.load_session(session_id)).transcript if each.role == "user"]


def test_the_last_turn(home: Path, folder: Path, capfd: Said) -> None:
    """Without further words the last turn of the last session here is taken back, files too."""
    session_id = trio.run(work, home, folder)
    assert 0 == session_core("undo")

    said = capfd.readouterr()
    assert '✓ removed c.txt\n✓ the conversation is where it was before "make c"\n' == said.out
    assert [
        f'Send another message with: session-core run --session {session_id[-4:]} "..."',
        f"Revert it with: session-core undo {session_id[-4:]} --redo",
    ] == said.err.splitlines()
    assert ["a.txt", "b.txt"] == sorted(each.name for each in folder.iterdir())
    assert ["make b"] == trio.run(conversation, home, session_id)


def test_back_to_a_message(home: Path, folder: Path, capfd: Said) -> None:
    """With --to everything since that message is taken back, but nothing if others have changed one of the files."""
    session_id = trio.run(work, home, folder)
    (folder / "b.txt").write_text("mine now\n", encoding="utf-8")
    assert 1 == session_core("undo", session_id, "--to", "Make B", "--files-only")

    said = capfd.readouterr()
    forced = f"session-core undo {session_id[-4:]} --to 'Make B' --files-only --force"
    assert [
        "Nothing was done, because 1 file cannot be restored safely:",
        "■ b.txt: somebody else changed it since",
        f"To restore anyway, saving the current content first: {forced}",
    ] == said.err.splitlines()
    assert "" == said.out
    assert ["make b", "make c"] == trio.run(conversation, home, session_id)
    assert ["a.txt", "b.txt", "c.txt"] == sorted(each.name for each in folder.iterdir())

    assert 0 == session_core(*shlex.split(forced)[1:])
    assert ["✓ removed b.txt", "✓ removed c.txt"] == capfd.readouterr().out.splitlines()
    assert ["a.txt"] == sorted(each.name for each in folder.iterdir())
    assert 0 == session_core("undo", "--redo")
    assert "mine now\n" == (folder / "b.txt").read_text(encoding="utf-8")


def test_taking_an_undo_back(home: Path, folder: Path, capfd: Said) -> None:
    """After --redo files and conversation are as before the undos, one by one, until there is none left."""
    session_id = trio.run(work, home, folder)
    for _ in range(2):
        assert 0 == session_core("undo")
    assert ["a.txt"] == sorted(each.name for each in folder.iterdir())
    capfd.readouterr()

    assert 0 == session_core("undo", "--redo")
    said = capfd.readouterr()
    assert ["✓ recreated b.txt", "✓ the undo was reverted"] == said.out.splitlines()
    assert f"Undo it again with: session-core undo {session_id[-4:]}\n" == said.err
    assert ["make b"] == trio.run(conversation, home, session_id)

    assert 0 == session_core("undo", "--redo")
    assert ["a.txt", "b.txt", "c.txt"] == sorted(each.name for each in folder.iterdir())
    assert ["make b", "make c"] == trio.run(conversation, home, session_id)
    capfd.readouterr()
    assert 1 == session_core("undo", "--redo")
    assert "session-core: there is no undo to take back in this session\n" == capfd.readouterr().err
    assert 2 == session_core("undo", "--redo", "--to", "make b")


def test_from_a_folder_within(home: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From anywhere beneath the folder where the session works, its last turn is taken back."""
    session_id = trio.run(work, home, folder)
    (folder / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(folder / "deep" / "er")

    assert 0 == session_core("undo")

    assert not (folder / "c.txt").exists()
    assert ["make b"] == trio.run(conversation, home, session_id)


def test_only_the_conversation(home: Path, folder: Path, capfd: Said) -> None:
    """With --conversation-only no file is touched."""
    session_id = trio.run(work, home, folder)
    assert 0 == session_core("undo", "--conversation-only")

    assert '✓ the conversation is where it was before "make c"\n' == capfd.readouterr().out
    assert ["a.txt", "b.txt", "c.txt"] == sorted(each.name for each in folder.iterdir())
    assert ["make b"] == trio.run(conversation, home, session_id)


def test_nothing_to_undo(home: Path, folder: Path, capfd: Said) -> None:
    """Where no session was, or nothing was said, that is one plain line."""
    assert 2 == session_core("undo")
    assert "there is no session in" in capfd.readouterr().err
    session_id = trio.run(work, home, folder)
    for _ in range(2):
        session_core("undo", session_id, "--conversation-only")
    capfd.readouterr()

    assert 1 == session_core("undo", session_id)
    assert "session-core: there is nothing to go back to: the conversation is empty\n" == capfd.readouterr().err


def said(number: int, text: str, role: str = "user") -> sc.Message:
    return sc.Message(
        message_id=sc.MessageId(f"msg_{number}abc"),
        parent_id=None,
        role=role,  # type: ignore[arg-type]
        parts=(sc.TextPart(text=text),),
        created_at=0,
    )


def test_which_message_is_meant() -> None:
    """A message of the user is meant by how it begins or by its id, and must be the only one."""
    messages = [said(1, "fix the\nparser"), said(2, "fix the lexer"), said(3, "fixed", role="assistant")]

    assert "msg_1abc" == find_message("Fix the  parser", messages)
    assert "msg_2abc" == find_message("2ab", messages)
    with pytest.raises(UsageError, match="2 of your messages begin with 'fix'") as several:
        find_message("fix", messages)
    assert ("msg_2abc  fix the lexer", "msg_1abc  fix the parser") == several.value.details
    with pytest.raises(UsageError, match="none of your messages"):
        find_message(" ", messages)
