"""A loop in a thread of its own, and calling into it from code that knows nothing of loops."""

import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Final, TypeVar

import anyio
from anyio.from_thread import BlockingPortal

import session_core as sc

T = TypeVar("T")

_LEAVE_S: Final = 10.0
"""How long leaving may take before the thread is left behind; it ends with the program."""


class LoopThread:
    """Runs a loop and, within it, the block of an asynchronous context manager.

    The thread does not keep the program from ending, and works beside a loop that runs in the caller's thread.
    """

    def __init__(self, block: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        self._block = block
        self._portal: Future[BlockingPortal] = Future()
        self._inner: Future[Any] = Future()
        # Not trio: it refuses calls from a thread in which trio runs too, as it may in a notebook.
        self._thread = threading.Thread(
            target=anyio.run, args=(self._run,), kwargs={"backend": "asyncio"}, name="session client", daemon=True
        )
        self._thread.start()

    async def _run(self) -> None:
        try:
            async with BlockingPortal() as portal:
                self._portal.set_result(portal)
                await self._stay(portal)
        finally:
            if not self._inner.done():
                self._inner.set_exception(sc.ServiceClosed("the client is closed"))

    async def _stay(self, portal: BlockingPortal) -> None:
        try:
            async with self._block() as inner:
                self._inner.set_result(inner)
                await portal.sleep_until_stopped()
        except Exception as error:
            if self._inner.done():
                raise
            self._inner.set_exception(error)

    def inner(self) -> Any:
        """Return what the block gives, as soon as it has been entered; raises what kept it from that."""
        try:
            return self._inner.result()
        except BaseException:
            self.stop()
            raise

    def call(self, function: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
        """Run an asynchronous function there, and wait for it. An interrupt here cancels it there."""
        try:
            running: Future[T] = self._portal.result().start_task_soon(lambda: function(*args, **kwargs))
        except RuntimeError:  # its loop has ended
            raise sc.ServiceClosed("the client is closed") from None
        try:
            return running.result()
        except BaseException:
            running.cancel()
            raise

    def call_now(self, function: Callable[..., T], *args: Any) -> T:
        """Run a plain function there, between two steps of the loop."""

        async def run() -> T:
            return function(*args)

        return self.call(run)

    def stop(self) -> None:
        """Leave the block and end the loop; once is enough."""
        if threading.current_thread() is self._thread:
            # The loop has thrown away the last reference itself, and cannot wait for its own end.
            with suppress(RuntimeError):  # the program is ending, and the thread with it
                threading.Thread(target=self.stop, name="ends a forgotten client", daemon=True).start()
            return
        with suppress(RuntimeError):  # it has ended already
            portal = self._portal.result()
            portal.start_task_soon(portal.stop, True)
        self._thread.join(_LEAVE_S)
