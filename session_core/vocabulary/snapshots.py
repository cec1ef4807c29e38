"""Snapshots: the whole state at a cursor. A snapshot never changes, and taking one affects no other reader."""

import attrs

from session_core.ids import Cursor, MessageId, SessionId
from session_core.vocabulary.extensions import ExtensionDisplay, ExtensionEntry, ExtensionInfo
from session_core.vocabulary.frozen import Vector
from session_core.vocabulary.messages import LiveTool, Message, PartialMessage, Usage
from session_core.vocabulary.protocols import ExecutorPoint, ExecutorState, Frame, ProtocolRecord
from session_core.vocabulary.sessions import (
    Activity,
    Approval,
    ClientPresence,
    Dialog,
    ForkOrigin,
    PlanItem,
    QueueItem,
    RunningTurn,
    Settings,
    StopRequest,
    TurnOutcome,
    UsageLine,
    Wakeup,
)


@attrs.frozen(kw_only=True)
class SessionSnapshot:
    """Everything a frontend needs to show one session, including the half-finished message.

    `messages` are the newest messages of the tree in order of creation (a parent always precedes its children);
    `load_messages` reads the `earlier` older ones. `head` is the leaf being shown, which may be an older message after
    a switch to an old branch; `transcript` follows it towards the root. `usage_by` splits `usage` by model and purpose;
    `context_tokens` is the size of the model's context at its newest answer. `displays` is what extensions display, one
    each; `entries` are the newest ones they store with the session. `frames` are those that the protocol has opened,
    and `frame_id` is the open one; None is the frame that every session begins with. `executor` is the state that code
    has left behind, `executor_points` its state at earlier points, as far as retained; `executor_lost` means that code
    has run here whose results are not retained.
    """

    session_id: SessionId
    cursor: Cursor
    sseq: int
    name: str
    created_at: int
    updated_at: int
    archived: bool
    deleted: bool
    parent_id: SessionId | None
    forked_from: ForkOrigin | None
    settings: Settings
    activity: Activity
    messages: Vector[Message]
    earlier: int = 0
    head: MessageId | None
    partial: PartialMessage | None
    tools: tuple[LiveTool, ...]
    turn: RunningTurn | None
    last_outcome: TurnOutcome | None
    stop: StopRequest | None
    queue: tuple[QueueItem, ...]
    approvals: tuple[Approval, ...]
    dialogs: tuple[Dialog, ...]
    grants: tuple[str, ...]
    wakeups: tuple[Wakeup, ...]
    usage: Usage
    usage_by: tuple[UsageLine, ...] = ()
    context_tokens: int = 0
    plan: tuple[PlanItem, ...] = ()
    displays: tuple[ExtensionDisplay, ...] = ()
    entries: tuple[ExtensionEntry, ...] = ()
    protocol: ProtocolRecord = ProtocolRecord()
    frames: tuple[Frame, ...] = ()
    frame_id: str | None = None
    executor: ExecutorState | None = None
    executor_points: tuple[ExecutorPoint, ...] = ()
    executor_lost: bool = False

    @property
    def transcript(self) -> tuple[Message, ...]:
        """The messages from the root to the head, oldest first, as far back as `messages` reaches.

        Use `load_messages` for earlier ones. Empty if the head itself is one of them.
        """
        return path_to(self.messages, self.head)


@attrs.frozen(kw_only=True)
class SessionSummary:
    """One line of the session list."""

    session_id: SessionId
    name: str
    created_at: int
    updated_at: int
    archived: bool
    parent_id: SessionId | None
    cwd: str
    model: str
    activity: Activity
    queued: int = 0
    open_requests: int = 0
    wakeups: int = 0


@attrs.frozen(kw_only=True)
class ServiceSnapshot:
    """All sessions with their activity, oldest first, the clients that are attached, and the extensions.

    `read_only` says why nothing can be changed any more, when the disk has failed. `earlier` counts sessions at rest
    that were omitted: the least recently used ones, if one line of the contract could not hold all. `ListSessions`
    includes them; their events are not folded.
    """

    cursor: Cursor
    sessions: tuple[SessionSummary, ...]
    clients: tuple[ClientPresence, ...] = ()
    read_only: str | None = None
    extensions: tuple[ExtensionInfo, ...] = ()
    earlier: int = 0


@attrs.frozen(kw_only=True)
class Bookmark:
    """Nothing happened for this reader, but the stream advanced: it may resume after this cursor."""

    cursor: Cursor


def path_to(messages: Vector[Message], head: MessageId | None) -> tuple[Message, ...]:
    """Return the messages on the path to `head`, from the root or from the first whose parent is not in `messages`.

    One backward pass finds them, because parents precede their children.
    """
    wanted, found = head, []
    for message in reversed(messages):
        if wanted is None:
            break
        if message.message_id == wanted:
            found.append(message)
            wanted = message.parent_id
    found.reverse()
    return tuple(found)
