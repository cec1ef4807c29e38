"""Closing an HTTP response before its end: the one workaround for a gap in httpx2.

httpx2 2.16 closes the outer layers of a body and leaves its innermost generator to the garbage collector, about which
trio complains. `hold_body` keeps a reference to that generator, so closing the response closes it too.
"""

from typing import TYPE_CHECKING, Any, Self, cast

if TYPE_CHECKING:
    import httpx2


class _HeldBody:
    """The chunks of a body as they come from the connection, closed together with it."""

    def __init__(self, body: Any) -> None:
        self._body = body
        self._pieces = body.__aiter__()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        return cast(bytes, await anext(self._pieces))

    async def aclose(self) -> None:
        try:
            await self._pieces.aclose()
        finally:
            await self._body.aclose()  # shields itself from cancellation


def hold_body(response: "httpx2.Response") -> None:
    """Make closing a streamed response close its innermost body too; call it before the first chunk is read.

    A response with a different internal structure, such as one of a later httpx2, is left alone.
    """
    holder: Any = getattr(response.stream, "_stream", None)
    body: Any = getattr(holder, "_httpcore_stream", None)
    if hasattr(body, "aclose") and not isinstance(body, _HeldBody):
        holder._httpcore_stream = _HeldBody(body)  # noqa: SLF001 - there is no public access
