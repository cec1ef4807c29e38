"""What people choose for the viewed session, and for the terminal itself: the actions behind `/` and function keys."""

from __future__ import annotations

from typing import Final, get_args

import session_core as sc
from frontends.terminal import pickers, slash
from frontends.terminal.base import TerminalBase
from frontends.terminal.clock import now_ms
from frontends.terminal.completion import Suggestion
from frontends.terminal.desk import NOT_YET
from frontends.terminal.help_screen import HelpScreen
from frontends.terminal.inert import inert_line
from frontends.terminal.picker import Asker, Choice, Picker
from frontends.terminal.search_screen import SearchScreen
from frontends.terminal.usage_screen import UsageScreen

_NAME_CHARS: Final = 100


class Choosing(TerminalBase):
    """Settings, sessions, screens."""

    # --- the composer's completions -----------------------------------------------------------------------------------

    def prepare_composer(self) -> None:
        """Tell the composer where its suggestions come from, and where goes what is sent."""
        self.composer.where = lambda: self.doing.target
        self.composer.set_completers({"/": self._complete_slash, "@": self._complete_file})

    async def _complete_slash(self, query: str) -> list[Suggestion]:
        found = slash.suggestions(query, self.doing.commands, tuple(self.available_themes), self.doing.models)
        name, blank, typed = query.partition(" ")
        if found or not blank or self.doing.session_id is None or slash.find(name, self.doing.commands) is not None:
            return found
        extension, _, short = name.rpartition(".")
        try:
            reply = await self.doing.client.complete_command(
                self.doing.session_id, short, typed, extension=extension or None
            )
        except sc.SessionCoreError:
            return []
        return [
            Suggestion(value=f"{name} {each.value}", label=each.value, detail=each.description)
            for each in reply.completions
        ]

    async def _complete_file(self, query: str) -> list[Suggestion]:
        try:
            reply = await self.doing.find_files(query)
        except sc.SessionCoreError:
            return []
        return [Suggestion(value=path) for path in reply]

    # --- sessions -----------------------------------------------------------------------------------------------------

    def action_sessions(self) -> None:
        """Choose a session."""
        choices = pickers.session_choices(
            self._fleet(), here=self.options.cwd, viewed=self.doing.session_id, now_ms=now_ms()
        )
        self.ask(Picker("Sessions", choices), self._open)

    def _fleet(self) -> sc.FleetState:
        """Return the list of sessions.

        Raises:
            Disconnected: It is not there yet.
        """
        if self.desk.fleet is None:
            raise sc.Disconnected(NOT_YET)
        return self.desk.fleet

    def _open(self, session_id: sc.SessionId) -> None:
        """View a session, and have it back if it was put away."""
        summary = self._fleet().sessions.get(session_id)
        if summary is not None and summary.archived:
            self.carry_out(self.doing.client.restore_session(session_id))
        self.view(session_id)
        self.composer.focus()

    def _name_of(self, session_id: sc.SessionId) -> str:
        summary = self._fleet().sessions.get(session_id)
        return summary.name if summary is not None else ""

    def action_rename(self, name: str = "") -> None:
        """Give the viewed session another name."""
        session_id = self.doing.viewed_session()
        if name.strip():
            self.carry_out(self.doing.client.rename_session(session_id, name.strip()))
        else:
            self.ask_name(session_id)

    def ask_name(self, session_id: sc.SessionId) -> None:
        """Ask for another name of a session."""

        def named(name: str) -> None:
            self.carry_out(self.doing.client.rename_session(session_id, name.strip()))

        self.ask(Asker("Name of the session", self._name_of(session_id), check=_not_empty), named)

    def action_archive(self) -> None:
        """Put the viewed session away."""
        self.archive(self.doing.viewed_session())

    def archive(self, session_id: sc.SessionId) -> None:
        """Put a session away."""
        self.carry_out(self._archive(session_id))

    async def _archive(self, session_id: sc.SessionId) -> None:
        name = inert_line(self._name_of(session_id), _NAME_CHARS) or "the session"
        await self.doing.client.archive_session(session_id)
        if session_id == self.doing.session_id:
            self.view(None)
        self.tell(f"{name} is put away; /sessions brings it back")

    def action_delete(self) -> None:
        """Remove the viewed session."""
        self.ask_delete(self.doing.viewed_session())

    def ask_delete(self, session_id: sc.SessionId) -> None:
        """Remove a session for good, if that is really wanted."""
        name = inert_line(self._name_of(session_id), _NAME_CHARS) or session_id
        question = f'Delete "{name}" for good? What runs in it is stopped.'
        self.confirm(question, lambda: self.carry_out(self._delete(session_id)))

    async def _delete(self, session_id: sc.SessionId) -> None:
        await self.doing.client.delete_session(session_id)
        if session_id == self.doing.session_id:
            self.view(None)

    # --- settings -----------------------------------------------------------------------------------------------------

    def action_model(self, model: str = "") -> None:
        """Choose a model."""
        known, target = self.doing.models, self.doing.target
        if not model:
            picker = Picker("Model", self.doing.model_choices)
            self.ask(picker, lambda name: self.carry_out(self.doing.use_model(name, target)))
        elif self.doing.session_id is None and known and model not in known:  # of a session, the service knows better
            self.tell(f"there is no model {model!r}; /model shows them", "warning")
        else:
            self.carry_out(self.doing.use_model(model, target))

    def action_tier(self, tier: str = "") -> None:
        """Choose what needs a yes."""
        wanted = next((each for each in get_args(sc.PermissionTier) if each == tier.replace("-", "_")), None)
        if tier and wanted is None:
            known = ", ".join(each.replace("_", "-") for each in get_args(sc.PermissionTier))
            self.tell(f"{tier!r} is none of {known}", "warning")
        elif wanted is not None:
            self.carry_out(self.doing.use_tier(wanted, self.doing.target))
        else:
            state = self.doing.state
            current = state.settings.permission_tier if state is not None else self.doing.draft.tier

            self.ask(Picker("What needs a yes", pickers.tier_choices(current)), self.action_tier)

    def action_thinking(self, how: str = "") -> None:
        """Choose how much the model reasons."""
        wanted = next((each for each in get_args(sc.Thinking) if each == how), None)
        if how and wanted is None:
            self.tell(f"{how!r} is none of {', '.join(get_args(sc.Thinking))}", "warning")
        elif wanted is not None:
            self.carry_out(self.doing.think(wanted, self.doing.target))
        else:
            state = self.doing.state
            current = state.settings.thinking if state is not None else self.doing.draft.thinking

            self.ask(Picker("Thinking", pickers.thinking_choices(current)), self.action_thinking)

    def action_theme(self, name: str = "") -> None:
        """Choose the colours."""
        if name and name not in self.available_themes:
            self.tell(f"there is no theme {name!r}; /theme shows them", "warning")
        elif name:
            self.use_theme(name)
        else:
            choices = pickers.theme_choices(self.available_themes, self.theme)
            self.ask(Picker("Theme", choices), self.use_theme)

    # --- screens ------------------------------------------------------------------------------------------------------

    def action_help(self) -> None:
        """Show all keys and commands."""
        _ = self.push_screen(HelpScreen(self.doing.commands))

    def action_usage(self) -> None:
        """Show what the viewed session has used."""
        state = self.doing.state
        if state is None:
            self.tell("there is no session yet", "warning")
        else:
            _ = self.push_screen(UsageScreen(state))

    def action_search(self, words: str = "") -> None:
        """Search what was said in all sessions."""

        def found(hit: sc.SearchHit) -> None:
            self._open(hit.session_id)
            self.carry_out(self.doing.show_message(hit.message_id))

        self.ask(SearchScreen(self.doing.search, words), found)

    def action_extensions(self) -> None:
        """See the extensions, and do something about one."""
        choices = pickers.extension_choices(self._fleet().extensions.values())
        if choices:
            self.ask(Picker("Extensions", choices), self._about_extension)
        else:
            self.tell("there are no extensions; see: session-core ext --help")

    def _about_extension(self, extension: sc.ExtensionInfo) -> None:
        def chosen(what: str) -> None:
            client = self.doing.client
            todo = {
                "reload": client.reload_extension,
                "enable": client.enable_extension,
                "disable": client.disable_extension,
            }
            self.carry_out(todo[what](extension.name, folder=extension.folder))

        self.ask(Picker(extension.name, pickers.extension_deeds(extension)), chosen)

    def action_login(self, provider: str = "") -> None:
        """Log in to a provider of an extension."""
        target = self.doing.target
        if provider:
            self.carry_out(self.doing.login(provider, target))
            return
        providers = [name for each in self._fleet().extensions.values() for name in each.providers]
        if providers:
            picker = Picker("Log in to", [Choice(value=name, label=name) for name in providers])
            self.ask(picker, lambda name: self.carry_out(self.doing.login(name, target)))
        else:
            self.tell("no extension brings a provider")


def _not_empty(typed: str) -> str | None:
    return None if typed.strip() else "it needs a name; Esc leaves it as it is"
