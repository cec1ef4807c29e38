"""What code has left behind, and the points of the conversation that it belongs to.

A turn that has changed it keeps it at its end. Who goes back in the conversation, or forks it, goes on from what the
last turn before that point has kept. Only the newest states stay, so far back as their sizes allow; where the one that
is wanted is gone, code begins anew, and the model is told.
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

_NAMING_BYTES = 128
"""About what naming a leaf takes."""


@attrs.frozen
class ExecutorStateAtPoint:
    """What code has at a point; `lost` says that there was more, which is not kept."""

    state: ExecutorState | None
    lost: bool


def find_executor_state(
    state: "SessionState", way: Sequence[Message], *, running: TurnId | None = None, whole: bool = False
) -> ExecutorStateAtPoint:
    """Say what code has at the end of a way through the conversation.

    Args:
        way: The messages that lead there, the newest last.
        running: A turn that has not ended, and whose work is not kept yet.
        whole: Whether the way begins where the conversation does, though the state does not reach back so far.
    """
    points = {point.message_id: point for point in state.executor_points}
    begins = {frame.first_message_id for frame in state.frames}
    later: list[Message] = []
    for message in reversed(way):
        if (found := points.get(message.message_id)) is not None:
            elsewhere = {point.turn_id for point in state.executor_points if point is not found} | {running}
            cut = any(each.turn_id is not None and each.turn_id in elsewhere for each in later)
            return ExecutorStateAtPoint(found.state, cut)
        if is_cell_output(message, state.protocol.name):
            later.append(message)
        if message.message_id in begins:  # code began anew with the frame
            return ExecutorStateAtPoint(None, bool(later))
    reaches_back = whole or (way[0].parent_id is None if way else state.head is None)
    had_any = bool(later) or (not reaches_back and bool(state.executor_points))
    return ExecutorStateAtPoint(None, had_any)


def follow_executor(state: "SessionState", way: Sequence[Message]) -> None:
    """Have what belongs to where the head is now, as people went elsewhere in the tree."""
    there = find_executor_state(state, way)
    state.executor, state.executor_lost = there.state, there.lost


def apply_executor_state_saved(state: "SessionState", event: ev.ExecutorStateSaved) -> None:
    """Take what the executor has kept, beside the earlier states that stay."""
    state.executor, state.executor_lost = event.state, event.lost
    if event.state is None:
        state.executor_points = ()
        return
    here = ExecutorPoint(
        message_id=state.head, turn_id=None if state.turn is None else state.turn.turn_id, state=event.state
    )
    there = {leaf.digest for leaf in event.state.leaves} | set(event.earlier_leaves)
    earlier = [
        point
        for point in state.executor_points[-event.earlier :]
        if point.message_id != here.message_id and _is_whole(point, there)
    ]
    room = limits.MAX_EXECUTOR_POINTS - 1
    state.executor_points = (*(earlier[-room:] if event.earlier > 0 else ()), here)


def _is_whole(point: ExecutorPoint, there: Collection[str]) -> bool:
    return all(leaf.digest in there for leaf in point.state.leaves)


def build_state_saved(state: "SessionState", new_state: ExecutorState) -> ev.ExecutorStateSaved:
    """Return the event that keeps a state, with as many of the earlier ones as there is room for."""
    named = {leaf.digest for leaf in new_state.leaves}
    beside: dict[str, int] = {}
    encoded_bytes, stay = 0, 0
    for point in reversed(state.executor_points):
        beside |= {leaf.digest: leaf.size for leaf in point.state.leaves if leaf.digest not in named}
        encoded_bytes += len(encode(point.state.root)) + _NAMING_BYTES * len(point.state.leaves)
        too_much = encoded_bytes > limits.MAX_EARLIER_STATES_BYTES or sum(beside.values()) > limits.MAX_CELL_STATE_BYTES
        if too_much or stay + 1 >= limits.MAX_EXECUTOR_POINTS:
            break
        stay += 1
    staying = state.executor_points[-stay:] if stay else ()
    leaves = {leaf.digest for point in staying if point.message_id != state.head for leaf in point.state.leaves} - named
    return ev.ExecutorStateSaved(state=new_state, earlier=stay, earlier_leaves=tuple(sorted(leaves)))
