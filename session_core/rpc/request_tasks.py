"""The requests of the other side: each runs in its own task and is answered exactly once.

Rules:
1. The reader never waits for a handler, so a handler may itself send requests to the other side. Handlers start in the
   order of the requests: each reaches its first pause before the next one starts.
2. At most `limits.MAX_RPC_REQUESTS` run at once; one more is answered with an error at once.
3. A request that the other side cancels is answered with -32800, whatever its handler does.
4. An exception of a handler is an answer: `RpcFailed` as it is, anything else as -32603 without its text, which is
   logged instead.
5. When the connection ends, handlers are cancelled and nothing is answered.
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import trio

from session_core import limits
from session_core.errors import InvalidInput
from session_core.rpc.failures import CANCELLED, INTERNAL_ERROR, INVALID_REQUEST, RpcFailed, method_not_found
from session_core.rpc.messages import Request, RpcId, as_id, encode_failure, encode_success

log = logging.getLogger(__name__)

RequestHandler = Callable[[Request], Awaitable[Any]]
"""Answers a request: returns plain JSON, or raises `RpcFailed`."""

_CANCELLED = RpcFailed(CANCELLED, "the request was cancelled")
_HIDDEN_FAILURE = RpcFailed(INTERNAL_ERROR, "an internal error; see the log of the program that answers")


async def refuse_method(request: Request) -> Any:
    """Answer every request with "method not found"."""
    raise method_not_found(request.method)


class RequestTasks:
    """The running requests.

    Args:
        handle: Answers a request.
        answer: Sends a frame; never waits.
        name: The name of the other side in the log.
        max_reply: The longest reply, in bytes; None for `limits.MAX_RPC_LINE`.
    """

    def __init__(
        self, handle: RequestHandler, answer: Callable[[bytes], None], name: str, max_reply: int | None
    ) -> None:
        self._handle = handle
        self._answer = answer
        self._name = name
        self._max_reply = max_reply
        self._running: dict[RpcId, trio.CancelScope] = {}
        self._begun = trio.Event()  # set when the newest request has started
        self._begun.set()

    @property
    def running(self) -> int:
        """How many requests are running."""
        return len(self._running)

    def start(self, request: Request, nursery: trio.Nursery) -> None:
        """Run a request in the nursery, or refuse it."""
        if request.id in self._running:
            self._answer(encode_failure(request.id, INVALID_REQUEST, "a request with this id is still running"))
        elif len(self._running) >= limits.MAX_RPC_REQUESTS:
            self._answer(encode_failure(request.id, INTERNAL_ERROR, "too many requests"))
        else:
            scope = self._running[request.id] = trio.CancelScope()
            before, self._begun = self._begun, trio.Event()
            name = f"{self._name}: {request.method[:100]}"
            nursery.start_soon(self._run, request, scope, before, self._begun, name=name)

    def cancel(self, id: object) -> None:
        """Cancel the request with this id, if there is one."""
        number = as_id(id)
        if number is not None and (scope := self._running.get(number)) is not None:
            scope.cancel(reason="cancelled by the other side")

    async def _run(self, request: Request, scope: trio.CancelScope, before: trio.Event, begun: trio.Event) -> None:
        answer: Any = None
        try:
            with scope:
                try:
                    if not before.is_set():
                        await before.wait()
                finally:
                    # Runs in a later step, that is, after everything the handler does before its first wait.
                    trio.lowlevel.current_trio_token().run_sync_soon(begun.set)
                answer = await self._handle(request)
        except Exception as error:  # noqa: BLE001 - whatever a handler raises is an answer
            answer = self._failure(error, request)
        finally:
            del self._running[request.id]
        self._answer(self._frame(request, _CANCELLED if scope.cancel_called else answer))

    def _failure(self, error: Exception, request: Request) -> RpcFailed:
        cause: BaseException = error
        while isinstance(cause, BaseExceptionGroup) and len(cause.exceptions) == 1:
            cause = cause.exceptions[0]  # nurseries within a handler wrap what it raises
        if isinstance(cause, RpcFailed):
            return cause
        log.error("%s: answering %s failed", self._name, request.method[:100], exc_info=error)
        return _HIDDEN_FAILURE

    def _frame(self, request: Request, answer: Any) -> bytes:
        try:
            if isinstance(answer, RpcFailed):
                return encode_failure(request.id, answer.code, answer.message, answer.data)
            return encode_success(request.id, answer, longest=self._max_reply)
        except InvalidInput as error:
            log.warning("%s: the answer to %s cannot be sent: %s", self._name, request.method[:100], error.message)
            return encode_failure(request.id, INTERNAL_ERROR, "the answer cannot be sent: " + error.message)
