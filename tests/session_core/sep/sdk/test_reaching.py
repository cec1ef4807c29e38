"""What handlers can reach of the host: every method of every context, through the host for tests."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from session_core.sep.sdk import (
    CommandContext,
    ExecResult,
    Extension,
    InvalidRequest,
    NotTrusted,
    NoUi,
    ProviderContext,
    Refused,
    TokenUsage,
    ToolCall,
    render,
)
from session_core.sep.sdk.testing import (
    BusMessage,
    HostError,
    LogLine,
    Program,
    SessionCall,
    TestHost,
    UiRequest,
)

WIDGET = render.widget("panel", render.markdown("**hi**"), keys={"space": "pause"})


def doing(act: Callable[[CommandContext], Awaitable[Any]]) -> Extension:
    """An extension whose command does something."""
    ext = Extension("doing")
    ext.flag("deep", default="no")
    ext.flag("loud")

    @ext.command
    async def go(ctx: CommandContext) -> str:
        return repr(await act(ctx))

    return ext


async def done(act: Callable[[CommandContext], Awaitable[Any]], **options: Any) -> tuple[str | None, TestHost]:
    """Do it, and return what came of it."""
    async with TestHost(doing(act), **options) as host:
        return await host.run_command("go", "x y"), host


async def refused(act: Callable[[CommandContext], Awaitable[Any]], **options: Any) -> HostError:
    """Do what the host refuses; its error comes back as that of the command."""
    with pytest.raises(HostError) as caught:
        await done(act, **options)
    return caught.value


async def test_sessions() -> None:
    """All actions reach the session, with what hosts take for granted filled in."""

    async def act(ctx: CommandContext) -> Any:
        await ctx.session.send_message("hi")
        await ctx.session.send_message("ho", role="user")
        await ctx.session.send_user_message("now", deliver_as="steer")
        await ctx.session.append_entry({"tag": "note", "n": 1})
        await ctx.session.set_model("m", provider="p", thinking="low")
        await ctx.session.set_model("m")
        active = await ctx.set_active(["a", "b"])
        return await ctx.state(), await ctx.session.state(), active

    said, host = await done(act, state={"model": "m"}, tools=["b", "c"])
    state = {"session_id": "ses_test", "model": "m"}
    assert said == repr((state, state, ["b"]))
    assert host.session_calls == [
        SessionCall("send_message", {"text": "hi", "role": "assistant"}),
        SessionCall("send_message", {"text": "ho", "role": "user"}),
        SessionCall("send_user_message", {"text": "now", "deliver_as": "steer"}),
        SessionCall("append_entry", {"entry": {"tag": "note", "n": 1}}),
        SessionCall("set_model", {"model": "m", "provider": "p", "thinking": "low"}),
        SessionCall("set_model", {"model": "m", "provider": None, "thinking": None}),
        SessionCall("set_active", {"tools": ["a", "b"]}),
        SessionCall("state"),
        SessionCall("state"),
    ]


async def test_people() -> None:
    """Dialogs are answered as the test says, by values or functions, and displays are written down."""

    async def act(ctx: CommandContext) -> Any:
        await ctx.ui.notify("look", level="warn")
        await ctx.ui.set_status("busy")
        await ctx.ui.set_widget(WIDGET)
        await ctx.ui.set_title("mine")
        answers = await ctx.ui.confirm("Sure?"), await ctx.ui.select("Which?", ["a", "b"])
        return *answers, await ctx.ui.input("Name?", default="me"), ctx.has_ui("input"), sorted(ctx.host.ui_kinds)

    async def choose(params: dict[str, Any]) -> str:
        return str(params["options"][-1])

    shows: dict[Any, Any] = dict.fromkeys(["notify", "set_status", "set_widget", "set_title"])
    answers = {"confirm": True, "select": choose, "input": lambda params: {"text": params["default"] * 2}}
    said, host = await done(act, ui={**shows, **answers})
    assert said == repr((True, "b", "meme", True, sorted({*shows, *answers})))
    assert host.ui_requests == [
        UiRequest("notify", {"message": "look", "level": "warn"}),
        UiRequest("set_status", {"status": "busy"}),
        UiRequest("set_widget", {"widget": WIDGET}),
        UiRequest("set_title", {"title": "mine"}),
        UiRequest("confirm", {"prompt": "Sure?"}),
        UiRequest("select", {"prompt": "Which?", "options": ["a", "b"]}),
        UiRequest("input", {"prompt": "Name?", "default": "me"}),
    ]


async def test_people_who_dismiss() -> None:
    """A dismissed dialog is a no, or nothing."""

    async def act(ctx: CommandContext) -> Any:
        return await ctx.ui.confirm("?"), await ctx.ui.select("?", ["a"]), await ctx.ui.input("?")

    said, _ = await done(act, ui=["confirm", "select", "input"])
    assert said == "(False, None, None)"


async def test_nobody_is_there() -> None:
    """Without anybody who could answer, or with wrong params, the error tells which of the two it was."""
    nobody = await refused(lambda ctx: ctx.ui.confirm("?"))
    assert (type(nobody), nobody.code) == (NoUi, -32001)
    wrong = await refused(lambda ctx: ctx.ui.select("?", []), ui=["select"])
    assert (type(wrong), wrong.code) == (InvalidRequest, -32602)
    denied = await refused(lambda ctx: ctx.ui.confirm("?"), ui={"confirm": Refused(-32000, "not now")})
    assert (type(denied), denied.message) == (Refused, "not now")
    not_json = await refused(lambda ctx: ctx.session.append_entry({"a": object()}))
    assert (type(not_json), not_json.code) == (InvalidRequest, -32602)


async def test_kept_values() -> None:
    """Values can be kept, found, listed and let go, and the test sees them."""

    async def act(ctx: CommandContext) -> Any:
        await ctx.kv.set("a.new", {"n": [1]})
        await ctx.kv.delete("old")
        await ctx.kv.delete("never")
        found = await ctx.kv.get("a.seeded"), await ctx.kv.get("old", "gone"), await ctx.kv.get("none")
        return *found, await ctx.kv.list("a."), await ctx.kv.list()

    said, host = await done(act, kv={"a.seeded": 1, "old": 2})
    assert said == "(1, 'gone', None, ['a.new', 'a.seeded'], ['a.new', 'a.seeded'])"
    assert host.kv == {"a.seeded": 1, "a.new": {"n": [1]}}


async def test_programs() -> None:
    """Programs end as the test says, or are refused."""

    async def act(ctx: CommandContext) -> Any:
        return await ctx.exec("git", "status", cwd="/repo")

    ran = ExecResult(exit_code=1, stdout="", stderr="no repo")
    said, host = await done(act, exec=ran)
    assert said == repr(ran)
    assert host.programs == [Program(command="git", args=("status",), cwd="/repo")]
    said, _ = await done(act, exec=lambda command, args, cwd: " ".join((command, *args, cwd)))
    assert said == repr(ExecResult(exit_code=0, stdout="git status /repo", stderr=""))
    assert type(await refused(act)) is NotTrusted


async def test_the_rest() -> None:
    """The bus, the log, flags, the host and what was typed."""

    async def act(ctx: CommandContext) -> Any:
        await ctx.bus.publish("news", {"a": 1})
        await ctx.bus.publish("empty")
        for level in ("debug", "info", "warn", "error"):
            getattr(ctx.log, level)(level, n=1)
        ctx.log.write("trace", "bare")
        with pytest.raises(KeyError):
            ctx.flag("never declared")
        host = ctx.host
        told = host.name, host.workspace, host.trusted, host.mode
        return ctx.flag("deep"), ctx.flag("loud"), ctx.text, ctx.words, ctx.cancelled, told

    said, host = await done(act, flags={"deep": "yes"}, workspace="/here", trusted=False, mode="tui")
    assert said == repr(("yes", False, "x y", ("x", "y"), False, ("test", "/here", False, "tui")))
    assert host.bus == [BusMessage("news", {"a": 1}), BusMessage("empty", {})]
    levels = [LogLine(level, level, {"n": 1}) for level in ("debug", "info", "warn", "error")]
    assert host.logs == [*levels, LogLine("trace", "bare")]


async def test_registering_later() -> None:
    """What is registered while it runs counts once the host has been told, and only what is new is sent."""
    ext = Extension("growing")

    @ext.command
    async def grow(ctx: CommandContext) -> None:
        @ext.tool
        async def grown() -> str:
            """Be new."""
            return "here"

        ext.hook("input")(lambda ctx: None)
        ctx.on_shutdown(lambda: ended.append("context"))
        await ctx.update_registry()
        await ctx.update_registry()

    ended: list[str] = []
    ext.on_shutdown(lambda: ended.append("extension"))
    async with TestHost(ext) as host:
        assert host.registrations.tools == ()
        await host.run_command("grow")
        await host.settled()
        assert [[tool.name for tool in each.tools] for each in host.registry] == [["grown"]]
        assert (await host.call_tool("grown")).content == "here"
        assert (await host.call_hook("input", text="x")).action == "continue"
    assert ended == ["context", "extension"]


async def test_plain_handlers() -> None:
    """A plain function runs in a thread, from which everything can be told and waited for."""
    ext = Extension("plain")

    @ext.tool
    def work(ctx: Any, n: int) -> str:
        """Work."""
        ctx.progress(n / 10)
        ctx.log.info("working")
        ctx.wait(ctx.session.send_message, "from a thread")
        return str(ctx.wait(ctx.kv.get, "k"))

    async with TestHost(ext, kv={"k": 7}) as host:
        assert (await host.call_tool("work", n=5)).content == "7"
        assert [each.value for each in host.progress] == [0.5]
        assert [each.message for each in host.logs] == ["working"]
        assert len(host.session_calls) == 1


async def test_streaming_by_hand() -> None:
    """The function of a provider may stream by its context instead of yielding."""
    ext = Extension("model")

    @ext.provider("p", models=["m"])
    async def answer(ctx: ProviderContext, request: Any) -> str:
        await ctx.reasoning("hm")
        await ctx.delta("a")
        await ctx.tool_call(ToolCall(id="1", name="t"), "{}")
        await ctx.tool_call(ToolCall(id="2", name="t"), "{}")
        await ctx.usage(TokenUsage(prompt_tokens=1))
        return "a"

    async with TestHost(ext) as host:
        found = await host.complete("p", "m", "x", credentials={"api_key": "k"}, max_tokens=9)
    assert found.streamed_text == "a"
    assert [each["type"] for each in found.deltas if "index" not in each] == ["Reasoning", "Delta", "Usage"]
    assert [each["index"] for each in found.deltas if "index" in each] == [0, 0, 1, 1]
