"""Settings of the viewed session and of the terminal: the actions behind `/` commands and function keys."""

from __future__ import annotations

from typing import Final, get_args

import session_core as sc
from frontends.terminal.actions import slash_commands
from frontends.terminal.base import TerminalBase
from frontends.terminal.composer.completion import Suggestion
from frontends.terminal.feeds import NOT_YET
from frontends.terminal.look.clock import now_ms
from frontends.terminal.look.sanitised_text import sanitise_line
from frontends.terminal.screens import picker_choices
from frontends.terminal.screens.help_page import HelpScreen
from frontends.terminal.screens.picker import LineInputScreen, Picker, PickerChoice
from frontends.terminal.screens.search import SearchScreen
from frontends.terminal.screens.usage import UsageScreen

_NAME_CHARS: Final = 100


class ChoiceActions(TerminalBase):
    """Actions on settings, sessions and screens."""

    # --- the composer's completions -----------------------------------------------------------------------------------

    def prepare_composer(self) -> None:
        """Give the composer its completers and the target of its messages."""
        self.composer.get_target = lambda: self.service_actions.target
        self.composer.set_completers({"/": self._complete_slash, "@": self._complete_file})

    async def _complete_slash(self, query: str) -> list[Suggestion]:
        found = slash_commands.suggest_commands(
            query, self.service_actions.commands, tuple(self.available_themes), self.service_actions.models
        )
        name, blank, typed = query.partition(" ")
        if (
            found
            or not blank
            or self.service_actions.session_id is None
            or slash_commands.find_command(name, self.service_actions.commands) is not None
        ):
            return found
        extension, _, short = name.rpartition(".")
        try:
            reply = await self.service_actions.client.complete_command(
                self.service_actions.session_id, short, typed, extension=extension or None
            )
        except sc.SessionCoreError:
            return []
        return [
            Suggestion(value=f"{name} {each.value}", label=each.value, detail=each.description)
            for each in reply.completions
        ]

    async def _complete_file(self, query: str) -> list[Suggestion]:
        try:
            reply = await self.service_actions.find_files(query)
        except sc.SessionCoreError:
            return []
        return [Suggestion(value=path) for path in reply]

    # --- sessions -----------------------------------------------------------------------------------------------------

    def action_sessions(self) -> None:
        """Choose a session."""
        choices = picker_choices.session_choices(
            self._session_list(), here=self.options.cwd, viewed=self.service_actions.session_id, now_ms=now_ms()
        )
        self.ask(Picker("Sessions", choices), self._open)

    def _session_list(self) -> sc.SessionListState:
        """Return the list of sessions.

        Raises:
            Disconnected: It has not loaded yet.
        """
        if self.terminal_state.session_list is None:
            raise sc.Disconnected(NOT_YET)
        return self.terminal_state.session_list

    def _open(self, session_id: sc.SessionId) -> None:
        """View a session, unarchiving it if necessary."""
        summary = self._session_list().sessions.get(session_id)
        if summary is not None and summary.archived:
            self.run_in_background(self.service_actions.client.restore_session(session_id))
        self.view(session_id)
        self.composer.focus()

    def _name_of(self, session_id: sc.SessionId) -> str:
        summary = self._session_list().sessions.get(session_id)
        return summary.name if summary is not None else ""

    def action_rename(self, name: str = "") -> None:
        """Rename the viewed session."""
        session_id = self.service_actions.viewed_session()
        if name.strip():
            self.run_in_background(self.service_actions.client.rename_session(session_id, name.strip()))
        else:
            self.ask_name(session_id)

    def ask_name(self, session_id: sc.SessionId) -> None:
        """Ask for a new name of a session."""

        def apply_name(name: str) -> None:
            self.run_in_background(self.service_actions.client.rename_session(session_id, name.strip()))

        self.ask(LineInputScreen("Name of the session", self._name_of(session_id), check=_not_empty), apply_name)

    def action_archive(self) -> None:
        """Archive the viewed session."""
        self.archive(self.service_actions.viewed_session())

    def archive(self, session_id: sc.SessionId) -> None:
        """Archive a session."""
        self.run_in_background(self._archive(session_id))

    async def _archive(self, session_id: sc.SessionId) -> None:
        name = sanitise_line(self._name_of(session_id), _NAME_CHARS) or "the session"
        await self.service_actions.client.archive_session(session_id)
        if session_id == self.service_actions.session_id:
            self.view(None)
        self.tell(f"{name} is archived; /sessions brings it back")

    def action_delete(self) -> None:
        """Delete the viewed session."""
        self.ask_delete(self.service_actions.viewed_session())

    def ask_delete(self, session_id: sc.SessionId) -> None:
        """Delete a session for good after a confirmation."""
        name = sanitise_line(self._name_of(session_id), _NAME_CHARS) or session_id
        question = f'Delete "{name}" permanently? Its running work is stopped.'
        self.confirm(question, lambda: self.run_in_background(self._delete(session_id)))

    async def _delete(self, session_id: sc.SessionId) -> None:
        await self.service_actions.client.delete_session(session_id)
        if session_id == self.service_actions.session_id:
            self.view(None)

    # --- settings -----------------------------------------------------------------------------------------------------

    def action_model(self, model: str = "") -> None:
        """Choose a model."""
        known, target = self.service_actions.models, self.service_actions.target
        if not model:
            picker = Picker("Model", self.service_actions.model_choices)
            self.ask(picker, lambda name: self.run_in_background(self.service_actions.use_model(name, target)))
        elif (
            self.service_actions.session_id is None and known and model not in known
        ):  # for an existing session, the service decides
            self.tell(f"there is no model {model!r}; /model shows them", "warning")
        else:
            self.run_in_background(self.service_actions.use_model(model, target))

    def action_mode(self, mode: str = "") -> None:
        """Choose the permission mode."""
        wanted = next((each for each in get_args(sc.PermissionMode) if each == mode.replace("-", "_")), None)
        if mode and wanted is None:
            known = ", ".join(each.replace("_", "-") for each in get_args(sc.PermissionMode))
            self.tell(f"{mode!r} is not one of {known}", "warning")
        elif wanted is not None:
            self.run_in_background(self.service_actions.use_mode(wanted, self.service_actions.target))
        else:
            state = self.service_actions.state
            current = state.settings.permission_mode if state is not None else self.service_actions.draft.mode

            self.ask(Picker("What needs approval", picker_choices.mode_choices(current)), self.action_mode)

    def action_thinking(self, how: str = "") -> None:
        """Choose how much the model reasons."""
        wanted = next((each for each in get_args(sc.Thinking) if each == how), None)
        if how and wanted is None:
            self.tell(f"{how!r} is not one of {', '.join(get_args(sc.Thinking))}", "warning")
        elif wanted is not None:
            self.run_in_background(self.service_actions.set_thinking(wanted, self.service_actions.target))
        else:
            state = self.service_actions.state
            current = state.settings.thinking if state is not None else self.service_actions.draft.thinking

            self.ask(Picker("Thinking", picker_choices.thinking_choices(current)), self.action_thinking)

    def action_theme(self, name: str = "") -> None:
        """Choose a theme."""
        if name and name not in self.available_themes:
            self.tell(f"there is no theme {name!r}; /theme shows them", "warning")
        elif name:
            self.use_theme(name)
        else:
            choices = picker_choices.theme_choices(self.available_themes, self.theme)
            self.ask(Picker("Theme", choices), self.use_theme)

    # --- screens ------------------------------------------------------------------------------------------------------

    def action_help(self) -> None:
        """Show all keys and commands."""
        _ = self.push_screen(HelpScreen(self.service_actions.commands))

    def action_usage(self) -> None:
        """Show the usage of the viewed session."""
        state = self.service_actions.state
        if state is None:
            self.tell("there is no session yet", "warning")
        else:
            _ = self.push_screen(UsageScreen(state))

    def action_search(self, words: str = "") -> None:
        """Search all sessions."""

        def open_hit(hit: sc.SearchHit) -> None:
            self._open(hit.session_id)
            self.run_in_background(self.service_actions.show_message(hit.message_id))

        self.ask(SearchScreen(self.service_actions.search, words), open_hit)

    def action_extensions(self) -> None:
        """Show the extensions, and act on one."""
        choices = picker_choices.extension_choices(self._session_list().extensions.values())
        if choices:
            self.ask(Picker("Extensions", choices), self._ask_about_extension)
        else:
            self.tell("there are no extensions; see: session-core ext --help")

    def _ask_about_extension(self, extension: sc.extensions.ExtensionInfo) -> None:
        def apply_choice(what: str) -> None:
            client = self.service_actions.client
            todo = {
                "reload": client.reload_extension,
                "enable": client.enable_extension,
                "disable": client.disable_extension,
            }
            self.run_in_background(todo[what](extension.name, folder=extension.folder))

        self.ask(Picker(extension.name, picker_choices.extension_actions(extension)), apply_choice)

    def action_login(self, provider: str = "") -> None:
        """Log in to a provider of an extension."""
        target = self.service_actions.target
        if provider:
            self.run_in_background(self.service_actions.login(provider, target))
            return
        providers = [name for each in self._session_list().extensions.values() for name in each.providers]
        if providers:
            picker = Picker("Log in to", [PickerChoice(value=name, label=name) for name in providers])
            self.ask(picker, lambda name: self.run_in_background(self.service_actions.login(name, target)))
        else:
            self.tell("no extension provides a login")


def _not_empty(typed: str) -> str | None:
    return None if typed.strip() else "type a name; Esc cancels"
