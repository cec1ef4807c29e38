"""What a session knows of its protocol: which one it is, its frames, and what its executor has kept."""

from typing import Final

import attrs

from session_core.ids import MessageId, TurnId
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import PostedRole

STANDARD: Final = "standard"
"""The protocol of sessions that name none: native tool calling."""
_NO_OPTIONS: Final = JsonObject()


@attrs.frozen(kw_only=True)
class NewMessage:
    """A message that is put into a conversation from outside."""

    role: PostedRole
    text: str


@attrs.frozen(kw_only=True)
class ProtocolRecord:
    """The protocol of a session, as it was decided when the session came into being.

    Attributes:
        name: Which one; it never changes.
        version: In which form its options are written.
        options: All of them, decided.
    """

    name: str = STANDARD
    version: int = 1
    options: JsonObject = _NO_OPTIONS


@attrs.frozen(kw_only=True)
class Frame:
    """A part of a conversation that a model sees by itself: what came before it is out of sight, and stays in the tree.

    Attributes:
        frame_id: Made of the session and the key, so that the same step leads to the same frame again.
        key: What the protocol calls it.
        reason: Why it was opened, such as `initial` or `continue_as`.
        first_message_id: The message it begins with; None for the first frame of a session.
        last_message_id: Where it was left, while another one is open.
    """

    frame_id: str
    key: str
    reason: str
    opened_at: int
    first_message_id: MessageId | None = None
    last_message_id: MessageId | None = None


@attrs.frozen(kw_only=True)
class StateLeaf:
    """One part of an executor's state, kept once by what it holds (its SHA-256)."""

    name: str
    digest: str
    size: int


@attrs.frozen(kw_only=True)
class ExecutorState:
    """What an executor had when its turn was committed.

    Attributes:
        engine: Whose state it is.
        version: In which form it is written.
        root: The small parts of it.
        leaves: The large ones, each kept by itself.
    """

    engine: str
    version: int
    root: JsonObject
    leaves: tuple[StateLeaf, ...] = ()


@attrs.frozen(kw_only=True)
class ExecutorPoint:
    """What an executor had at a point of the conversation, to go on from when people go back there.

    Attributes:
        message_id: The end of the conversation when it was kept.
        turn_id: The turn that it was kept by.
    """

    message_id: MessageId | None
    turn_id: TurnId | None
    state: ExecutorState
