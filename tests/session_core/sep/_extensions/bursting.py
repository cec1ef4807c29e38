"""An extension made with the SDK, whose command stores a thousand values at once and says how that went."""

from collections import Counter

import trio

from session_core.sep.sdk import CommandContext, Extension, HostError

ext = Extension("bursting", "1")


@ext.command
async def burst(ctx: CommandContext) -> str:
    """Store a thousand values at once."""
    outcomes: Counter[str] = Counter()

    async def store(number: int) -> None:
        try:
            await ctx.kv.set(f"key {number}", number)
            outcomes["stored"] += 1
        except HostError as error:
            outcomes[str(error)] += 1

    async with trio.open_nursery() as nursery:
        for number in range(1_000):
            nursery.start_soon(store, number)
    return repr(dict(outcomes))


if __name__ == "__main__":
    ext.serve()
