"""Clients of the running service of a home.

| a command that | uses |
| --- | --- |
| asks for something and leaves | `talk_if_running`: one connection; if it is lost, the request fails |
| stays | `connect_if_running`: a client of `frontends.client`, which survives a lost connection |

Both wait while the service is still starting or about to end; neither starts one. A `Talk` needs no anyio, which would
make short commands start a tenth more slowly, and it gives up at once when a service stays silent for too long.
"""

import errno
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import trio

import session_core as sc
from frontends.client.remote_methods import RemoteMethods, error_of
from frontends.server.daemon.runtime_paths import build_release_conflict, find_cut_off, find_holder, service_process
from frontends.shared.home import format_command
from frontends.shared.socket_path import short_socket_name, socket_path_of_home

if TYPE_CHECKING:
    from frontends.client import SessionClient

C = TypeVar("C", bound=sc.SessionMethods)

START_S: Final = 60.0
"""How long a running service may take to accept us: it may just be starting."""
ANSWER_S: Final = 10.0
"""How long a service may take to answer the hello; one that takes longer hangs."""
_LOOK_EVERY_S: Final = 0.02
_NOBODY_LISTENS: Final = frozenset({errno.ENOENT, errno.ECONNREFUSED, errno.ENOTDIR})


class NobodyListens(sc.Disconnected):
    """No process listens at the socket of a home: the service is starting, or has ended."""


class ClientNotAdmitted(sc.Disconnected):
    """The service accepts no clients: it is shutting down, or is full."""


class ServiceUnreachable(sc.Disconnected):
    """The service hangs, or its socket cannot be used: waiting does not help."""


# --- a client, if a service runs --------------------------------------------------------------------------------------


@asynccontextmanager
async def talk_if_running(
    home: Path, *, name: str = "", role: sc.ClientRole = "controller"
) -> "AsyncGenerator[Talk | None]":
    """Talk to the home's service for the length of the block; None if none runs. Starts nothing.

    Raises:
        Disconnected: The service does not answer or does not accept us, or its socket was deleted.
        Conflict: The service is of another release, and speaks another contract.
    """
    async with _open_if_running(home, partial(open_talk, home, role=role, name=name)) as talk:
        yield talk


@asynccontextmanager
async def connect_if_running(
    home: Path,
    *,
    name: str,
    role: sc.ClientRole = "controller",
    ui: Collection[sc.extensions.UiKind] = (),
    on_state: Callable[[Any], object] | None = None,
) -> "AsyncGenerator[SessionClient | None]":
    """Open a client of the home's service for the length of the block; None if none runs. Starts nothing.

    Raises:
        Disconnected: The service runs, but does not accept us.
        Conflict: The service is of another release, and speaks another contract.
    """

    def opening() -> "AbstractAsyncContextManager[SessionClient]":
        from frontends.client import open_client

        return open_client(home=home, kind="cli", name=name, role=role, ui=ui, on_state=on_state)

    async with _open_if_running(home, opening) as client:
        yield client


@asynccontextmanager
async def _open_if_running(
    home: Path, opening: Callable[[], AbstractAsyncContextManager[C]]
) -> AsyncGenerator[C | None]:
    """Open a client as soon as the service accepts one; None if there is no service, or no longer."""
    give_up_at = trio.current_time() + START_S
    async with AsyncExitStack() as stack:
        client = None
        while (holder := await trio.to_thread.run_sync(service_process, home)) is not None:
            try:
                client = await stack.enter_async_context(opening())
                break
            except sc.ProtocolError as error:
                raise build_release_conflict(home, error) from error
            except ServiceUnreachable as error:
                raise sc.Disconnected(f"{error.message}: {holder}") from error
            except sc.Disconnected as error:
                why = error.message
            if (lost := await trio.to_thread.run_sync(find_cut_off, home, holder)) is not None:
                raise lost
            if trio.current_time() >= give_up_at:
                raise sc.Disconnected(f"the service of this home is {holder}, and does not accept connections: {why}")
            await trio.sleep(_LOOK_EVERY_S)  # it is still starting, or about to end
        yield client


def nothing_runs(home: Path, what: str, *, start: str = "") -> str:
    """Describe that no service runs, so there is nothing to `what`, and how to start one with options; blocks."""
    holder = find_holder(home)
    if holder is not None:
        return (
            f"this home is in use by {holder}, which is not a service that can be reached; there is nothing to {what}"
        )
    typed = format_command(home, "serve", start)
    return f"no service runs for this home, so there is nothing to {what}; to start one: {typed}"


# --- a talk -----------------------------------------------------------------------------------------------------------


class Talk(RemoteMethods):
    """The methods of the service over a single connection, which is never replaced; made by `open_talk`."""

    def __init__(self) -> None:
        self.client_id = sc.ClientId("")
        self._connection: sc.wire.RpcConnection | None = None
        self._goodbye: sc.wire.Goodbye | None = None
        self._silence_limit_s = ANSWER_S
        self._waiting: set[trio.CancelScope] = set()

    async def greet(self, connection: sc.wire.RpcConnection, hello: sc.wire.Hello) -> None:
        """Begin to talk over an open connection."""
        self._connection = connection
        try:
            welcome = sc.wire.from_json(await self._ask("hello", sc.wire.to_json(hello)), sc.wire.Welcome)
        except sc.Disconnected:
            if self._goodbye is None:
                raise
            raise ClientNotAdmitted(self._goodbye.reason) from None
        self.client_id = welcome.client_id
        self._silence_limit_s = 2 * welcome.heartbeat_ms / 1000

    def hear(self, notification: sc.wire.Notification) -> None:
        """Handle a notification: remember a goodbye, and count any as a sign of life."""
        if notification.method == "goodbye":
            self._goodbye = sc.wire.from_json({"type": "goodbye", **notification.params}, sc.wire.Goodbye)
        for scope in self._waiting:
            scope.deadline = trio.current_time() + self._silence_limit_s

    async def login_link(self) -> str:
        """Request a link that lets one browser in, once, within a minute.

        Raises:
            Unavailable: The service does not serve HTTP.
        """
        return str((await self._ask("login_link", {}))["url"])

    async def _ask(self, method: str, params: dict[str, Any]) -> Any:
        assert self._connection is not None
        seconds = self._silence_limit_s
        # `RpcTimedOut` would come at a fixed time, however busy the service is; signs of life move this deadline.
        with trio.move_on_after(seconds) as waiting:
            self._waiting.add(waiting)
            try:
                return await self._connection.request(method, params)
            except sc.wire.RpcClosed:
                why = "was lost" if self._goodbye is None else f"has ended: {self._goodbye.reason}"
                raise sc.Disconnected(f"the connection to the service of this home {why}") from None
            except sc.wire.RpcFailed as failed:
                raise error_of(method, failed) from None
            finally:
                self._waiting.discard(waiting)
        raise ServiceUnreachable(f"the service of this home did not answer within {seconds:g} seconds")


@asynccontextmanager
async def open_talk(home: Path, *, role: sc.ClientRole = "controller", name: str = "") -> AsyncGenerator[Talk]:
    """Talk to the service of a home for the length of the block; does not wait until it accepts us.

    Raises:
        NobodyListens: No process listens there.
        ClientNotAdmitted: The service is shutting down, or is full.
        ServiceUnreachable: It does not answer, or cannot be reached.
        Disconnected: It has ended just now.
        ProtocolError: It speaks another version of the contract.
    """
    talk = Talk()
    async with (
        await _connect(home) as stream,
        sc.wire.open_connection(
            stream,
            stream,
            handle_notification=talk.hear,
            name="the service of a home",
            max_line=sc.wire.MAX_SNAPSHOT_LINE,
        ) as connection,
    ):
        await talk.greet(connection, sc.wire.Hello(role=role, name=name, kind="cli"))
        yield talk


async def _connect(home: Path) -> trio.SocketStream:
    try:
        with short_socket_name(socket_path_of_home(home)) as name:
            return await trio.open_unix_socket(name)
    except OSError as error:
        if error.errno in _NOBODY_LISTENS:
            raise NobodyListens("nobody listens") from None
        raise ServiceUnreachable(f"the service of this home cannot be reached: {error.strerror}") from error
