"""What a switch to a frame means."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core import limits
from session_core.ids import MessageId, SessionId
from session_core.protocols.frames import (
    INITIAL,
    FrameKeyInvalid,
    FrameSwitch,
    OpenNewFrame,
    ReturnToFrame,
    StayInFrame,
    decide_switch,
    first_frame,
    frame_id,
)
from session_core.vocabulary.protocols import Frame

ME = SessionId("s_1")
FIRST = first_frame(ME, 5)
PLAN = Frame(
    frame_id=frame_id(ME, "plan"), key="plan", reason="switch", opened_at=7, last_message_id=MessageId("msg_9")
)


def switch(key: str, current: Frame = FIRST, *frames: Frame) -> FrameSwitch:
    """Decide at 9 o'clock."""
    return decide_switch(ME, frames, current.frame_id, key, reason="why", now=9)


def test_the_three_kinds_of_a_switch() -> None:
    """The present key stays, a known one goes back to where it was left, and a new one opens a frame."""
    assert switch(INITIAL) == StayInFrame()
    assert switch("plan", PLAN, FIRST, PLAN) == StayInFrame()
    assert switch("plan", FIRST, FIRST, PLAN) == ReturnToFrame(frame=PLAN)
    assert switch("new", PLAN, FIRST, PLAN) == OpenNewFrame(
        frame=Frame(frame_id=frame_id(ME, "new"), key="new", reason="why", opened_at=9)
    )


@pytest.mark.parametrize("key", ["", "  \n", "k" * (limits.MAX_NAME_CHARS + 1), "half \ud800"])
def test_keys_that_are_none(key: str) -> None:
    """A key that is blank, too long, or cannot be written down is refused."""
    with pytest.raises(FrameKeyInvalid, match=str(limits.MAX_NAME_CHARS)):
        switch(key)


@given(one=st.text(max_size=5), other=st.text(max_size=5), session=st.sampled_from(["s_1", "s_2"]))
def test_ids_follow_from_session_and_key(one: str, other: str, session: str) -> None:
    """The same session and key give the same id, everything else another one."""
    same = (one, session) == (other, ME)
    assert (frame_id(ME, one) == frame_id(SessionId(session), other)) == same
