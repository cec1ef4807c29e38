"""Plan mode: the model can read everything and change nothing until a person approves its plan."""

from contextlib import suppress
from typing import Any

from session_core.sep.sdk import (
    CommandContext,
    Context,
    EventContext,
    Extension,
    HookContext,
    HookReturn,
    NotSupported,
    NoUi,
    block,
    patch,
)

READING = ("read", "list", "glob", "grep", "plan", "skill")
INSTRUCTIONS = (
    "You are in plan mode. Look at whatever you need and change nothing. Answer with a numbered plan: what you would "
    "do, in which files, and how you would check it. Then stop; people will tell you to carry it out."
)

ext = Extension("plan-mode", "0.1.0")
ext.flag("plan")


THE_ONLY = "session"
"""Stands for the session in hosts that do not say which one it is."""


async def session_of(ctx: CommandContext) -> str:
    try:
        return str((await ctx.state())["session_id"])
    except NotSupported:
        return THE_ONLY


def session_of_hook(ctx: HookContext) -> str:
    return str(ctx.input.get("session_id", THE_ONLY))


async def kept_for(ctx: Context, session_id: str) -> dict[str, Any]:
    """Return the stored state of a session: whether it is in plan mode, and which tools it had before."""
    kept: dict[str, Any] = await ctx.kv.get(session_id, {})
    return {"planning": ctx.flag("plan") is True, "tools": [], **kept}


async def is_planning(ctx: HookContext) -> bool:
    return bool((await kept_for(ctx, session_of_hook(ctx)))["planning"])


@ext.command
async def plan(ctx: CommandContext) -> str:
    """Plan before anything is changed: /plan begins, /plan go carries the plan out, /plan off just ends it"""
    session_id = await session_of(ctx)
    match str(ctx.args.get("state", ctx.text)).strip():
        case "" | "on":
            kept = await kept_for(ctx, session_id)
            await ctx.kv.set(session_id, {**kept, "planning": True})
            await show(ctx, "planning")
            return f"Planning. The model can use {', '.join(READING)} and nothing else; /plan go carries the plan out."
        case "off":
            await leave(ctx, session_id)
            return "Not planning any more."
        case "go":
            await leave(ctx, session_id)
            await ctx.session.send_user_message("The plan is good. Carry it out.")
            return "The plan is being carried out."
        case other:
            return f"There is no /plan {other}; say /plan, /plan go or /plan off."


@plan.complete
def complete_plan(_: CommandContext, partial: str) -> list[str]:
    return [word for word in ("on", "go", "off") if word.startswith(partial)]


async def leave(ctx: CommandContext, session_id: str) -> None:
    kept = await kept_for(ctx, session_id)
    if kept["tools"]:
        await ctx.set_active(kept["tools"])
    await ctx.kv.set(session_id, {"planning": False})
    if not ctx.flag("plan"):  # with the flag, a session without stored state would be in plan mode
        with suppress(NotSupported):
            await ctx.kv.delete(session_id)
    await show(ctx, "")


async def show(ctx: Context, status: str) -> None:
    with suppress(NoUi):
        await ctx.ui.set_status(status)


@ext.hook("before_agent_start")
async def instruct(ctx: HookContext) -> HookReturn:
    if not await is_planning(ctx):
        return None
    return patch(system_prompt=f"{ctx.input.get('system_prompt', '')}\n\n{INSTRUCTIONS}".strip())


@ext.hook("before_provider_request")
async def narrow(ctx: HookContext) -> HookReturn:
    """Remove the tools that change anything; their names are stored, because restoring the tools needs them."""
    session_id = session_of_hook(ctx)
    kept = await kept_for(ctx, session_id)
    if not kept["planning"]:
        return None
    if not kept["tools"]:
        await ctx.kv.set(session_id, {**kept, "tools": ctx.input.get("tools", [])})
    return patch(tools=await ctx.set_active(READING))


@ext.hook("tool_call")
async def refuse(ctx: HookContext) -> HookReturn:
    """Block every other tool call; if this hook fails, the call is denied too."""
    if ctx.input.get("tool") in READING or not await is_planning(ctx):
        return None
    return block("plan mode: nothing may be changed before people have agreed to the plan")


@ext.on("session_shutdown")
async def forget(ctx: EventContext) -> None:
    if ctx.session_id is not None and ctx.payload.get("reason") == "deleted":
        await ctx.kv.delete(ctx.session_id)


if __name__ == "__main__":
    ext.serve()
