"""The session that the user views, and the destination of a message, fixed at the key press.

Rules:
1. Anything slow gets its target passed in and looks nowhere else: the user may view another session by then.
2. Everything typed before a session exists shares one target, and so begins one session, not several.
3. Until the list of sessions has loaded, the target is undecided; messages wait for the decision.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import anyio
import attrs

import session_core as sc
from frontends.shared.parser import UsageError
from frontends.shared.session_lookup import find_session, last_used
from frontends.terminal.feeds import NOT_YET, PATIENCE_S, TerminalState
from frontends.terminal.options import NewSession, TerminalOptions


@attrs.define(eq=False)
class MessageTarget:
    """A session, or a new one that its first message creates.

    Attributes:
        new: The settings of the new session; for an existing session, its folder and model.
        session_id: None until the session exists.
        creation_lock: Held while the session is created or its initial settings change.
        decision: Set once the list of sessions has decided the target; None if it is known from the start.
        refused: Why nothing may be sent here.
    """

    new: NewSession
    session_id: sc.SessionId | None = None
    creation_lock: anyio.Lock = attrs.field(factory=anyio.Lock)
    decision: anyio.Event | None = None
    refused: str | None = None

    def decide(self, found: sc.SessionSummary | None, refused: str | None = None) -> None:
        """Decide the target: this session, a new one, or none that accepts messages."""
        if found is not None:
            self.session_id = found.session_id
            self.new = NewSession(cwd=found.cwd, model=found.model)
        self.refused = refused
        if self.decision is not None:
            self.decision.set()

    async def wait_decided(self) -> None:
        """Wait until the target is decided.

        Raises:
            Disconnected: It takes too long.
            InvalidInput: The target accepts no messages.
        """
        if self.decision is not None:
            with anyio.move_on_after(PATIENCE_S):
                await self.decision.wait()
            if not self.decision.is_set():
                raise sc.Disconnected(NOT_YET)
        if self.refused is not None:
            raise sc.InvalidInput(self.refused, field="session_id")

    async def change_new(self, **changes: Any) -> sc.SessionId | None:
        """Change the settings of a new session; return the session instead if it exists already.

        Raises:
            SessionCoreError: As `wait_decided`.
        """
        await self.wait_decided()
        async with self.creation_lock:
            if self.session_id is None:
                self.new = attrs.evolve(self.new, **changes)
            return self.session_id

    def is_same(self, other: MessageTarget) -> bool:
        """Return whether both targets are the same session, existing or new."""
        return self is other or (self.session_id is not None and self.session_id == other.session_id)


class CurrentSession:
    """The session that the user views, or the draft of a new one.

    Attributes:
        drawn_id: The session on screen; another may already be viewed, and appears with the next frame.
    """

    def __init__(self, feeds: TerminalState, options: TerminalOptions) -> None:
        self.drawn_id: sc.SessionId | None = None
        self._feeds = feeds
        self._options = options
        new = NewSession(cwd=options.cwd, model=options.model, mode=options.permissions, sandbox=options.sandbox)
        self._first = self._new = MessageTarget(new, decision=None if options.new else anyio.Event())

    @property
    def session_id(self) -> sc.SessionId | None:
        """The viewed session."""
        return None if self._feeds.viewed is None else self._feeds.viewed.session_id

    @property
    def state(self) -> sc.SessionState | None:
        """The state of the viewed session."""
        return None if self._feeds.viewed is None else self._feeds.viewed.state

    @property
    def draft(self) -> NewSession:
        """The settings of the next new session."""
        return self._new.new

    @property
    def target(self) -> MessageTarget:
        """The target of a message typed now."""
        return self._new if self.session_id is None else self.target_of(self.session_id)

    def target_of(self, session_id: sc.SessionId) -> MessageTarget:
        """Return the target for an existing session."""
        session_list = self._feeds.session_list
        known = None if session_list is None else session_list.sessions.get(session_id)
        source = self.state.settings if self.state is not None and session_id == self.session_id else known
        new = NewSession(cwd=self._options.cwd) if source is None else NewSession(cwd=source.cwd, model=source.model)
        return MessageTarget(new, session_id)

    def require(self) -> sc.SessionId:
        """Return the viewed session.

        Raises:
            InvalidInput: There is none yet.
        """
        if self.session_id is None:
            raise sc.InvalidInput("there is no session yet; send a message first", field="session_id")
        return self.session_id

    def require_drawn(self) -> sc.SessionId:
        """Return the session on screen, at which actions in its panels are aimed.

        Raises:
            InvalidInput: There is none.
        """
        return self.drawn_id or self.require()

    def find_message(self, message_id: sc.MessageId) -> sc.Message:
        """Return a message of the viewed session.

        Raises:
            NotFound: It does not exist, or is not loaded.
        """
        viewed = self._feeds.viewed
        found = None if viewed is None or viewed.state is None else viewed.state.find_message(message_id)
        if found is None and viewed is not None:
            found = next((each for each in viewed.blocks.older if each.message_id == message_id), None)
        if found is None:
            raise sc.NotFound("this message is not in the viewed conversation", field="message_id")
        return found

    def subagent_names(self) -> Mapping[sc.SessionId, str]:
        """Return the names of child sessions."""
        session_list = self._feeds.session_list
        if session_list is None:
            return {}
        return {each.session_id: each.name for each in session_list.sessions.values() if each.parent_id is not None}

    @property
    def extensions(self) -> list[sc.extensions.ExtensionInfo]:
        """The extensions of the viewed session, or of a session that would begin here."""
        session_list = self._feeds.session_list
        folder = self.state.settings.cwd if self.state is not None else self.draft.cwd
        known = [] if session_list is None else session_list.extensions.values()
        return [each for each in known if each.folder is None or Path(folder).is_relative_to(each.folder)]

    def view(self, session_id: sc.SessionId | None) -> None:
        """View another session or the draft of a new one: the same folder and model, but never the same permissions."""
        if session_id is None:
            new = self.draft
            if self.session_id is not None:
                here, options = self.target.new, self._options
                new = NewSession(cwd=here.cwd, model=here.model, mode=options.permissions, sandbox=options.sandbox)
            self._new = MessageTarget(new)
        self._feeds.view(session_id)

    def begin(self, session_list: sc.SessionListState) -> MessageTarget:
        """View the requested session, and decide the target that messages wait for; return that target."""
        found, refused = self._find_first(tuple(session_list.sessions.values()))
        first, is_viewed, start = self._first, self.target is self._first, self._first.new
        first.decide(found, refused)
        if self._new is first and (found is not None or refused is not None):
            self._new = MessageTarget(start)  # a later new session needs its own target
        if is_viewed and found is not None:
            self._feeds.view(found.session_id)
        return first

    def _find_first(self, sessions: tuple[sc.SessionSummary, ...]) -> tuple[sc.SessionSummary | None, str | None]:
        """Return the session to begin with, and why the named one was not found."""
        options = self._options
        try:
            if options.session is not None:
                return find_session(options.session, sessions, options.home), None
            return None if options.new else last_used(sessions, options.cwd, options.home), None
        except UsageError as error:
            return None, None if options.session is None else str(error)
