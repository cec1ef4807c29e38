"""What could not work is refused where it is written, with a sentence that says what to write."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from session_core.sep.sdk import Extension
from session_core.sep.sdk.testing import HostError, TestHost


def nothing() -> None: ...
def one(ctx: object) -> None: ...
def two(ctx: object, more: str) -> None: ...


@pytest.mark.parametrize(
    ("register", "sentence"),
    [
        (lambda ext: ext.hook(one), 'write @ext.hook("tool_call")'),
        (lambda ext: ext.on(one), 'write @ext.on("turn_end")'),
        (lambda ext: ext.on_topic(one), 'write @ext.on_topic("topic")'),
        (lambda ext: ext.on_widget_key(one), 'write @ext.on_widget_key("widget")'),
        (lambda ext: ext.provider(two), 'write @ext.provider("name", models=["model"])'),
        (lambda ext: ext.provider("p"), "write @ext.provider('p', models=[\"model\"])"),
        (lambda ext: ext.provider("p", models="m"), "needs a list of models"),
        (lambda ext: ext.command("go"), "write @ext.command(name='go')"),
        (lambda ext: ext.tool("x"), "write @ext.tool(name='x')"),
        (lambda ext: ext.tool(5), "decorates a function, not a int"),
        (lambda ext: ext.command(lambda ctx: None), 'no name of its own: write @ext.command(name="...")'),
        (lambda ext: ext.hook("turn_end"), "'turn_end' is an event, not a hook: use @ext.on('turn_end')"),
        (lambda ext: ext.command(nothing), "the command nothing is called with (ctx), but nothing() does not"),
        (lambda ext: ext.command(two), "two(ctx, more) does not take that: write `async def two(ctx)`; what was typed"),
        (lambda ext: ext.hook("input")(nothing), "write `async def nothing(ctx)`"),
        (lambda ext: ext.on("turn_end")(two), "write `async def two(ctx)`"),
        (lambda ext: ext.on_topic("t")(nothing), "write `async def nothing(ctx)`"),
        (lambda ext: ext.command(one).complete(one), "the completion of the command one is called with (ctx, partial)"),
        (lambda ext: ext.provider("p", models=["m"])(one), "the provider p is called with (ctx, request)"),
        (lambda ext: ext.provider("p", models=["m"])(two).login(two), "the login of the provider p is called with"),
        (lambda ext: ext.tool(parameters={"type": "object"})(one), "all arguments come as one object"),
        (lambda ext: ext.tool(parameters={"type": "object"})(nothing), "write `async def nothing(arguments)`"),
        (lambda ext: (ext.tool(one), ext.tool(name="one")(two)), "there are two tools called 'one'"),
        (lambda ext: (ext.command(one), ext.command(one)), "there are two commands called 'one'"),
    ],
)
def test_what_cannot_work(register: Callable[[Any], object], sentence: str) -> None:
    """Brackets, names and signatures that do not fit are refused at once."""
    with pytest.raises((TypeError, ValueError), match=re.escape(sentence)):
        register(Extension("x"))


@pytest.mark.parametrize("name", ["Bad Name", "", "a.b", "x" * 65, None])
def test_names_of_extensions(name: Any) -> None:
    """A name that no host takes is refused with the names that there can be."""
    with pytest.raises(ValueError, match="use 1 to 64 of a-z"):
        Extension(name)


async def test_a_forgotten_await() -> None:
    """A handler that hands on what was never awaited is told so; a plain function may return what is to be awaited."""
    ext = Extension("x")

    @ext.command
    async def forgot(ctx: Any) -> Any:
        return ctx.kv.get("key")

    @ext.tool
    async def within(ctx: Any) -> Any:
        """Forget it deep inside."""
        return {"found": ctx.kv.get("key")}

    ext.command(name="plain")(lambda ctx: ctx.kv.get("key"))
    async with TestHost(ext, kv={"key": "kept"}) as host:
        with pytest.raises(HostError, match=r"TypeError: forgot returned .* an `await` is missing in it"):
            await host.run_command("forgot")
        with pytest.raises(HostError, match="an `await` is missing"):
            await host.call_tool("within")
        assert await host.run_command("plain") == "kept"
