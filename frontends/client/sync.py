"""A client without `await`, for scripts and notebooks.

    with connect(name="report") as client:
        session_id = client.create_session(name="nightly").session_id
        client.send_user_message(session_id, "hello")
        for item in client.follow(session_id):
            ...

It runs an event loop in its own thread, so it works where a loop is already running, as in Jupyter. An interrupt
(Ctrl-C) ends the waiting call, and the client stays usable.
"""

import inspect
import threading
import weakref
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import AbstractAsyncContextManager, suppress
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, Final, ParamSpec, Self, TypeVar

import anyio
from anyio.from_thread import BlockingPortal

import session_core as sc
from frontends.client.client import SessionClient
from frontends.client.factory import open_client
from frontends.client.feed import RemoteFeed
from frontends.client.state import ConnectionState

# The methods of the service without `await`: each has the arguments, the reply and the errors of its model.
P = ParamSpec("P")
R = TypeVar("R")


def _blocking(method: Callable[Concatenate[Any, P], Awaitable[R]]) -> Callable[Concatenate["BlockingMethods", P], R]:
    @wraps(method)
    def call(self: "BlockingMethods", /, *args: P.args, **kwargs: P.kwargs) -> R:
        reply: R = self._call(method.__name__, *args, **kwargs)
        return reply

    return call


class BlockingMethods:
    """One method for each of `sc.SessionMethods`; a test checks that none is missing."""

    def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Run a method of the client and wait for it."""
        raise NotImplementedError

    execute = _blocking(sc.SessionMethods.execute)
    create_session = _blocking(sc.SessionMethods.create_session)
    list_sessions = _blocking(sc.SessionMethods.list_sessions)
    list_models = _blocking(sc.SessionMethods.list_models)
    find_files = _blocking(sc.SessionMethods.find_files)
    load_service = _blocking(sc.SessionMethods.load_service)
    load_session = _blocking(sc.SessionMethods.load_session)
    load_messages = _blocking(sc.SessionMethods.load_messages)
    search_messages = _blocking(sc.SessionMethods.search_messages)
    rename_session = _blocking(sc.SessionMethods.rename_session)
    archive_session = _blocking(sc.SessionMethods.archive_session)
    restore_session = _blocking(sc.SessionMethods.restore_session)
    delete_session = _blocking(sc.SessionMethods.delete_session)
    fork_session = _blocking(sc.SessionMethods.fork_session)
    send_user_message = _blocking(sc.SessionMethods.send_user_message)
    start_turn_if_idle = _blocking(sc.SessionMethods.start_turn_if_idle)
    run_shell_line = _blocking(sc.SessionMethods.run_shell_line)
    edit_message = _blocking(sc.SessionMethods.edit_message)
    switch_branch = _blocking(sc.SessionMethods.switch_branch)
    resume_session = _blocking(sc.SessionMethods.resume_session)
    dismiss_outcome = _blocking(sc.SessionMethods.dismiss_outcome)
    wait_for_turn = _blocking(sc.SessionMethods.wait_for_turn)
    clear_context = _blocking(sc.SessionMethods.clear_context)
    compact_context = _blocking(sc.SessionMethods.compact_context)
    restore_to_message = _blocking(sc.SessionMethods.restore_to_message)
    take_back_undo = _blocking(sc.SessionMethods.take_back_undo)
    list_queue = _blocking(sc.SessionMethods.list_queue)
    edit_queue_item = _blocking(sc.SessionMethods.edit_queue_item)
    reorder_queue = _blocking(sc.SessionMethods.reorder_queue)
    remove_queue_item = _blocking(sc.SessionMethods.remove_queue_item)
    take_queue = _blocking(sc.SessionMethods.take_queue)
    switch_model = _blocking(sc.SessionMethods.switch_model)
    change_permission_mode = _blocking(sc.SessionMethods.change_permission_mode)
    change_sandbox_policy = _blocking(sc.SessionMethods.change_sandbox_policy)
    change_working_directory = _blocking(sc.SessionMethods.change_working_directory)
    change_turn_limits = _blocking(sc.SessionMethods.change_turn_limits)
    open_dialog = _blocking(sc.SessionMethods.open_dialog)
    answer_dialog = _blocking(sc.SessionMethods.answer_dialog)
    answer_approval = _blocking(sc.SessionMethods.answer_approval)
    schedule_wakeup = _blocking(sc.SessionMethods.schedule_wakeup)
    cancel_wakeup = _blocking(sc.SessionMethods.cancel_wakeup)
    request_stop = _blocking(sc.SessionMethods.request_stop)
    list_extensions = _blocking(sc.SessionMethods.list_extensions)
    list_commands = _blocking(sc.SessionMethods.list_commands)
    run_command = _blocking(sc.SessionMethods.run_command)
    complete_command = _blocking(sc.SessionMethods.complete_command)
    reload_extension = _blocking(sc.SessionMethods.reload_extension)
    enable_extension = _blocking(sc.SessionMethods.enable_extension)
    disable_extension = _blocking(sc.SessionMethods.disable_extension)
    press_widget_key = _blocking(sc.SessionMethods.press_widget_key)
    post_message = _blocking(sc.SessionMethods.post_message)
    append_entry = _blocking(sc.SessionMethods.append_entry)
    show_display = _blocking(sc.SessionMethods.show_display)
    show_notice = _blocking(sc.SessionMethods.show_notice)
    login_to_provider = _blocking(sc.SessionMethods.login_to_provider)
    list_protocols = _blocking(sc.SessionMethods.list_protocols)
    append_messages = _blocking(sc.SessionMethods.append_messages)
    apply_extension = _blocking(sc.SessionMethods.apply_extension)


# --- an event loop in its own thread, and calls into it from synchronous code -----------------------------------------
T = TypeVar("T")

_LEAVE_S: Final = 10.0
"""How long closing may take before the thread is abandoned; it ends with the program."""


class LoopThread:
    """Runs an event loop and, within it, the block of an asynchronous context manager.

    The thread does not stop the program from ending, and works beside a loop in the caller's thread.
    """

    def __init__(self, block: Callable[[], AbstractAsyncContextManager[Any]]) -> None:
        self._block = block
        self._portal: Future[BlockingPortal] = Future()
        self._inner: Future[Any] = Future()
        # Not trio: it refuses calls from a thread that runs trio too, as a notebook may.
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
        """Return the block's value once it is entered; raises the error if it could not be entered."""
        try:
            return self._inner.result()
        except BaseException:
            self.stop()
            raise

    def call(self, function: Callable[..., Awaitable[T]], *args: Any, **kwargs: Any) -> T:
        """Run an asynchronous function in the loop, and wait for it; an interrupt here cancels it there."""
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
        """Run a plain function in the loop, between two steps."""

        async def run() -> T:
            return function(*args)

        return self.call(run)

    def stop(self) -> None:
        """Leave the block and end the loop; later calls do nothing."""
        if threading.current_thread() is self._thread:
            # The loop's own thread dropped the last reference, and cannot wait for its own end.
            with suppress(RuntimeError):  # the program is ending, and the thread with it
                threading.Thread(target=self.stop, name="ends a forgotten client", daemon=True).start()
            return
        with suppress(RuntimeError):  # it has ended already
            portal = self._portal.result()
            portal.start_task_soon(portal.stop, True)
        self._thread.join(_LEAVE_S)


# --- sync -------------------------------------------------------------------------------------------------------------


def _copy_signature(model: Callable[P, object]) -> Callable[[Callable[..., R]], Callable[P, R]]:
    def set_signature(function: Callable[..., R]) -> Callable[P, R]:
        signature = inspect.signature(model).replace(return_annotation="SyncClient")
        function.__signature__ = signature  # type: ignore[attr-defined]  # shown by help() in a notebook
        return function

    return set_signature


@_copy_signature(open_client)
def connect(*args: Any, **kwargs: Any) -> "SyncClient":
    """Connect to a server; takes the arguments of `open_client`.

    Use it as a block, or call `close`.

    Raises:
        Disconnected: No server answers.
        AccessDenied, Conflict, InvalidInput, ProtocolError: The server does not accept this client.
    """
    return SyncClient(LoopThread(lambda: open_client(*args, **kwargs)))


class _ClosedByBlock:
    """Something that is open for the length of a block, or until it is closed."""

    def close(self) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class SyncClient(_ClosedByBlock, BlockingMethods):
    """The methods of a `SessionClient`, each waiting for its reply; several threads may use it."""

    def __init__(self, thread: LoopThread) -> None:
        self._thread = thread
        self._client: SessionClient = thread.inner()
        self._close = weakref.finalize(self, thread.stop)  # in case the caller forgets to close it

    @property
    def state(self) -> ConnectionState:
        """The state of the connection."""
        return self._client.state

    @property
    def client_id(self) -> sc.ClientId:
        """Its id in events."""
        return self._client.client_id

    def follow(self, session_id: sc.SessionId | None = None, *, after: sc.Cursor | None = None) -> "SyncFeed":
        """Follow one session, or the list of all; see `SessionClient.follow`."""
        return SyncFeed(self, self._thread, self._thread.call_now(lambda: self._client.follow(session_id, after=after)))

    def status(self) -> sc.wire.ServiceStatus:
        """Ask what the server is doing."""
        return self._thread.call(self._client.status)

    def shutdown(self, *, force: bool = False) -> None:
        """End the server; see `SessionClient.shutdown`."""
        self._thread.call(self._client.shutdown, force=force)

    def close(self) -> None:
        """Leave the server, whose work goes on."""
        self._close()

    def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        return self._thread.call(getattr(self._client, method), *args, **kwargs)


class SyncFeed(_ClosedByBlock):
    """An iterator of snapshots and events; made by `SyncClient.follow`."""

    def __init__(self, client: SyncClient, thread: LoopThread, feed: RemoteFeed) -> None:
        self._client = client  # keeps the client alive as long as this feed
        self._thread = thread
        self._feed = feed

    @property
    def cursor(self) -> sc.Cursor | None:
        """The cursor to resume from: everything up to it was read. None while a snapshot is due."""
        return self._feed.cursor

    @property
    def resyncs(self) -> int:
        """How many snapshots were read, the first included."""
        return self._feed.resyncs

    @property
    def last_resync(self) -> sc.Resync | None:
        """The reason for the latest snapshot."""
        return self._feed.last_resync

    def receive_batch(self, timeout_s: float | None = None) -> list[sc.FeedItem]:
        """Wait for items, then return all that are ready; empty after `timeout_s` seconds without items.

        Raises:
            EOFError: The session was deleted, and everything was received.
            Disconnected: The client has ended; the message gives the reason.
        """

        async def receive() -> list[sc.FeedItem]:
            with anyio.move_on_after(timeout_s):
                return await self._feed.receive_batch()
            return []

        try:
            return self._thread.call(receive)
        except anyio.EndOfStream:
            raise EOFError("the session was deleted") from None

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> sc.FeedItem:
        item = self._feed.take_ready()
        if item is not None:
            return item  # saves a round trip to the other thread
        try:
            return self._thread.call(self._feed.__anext__)
        except StopAsyncIteration:
            raise StopIteration from None

    def close(self) -> None:
        """Stop following."""
        self._thread.call_now(self._feed.close)
