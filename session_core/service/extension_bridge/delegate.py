"""The service as extensions see it: each of their actions is an ordinary command, in the name of the extension.

The host has checked who asks, and the shape of the request. Here it takes its place in the mailbox, is published, is
idempotent on a retry, and is refused where a person's command would be.
"""

import logging
import shlex
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar, cast, get_args

import trio

from session_core import limits
from session_core.agent.hooks import Blocked
from session_core.errors import Forbidden, InvalidInput, Lagged
from session_core.ids import SessionId, TurnId
from session_core.sep.host.calls import hooks
from session_core.sep.host.config import ParticipationRule
from session_core.sep.host.host import ExtensionHost
from session_core.sep.protocol.names import ALL_TOOLS, HookName, UiKind
from session_core.sep.protocol.service_api import DeliverAs, ExtensionCaller, ProgramResult, Role
from session_core.service.extension_api import extension_client
from session_core.service.extension_bridge.programs import ProgramGate, ProgramQuestion
from session_core.service.speaker_chain import join_chain
from session_core.session.session import Session
from session_core.vocabulary import commands as c
from session_core.vocabulary import events as ev
from session_core.vocabulary.commands import Command
from session_core.vocabulary.extensions import ExtensionInfo
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.sessions import DialogKind, Thinking
from session_core.vocabulary.tools import present_name

if TYPE_CHECKING:
    from session_core.service.service import SessionService

log = logging.getLogger(__name__)
R = TypeVar("R")
_TITLE_CHARS = 200
_MOST_HEARD = 4_096
"""How many sessions of a folder are remembered as known to its extensions."""
_sending_extension: ContextVar[str | None] = ContextVar("_speaking", default=None)
"""The extension whose message this task is sending; hooks run in the task of the command's sender."""


async def run_hook(
    host: ExtensionHost, hook: HookName, session_id: SessionId, value: JsonObject
) -> JsonObject | Blocked:
    """Ask the extensions of a host in order, once every one of them has started: none is skipped."""
    await host.settled.wait()
    # An extension is not asked about its own message; how long several may answer each other, `speaker_chain` says.
    but = _sending_extension.get() if hook == "input" else None
    asked = [each for each in host.participants(session_id) if each.name != but]
    result = await hooks.run_hook(asked, hook, session_id, value, contexts=host.contexts)
    if isinstance(result, hooks.HookBlocked):
        return Blocked(reason=f"{result.extension}: {result.reason}")
    return JsonObject(result)


async def run_host(host: ExtensionHost, service: "SessionService") -> None:
    """Run the extensions of a service while it is open, and tell them what happens in its sessions."""
    delegate = ServiceDelegate(service, host.takes_part, lambda name, text: host.log(name, "warn", text, None))
    async with trio.open_nursery() as nursery:
        await nursery.start(host.run, delegate, _ExtensionAnnouncer(service, host))
        while True:
            await host.wait_for_subscriptions(anything=True)
            async with trio.open_nursery() as listening:
                listening.start_soon(_forward_events, service, host)
                await host.wait_for_subscriptions(anything=False)
                listening.cancel_scope.cancel()


async def _forward_events(service: "SessionService", host: ExtensionHost) -> None:
    """Forward events to extensions; the stream is not read while no extension wants any."""
    host.note_missed_events()
    heard: dict[SessionId, None] = {}
    async with service.subscribe() as events:
        while True:
            try:
                for event in await events.receive_batch():
                    if host.config.serves is None or _is_in_own_folder(service, host, event, heard):
                        host.forward_event(event)
            except Lagged as lag:
                host.note_missed_events(lag.missed)


def _is_in_own_folder(
    service: "SessionService", host: ExtensionHost, event: ev.SessionEvent, heard: dict[SessionId, None]
) -> bool:
    """Return whether an event happened in a folder's own sessions; `heard` are those already known.

    What counts is where the session worked then: it may have moved since, or be deleted.
    """
    session_id = event.session_id
    if session_id is None:
        return False
    cwd = service.core.recorder.cwd_history.find_cwd(session_id, event.seq)
    folder = service.core.config.folders.get_known(cwd) if cwd is not None else None
    if folder is not None and folder.path == host.config.serves:
        heard[session_id] = None
        if len(heard) > _MOST_HEARD:
            del heard[next(iter(heard))]
        return True
    if session_id not in heard:
        return False
    del heard[session_id]
    host.forget_session(session_id)
    return False


def clear_displays(service: "SessionService", host: ExtensionHost, name: str) -> None:
    """Remove an extension's displays from all sessions that it takes part in."""
    for session in tuple(service.core.sessions.values()):
        shows = any(display.extension == name for display in session.state.displays)
        if shows and host.takes_part(name, session.state.session_id):
            session.record(ev.ExtensionDisplayed(extension=name))


class _ExtensionAnnouncer:
    """Tells all followers when extensions are added, changed or removed; clears the displays of removed ones."""

    def __init__(self, service: "SessionService", host: ExtensionHost) -> None:
        self._service = service
        self._host = host
        self._generations: dict[str, int] = {}

    def extension_changed(self, info: ExtensionInfo) -> None:
        """Announce it."""
        if self._generations.get(info.name) != info.generation or info.state == "failed":
            self._generations[info.name] = info.generation
            clear_displays(self._service, self._host, info.name)
        self._service.tell(ev.ExtensionChanged(extension=info))

    def extension_removed(self, name: str) -> None:
        """Announce it."""
        clear_displays(self._service, self._host, name)
        self._service.tell(ev.ExtensionRemoved(name=name, folder=self._host.config.serves))


class ServiceDelegate:
    """Serves the requests of extensions, in the sessions that they take part in.

    A session may have moved to another folder since an extension was asked about it.

    Args:
        remark: Writes a sentence to the log of an extension.
    """

    def __init__(
        self, service: "SessionService", takes_part: ParticipationRule, remark: Callable[[str, str], None]
    ) -> None:
        self._remark = remark
        self._takes_part = takes_part
        self._service = service
        self._core = service.core
        self._gate = ProgramGate(self._core, self._agree)

    def ui_kinds(self) -> frozenset[UiKind]:
        """Return the kinds that some attached client which may act can handle."""
        clients = self._core.recorder.session_list.clients.values()
        return frozenset(kind for client in clients if client.role != "observer" for kind in client.ui)

    def tell_people(self, extension: str, message: str) -> None:
        """Show people a notice about an extension, in the session where something happened last."""
        if self._core.ending or self._core.stream.closed:
            return
        sessions = [
            session
            for session_id, session in self._core.sessions.items()
            if not session.closing and self._takes_part(extension, session_id)
        ]
        if sessions:
            latest = max(sessions, key=lambda session: session.state.updated_at)
            notice = ev.NoticeShown(extension=extension, message=message[: limits.MAX_ERROR_CHARS], level="warn")
            latest.record(notice, extension_client(extension))

    async def send_message(self, caller: ExtensionCaller, text: str, role: Role) -> None:
        """Put a message into the conversation."""
        await self._do(caller, c.PostMessage(session_id=caller.session_id, text=text, role=role))

    async def send_user_message(self, caller: ExtensionCaller, text: str, deliver_as: DeliverAs) -> None:
        """Send a message as if the user had typed it.

        Raises:
            ChainTooLong: Too many messages of extensions follow from what a person did last.
        """
        self._refuse_elsewhere(caller)
        await self._core.loaded_sessions.load_session(caller.session_id)
        self._core.refuse_if_unsaved()
        join_chain(self._core, caller.session_id, caller.extension, self._remark)
        speaks = _sending_extension.set(caller.extension)
        try:
            await self._do(caller, c.SendUserMessage(session_id=caller.session_id, text=text, deliver_as=deliver_as))
        finally:
            _sending_extension.reset(speaks)

    async def append_entry(self, caller: ExtensionCaller, entry: Mapping[str, Any]) -> None:
        """Store an entry with the session that no model ever sees."""
        await self._do(caller, c.AppendEntry(session_id=caller.session_id, entry=JsonObject(entry)))

    async def set_model(self, caller: ExtensionCaller, model: str, provider: str | None, thinking: str | None) -> None:
        """Choose the session's model, and how much it thinks."""
        effort = next((word for word in get_args(Thinking) if word == thinking), None)
        if thinking is not None and effort is None:
            known = ", ".join(get_args(Thinking))
            raise InvalidInput(f"thinking must be one of {known}, not {thinking!r}", field="thinking")
        name = f"{provider}/{model}" if provider is not None else model
        await self._do(caller, c.SwitchModel(session_id=caller.session_id, model=name, thinking=effort))

    async def state(self, caller: ExtensionCaller) -> Mapping[str, Any]:
        """Return the state of the session."""
        snapshot = await self._do(caller, c.LoadSession(session_id=caller.session_id))
        return {
            "session_id": snapshot.session_id,
            "name": snapshot.name,
            "cwd": snapshot.settings.cwd,
            "model": snapshot.settings.model,
            "permission_mode": snapshot.settings.permission_mode,
            "activity": snapshot.activity.name,
            "messages": snapshot.earlier + len(snapshot.messages),
            "queued": len(snapshot.queue),
            "usage": {
                "input_tokens": snapshot.usage.input_tokens,
                "output_tokens": snapshot.usage.output_tokens,
                "cost_micros": snapshot.usage.cost_micros,
            },
            "context_tokens": snapshot.context_tokens,
        }

    async def ask(self, caller: ExtensionCaller, kind: UiKind, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Open a dialog and wait for its answer, or show something."""
        session_id = caller.session_id
        match kind:
            case "select" | "confirm" | "input":
                return await self._question(caller, kind, params)
            case "notify":
                await self._do(
                    caller, c.ShowNotice(session_id=session_id, message=params["message"], level=params["level"])
                )
            case "set_status":
                await self._do(caller, c.ShowDisplay(session_id=session_id, status=params["status"]))
            case "set_widget":
                await self._do(caller, c.ShowDisplay(session_id=session_id, widget=JsonObject(params["widget"])))
            case "set_title":
                await self._do(caller, c.ShowDisplay(session_id=session_id, title=params["title"]))
        return {}

    async def _question(self, caller: ExtensionCaller, kind: UiKind, params: Mapping[str, Any]) -> Mapping[str, Any]:
        first, _, rest = params["prompt"].partition("\n")
        watched = self._core.tree.find_root_session(
            self._core.session(caller.session_id)
        )  # people watch the topmost session
        reply = await self._do(
            caller,
            c.OpenDialog(
                session_id=watched.state.session_id,
                kind=cast(DialogKind, kind),
                title=first[:_TITLE_CHARS].strip() or "?",
                message=params["prompt"] if rest or len(first) > _TITLE_CHARS else "",
                choices=tuple(params.get("options", ())),
                default=params.get("default", ""),
                extension=caller.extension,
                turn_id=_find_waiting_turn(watched, caller),
            ),
        )
        if not reply.answered or reply.value is None:
            return {"cancelled": True}
        if kind == "confirm":
            return {"confirmed": reply.value is True}
        return {"value" if kind == "select" else "text": str(reply.value)}

    async def run_program(
        self, caller: ExtensionCaller, command: str, args: tuple[str, ...], cwd: str | None
    ) -> ProgramResult:
        """Run a program through the same gate and sandbox as the shell tool."""
        self._refuse_elsewhere(caller)
        return await self._gate(caller, shlex.join((command, *args)), cwd)

    async def _agree(self, session_id: SessionId, caller: ExtensionCaller, question: ProgramQuestion) -> bool:
        """Ask for approval to run a program; if no person can be asked, it is refused."""
        if "confirm" not in self.ui_kinds():
            return False
        asked = c.OpenDialog(
            session_id=session_id,
            kind="confirm",
            title=question.title,
            message=question.displayed_text,
            rights=question.rights,
            extension=caller.extension,
            turn_id=_find_waiting_turn(self._core.session(session_id), caller),
        )
        reply = await self._service.execute(asked, client_id=extension_client(caller.extension))
        return reply.answered and reply.value is True

    def active_tools(self, caller: ExtensionCaller, wanted: tuple[str, ...]) -> tuple[str, ...]:
        """Narrow the tools that the session's model sees; `*` shows all of them again."""
        self._refuse_elsewhere(caller)
        core = self._core
        allowed = core.agent.allowed_tools(core.session(caller.session_id).state)
        if ALL_TOOLS in wanted:
            core.agent.active.forget(caller.session_id)
            return tuple(allowed)
        names = dict.fromkeys(present_name(name, allowed) for name in wanted)
        active = tuple(name for name in names if name in allowed)
        core.agent.active.choose(caller.session_id, active)
        return active

    # --- storage of extensions ----------------------------------------------------------------------------------------

    async def kv_get(self, extension: str, key: str) -> Any:
        """Return the value that an extension has stored under a key."""
        return await self._core.store.kv_get(extension, key)

    async def kv_set(self, extension: str, key: str, value: Any) -> None:
        """Store a value, durably."""
        await self._core.store.kv_set(extension, key, value)

    async def kv_delete(self, extension: str, key: str) -> None:
        """Delete a value."""
        await self._core.store.kv_delete(extension, key)

    async def kv_list(self, extension: str, prefix: str) -> tuple[str, ...]:
        """Return the keys with a prefix."""
        return await self._core.store.kv_list(extension, prefix)

    def _refuse_elsewhere(self, caller: ExtensionCaller) -> None:
        if not self._takes_part(caller.extension, caller.session_id):
            msg = f"the extension {caller.extension} does not take part in this session, which works in another folder"
            raise Forbidden(msg, field="session_id")

    async def _do(self, caller: ExtensionCaller, command: Command[R]) -> R:
        self._refuse_elsewhere(caller)
        return await self._service.execute(command, client_id=extension_client(caller.extension))


def _find_waiting_turn(watched: Session, caller: ExtensionCaller) -> TurnId | None:
    """Return the turn that continues with the answer; for a subagent, that is the turn it works for."""
    if caller.turn_id is None or watched.work is None:
        return None
    is_subagent = watched.state.session_id != caller.session_id
    return watched.work.turn_id if is_subagent or watched.work.turn_id == caller.turn_id else None
