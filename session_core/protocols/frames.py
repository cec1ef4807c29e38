"""Frames: where a conversation begins anew for the model, without anything being rewritten.

A frame has a key. The same key in the same session is the same frame, so a step that is taken again after a crash finds
the frame that it had opened. Switching to the key of the present frame is nothing, to that of an earlier one goes back
to where it was left, and a new key opens one.
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
    """The frame is open already; whatever its executor has stays."""


@attrs.frozen(kw_only=True)
class ReturnToFrame:
    """An earlier frame is opened again, where it was left."""

    frame: Frame


@attrs.frozen(kw_only=True)
class OpenNewFrame:
    """A frame that there has not been yet."""

    frame: Frame


FrameSwitch = StayInFrame | ReturnToFrame | OpenNewFrame


class FrameKeyInvalid(ValueError):
    """A key is blank, too long, or cannot be written down."""


def frame_id(session_id: SessionId, key: str) -> str:
    """Return the id of a frame, which follows from the session and the key."""
    return "frame_" + hashlib.sha256(f"{session_id}\n{key}".encode()).hexdigest()[:32]


def derive_key(session_id: SessionId, *lineage: str) -> str:
    """Make a key of where a switch is asked for, such as the turn and the call: taken again, it is the same."""
    return hashlib.sha256("\n".join((session_id, *lineage)).encode()).hexdigest()[:32]


def first_frame(session_id: SessionId, now: int) -> Frame:
    """Return the frame that a session begins with."""
    return Frame(frame_id=frame_id(session_id, INITIAL), key=INITIAL, reason=INITIAL, opened_at=now)


def is_label(given: object) -> bool:
    """Tell whether this can be a key, or a reason: a short text that can be written down."""
    return (
        isinstance(given, str) and 0 < len(given.strip()) <= len(given) <= limits.MAX_NAME_CHARS and is_encodable(given)
    )


def decide_switch(
    session_id: SessionId, frames: Sequence[Frame], current: str, key: str, *, reason: str, now: int
) -> FrameSwitch:
    """Say what a switch to a key means; `current` is the id of the frame that is open.

    Raises:
        FrameKeyInvalid: This cannot be a key.
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
