"""A running extension, with every line checked: faults that a host would silently ignore are recorded here.

1. Every line is judged, in whatever step it comes; `Complaints` holds the findings.
2. Requests of the extension are answered in their own tasks, so it can make requests while it handles one.
3. The first time it makes a request, it is pinged before it gets its answer: an extension that does not respond while a
   dialog is open would hold up a whole session.
4. Nothing waits forever: every answer and every write has a timeout.
"""

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, Final, Literal

import trio

from session_core import limits
from session_core.processes.child import Child, describe_exit
from session_core.rpc import messages
from session_core.rpc.failures import RpcFailed
from session_core.rpc.line_frames import LineSplitter
from session_core.rpc.messages import FailureReply, Notification, Request, RpcId, SuccessReply
from session_core.rpc.peer import CANCEL
from session_core.sep.conformance.fake_host import FakeHost
from session_core.sep.conformance.frames import (
    Complaint,
    Complaints,
    NoAnswer,
    PeerAnswer,
    RequestLedger,
    judge_line,
    judge_result,
    unknown_key,
)
from session_core.sep.conformance.host_messages import SESSION
from session_core.sep.host.process.extension_log import ProcessLog
from session_core.sep.host.process.launch_command import ExtensionLaunch
from session_core.sep.host.process.process import open_extension_child
from session_core.sep.protocol.names import CANCELLED

_CHUNK: Final = 65_536
_MAX_BYTES: Final = 256 * 1024 * 1024
"""The most that one process may write; more is a loop."""
_MAX_SERVED: Final = 64
_EXIT_GRACE: Final = limits.KILL_GRACE_MS / 1000
_MAX_DELTAS: Final = 1_000

Responsiveness = Literal["unasked", "at once", "late", "never"]
"""Whether it responded while it waited for an answer."""


class Peer:
    """One process of an extension; `seconds` is how long an answer may take."""

    def __init__(self, child: Child, name: str, fake_host: FakeHost, complaints: Complaints, seconds: float) -> None:
        self.fake_host = fake_host
        self.seconds = seconds
        self.responsiveness: Responsiveness = "unasked"
        self.deltas: list[dict[str, Any]] = []
        self.over = trio.Event()
        self._name = name
        self._child = child
        self._complaints = complaints
        self.ledger = RequestLedger()
        self._waiting: dict[RpcId, trio.Event] = {}
        self._answers: dict[RpcId, PeerAnswer] = {}
        self._serving: dict[RpcId, trio.CancelScope] = {}
        self._writing = trio.Lock()
        self._speaking = False
        self._nursery: trio.Nursery | None = None

    # --- requests and notifications -----------------------------------------------------------------------------------

    async def ask(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        id: RpcId | None = None,
        seconds: float | None = None,
    ) -> PeerAnswer:
        """Send a request, and wait for the answer or the timeout."""
        number = self.expect_answer(method, id)
        await self.send(messages.encode_request(number, method, params))
        return await self.wait_answer(number, seconds=seconds)

    async def ask_in_dispatch(self, method: str, params: Mapping[str, Any]) -> PeerAnswer:
        """Send a request within a dispatch, in which the extension may act."""
        with self.dispatch() as context:
            return await self.ask(method, {**params, "context": context})

    @contextmanager
    def dispatch(self) -> Iterator[dict[str, str]]:
        """Open a command-tier context for the length of the block."""
        with self.fake_host.contexts.dispatch(self._name, 1, SESSION) as context:
            yield self.fake_host.remember_context(context)

    def expect_answer(self, method: str, id: RpcId | None = None) -> RpcId:
        """Expect an answer to a request that the caller sends itself; returns its id."""
        number = self.ledger.record_request(method, id)
        self._waiting[number] = trio.Event()
        return number

    async def wait_answer(self, number: RpcId, *, seconds: float | None = None) -> PeerAnswer:
        """Wait for the answer to a request."""
        patience = self.seconds if seconds is None else seconds
        with trio.move_on_after(patience):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._until_over, nursery.cancel_scope)
                await self._waiting[number].wait()
                nursery.cancel_scope.cancel()
        answer = self._answers.get(number)
        if answer is not None:
            return answer
        method = self.ledger.method_of(number)
        if self.over.is_set():
            return NoAnswer(why=f"{await self.describe_end()}, and {method} was not answered", gone=True)
        return NoAnswer(why=f"it did not answer {method} within {patience:g} s")

    async def tell(self, method: str, params: Mapping[str, Any]) -> None:
        """Send a notification."""
        await self.send(messages.encode_notification(method, params))

    async def send(self, *frames: bytes) -> None:
        """Write lines, with their ends; a process that reads them too late, or never, gives itself away by silence."""
        with trio.move_on_after(self.seconds), suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
            async with self._writing:
                await self._child.stdin.send_all(b"".join(frames))

    async def close_stdin(self) -> None:
        """Close its stdin."""
        await self._child.stdin.aclose()

    async def wait_exit(self, seconds: float) -> int | None:
        """Wait for its exit status; None if it does not come in time."""
        with trio.move_on_after(seconds):
            return await self._child.wait()
        return None

    async def describe_end(self) -> str:
        """Describe how its process ended, or what else ended it."""
        status = await self.wait_exit(_EXIT_GRACE)
        return "it closed its stdout" if status is None else describe_exit(status)

    # --- listening ----------------------------------------------------------------------------------------------------

    async def listen(self) -> None:
        """Read its output until the end."""
        splitter, size = LineSplitter(), 0
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            with suppress(OSError, trio.BrokenResourceError, trio.ClosedResourceError):
                while chunk := await self._child.stdout.receive_some(_CHUNK):
                    size += len(chunk)
                    for line in splitter.feed(bytes(chunk)):
                        await self._handle_line(line)
                    if size > _MAX_BYTES:
                        said = f"it wrote more than {_MAX_BYTES:,} bytes: it seems to be in a loop"
                        self._complaints.add(Complaint(about="stdout", sentence=said))
                        break
            for line in splitter.finish():
                await self._handle_line(line)
            if self._speaking:
                self.responsiveness = "unasked"  # its end says nothing about how it listens
            self.over.set()
            nursery.cancel_scope.cancel()

    async def _handle_line(self, line: Any) -> None:
        judged = judge_line(line)
        self._complaints.add(*judged.complaints)
        match judged.message:
            case SuccessReply() | FailureReply() as reply:
                self._take_reply(reply)
            case Request() as request:
                await self._take_request(request)
            case Notification() as notification:
                self._take_notification(notification)
            case _:
                pass

    def _take_reply(self, reply: SuccessReply | FailureReply) -> None:
        if complaint := self.ledger.record_reply(reply.id):
            self._complaints.add(complaint)
        method = self.ledger.method_of(reply.id)
        if method is None or reply.id is None or reply.id in self._answers:
            return
        if method == "ping":
            self._speaking = False  # this reply or a later one: it has survived
        if isinstance(reply, SuccessReply):
            _, unknown = judge_result(method, reply.result)
            self._complaints.add(*(unknown_key(f"its answer to {method}", key) for key in unknown))
        self._answers[reply.id] = reply
        self._waiting[reply.id].set()

    def _take_notification(self, notification: Notification) -> None:
        if notification.method == CANCEL:
            scope = self._serving.get(notification.params.get("id", ""))
            if scope is not None:
                scope.cancel(reason="the extension asked for it")
        elif notification.method == "provider/delta" and len(self.deltas) < _MAX_DELTAS:
            self.deltas.append(notification.params)

    async def _take_request(self, request: Request) -> None:
        if request.id in self._serving:
            said = f"it used the id {request.id!r} for two requests at once: give each an id of its own"
            self._complaints.add(Complaint(sentence=said))
        if len(self._serving) >= _MAX_SERVED:
            said = f"it asked more than {_MAX_SERVED} things at once, without waiting for answers"
            self._complaints.add(Complaint(sentence=said))
            return
        assert self._nursery is not None
        scope = self._serving[request.id] = trio.CancelScope()
        self._nursery.start_soon(self._serve, request, scope)

    async def _serve(self, request: Request, scope: trio.CancelScope) -> None:
        reply = messages.encode_failure(request.id, CANCELLED, "cancelled")
        with scope:
            if request.method != "ping" and self.responsiveness == "unasked":
                await self._ping_while_waiting()
            try:
                reply = messages.encode_success(request.id, self.fake_host.answer(request))
            except RpcFailed as error:
                reply = messages.encode_failure(request.id, error.code, error.message)
        # A second request under the same id may have taken its place.
        if self._serving.get(request.id) is scope:
            del self._serving[request.id]
        await self.send(reply)

    async def _ping_while_waiting(self) -> None:
        """Ping it while it waits; the answer is judged at the end, because it may come late."""
        assert self._nursery is not None
        self.responsiveness, self._speaking = "never", True
        number = self.expect_answer("ping")
        await self.send(messages.encode_request(number, "ping", {}))
        if not isinstance(await self.wait_answer(number, seconds=self.seconds / 4), NoAnswer):
            self.responsiveness = "at once"
            return
        self._nursery.start_soon(self._await_late_reply, number)

    async def _await_late_reply(self, number: RpcId) -> None:
        if not isinstance(await self.wait_answer(number), NoAnswer):
            self.responsiveness = "late"

    async def _until_over(self, waiting: trio.CancelScope) -> None:
        await self.over.wait()
        waiting.cancel(reason="nothing more can come")


@asynccontextmanager
async def open_peer(
    launch: ExtensionLaunch, log: ProcessLog, *, name: str, fake_host: FakeHost, complaints: Complaints, seconds: float
) -> AsyncGenerator[Peer]:
    """Start an extension and read its output, for the length of the block.

    Raises:
        LaunchRefused: The program could not be started.

    Cancellation: its process group is ended.
    """
    async with open_extension_child(launch, log) as child:
        peer = Peer(child, name, fake_host, complaints, seconds)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(child.read_stderr)
            nursery.start_soon(peer.listen)
            yield peer
            nursery.cancel_scope.cancel()
