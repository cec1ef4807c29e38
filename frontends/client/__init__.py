"""Clients of a running service, from any process or machine; on anyio, so for both trio and asyncio.

    async with open_client(name="my laptop", kind="script") as client:      # the server of the user's home
        created = await client.create_session(name="fix the parser")        # the methods of `sc.SessionMethods`
        async with client.follow(created.session_id) as feed:               # the items of `sc.Feed`
            async for item in feed: ...

- `factory`: `open_client`
- `client`: `SessionClient`, which keeps one connection and resends unanswered requests
- `feed`: `RemoteFeed`, a feed that survives lost connections
- `link`: one connection from its opening to its end; `transport`, `websocket`: its bytes
- `address`: where a server is
- `state`: the state of the connection, for display
- `remote_methods`: the requests of every client, and decoding the replies
- `backoff`: the pauses between attempts; `change_signal`: waking waiting tasks
- `sync`: the same without `await`, for scripts and notebooks

A lost connection is not an error: feeds resume where they were, requests are resent, and nothing runs twice.
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
