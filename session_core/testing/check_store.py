"""The conformance suite of stores: what every `SessionStore` must do, however it is implemented.

    class PostgresHarness(StoreHarness):
        def __init__(self, database: str) -> None:
            self._database = database

        def make_store(self) -> SessionStore:
            return PostgresStore(self._database)

        async def crash(self, store: SessionStore) -> SessionStore:
            await cut_connections(self._database)
            return PostgresStore(self._database)

    @asynccontextmanager
    async def new_place() -> AsyncGenerator[StoreHarness]:
        async with empty_database() as name:
            yield PostgresHarness(name)

    async def test_everything() -> None:
        await check_store(new_place)

    @pytest.mark.parametrize("check", [each for _, each in STORE_CHECKS], ids=[name for name, _ in STORE_CHECKS])
    async def test_one_by_one(check: StoreCheck) -> None:
        async with new_place() as harness:
            await check(harness)

Each check needs a new, empty place. A failing check raises `AssertionError` with a sentence that states the broken
promise.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from inspect import iscoroutinefunction

from session_core.testing import check_store_leaves as leaves
from session_core.testing import check_store_messages as messages
from session_core.testing import check_store_states as states
from session_core.testing import check_store_values as values
from session_core.testing import check_store_writes as writing
from session_core.testing.check_store_world import LiveSessions as LiveSessions
from session_core.testing.check_store_world import StoreHarness as StoreHarness
from session_core.testing.check_store_world import open_live_sessions as open_live_sessions

StoreCheck = Callable[[StoreHarness], Awaitable[None]]

STORE_CHECKS: tuple[tuple[str, StoreCheck], ...] = tuple(
    (name, check)
    for module in (states, writing, messages, values, leaves)
    for name, check in vars(module).items()
    if iscoroutinefunction(check) and check.__module__ == module.__name__ and not name.startswith("_")
)
"""Every check with its name, for test runners that run them one by one: the public coroutines of these modules."""


async def check_store(make: Callable[[], AbstractAsyncContextManager[StoreHarness]]) -> None:
    """Run all checks, each on a new place from `make`.

    Raises:
        AssertionError: A promise was broken; a note names the check.
    """
    for name, check in STORE_CHECKS:
        try:
            async with make() as harness:
                await check(harness)
        except Exception as error:
            error.add_note(f"in the check {name}")
            raise
