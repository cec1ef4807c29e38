"""Events of protocols: options, frames, and what executors keep. `events` collects them all."""

import attrs

from session_core.ids import MessageId
from session_core.vocabulary.messages import Message
from session_core.vocabulary.protocols import ExecutorState, Frame, ProtocolRecord


@attrs.frozen(kw_only=True)
class ProtocolConfigured:
    """The protocol of a session goes on with other options: supplied anew at an opening, or in a newer form."""

    protocol: ProtocolRecord


@attrs.frozen(kw_only=True)
class FrameOpened:
    """The conversation begins anew for the model, with this message; what came before stays in the tree.

    `left` is the frame before, and where it was left. Whatever an executor had kept there is gone.
    """

    frame: Frame
    message: Message
    left: Frame


@attrs.frozen(kw_only=True)
class FrameEntered:
    """The conversation goes on in an earlier frame, with this message after where that was left; see `FrameOpened`."""

    frame_id: str
    message: Message
    left: Frame


@attrs.frozen(kw_only=True)
class ExecutorStateSaved:
    """What an executor has is kept, to go on from after a restart; None when there is nothing.

    Attributes:
        earlier: How many of the states that were kept before stay, the newest of them: people may go back there.
        earlier_leaves: The leaves that stay for those, and that this state does not name, by their digests.
        lost: The conversation has code in it whose work is not in this state.
    """

    state: ExecutorState | None
    earlier: int = 0
    earlier_leaves: tuple[str, ...] = ()
    lost: bool = False


@attrs.frozen(kw_only=True)
class ProtocolFailed:
    """Code of a protocol has failed outside of a turn; what it was told of stands, and it is restored before its next
    use."""

    protocol: str
    callback: str
    reason: str
    message_id: MessageId | None = None
