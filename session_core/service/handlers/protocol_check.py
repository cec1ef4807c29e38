"""What code has left behind at a point of a conversation, on its way into a fork."""

from collections.abc import Mapping

import attrs

from session_core.service.core import Caller
from session_core.session.executor_points import state_there
from session_core.session.session import Session
from session_core.vocabulary import events as ev
from session_core.vocabulary.messages import Message
from session_core.vocabulary.protocols import ExecutorState


@attrs.frozen
class CodeThere:
    """A state with all of its leaves; `lost` says that code has done more until there, which is not kept."""

    state: ExecutorState
    leaves: Mapping[str, bytes]
    lost: bool

    def give(self, session: Session, caller: Caller) -> None:
        """Let a session have it whose conversation leads there."""
        session.keep_leaves(self.leaves)
        session.record(ev.ExecutorStateSaved(state=self.state, lost=self.lost), caller.client_id)


async def code_at(origin: Session, way: tuple[Message, ...]) -> CodeThere | None:
    """Return what code has at the end of this way through a conversation; None if nothing is kept of that.

    A part that is gone meanwhile, as the session goes on, is one that is not kept.
    """
    state = origin.state
    there = state_there(state, way, running=state.turn.turn_id if state.turn is not None else None, whole=True)
    if there.state is None:
        return None
    await origin.until_durable()
    wanted = {leaf.digest for leaf in there.state.leaves}
    found = await origin.load_leaves(wanted)
    return CodeThere(there.state, found, there.lost) if wanted <= found.keys() else None
