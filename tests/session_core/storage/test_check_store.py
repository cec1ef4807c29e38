"""Our stores pass the conformance suite, and stores with a fault in them do not."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet
from trio.testing import MockClock

from session_core.storage.base import SessionStore, StoreReader
from session_core.storage.memory import MemoryStore
from session_core.testing.check_store import STORE_CHECKS, StoreCheck, StoreHarness, check_store
from tests.session_core.storage import _broken as broken
from tests.session_core.storage._harness import MemoryHarness, SqliteHarness

CHECKS = dict(STORE_CHECKS)

FAULTS: list[tuple[type[MemoryStore], str]] = [
    (broken.LosesTheLastEvent, "leaving_writes_the_rest"),
    (broken.Reorders, "events_come_back_in_order"),
    (broken.HalvesSteps, "a_crash_never_finds_half_a_step"),
    (broken.SaysDurableTooEarly, "a_crash_never_finds_half_a_step"),
    (broken.RemembersLate, "a_crash_never_finds_half_a_step"),
    (broken.CountsOn, "a_store_can_be_opened_again"),
    (broken.DropsUnfinishedText, "text_of_an_unfinished_answer_is_kept"),
    (broken.KeepsFinishedText, "text_of_a_finished_answer_is_dropped"),
    (broken.SwallowsWhatItCannotWrite, "what_cannot_be_written_is_refused"),
    (broken.KeepsTheFirstReply, "replies_are_remembered"),
    (broken.FindsDeletedText, "nothing_is_left_of_a_deleted_session"),
    (broken.ForgetsOnlyWhenAlone, "the_id_of_a_deleted_session_may_come_back"),
    (MemoryStore, "one_at_a_time_may_write"),
    (broken.LoadsAnOldState, "a_loaded_session_is_the_one_that_was_left"),
    (broken.LoadsAnOldState, "a_session_in_the_middle_of_work_is_loaded"),
    (broken.PagesOffByOne, "older_messages_are_in_the_store_alone"),
    (broken.KeepsAnOldList, "the_list_is_right"),
    (broken.ListsNewestFirst, "the_list_is_right"),
    (broken.PagesOffByOne, "pages_of_messages_fit_together"),
    (broken.PathsPassSummaries, "paths_lead_to_the_root"),
    (broken.PathsKnowNoSize, "paths_lead_to_the_root"),
    (broken.FindsNoLeaves, "paths_lead_to_the_root"),
    (broken.FindsNoLeaves, "messages_that_came_back_keep_their_branches"),
    (broken.FindsAnyWord, "messages_are_found_by_their_words"),
    (broken.ChokesOnQuotes, "odd_searches_are_no_errors"),
    (broken.KnowsNamesByTheirSound, "names_that_nobody_has_are_unknown"),
    (broken.LosesResultsOfEarlierRuns, "results_of_tools_are_found_and_measured_after_a_restart"),
    (broken.CutsLongTexts, "odd_and_long_contents_come_back"),
    (broken.ListsLate, "a_reader_sees_whole_steps_of_a_writer"),
    (broken.SharesValues, "values_come_back"),
    (broken.MatchesAnywhere, "values_are_listed_and_let_go"),
    (broken.SaysKeptTooEarly, "values_are_durable_when_told_so"),
    (broken.LosesParallelChanges, "values_of_many_at_once"),
    (broken.KeepsAnyNumber, "values_are_bounded"),
    (broken.SharesLeaves, "leaves_come_back"),
    (broken.KeepsLeavesForGood, "leaves_go_with_the_state_that_named_them"),
    (broken.BringsSessionsBackByLeaves, "leaves_of_a_deleted_session_are_gone"),
    (broken.BelievesDigests, "leaves_that_are_none_are_refused"),
    (broken.KeepsLeavesLate, "a_crash_never_finds_half_a_state"),
]


NOT_YET_IN_MEMORY: dict[str, str] = {}
NOT_YET_IN_SQLITE: dict[str, str] = {}


def names(known: dict[str, str]) -> list[ParameterSet]:
    """Every check; one that is known to fail says why, and must be taken off its list when it no longer does."""
    marks = {name: [pytest.mark.xfail(reason=why, strict=True)] for name, why in known.items()}
    return [pytest.param(name, marks=marks.get(name, ())) for name in CHECKS]


class WatchedMemory(MemoryHarness):
    """A store in memory of which everything is demanded, and that can be read from beside."""

    exclusive = True
    patience_s = 0.1

    def make_reader(self) -> AbstractAsyncContextManager[StoreReader]:
        return _reading(self.make_store())


@asynccontextmanager
async def _reading(store: SessionStore) -> AsyncGenerator[StoreReader]:
    yield store


@pytest.mark.parametrize("name", names(NOT_YET_IN_MEMORY))
async def test_memory_store(name: str) -> None:
    """The store in memory keeps every promise of a store."""
    await CHECKS[name](MemoryHarness())


@pytest.mark.parametrize("name", names(NOT_YET_IN_SQLITE))
async def test_sqlite_store(name: str, tmp_path: Path, mock_clock: MockClock) -> None:
    """The SQLite store keeps every promise of a store."""
    mock_clock.rate = 100
    await CHECKS[name](SqliteHarness(tmp_path))


@pytest.mark.parametrize(("kind", "name"), FAULTS, ids=[f"{kind.__name__}-{name}" for kind, name in FAULTS])
async def test_faults_are_found(kind: type[MemoryStore], name: str, mock_clock: MockClock) -> None:
    """A store with a fault in it fails the check that is about it, with a sentence."""
    mock_clock.rate = 100
    with pytest.raises(AssertionError) as failure:
        await CHECKS[name](WatchedMemory(kind))
    assert " " in str(failure.value)


async def test_all_checks_are_played_on_places_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """`check_store` plays every check on a new place, and names the one that failed."""
    played: list[StoreHarness] = []
    places: list[StoreHarness] = []

    async def passes(harness: StoreHarness) -> None:
        played.append(harness)

    async def fails(harness: StoreHarness) -> None:
        raise AssertionError("a promise was broken")

    @asynccontextmanager
    async def make() -> AsyncGenerator[StoreHarness]:
        places.append(MemoryHarness())
        yield places[-1]

    checks: tuple[tuple[str, StoreCheck], ...] = (("one", passes), ("two", passes), ("three", fails), ("four", passes))
    monkeypatch.setattr("session_core.testing.check_store.STORE_CHECKS", checks)
    with pytest.raises(AssertionError, match="a promise was broken") as failure:
        await check_store(make)
    assert ["in the check three"] == failure.value.__notes__
    assert places[:2] == played
    assert 3 == len(places)
