"""keep-out: no tool call may mention secrets.txt, and /keep-out says so."""

import json

from session_core.sep.sdk import CommandContext, Extension, HookContext, HookReturn, block

ext = Extension("keep-out", "0.1.0")
RULE = "no tool call may mention secrets.txt"


@ext.command(name="keep-out")
async def tell(_ctx: CommandContext) -> str:
    """Say what is off limits."""
    return RULE


@ext.hook("tool_call")
async def guard(ctx: HookContext) -> HookReturn:
    """Block a call whose arguments mention the file."""
    return block(RULE) if "secrets.txt" in json.dumps(ctx.input.get("arguments")) else None


if __name__ == "__main__":
    ext.serve()
