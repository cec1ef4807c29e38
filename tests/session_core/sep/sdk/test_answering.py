"""What handlers return, what they register, and the blocks they show: accepted by the host's own readers."""

import dataclasses
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core.sep.host.registrations import read_registrations
from session_core.sep.protocol.render_blocks import read_render_block
from session_core.sep.sdk import Extension, Model, ToolResult, block, patch, render
from session_core.sep.sdk.answers import CommandCompletion, completions, hook_outcome, tool_result
from session_core.sep.sdk.testing import HostError, TestHost
from session_core.vocabulary.frozen import thaw_json
from tests.session_core.sep.sdk._sample import sample

TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=9)
CELLS = TEXTS | st.integers(-9, 9) | st.floats(allow_nan=False, allow_infinity=False) | st.booleans() | st.none()
LEAVES = st.one_of(
    TEXTS.map(render.markdown),
    st.builds(render.keyvalue, st.dictionaries(TEXTS, CELLS, max_size=3), title=TEXTS | st.none(), text=TEXTS),
    st.integers(1, 3).flatmap(
        lambda width: st.builds(
            render.table,
            st.lists(TEXTS, min_size=width, max_size=width),
            st.lists(st.lists(CELLS, min_size=width, max_size=width), max_size=3),
        )
    ),
    TEXTS.map(render.diff),
    st.builds(render.progress, st.floats(0, 1), label=TEXTS | st.none()),
)
BLOCKS = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3).map(lambda found: render.stack(*found)), max_leaves=5
)


@given(body=BLOCKS, keys=st.dictionaries(st.sampled_from(["space", "q", "ctrl+c"]), TEXTS))
def test_blocks(body: render.RenderBlock, keys: dict[str, str]) -> None:
    """Whatever the builders make is a block that a frontend can show."""
    widget = render.widget("panel", body, keys=keys)
    assert thaw_json(read_render_block(widget)) == widget


def test_registering() -> None:
    """What the decorators make is what a host reads, and an extension without hooks says so."""
    ext, _ = sample()
    assert len(read_registrations(ext.registry.wire()).tools) == len(ext.registry.tools)
    empty = Extension("empty")
    assert read_registrations(empty.registry.wire()).hooks == ("none",)
    provider = empty.provider("p", models=["a", Model("b", "B")])(lambda ctx, request: "")
    assert provider.wire() == {
        "name": "p",
        "oauth": False,
        "models": [{"id": "a"}, {"id": "b", "display_name": "B"}],
    }


def test_decorated_functions_can_be_called() -> None:
    """A decorated function is still a function, for tests of its own."""
    ext = Extension("direct")

    @ext.tool
    def double(n: int) -> int:
        """Double."""
        return 2 * n

    @ext.command
    def say_so(ctx: Any) -> str:
        return "so"

    assert (double(2), say_so(None), say_so.name) == (4, "so", "say-so")


@pytest.mark.parametrize(
    ("register", "sentence"),
    [
        (lambda ext: ext.hook("tool_cal"), r"no hook 'tool_cal' \(did you mean 'tool_call'"),
        (lambda ext: ext.on("turn_ended"), r"no event 'turn_ended' \(did you mean 'turn_end'"),
        (lambda ext: ext.on("context"), "is a hook, not an event"),
        (lambda ext: ext.tool(lambda *many: None), "cannot be passed by name"),
    ],
)
def test_misspelt(register: Any, sentence: str) -> None:
    """A name that nobody knows is refused where it is written, with the one that was meant."""
    with pytest.raises((ValueError, TypeError), match=sentence):
        register(Extension("wrong"))


def test_hook_outcomes() -> None:
    """The first no wins, patches are laid over each other and sent whole, and anything else is a mistake."""
    given = {"a": 1, "b": 2}
    assert hook_outcome("input", given, []) == {"action": "continue"}
    assert hook_outcome("input", given, [None, patch(a=3), patch({"c": 4})]) == {
        "action": "modify",
        "patch": {"a": 3, "b": 2, "c": 4},
    }
    assert hook_outcome("input", given, [patch(a=3), block("no"), block("later")]) == {
        "action": "block",
        "reason": "no",
    }
    assert hook_outcome("input", given, [block()]) == {"action": "block"}
    with pytest.raises(TypeError, match="a handler of input returned a bool"):
        hook_outcome("input", given, [True])  # type: ignore[list-item]  # what authors do


@attrs.frozen
class Point:
    """A place."""

    x: int


@dataclasses.dataclass
class Line:
    """Two places."""

    ends: tuple[Point, ...]


@pytest.mark.parametrize(
    ("returned", "content"),
    [
        ("text", "text"),
        (None, ""),
        (3, "3"),
        ({"é": [1]}, '{"é": [1]}'),
        ({2, 1}, "[1, 2]"),
        (Point(1), '{"x": 1}'),
        ([Point(1)], '[{"x": 1}]'),
        (Line((Point(1),)), '{"ends": [{"x": 1}]}'),
    ],
)
def test_results(returned: Any, content: str) -> None:
    """Text is itself, nothing is empty, and everything else is JSON."""
    assert tool_result(returned) == ToolResult(content=content)


def test_results_without_a_form() -> None:
    """What has no form in JSON is a mistake of the author, said in words."""
    with pytest.raises(TypeError, match="which has no form in JSON"):
        tool_result(object())


def test_completions() -> None:
    """Completions are texts, or texts with what they mean."""
    assert completions(["a", CommandCompletion("b", "B")]) == {
        "completions": [{"value": "a"}, {"value": "b", "description": "B"}]
    }
    assert completions(None) == {"completions": []}


@pytest.mark.parametrize("half", ["\ud800"])
async def test_answers_that_cannot_be_sent(half: str) -> None:
    """An answer that has no form on the wire is an error, and the extension goes on."""
    ext = Extension("odd")
    ext.command(name="half")(lambda ctx: half)

    @ext.tool
    async def details() -> ToolResult:
        """Return what cannot be sent."""
        return ToolResult(content="", details=object())

    async with TestHost(ext) as host:
        for call in (host.run_command("half"), host.call_tool("details")):
            with pytest.raises(HostError, match="the answer cannot be sent"):
                await call
        await host.ping()


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tool/execute", {"tool": "t", "arguments": [1]}),
        ("tool/execute", {"tool": "t", "arguments": "text"}),
        ("tool/execute", {"tool": "t", "arguments": {}, "context": 5}),
        ("tool/execute", {"tool": 5}),
        ("command/execute", {"command": "c", "arguments": [1]}),
        ("command/execute", {"command": None}),
        ("command/complete", {"command": "c", "arguments": 5}),
        ("hook", {"hook": "input", "input": [1]}),
        ("hook", {"input": {}}),
        ("provider/complete", {"provider": "p", "context": "text"}),
        ("provider/complete", {"provider": "none"}),
        ("provider/oauth_refresh", {"provider": "p"}),
    ],
)
async def test_wrong_params(method: str, params: dict[str, Any]) -> None:
    """Whatever is wrong with the params of a request, the host is told so, and no handler sees it."""
    ext = Extension("strict")
    called: list[Any] = []

    async def handle(ctx: Any) -> None:
        called.append(ctx)

    async def handle_two(ctx: Any, _: Any) -> None:
        called.append(ctx)

    ext.tool(name="t", description="")(handle)
    ext.command(name="c")(handle).complete(handle_two)
    ext.hook("input")(handle)
    ext.provider("p", models=["m"])(handle_two)
    async with TestHost(ext) as host:
        with pytest.raises(HostError) as failed:
            await host.request(method, params)
    assert (failed.value.code, called) == (-32602, [])


async def test_what_does_not_exist() -> None:
    """A tool or command that does not exist is answered with a result that says so, as other SDKs do it."""
    async with TestHost(Extension("empty")) as host:
        assert {"content": "unknown command: say"} == await host.request("command/execute", {"command": "say"})
        assert {"completions": []} == await host.request("command/complete", {"command": "say", "partial": "a"})
        tool = await host.request("tool/execute", {"call_id": "c", "tool": "say", "arguments": {}})
        assert {"content": "unknown tool: say", "is_error": True} == tool


async def test_a_handler_that_ends_the_program() -> None:
    """A handler that calls sys.exit, as parsers of command lines do, fails alone."""
    ext = Extension("leaving")
    told: list[str] = []

    @ext.command
    def leave(ctx: Any) -> None:
        raise SystemExit(2)

    @ext.on("turn_end")
    async def observe(ctx: Any) -> None:
        told.append(ctx.event)
        raise SystemExit(3)

    async with TestHost(ext, observers_may_fail=True) as host:
        with pytest.raises(HostError, match=r"sys\.exit"):
            await host.run_command("leave")
        await host.send_event("turn_end")
        await host.send_event("turn_end")
        await host.settled()
        assert told == ["turn_end", "turn_end"]
