"""What an import takes from the file, and what from the home that the session comes into.

The file records the conversation; the importing home decides what the session may do, and when, as for a new session:
whoever wrote the file would otherwise choose it. So the events of the file enter the journal, without their links to
other sessions and the names of clients, and after them the import records events of its own that bring the session to
rest and give it the settings of this home. All of them become durable together, so nothing in between can act. A
rebuild does the same for a session of which records are lost, because these events may be among them.

`FIELDS`, `SETTINGS` and `EVENTS` are the whole rule; tests compare them with the vocabulary, and imports with them.
"""

from collections.abc import Iterator, Mapping
from typing import Final, Literal

import attrs

from session_core import limits
from session_core.errors import ProtocolError
from session_core.ids import WakeupId, new_id, now_ms
from session_core.session.finish_work import next_closing_event
from session_core.session.session_list import SessionListState
from session_core.session.state import SessionState
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.sessions import SandboxPolicy, Settings
from session_core.vocabulary.snapshots import SessionSnapshot
from session_core.vocabulary.strictness import restrict_mode, restrict_sandbox
from session_core.wire.codec import decode, encode_event

FieldOrigin = Literal["file", "ended", "dropped", "home"]
"""Taken from the file; ended as after a crash; left out; or that of this home."""
SettingOrigin = Literal["home", "stricter"]
EventUse = Literal["taken", "detached", "refused"]
"""Journalled as it is, or without its links to other sessions; or a sign that this is no export."""

FIELDS: Final[Mapping[str, FieldOrigin]] = {
    "session_id": "file",  # or a new one, if that is asked for
    "sseq": "file",
    "name": "file",
    "created_at": "file",
    "updated_at": "file",
    "archived": "file",
    "deleted": "file",
    "parent_id": "dropped",  # a child reads what its parent kept, and its approvals and limits are its parent's
    "forked_from": "dropped",
    "settings": "home",
    "activity": "ended",
    "messages": "file",
    "earlier": "file",
    "head": "file",
    "partial": "ended",
    "tools": "ended",
    "turn": "ended",
    "last_outcome": "file",
    "stop": "ended",
    "queue": "dropped",
    "approvals": "dropped",
    "dialogs": "dropped",
    "grants": "dropped",
    "wakeups": "dropped",
    "usage": "file",  # figures for people: limits count each turn anew
    "usage_by": "file",
    "context_tokens": "file",
    "plan": "dropped",
    "displays": "dropped",  # they say that an extension of this home is at work
    "entries": "file",  # shown to people; no extension can read them back
    "protocol": "home",  # its name comes from the file, because the conversation has its form; its options do not
    "frames": "file",  # but not the options of one
    "frame_id": "file",
    "executor": "file",  # data; a process without a sandbox reads nothing of it that could run
    "executor_points": "file",
    "executor_lost": "file",
    "driver_memory": "dropped",  # the protocol of this home would act on it
}
"""Where each part of an imported session's state comes from."""

SETTINGS: Final[Mapping[str, SettingOrigin]] = {
    "model": "home",
    "cwd": "home",
    "permission_mode": "stricter",
    "sandbox": "stricter",
    "thinking": "home",
    "limits": "home",
}
"""The same for its settings: those of this home, or the stricter of both."""

EVENTS: Final[Mapping[type[ev.Event], EventUse]] = {
    ev.SessionCreated: "detached",
    ev.SessionRenamed: "taken",
    ev.SessionArchived: "taken",
    ev.SessionRestored: "taken",
    ev.SessionDeleted: "refused",
    ev.ModelSwitched: "taken",
    ev.PermissionModeChanged: "taken",  # overridden at the end, like all settings
    ev.SandboxPolicyChanged: "taken",
    ev.WorkingDirectoryChanged: "taken",
    ev.TurnLimitsChanged: "taken",
    ev.MessageAdded: "taken",
    ev.MessagesImported: "taken",
    ev.BranchSwitched: "taken",
    ev.ContextCleared: "taken",
    ev.FilesRestored: "taken",
    ev.MessageStarted: "taken",
    ev.PartStarted: "taken",
    ev.PartDelta: "taken",
    ev.MessageCompleted: "taken",
    ev.MessageDiscarded: "taken",
    ev.ToolCallStarted: "taken",
    ev.TaskStarted: "taken",
    ev.ToolOutputDelta: "refused",
    ev.ToolCallFinished: "taken",
    ev.ToolResultsCommitted: "taken",
    ev.TurnStarted: "taken",
    ev.TurnEnded: "taken",
    ev.ModelCallFailed: "taken",
    ev.StopRequested: "taken",
    ev.ActivityChanged: "taken",
    ev.OutcomeDismissed: "taken",
    ev.CompactionStarted: "taken",
    ev.CompactionFinished: "taken",
    ev.UsageRecorded: "taken",
    ev.PlanChanged: "taken",
    ev.MessageQueued: "taken",
    ev.QueueItemEdited: "taken",
    ev.QueueReordered: "taken",
    ev.QueueItemRemoved: "taken",
    ev.ApprovalRequested: "taken",
    ev.ApprovalResolved: "taken",
    ev.DialogOpened: "taken",
    ev.DialogClosed: "taken",
    ev.WakeupScheduled: "taken",  # cancelled at the end, like all that is open then
    ev.WakeupCancelled: "taken",
    ev.WakeupFired: "taken",
    ev.ExtensionDisplayed: "taken",
    ev.EntryAppended: "taken",
    ev.NoticeShown: "taken",
    ev.ToolProgressed: "refused",
    ev.ProtocolConfigured: "taken",  # its options are reset at the end
    ev.DriverRemembered: "taken",
    ev.FrameOpened: "taken",
    ev.FrameEntered: "taken",
    ev.ExecutorStateSaved: "taken",
    ev.ProtocolFailed: "taken",
    # Of a service, not of a session: in a journal they would change the list of all sessions.
    ev.ClientAttached: "refused",
    ev.ClientDetached: "refused",
    ev.ConfigurationChanged: "refused",
    ev.StorageStopped: "refused",
    ev.ExtensionChanged: "refused",
    ev.ExtensionRemoved: "refused",
}
"""What becomes of each event of a file."""

MAX_OPEN: Final = 1_000
"""How much of one kind may be open in a session. Services allow a few dozen, so a file with more was made by hand."""


class CannotSettle(Exception):
    """A session cannot be brought to rest, so it is not what a service recorded; the message says why."""


class WakeupIdRenamer:
    """Gives new ids to objects that a service knows by id alone, or a copy would take them from its original."""

    def __init__(self) -> None:
        self._wakeups: dict[WakeupId, WakeupId] = {}

    def rename_ids(self, event: ev.Event) -> ev.Event:
        """Return the event for the copy."""
        match event:
            case ev.WakeupScheduled(wakeup=wakeup):
                return attrs.evolve(event, wakeup=attrs.evolve(wakeup, wakeup_id=self._new(wakeup.wakeup_id)))
            case ev.WakeupCancelled(wakeup_id=wakeup_id) | ev.WakeupFired(wakeup_id=wakeup_id):
                return attrs.evolve(event, wakeup_id=self._new(wakeup_id))
            case _:
                return event

    def _new(self, wakeup_id: WakeupId) -> WakeupId:
        return self._wakeups.setdefault(wakeup_id, WakeupId(new_id("wake")))


# --- what an import records itself ------------------------------------------------------------------------------------


def remove_session_links(event: ev.Event) -> ev.Event:
    """Return an event of a file without its links to other sessions: those here with such ids are not meant."""
    return attrs.evolve(event, parent_id=None, forked_from=None) if isinstance(event, ev.SessionCreated) else event


def has_too_much_open(state: SessionState) -> bool:
    """Return whether more is open in a session than any service allows."""
    return any(
        len(each) > MAX_OPEN for each in (state.queue, state.approvals, state.dialogs, state.wakeups, state.tools)
    )


def restrict_settings(home: Settings, file: Settings) -> Settings:
    """Return the settings of this home, with the stricter permission mode and sandbox of both."""
    return attrs.evolve(
        home,
        permission_mode=restrict_mode(home.permission_mode, file.permission_mode),
        sandbox=restrict_sandbox(home.sandbox, file.sandbox),
    )


def settle_session(
    state: SessionState, session_list: SessionListState, own: Settings, *, seq: int
) -> Iterator[SessionEvent]:
    """Yield the records that bring a session to rest under the settings of this home, numbered after `seq`.

    Each has to be applied to the state and the list before the next one is asked for.

    Raises:
        CannotSettle: Something remains open, or a record could not be read again: a store drops what follows one.
    """
    for number, event in enumerate(_list_settling_events(state, session_list, own), seq + 1):
        record = SessionEvent(seq=number, sseq=state.sseq + 1, session_id=state.session_id, at=now_ms(), event=event)
        try:
            decode(encode_event(record), SessionEvent, max_bytes=limits.MAX_RECORD_BYTES)
        except ProtocolError as error:
            raise CannotSettle(f"its work cannot be brought to an end: {error.reason}") from error
        yield record


def _list_settling_events(state: SessionState, session_list: SessionListState, own: Settings) -> Iterator[ev.Event]:
    granted = bool(state.grants)
    settings = restrict_settings(own, state.settings)
    ended_at = state.updated_at
    for _ in range(10 * MAX_OPEN):
        event = next_closing_event(state, "interrupted", now=ended_at) or _next_dropping_event(state)
        if event is None:
            break
        yield event
    else:
        raise CannotSettle("its work cannot be brought to an end")
    if state.tools:
        raise CannotSettle("it has tool calls that no message asked for")
    yield from _change_settings(state.settings, settings, granted=granted)
    frames = tuple(attrs.evolve(frame, options=JsonObject()) for frame in state.frames if frame.options)
    if state.protocol.options or frames:
        yield ev.ProtocolConfigured(protocol=attrs.evolve(state.protocol, options=JsonObject()), frames=frames)
    if session_list.sessions[state.session_id].activity != state.activity:
        yield ev.ActivityChanged(activity=state.activity)


def _next_dropping_event(state: SessionState) -> ev.Event | None:
    if state.stop is not None or not state.activity.is_at_rest:
        return ev.CompactionFinished(status="interrupted")
    if state.queue:
        return ev.QueueItemRemoved(item_id=state.queue[0].item_id, because="removed")
    if state.wakeups:
        return ev.WakeupCancelled(wakeup_id=state.wakeups[0].wakeup_id)
    if state.displays:
        return ev.ExtensionDisplayed(extension=state.displays[0].extension)
    if state.driver_memory is not None:
        return ev.DriverRemembered()
    return ev.PlanChanged(plan=()) if state.plan else None


def _change_settings(before: Settings, after: Settings, *, granted: bool) -> Iterator[ev.Event]:
    if granted or after.permission_mode != before.permission_mode:
        yield ev.PermissionModeChanged(mode=after.permission_mode)  # this revokes all grants
    if after.sandbox != before.sandbox:
        yield ev.SandboxPolicyChanged(policy=after.sandbox)
    if after.cwd != before.cwd:
        yield ev.WorkingDirectoryChanged(cwd=after.cwd)
    if after.limits != before.limits:
        yield ev.TurnLimitsChanged(limits=after.limits)
    if (after.model, after.thinking) != (before.model, before.thinking):
        yield ev.ModelSwitched(model=after.model, thinking=after.thinking)


# --- what people are told ---------------------------------------------------------------------------------------------


def list_left_out(created: ev.SessionCreated, before: SessionSnapshot, after: SessionSnapshot) -> tuple[str, ...]:
    """Return one line for each thing of the file that does not hold here; they quote the file."""
    return (*_list_settings(before.settings, after.settings), *_list_dropped(created, before))


def _list_settings(file: Settings, here: Settings) -> Iterator[str]:
    if here.permission_mode != file.permission_mode:
        yield f"permission mode {file.permission_mode}: it is {here.permission_mode} here"
    if here.sandbox != file.sandbox:
        yield f"sandbox {_describe_sandbox(file.sandbox)}: it is {_describe_sandbox(here.sandbox)} here"
    if here.cwd != file.cwd:
        yield f"folder {file.cwd}: it works in {here.cwd} here"
    if here.model != file.model:
        yield f"model {file.model}: it is {here.model} here"
    if here.thinking != file.thinking:
        yield f"thinking {file.thinking}: it is {here.thinking} here"
    if here.limits != file.limits:
        yield "turn limits: those of this home hold"


def _describe_sandbox(policy: SandboxPolicy) -> str:
    rights = [
        *(["the network"] if policy.network else []),
        *(["unix sockets"] if policy.sockets else []),
        *policy.writable_roots,
        *(f"{path} to read" for path in policy.readable),
    ]
    return f"{policy.mode} with {', '.join(rights)}" if rights else policy.mode


def _list_dropped(created: ev.SessionCreated, before: SessionSnapshot) -> Iterator[str]:
    if before.protocol.options or any(frame.options for frame in before.frames):
        yield f"options of the protocol {before.protocol.name}: those of this home hold"
    if created.parent_id is not None:
        yield f"its place below the session {created.parent_id}"
    if created.forked_from is not None:
        yield f"its origin, the session {created.forked_from.session_id}"
    if before.turn is not None or not before.activity.is_at_rest:
        yield "running work: it is marked as interrupted"
    for items, one, many in (
        (before.wakeups, "wake-up", "wake-ups"),
        (before.queue, "queued message", "queued messages"),
        (before.approvals, "open approval", "open approvals"),
        (before.dialogs, "open question", "open questions"),
        (before.grants, "grant", "grants"),
        (before.displays, "display of an extension", "displays of extensions"),
    ):
        if items:
            yield f"{len(items):,} {one if len(items) == 1 else many}"
    if before.plan:
        yield "its plan"
