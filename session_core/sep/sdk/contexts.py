"""The contexts that handlers receive: one per call, with its input and access to the host."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import attrs
import trio

from session_core.rpc.failures import INVALID_PARAMS, RpcFailed
from session_core.sep.protocol.names import UiKind
from session_core.sep.sdk.answers import ExecResult, TokenUsage, ToolCall, drop_none
from session_core.sep.sdk.link import HostInfo, HostLink
from session_core.sep.sdk.ports import Bus, ExtensionSession, Kv, Log, Ui, Wire

if TYPE_CHECKING:
    from session_core.sep.sdk.extension import Extension


def _object(params: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return an object from the params, or an empty one if it is missing."""
    found = params.get(key)
    if not isinstance(found, dict | None):
        raise RpcFailed(INVALID_PARAMS, f"{key} must be an object")
    return dict(found or {})


def _object_or_empty(params: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return an object from an event, or an empty one if it is malformed: an event's sender cannot get an error."""
    found = params.get(key)
    return dict(found) if isinstance(found, dict) else {}


class Context:
    """What every handler can use.

    Attributes:
        session: The session that the handler was called for.
        ui: The people who are watching.
        kv: Stored values of this extension.
        bus: Other extensions.
        log: The log of this extension.
    """

    def __init__(self, extension: "Extension", link: HostLink, wire: Wire) -> None:
        self.session = ExtensionSession(link, wire)
        self.ui = Ui(link, wire)
        self.kv = Kv(link)
        self.bus = Bus(link)
        self.log = Log(link)
        self._extension = extension
        self._link = link
        self._wire = wire
        self._cancelled = False

    @property
    def host(self) -> HostInfo:
        """What the host said about itself in the handshake."""
        return self._link.host

    @property
    def cancelled(self) -> bool:
        """Whether the host has cancelled the request. Async handlers are cancelled; plain ones should check this."""
        try:
            return self._cancelled or trio.current_effective_deadline() == -math.inf
        except RuntimeError:  # in a thread
            return self._cancelled

    @property
    def session_id(self) -> str | None:
        """The session that the handler was called for, if the host names one."""
        found = self._wire.get("session_id")
        return found if isinstance(found, str) else None

    def mark_cancelled(self) -> None:
        """Record that the host has cancelled the request."""
        self._cancelled = True

    def has_ui(self, kind: UiKind) -> bool:
        """Return whether a client could show or answer this kind of request when the extension started.

        People come and go. Where it matters, just try, and catch `NoUi`.
        """
        return kind in self._link.host.ui_kinds

    def flag(self, name: str) -> Any:
        """Return the value of a flag declared with `Extension.flag`: the one people set, or its default.

        Raises:
            KeyError: There is no such flag.
        """
        default = self._extension.registry.flags[name]
        found = self._link.host.flags.get(name)
        return default if found is None else found

    async def exec(self, command: str, *args: str, cwd: str | None = None) -> ExecResult:
        """Run a program under the same rules and in the same sandbox as the model's commands.

        Raises:
            Refused: A person or a rule refused it.
        """
        params = {"command": command, "args": list(args), "context": dict(self._wire), **drop_none(cwd=cwd)}
        answer = await self._link.ask("exec/run", params)
        return ExecResult(exit_code=answer["exit_code"], stdout=answer["stdout"], stderr=answer["stderr"])

    async def state(self) -> dict[str, Any]:
        """Return the state of the session."""
        return await self.session.state()

    async def set_active(self, tools: Iterable[str]) -> list[str]:
        """Narrow the tools that the session's model sees; returns those it sees now. `["*"]` shows all again."""
        params = {"tools": list(tools), **({"context": dict(self._wire)} if self._wire else {})}
        answer = await self._link.ask("tools/set_active", params)
        return list(answer.get("active", ())) if isinstance(answer, dict) else []

    async def update_registry(self) -> None:
        """Report new registrations to the host. Decorators work at any time; call this after using them late."""
        registry = self._extension.registry
        everything = registry.wire()
        if news := registry.find_unreported(everything):
            await self._link.tell("registry/update", news)
            registry.reported = everything  # not what was registered during the request

    def on_shutdown(self, cleanup: Callable[[], Any]) -> Callable[[], Any]:
        """Call a function, async or not, before the extension ends. Functions run in reverse order of registration."""
        self._link.cleanups.append(cleanup)
        return cleanup

    def wait(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call an async function from a plain handler or from your own thread: `ctx.wait(ctx.kv.get, "key")`."""
        return self._link.wait(function, args)


class ToolCallContext(Context):
    """The context of a tool call.

    Attributes:
        args: The arguments, as received.
        call_id: The id of this call.
    """

    def __init__(self, extension: "Extension", link: HostLink, params: Mapping[str, Any]) -> None:
        super().__init__(extension, link, _object(params, "context"))
        self.args: dict[str, Any] = _object(params, "arguments")
        self.call_id = str(params.get("call_id", ""))

    def progress(self, value: float | None = None, message: str | None = None, *, details: Any = None) -> None:
        """Report progress from 0 to 1, and what the tool is doing. Works from any thread and never blocks."""
        news = drop_none(progress=value, message=message, details=details)
        self._link.tell_now("tool/update", {"call_id": self.call_id, **news})


class CommandContext(Context):
    """The context of a command that a person typed.

    Attributes:
        args: The arguments, as the host sent them.
        text: The arguments as they were typed.
        words: The arguments split into words as a shell would.
    """

    def __init__(self, extension: "Extension", link: HostLink, params: Mapping[str, Any]) -> None:
        super().__init__(extension, link, _object(params, "context"))
        self.args: dict[str, Any] = _object(params, "arguments")
        text, words = self.args.get("text"), self.args.get("args")
        self.text = text if isinstance(text, str) else ""
        known = words if isinstance(words, list) else self.text.split()
        self.words = tuple(each for each in known if isinstance(each, str))


class HookContext(Context):
    """The context of a hook, which may block or change what is about to happen.

    Attributes:
        hook: The name of the hook.
        input: What is about to happen; a patch is laid over it.
    """

    def __init__(self, extension: "Extension", link: HostLink, params: Mapping[str, Any]) -> None:
        super().__init__(extension, link, _object(params, "context"))
        self.hook = str(params.get("hook", ""))
        self.input: dict[str, Any] = _object(params, "input")


class EventContext(Context):
    """The context of an event. Handlers of events cannot act in a session.

    Attributes:
        event: The name of the event.
        payload: The data of the event.
        seq: Its number. A gap means that events were lost; see the event `events_lost`.
    """

    def __init__(self, extension: "Extension", link: HostLink, params: Mapping[str, Any]) -> None:
        super().__init__(extension, link, _object_or_empty(params, "context"))
        self.event = str(params.get("event", ""))
        self.payload: dict[str, Any] = _object_or_empty(params, "payload")
        self.seq: int | None = params.get("seq")

    @property
    def session_id(self) -> str | None:
        """The session that the event belongs to, if the host names one."""
        found = self.payload.get("session_id")
        return found if isinstance(found, str) else super().session_id


@attrs.frozen(kw_only=True)
class CompletionRequest:
    """A request to a model.

    Attributes:
        messages: Objects with `role` and `content`, and further keys where they apply.
        credentials: The stored login, if there is one.
        raw: The whole request, as received.
    """

    provider: str
    model: str
    messages: tuple[Mapping[str, Any], ...]
    tools: tuple[Mapping[str, Any], ...]
    stream: bool
    thinking: str | None
    max_tokens: int | None
    response_format: Mapping[str, Any] | None
    credentials: Mapping[str, Any] | None = attrs.field(repr=False)
    raw: Mapping[str, Any] = attrs.field(repr=False)

    @property
    def last_user_text(self) -> str:
        """The text of the newest user message."""
        said = (each.get("content") for each in reversed(self.messages) if each.get("role") == "user")
        return next((text for text in said if isinstance(text, str)), "")


def completion_request(params: Mapping[str, Any]) -> CompletionRequest:
    """Read a request to a model; missing or malformed fields are left out."""

    def objects(key: str) -> tuple[Mapping[str, Any], ...]:
        found = params.get(key)
        return tuple(each for each in found if isinstance(each, dict)) if isinstance(found, list) else ()

    return CompletionRequest(
        provider=str(params.get("provider", "")),
        model=str(params.get("model", "")),
        messages=objects("messages"),
        tools=objects("tools"),
        stream=params.get("stream") is True,
        thinking=params.get("thinking"),
        max_tokens=params.get("max_tokens"),
        response_format=params.get("response_format"),
        credentials=params.get("credentials"),
        raw=params,
    )


class ProviderContext(Context):
    """The context of a model request or of a login.

    Whatever `delta` and its siblings stream is shown at once. The final answer may repeat it.
    """

    def __init__(self, extension: "Extension", link: HostLink, params: Mapping[str, Any]) -> None:
        super().__init__(extension, link, _object(params, "context"))
        self._request_id = params.get("request_id")
        self._calls = 0

    async def delta(self, text: str) -> None:
        """Stream a piece of the answer."""
        await self._stream({"type": "Delta", "content": text})

    async def reasoning(self, text: str) -> None:
        """Stream a piece of the model's reasoning."""
        await self._stream({"type": "Reasoning", "content": text})

    async def usage(self, usage: TokenUsage) -> None:
        """Report the tokens used so far."""
        await self._stream({"type": "Usage", **usage.wire()})

    async def tool_call(self, tool_call: ToolCall, arguments: str) -> None:
        """Stream a tool call, with its arguments as JSON text."""
        index, self._calls = self._calls, self._calls + 1
        await self._stream({"type": "ToolCallStart", "index": index, "id": tool_call.id, "name": tool_call.name})
        await self._stream({"type": "ToolCallArgumentsDelta", "index": index, "arguments_chunk": arguments})

    async def _stream(self, event: Mapping[str, Any]) -> None:
        await self._link.tell("provider/delta", {"request_id": self._request_id, "event": event})
