"""Settings of the viewed session and of the terminal: the actions behind `/` commands and function keys."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import anyio.to_thread
import attrs
from textual.app import App

import session_core as sc
from frontends.terminal.actions.session_actions import SessionActions
from frontends.terminal.actions.session_choices import SessionChoices
from frontends.terminal.context import TerminalContext
from frontends.terminal.destination import MessageTarget
from frontends.terminal.feeds import NOT_YET
from frontends.terminal.screens import picker_choices
from frontends.terminal.screens.help_page import HelpScreen
from frontends.terminal.screens.picker import LineInputScreen, Picker, PickerChoice
from frontends.terminal.screens.usage import UsageScreen


@attrs.define(eq=False)
class SettingsActions:
    """Actions on settings and extensions, and pages about them."""

    _app: App[None]
    _context: TerminalContext
    _sessions: SessionActions
    _choices: SessionChoices

    # --- the viewed session -------------------------------------------------------------------------------------------

    def action_model(self, model: str = "") -> None:
        """Choose a model."""
        known, current, target = self._choices.models, self._context.current, self._context.current.target
        if not model:
            picker = Picker("Model", self._choices.model_choices)
            self._context.ask(picker, lambda name: self._context.start(self._use_model(name, target)))
        elif current.session_id is None and known and model not in known:  # of an existing session, the service decides
            self._context.tell(f"there is no model {model!r}; /model shows them", "warning")
        else:
            self._context.start(self._use_model(model, target))

    async def _use_model(self, model: str, target: MessageTarget) -> None:
        session_id = await target.change_new(model=model)
        self._context.redraw()
        if session_id is not None:
            reply = await self._context.client.switch_model(session_id, model)
            if reply.effective != "now":
                self._context.tell(f"{model} answers from the next step on")

    def action_mode(self, mode: str = "") -> None:
        """Choose the permission mode."""
        current = self._context.current
        wanted = next((each for each in get_args(sc.PermissionMode) if each == mode.replace("-", "_")), None)
        if wanted is not None:
            self._context.start(self._use_mode(wanted, current.target))
        elif mode:
            known = ", ".join(each.replace("_", "-") for each in get_args(sc.PermissionMode))
            self._context.tell(f"{mode!r} is not one of {known}", "warning")
        else:
            used = current.state.settings.permission_mode if current.state is not None else current.draft.mode
            self._context.ask(Picker("What needs approval", picker_choices.mode_choices(used)), self.action_mode)

    async def _use_mode(self, mode: sc.PermissionMode, target: MessageTarget) -> None:
        session_id = await target.change_new(mode=mode)
        self._context.redraw()
        if session_id is not None:
            await self._context.client.change_permission_mode(session_id, mode)

    def action_thinking(self, how: str = "") -> None:
        """Choose how much the model reasons."""
        current = self._context.current
        wanted = next((each for each in get_args(sc.Thinking) if each == how), None)
        if wanted is not None:
            self._context.start(self._use_thinking(wanted, current.target))
        elif how:
            self._context.tell(f"{how!r} is not one of {', '.join(get_args(sc.Thinking))}", "warning")
        else:
            used = current.state.settings.thinking if current.state is not None else current.draft.thinking
            self._context.ask(Picker("Thinking", picker_choices.thinking_choices(used)), self.action_thinking)

    async def _use_thinking(self, thinking: sc.Thinking, target: MessageTarget) -> None:
        session_id = await target.change_new(thinking=thinking)
        self._context.redraw()
        if session_id is not None:
            if target.new.model is None:  # just created; its model is not known yet
                raise sc.Disconnected(NOT_YET)
            await self._context.client.switch_model(session_id, target.new.model, thinking=thinking)

    def action_change_directory(self, directory: str = "") -> None:
        """Change the working directory."""
        target = self._context.current.target

        def change_to(name: str) -> None:
            if name.strip():
                self._context.start(self._use_folder(name.strip(), target))

        if directory:
            change_to(directory)
        else:
            self._context.ask(LineInputScreen("Work in which folder?", target.new.cwd), change_to)

    async def _use_folder(self, typed: str, target: MessageTarget) -> None:
        await target.wait_decided()
        path = str(await anyio.to_thread.run_sync(_folder, target.new.cwd, typed))
        session_id = await target.change_new(cwd=path)
        self._context.redraw()
        if session_id is not None:
            await self._context.client.change_working_directory(session_id, path)

    # --- the terminal -------------------------------------------------------------------------------------------------

    def action_theme(self, name: str = "") -> None:
        """Choose a theme."""
        if name and name not in self._choices.themes:
            self._context.tell(f"there is no theme {name!r}; /theme shows them", "warning")
        elif name:
            self._app.theme = name
            self._context.remember(theme=name)
        else:
            choices = picker_choices.theme_choices(self._choices.themes, self._app.theme)
            self._context.ask(Picker("Theme", choices), self.action_theme)

    def action_help(self) -> None:
        """Show all keys and commands."""
        _ = self._app.push_screen(HelpScreen(self._choices.commands))

    def action_usage(self) -> None:
        """Show the usage of the viewed session."""
        state = self._context.current.state
        if state is None:
            self._context.tell("there is no session yet", "warning")
        else:
            _ = self._app.push_screen(UsageScreen(state))

    # --- extensions ---------------------------------------------------------------------------------------------------

    def action_extensions(self) -> None:
        """Show the extensions, and act on one."""
        choices = picker_choices.extension_choices(self._context.session_list.extensions.values())
        if choices:
            self._context.ask(Picker("Extensions", choices), self._ask_about_extension)
        else:
            self._context.tell("there are no extensions; see: session-core ext --help")

    def _ask_about_extension(self, extension: sc.extensions.ExtensionInfo) -> None:
        def apply_choice(what: str) -> None:
            client = self._context.client
            todo = {
                "reload": client.reload_extension,
                "enable": client.enable_extension,
                "disable": client.disable_extension,
            }
            self._context.start(todo[what](extension.name, folder=extension.folder))

        self._context.ask(Picker(extension.name, picker_choices.extension_actions(extension)), apply_choice)

    def action_login(self, provider: str = "") -> None:
        """Log in to a provider of an extension."""
        target = self._context.current.target
        if provider:
            self._context.start(self._login(provider, target))
            return
        providers = [name for each in self._context.session_list.extensions.values() for name in each.providers]
        if providers:
            picker = Picker("Log in to", [PickerChoice(value=name, label=name) for name in providers])
            self._context.ask(picker, lambda name: self._context.start(self._login(name, target)))
        else:
            self._context.tell("no extension provides a login")

    async def _login(self, provider: str, target: MessageTarget) -> None:
        session_id = await self._sessions.ensure(target)
        await self._context.client.login_to_provider(session_id, provider)
        self._context.tell(f"logged in to {provider}")


def _folder(base: str, typed: str) -> Path:
    """Return the folder that was typed."""
    path = Path(base, Path(typed).expanduser()).resolve()
    if not path.is_dir():
        raise sc.InvalidInput(f"{str(path)!r} is not a folder", field="cwd")
    return path
