"""Calls of an SDK session: the handshake, complete listings, and describing foreign exceptions."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from session_core.limits import MAX_ERROR_CHARS
from session_core.mcp.content import MAX_LISTED
from session_core.mcp.results import cut

if TYPE_CHECKING:
    import mcp_types as types
    from mcp import ClientSession

T = TypeVar("T")
PageT = TypeVar("PageT", bound="types.PaginatedResult")

MAX_PAGES: Final = 100
"""The most pages of one listing, for servers whose listing never ends."""


async def greet(session: "ClientSession") -> None:
    """Agree on a protocol version."""
    from mcp import MCPError
    from mcp_types import METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION

    try:
        await session.initialize()
    except MCPError as error:
        if error.code not in (METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION):
            raise
        await session.discover()  # understood by servers that know only the newest protocol


async def has_resources(session: "ClientSession") -> bool:
    """Return whether the server has any resources."""
    from mcp import MCPError

    try:
        # Many servers declare resources only because their library does.
        return bool((await session.list_resources()).resources) or bool(
            (await session.list_resource_templates()).resource_templates
        )
    except (MCPError, ValueError):  # not worth losing a server's tools
        return False


async def fetch_all_pages(
    fetch: Callable[["types.PaginatedRequestParams | None"], Awaitable[PageT]], items: Callable[[PageT], Sequence[T]]
) -> list[T]:
    """Return a complete listing, up to a limit; a listing that runs in a circle is abandoned."""
    from mcp_types import PaginatedRequestParams

    found: list[T] = []
    seen: set[str] = set()
    cursor: str | None = None
    while True:
        page = await fetch(None if cursor is None else PaginatedRequestParams(cursor=cursor))
        found += items(page)[: MAX_LISTED - len(found)]
        cursor = page.next_cursor
        if cursor is None or cursor in seen or len(seen) == MAX_PAGES or len(found) == MAX_LISTED:
            return found
        seen.add(cursor)


def describe_exception(error: BaseException) -> str:
    """Return the message of an exception; for a group, that of its first exception."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return cut(
        " ".join((_describe_protocol_error(error) or str(error) or type(error).__name__).split()), MAX_ERROR_CHARS // 2
    )


def _describe_protocol_error(error: BaseException) -> str:
    from pydantic import ValidationError

    if not isinstance(error, ValidationError):
        return ""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(step) for step in first["loc"])
    return f"it does not keep to the protocol at {place!r}: {first['msg']}"
