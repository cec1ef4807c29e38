"""What the events of protocols do to a session's state; total, like all of `appliers`, which collects them."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs

from session_core import limits
from session_core.ids import MessageId
from session_core.session.executor_points import executor_saved, follow_executor
from session_core.session.new_messages import add_messages
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.messages import Message
from session_core.vocabulary.protocols import Frame
from session_core.vocabulary.snapshots import path_to

if TYPE_CHECKING:
    from session_core.session.state import SessionState


def configured(state: "SessionState", event: ev.ProtocolConfigured, _: SessionEvent) -> None:
    """Take the options; the protocol itself never changes."""
    if event.protocol.name == state.protocol.name:
        state.protocol = event.protocol


def frame_opened(state: "SessionState", event: ev.FrameOpened, envelope: SessionEvent) -> None:
    """Go on in a frame that is new; the oldest are forgotten when there are too many."""
    state.frames = (*_with(state.frames, event.left), event.frame)[-limits.MAX_FRAMES :]
    _enter(state, event.frame.frame_id, envelope)


def frame_entered(state: "SessionState", event: ev.FrameEntered, envelope: SessionEvent) -> None:
    """Go on in a frame that there has been before."""
    state.frames = _with(state.frames, event.left)
    _enter(state, event.frame_id, envelope)


def _enter(state: "SessionState", frame_id: str, envelope: SessionEvent) -> None:
    state.frame_id = frame_id
    state.executor, state.executor_points, state.executor_lost = None, (), False
    state.context_tokens = 0  # not known before the next answer
    add_messages(state, envelope)


def follow_head(state: "SessionState", left_at: MessageId | None) -> None:
    """Be in the frame that the head belongs to, as people go elsewhere in the tree; `left_at` is where the head was.

    A frame is all that comes below the message it begins with, but for other frames. Where that message has left the
    window, nobody can tell, and the frame stays.
    """
    way = path_to(state.messages, state.head)
    if state.frames:
        _follow_frame(state, way, left_at)
    follow_executor(state, way)


def _follow_frame(state: "SessionState", way: tuple[Message, ...], left_at: MessageId | None) -> None:
    begun = {frame.first_message_id: frame.frame_id for frame in state.frames}
    reaches_back = way[0].parent_id is None if way else state.head is None
    otherwise = begun.get(None) if reaches_back else state.frame_id
    found = next((begun[each.message_id] for each in reversed(way) if each.message_id in begun), otherwise)
    if found == state.frame_id:
        return
    state.frames = tuple(
        attrs.evolve(each, last_message_id=left_at) if each.frame_id == state.frame_id else each
        for each in state.frames
    )
    state.frame_id = found


def _with(frames: tuple[Frame, ...], left: Frame) -> tuple[Frame, ...]:
    """Note where a frame was left; the first one of a session is noted when it is left for the first time."""
    if any(each.frame_id == left.frame_id for each in frames):
        return tuple(left if each.frame_id == left.frame_id else each for each in frames)
    return (*frames, left)


PROTOCOL_APPLIERS: dict[type, Callable[..., Any]] = {
    ev.ProtocolConfigured: configured,
    ev.FrameOpened: frame_opened,
    ev.FrameEntered: frame_entered,
    ev.ExecutorStateSaved: lambda state, event, _: executor_saved(state, event),
}
