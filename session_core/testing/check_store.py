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

from session_core.testing import check_store_leaves as leaves
from session_core.testing import check_store_messages as messages
from session_core.testing import check_store_states as states
from session_core.testing import check_store_values as values
from session_core.testing import check_store_writes as writing
from session_core.testing.check_store_world import LiveSessions as LiveSessions
from session_core.testing.check_store_world import StoreHarness as StoreHarness
from session_core.testing.check_store_world import open_live_sessions as open_live_sessions

StoreCheck = Callable[[StoreHarness], Awaitable[None]]

_CHECKS: tuple[StoreCheck, ...] = (
    states.a_new_store_is_empty,
    writing.events_come_back_in_order,
    writing.events_of_no_session_pass,
    writing.leaving_writes_the_rest,
    writing.a_store_can_be_opened_again,
    writing.many_wait_and_one_gives_up,
    writing.a_crash_never_finds_half_a_step,
    writing.text_of_an_unfinished_answer_is_kept,
    writing.text_of_a_finished_answer_is_dropped,
    writing.what_cannot_be_written_is_refused,
    writing.replies_are_remembered,
    writing.replies_are_bounded,
    writing.nothing_is_left_of_a_deleted_session,
    writing.the_id_of_a_deleted_session_may_come_back,
    writing.one_at_a_time_may_write,
    states.a_loaded_session_is_the_one_that_was_left,
    states.a_session_in_the_middle_of_work_is_loaded,
    states.older_messages_are_in_the_store_alone,
    states.the_list_is_right,
    messages.pages_of_messages_fit_together,
    messages.paths_lead_to_the_root,
    messages.messages_that_came_back_keep_their_branches,
    messages.messages_are_found_by_their_words,
    messages.odd_searches_are_no_errors,
    messages.names_that_nobody_has_are_unknown,
    messages.results_of_tools_are_found_and_measured_after_a_restart,
    messages.odd_and_long_contents_come_back,
    states.a_reader_sees_whole_steps_of_a_writer,
    values.values_come_back,
    values.values_are_listed_and_let_go,
    values.values_are_durable_when_told_so,
    values.values_of_many_at_once,
    values.values_are_bounded,
    leaves.leaves_come_back,
    leaves.leaves_go_with_the_state_that_named_them,
    leaves.leaves_of_a_deleted_session_are_gone,
    leaves.leaves_that_are_none_are_refused,
    leaves.a_crash_never_finds_half_a_state,
)

STORE_CHECKS: tuple[tuple[str, StoreCheck], ...] = tuple((getattr(check, "__name__", ""), check) for check in _CHECKS)
"""Every check with its name, for test runners that run them one by one."""


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
