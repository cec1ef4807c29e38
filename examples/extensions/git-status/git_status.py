"""Shows the branch of the session's folder and the number of changed files in the status line."""

from contextlib import suppress

from session_core.sep.sdk import EventContext, Extension, HostError, NotTrusted, NoUi, Refused

CHANGING = frozenset({"bash", "write", "edit", "multi_edit"})

ext = Extension("git-status", "0.1.0")
refused: set[str | None] = set()
"""Sessions in which a rule or a person denied the command; it is not asked for again."""


@ext.on("turn_start")
@ext.on("turn_end")
async def around_turn(ctx: EventContext) -> None:
    await refresh(ctx)


@ext.on("tool_execution_end")
async def after_tool(ctx: EventContext) -> None:
    if ctx.payload.get("tool") in CHANGING:
        await refresh(ctx)


async def refresh(ctx: EventContext) -> None:
    """Refresh the status. The context of an event may run programs and show a status, but not act in the session."""
    if ctx.session_id in refused:
        return
    try:
        # Without this option, git may write to its index.
        ran = await ctx.exec("git", "--no-optional-locks", "status", "--porcelain", "--branch")
    except HostError as error:
        ctx.log.warning("git could not be run", session_id=ctx.session_id, reason=error.message)
        if isinstance(error, Refused | NotTrusted):
            refused.add(ctx.session_id)
        return
    with suppress(NoUi):
        await ctx.ui.set_status(summary(ran.stdout) if ran.exit_code == 0 else "")


def summary(porcelain: str) -> str:
    """Summarize git's output: `main +1 ~2 ?3` for ahead, changed and untracked files."""
    head, *files = porcelain.splitlines() or ["## ?"]
    branch = head.removeprefix("## ").removeprefix("No commits yet on ").split("...")[0].split(" ")[0]
    ahead = head.partition("ahead ")[2].partition("]")[0].partition(",")[0]
    unknown = sum(line.startswith("??") for line in files)
    counts = (("+", int(ahead or 0)), ("~", len(files) - unknown), ("?", unknown))
    return " ".join([branch, *(f"{sign}{count}" for sign, count in counts if count)])


if __name__ == "__main__":
    ext.serve()
