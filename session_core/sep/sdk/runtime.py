"""A running extension: passes the host's requests to the registered functions.

Rules:
1. `initialize` comes first, and only once; before it, only `ping` and `shutdown` are answered.
2. Each request runs in its own task. A request that the host cancels is answered with -32800 (`rpc.request_tasks`).
3. Each observer gets its events in order and one at a time. An observer that falls far behind loses the newest events,
   and the log says how many. An error in an observer is logged and ends nothing.
4. An exception in a handler becomes the answer: a `HostError` as it is, anything else as -32603 with its message; the
   full traceback goes to stderr. It ends nothing but the handler (`normalize_error`).
5. At the end, requested or not, cleanup functions run in reverse order of registration and have a few seconds. If the
   host requested the end, observers of earlier events have a moment first.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import trio

from session_core import limits
from session_core.rpc.connection import open_connection
from session_core.rpc.failures import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    RpcFailed,
    method_not_found,
)
from session_core.rpc.messages import Notification, Request
from session_core.sep.protocol.names import CAPABILITIES, PROTOCOL_VERSION
from session_core.sep.sdk import answers
from session_core.sep.sdk.contexts import (
    CommandContext,
    Context,
    EventContext,
    HookContext,
    ProviderContext,
    ToolCallContext,
    completion_request,
)
from session_core.sep.sdk.failures import ToolError
from session_core.sep.sdk.json_types import WrongArgument
from session_core.sep.sdk.link import HostInfo, HostLink, call, call_in, log
from session_core.sep.sdk.model_calls import complete
from session_core.sep.sdk.registry import Observer, RegisteredProvider

if TYPE_CHECKING:
    from session_core.sep.sdk.extension import Extension

CLEANUP_SECONDS: Final = 3.0
"""For all cleanup functions together; hosts wait five seconds for everything."""
OBSERVERS_SECONDS: Final = 1.0
"""Before the cleanup, for observers of the last events."""
WAITING_EVENTS: Final = 1_024
"""Per observer; hosts drop events at the same number."""

Params = Mapping[str, Any]


class Runtime:
    """One extension, connected to one host.

    Args:
        extension: The extension.
        cleanup_seconds: How long its cleanup functions may take.
        on_fault: Called with the event and the exception whenever an observer fails.
    """

    def __init__(
        self,
        extension: "Extension",
        *,
        cleanup_seconds: float = CLEANUP_SECONDS,
        on_fault: Callable[[str, Exception], None] | None = None,
    ) -> None:
        self._extension = extension
        self._on_fault = on_fault
        self._cleanup_seconds = cleanup_seconds
        self._registry = extension.registry
        self._link: HostLink | None = None
        self._initialized = False
        self._cleaned_up = 0  # how many of the extension's own cleanup functions have run
        self._goodbye = trio.Event()
        self._lanes: dict[Observer, _ObserverQueue] = {}
        self._nursery: trio.Nursery | None = None

    async def run(
        self,
        source: int | trio.abc.ReceiveStream,
        sink: int | trio.abc.SendStream,
        *,
        task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serve until the host shuts the extension down or the connection ends."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery  # observers run in it, so they outlive the connection until the cleanup is done
            try:
                async with open_connection(
                    source, sink, handle_request=self._answer, handle_notification=self._note, name="host"
                ) as connection:
                    self._link = HostLink(connection)
                    task_status.started()
                    async with trio.open_nursery() as ends:
                        ends.start_soon(self._wait_for, connection.wait_closed, ends.cancel_scope)
                        ends.start_soon(self._wait_for, self._goodbye.wait, ends.cancel_scope)
            finally:
                await self._clean_up()  # noqa: ASYNC102 - it shields itself
            nursery.cancel_scope.cancel()

    @staticmethod
    async def _wait_for(end: Callable[[], Awaitable[object]], scope: trio.CancelScope) -> None:
        await end()
        scope.cancel()

    @property
    def link(self) -> HostLink:
        """The connection to the host."""
        assert self._link is not None
        return self._link

    # --- requests -----------------------------------------------------------------------------------------------------

    async def _answer(self, request: Request) -> Any:
        if request.method == "ping":
            return {}
        handle = _METHODS.get(request.method)
        if handle is None:
            raise method_not_found(request.method)
        if not self._initialized and request.method not in {"initialize", "shutdown"}:
            raise RpcFailed(INVALID_REQUEST, "initialize must come first")
        try:
            return await handle(self, request.params)
        except RpcFailed:
            raise
        except WrongArgument as wrong:
            raise RpcFailed(INVALID_PARAMS, str(wrong)) from wrong
        except ToolError as error:  # raised on purpose, so not an error for the log
            raise RpcFailed(INTERNAL_ERROR, str(error), error.details) from error
        except Exception as error:
            log.exception("%s failed", request.method)
            raise RpcFailed(INTERNAL_ERROR, f"{type(error).__name__}: {error}") from error

    async def _initialize(self, params: Params) -> dict[str, Any]:
        if self._initialized:
            raise RpcFailed(INVALID_REQUEST, "initialize was already received")
        version = params.get("protocol_version")
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            raise RpcFailed(INVALID_PARAMS, "protocol_version must be a whole number, 1 or more")
        self.link.host = host_info(params)
        self._initialized = True
        self._registry.reported = self._registry.wire()
        return {
            "protocol_version": min(version, PROTOCOL_VERSION),
            "extension": {"name": self._extension.name, "version": self._extension.version},
            "registrations": self._registry.reported,
        }

    async def _shutdown(self, _: Params) -> dict[str, Any]:
        with trio.move_on_after(OBSERVERS_SECONDS, shield=True):
            await self.wait_settled()
        await self._clean_up()
        self._goodbye.set()  # seen in a later step, so after the reply has been queued
        return {}

    async def _clean_up(self) -> None:
        cleanups = self._extension.cleanups[self._cleaned_up :]
        self._cleaned_up += len(cleanups)
        if self._link is not None:
            cleanups += self._link.cleanups
            self._link.cleanups = []
        thread = trio.CapacityLimiter(1)  # its own thread, because hanging handlers may have taken all others
        with trio.move_on_after(self._cleanup_seconds, shield=True) as scope:
            while cleanups:
                try:
                    await call_in(thread, partial(cleanups.pop()))
                except Exception:  # noqa: BLE001 - an error in one must not keep the others from cleaning up
                    log.exception("a cleanup function failed")
        if scope.cancelled_caught:
            log.error("cleanup functions took longer than %g s and were abandoned", self._cleanup_seconds)

    async def _run_tool(self, params: Params) -> dict[str, Any]:
        tool = self._registry.tools.get(_name(params, "tool"))
        if tool is None:
            return answers.ToolResult(content=f"unknown tool: {params.get('tool')}", is_error=True).wire()
        context = ToolCallContext(self._extension, self.link, params)
        first = (context,) if tool.takes_context else ()
        try:
            arguments = tool.shape.read("", context.args)
            if tool.by_name:
                returned = await _call_in_context(context, tool.function, *first, **arguments)
            else:
                returned = await _call_in_context(context, tool.function, *first, arguments)
        except WrongArgument as wrong:
            return answers.ToolResult(content=f"wrong arguments: {wrong}", is_error=True).wire()
        except ToolError as error:
            return answers.ToolResult(content=str(error), is_error=True, details=error.details).wire()
        return answers.tool_result(returned).wire()

    async def _run_command(self, params: Params) -> dict[str, Any]:
        command = self._registry.commands.get(_name(params, "command"))
        if command is None:
            return {"content": f"unknown command: {params.get('command')}"}  # an error would fail the peers' runner
        context = CommandContext(self._extension, self.link, params)
        said = await _call_in_context(context, command.function, context)
        return {} if said is None else {"content": str(said)}

    async def _complete_command(self, params: Params) -> dict[str, Any]:
        command = self._registry.commands.get(_name(params, "command"))
        if command is None or command.completer is None:
            return answers.completions(())
        partial = params.get("partial")
        context = CommandContext(self._extension, self.link, params)
        found = await _call_in_context(context, command.completer, context, partial if isinstance(partial, str) else "")
        return answers.completions(found)

    async def _run_hook(self, params: Params) -> dict[str, Any]:
        hook = _name(params, "hook")
        context = HookContext(self._extension, self.link, params)
        given = context.input
        returned: list[answers.HookReturn] = []
        for handler in self._registry.hooks.get(hook, ()):
            returned.append(await _call_in_context(context, handler, context))
            outcome = answers.hook_outcome(hook, given, returned)
            if outcome["action"] == "block":
                return outcome
            context.input = dict(outcome.get("patch", given))
        return answers.hook_outcome(hook, given, returned)

    async def _ask_model(self, params: Params) -> dict[str, Any]:
        provider = self._provider(params)
        context = ProviderContext(self._extension, self.link, params)
        answer: answers.Answer = await _call_in_context(
            context, complete, context, provider.function, completion_request(params)
        )
        return answer.wire()

    async def _log_in(self, params: Params) -> dict[str, Any]:
        provider = self._provider(params)
        if provider.on_login is None:
            raise RpcFailed(INVALID_PARAMS, f"the provider {provider.name} has no login")
        context = ProviderContext(self._extension, self.link, params)
        return _credentials(await _call_in_context(context, provider.on_login, context))

    async def _renew_login(self, params: Params) -> dict[str, Any]:
        provider = self._provider(params)
        if provider.on_refresh is None:
            raise RpcFailed(INVALID_PARAMS, f"a login to {provider.name} cannot be renewed")
        context = ProviderContext(self._extension, self.link, params)
        return _credentials(await _call_in_context(context, provider.on_refresh, context, params.get("refresh_token")))

    def _provider(self, params: Params) -> RegisteredProvider:
        provider = self._registry.providers.get(_name(params, "provider"))
        if provider is None:
            raise RpcFailed(INVALID_PARAMS, f"unknown provider: {params.get('provider')}")
        return provider

    # --- events -------------------------------------------------------------------------------------------------------

    def _note(self, notification: Notification) -> None:
        if notification.method != "event" or not self._initialized:
            return
        params = notification.params
        event, payload = params.get("event"), params.get("payload")
        for observer in self._registry.observers:
            if isinstance(event, str) and observer.wants(event, payload if isinstance(payload, dict) else {}):
                self._queue_of(observer).put(EventContext(self._extension, self.link, params))

    async def wait_settled(self) -> None:
        """Wait until observers have handled all events received so far."""
        for lane in tuple(self._lanes.values()):
            await lane.wait_settled()

    def _queue_of(self, observer: Observer) -> "_ObserverQueue":
        lane = self._lanes.get(observer)
        if lane is None:
            assert self._nursery is not None
            lane = self._lanes[observer] = _ObserverQueue(observer, self._on_fault)
            self._nursery.start_soon(lane.run)
        return lane


class _ObserverQueue:
    """The events of one observer."""

    def __init__(self, observer: Observer, on_fault: Callable[[str, Exception], None] | None) -> None:
        self._observer = observer
        self._on_fault = on_fault
        self._send, self._receive = trio.open_memory_channel[EventContext](WAITING_EVENTS)
        self._lost = 0
        self._undone = 0
        self._waiting = trio.lowlevel.ParkingLot()

    def put(self, context: EventContext) -> None:
        try:
            self._send.send_nowait(context)
            self._undone += 1
        except trio.WouldBlock:
            self._lost += 1

    async def wait_settled(self) -> None:
        await trio.lowlevel.checkpoint()
        while self._undone:
            await self._waiting.park()

    async def run(self) -> None:
        async with self._receive:
            async for context in self._receive:
                await self._tell(context)
                # Take all that arrived in between; otherwise the pauses alone would make a quick observer fall behind.
                for _ in range(limits.RPC_PORTION_LINES):
                    with suppress(trio.WouldBlock):
                        await self._tell(self._receive.receive_nowait())

    async def _tell(self, context: EventContext) -> None:
        if self._lost:
            log.warning("%s is too slow: %d events were lost", context.event, self._lost)
            self._lost = 0
        try:
            await _call_in_context(context, self._observer.function, context)
        except Exception as error:  # noqa: BLE001 - whatever it is, the next event must be handled
            log.exception("the observer of %s failed", context.event)
            if self._on_fault is not None:
                self._on_fault(context.event, error)
        self._undone -= 1
        if not self._undone:
            self._waiting.unpark_all()


async def _call_in_context(context: Context, handler: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Call a handler, and mark its context as cancelled when the request is cancelled."""
    try:
        return await call(handler, *args, **named)
    except trio.Cancelled:
        context.mark_cancelled()
        raise


def _name(params: Params, key: str) -> str:
    name = params.get(key)
    if not isinstance(name, str):
        raise RpcFailed(INVALID_PARAMS, f"{key} must be text")
    return name


def _credentials(found: object) -> dict[str, Any]:
    if not isinstance(found, answers.Credentials):
        raise TypeError(f"a login must return Credentials, not a {type(found).__name__}")
    return found.wire()


def host_info(params: Params) -> HostInfo:
    """Read what the host says about itself; missing or malformed fields count as not given."""

    def table(key: str) -> dict[str, Any]:
        found = params.get(key)
        return found if isinstance(found, dict) else {}

    kinds, enabled = params.get("ui_capabilities"), table("capabilities_enabled")
    return HostInfo(
        name=str(table("host").get("name", "")),
        version=str(table("host").get("version", "")),
        mode=str(params.get("mode", "headless")),
        workspace=str(table("workspace").get("root", "")),
        trusted=table("workspace").get("trusted") is True,
        ui_kinds=frozenset(each for each in kinds if isinstance(each, str)) if isinstance(kinds, list) else frozenset(),
        flags=table("flags"),
        disabled=frozenset(each for each in CAPABILITIES if enabled.get(each) is False),
    )


_METHODS: Final[Mapping[str, Callable[[Runtime, Params], Awaitable[dict[str, Any]]]]] = {
    "initialize": Runtime._initialize,  # noqa: SLF001 - a table of its own methods
    "shutdown": Runtime._shutdown,  # noqa: SLF001
    "tool/execute": Runtime._run_tool,  # noqa: SLF001
    "command/execute": Runtime._run_command,  # noqa: SLF001
    "command/complete": Runtime._complete_command,  # noqa: SLF001
    "hook": Runtime._run_hook,  # noqa: SLF001
    "provider/complete": Runtime._ask_model,  # noqa: SLF001
    "provider/oauth_login": Runtime._log_in,  # noqa: SLF001
    "provider/oauth_refresh": Runtime._renew_login,  # noqa: SLF001
}
