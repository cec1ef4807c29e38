"""Running tests of the terminal: Textual lives on asyncio, the other tests on trio."""

from collections.abc import Awaitable, Callable

import anyio


def on_asyncio(test: Callable[[], Awaitable[None]], *, seconds: float = 900) -> None:
    """Run a test on asyncio, and fail it if it hangs."""

    async def bounded() -> None:
        with anyio.fail_after(seconds):
            await test()

    anyio.run(bounded, backend="asyncio")
