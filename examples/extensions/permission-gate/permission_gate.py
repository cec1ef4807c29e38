"""Asks before a command that is hard to undo runs, whether a model, a person or another extension runs it."""

import re

from session_core.sep.sdk import Extension, HookContext, HookReturn, NoUi, block

RISKY = {
    r"\brm\s+(-\w+\s+)*-\w*[rf]": "it deletes without asking",
    r"\bgit\s+push\b.*(\s-f\b|--force)": "it overwrites what others have pushed",
    r"\bgit\s+(reset\s+--hard|clean\s+-\w*f)": "it throws away changes that are not committed",
    r"\b(sudo|doas)\b": "it runs as another user",
    r"\b(mkfs|dd\s+.*\bof=)": "it writes to a disk",
    r"\b(curl|wget)\b.*\|\s*(ba|z)?sh\b": "it runs a program from the network",
}

ext = Extension("permission-gate", "0.1.0")


def risk_of(command: str) -> str | None:
    return next((why for pattern, why in RISKY.items() if re.search(pattern, command)), None)


@ext.hook("tool_call")
async def before_tool(ctx: HookContext) -> HookReturn:
    """Check every tool call; a shell is recognised by its argument, whatever its name."""
    arguments = ctx.input.get("arguments")
    command = arguments.get("command") if isinstance(arguments, dict) else None
    return await judge(ctx, command) if isinstance(command, str) else None


@ext.hook("user_bash")
async def before_program(ctx: HookContext) -> HookReturn:
    return await judge(ctx, str(ctx.input.get("command", "")))


async def judge(ctx: HookContext, command: str) -> HookReturn:
    why = risk_of(command)
    if why is None:
        return None
    try:
        agreed = await ctx.ui.confirm(f"May this run? ({why})\n\n{command}")
    except NoUi:
        return block(f"{why}, and nobody is there who could be asked")
    return None if agreed else block(f"{why}, and somebody said no")


if __name__ == "__main__":
    ext.serve()
