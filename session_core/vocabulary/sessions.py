"""The parts of a session's state besides its messages: activity, settings, queue, requests, wake-ups, outcomes."""

from typing import Literal

import attrs

from session_core.ids import CallId, ClientId, MessageId, QueueItemId, RequestId, SessionId, TurnId, WakeupId
from session_core.vocabulary.frozen import JsonObject, JsonValue
from session_core.vocabulary.messages import Usage, UserPart

ActivityName = Literal[
    "idle",
    "starting",
    "waiting_for_model",
    "streaming",
    "running_tools",
    "awaiting_permission",
    "rate_limited",
    "compacting",
    "stopping",
    "stopped",
    "errored",
    "interrupted",
]
PermissionTier = Literal["ask_all", "ask_writes", "ask_outward", "bypass"]
DeliverAs = Literal["steer", "follow_up", "next_turn"]
StopScope = Literal["turn", "subtree", "session"]
QueueOnStop = Literal["keep", "return"]
TurnStatus = Literal["completed", "stopped", "failed", "interrupted", "limit_reached"]
Decision = Literal["allow_once", "allow_session", "deny"]
ResolvedBecause = Literal["answered", "stopped", "timed_out", "restarted", "turn_ended"]
DialogKind = Literal["confirm", "select", "input", "notify"]
ClientRole = Literal["participant", "observer"]


@attrs.frozen(kw_only=True)
class Activity:
    """What a session is doing right now; the rules of change are a table in `session.activity`."""

    name: ActivityName
    retry_at: int | None = None
    message: str | None = None

    @property
    def at_rest(self) -> bool:
        """Whether no turn is running, so that a new one may start."""
        return self.name in AT_REST


AT_REST: tuple[ActivityName, ...] = ("idle", "stopped", "errored", "interrupted")
IDLE = Activity(name="idle")


@attrs.frozen(kw_only=True)
class SandboxPolicy:
    """Where tools may write and whether they may use the network."""

    mode: Literal["read_only", "workspace_write", "full_access"] = "workspace_write"
    network: bool = False
    writable_roots: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class Settings:
    """What people can change about a session while it lives."""

    model: str
    cwd: str
    permission_tier: PermissionTier = "ask_writes"
    sandbox: SandboxPolicy = SandboxPolicy()


@attrs.frozen(kw_only=True)
class ForkOrigin:
    """Where a forked session came from."""

    session_id: SessionId
    message_id: MessageId | None


@attrs.frozen(kw_only=True)
class QueueItem:
    """A message that waits for its moment."""

    item_id: QueueItemId
    parts: tuple[UserPart, ...]
    deliver_as: DeliverAs
    queued_at: int
    client_id: ClientId | None = None


@attrs.frozen(kw_only=True)
class Approval:
    """A tool call that waits for a person's yes."""

    request_id: RequestId
    call_id: CallId
    tool_name: str
    summary: str
    arguments: JsonObject
    requested_at: int
    expires_at: int


@attrs.frozen(kw_only=True)
class Dialog:
    """A question from an extension that any capable frontend may answer."""

    request_id: RequestId
    kind: DialogKind
    title: str
    message: str = ""
    choices: tuple[str, ...] = ()
    opened_at: int
    expires_at: int


@attrs.frozen(kw_only=True)
class DialogAnswer:
    """How a dialog ended; `value` is empty when it was dismissed."""

    request_id: RequestId
    because: ResolvedBecause
    value: JsonValue = None
    by: ClientId | None = None


@attrs.frozen(kw_only=True)
class Wakeup:
    """A message that will be delivered by itself later."""

    wakeup_id: WakeupId
    text: str
    due_at: int


@attrs.frozen(kw_only=True)
class TurnOutcome:
    """How a turn ended, exactly once per turn."""

    turn_id: TurnId
    status: TurnStatus
    error: str | None = None
    final_message_id: MessageId | None = None
    final_text: str = ""
    steps: int = 0
    tool_calls: int = 0
    steered: bool = False
    usage: Usage = Usage()
    duration_ms: int = 0


@attrs.frozen(kw_only=True)
class RunningTurn:
    """The turn that is in progress."""

    turn_id: TurnId
    started_at: int
    steps: int = 0
    tool_calls: int = 0
    steered: bool = False
    usage: Usage = Usage()


@attrs.frozen(kw_only=True)
class StopRequest:
    """A stop that was asked for and has not taken full effect yet."""

    scope: StopScope
    by: ClientId | None
    requested_at: int


@attrs.frozen(kw_only=True)
class ClientPresence:
    """A frontend that is attached right now."""

    client_id: ClientId
    role: ClientRole


StoppedKind = Literal["turn", "tool_call", "approval", "dialog", "compaction", "wakeup"]


@attrs.frozen(kw_only=True)
class StoppedWork:
    """One thing that a stop ended or left alone."""

    kind: StoppedKind
    session_id: SessionId
    id: str
