"""A value that will be there later."""

import trio
from trio.testing import wait_all_tasks_blocked

from session_core.session.deferred import Deferred


async def test_a_deferred_value_reaches_all() -> None:
    """Everybody who waits gets the first value, also those who come later, and None is a value too."""
    deferred: Deferred[str | None] = Deferred()
    got: list[str | None] = []

    async def wait() -> None:
        got.append(await deferred.wait())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        nursery.start_soon(wait)
        await wait_all_tasks_blocked()
        deferred.set(None)
        deferred.set("second")
    assert [None, None, None] == [*got, await deferred.wait()]
