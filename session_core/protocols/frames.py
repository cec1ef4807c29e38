"""Frames: where a conversation starts fresh for the model, without rewriting anything.

A frame has a key. The same key in the same session is the same frame, so a step that is repeated after a crash finds
the frame that it had opened. Switching to the current key does nothing, an earlier key returns to where that frame was
left, and a new key opens a frame.
"""

import hashlib
from collections.abc import Sequence
from typing import Final

import attrs

from session_core import limits
from session_core.ids import SessionId
from session_core.vocabulary.protocols import Frame
from session_core.wire.strict_json import is_encodable

INITIAL: Final = "initial"
"""The key of the frame that every session begins with."""


@attrs.frozen(kw_only=True)
class StayInFrame:
    """The frame is open already; its executor keeps its state."""


@attrs.frozen(kw_only=True)
class ReturnToFrame:
    """An earlier frame is opened again, where it was left."""

    frame: Frame


@attrs.frozen(kw_only=True)
class OpenNewFrame:
    """A new frame is opened."""

    frame: Frame


FrameSwitch = StayInFrame | ReturnToFrame | OpenNewFrame


class FrameKeyInvalid(ValueError):
    """A key is blank, too long, or cannot be encoded."""


def frame_id(session_id: SessionId, key: str) -> str:
    """Return the id of a frame, derived from the session and the key."""
    return "frame_" + hashlib.sha256(f"{session_id}\n{key}".encode()).hexdigest()[:32]


def first_frame(session_id: SessionId, now: int) -> Frame:
    """Return the frame that a session begins with."""
    return Frame(frame_id=frame_id(session_id, INITIAL), key=INITIAL, reason=INITIAL, opened_at=now)


def is_label(given: object) -> bool:
    """Return whether this can be a key, or a reason: a short string that can be encoded."""
    return (
        isinstance(given, str) and 0 < len(given.strip()) <= len(given) <= limits.MAX_NAME_CHARS and is_encodable(given)
    )


def decide_switch(
    session_id: SessionId, frames: Sequence[Frame], current: str, key: str, *, reason: str, now: int
) -> FrameSwitch:
    """Decide what a switch to a key does; `current` is the id of the open frame.

    Raises:
        FrameKeyInvalid: The key is invalid.
    """
    if not is_label(key):
        raise FrameKeyInvalid(f"the key of a frame must have 1 to {limits.MAX_NAME_CHARS} characters")
    wanted = frame_id(session_id, key)
    if wanted == current:
        return StayInFrame()
    known = next((each for each in frames if each.frame_id == wanted), None)
    if known is not None:
        return ReturnToFrame(frame=known)
    return OpenNewFrame(frame=Frame(frame_id=wanted, key=key, reason=reason, opened_at=now))
