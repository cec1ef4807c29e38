"""Clients that do random things and write down what they asked for and what they were promised.

Every command that changes something is noted when it is sent and again when its reply has come, before its client goes
on. Texts and names are never used twice, so that the effect of a command can be told from all others.
"""

import zlib
from collections.abc import Iterator, Sequence
from random import Random
from typing import Any, Protocol

import attrs

from session_core.errors import (
    Conflict,
    Forbidden,
    InvalidInput,
    NotFound,
    Overloaded,
    ReadOnly,
    ServiceClosed,
    SessionCoreError,
    StorageFailed,
)
from session_core.ids import ClientId, SessionId
from session_core.service.service import SessionService
from session_core.vocabulary import commands as c
from session_core.vocabulary.commands import Command
from session_core.vocabulary.sessions import Decision, DeliverAs, PermissionMode, SandboxPolicy, TurnLimits
from session_core.vocabulary.snapshots import SessionSnapshot

REFUSALS = (Conflict, Forbidden, InvalidInput, NotFound, Overloaded)
"""A command that is answered so has done nothing."""
NOT_KEPT = (StorageFailed, ReadOnly, ServiceClosed)
"""A command that is answered so may or may not have taken effect."""

LATER_MS = 3_600_000
"""A wake-up that does not come within a test."""


@attrs.frozen(kw_only=True)
class Sent:
    """A command on its way."""

    number: int
    client_id: ClientId
    key: str | None
    command: Command[Any]


class Notebook(Protocol):
    """Where clients write."""

    def sent(self, sent: Sent) -> None: ...
    def replied(self, sent: Sent, reply: object) -> None: ...
    def refused(self, sent: Sent) -> None: ...


@attrs.define
class Promises:
    """A notebook in memory: what was sent, and what came of it."""

    asked: dict[int, Sent] = attrs.field(factory=dict)
    replies: dict[int, object] = attrs.field(factory=dict)
    refusals: set[int] = attrs.field(factory=set)

    def sent(self, sent: Sent) -> None:
        self.asked[sent.number] = sent

    def replied(self, sent: Sent, reply: object) -> None:
        self.replies[sent.number] = reply

    def refused(self, sent: Sent) -> None:
        self.refusals.add(sent.number)

    @property
    def kept(self) -> Iterator[tuple[Sent, Any]]:
        """What was acknowledged, with its replies."""
        return ((self.asked[number], reply) for number, reply in self.replies.items())

    @property
    def in_flight(self) -> Iterator[Sent]:
        """What may have been done, and nobody was told."""
        return (sent for number, sent in self.asked.items() if number not in {*self.replies, *self.refusals})


class Shared:
    """What all clients of a run share: the sessions they know of, and names never used before."""

    def __init__(self, prefix: str = "") -> None:
        self.sessions: list[SessionId] = []
        self._prefix = prefix
        self._count = 0

    def number(self) -> int:
        self._count += 1
        return self._count

    def new(self, kind: str) -> str:
        return f"{kind} {self._prefix}{self.number()}"

    def large_number(self) -> int:
        """Return a number that nobody else gets, of this run or of another one on the same sessions."""
        return 10**9 + zlib.crc32(self.new("number").encode())


class RandomClient:
    """Sends one random command at a time; choices are drawn from what the sessions show just then."""

    def __init__(self, service: SessionService, name: str, shared: Shared, notebook: Notebook) -> None:
        self.client_id = ClientId(name)
        self._service = service
        self._shared = shared
        self._notebook = notebook

    async def perform(self, action: str, random: Random) -> bool:
        """Do one thing; returns whether a reply came."""
        command = await self._command(action, random)
        if command is None:
            return True
        keyed = isinstance(command, KEYED) and random.random() < 0.5
        return await self.send(command, key=self._shared.new("key") if keyed else None)

    async def send(self, command: Command[Any], *, key: str | None = None) -> bool:
        """Send a command and note it and its reply; returns whether one came."""
        sent = Sent(number=self._shared.number(), client_id=self.client_id, key=key, command=command)
        self._notebook.sent(sent)
        try:
            reply = await self._service.execute(command, idempotency_key=key, client_id=self.client_id)
        except REFUSALS:
            self._notebook.refused(sent)
            return True
        except NOT_KEPT:
            return False
        self._notebook.replied(sent, reply)
        match command:
            case c.CreateSession() | c.ForkSession():
                self._shared.sessions.append(reply.session_id)
            case c.DeleteSession(session_id=session_id) if session_id in self._shared.sessions:
                self._shared.sessions.remove(session_id)
            case _:
                pass
        return True

    async def _command(self, action: str, random: Random) -> Command[Any] | None:
        new = self._shared.new
        if action == "create" or not self._shared.sessions:
            mode = random.choice(MODES)
            return c.CreateSession(name=new("session"), permission_mode=mode)
        session_id = random.choice(self._shared.sessions)
        match action:
            case "rename":
                return c.RenameSession(session_id=session_id, name=new("name"))
            case "send":
                return c.SendUserMessage(session_id=session_id, text=new("text"), deliver_as=random.choice(DELIVERIES))
            case "start":
                return c.StartTurnIfIdle(session_id=session_id, text=new("text"))
            case "fork":
                return c.ForkSession(session_id=session_id, name=new("fork"))
            case "delete":
                return c.DeleteSession(session_id=session_id)
            case "settings":
                return self._setting(session_id, random)
            case "wake":
                return c.ScheduleWakeup(
                    session_id=session_id, delay_ms=random.choice((1, 30, LATER_MS, LATER_MS)), text=new("wake")
                )
            case "ask":
                return c.OpenDialog(
                    session_id=session_id, kind="input", title=new("title"), timeout_ms=random.choice((20, LATER_MS))
                )
            case "stop":
                return c.RequestStop(
                    session_id=session_id,
                    scope=random.choice(("turn", "turn", "subtree", "session")),
                    queue=random.choice(("keep", "keep", "return")),
                )
            case "archive":
                archive: type[c.ArchiveSession | c.RestoreSession] = random.choice((c.ArchiveSession, c.RestoreSession))
                return archive(session_id=session_id)
            case "rest":
                return random.choice((c.ResumeSession, c.DismissOutcome, c.ClearContext))(session_id=session_id)
            case _:
                return await self._looking(action, session_id, random)

    def _setting(self, session_id: SessionId, random: Random) -> Command[Any]:
        settings: tuple[Command[Any], ...] = (
            c.SwitchModel(session_id=session_id, model=random.choice(("quick", "other"))),
            c.ChangePermissionMode(session_id=session_id, mode=random.choice(MODES)),
            c.ChangeWorkingDirectory(session_id=session_id, cwd=f"/{self._shared.new('place')}"),
            c.ChangeSandboxPolicy(
                session_id=session_id, policy=SandboxPolicy(writable_roots=(f"/{self._shared.new('root')}",))
            ),
            c.ChangeTurnLimits(session_id=session_id, limits=TurnLimits(tokens=self._shared.large_number())),
        )
        return random.choice(settings)

    async def _looking(self, action: str, session_id: SessionId, random: Random) -> Command[Any] | None:
        """What concerns something in a session, which may turn out to have none."""
        try:
            shown = await self._service.load_session(session_id)
        except SessionCoreError:
            return None
        match action:
            case "queue" if shown.queue:
                return self._queue(shown, random)
            case "answer" if shown.approvals:
                decision: Decision = random.choice(("allow_once", "allow_once", "allow_session", "deny"))
                request_id = shown.approvals[0].request_id
                return c.AnswerApproval(session_id=session_id, request_id=request_id, decision=decision)
            case "answer" if shown.dialogs:
                request_id = random.choice(shown.dialogs).request_id
                return c.AnswerDialog(session_id=session_id, request_id=request_id, value=self._shared.new("value"))
            case "edit" if asked := [message for message in shown.messages if message.role == "user"]:
                message_id = random.choice(asked).message_id
                return c.EditMessage(session_id=session_id, message_id=message_id, text=self._shared.new("text"))
            case "branch" if shown.messages:
                message_id = random.choice(tuple(shown.messages)).message_id
                return c.SwitchBranch(session_id=session_id, message_id=message_id)
            case "unwake" if shown.wakeups:
                return c.CancelWakeup(session_id=session_id, wakeup_id=random.choice(shown.wakeups).wakeup_id)
            case _:
                return None

    def _queue(self, shown: SessionSnapshot, random: Random) -> Command[Any]:
        session_id, item_ids = shown.session_id, [item.item_id for item in shown.queue]
        item_id = random.choice(item_ids)
        commands: tuple[Command[Any], ...] = (
            c.EditQueueItem(session_id=session_id, item_id=item_id, text=self._shared.new("text")),
            c.ReorderQueue(session_id=session_id, item_ids=tuple(random.sample(item_ids, len(item_ids)))),
            c.RemoveQueueItem(session_id=session_id, item_id=item_id),
            c.TakeQueue(session_id=session_id, item_id=random.choice((None, item_id))),
        )
        return random.choice(commands)


MODES: Sequence[PermissionMode] = ("full", "full", "ask_writes", "ask_all")
DELIVERIES: Sequence[DeliverAs] = ("follow_up", "follow_up", "steer", "next_turn")
KEYED = (
    c.CreateSession,
    c.RenameSession,
    c.SendUserMessage,
    c.ForkSession,
    c.DeleteSession,
    c.ScheduleWakeup,
    c.EditQueueItem,
    c.ChangeWorkingDirectory,
)
"""Commands whose effect can be told from that of a second one like it."""

ACTIONS = (
    *("send",) * 6,
    *("answer",) * 4,
    *("queue",) * 3,
    *("rename",) * 2,
    *("create",) * 2,
    *("settings",) * 2,
    *("stop",) * 2,
    *("wake",) * 2,
    "unwake",
    "start",
    "fork",
    "delete",
    "ask",
    "archive",
    "rest",
    "edit",
    "branch",
)
"""What clients do; what is named more often is done more often."""
