"""Notifies people about turns that took long or failed, and about messages of other extensions.

Other extensions publish `notify` with `{"message", "level"?, "session_id"?}`. For every turn that people were notified
about, it publishes `notifier/turn`.
"""

from typing import Literal

from session_core.sep.sdk import EventContext, Extension, NoUi

Level = Literal["info", "warn", "error"]
LEVELS: dict[str, Level] = {"info": "info", "warn": "warn", "error": "error"}

ext = Extension("notifier", "0.1.0")
ext.flag("notify-after", default=30)

newest: dict[str, EventContext] = {}
"""The newest context of each session, to reach the people who watch it: a bus message has no session of its own."""


@ext.on("turn_start")
async def turn_started(ctx: EventContext) -> None:
    if ctx.session_id is not None:
        newest[ctx.session_id] = ctx


@ext.on("session_shutdown")
async def session_ended(ctx: EventContext) -> None:
    newest.pop(ctx.session_id or "", None)


@ext.on("turn_end")
async def turn_ended(ctx: EventContext) -> None:
    status, seconds = ctx.payload.get("status", "completed"), ctx.payload.get("duration_ms", 0) / 1000
    if status == "completed" and seconds < ctx.flag("notify-after"):
        return
    await tell(ctx, f"The turn ended after {seconds:.0f} s: {status}.", "info" if status == "completed" else "warn")
    await ctx.bus.publish("notifier/turn", {"session_id": ctx.session_id, "status": status, "seconds": seconds})


@ext.on_topic("notify")
async def asked(ctx: EventContext) -> None:
    said = ctx.payload["payload"]
    message, sender = said.get("message"), ctx.payload.get("from")
    if not isinstance(message, str) or not message:
        ctx.log.warning("a message without words", sender=sender)
        return
    level = LEVELS.get(str(said.get("level")), "info")
    await tell(newest.get(said.get("session_id"), ctx), f"{sender}: {message}", level)


async def tell(ctx: EventContext, message: str, level: Level) -> None:
    try:
        await ctx.ui.notify(message, level=level)
    except NoUi:
        ctx.log.info("no frontend could show the message", message=message)


if __name__ == "__main__":
    ext.serve()
