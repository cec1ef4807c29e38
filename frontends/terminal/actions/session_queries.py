"""Read-only requests to the service: models, commands, files, messages, exports."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread

import session_core as sc
from frontends.shared.figures import format_size
from frontends.terminal.composer.mentions import MentionedFiles
from frontends.terminal.destination import MessageTarget
from frontends.terminal.feeds import NOT_YET
from frontends.terminal.options import NewSession
from frontends.terminal.screens.picker import PickerChoice
from frontends.terminal.screens.picker_choices import model_choices

if TYPE_CHECKING:
    from frontends.client import SessionClient
    from frontends.commands.export.command import Format
    from frontends.terminal.base import TerminalBase

_SHOW_S: Final = 20.0
_LOOK_S: Final = 0.02


class ServiceQueries:
    """The known state, and queries to the service.

    Attributes:
        commands: The extension commands of the viewed session.
        models: The models that `/model` accepts.
        default_model: The model of a new session that names none; empty until known.
    """

    def __init__(self, app: TerminalBase) -> None:
        self._app = app
        options = app.options
        new = NewSession(cwd=options.cwd, model=options.model, mode=options.permissions, sandbox=options.sandbox)
        self._first = self._new = MessageTarget(new) if options.new else MessageTarget.create_undecided(new)
        self.commands: tuple[sc.extensions.ExtensionCommand, ...] = ()
        self.models: tuple[str, ...] = ()
        self.default_model = ""
        self._begun = False
        self._mentions = MentionedFiles(lambda text: app.tell(text, "warning"))

    # --- known state --------------------------------------------------------------------------------------------------

    @property
    def client(self) -> SessionClient:
        """The client of the service.

        Raises:
            Disconnected: There is no connection yet.
        """
        if self._app.terminal_state.client is None:
            raise sc.Disconnected(NOT_YET)
        return self._app.terminal_state.client

    @property
    def session_id(self) -> sc.SessionId | None:
        """The viewed session."""
        viewed = self._app.terminal_state.viewed
        return None if viewed is None else viewed.session_id

    @property
    def state(self) -> sc.SessionState | None:
        """The state of the viewed session."""
        viewed = self._app.terminal_state.viewed
        return None if viewed is None else viewed.state

    @property
    def draft(self) -> NewSession:
        """The settings of the next new session."""
        return self._new.new

    @property
    def target(self) -> MessageTarget:
        """The target of a message typed now."""
        return self._new if self.session_id is None else self.target_of(self.session_id)

    def drawn_session(self) -> sc.SessionId:
        """Return the session on screen, at which actions in its panels are aimed.

        Raises:
            InvalidInput: There is none.
        """
        return self._app.drawn_session_id or self.viewed_session()

    def target_of(self, session_id: sc.SessionId) -> MessageTarget:
        """Return the target for an existing session."""
        session_list = self._app.terminal_state.session_list
        known = None if session_list is None else session_list.sessions.get(session_id)
        if self.state is not None and session_id == self.session_id:
            new_session = NewSession(cwd=self.state.settings.cwd, model=self.state.settings.model)
        elif known is not None:
            new_session = NewSession(cwd=known.cwd, model=known.model)
        else:
            new_session = NewSession(cwd=self._app.options.cwd)
        return MessageTarget(new_session, session_id)

    def message(self, message_id: sc.MessageId) -> sc.Message:
        """Return a message of the viewed session.

        Raises:
            NotFound: It does not exist, or is not loaded.
        """
        viewed = self._app.terminal_state.viewed
        found = None if viewed is None or viewed.state is None else viewed.state.find_message(message_id)
        if found is None and viewed is not None:
            found = next((each for each in viewed.blocks.older if each.message_id == message_id), None)
        if found is None:
            raise sc.NotFound("this message is not in the viewed conversation", field="message_id")
        return found

    def viewed_session(self) -> sc.SessionId:
        """Return the viewed session.

        Raises:
            InvalidInput: There is none yet.
        """
        if self.session_id is None:
            raise sc.InvalidInput("there is no session yet; send a message first", field="session_id")
        return self.session_id

    def subagent_names(self) -> Mapping[sc.SessionId, str]:
        """Return the names of child sessions."""
        session_list = self._app.terminal_state.session_list
        if session_list is None:
            return {}
        return {each.session_id: each.name for each in session_list.sessions.values() if each.parent_id is not None}

    @property
    def extensions(self) -> list[sc.extensions.ExtensionInfo]:
        """The extensions of the viewed session, or of a session that would begin here."""
        session_list = self._app.terminal_state.session_list
        folder = self.state.settings.cwd if self.state is not None else self.draft.cwd
        return (
            []
            if session_list is None
            else [each for each in session_list.extensions.values() if _is_active_in(each, folder)]
        )

    # --- queries -----------------------------------------------------------------------------------------------------

    async def find_files(self, query: str) -> tuple[str, ...]:
        """Find files below the session's folder."""
        where = None if self.session_id is not None else self.draft.cwd
        return (await self.client.find_files(query, session_id=self.session_id, cwd=where)).paths

    async def refresh_choices(self) -> None:
        """Load what can be chosen in the viewed session."""
        try:
            self.commands = (await self.client.list_commands(self.session_id)).commands
            reply = await self._models()
            self.models = tuple(each.name for each in reply.models)
            self.default_model = reply.default
            self._app.schedule_draw("session")
        except sc.SessionCoreError:
            pass  # no suggestions then; using one shows the error

    async def _models(self) -> sc.replies.ListModelsReply:
        where = None if self.session_id is not None else self.draft.cwd
        return await self.client.list_models(session_id=self.session_id, cwd=where)

    async def model_choices(self) -> list[PickerChoice[str]]:
        """Return the models to choose from."""
        reply = await self._models()
        current = self.state.settings.model if self.state is not None else self.draft.model
        return model_choices(reply.models, current or reply.default)

    async def show_message(self, message_id: sc.MessageId) -> None:
        """Scroll to a message of the viewed session, loading older ones until it is there."""
        viewed = self._app.terminal_state.viewed
        with anyio.move_on_after(_SHOW_S):
            while viewed is not None and viewed is self._app.terminal_state.viewed:
                if viewed.state is not None and self._app.transcript.show_message(message_id):
                    return
                if viewed.state is not None and viewed.has_older:
                    await self._app.terminal_state.load_older(viewed)
                elif viewed.state is not None:
                    break
                await anyio.sleep(_LOOK_S)
        self._app.tell("the message is on another branch, or before a summary", "warning")

    async def search(self, words: str) -> tuple[sc.SearchHit, ...]:
        """Search the messages of all sessions."""
        return (await self.client.search_messages(words, limit=50)).hits

    async def export(self, session_id: sc.SessionId, path: Path) -> str:
        """Write a conversation to a file whose extension decides the format; return where and how much was written."""
        from frontends.commands.export.command import write_export

        kinds: dict[str, Format] = {".html": "html", ".htm": "html", ".jsonl": "jsonl", ".md": "markdown"}
        kind = kinds.get(path.suffix.lower())
        if kind is None:
            raise sc.InvalidInput(f"{path.name!r}: the name must end in .md, .html or .jsonl", field="path")
        written = await anyio.to_thread.run_sync(write_export, self._app.options.home, session_id, path, kind)
        return f"{path} ({format_size(written)})"


def _is_active_in(extension: sc.extensions.ExtensionInfo, folder: str) -> bool:
    return extension.folder is None or Path(folder).is_relative_to(extension.folder)
