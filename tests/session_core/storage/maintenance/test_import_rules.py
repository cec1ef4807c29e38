"""What an import takes from a file is decided for all that a session can have, and for every event."""

from typing import get_args

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core.ids import SessionId
from session_core.session.session_list import SessionListState
from session_core.session.state import SessionState
from session_core.storage.maintenance.import_rules import EVENTS, FIELDS, SETTINGS, settle_session
from session_core.vocabulary.events import DriverRemembered, Event, ProtocolConfigured, SessionCreated, SessionEvent
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.protocols import Frame, ProtocolRecord
from session_core.vocabulary.sessions import SandboxPolicy, Settings
from session_core.vocabulary.snapshots import SessionSnapshot
from session_core.vocabulary.strictness import (
    PERMISSION_MODES,
    SANDBOX_MODES,
    is_as_strict_mode,
    is_as_strict_sandbox,
    restrict_mode,
    restrict_sandbox,
)


def test_everything_is_decided() -> None:
    """Each part of a session, each setting and each event has its place in a table; a new one needs a decision."""
    assert {field.name for field in attrs.fields(SessionSnapshot)} - {"cursor"} == set(FIELDS)
    assert {field.name for field in attrs.fields(Settings)} == set(SETTINGS)
    assert set(get_args(Event)) == set(EVENTS)


@pytest.mark.parametrize("own", PERMISSION_MODES)
@pytest.mark.parametrize("asked", PERMISSION_MODES)
def test_a_mode_is_never_wider_than_ours(own: str, asked: str) -> None:
    """The result is one of both, at least as strict as our own, and as the file's if the two can be compared."""
    result = restrict_mode(own, asked)  # type: ignore[arg-type]
    assert result in {own, asked}
    assert is_as_strict_mode(own, result)  # type: ignore[arg-type]
    if is_as_strict_mode(asked, own):  # type: ignore[arg-type]
        assert own == result


POLICIES = st.builds(
    SandboxPolicy,
    mode=st.sampled_from(SANDBOX_MODES),
    network=st.booleans(),
    writable_roots=st.lists(st.sampled_from(["/a", "/b", "/c"]), unique=True).map(tuple),
)


@given(own=POLICIES, asked=POLICIES)
def test_a_sandbox_is_never_wider_than_either(own: SandboxPolicy, asked: SandboxPolicy) -> None:
    """In each field the result allows only what both allow, and nothing if they agree on nothing."""
    result = restrict_sandbox(own, asked)
    for each in (own, asked):
        assert is_as_strict_sandbox(each.mode, result.mode)
        assert result.network <= each.network
        assert set(result.writable_roots) <= set(each.writable_roots)
    assert own == restrict_sandbox(own, own)


def test_what_a_protocol_has_set_is_left_out() -> None:
    """Options of a protocol, also those of single frames, and what its driver remembers are not those of the file."""
    state, listed = SessionState(session_id=SessionId("ses_1")), SessionListState()

    def fold(event: Event) -> None:
        record = SessionEvent(seq=state.sseq + 1, sseq=state.sseq + 1, session_id=state.session_id, at=1, event=event)
        state.apply(record)
        listed.apply(record)

    frame = Frame(frame_id="frame_1", key="initial", reason="initial", opened_at=1, options=JsonObject({"a": 1}))
    settings = Settings(model="m", cwd="/")
    fold(SessionCreated(name="n", settings=settings))
    fold(ProtocolConfigured(protocol=ProtocolRecord(options=JsonObject({"a": 2})), frames=(frame,)))
    fold(DriverRemembered(memory=7))
    for record in settle_session(state, listed, settings, seq=state.sseq):
        state.apply(record)
        listed.apply(record)
    assert (state.protocol, state.driver_memory) == (ProtocolRecord(), None)
    assert state.frames == (attrs.evolve(frame, options=JsonObject()),)
