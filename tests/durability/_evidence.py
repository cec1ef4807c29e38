"""What a store must have kept for what was acknowledged: for each command, the events that are its effect."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from session_core.ids import SessionId
from session_core.vocabulary import commands as c
from session_core.vocabulary import events as ev
from session_core.vocabulary import replies as r
from session_core.vocabulary.commands import Command
from session_core.vocabulary.events import Event, SessionEvent
from session_core.vocabulary.messages import Part, TextPart
from tests.durability._clients import Promises, Sent
from tests.durability._kept import Kept, KeptSession

Fact = tuple[SessionId, str, str]
"""In the journal of this session stands an event of this kind, about this: an id, or a text nobody else used."""


def facts_of(events: Iterable[SessionEvent]) -> Iterator[Fact]:
    """Name every event that some command may have as its effect."""
    for envelope in events:
        assert envelope.session_id is not None
        for about in _abouts(envelope.event):
            yield envelope.session_id, type(envelope.event).__name__, about


def _abouts(event: Event) -> Iterator[str]:
    match event:
        case ev.SessionCreated(name=name) | ev.SessionRenamed(name=name):
            yield name
        case ev.ModelSwitched(model=about) | ev.PermissionModeChanged(mode=about):
            yield about
        case ev.WorkingDirectoryChanged(cwd=about) | ev.TurnStarted(turn_id=about):
            yield about
        case ev.SandboxPolicyChanged(policy=value) | ev.TurnLimitsChanged(limits=value):
            yield repr(value)
        case ev.MessageAdded(message=message, queue_item_id=item_id):
            yield message.message_id
            yield f"{text_of(message.parts)} from {item_id}"
        case ev.MessageQueued(item=item):
            yield f"{item.item_id}: {text_of(item.parts)}"
        case ev.QueueItemEdited(item_id=item_id, parts=parts):
            yield f"{item_id}: {text_of(parts)}"
        case ev.QueueReordered(item_ids=item_ids):
            yield " ".join(item_ids)
        case ev.QueueItemRemoved(item_id=about) | ev.WakeupCancelled(wakeup_id=about) | ev.WakeupFired(wakeup_id=about):
            yield about
        case ev.WakeupScheduled(wakeup=wakeup):
            yield f"{wakeup.text} at {wakeup.due_at}"
            yield wakeup.wakeup_id
        case ev.ApprovalResolved(request_id=request_id, decision=decision):
            yield f"{request_id}: {decision}"
        case ev.DialogClosed(answer=answer):
            yield f"{answer.request_id}: {answer.value} by {answer.by}"
        case ev.TurnEnded(outcome=outcome):
            yield f"{outcome.turn_id}: {outcome.status}"
        case ev.SessionArchived() | ev.SessionRestored() | ev.OutcomeDismissed() | ev.ContextCleared():
            yield ""
        case _:
            pass


def text_of(parts: Iterable[Part]) -> str:
    """Return the text of some parts."""
    return "".join(part.text for part in parts if isinstance(part, TextPart))


REPEATABLE = {
    ev.ModelSwitched.__name__,
    ev.PermissionModeChanged.__name__,
    ev.QueueReordered.__name__,
    ev.SessionArchived.__name__,
    ev.SessionRestored.__name__,
    ev.OutcomeDismissed.__name__,
    ev.ContextCleared.__name__,
}
"""Of these, each command leaves one that looks like all others; else two commands never mean the same effect."""


def promised(command: Command[Any], reply: Any) -> Iterator[Fact]:
    """Name the facts that this reply promises."""
    if isinstance(command, c.CreateSession | c.ForkSession):
        assert command.name is not None
        yield reply.session_id, ev.SessionCreated.__name__, command.name
        return
    session_id = command.session_id or SessionId("")
    for promise in (_of_sessions, _of_messages, _of_queues, _of_requests):
        for kind, about in promise(command, reply):
            yield session_id, kind.__name__, about
    if isinstance(reply, r.StopOutcome):
        yield from _stopped(reply)


def _of_sessions(command: Command[Any], reply: Any) -> Iterator[tuple[type, str]]:
    match command:
        case c.RenameSession(name=name):
            yield ev.SessionRenamed, name
        case c.ArchiveSession():
            yield ev.SessionArchived, ""
        case c.RestoreSession():
            yield ev.SessionRestored, ""
        case c.DismissOutcome():
            yield ev.OutcomeDismissed, ""
        case c.ClearContext():
            yield ev.ContextCleared, ""
        case c.SwitchModel(model=about):
            yield ev.ModelSwitched, about
        case c.ChangePermissionMode(mode=about):
            yield ev.PermissionModeChanged, about
        case c.ChangeSandboxPolicy(policy=policy):
            yield ev.SandboxPolicyChanged, repr(policy)
        case c.ChangeWorkingDirectory(cwd=about):
            yield ev.WorkingDirectoryChanged, about
        case c.ChangeTurnLimits(limits=limits):
            yield ev.TurnLimitsChanged, repr(limits)
        case _:
            pass


def _of_messages(command: Command[Any], reply: Any) -> Iterator[tuple[type, str]]:
    match command:
        case c.SendUserMessage(text=text) if reply.disposition == "queued":
            yield ev.MessageQueued, f"{reply.queue_item_id}: {text}"
        case c.SendUserMessage(text=text) | c.EditMessage(text=text) | c.StartTurnIfIdle(text=text) if reply.turn_id:
            yield ev.TurnStarted, reply.turn_id
            yield ev.MessageAdded, reply.message_id
            yield ev.MessageAdded, f"{text} from None"
        case c.ResumeSession() if reply.started:
            yield ev.TurnStarted, reply.turn_id
        case _:
            pass


def _of_queues(command: Command[Any], reply: Any) -> Iterator[tuple[type, str]]:
    match command:
        case c.EditQueueItem(item_id=item_id, text=text):
            yield ev.QueueItemEdited, f"{item_id}: {text}"
        case c.ReorderQueue(item_ids=item_ids):
            yield ev.QueueReordered, " ".join(item_ids)
        case c.RemoveQueueItem(item_id=about):
            yield ev.QueueItemRemoved, about
        case c.TakeQueue():
            yield from ((ev.QueueItemRemoved, item.item_id) for item in reply.items)
        case c.RequestStop():
            yield from ((ev.QueueItemRemoved, item.item_id) for item in reply.returned)
        case _:
            pass


def _of_requests(command: Command[Any], reply: Any) -> Iterator[tuple[type, str]]:
    match command:
        case c.OpenDialog() | c.AnswerDialog():
            yield ev.DialogClosed, f"{reply.request_id}: {reply.value} by {reply.by}"
        case c.AnswerApproval():
            yield ev.ApprovalResolved, f"{reply.request_id}: {reply.decision}"
        case c.ScheduleWakeup(text=text):
            yield ev.WakeupScheduled, f"{text} at {reply.due_at}"
            yield ev.WakeupScheduled, reply.wakeup_id
        case c.CancelWakeup(wakeup_id=about):
            yield ev.WakeupCancelled, about
        case _:
            pass


def _stopped(outcome: r.StopOutcome) -> Iterator[Fact]:
    for work in outcome.ended:
        if work.kind == "turn":
            yield work.session_id, ev.TurnEnded.__name__, f"{work.id}: stopped"
        elif work.kind == "wakeup":
            yield work.session_id, ev.WakeupCancelled.__name__, work.id


def effects(sent: Sent, kept: Kept) -> int:
    """Count how often a command with a key has taken effect, acknowledged or not."""
    command = sent.command
    count = 0
    for session in kept.values():
        for envelope in session.events:
            match command, envelope.event:
                case (
                    (c.CreateSession(name=about) | c.ForkSession(name=about), ev.SessionCreated(name=found))
                    | (c.RenameSession(name=about), ev.SessionRenamed(name=found))
                    | (c.ChangeWorkingDirectory(cwd=about), ev.WorkingDirectoryChanged(cwd=found))
                ):
                    count += about == found
                case c.SendUserMessage(text=text), ev.MessageAdded(message=message, queue_item_id=None):
                    count += text == message.text
                case c.SendUserMessage(text=text), ev.MessageQueued(item=item):
                    count += text == text_of(item.parts)
                case c.EditQueueItem(text=text), ev.QueueItemEdited(parts=parts):
                    count += text == text_of(parts)
                case c.ScheduleWakeup(text=text), ev.WakeupScheduled(wakeup=wakeup):
                    count += text == wakeup.text
                case _:
                    pass
    return count


def check_kept(promises: Promises, kept: Kept) -> None:
    """Prove that everything acknowledged is there, once, and that nothing else has undone it."""
    asked_to_go = {
        sent.command.session_id for sent in promises.asked.values() if isinstance(sent.command, c.DeleteSession)
    }
    gone = {sent.command.session_id for sent, _ in promises.kept if isinstance(sent.command, c.DeleteSession)}
    assert not gone & set(kept), "a deleted session is gone"
    counts = Counter(fact for session in kept.values() for fact in facts_of(session.events))
    wanted = Counter(fact for sent, reply in promises.kept for fact in promised(sent.command, reply))
    for fact, times in wanted.items():
        session_id, kind, _ = fact
        if session_id in kept or session_id not in asked_to_go:
            found = counts[fact]
            assert found >= times if kind in REPEATABLE else found == 1, f"{fact} is there {found} times"
    for session in kept.values():
        _check_settings(promises, session)
        _check_waiting(promises, session, counts)


def _check_settings(promises: Promises, session: KeptSession) -> None:
    """Names and settings are those of the last acknowledged change, or of one after it that nobody was told of."""
    state = session.replayed
    _check_newest(promises, state.session_id, c.RenameSession, "name", state.name)
    _check_newest(promises, state.session_id, c.SwitchModel, "model", state.settings.model)
    _check_newest(promises, state.session_id, c.ChangePermissionMode, "mode", state.settings.permission_mode)
    _check_newest(promises, state.session_id, c.ChangeWorkingDirectory, "cwd", state.settings.cwd)


def _check_newest(promises: Promises, session_id: SessionId, kind: type[Command[Any]], field: str, found: str) -> None:
    runs = list(dict.fromkeys(reply.cursor.epoch for _, reply in promises.kept))
    changes = [
        (runs.index(reply.cursor.epoch), reply.cursor.seq, getattr(sent.command, field))
        for sent, reply in promises.kept
        if isinstance(sent.command, kind) and sent.command.session_id == session_id
    ]
    if changes:
        untold = {
            getattr(sent.command, field)
            for sent in promises.in_flight
            if isinstance(sent.command, kind) and sent.command.session_id == session_id
        }
        assert found in {max(changes)[-1], *untold}, f"{field} of {session_id}"


def _check_waiting(promises: Promises, session: KeptSession, counts: Counter[Fact]) -> None:
    """A message that was queued waits, or was delivered, or was taken back; so with wake-ups."""
    session_id, state = session.summary.session_id, session.replayed
    delivered = [e.event.queue_item_id for e in session.events if isinstance(e.event, ev.MessageAdded)]
    for sent, reply in promises.kept:
        if sent.command.session_id != session_id:
            continue
        if isinstance(reply, r.SendUserMessageReply) and reply.queue_item_id is not None:
            waits = [item.item_id for item in state.queue].count(reply.queue_item_id)
            removed = counts[session_id, ev.QueueItemRemoved.__name__, reply.queue_item_id]
            assert waits + removed + delivered.count(reply.queue_item_id) == 1, f"{sent} waits, or was delivered once"
        if isinstance(reply, r.ScheduleWakeupReply):
            waits = [each.wakeup_id for each in state.wakeups].count(reply.wakeup_id)
            ended = sum(
                counts[session_id, kind.__name__, reply.wakeup_id] for kind in (ev.WakeupCancelled, ev.WakeupFired)
            )
            assert waits + ended == 1, f"{sent} waits, was cancelled or fired once"
