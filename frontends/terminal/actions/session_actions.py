"""Which session is viewed, begun, searched, named, archived and deleted. Each keeps its unsent text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import anyio
import attrs

import session_core as sc
from frontends.shared.sanitise import one_line
from frontends.terminal.composer.drafts import Draft, PromptSubmission
from frontends.terminal.context import TerminalContext
from frontends.terminal.destination import MessageTarget
from frontends.terminal.look.clock import now_ms
from frontends.terminal.look.sanitised_text import sanitise_line
from frontends.terminal.main_view import SIDEBAR_NEEDS, MainView
from frontends.terminal.screens import picker_choices
from frontends.terminal.screens.picker import LineInputScreen, Picker
from frontends.terminal.screens.search import SearchScreen

_NAME_CHARS: Final = 60
_SHOWN_NAME_CHARS: Final = 100
_SHOW_S: Final = 20.0
_LOOK_S: Final = 0.02


@attrs.define(eq=False)
class SessionActions:
    """The actions on sessions; `on_view` is called when another one is viewed."""

    _context: TerminalContext
    _main: MainView
    _on_view: Callable[[], object]
    _drafts: dict[sc.SessionId | None, Draft] = attrs.field(init=False, factory=dict)
    _known_ids: set[sc.SessionId] = attrs.field(init=False, factory=set)

    # --- viewing ------------------------------------------------------------------------------------------------------

    def view(self, session_id: sc.SessionId | None) -> None:
        """View a session or the draft of a new one; each keeps its unsent text."""
        current, composer, viewed = self._context.current, self._context.composer, self._context.feeds.viewed
        if session_id != current.session_id:
            if composer.draft != Draft():
                gone = viewed is not None and viewed.is_deleted  # then the draft may begin another session
                self._drafts[None if gone else current.session_id] = composer.draft
            composer.draft = self._drafts.pop(session_id, Draft())
        current.view(session_id)
        self._on_view()
        self._context.redraw()

    def begin(self) -> MessageTarget:
        """View the requested session, and decide the target that messages wait for; return that target."""
        first = self._context.current.begin(self._context.session_list)
        if first.refused is not None:
            self._context.tell(first.refused, "error")
        self._on_view()
        return first

    def go_to(self, session_id: sc.SessionId | None) -> None:
        """View a session and go on writing."""
        self.view(session_id)
        self._context.composer.focus()

    def open(self, session_id: sc.SessionId) -> None:
        """View a session and go on writing; an archived one is brought back."""
        summary = self._context.session_list.sessions.get(session_id)
        if summary is not None and summary.archived:
            self._context.start(self._context.client.restore_session(session_id))
        self.go_to(session_id)

    def restore(self, submission: PromptSubmission) -> None:
        """Put an unsent message back into its draft, which may no longer be on screen."""
        session_id, composer = submission.target.session_id, self._context.composer
        if not composer.is_attached:  # the terminal is closing; the prompt history has it
            return
        if session_id == self._context.current.session_id:
            composer.restore(submission)
        else:
            self._drafts[session_id] = self._drafts.get(session_id, Draft()).with_restored(submission)

    def forget_deleted(self) -> None:
        """Drop the drafts of deleted sessions; sessions the list has not shown yet do not count as deleted."""
        known = set(self._context.session_list.sessions)
        for session_id in self._known_ids - known:
            self._drafts.pop(session_id, None)
        self._known_ids = known

    async def ensure(self, target: MessageTarget, named_after: str = "") -> sc.SessionId:
        """Return the session of a target, creating it if necessary."""
        client = await self._context.feeds.wait_connected()
        await target.wait_decided()
        async with target.creation_lock:
            if target.session_id is None:
                new = target.new
                created = await client.create_session(
                    name=one_line(named_after, _NAME_CHARS) or None,
                    cwd=new.cwd,
                    model=new.model,
                    permission_mode=new.mode,
                    thinking=new.thinking,
                )
                if new.sandbox is not None:
                    policy = (await client.load_session(created.session_id)).settings.sandbox
                    await client.change_sandbox_policy(created.session_id, attrs.evolve(policy, mode=new.sandbox))
                is_viewed = self._context.current.target is target
                target.session_id = created.session_id
                if is_viewed:
                    self._context.feeds.view(created.session_id)
            return target.session_id

    # --- actions ------------------------------------------------------------------------------------------------------

    def action_new(self) -> None:
        """Begin a new session with the next message."""
        self.go_to(None)

    def view_from_sidebar(self, session_id: sc.SessionId) -> None:
        """View a session of the list; where room is short, the list closes."""
        if self._main.screen.size.width < SIDEBAR_NEEDS:
            self._main.sidebar.remove_class("open")
        self.go_to(session_id)

    def action_switch(self, step: int) -> None:
        """View the next or previous session of the list."""
        order, viewed = self._main.sidebar.order, self._context.current.session_id
        if order:
            index = order.index(viewed) + step if viewed is not None and viewed in order else 0
            self.view(order[index % len(order)])

    def action_switch_to(self, number: int) -> None:
        """View a session by its position in the list."""
        order = self._main.sidebar.order
        if number <= len(order):
            self.view(order[number - 1])

    def action_sessions(self) -> None:
        """Choose a session."""
        choices = picker_choices.session_choices(
            self._context.session_list,
            here=self._context.options.cwd,
            viewed=self._context.current.session_id,
            now_ms=now_ms(),
        )
        self._context.ask(Picker("Sessions", choices), self.open)

    def action_search(self, words: str = "") -> None:
        """Search all sessions."""

        async def search(query: str) -> tuple[sc.SearchHit, ...]:
            return (await self._context.client.search_messages(query, limit=50)).hits

        def open_hit(hit: sc.SearchHit) -> None:
            self.open(hit.session_id)
            self._context.start(self._show_message(hit.message_id))

        self._context.ask(SearchScreen(search, words), open_hit)

    async def _show_message(self, message_id: sc.MessageId) -> None:
        """Scroll to a message of the viewed session, loading older ones until it is there."""
        feeds = self._context.feeds
        viewed = feeds.viewed
        with anyio.move_on_after(_SHOW_S):
            while viewed is not None and viewed is feeds.viewed:
                if viewed.state is not None and self._main.transcript.show_message(message_id):
                    return
                if viewed.state is not None and viewed.has_older:
                    await feeds.load_older(viewed)
                elif viewed.state is not None:
                    break
                await anyio.sleep(_LOOK_S)
        self._context.tell("the message is on another branch, or before a summary", "warning")

    def _name_of(self, session_id: sc.SessionId) -> str:
        summary = self._context.session_list.sessions.get(session_id)
        return summary.name if summary is not None else ""

    def action_rename(self, name: str = "", session_id: sc.SessionId | None = None) -> None:
        """Rename a session, by default the viewed one; without a name, ask for it."""
        renamed = session_id or self._context.current.require()

        def apply_name(name: str) -> None:
            self._context.start(self._context.client.rename_session(renamed, name.strip()))

        if name.strip():
            apply_name(name)
        else:
            screen = LineInputScreen("Name of the session", self._name_of(renamed), check=_not_empty)
            self._context.ask(screen, apply_name)

    def action_archive(self, session_id: sc.SessionId | None = None) -> None:
        """Archive a session, by default the viewed one."""
        self._context.start(self._archive(session_id or self._context.current.require()))

    async def _archive(self, session_id: sc.SessionId) -> None:
        name = sanitise_line(self._name_of(session_id), _SHOWN_NAME_CHARS) or "the session"
        await self._context.client.archive_session(session_id)
        self._leave(session_id)
        self._context.tell(f"{name} is archived; /sessions brings it back")

    def action_delete(self, session_id: sc.SessionId | None = None) -> None:
        """Delete a session, by default the viewed one, for good after a confirmation."""
        deleted = session_id or self._context.current.require()
        name = sanitise_line(self._name_of(deleted), _SHOWN_NAME_CHARS) or deleted
        question = f'Delete "{name}" permanently? Its running work is stopped.'
        self._context.confirm(question, lambda: self._context.start(self._delete(deleted)))

    async def _delete(self, session_id: sc.SessionId) -> None:
        await self._context.client.delete_session(session_id)
        self._leave(session_id)

    def _leave(self, session_id: sc.SessionId) -> None:
        if session_id == self._context.current.session_id:
            self.view(None)


def _not_empty(typed: str) -> str | None:
    return None if typed.strip() else "type a name; Esc cancels"
