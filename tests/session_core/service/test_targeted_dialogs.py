"""Dialogs for one client."""

import pytest
import trio

from session_core.errors import Forbidden, NotFound
from session_core.ids import ClientId
from session_core.testing.checked import open_checked_service
from session_core.vocabulary.replies import DialogReply
from tests.session_core.service._helpers import scripted, until


async def test_only_the_one_that_is_asked_may_answer() -> None:
    """A dialog for one client is shown to all, and an answer of anybody else is refused and changes nothing."""
    replies: list[DialogReply] = []
    async with open_checked_service(scripted()) as service, trio.open_nursery() as nursery:
        with service.attach("ann") as ann, service.attach("bob") as bob:
            session_id = (await service.create_session()).session_id

            async def ask() -> None:
                replies.append(await service.open_dialog(session_id, "confirm", "sure?", to=ann.client_id))

            nursery.start_soon(ask)
            session = service.core.session(session_id)
            await until(lambda: session.state.dialogs)
            (dialog,) = (await bob.load_session(session_id)).dialogs
            assert ann.client_id == dialog.to
            with pytest.raises(Forbidden, match="for the client 'ann'"):
                await bob.answer_dialog(session_id, dialog.request_id, True)
            assert (await ann.answer_dialog(session_id, dialog.request_id, False)).accepted
    (reply,) = replies
    assert (True, False, "ann") == (reply.answered, reply.value, reply.by)


async def test_nobody_can_be_asked_who_is_not_there() -> None:
    """A dialog for a client that is not attached, or that only watches, is refused at once."""
    async with open_checked_service(scripted()) as service:
        session_id = (await service.create_session()).session_id
        with service.attach("eve", role="observer"):
            for client_id, why in (("bob", "is not attached"), ("eve", "only watches")):
                with pytest.raises(NotFound, match=why):
                    await service.open_dialog(session_id, "confirm", "sure?", to=ClientId(client_id))
        assert () == (await service.load_session(session_id)).dialogs
