"""An extension that uses everything there is."""

from collections.abc import AsyncGenerator
from typing import Annotated, Any, Literal

import attrs
import trio

from session_core.sep.sdk import (
    Answer,
    CommandCompletion,
    CommandContext,
    CompletionRequest,
    Credentials,
    EventContext,
    Extension,
    HookContext,
    Model,
    ProviderContext,
    Reasoning,
    TokenUsage,
    ToolCall,
    ToolCallContext,
    ToolError,
    ToolResult,
    block,
    patch,
    render,
)


@attrs.frozen
class Order:
    """What somebody wants."""

    item: str
    count: int = 1


@attrs.define
class Seen:
    """What its handlers were called with."""

    events: list[tuple[str, dict[str, Any]]] = attrs.field(factory=list)
    ended: list[str] = attrs.field(factory=list)
    begun: trio.Event = attrs.field(factory=trio.Event)
    contexts: list[Any] = attrs.field(factory=list)


def sample() -> tuple[Extension, Seen]:
    """Make a fresh one, and what it notes."""
    ext = Extension("sample", "1.2.3")
    seen = Seen()
    _tools(ext, seen)
    _commands(ext, seen)
    _hooks(ext, seen)
    _providers(ext)
    return ext, seen


def _tools(ext: Extension, seen: Seen) -> None:
    @ext.tool
    async def add(ctx: ToolCallContext, a: int, b: Annotated[int, "the second"] = 2) -> int:
        """Add numbers."""
        ctx.progress(0.5, "half", details={"a": a})
        ctx.log.info("adding", a=a)
        return a + b

    @ext.tool
    def shout(text: str, how: Literal["loud", "louder"] = "loud") -> str:
        """Say it loudly, in a thread."""
        if not text:
            raise ToolError("nothing to say", details={"text": text})
        return text.upper() + ("!" if how == "loud" else "!!")

    @ext.tool(name="order", description="Order something.", parameters=Order, deferred=True)
    async def place_order(order: Order) -> ToolResult:
        return ToolResult(content=f"{order.count} {order.item}", details={"order": order.item})

    @ext.tool(parameters={"type": "object", "properties": {"x": {"type": "number", "maximum": 9}}})
    async def raw(ctx: ToolCallContext, given: dict[str, Any]) -> Any:
        """Take whatever comes."""
        return {"given": given, "args": ctx.args}

    @ext.tool
    async def wait(ctx: ToolCallContext) -> None:
        """Wait until it is cancelled."""
        seen.contexts.append(ctx)
        seen.begun.set()
        await trio.sleep_forever()

    @ext.tool
    async def keep(ctx: ToolCallContext) -> str:
        """Keep its context for later."""
        seen.contexts.append(ctx)
        return "kept"


def _commands(ext: Extension, seen: Seen) -> None:
    @ext.command
    async def greet(ctx: CommandContext) -> str:
        """Say hello."""
        await ctx.session.send_message(f"Hello {ctx.text}")
        return " ".join(ctx.words)

    @greet.complete
    def names(ctx: CommandContext, partial: str) -> list[str | CommandCompletion]:
        assert isinstance(ctx, CommandContext)
        return [
            name
            for name in ("ada", CommandCompletion("bob", "a friend"))
            if str(name).startswith(partial) or not partial
        ]

    @ext.command(name="fail", description="Fail.")
    async def failing(ctx: CommandContext) -> None:
        raise LookupError("not there")

    ext.shortcut("ctrl+g", greet, description="greet")
    ext.flag("loud")
    ext.flag("limit", default=3)
    ext.renderer("note", render.keyvalue({"by": "{{author}}"}))
    ext.on_shutdown(lambda: seen.ended.append("extension"))


def _hooks(ext: Extension, seen: Seen) -> None:
    @ext.hook("tool_call")
    async def gate(ctx: HookContext) -> Any:
        if "rm" in str(ctx.input.get("arguments")):
            return block("no rm")
        return None

    @ext.hook("tool_result")
    async def first(ctx: HookContext) -> Any:
        return patch(content=ctx.input["content"] + " first")

    @ext.hook("tool_result")
    def second(ctx: HookContext) -> Any:
        return patch({"content": ctx.input["content"] + " second"})

    @ext.on("turn_end")
    async def observe(ctx: EventContext) -> None:
        seen.contexts.append(ctx)
        seen.events.append((ctx.event, ctx.payload))
        ctx.log.info("seen")

    @ext.on("turn_start")
    def broken(ctx: EventContext) -> None:
        seen.events.append((ctx.event, ctx.payload))
        raise ValueError("a broken observer")

    @ext.on_topic("news")
    async def hear(ctx: EventContext) -> None:
        seen.events.append(("topic", ctx.payload))

    @ext.on_widget_key("panel")
    async def press(ctx: EventContext) -> None:
        seen.events.append(("key", ctx.payload))


def _providers(ext: Extension) -> None:
    @ext.provider("parrot", models=["one", Model("two", "Number two")], base_url="http://127.0.0.1", api_key_env="KEY")
    async def speak(ctx: ProviderContext, request: CompletionRequest) -> AsyncGenerator[Any]:
        yield Reasoning("hm")
        for word in request.last_user_text.split():
            yield word
        yield ToolCall(id="c1", name="add", arguments={"a": 1})
        yield TokenUsage(prompt_tokens=3, completion_tokens=4)

    @speak.login
    async def log_in(ctx: ProviderContext) -> Credentials:
        return Credentials(api_key=await ctx.ui.input("Your key?") or "none")

    @speak.refresh
    def renew(ctx: ProviderContext, token: str) -> Credentials:
        return Credentials(access_token=f"new {token}", refresh_token=token)

    @ext.provider("whole", models=["only"])
    async def answer(ctx: ProviderContext, request: CompletionRequest) -> Answer | str:
        if request.model == "text":
            return "just text"
        return Answer(content="all", finish_reason="length", resolved_model="only-1", reasoning="because")
