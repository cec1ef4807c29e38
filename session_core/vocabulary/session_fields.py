"""The fields of a session, written once: `SessionSnapshot` freezes them, the working `SessionState` updates them."""

from typing import Any, Final

import attrs

from session_core.ids import MessageId, SessionId
from session_core.vocabulary.extensions import ExtensionDisplay, ExtensionEntry
from session_core.vocabulary.frozen import JsonValue, Vector
from session_core.vocabulary.messages import LiveTool, Message, PartialMessage, Usage
from session_core.vocabulary.protocols import ExecutorPoint, ExecutorState, Frame, ProtocolRecord
from session_core.vocabulary.sessions import (
    IDLE,
    Activity,
    Approval,
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


@attrs.define(slots=True, eq=False, kw_only=True)
class SessionFields:
    """What a session's snapshot and its working state have in common; the values are those of a session without events.

    `SessionSnapshot` says what the fields mean. A new field also goes into `ADDED_LATER`.
    """

    session_id: SessionId
    sseq: int = 0
    name: str = ""
    created_at: int = 0
    updated_at: int = 0
    archived: bool = False
    deleted: bool = False
    parent_id: SessionId | None = None
    forked_from: ForkOrigin | None = None
    settings: Settings = Settings(model="", cwd="")
    activity: Activity = IDLE
    messages: Vector[Message] = attrs.field(factory=Vector[Message])
    earlier: int = 0
    head: MessageId | None = None
    partial: PartialMessage | None = None
    tools: tuple[LiveTool, ...] = ()
    turn: RunningTurn | None = None
    last_outcome: TurnOutcome | None = None
    stop: StopRequest | None = None
    queue: tuple[QueueItem, ...] = ()
    approvals: tuple[Approval, ...] = ()
    dialogs: tuple[Dialog, ...] = ()
    grants: tuple[str, ...] = ()
    wakeups: tuple[Wakeup, ...] = ()
    usage: Usage = Usage()
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
    driver_memory: JsonValue = None

    @property
    def transcript(self) -> tuple[Message, ...]:
        """The messages from the root to the head, oldest first, as far back as `messages` reaches.

        Use `load_messages` for earlier ones. Empty if the head itself is one of them.
        """
        return path_to(self.messages, self.head)


ADDED_LATER: Final = frozenset(
    {
        *("earlier", "usage_by", "context_tokens", "plan", "displays", "entries", "protocol", "frames", "frame_id"),
        *("executor", "executor_points", "executor_lost", "driver_memory"),
    }
)
"""Fields that the first snapshots did not have, and that a reader may therefore not find."""


def require_early_fields(_: type, fields: list["attrs.Attribute[Any]"]) -> list["attrs.Attribute[Any]"]:
    """Require a snapshot to have all fields but those added later; only a working state may begin with defaults.

    The fields become positional, in the order of the list, so that a snapshot can be made quickly.
    """
    fields = sorted(fields, key=lambda field: field.name != "cursor")
    early = [field.evolve(default=attrs.NOTHING) for field in fields if field.name not in ADDED_LATER]
    later = [field for field in fields if field.name in ADDED_LATER]
    return [field.evolve(kw_only=False) for field in (*early, *later)]


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
