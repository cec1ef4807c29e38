"""Opening a client for the length of a block."""

import ssl
from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import asynccontextmanager
from pathlib import Path
from secrets import token_hex

import anyio

import session_core as sc
from frontends.client.address import find_address
from frontends.client.backoff import pause_before
from frontends.client.client import PATIENCE_S, ClientSettings, SessionClient
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
    ui: Collection[sc.UiKind] = (),
    client_id: str = "",
    instance: str | None = None,
    wait_s: float = 0.0,
    patience_s: float = PATIENCE_S,
    on_state: StateHandler | None = None,
    pause_before: Callable[[int], float] = pause_before,
) -> AsyncGenerator[SessionClient]:
    """Be a client of a server for the length of the block; on trio or asyncio.

    Args:
        home: The home whose server is meant; None is the user's own.
        address: Where the server is instead: the path of its socket, or a `ws://` or `wss://` URL.
        token: What lets us in at a URL.
        tls: How to check who answers at a `wss://` URL, if not by the authorities that the system trusts.
        insecure: Send the token unencrypted to another machine.
        name: What people call this client, such as the name of the machine.
        kind: What sort of frontend it is.
        role: Whether it acts, or only watches.
        ui: What it can show and ask for extensions.
        client_id: What it is called in events; the server chooses if it is empty.
        instance: The secret by which the server knows us again; by default a new one for each block.
        wait_s: How long to try if no server answers at once.
        patience_s: How long requests wait for a lost connection to come back.
        on_state: Hears of each change of the connection's state; must not wait.
        pause_before: How long to wait before an attempt to connect, counted from 1.

    Raises:
        Disconnected: No server answers.
        NotAllowed, Conflict, InvalidInput, ProtocolError: The server does not take this client.

    Cancellation: the connection ends at once; the server and its work go on.
    """
    hello = sc.Hello(
        client_id=sc.ClientId(client_id),
        name=name,
        kind=kind,
        role=role,
        ui=tuple(ui),
        instance=token_hex(16) if instance is None else instance,
    )
    settings = ClientSettings(hello=hello, patience_s=patience_s, on_state=on_state, pause_before=pause_before)
    client = SessionClient(find_address(home=home, address=address, token=token, tls=tls, insecure=insecure), settings)
    own = sc.ErrorCapture()
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
