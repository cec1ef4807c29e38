"""Events of work and waiting: turns, activity, the queue, requests to people, wake-ups, clients.

`events` collects them all.
"""

from typing import Literal

import attrs

from session_core.ids import ClientId, QueueItemId, RequestId, TurnId, WakeupId
from session_core.vocabulary.extensions import UiKind
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import Message, Usage, UserPart
from session_core.vocabulary.sessions import (
    Activity,
    Approval,
    ClientKind,
    ClientRole,
    Decision,
    Dialog,
    DialogAnswer,
    PlanItem,
    QueueItem,
    ResolvedBecause,
    StopScope,
    TurnOutcome,
    TurnStatus,
    UsageSource,
    Wakeup,
)

# --- turns ------------------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class TurnStarted:
    """The agent began to work; with `output_schema` its answer must be JSON of that shape.

    `extension` is what came with the message for the protocol.
    """

    turn_id: TurnId
    output_schema: JsonObject | None = None
    extension: JsonObject | None = None


@attrs.frozen(kw_only=True)
class TurnEnded:
    """The agent is done, one way or another."""

    outcome: TurnOutcome


@attrs.frozen(kw_only=True)
class ModelCallFailed:
    """A model call failed; with `retry_at` it is tried again then."""

    kind: str
    message: str
    attempt: int
    retry_at: int | None


@attrs.frozen(kw_only=True)
class StopRequested:
    """Somebody asked for a stop; the turn is being cancelled."""

    scope: StopScope


@attrs.frozen(kw_only=True)
class ActivityChanged:
    """The session does something else now."""

    activity: Activity


@attrs.frozen(kw_only=True)
class OutcomeDismissed:
    """Somebody has seen that the last turn failed or was stopped; the session is simply idle again."""


@attrs.frozen(kw_only=True)
class CompactionStarted:
    """The conversation is being summarised."""


@attrs.frozen(kw_only=True)
class CompactionFinished:
    """The summary has taken the place of the conversation, or `status` and `error` say why not."""

    status: TurnStatus
    summary: Message | None = None
    error: str | None = None


@attrs.frozen(kw_only=True)
class UsageRecorded:
    """A model was used for something that leaves no answer in the conversation: a summary, or a child session."""

    model: str
    source: UsageSource
    usage: Usage


@attrs.frozen(kw_only=True)
class PlanChanged:
    """The agent means to do this."""

    plan: tuple[PlanItem, ...]


# --- queue, requests, wake-ups ----------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class MessageQueued:
    """A message waits for its moment."""

    item: QueueItem


@attrs.frozen(kw_only=True)
class QueueItemEdited:
    """A waiting message was rewritten."""

    item_id: QueueItemId
    parts: tuple[UserPart, ...]


@attrs.frozen(kw_only=True)
class QueueReordered:
    """Waiting messages stand in another order."""

    item_ids: tuple[QueueItemId, ...]


@attrs.frozen(kw_only=True)
class QueueItemRemoved:
    """A waiting message was thrown away, or taken back by its author."""

    item_id: QueueItemId
    because: Literal["removed", "taken", "returned"]


@attrs.frozen(kw_only=True)
class ApprovalRequested:
    """A tool call needs a person's yes."""

    approval: Approval


@attrs.frozen(kw_only=True)
class ApprovalResolved:
    """A tool call got its yes or no; `message` is what the person wants the model to know."""

    request_id: RequestId
    tool_name: str
    decision: Decision
    because: ResolvedBecause
    grant: str = ""
    message: str = ""


@attrs.frozen(kw_only=True)
class DialogOpened:
    """An extension asks a person something."""

    dialog: Dialog


@attrs.frozen(kw_only=True)
class DialogClosed:
    """The question was answered or withdrawn."""

    answer: DialogAnswer


@attrs.frozen(kw_only=True)
class WakeupScheduled:
    """A message will be delivered later by itself."""

    wakeup: Wakeup


@attrs.frozen(kw_only=True)
class WakeupCancelled:
    """A scheduled message will not be delivered."""

    wakeup_id: WakeupId


@attrs.frozen(kw_only=True)
class WakeupFired:
    """A scheduled message is due and was delivered."""

    wakeup_id: WakeupId


# --- the service as a whole (no session) ------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class ClientAttached:
    """A frontend came; see `ClientPresence`."""

    client_id: ClientId
    role: ClientRole
    ui: tuple[UiKind, ...] = ()
    name: str = ""
    kind: ClientKind = "other"


@attrs.frozen(kw_only=True)
class ClientDetached:
    """A frontend went."""

    client_id: ClientId


@attrs.frozen(kw_only=True)
class ConfigurationChanged:
    """Somebody changed the configuration.

    Attributes:
        changed: The settings that differ from before and are in force now, by their keys.
        needs_restart: Those of them that count only when the program starts again.
        problems: Why a changed file is not used, as sentences; then everything stays as it was.
        warnings: What is passed over in it, as sentences.
        folder: Whose sessions it is about; all of them if there is none.
    """

    changed: tuple[str, ...] = ()
    needs_restart: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    folder: str | None = None


# --- the store --------------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class StorageStopped:
    """Nothing is saved any more, for this reason: the service is read-only, and what runs is interrupted."""

    reason: str
