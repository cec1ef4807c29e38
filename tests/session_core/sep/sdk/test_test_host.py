"""Every decorator of the SDK, through the host for tests."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from session_core.errors import NotFound
from session_core.sep.host.registrations import RegistrationsInvalid
from session_core.sep.sdk import (
    Answer,
    CapabilityDisabled,
    CommandCompletion,
    ContextExpired,
    Credentials,
    EventContext,
    Extension,
    HostGone,
    TokenUsage,
    ToolCall,
    ToolResult,
    patch,
)
from session_core.sep.sdk.testing import (
    HookResult,
    HostError,
    LogLine,
    ModelCompletion,
    ProgressReport,
    SessionCall,
    TestHost,
    UnusableAnswer,
    host_fixture,
)
from tests.session_core.sep.sdk._sample import sample

host = host_fixture(lambda: sample()[0], ui=["notify"])


async def test_registrations(host: TestHost) -> None:
    """Everything that is registered arrives, in the shape that hosts accept."""
    found = host.registrations
    assert [(each.name, each.description, each.deferred) for each in found.tools] == [
        ("add", "Add numbers.", False),
        ("shout", "Say it loudly, in a thread.", False),
        ("order", "Order something.", True),
        ("raw", "Take whatever comes.", False),
        ("wait", "Wait until it is cancelled.", False),
        ("keep", "Keep its context for later.", False),
    ]
    assert [(each.name, each.description) for each in found.commands] == [("greet", "Say hello."), ("fail", "Fail.")]
    assert found.flags == ("loud", "limit")
    assert [(each.key, each.command) for each in found.shortcuts] == [("ctrl+g", "greet")]
    assert found.subscriptions == ("turn_end", "turn_start", "bus/event", "widget/key")
    assert found.hooks == ("tool_call", "tool_result")
    assert [(each.name, each.oauth, [m.id for m in each.models]) for each in found.providers] == [
        ("parrot", True, ["one", "two"]),
        ("whole", False, ["only"]),
    ]
    assert [each.tag for each in found.message_renderers] == ["note"]


async def test_tools(host: TestHost) -> None:
    """Tools get their arguments by name, as one object or as they came, and say what they like."""
    assert await host.call_tool("add", a=3) == ToolResult(content="5")
    assert await host.call_tool("add", {"a": 3, "b": 4.0}) == ToolResult(content="7")
    assert host.progress == 2 * [ProgressReport(tool="add", value=0.5, message="half", details={"a": 3})]
    assert host.logs == 2 * [LogLine("info", "adding", {"a": 3})]
    assert await host.call_tool("shout", text="hi", how="louder") == ToolResult(content="HI!!")
    assert await host.call_tool("shout", text="") == ToolResult(
        content="nothing to say", is_error=True, details={"text": ""}
    )
    assert await host.call_tool("order", item="tea", count=2) == ToolResult(content="2 tea", details={"order": "tea"})
    assert (await host.call_tool("raw", x=1)).content == '{"given": {"x": 1}, "args": {"x": 1}}'


async def test_tools_are_not_called_with_wrong_arguments(host: TestHost) -> None:
    """Arguments that do not fit the schema are answered by the host, and by the extension if a host lets them pass."""
    refused = await host.call_tool("add", a="three")
    assert refused == ToolResult(
        content="The call could not be made: the argument 'a' must be a whole number, not text.", is_error=True
    )
    assert (await host.call_tool("raw", x=10)).is_error
    with pytest.raises(NotFound, match="has no tool 'none'; it has: add, shout"):
        await host.call_tool("none")
    passed = await host.request("tool/execute", {"call_id": "c", "tool": "add", "arguments": {"a": 1, "c": 2}})
    assert passed["is_error"]
    assert passed["content"] == "wrong arguments: c: there is no such argument; known are: a, b"
    assert await host.request("tool/execute", {"call_id": "c", "tool": "none", "arguments": {}}) == {
        "content": "unknown tool: none",
        "is_error": True,
    }


async def test_commands(host: TestHost) -> None:
    """Commands are run with what was typed, completed, and their failures have a code."""
    assert await host.run_command("greet", "ada 'the first'") == "ada the first"
    assert host.session_calls == [SessionCall("send_message", {"text": "Hello ada 'the first'", "role": "assistant"})]
    assert await host.run_command("greet", {"text": "x"}) == "x"
    assert await host.complete_command("greet", "a") == [CommandCompletion("ada")]
    assert await host.complete_command("greet") == [CommandCompletion("ada"), CommandCompletion("bob", "a friend")]
    assert await host.complete_command("fail") == []
    with pytest.raises(HostError) as failed:
        await host.run_command("fail")
    assert (failed.value.code, failed.value.message) == (-32603, "LookupError: not there")
    with pytest.raises(NotFound):
        await host.run_command("none")


async def test_hooks(host: TestHost) -> None:
    """The first no wins, patches are laid over each other, and the host takes only what it may."""
    said_no = await host.call_hook("tool_call", tool="bash", arguments={"command": "rm"})
    assert said_no == HookResult(action="block", value=None, reason="no rm")
    assert said_no.blocked
    fine = await host.call_hook("tool_call", {"tool": "bash", "arguments": {}})
    assert fine == HookResult(action="continue", value={"tool": "bash", "arguments": {}})
    changed = await host.call_hook("tool_result", tool="t", content="ok", is_error=False)
    assert changed == HookResult(action="modify", value={"tool": "t", "content": "ok first second", "is_error": False})
    with pytest.raises(NotFound, match="does not handle the hook context"):
        await host.call_hook("context", messages=[])


async def test_hooks_that_change_what_they_may_not() -> None:
    """A patch of another one's tool call is passed over, and one of another kind is no answer."""
    ext = Extension("meddler")
    ext.hook("tool_call")(lambda ctx: patch(arguments={}))
    ext.hook("tool_result")(lambda ctx: patch(content=5))
    ext.hook("input")(lambda ctx: "no")
    async with TestHost(ext) as host:
        left = await host.call_hook("tool_call", tool="bash", arguments={"a": 1})
        assert left == HookResult(action="continue", value={"tool": "bash", "arguments": {"a": 1}})
        assert "was ignored" in host.logs[0].message
        with pytest.raises(UnusableAnswer, match="a patch with a number"):
            await host.call_hook("tool_result", content="ok")
        with pytest.raises(HostError, match="use block"):
            await host.call_hook("input", text="x")


async def test_events() -> None:
    """Observers are told in order; one that fails ends nothing, and what nobody subscribed to is not sent."""
    ext, seen = sample()
    async with TestHost(ext, observers_may_fail=True) as host:
        assert await host.send_event("turn_start", {"n": 1})
        await host.settled()
        assert await host.send_event("turn_start", {"n": 2})
        assert await host.send_event("turn_end")
        assert not await host.send_event("agent_end")
        assert await host.publish("news", {"a": 1}, sender="b")
        assert await host.publish("other")
        assert await host.press_key("panel", "space")
        assert await host.press_key("another", "space")
        await host.settled()
        in_session: dict[str, Any] = {"session_id": "ses_test"}
        assert sorted(seen.events, key=lambda each: each[0]) == [
            ("key", {**in_session, "widget_id": "panel", "key": "space"}),
            ("topic", {"from": "b", "topic": "news", "payload": {"a": 1}}),
            ("turn_end", in_session),
            ("turn_start", {**in_session, "n": 1}),
            ("turn_start", {**in_session, "n": 2}),
        ]
        assert host.logs == [LogLine("info", "seen")]
        assert [each.session_id for each in seen.contexts] == ["ses_test"]


async def test_models(host: TestHost) -> None:
    """Models stream and answer; what they streamed is in the answer too."""
    assert await host.complete("parrot", "one", "pretty bird", thinking="low") == ModelCompletion(
        answer=Answer(
            content="prettybird",
            reasoning="hm",
            tool_calls=(ToolCall(id="c1", name="add", arguments={"a": 1}),),
            usage=TokenUsage(prompt_tokens=3, completion_tokens=4),
            finish_reason="tool_calls",
        ),
        deltas=(
            {"type": "Reasoning", "content": "hm"},
            {"type": "Delta", "content": "pretty"},
            {"type": "Delta", "content": "bird"},
            {"type": "ToolCallStart", "index": 0, "id": "c1", "name": "add"},
            {"type": "ToolCallArgumentsDelta", "index": 0, "arguments_chunk": '{"a": 1}'},
            {"type": "Usage", "prompt_tokens": 3, "completion_tokens": 4, "cached_tokens": 0, "total_tokens": 7},
        ),
    )
    whole = await host.complete("whole", "only", [{"role": "user", "content": "x"}])
    assert whole.answer == Answer(content="all", finish_reason="length", resolved_model="only-1", reasoning="because")
    assert (await host.complete("whole", "text", "x")).answer == Answer(content="just text")
    with pytest.raises(NotFound):
        await host.complete("none", "m", "x")


async def test_logins(host: TestHost) -> None:
    """Somebody logs in through a dialog, and a login is renewed."""
    host.ui["input"] = "secret"
    assert await host.login("parrot") == Credentials(api_key="secret")
    assert await host.refresh("parrot", "r") == Credentials(access_token="new r", refresh_token="r")
    with pytest.raises(HostError, match="the provider whole has no login"):
        await host.login("whole")


async def test_cancelling(autojump_clock: Any) -> None:
    """A call that is cancelled is answered with -32800, and its context knows."""
    ext, seen = sample()
    async with TestHost(ext) as host:
        running = host.start(host.call_tool, "wait")
        await seen.begun.wait()
        assert not seen.contexts[0].cancelled
        running.cancel()
        with pytest.raises(HostError) as failed:
            await running.result()
        assert failed.value.code == -32800
        assert seen.contexts[0].cancelled
        early = host.start(host.call_tool, "wait")
        early.cancel()
        with pytest.raises(HostError):
            await early.result()
        assert await host.start(host.call_tool, "add", a=1).result() == ToolResult(content="3")
        host.start(host.call_tool, "wait")  # nobody waits for it, and the block ends all the same


async def test_acting_too_late_or_from_an_event() -> None:
    """The guard is the real one: from events and after the answer, sessions are closed; the rest is not."""
    ext, seen = sample()
    async with TestHost(ext, kv={"key": 1}) as host:
        await host.call_tool("keep")
        await host.send_event("turn_end")
        await host.settled()
        for ctx in seen.contexts:
            with pytest.raises(ContextExpired) as refused:
                await ctx.session.send_message("late")
            assert refused.value.code == -32003
            advised = "do it in a command, a tool or a hook" in refused.value.message
            assert advised == isinstance(ctx, EventContext)
            assert await ctx.kv.get("key") == 1
        assert host.session_calls == []


async def test_capabilities_that_are_off() -> None:
    """What the manifest does not enable is refused, and what it brings along is not there."""
    ext, seen = sample()
    async with TestHost(ext, capabilities=("commands", "tools", "session")) as host:
        await host.call_tool("keep")
        with pytest.raises(CapabilityDisabled) as refused:
            await seen.contexts[0].kv.get("key")
        assert refused.value.code == -32004
        assert seen.contexts[0].host.disabled == {"ui", "exec", "kv", "bus", "providers"}
        assert host.registrations.providers == ()
        assert not await host.publish("news")
        assert await host.send_event("turn_end")
    async with TestHost(sample()[0], events=["turn_start"]) as host:
        assert not await host.send_event("turn_end")


async def test_its_end() -> None:
    """The block says goodbye unless the test has, and functions for the end have run then."""
    ext, seen = sample()
    async with TestHost(ext):
        assert seen.ended == []
    assert seen.ended == ["extension"]
    async with TestHost(ext) as host:
        await host.shutdown()
        assert seen.ended == ["extension", "extension"]
        with pytest.raises(HostGone):
            await host.ping()


async def test_the_end_with_a_jumping_clock(autojump_clock: Any) -> None:
    """Plain functions for the end, which run in threads, are waited for even if the clock jumps."""
    ext, seen = sample()
    release = trio.lowlevel.current_trio_token()
    ext.on_shutdown(lambda: trio.from_thread.run(trio.lowlevel.checkpoint, trio_token=release))
    async with TestHost(ext):
        pass
    assert seen.ended == ["extension"]


async def test_errors_leave_the_block_as_they_are() -> None:
    """What a test raises is not wrapped, and the extension is ended."""
    with pytest.raises(KeyError, match="mine"):
        async with TestHost(sample()[0]):
            raise KeyError("mine")

    async def fail() -> None:
        async with TestHost(sample()[0]) as host:
            host.start(host.call_tool, "wait")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()


async def test_registrations_that_no_host_takes() -> None:
    """A handshake that a real host would refuse fails the block at once."""
    ext = Extension("bad")
    ext.tool(name="not a name", description="")(lambda: None)
    with pytest.raises(RegistrationsInvalid, match="is not a valid name of a tool"):
        async with TestHost(ext):
            raise AssertionError("never")


async def test_without_the_handshake() -> None:
    """A test may greet by itself: nothing is answered before, and only one handshake."""
    ext = Extension("alone")
    ext.flag("deep", default="no")
    async with TestHost(ext, initialize=False) as host:
        await host.ping()
        with pytest.raises(HostError) as early:
            await host.request("tool/execute", {"call_id": "c", "tool": "x"})
        assert early.value.code == -32600
        with pytest.raises(HostError, match="protocol_version"):
            await host.initialize(protocol_version=0)
        assert (await host.initialize(protocol_version=9)).flags == ("deep",)
        with pytest.raises(HostError, match="initialize was already received"):
            await host.initialize()


async def test_the_test_s_own_mistakes_are_seen() -> None:
    """A function of the test that fails while it answers the extension fails the test."""
    ext = Extension("asking")

    @ext.command
    async def ask(ctx: Any) -> str:
        try:
            return str(await ctx.ui.confirm("Really?"))
        except HostError as error:
            return f"refused: {error.code}"

    def wrong(params: Any) -> bool:
        assert params["prompt"] == "Sure?"
        return True

    with pytest.raises(AssertionError, match="Sure"):
        async with TestHost(ext, ui={"confirm": wrong}) as host:
            assert await host.run_command("ask") == "refused: -32603"
    with pytest.raises(TypeError, match="must be a bool"):
        async with TestHost(ext, ui={"confirm": "yes"}) as host:
            await host.run_command("ask")


async def test_slips_of_a_test_are_seen(host: TestHost) -> None:
    """A kind, an event or a hook that there is not is refused with what was meant, and an answer that is no option."""
    with pytest.raises(ValueError, match=r"no kind 'confrim' \(did you mean 'confirm'\?\)"):
        TestHost(Extension("x"), ui={"confrim": True})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match=r"no event 'turn_ended' \(did you mean 'turn_end'\?\)"):
        await host.send_event("turn_ended")
    with pytest.raises(ValueError, match=r"no hook 'tool_cal' \(did you mean 'tool_call'\?\)"):
        await host.call_hook("tool_cal")  # type: ignore[arg-type]
    ext = Extension("choosing")

    @ext.command
    async def choose(ctx: Any) -> str | None:
        found: str | None = await ctx.ui.select("Which?", ["red", "blue"])
        return found

    async with TestHost(ext, ui={"select": "blue"}) as choosing:
        assert await choosing.run_command("choose") == "blue"
    with pytest.raises(ValueError, match=r"must be one of \['red', 'blue'\], None or a dict, not 'green'"):  # noqa: PT012
        async with TestHost(ext, ui={"select": "green"}) as choosing:
            with pytest.raises(HostError):
                await choosing.run_command("choose")


async def test_a_failing_observer_fails_the_test() -> None:
    """What a handler of an event raises is raised by `settled`, once, and by the end of the block if nobody looked."""
    async with TestHost(sample()[0]) as host:
        await host.send_event("turn_start")
        with pytest.raises(ValueError, match="a broken observer") as failed:
            await host.settled()
        assert "a handler of the event turn_start" in failed.value.__notes__[0]
        await host.settled()
    ran = trio.Event()
    ext = Extension("broken")

    @ext.on("turn_end")
    async def fail(ctx: object) -> None:
        ran.set()
        raise LookupError("not there")

    with pytest.raises(LookupError, match="not there"):  # noqa: PT012 - the end of the block raises
        async with TestHost(ext) as host:
            await host.send_event("turn_end")
            await ran.wait()


async def test_a_folder_and_a_command_line(tmp_path: Path) -> None:
    """The same host talks to an extension in a process of its own."""
    program = (
        "from session_core.sep.sdk import Extension\n"
        "ext = Extension('far')\n"
        "@ext.tool\n"
        "def two() -> int: return 2\n"
        "ext.serve()"
    )
    line = [sys.executable, "-c", program]
    async with TestHost(line) as host:
        assert await host.call_tool("two") == ToolResult(content="2")
    (tmp_path / "extension.toml").write_text(
        f'name = "far"\nversion = "1"\n[run]\ncommand = "{line[0]}"\nargs = {json.dumps(line[1:])}\n'
        "[capabilities]\ntools = true\n"
    )
    async with TestHost(tmp_path) as host:
        await host.settled()
        assert [each.name for each in host.registrations.tools] == ["two"]
