"""Clients that are attached to a service in this process: who they are, and the service as each of them sees it."""

from collections.abc import Collection
from typing import TYPE_CHECKING, TypeVar

from session_core.errors import Conflict, InvalidInput
from session_core.ids import LOCAL_CLIENT, ClientId, Cursor, SessionId
from session_core.service import retention
from session_core.service.extension_api import extension_of
from session_core.service.feed import Feed
from session_core.service.validation import checked_client_id, checked_name, checked_ui
from session_core.vocabulary import events as ev
from session_core.vocabulary.argument_checks import check_for, describe
from session_core.vocabulary.commands import Command
from session_core.vocabulary.extensions import UiKind
from session_core.vocabulary.methods import SessionMethods
from session_core.vocabulary.sessions import ClientKind, ClientRole

if TYPE_CHECKING:
    from session_core.service.service import SessionService

R = TypeVar("R")


def coming(
    client_id: str,
    attached: Collection[ClientId],
    *,
    role: ClientRole,
    ui: Collection[UiKind],
    name: str,
    kind: ClientKind,
) -> ev.ClientAttached:
    """Return what is told of a client that comes.

    Raises:
        InvalidInput: Something about it is wrong.
        Conflict: One of that id is there already, or the id belongs to the service itself.
    """
    checked = checked_client_id(client_id)
    for field, value, allowed in (("role", role, ClientRole), ("kind", kind, ClientKind)):
        if not check_for(allowed)(value):
            raise InvalidInput(f"{field} must be {describe(allowed)}, not {value!r}", field=field)
    kinds = checked_ui(ui)
    called = checked_name(name) if name != "" else ""
    if checked in attached or checked in {LOCAL_CLIENT, retention.CLIENT} or extension_of(checked) is not None:
        raise Conflict(f"a client called {checked!r} is already attached", field="client_id")
    return ev.ClientAttached(client_id=checked, role=role, ui=kinds, name=called, kind=kind)


class AttachedClient(SessionMethods):
    """A service as one client sees it: the same methods, done in its name."""

    def __init__(self, service: "SessionService", client_id: ClientId) -> None:
        self.client_id = client_id
        self._service = service

    async def execute(self, command: Command[R], *, idempotency_key: str | None = None) -> R:
        """Run a command in this client's name."""
        return await self._service.execute(command, idempotency_key=idempotency_key, client_id=self.client_id)

    def follow(
        self, session_id: SessionId | None = None, *, after: Cursor | None = None, max_bytes: int | None = None
    ) -> Feed:
        """Follow one session, or the list of all; see `SessionService.follow`."""
        return self._service.follow(session_id, after=after, max_bytes=max_bytes)
