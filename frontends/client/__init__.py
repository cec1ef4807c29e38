"""Programs of any process and machine as clients of a running service; on anyio, so for trio and asyncio alike.

    async with open_client(name="my laptop", kind="script") as client:      # the server of the user's home
        created = await client.create_session(name="fix the parser")        # the methods of `sc.SessionMethods`
        async with client.follow(created.session_id) as feed:               # the items of `sc.Feed`
            async for item in feed: ...

- `factory`: `open_client`
- `client`: `SessionClient`, which keeps one connection and asks again what was not answered
- `feed`: `RemoteFeed`, a feed that survives its connections
- `link`: one connection from its opening to its end; `transport`, `websocket`: its bytes
- `address`: where a server is
- `state`: how a client is connected, for those who show it
- `replies`: what answers mean
- `backoff`: the pauses between attempts; `change_signal`: waking those who wait
- `sync`: the same without `await`, for scripts and notebooks

A lost connection is no error: feeds go on where they were, requests are sent again, and nothing is done twice.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from frontends.client.client import SessionClient as SessionClient
    from frontends.client.factory import open_client as open_client
    from frontends.client.feed import RemoteFeed as RemoteFeed
    from frontends.client.state import ConnectionState as ConnectionState

_HOME = {
    "ConnectionState": "frontends.client.state",
    "RemoteFeed": "frontends.client.feed",
    "SessionClient": "frontends.client.client",
    "open_client": "frontends.client.factory",
}

__all__ = ["ConnectionState", "RemoteFeed", "SessionClient", "open_client"]


def __getattr__(name: str) -> Any:
    """Load a name on its first use: a subcommand that needs no client pays nothing for it."""
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)
