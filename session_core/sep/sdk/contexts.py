"""What handlers are given: one context for each call, with what it is about and what can be reached from it."""

import math
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import attrs
import trio

from session_core.rpc.failures import INVALID_PARAMS, RpcFailed
from session_core.sep.protocol.names import UiKind
from session_core.sep.sdk.answers import ExecResult, TokenUsage, ToolCall
from session_core.sep.sdk.link import HostInfo, HostLink
from session_core.sep.sdk.ports import Bus, ExtensionSession, Kv, Log, Ui, Wire

if TYPE_CHECKING:
    from session_core.sep.sdk.extension import Extension


def _object(params: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return an object of the params, which may be missing."""
    found = params.get(key)
    if not isinstance(found, dict | None):
        raise RpcFailed(INVALID_PARAMS, f"{key} must be an object")
    return dict(found or {})


def _object_or_empty(params: Mapping[str, Any], key: str) -> dict[str, Any]:
    """Return an object of an event, whose sender could not be told that it is none."""
    found = params.get(key)
    return dict(found) if isinstance(found, dict) else {}


class Context:
    """What every handler can reach.

    Attributes:
        session: The session it was called for.
        ui: People who are watching.
        kv: Values kept for this extension.
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
        """What the host has said about itself."""
        return self._link.host

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the answer any more: an async handler is ended by itself, a plain one looks here."""
        try:
            return self._cancelled or trio.current_effective_deadline() == -math.inf
        except RuntimeError:  # in a thread
            return self._cancelled

    @property
    def session_id(self) -> str | None:
        """The session it was called for, where the host says so."""
        found = self._wire.get("session_id")
        return found if isinstance(found, str) else None

    def mark_cancelled(self) -> None:
        """Hear that nobody waits for the answer any more."""
        self._cancelled = True

    def has_ui(self, kind: UiKind) -> bool:
        """Tell whether somebody could see or answer this kind when the extension was started.

        People come and go: where it matters, try, and catch `NoUi`.
        """
        return kind in self._link.host.ui_kinds

    def flag(self, name: str) -> Any:
        """Return the value of a flag that was declared by `Extension.flag`: as people set it, or else its default.

        Raises:
            KeyError: There is no such flag.
        """
        default = self._extension.registry.flags[name]
        found = self._link.host.flags.get(name)
        return default if found is None else found

    async def exec(self, command: str, *args: str, cwd: str | None = None) -> ExecResult:
        """Run a program, by the same rules and in the same sandbox as the commands of the model.

        Raises:
            Refused: A person or a rule has said no.
        """
        params: dict[str, Any] = {"command": command, "args": list(args), "context": dict(self._wire)}
        answer = await self._link.ask("exec/run", params if cwd is None else {**params, "cwd": cwd})
        return ExecResult(exit_code=answer["exit_code"], stdout=answer["stdout"], stderr=answer["stderr"])

    async def state(self) -> dict[str, Any]:
        """Tell how the session is."""
        return await self.session.state()

    async def set_active(self, tools: Iterable[str]) -> list[str]:
        """Narrow which tools the session's model is shown; returns those it is shown now. `["*"]` shows all again."""
        params = {"tools": list(tools), **({"context": dict(self._wire)} if self._wire else {})}
        answer = await self._link.ask("tools/set_active", params)
        return list(answer.get("active", ())) if isinstance(answer, dict) else []

    async def update_registry(self) -> None:
        """Tell the host what was registered since the last time: decorators work at any time."""
        registry = self._extension.registry
        everything = registry.wire()
        if news := registry.find_unreported(everything):
            await self._link.tell("registry/update", news)
            registry.reported = everything  # and not what was registered meanwhile

    def on_shutdown(self, cleanup: Callable[[], Any]) -> Callable[[], Any]:
        """Have a function called, async or not, before the extension ends; the last one first."""
        self._link.cleanups.append(cleanup)
        return cleanup

    def wait(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call something async from a plain handler, or a thread of its own: `ctx.wait(ctx.kv.get, "key")`."""
        return self._link.wait(function, args)


class ToolCallContext(Context):
    """A call of a tool.

    Attributes:
        args: The arguments, as they came.
        call_id: The name of this call.
    """

    def __init__(self, extension: "Extension", link: HostLink, params: Mapping[str, Any]) -> None:
        super().__init__(extension, link, _object(params, "context"))
        self.args: dict[str, Any] = _object(params, "arguments")
        self.call_id = str(params.get("call_id", ""))

    def progress(self, value: float | None = None, message: str | None = None, *, details: Any = None) -> None:
        """Tell how far it is, from 0 to 1, and what it is doing; from any thread, and never waits."""
        values = {"progress": value, "message": message, "details": details}
        news = {name: each for name, each in values.items() if each is not None}
        self._link.tell_now("tool/update", {"call_id": self.call_id, **news})


class CommandContext(Context):
    """A command that somebody has typed.

    Attributes:
        args: What was typed behind it, as the host sent it.
        text: The same as it was typed.
        words: The words in it, as a shell sees them.
    """

    def __init__(self, extension: "Extension", link: HostLink, params: Mapping[str, Any]) -> None:
        super().__init__(extension, link, _object(params, "context"))
        self.args: dict[str, Any] = _object(params, "arguments")
        text, words = self.args.get("text"), self.args.get("args")
        self.text = text if isinstance(text, str) else ""
        known = words if isinstance(words, list) else self.text.split()
        self.words = tuple(each for each in known if isinstance(each, str))


class HookContext(Context):
    """A place in a turn where extensions are asked.

    Attributes:
        hook: Which one.
        input: What it is about; a patch is laid over it.
    """

    def __init__(self, extension: "Extension", link: HostLink, params: Mapping[str, Any]) -> None:
        super().__init__(extension, link, _object(params, "context"))
        self.hook = str(params.get("hook", ""))
        self.input: dict[str, Any] = _object(params, "input")


class EventContext(Context):
    """Something has happened; no session can be acted in from here.

    Attributes:
        event: What.
        payload: More about it.
        seq: Its number; a gap means that some were lost, see the event `events_lost`.
    """

    def __init__(self, extension: "Extension", link: HostLink, params: Mapping[str, Any]) -> None:
        super().__init__(extension, link, _object_or_empty(params, "context"))
        self.event = str(params.get("event", ""))
        self.payload: dict[str, Any] = _object_or_empty(params, "payload")
        self.seq: int | None = params.get("seq")

    @property
    def session_id(self) -> str | None:
        """The session it happened in, where the host says so."""
        found = self.payload.get("session_id")
        return found if isinstance(found, str) else super().session_id


@attrs.frozen(kw_only=True)
class CompletionRequest:
    """What a model is asked.

    Attributes:
        messages: Objects with `role` and `content`, and more where there is more.
        credentials: What the host keeps of a login, if there is one.
        raw: Everything as it came.
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
        """The newest words of the user."""
        said = (each.get("content") for each in reversed(self.messages) if each.get("role") == "user")
        return next((text for text in said if isinstance(text, str)), "")


def completion_request(params: Mapping[str, Any]) -> CompletionRequest:
    """Read what a model is asked; what is missing or odd is left out."""

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
    """A question to a model of this extension, or a login.

    What is streamed by `delta` and its siblings is shown at once. The answer may repeat it.
    """

    def __init__(self, extension: "Extension", link: HostLink, params: Mapping[str, Any]) -> None:
        super().__init__(extension, link, _object(params, "context"))
        self._request_id = params.get("request_id")
        self._calls = 0

    async def delta(self, text: str) -> None:
        """Stream a piece of the answer."""
        await self._stream({"type": "Delta", "content": text})

    async def reasoning(self, text: str) -> None:
        """Stream a piece of what the model thinks."""
        await self._stream({"type": "Reasoning", "content": text})

    async def usage(self, usage: TokenUsage) -> None:
        """Tell what has been used so far."""
        await self._stream({"type": "Usage", **usage.wire()})

    async def tool_call(self, tool_call: ToolCall, arguments: str) -> None:
        """Stream a call of a tool, with its arguments as JSON text."""
        index, self._calls = self._calls, self._calls + 1
        await self._stream({"type": "ToolCallStart", "index": index, "id": tool_call.id, "name": tool_call.name})
        await self._stream({"type": "ToolCallArgumentsDelta", "index": index, "arguments_chunk": arguments})

    async def _stream(self, event: Mapping[str, Any]) -> None:
        await self._link.tell("provider/delta", {"request_id": self._request_id, "event": event})
