"""The protocols that come along pass the conformance suite, and protocols with a fault in them do not."""

from typing import Any

import pytest
import trio
from trio.testing import MockClock

from session_core.protocols.api import ProtocolBundle, ProtocolFactory, ProtocolSession
from session_core.protocols.code.protocol import CodeProtocol
from session_core.protocols.contexts import BuildContext
from session_core.protocols.faults import StateNotKeepable
from session_core.protocols.standard import NativeToolDriver, StandardProtocol
from session_core.testing import check_protocol as suite
from session_core.testing.check_protocol import PROTOCOL_CHECKS, ProtocolReport, ProtocolSubject, check_protocol
from session_core.testing.scripted import ScriptedAnswer, text, tool_call
from session_core.vocabulary.frozen import JsonObject
from tests._needs import needs_sandbox
from tests.session_core.testing import _broken_protocols as broken
from tests.session_core.testing._notebook import MARK, SAMPLES, NoteDriver, NoteExecutor, NoteProse, NoteProtocol

CHECKS = dict(PROTOCOL_CHECKS)
NOTES: tuple[ScriptedAnswer, ...] = (text(MARK, "set y 9"), text("Set."))

FAULTS: list[tuple[type[ProtocolFactory], str]] = [
    (broken.ReadsAFile, "building_touches_nothing"),
    (broken.RaisesInBuild, "building_touches_nothing"),
    (broken.BuildsByChance, "building_again_gives_the_same"),
    (broken.SharesItsExecutor, "building_again_gives_the_same"),
    (broken.HasAWrongDefault, "options_are_decided_at_every_opening"),
    (broken.HasAWrongDefaultForChildren, "options_are_decided_at_every_opening"),
    (broken.ChangesItsOptions, "stating_options_again_changes_nothing"),
    (broken.PassesCallsOver, "the_driver_keeps_its_rules"),
    (broken.TellsBeforeResults, "the_driver_keeps_its_rules"),
    (broken.ChokesOnFailures, "the_driver_keeps_its_rules"),
    (broken.SaysNothing, "the_driver_keeps_its_rules"),
    (broken.RunsCodeNowhere, "the_driver_keeps_its_rules"),
    (broken.CountsInItsDriver, "the_driver_decides_by_its_view_alone"),
    (broken.DecidesByChance, "the_driver_decides_by_its_view_alone"),
    (broken.DividesByChunk, "what_people_see_does_not_depend_on_chunks"),
    (broken.LosesText, "what_people_see_does_not_depend_on_chunks"),
    (broken.NeverEnds, "plain_text_ends_a_turn"),
    (broken.EndsByFailing, "its_own_script_ends_a_turn"),
    (broken.SharesItsSession, "sessions_know_nothing_of_each_other"),
    (broken.StaysBusyAfterAStop, "a_stopped_session_goes_on"),
    (broken.FailsWhenTold, "appended_messages_are_survived"),
    (broken.HidesWhatWasAppended, "appended_messages_are_survived"),
    (broken.WantsNoChildren, "children_and_forks_work"),
    (broken.CountsTurns, "reopening_changes_nothing"),
    (broken.RefusesHalfTurns, "a_crash_in_a_turn_is_survived"),
    (broken.AddsWhenRestored, "restoring_is_a_reset"),
    (broken.KeepsItsContext, "contexts_are_given_back"),
    (broken.IsAlwaysDirty, "what_code_leaves_behind_is_kept"),
    (broken.IsNeverDirty, "what_code_leaves_behind_is_kept"),
    (broken.StaysDirty, "what_code_leaves_behind_is_kept"),
    (broken.LosesItsState, "what_code_leaves_behind_is_kept"),
    (broken.KeepsWhatWasBefore, "what_code_leaves_behind_is_kept"),
    (broken.NamesLeavesFreely, "what_code_leaves_behind_is_kept"),
    (broken.OffersOnce, "an_aborted_capture_is_offered_again"),
    (broken.ForgetsAborts, "an_aborted_capture_is_offered_again"),
    (broken.TakesAnyState, "a_wrong_state_is_rejected"),
    (broken.DiesWhenCancelled, "a_cancelled_cell_leaves_the_executor_usable"),
]


def subject(kind: type[ProtocolFactory]) -> ProtocolSubject:
    """A protocol to check, with what it needs to be tried."""
    has_code = issubclass(kind, NoteProtocol)
    return ProtocolSubject(make=kind, script=NOTES if has_code else (text("Done."),), cells=SAMPLES)


async def test_native_tool_calling_conforms() -> None:
    """The standard protocol keeps every promise that it has a part for."""
    report = await check_protocol(StandardProtocol(), script=(tool_call("look"), text("Nothing there.")))
    skipped = {
        "what_people_see_does_not_depend_on_chunks": "it hides nothing of an answer",
        "what_code_leaves_behind_is_kept": "it has no executor",
        "an_aborted_capture_is_offered_again": "it has no executor",
        "a_wrong_state_is_rejected": "it has no executor",
        "a_cancelled_cell_leaves_the_executor_usable": "it has no executor",
    }
    passed = tuple(name for name in CHECKS if name not in skipped)
    assert ProtocolReport(protocol="standard", passed=passed, skipped=skipped) == report


async def test_a_protocol_with_code_conforms(autojump_clock: MockClock) -> None:
    """A protocol with an executor and hidden text keeps every promise; without samples of code some are left out."""
    assert tuple(CHECKS) == (await check_protocol(NoteProtocol, script=NOTES, cells=SAMPLES)).passed
    assert "there are no samples of the code that its executor runs" in set(
        (await check_protocol(NoteProtocol)).skipped.values()
    )


@needs_sandbox
@pytest.mark.slow
async def test_code_conforms() -> None:
    """The protocol `code` keeps every promise, with the real process that runs its cells."""
    script = (text("I count.\n```python\nn = 4\nprint(n)\n```"), text("There are 4."))
    assert tuple(CHECKS) == (await check_protocol(CodeProtocol, script=script)).passed


async def test_a_protocol_with_a_word_conforms() -> None:
    """What the faulty protocols are made of has no fault itself."""
    await check_protocol(broken.Whole, script=(tool_call("look"), text("Nothing there.")))


@pytest.mark.parametrize(("kind", "name"), FAULTS, ids=[f"{kind.__name__}-{name}" for kind, name in FAULTS])
async def test_faults_are_found(kind: type[ProtocolFactory], name: str, autojump_clock: MockClock) -> None:
    """A protocol with a fault in it fails the check that is about it, with a sentence."""
    with pytest.raises(AssertionError) as failure:
        await CHECKS[name](subject(kind))
    assert " " in str(failure.value)


class Shielded(StandardProtocol):
    """Waits for ever, and shields itself from being cancelled."""

    id = "shielded"

    class _Session(ProtocolSession):
        async def before_model_call(self, context: Any, request: Any) -> Any:
            with trio.CancelScope(shield=True):
                await trio.sleep_forever()

    def build(self, context: BuildContext) -> ProtocolBundle:
        return ProtocolBundle(driver=NativeToolDriver(), session=self._Session())


async def test_what_shields_itself_is_ended(autojump_clock: MockClock, quiet_log: None) -> None:
    """A wait that shields itself from cancellation fails its check in bounded time, and is not left behind."""
    began = trio.current_time()
    with pytest.raises(AssertionError, match="no check takes longer than 120 seconds"):
        await CHECKS["plain_text_ends_a_turn"](ProtocolSubject(make=Shielded))
    assert trio.current_time() - began < 400


class NotKeepable(NoteExecutor):
    """Keeps nothing."""

    async def capture(self) -> Any:
        raise StateNotKeepable("a socket is open")


class Raw(NoteExecutor):
    """Does not know how to begin."""

    async def restore(self, saved: Any) -> None:
        raise AttributeError("no such thing")


@pytest.mark.parametrize(
    ("executor", "reason"),
    [
        (NotKeepable, "the state that a sample cell leaves can be saved: a socket is open"),
        (Raw, "no callback raises an unexpected exception: AttributeError: no such thing"),
    ],
)
async def test_errors_are_failed_checks(executor: type[NoteExecutor], reason: str) -> None:
    """What a protocol raises is told as a check that has failed, with the error as its cause."""

    class Broken(NoteProtocol):
        def build(self, context: BuildContext) -> ProtocolBundle:
            return ProtocolBundle(driver=NoteDriver(), executor=executor(), prose=NoteProse())

    with pytest.raises(AssertionError, match=reason) as failure:
        await CHECKS["what_code_leaves_behind_is_kept"](subject(Broken))
    assert failure.value.__cause__ is not None


class Nameless(StandardProtocol):
    """Has no name."""

    id: Any = ""


@pytest.mark.parametrize(
    ("given", "more", "reason"),
    [
        (3, {}, "a protocol is a ProtocolFactory, or a function that makes one, not a int"),
        (dict, {}, "a protocol is a ProtocolFactory, not a dict"),
        (Nameless, {}, "a protocol says what it is: it has the id ''"),
        (ProtocolFactory, {}, "a protocol can be made: TypeError"),
        (StandardProtocol, {"cells": "x = 1"}, "cells must be CellSamples, not str"),
    ],
)
async def test_what_is_no_protocol(given: Any, more: dict[str, Any], reason: str) -> None:
    """What could not be checked at all is told in a sentence."""
    with pytest.raises(AssertionError, match=reason):
        await check_protocol(given, **more)


def test_every_check_has_teeth() -> None:
    """For each check there is a protocol that fails it."""
    assert set(CHECKS) == {name for _, name in FAULTS}


async def test_the_failed_check_is_named() -> None:
    """`check_protocol` says which check has failed, and stops there."""
    with pytest.raises(AssertionError) as failure:
        await check_protocol(broken.NeverEnds)
    assert ["in the check plain_text_ends_a_turn"] == failure.value.__notes__


async def test_options_are_stated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions are created with the options that were given, and wrong ones are told as that."""
    seen: list[JsonObject] = []

    async def look(given: ProtocolSubject) -> None:
        seen.append(given.options)

    monkeypatch.setattr(suite, "PROTOCOL_CHECKS", (("look", look),))
    await check_protocol(StandardProtocol, options=JsonObject({"a": 1}))
    assert [JsonObject({"a": 1})] == seen
    with pytest.raises(AssertionError, match="a session with this protocol can be made: invalid options"):
        await CHECKS["building_touches_nothing"](ProtocolSubject(make=StandardProtocol, options=seen[0]))
