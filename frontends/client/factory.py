"""Open a client for the length of a block."""

import ssl
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex

import anyio

import session_core as sc
from frontends.client.address import find_address
from frontends.client.backoff import pause_before
from frontends.client.client import PATIENCE_S, SessionClient
from frontends.client.state import StateHandler


@asynccontextmanager
async def open_client(
    home: Path | str | None = None,
    *,
    address: str | Path | None = None,
    token: str = "",
    tls: ssl.SSLContext | None = None,
    insecure: bool = False,
    name: str = "",
    kind: sc.ClientKind = "other",
    role: sc.ClientRole = "controller",
    ui: Collection[sc.extensions.UiKind] = (),
    client_id: str = "",
    instance: str | None = None,
    wait_s: float = 0.0,
    patience_s: float = PATIENCE_S,
    on_state: StateHandler | None = None,
    pause_before: Callable[[int], float] = pause_before,
) -> AsyncGenerator[SessionClient]:
    """Open a client of a server for the length of the block; on trio or asyncio.

    Args:
        home: The home of the server; None means the user's own.
        address: The server's address instead: the path of its socket, or a `ws://` or `wss://` URL.
        token: The access token for a URL.
        tls: How to verify the server at a `wss://` URL, if not with the system's certificate authorities.
        insecure: Send the token unencrypted to another machine.
        name: The client's name for people, such as the name of the machine.
        kind: The kind of frontend.
        role: Whether it acts, or only watches.
        ui: The kinds of extension UI that it supports.
        client_id: Its id in events; the server chooses one if it is empty.
        instance: The secret with which the server recognises a reconnect; by default a new one for each block.
        wait_s: How long to try if no server answers at once.
        patience_s: How long requests wait for a lost connection to come back.
        on_state: Called at each change of the connection's state; must not block.
        pause_before: Returns the pause before a connection attempt, counted from 1.

    Raises:
        Disconnected: No server answers.
        AccessDenied, Conflict, InvalidInput, ProtocolError: The server does not accept this client.

    Cancellation: the connection ends at once; the server and its work go on.
    """
    hello = sc.wire.Hello(
        client_id=sc.ClientId(client_id),
        name=name,
        kind=kind,
        role=role,
        ui=tuple(ui),
        instance=token_hex(16) if instance is None else instance,
    )
    client = SessionClient(
        find_address(home=home, address=address, token=token, tls=tls, insecure=insecure),
        hello,
        patience_s=patience_s,
        pause_before=pause_before,
        on_state=on_state,
    )
    own = sc.wire.ErrorCapture()
    with own.reraise():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(client.keep_connected)
            try:
                with own.capture():
                    await client.wait_connected(wait_s)
                    yield client
            finally:
                client.end(sc.ServiceClosed("the client is closed"))
                tasks.cancel_scope.cancel()
