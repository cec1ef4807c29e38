"""What can be chosen and completed in the viewed session: commands of extensions, models, files."""

from __future__ import annotations

import session_core as sc
from frontends.terminal.actions import slash_commands
from frontends.terminal.composer.completion import Suggestion
from frontends.terminal.context import TerminalContext
from frontends.terminal.screens.picker import PickerChoice
from frontends.terminal.screens.picker_choices import model_choices


class SessionChoices:
    """The choices of the viewed session.

    Attributes:
        commands: The commands of its extensions.
        models: The models that `/model` accepts.
        default_model: The model of a new session that names none; empty until known.
        themes: The themes of the terminal.
    """

    def __init__(self, context: TerminalContext, themes: tuple[str, ...]) -> None:
        self.commands: tuple[sc.extensions.ExtensionCommand, ...] = ()
        self.models: tuple[str, ...] = ()
        self.default_model = ""
        self.themes = themes
        self._context = context
        self._newest_load = object()

    def load(self) -> None:
        """Load them for the session that is viewed now."""
        self._context.start(self._load())

    async def _load(self) -> None:
        this = self._newest_load = object()
        try:
            commands = await self._context.client.list_commands(self._context.current.session_id)
            if this is not self._newest_load:  # another session is viewed by now
                return
            self.commands = commands.commands
            models = await self._list_models()
        except sc.SessionCoreError:
            return  # no suggestions then; using one shows the error
        if this is self._newest_load:
            self.models, self.default_model = tuple(each.name for each in models.models), models.default
            self._context.redraw("session")

    async def _list_models(self) -> sc.replies.ListModelsReply:
        session_id, client = self._context.current.session_id, self._context.client
        return await client.list_models(session_id=session_id, cwd=self._new_folder(session_id))

    def _new_folder(self, session_id: sc.SessionId | None) -> str | None:
        return self._context.current.draft.cwd if session_id is None else None

    async def model_choices(self) -> list[PickerChoice[str]]:
        """Return the models to choose from."""
        reply = await self._list_models()
        state, draft = self._context.current.state, self._context.current.draft
        return model_choices(
            reply.models, (state.settings.model if state is not None else draft.model) or reply.default
        )

    async def complete_slash(self, query: str) -> list[Suggestion]:
        """Complete what is typed after `/`: a command, or its arguments."""
        found = slash_commands.suggest_commands(query, self.commands, self.themes, self.models)
        name, blank, typed = query.partition(" ")
        session_id = self._context.current.session_id
        if found or not blank or session_id is None or slash_commands.find_command(name, self.commands) is not None:
            return found
        extension, _, short = name.rpartition(".")
        try:
            reply = await self._context.client.complete_command(session_id, short, typed, extension=extension or None)
        except sc.SessionCoreError:
            return []
        return [
            Suggestion(value=f"{name} {each.value}", label=each.value, detail=each.description)
            for each in reply.completions
        ]

    async def complete_file(self, query: str) -> list[Suggestion]:
        """Complete what is typed after `@`: a file below the session's folder."""
        session_id = self._context.current.session_id
        try:
            folder = self._new_folder(session_id)
            reply = await self._context.client.find_files(query, session_id=session_id, cwd=folder)
        except sc.SessionCoreError:
            return []
        return [Suggestion(value=path) for path in reply.paths]
