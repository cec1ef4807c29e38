"""Sending a command twice with the same key does it once."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
import trio

from session_core import limits
from session_core.errors import Conflict, InvalidInput
from session_core.service.service import open_session_service
from session_core.storage.files import STORE_FILE
from session_core.storage.sqlite import SqliteStore
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import Hang
from session_core.vocabulary import commands as c
from session_core.vocabulary import events as ev
from session_core.vocabulary.replies import Acknowledged
from tests.session_core.service._helpers import new_session, of_type, scripted


async def test_idempotency_keys() -> None:
    """The same key gives the same reply, another command with it is a conflict, and clients have keys of their own."""
    async with open_checked_service(scripted()) as service:
        first = await service.create_session(name="a", idempotency_key="k")
        again = await service.create_session(name="a", idempotency_key="k")
        assert first == again
        with pytest.raises(Conflict) as caught:
            await service.create_session(name="b", idempotency_key="k")
        assert "idempotency_key" == caught.value.field
        with service.attach("other") as other:
            elsewhere = await other.create_session(name="a", idempotency_key="k")
        assert first.session_id != elsewhere.session_id
        assert 2 == service.statistics().sessions
        for bad in ("", "x" * (limits.MAX_NAME_CHARS + 1)):
            with pytest.raises(InvalidInput) as refused:
                await service.create_session(idempotency_key=bad)
            assert "idempotency_key" == refused.value.field


async def test_idempotency_concurrently() -> None:
    """The same keyed command sent many times at once is done once, and all callers get the one reply."""
    async with open_checked_service(scripted(Hang())) as service:
        session_id = await new_session(service)
        replies = set()

        async def send() -> None:
            replies.add(await service.send_user_message(session_id, "go", idempotency_key="k"))

        async with trio.open_nursery() as nursery:
            for _ in range(10):
                nursery.start_soon(send)

        assert 1 == len(replies)
        assert 1 == len(of_type(service, session_id, ev.MessageAdded))


async def test_a_refused_command_is_not_remembered() -> None:
    """A keyed command that was refused may be tried again with the same key once it can work."""
    async with open_checked_service(scripted(Hang())) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        archive = c.ArchiveSession(session_id=session_id)
        with pytest.raises(Conflict):
            await service.execute(archive, idempotency_key="k")
        await service.request_stop(session_id)
        assert isinstance(await service.execute(archive, idempotency_key="k"), Acknowledged)


async def test_a_retried_stop_gets_the_first_reply() -> None:
    """A stop sent again with the same key returns the first outcome and stops nothing that has begun since."""
    async with open_checked_service(scripted(Hang(), Hang())) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        stop = c.RequestStop(session_id=session_id)
        first = await service.execute(stop, idempotency_key="k")
        await service.send_user_message(session_id, "again")
        await service.send_user_message(session_id, "queued")

        assert first == await service.execute(stop, idempotency_key="k")
        assert 1 == service.statistics().running


async def test_a_reply_is_durable_although_nothing_changed(tmp_path: Path) -> None:
    """A key is on disk when its reply is given, also where the command recorded no event or took time."""
    async with open_session_service(scripted(store=SqliteStore(tmp_path))) as service:
        session_id = await new_session(service)
        before = service.statistics().stream.published
        for key, command in (
            ("slow", c.RequestStop(session_id=session_id)),
            ("quick", c.TakeQueue(session_id=session_id)),
        ):
            await service.execute(command, idempotency_key=key)
            with closing(sqlite3.connect(tmp_path / STORE_FILE)) as disk:
                assert (key,) in disk.execute("SELECT key FROM reply").fetchall()
        assert before == service.statistics().stream.published
