"""The methods of a service in another process: what is asked, and the replies as typed values and typed errors."""

from typing import Any, TypeVar

import session_core as sc

T = TypeVar("T")


class RemoteMethods(sc.SessionMethods):
    """The methods of a service over a connection; a subclass says how a request gets there and back."""

    async def _ask(self, method: str, params: dict[str, Any]) -> Any:
        """Send a request and return the plain result, or raise one typed error."""
        raise NotImplementedError

    async def execute(self, command: sc.Command[T], *, idempotency_key: str | None = None) -> T:
        """Run a command and return its reply, or raise one typed error."""
        asked = sc.wire.Execute(command=command, idempotency_key=idempotency_key)
        return reply_to(command, await self._ask("execute", sc.wire.to_json(asked)))

    async def status(self) -> sc.wire.ServiceStatus:
        """Ask what the server is doing."""
        return sc.wire.from_json(await self._ask("status", {}), sc.wire.ServiceStatus)

    async def load_sessions(self, listed: sc.ServiceSnapshot | None = None) -> list[sc.SessionSummary]:
        """Load the list of sessions, and those at work that are not listed because there are very many."""
        listed = listed or await self.load_service()
        sessions = {each.session_id: each for each in listed.sessions}
        page: str | None = None
        while listed.earlier:
            at_work = await self.list_sessions(running=True, archived=None, page=page)
            sessions.update((each.session_id, each) for each in at_work.sessions)
            page = at_work.next_page
            if page is None:
                break
        return list(sessions.values())

    async def shutdown(self, *, force: bool = False) -> None:
        """End the server; running work prevents that unless forced.

        Raises:
            Conflict: Something runs.
            Disconnected: The connection was lost before the reply; the server may or may not have ended.
        """
        await self._ask("shutdown", {"force": force})


def result_of(method: str, reply: sc.wire.SuccessReply | sc.wire.FailureReply) -> Any:
    """Return the plain result of a request, or raise the server's error."""
    if isinstance(reply, sc.wire.SuccessReply):
        return reply.result
    raise error_of(method, reply)


def error_of(method: str, failure: sc.wire.FailureReply | sc.wire.RpcFailed) -> sc.SessionCoreError:
    """Return the typed error of a reply."""
    if failure.data is not None:
        try:
            return sc.wire.error_from_info(sc.wire.from_json(failure.data, sc.wire.ErrorInfo))
        except sc.ProtocolError:
            pass
    return sc.ProtocolError(f"the server refuses {method}: {failure.message[:500]}")


def reply_to(command: "sc.Command[T]", plain: Any) -> T:
    """Read the reply to a command.

    Raises:
        ProtocolError: It is not a valid reply.
    """
    expected: Any = sc.wire.reply_type(type(command))
    value: T = sc.wire.from_json(plain, expected)
    return value
