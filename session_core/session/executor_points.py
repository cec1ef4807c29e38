"""Executor states, and the points of the conversation they belong to.

A turn that changed the state saves it at its end. After going back in the conversation, or forking it, code resumes
from the state saved by the last turn before that point. Only the newest states are retained, as many as their sizes
allow. If the state needed is gone, code starts from scratch and the model is told.
"""

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import attrs

from session_core import limits
from session_core.ids import TurnId
from session_core.session.cells import is_cell_output
from session_core.vocabulary import events as ev
from session_core.vocabulary.messages import Message
from session_core.vocabulary.protocols import ExecutorPoint, ExecutorState
from session_core.wire.codec import encode

if TYPE_CHECKING:
    from session_core.session.state import SessionState


@attrs.frozen
class ExecutorStateAtPoint:
    """The executor state at a point; `lost` means that there was more, which is not retained."""

    state: ExecutorState | None
    lost: bool


def find_executor_state(
    state: "SessionState", path: Sequence[Message], *, running: TurnId | None = None, whole: bool = False
) -> ExecutorStateAtPoint:
    """Return the executor state at the end of a path through the conversation.

    Args:
        state: The state of the session.
        path: The messages of the path, the newest last.
        running: A turn that has not ended and whose state is not saved yet.
        whole: Whether the path begins at the start of the conversation, though the state does not reach back so far.
    """
    points = {point.message_id: point for point in state.executor_points}
    frame_starts = {frame.first_message_id for frame in state.frames}
    later: list[Message] = []
    for message in reversed(path):
        if (found := points.get(message.message_id)) is not None:
            # Later cells are lost only if their turn saved its own state, or still runs: other turns changed nothing.
            later_turns = {point.turn_id for point in state.executor_points if point is not found} | {running}
            is_lost = any(each.turn_id is not None and each.turn_id in later_turns for each in later)
            return ExecutorStateAtPoint(found.state, is_lost)
        if is_cell_output(message, state.protocol.name):
            later.append(message)
        if message.message_id in frame_starts:  # code started from scratch with the frame
            return ExecutorStateAtPoint(None, bool(later))
    reaches_back = whole or (path[0].parent_id is None if path else state.head is None)
    had_any = bool(later) or (not reaches_back and bool(state.executor_points))
    return ExecutorStateAtPoint(None, had_any)


def follow_executor(state: "SessionState", path: Sequence[Message]) -> None:
    """Switch to the executor state of the current head after people moved elsewhere in the tree."""
    at_head = find_executor_state(state, path)
    state.executor, state.executor_lost = at_head.state, at_head.lost


def apply_executor_state_saved(state: "SessionState", event: ev.ExecutorStateSaved) -> None:
    """Store the saved executor state next to the earlier states that are retained."""
    state.executor, state.executor_lost = event.state, event.lost
    if event.state is None:
        state.executor_points = ()
        return
    here = ExecutorPoint(
        message_id=state.head, turn_id=None if state.turn is None else state.turn.turn_id, state=event.state
    )
    stored = {leaf.digest for leaf in event.state.leaves} | set(event.earlier_leaves)
    earlier = [
        point
        for point in state.executor_points[-event.earlier :]
        if point.message_id != here.message_id and _is_complete(point, stored)
    ]
    room = limits.MAX_EXECUTOR_POINTS - 1
    state.executor_points = (*(earlier[-room:] if event.earlier > 0 else ()), here)


def _is_complete(point: ExecutorPoint, stored: Collection[str]) -> bool:
    return all(leaf.digest in stored for leaf in point.state.leaves)


def build_state_saved(state: "SessionState", new_state: ExecutorState) -> ev.ExecutorStateSaved:
    """Return the event that saves a state, with as many earlier states as there is room for."""
    named = {leaf.digest for leaf in new_state.leaves}
    extra_sizes: dict[str, int] = {}
    encoded_bytes, retained = 0, 0
    for point in reversed(state.executor_points):
        extra_sizes |= {leaf.digest: leaf.size for leaf in point.state.leaves if leaf.digest not in named}
        encoded_bytes += len(encode(point.state))
        too_much = (
            encoded_bytes > limits.MAX_EARLIER_STATES_BYTES or sum(extra_sizes.values()) > limits.MAX_CELL_STATE_BYTES
        )
        if too_much or retained + 1 >= limits.MAX_EXECUTOR_POINTS:
            break
        retained += 1
    retained_points = state.executor_points[-retained:] if retained else ()
    leaves = {
        leaf.digest for point in retained_points if point.message_id != state.head for leaf in point.state.leaves
    } - named
    return ev.ExecutorStateSaved(state=new_state, earlier=retained, earlier_leaves=tuple(sorted(leaves)))
