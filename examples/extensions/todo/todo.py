"""A task list: the model uses it through tools, people through /todo and a permanent widget."""

from contextlib import suppress
from typing import Annotated

import attrs
import trio

from session_core.sep.sdk import (
    CommandCompletion,
    CommandContext,
    Context,
    EventContext,
    Extension,
    NotSupported,
    NoUi,
    ToolCallContext,
    ToolError,
    render,
)

ext = Extension("todo", "0.1.0")
changing = trio.Lock()  # calls run concurrently, and each reads the list before it writes it


@attrs.frozen(kw_only=True)
class Task:
    number: int
    text: str
    done: bool = False

    def __str__(self) -> str:
        return f"{self.number}. [{'x' if self.done else ' '}] {self.text}"


async def load(ctx: Context) -> list[Task]:
    return [Task(**each) for each in await ctx.kv.get("tasks", [])]


async def save(ctx: Context, tasks: list[Task]) -> None:
    await ctx.kv.set("tasks", [attrs.asdict(task) for task in tasks])
    body = render.table(["", "task"], [("x" if task.done else "", task.text) for task in tasks], text=listed(tasks))
    with suppress(NoUi):  # there may be no frontend
        await ctx.ui.set_widget(render.widget("todo", body, keys={"c": "clear what is done"}))


def listed(tasks: list[Task]) -> str:
    return "\n".join(map(str, tasks)) or "nothing to do"


async def put_on_list(ctx: Context, text: str) -> Task:
    if not text.strip():
        raise ToolError("a task needs a text")
    async with changing:
        tasks = await load(ctx)
        new = Task(number=1 + max((task.number for task in tasks), default=0), text=text.strip())
        await save(ctx, [*tasks, new])
    return new


async def tick_off(ctx: Context, number: int) -> Task:
    async with changing:
        tasks = await load(ctx)
        found = next((task for task in tasks if task.number == number), None)
        if found is None:
            raise ToolError(f"there is no task {number}; there are:\n{listed(tasks)}")
        ticked = attrs.evolve(found, done=True)
        tasks = [ticked if task is found else task for task in tasks]
        await save(ctx, tasks)
    if not found.done and all(task.done for task in tasks):
        news = {"message": "All tasks are done."}
        with suppress(NotSupported):  # some hosts do not say which session it is
            news["session_id"] = (await ctx.state())["session_id"]
        await ctx.bus.publish("notify", news)
    return ticked


# --- for the model ----------------------------------------------------------------------------------------------------


@ext.tool
async def add(ctx: ToolCallContext, text: Annotated[str, "what is to be done, in one line"]) -> str:
    """Put a task on the list. Use it when work has several steps, before you begin."""
    return str(await put_on_list(ctx, text))


@ext.tool(name="list")
async def list_tasks(ctx: ToolCallContext) -> str:
    """Show all tasks and which of them are done."""
    return listed(await load(ctx))


@ext.tool
async def done(ctx: ToolCallContext, number: Annotated[int, "the number of the task", {"minimum": 1}]) -> str:
    """Tick a task off, as soon as it is really done."""
    return str(await tick_off(ctx, number))


# --- for people -------------------------------------------------------------------------------------------------------


@ext.command
async def todo(ctx: CommandContext) -> str:
    """Show the list, or change it: /todo add TEXT, /todo done NUMBER, /todo clear"""
    what, _, rest = ctx.text.strip().partition(" ")
    try:
        match what:
            case "":
                return listed(await load(ctx))
            case "add":
                return str(await put_on_list(ctx, rest))
            case "done" if rest.strip().isdecimal():
                return str(await tick_off(ctx, int(rest)))
            case "clear":
                return await clear(ctx)
            case _:
                return "Say /todo, /todo add TEXT, /todo done NUMBER or /todo clear."
    except ToolError as error:
        return str(error)


@todo.complete
async def complete_todo(ctx: CommandContext, partial: str) -> list[CommandCompletion]:
    if partial.startswith("done "):
        return [CommandCompletion(f"done {task.number}", task.text) for task in await load(ctx) if not task.done]
    return [CommandCompletion(word) for word in ("add ", "done ", "clear") if word.startswith(partial)]


@ext.on_widget_key("todo")
async def widget_key(ctx: EventContext) -> None:
    if ctx.payload.get("key") == "c":
        await clear(ctx)


async def clear(ctx: Context) -> str:
    async with changing:
        left = [task for task in await load(ctx) if not task.done]
        await save(ctx, left)
    return listed(left)


if __name__ == "__main__":
    ext.serve()
