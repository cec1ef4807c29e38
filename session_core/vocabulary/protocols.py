"""What a session knows about its protocol: which one it is, its frames, and the saved state of its executor."""

from typing import Final

import attrs

from session_core.ids import MessageId, TurnId
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import PostedRole

STANDARD: Final = "standard"
"""The default protocol: native tool calling."""
_NO_OPTIONS: Final = JsonObject()


@attrs.frozen(kw_only=True)
class NewMessage:
    """A message that is added to a conversation from outside."""

    role: PostedRole
    text: str


@attrs.frozen(kw_only=True)
class ProtocolRecord:
    """The protocol of a session, fixed when the session was created.

    Attributes:
        name: The protocol's name; it never changes.
        version: The format version of its options.
        options: All options, with defaults filled in.
    """

    name: str = STANDARD
    version: int = 1
    options: JsonObject = _NO_OPTIONS


@attrs.frozen(kw_only=True)
class Frame:
    """A part of a conversation that a model sees on its own; earlier messages are hidden from it but stay in the tree.

    Attributes:
        frame_id: Derived from the session and the key, so repeating a step leads to the same frame.
        key: The protocol's name for it.
        reason: Why it was opened, such as `initial` or `continue_as`.
        first_message_id: The message it begins with; None for the first frame of a session.
        last_message_id: Where it was left, while another frame is open.
        options: The options that the protocol has set for this frame alone.
    """

    frame_id: str
    key: str
    reason: str
    opened_at: int
    first_message_id: MessageId | None = None
    last_message_id: MessageId | None = None
    options: JsonObject = _NO_OPTIONS


@attrs.frozen(kw_only=True)
class StateLeaf:
    """One part of an executor's state, stored once by the SHA-256 of its content."""

    name: str
    digest: str
    size: int


@attrs.frozen(kw_only=True)
class ExecutorState:
    """The state of an executor when its turn was committed.

    Attributes:
        engine: The executor that owns the state.
        version: The format version of the state.
        root: The small parts.
        leaves: The large parts, each stored separately.
    """

    engine: str
    version: int
    root: JsonObject
    leaves: tuple[StateLeaf, ...] = ()


@attrs.frozen(kw_only=True)
class ExecutorPoint:
    """The state of an executor at a point of the conversation, to resume from when people go back there.

    Attributes:
        message_id: The head of the conversation when the state was saved.
        turn_id: The turn that saved it.
    """

    message_id: MessageId | None
    turn_id: TurnId | None
    state: ExecutorState
