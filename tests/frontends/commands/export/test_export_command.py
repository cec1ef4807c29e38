"""`export --format`: a kept session as a document, beside whoever writes to it."""

import tracemalloc
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import pytest

import session_core as sc
from frontends.commands.export.document import Kind, document
from frontends.shared.home import open_stored_home
from session_core.testing import scripted
from tests.frontends._kept import keep, session_core
from tests.frontends._page import Page

BOTH: tuple[Kind, ...] = ("html", "markdown")


@asynccontextmanager
async def service_of(home: Path, *answers: scripted.ScriptedAnswer) -> AsyncGenerator[sc.SessionService]:
    provider = scripted.ScriptedProvider(*answers)
    config = sc.ServiceConfig(store=sc.SqliteStore(home), models={"m": provider}, cwd="/", tools=())
    async with sc.open_session_service(config) as service:
        yield service


async def say(service: sc.SessionService, session_id: sc.SessionId, text: str) -> None:
    await service.send_user_message(session_id, text)
    await service.wait_for_turn(session_id)


async def written(home: Path, session_id: sc.SessionId, kind: Kind) -> str:
    async with open_stored_home(home) as kept, aclosing(document(kept, session_id, kind)) as pieces:
        return b"".join([piece async for piece in pieces]).decode()


@pytest.mark.parametrize("kind", BOTH)
def test_a_document_in_a_file(kind: Kind, home: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A document is written as a whole, for its owner alone, and never over a file that is there."""
    keep(home, "count to 3")
    target = tmp_path / "talk"

    assert 0 == session_core("export", "count to 3", "--format", kind, str(target))
    assert "is in" in capfd.readouterr().err
    assert "1 2 3 Done." in target.read_text(encoding="utf-8")
    assert 0o600 == target.stat().st_mode & 0o777
    assert 2 == session_core("export", "count to 3", "--format", kind, str(target))


@pytest.mark.parametrize(
    ("name", "options", "begins"),
    [
        ("talk.md", (), "# "),
        ("talk.MARKDOWN", (), "# "),
        ("talk.html", (), "<!"),
        ("talk.htm", (), "<!"),
        ("talk.jsonl", (), '{"type":"session_core_export",'),
        ("talk.txt", (), '{"type":"session_core_export",'),
        ("talk.md", ("--format", "html"), "<!"),
    ],
)
def test_the_ending_decides(name: str, options: tuple[str, ...], begins: str, home: Path, tmp_path: Path) -> None:
    """Without a format the ending of the file decides what is written; a format that is named counts more."""
    keep(home, "count to 3")

    assert 0 == session_core("export", "count to 3", str(tmp_path / name), *options)
    assert (tmp_path / name).read_text(encoding="utf-8").startswith(begins)


def test_a_document_on_stdout(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Without a file the page goes to stdout, and nothing else does; without a format it is what it was before."""
    keep(home, "count to 3")

    assert 0 == session_core("export", "count to 3", "--format", "html")
    assert "1 2 3 Done." in Page(capfd.readouterr().out).text
    assert 0 == session_core("export", "count to 3")
    assert capfd.readouterr().out.startswith('{"type":"session_core_export",')
    assert 2 == session_core("export", "count to 3", "--format", "pdf")


async def test_branches_and_what_was_put_aside(home: Path) -> None:
    """The conversation that is shown is written, and others are mentioned where they leave it."""
    async with service_of(home, *[scripted.text(f"Answer {number}.") for number in range(4)]) as service:
        session_id = (await service.create_session(name="a tree")).session_id
        await say(service, session_id, "put aside")
        await service.clear_context(session_id)
        await say(service, session_id, "kept")
        await say(service, session_id, "another way")
        (old,) = [each for each in (await service.load_session(session_id)).messages if each.text == "another way"]
        await service.edit_message(session_id, old.message_id, "this way")
        await service.wait_for_turn(session_id)

    text = Page(await written(home, session_id, "html")).text
    assert ["kept", "Answer 1.", "this way", "Answer 3."] == [
        each
        for each in ("put aside", "kept", "Answer 1.", "another way", "this way", "Answer 3.")
        if f"{each}\n" in text
    ]
    assert "2 messages of earlier conversations in this session: not shown." in text
    assert "Answer 1.\nAnother branch goes on from here, with 2 messages: not shown." in text


@pytest.mark.parametrize("kind", BOTH)
async def test_beside_a_running_turn(kind: Kind, home: Path) -> None:
    """A session that is being written to is written down as it is at that moment, half an answer included."""
    provider = scripted.ScriptedProvider((*scripted.text("The beginning")[:1], scripted.Pause("half"), scripted.Hang()))
    config = sc.ServiceConfig(store=sc.SqliteStore(home), models={"m": provider}, cwd="/", tools=())
    async with sc.open_session_service(config) as service:
        session_id = (await service.create_session(name="running")).session_id
        await service.send_user_message(session_id, "hello")
        await provider.wait_for_pause("half")
        text = await written(home, session_id, kind)

    assert "hello" in text
    assert "This answer was being written." in text


async def test_a_session_that_vanishes(home: Path) -> None:
    """A session that is deleted while it is read is no document: that is an error, not a short text."""
    async with service_of(home, *[scripted.text("x" * 10)] * 8) as service:
        session_id = (await service.create_session(name="brief")).session_id
        for _ in range(8):
            await say(service, session_id, "y" * 900_000)
        async with open_stored_home(home) as kept, aclosing(document(kept, session_id, "html")) as pieces:
            await anext(pieces)
            await service.delete_session(session_id)
            with pytest.raises(sc.NotFound):
                async for _ in pieces:
                    pass


@pytest.mark.slow
@pytest.mark.parametrize("kind", BOTH)
async def test_memory_is_bounded(kind: Kind, home: Path) -> None:
    """Of a long session only a few messages are in memory at any moment, whatever its length."""
    peaks = []
    for count in (20, 60):
        where = home / str(count)
        async with service_of(where, *[scripted.text("ok")] * count) as service:
            session_id = (await service.create_session(name="long")).session_id
            for _ in range(count):
                await say(service, session_id, "some words\n" * 90_000)
        async with open_stored_home(where) as kept, aclosing(document(kept, session_id, kind)) as pieces:
            tracemalloc.start()
            size = 0
            async for piece in pieces:
                size += len(piece)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        assert size > count * 900_000
    assert peaks[1] < peaks[0] * 1.3


def test_a_home_is_only_read(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Exporting leaves every file of the home as it was."""
    keep(home, "count to 3")
    before = {each: each.read_bytes() for each in home.rglob("*") if each.is_file() and each.suffix != ".sqlite3-shm"}

    assert 0 == session_core("export", "count to 3", "--format", "markdown")
    after = {each: each.read_bytes() for each in home.rglob("*") if each.is_file() and each in before}
    assert before == after
