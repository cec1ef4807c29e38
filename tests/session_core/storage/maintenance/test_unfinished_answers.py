"""The text of an answer that is being written goes out with an export, and comes in with an import."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core import limits
from session_core.errors import (
    StorageFailed,
)
from session_core.ids import MessageId, SessionId, TurnId
from session_core.service.service import open_session_service
from session_core.session.restore import restore
from session_core.storage.base import StoredSession
from session_core.storage.maintenance import partial_answers
from session_core.storage.maintenance.export_import import import_session
from session_core.storage.maintenance.verify import verify_store
from session_core.storage.memory import MemoryStore
from session_core.storage.sqlite import SqliteStore
from session_core.storage.sqlite_reader import SqliteReader
from session_core.testing.scripted import Pause, ScriptedProvider, text
from session_core.vocabulary import events as ev
from tests.session_core.service._helpers import new_session, say, scripted
from tests.session_core.storage.maintenance._exports import (
    Exported,
    exported,
    home_content,
    kept_state,
    passing_of,
    refusal,
)


async def test_half_an_answer_comes_back(half: Exported, tmp_path: Path) -> None:
    """The saved text of an unfinished answer comes with the session, and the interrupted message then holds it."""
    report = await import_session(half.lines, SqliteStore(tmp_path / "home"), settings=None)

    assert half.events == report.events
    assert half.lines[1:-1] == (await home_content(tmp_path / "home"))[half.session_id]
    async with SqliteStore(tmp_path / "home").open() as opened:
        assert "streaming" == opened.summaries[0].activity.name
    assert () == verify_store(tmp_path / "home").findings
    models = {"scripted": ScriptedProvider(text("done"))}
    async with open_session_service(scripted(models=models, store=SqliteStore(tmp_path / "home"))) as service:
        snapshot = await service.load_session(half.session_id)
        assert "half of an " == snapshot.messages[-1].text
        assert "interrupted" == snapshot.activity.name
        assert "completed" == (await say(service, half.session_id, "go on")).status
    assert () == verify_store(tmp_path / "home").findings


async def test_a_copy_has_half_an_answer_too(half: Exported) -> None:
    """As a new session, and in memory, the text comes along as well."""
    store = MemoryStore()

    report = await import_session(half.lines, store, as_new=True, settings=None)

    assert half.session_id != report.session_id
    assert half.snapshot.partial == (await kept_state(store, report.session_id)).partial


@pytest.mark.slow
async def test_text_within_a_saved_state_is_exported(tmp_path: Path) -> None:
    """When a state was saved in the middle of an answer, the text before it is in an export, and that after it."""
    provider = ScriptedProvider((*text("so far")[:1], Pause("one"), *text(", and on")[:1], Pause("two"), *text("")))
    store = SqliteStore(tmp_path / "source")
    async with open_session_service(scripted(provider, store=store)) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "begin")
        await provider.wait_for_pause("one")
        for number in range(limits.STATE_EVERY_EVENTS + 1):
            await service.rename_session(session_id, f"name {number}")
        stored = await store.load(session_id)
        assert stored is not None
        assert stored.snapshot is not None
        assert stored.snapshot.partial is not None
        provider.release("one")
        await provider.wait_for_pause("two")
        lines: list[bytes] = []
        while b", and on" not in b"".join(lines):  # it is saved four times a second
            lines = await exported(store, session_id)
        provider.release("two")
        await service.wait_for_turn(session_id)

    await import_session(lines, SqliteStore(tmp_path / "target"), settings=None)

    reader = SqliteReader(tmp_path / "target")
    async with reader.open_reader():
        stored = await reader.load(session_id)
        assert stored is not None
        partial = restore(session_id, stored).build_partial()
        assert partial is not None
        assert ["so far, and on"] == [str(part.text) for part in partial.parts]
    assert () == verify_store(tmp_path / "target").findings


class BusyStore(MemoryStore):
    """Lets something happen between the end of the journal and the look for unfinished text."""

    meanwhile: Callable[[], Awaitable[object]] | None = None

    async def load(self, session_id: SessionId) -> StoredSession | None:
        if self.meanwhile is not None:
            happen, self.meanwhile = self.meanwhile, None
            await happen()
        return await super().load(session_id)


async def test_an_answer_finished_meanwhile_is_exported_whole() -> None:
    """An answer that ends just when its text is looked for is in the export as the message that it has become."""
    provider = ScriptedProvider((*text("all of ")[:1], Pause("middle"), *text("it")))
    store = BusyStore()
    async with open_session_service(scripted(provider, store=store)) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "begin")
        await provider.wait_for_pause("middle")

        async def finish() -> None:
            provider.release("middle")
            await service.wait_for_turn(session_id)

        store.meanwhile = finish
        lines = await exported(store, session_id)
        whole = await exported(store, session_id)

    assert [] == passing_of(lines)
    assert whole[1:-1] == lines[1:-1]
    assert b"all of it" in b"".join(lines)


@given(parts=st.lists(st.tuples(st.sampled_from(["text", "thinking"]), st.text()), max_size=4), rnd=st.random_module())
async def test_any_unfinished_text_comes_back(*, parts: list[tuple[Any, str]], rnd: object, small: Exported) -> None:
    """Whatever an answer has said so far, in however many parts and pieces, is the same there and back and there."""
    store = MemoryStore()
    await import_session(small.lines, store, as_new=False, settings=None)
    last = store.events_of(small.session_id)[-1]
    message_id = MessageId("msg_half")
    inside: list[ev.Event] = [
        ev.MessageStarted(message_id=message_id, parent_id=None, turn_id=TurnId("turn_half"), model="scripted")
    ]
    for kind, words in parts:
        inside += [
            ev.PartStarted(message_id=message_id, kind=kind),
            *(ev.PartDelta(message_id=message_id, text=letter) for letter in words),
        ]
    for number, event in enumerate(inside, 1):
        store.append(attrs.evolve(last, sseq=last.sseq + number, event=event))
    expected = (await kept_state(store, small.session_id)).partial
    assert expected is not None
    assert [(part.kind, str(part.text)) for part in expected.parts] == parts
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(partial_answers, "PIECE_CHARS", 3)
        lines = await exported(store, small.session_id)
        patched.setattr(limits, "PARTIAL_TEXT_EVERY_MS", 0)
        target = MemoryStore()
        await import_session(lines, target, settings=None)
        assert expected == (await kept_state(target, small.session_id)).partial
        assert lines[1:-1] == (await exported(target, small.session_id))[1:-1]


async def test_unfinished_text_out_of_place_is_refused(half: Exported, tmp_path: Path) -> None:
    """Text of an answer counts for the digest, comes after the journal, and is no longer text of another."""
    (*start, journal, begun, delta, end), home = half.lines, tmp_path / "home"
    count = len(half.lines)
    cases = [
        (
            [*start, journal, begun, end],
            f"line {count - 1}: the export should have {count - 2} events, but {count - 3}",
        ),
        ([*start, journal, begun, delta.replace(b"half", b"HALF"), end], f"line {count}: the export is not what"),
        ([*start, journal, delta.replace(b'"msg_', b'"msg_x')], f"line {count - 2}: this is text of an answer"),
        (
            [*start, journal, begun, journal.replace(b'"sseq":', b'"sseq":9')],
            f"line {count - 1}: the text of an unfinished answer comes last",
        ),
    ]
    for lines, sentence in cases:
        assert (await refusal(lines, home)).message.startswith(sentence)


async def test_text_that_is_not_saved_is_told(half: Exported, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that loses the text of an unfinished answer is found out before an import is reported."""

    class ForgetfulStore(MemoryStore):
        async def load(self, session_id: SessionId) -> StoredSession | None:
            return StoredSession(snapshot=None, events=self.events_of(session_id))

    monkeypatch.setattr(partial_answers, "SAVED_WITHIN_S", 0.0)
    with pytest.raises(StorageFailed, match="not the text of its unfinished answer"):
        await import_session(half.lines, ForgetfulStore(), settings=None)
