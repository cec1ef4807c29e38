"""The parts of a session's state besides its messages: activity, settings, queue, requests, wake-ups, outcomes."""

from typing import Literal

import attrs

from session_core.ids import CallId, ClientId, MessageId, QueueItemId, RequestId, SessionId, TurnId, WakeupId
from session_core.vocabulary.extensions import UiKind
from session_core.vocabulary.frozen import JsonObject, JsonValue
from session_core.vocabulary.messages import PostedRole, Usage, UserPart

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
PermissionMode = Literal["read_only", "ask_all", "ask_writes", "auto_edit", "full"]
"""Which tool calls need approval, strictest first; `read_only` never asks and refuses everything but reading."""
DeliverAs = Literal["steer", "follow_up", "next_turn"]
StopScope = Literal["turn", "subtree", "session"]
QueueOnStop = Literal["keep", "return"]
TurnStatus = Literal["completed", "stopped", "failed", "interrupted", "limit_reached"]
Decision = Literal["allow_once", "allow_session", "allow_always", "deny"]
"""`allow_session` covers the approval's `grant`, `allow_always` exactly this call in every session."""
SandboxMode = Literal["read_only", "workspace_write", "full_access"]
"""Where tools may write, strictest first; `full_access` is no sandbox at all."""
ExtraRight = Literal["unconfined", "network", "protected", "sockets"]
"""What one call wants beyond its session's sandbox: no sandbox at all, the network, protected files, unix sockets."""
Thinking = Literal["off", "low", "medium", "high"]
"""How much a model reasons before it answers, if it supports that."""
UsageSource = str
"""The purpose of model calls: `turn`, `compaction`, `task`, or a protocol's name for its own calls."""
ResolvedBecause = Literal["answered", "stopped", "timed_out", "restarted", "turn_ended"]
DialogKind = Literal["confirm", "select", "input", "notify"]
ClientRole = Literal["controller", "observer"]
ClientKind = Literal["terminal", "web", "editor", "cli", "script", "other"]


@attrs.frozen(kw_only=True)
class Activity:
    """What a session is doing right now; a table in `session.activity` has the transitions."""

    name: ActivityName
    retry_at: int | None = None
    message: str | None = None

    @property
    def is_at_rest(self) -> bool:
        """Whether no turn is running and a new one may start."""
        return self.name in AT_REST


AT_REST: tuple[ActivityName, ...] = ("idle", "stopped", "errored", "interrupted")
IDLE = Activity(name="idle")


@attrs.frozen(kw_only=True)
class SandboxPolicy:
    """Where tools may write, and what commands can reach: the network, unix sockets, parts of the home directory."""

    mode: SandboxMode = "workspace_write"
    network: bool = False
    writable_roots: tuple[str, ...] = ()
    sockets: bool = False
    readable: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class TurnLimits:
    """What one turn may use before it is ended; without them only the service's own bounds apply."""

    steps: int | None = None
    tokens: int | None = None
    cost_micros: int | None = None
    time_ms: int | None = None


@attrs.frozen(kw_only=True)
class Settings:
    """The settings of a session that people can change at any time."""

    model: str
    cwd: str
    permission_mode: PermissionMode = "ask_writes"
    sandbox: SandboxPolicy = SandboxPolicy()
    thinking: Thinking = "off"
    limits: TurnLimits = TurnLimits()


PlanStatus = Literal["pending", "in_progress", "done"]


@attrs.frozen(kw_only=True)
class PlanItem:
    """One step of the agent's plan."""

    text: str
    status: PlanStatus = "pending"


@attrs.frozen(kw_only=True)
class ForkOrigin:
    """Where a forked session came from."""

    session_id: SessionId
    message_id: MessageId | None


@attrs.frozen(kw_only=True)
class QueueItem:
    """A queued message.

    Attributes:
        role: The role with which it joins the conversation.
        source: The extension that sent it, if any.
        quiet: It neither starts nor continues a turn; the model is not asked to respond to it.
    """

    item_id: QueueItemId
    parts: tuple[UserPart, ...]
    deliver_as: DeliverAs
    queued_at: int
    client_id: ClientId | None = None
    role: PostedRole = "user"
    source: str | None = None
    quiet: bool = False


@attrs.frozen(kw_only=True)
class Approval:
    """A tool call that waits for a person's approval.

    Attributes:
        summary: What it would do, in one line.
        shown: Exactly what would happen: the command and its folder, the change of a file.
        fingerprint: Binds an answer to everything shown here; an answer with another fingerprint is refused.
        reason: Why a person has to be asked.
        grant: What an approval for the whole session would cover.
        session_id: The child session that asks, if it is not the session whose state contains this.
        rights: What the call wants beyond the sandbox; `possible_decisions` says which answers that leaves.
    """

    request_id: RequestId
    call_id: CallId
    tool_name: str
    summary: str
    arguments: JsonObject
    requested_at: int
    expires_at: int
    shown: str = ""
    fingerprint: str = ""
    reason: str = ""
    grant: str = ""
    session_id: SessionId | None = None
    rights: tuple[ExtraRight, ...] = ()


@attrs.frozen(kw_only=True)
class Dialog:
    """A question that any capable frontend may answer, or only one of them (`to`).

    `extension` is the one that asks, `default` the initial value of an input. `turn_id` is the turn that waits for the
    answer; a question asked outside a turn has none. `rights` is what a yes would give beyond the session's sandbox.
    """

    request_id: RequestId
    kind: DialogKind
    title: str
    message: str = ""
    choices: tuple[str, ...] = ()
    opened_at: int
    expires_at: int
    default: str = ""
    extension: str | None = None
    to: ClientId | None = None
    turn_id: TurnId | None = None
    rights: tuple[ExtraRight, ...] = ()


@attrs.frozen(kw_only=True)
class DialogAnswer:
    """How a dialog ended; `value` is empty when it was dismissed."""

    request_id: RequestId
    because: ResolvedBecause
    value: JsonValue = None
    by: ClientId | None = None


@attrs.frozen(kw_only=True)
class Wakeup:
    """A message that is scheduled for later delivery."""

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
    output: JsonValue = None
    """The parsed answer, if the turn was asked for JSON of a given shape."""


@attrs.frozen(kw_only=True)
class RunningTurn:
    """The turn that is in progress."""

    turn_id: TurnId
    started_at: int
    steps: int = 0
    tool_calls: int = 0
    steered: bool = False
    usage: Usage = Usage()
    output_schema: JsonObject | None = None
    extension: JsonObject | None = None
    """The data for the protocol that came with the message."""


@attrs.frozen(kw_only=True)
class UsageLine:
    """What one model has used in a session for one purpose."""

    model: str
    source: UsageSource
    calls: int
    usage: Usage


@attrs.frozen(kw_only=True)
class StopRequest:
    """A requested stop that has not taken full effect yet."""

    scope: StopScope
    by: ClientId | None
    requested_at: int


@attrs.frozen(kw_only=True)
class ClientPresence:
    """A frontend that is attached right now.

    `name` is for people, `kind` is the kind of frontend, `ui` is what it can display and ask on behalf of extensions.
    """

    client_id: ClientId
    role: ClientRole
    ui: tuple[UiKind, ...] = ()
    name: str = ""
    kind: ClientKind = "other"


StoppedKind = Literal["turn", "tool_call", "approval", "dialog", "compaction", "restore", "job", "wakeup", "command"]


@attrs.frozen(kw_only=True)
class StoppedWork:
    """One thing that a stop ended or left alone."""

    kind: StoppedKind
    session_id: SessionId
    id: str
