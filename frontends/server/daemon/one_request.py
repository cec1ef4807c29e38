"""One short connection to the running service of a home, for commands that send one request.

Programs that stay connected use `frontends.client`, which survives a lost connection. For one request it is no
substitute: with anyio it would make these commands a tenth slower to start, and a client that tries again cannot
tell whether nobody listens, the service is about to end, or it hangs.
"""

import errno
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import trio

import session_core as sc
from frontends.client.replies import error_of, reply_to
from frontends.shared.socket_path import short_socket_name, socket_path_of_home

R = TypeVar("R")

ANSWER_S: Final = 10.0
"""How long a service may take to answer the hello; one that takes longer hangs."""
_NOBODY: Final = frozenset({errno.ENOENT, errno.ECONNREFUSED, errno.ENOTDIR})


class ClientNotAdmitted(Exception):
    """The service accepts no clients: it is shutting down, or is full."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Talk(sc.SessionMethods):
    """The methods of the service, over one connection."""

    def __init__(self, connection: sc.wire.RpcConnection, welcome: sc.wire.Welcome) -> None:
        self.welcome = welcome
        self._connection = connection

    async def execute(self, command: "sc.Command[R]", *, idempotency_key: str | None = None) -> R:
        """Run a command and return its reply, or raise one typed error."""
        asked = sc.wire.Execute(command=command, idempotency_key=idempotency_key)
        reply = await _ask(self._connection, "execute", sc.wire.to_json(asked))
        return reply_to(command, reply)

    async def status(self) -> sc.wire.ServiceStatus:
        """Return what the service is doing."""
        return sc.wire.from_json(await _ask(self._connection, "status", {}), sc.wire.ServiceStatus)

    async def shut_down(self, *, force: bool) -> None:
        """End the service.

        Raises:
            Conflict: Something runs, and `force` is false.
        """
        await _ask(self._connection, "shutdown", {"force": force})

    async def login_link(self) -> str:
        """Request a link that lets one browser in, once, within a minute.

        Raises:
            Unavailable: The service does not serve HTTP.
        """
        return str((await _ask(self._connection, "login_link", {}))["url"])


@asynccontextmanager
async def open_talk(
    home: Path, *, role: sc.ClientRole = "controller", name: str = "", kind: sc.ClientKind = "cli"
) -> AsyncGenerator[Talk]:
    """Talk to the service of a home for the length of the block.

    Raises:
        ConnectionRefusedError: No process listens there.
        ClientNotAdmitted: The service is shutting down, or is full.
        Disconnected: The service hangs.
        ProtocolError: It speaks another version of the contract.
    """
    goodbyes: list[sc.wire.Goodbye] = []

    def handle_notification(notification: sc.wire.Notification) -> None:
        if notification.method == "goodbye":
            goodbyes.append(sc.wire.from_json({"type": "goodbye", **notification.params}, sc.wire.Goodbye))

    async with await _connect(home) as stream:
        async with sc.wire.open_connection(
            stream, stream, handle_notification=handle_notification, name="the service of a home"
        ) as connection:
            hello = sc.wire.Hello(role=role, name=name, kind=kind)
            try:
                reply = await _ask(connection, "hello", sc.wire.to_json(hello), seconds=ANSWER_S)
            except sc.Disconnected:
                if goodbyes:
                    raise ClientNotAdmitted(goodbyes[0].reason) from None
                raise
            yield Talk(connection, sc.wire.from_json(reply, sc.wire.Welcome))


async def _connect(home: Path) -> trio.SocketStream:
    try:
        with short_socket_name(socket_path_of_home(home)) as name:
            return await trio.open_unix_socket(name)
    except OSError as error:
        if error.errno in _NOBODY:
            raise ConnectionRefusedError("nobody listens") from None
        raise sc.Disconnected(f"the service of this home cannot be reached: {error.strerror}") from error


async def _ask(connection: sc.wire.RpcConnection, method: str, params: Any, *, seconds: float | None = None) -> Any:
    try:
        return await connection.request(method, params, timeout=seconds)
    except sc.wire.RpcTimedOut:
        raise sc.Disconnected(f"the service of this home did not answer within {seconds:g} seconds") from None
    except sc.wire.RpcClosed:
        raise sc.Disconnected("the connection to the service of this home was lost") from None
    except sc.wire.RpcFailed as failed:
        raise error_of(method, failed) from None
