"""A client of the service of a home, if one runs."""

from collections.abc import AsyncGenerator, Callable, Collection
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import trio

import session_core as sc
from frontends.server.daemon.runtime_paths import build_release_conflict, find_cut_off, find_holder, service_process
from frontends.shared.home import format_command

if TYPE_CHECKING:
    from frontends.client import SessionClient

START_S: Final = 30.0
"""How long a running service may take to accept us: it may just be starting."""
_LOOK_EVERY_S: Final = 0.05


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
    opening = await _open_client(home, partial(_build_client, home, name=name, role=role, ui=ui, on_state=on_state))
    if opening is None:
        yield None
        return
    stack, client = opening
    async with stack:
        yield client


def _build_client(home: Path, **about: Any) -> "AbstractAsyncContextManager[SessionClient]":
    from frontends.client import open_client

    return open_client(home=home, kind="cli", **about)


async def _open_client(
    home: Path, opening: "Callable[[], AbstractAsyncContextManager[SessionClient]]"
) -> "tuple[AsyncExitStack, SessionClient] | None":
    """Open a client as soon as the service accepts one; None if there is no service, or no longer."""
    give_up_at = trio.current_time() + START_S
    while (holder := await trio.to_thread.run_sync(service_process, home)) is not None:
        if (lost := await trio.to_thread.run_sync(find_cut_off, home, holder)) is not None:
            raise lost
        async with AsyncExitStack() as stack:
            try:
                client = await stack.enter_async_context(opening())
            except sc.ProtocolError as error:
                raise build_release_conflict(home, error) from error
            except sc.Disconnected:
                if trio.current_time() >= give_up_at:
                    raise
            else:
                return stack.pop_all(), client
        await trio.sleep(_LOOK_EVERY_S)  # it is still starting, or about to end
    return None


def nothing_runs(home: Path, what: str, *, start: str = "") -> str:
    """Describe that no service runs, so there is nothing to `what`, and how to start one with options; blocks."""
    holder = find_holder(home)
    if holder is not None:
        return (
            f"this home is in use by {holder}, which is not a service that can be reached; there is nothing to {what}"
        )
    typed = format_command(home, "serve", start)
    return f"no service runs for this home, so there is nothing to {what}; to start one: {typed}"
