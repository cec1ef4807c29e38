"""The terminal application: what it is made of, when it is drawn, and what keys and clicks mean.

Rules:
1. The first frame waits for nothing: the service is found or started while something is already visible.
2. Widgets receive states, and post messages or call what they were given; they never call the service.
3. Actions belong to the objects that the app owns. They know a `TerminalContext`, and not the app.
4. However much happens, the screen is drawn at most once per `FRAME_S`.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any, ClassVar, Final, TypeVar

from textual.actions import ActionParseResult, parse
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.dom import DOMNode
from textual.events import Event, Key, Paste, Resize
from textual.filter import LineFilter, Monochrome, NoColor
from textual.message import Message
from textual.timer import Timer

import session_core as sc
from frontends.terminal.actions import slash_commands
from frontends.terminal.actions.history_actions import HistoryActions
from frontends.terminal.actions.message_actions import MessageActions
from frontends.terminal.actions.session_actions import SessionActions
from frontends.terminal.actions.session_choices import SessionChoices
from frontends.terminal.actions.settings_actions import SettingsActions
from frontends.terminal.actions.stop_and_quit import StopAndQuit
from frontends.terminal.backend import ServiceLocation
from frontends.terminal.composer.completion import ParsedInput
from frontends.terminal.composer.composer import Composer
from frontends.terminal.composer.drafts import PromptSubmission
from frontends.terminal.composer.keys import TABLE
from frontends.terminal.composer.prompt_history import FILE_NAME
from frontends.terminal.connection import ServiceConnection
from frontends.terminal.context import COPY_CHARS, TerminalContext
from frontends.terminal.feeds import TerminalState, Topic
from frontends.terminal.look.no_colour import ColourlessFilter, colour_is_unwanted
from frontends.terminal.look.sanitised_text import SANITISING_FILTER, make_copyable
from frontends.terminal.look.styles import Look
from frontends.terminal.look.themes import DEFAULT, THEMES
from frontends.terminal.main_view import MainView
from frontends.terminal.options import TerminalOptions
from frontends.terminal.panels.extension_widgets import WidgetPanel
from frontends.terminal.panels.message_queue import QueuePanel
from frontends.terminal.panels.panel import PanelLeft
from frontends.terminal.panels.shortcut_keys import usable_shortcuts
from frontends.terminal.panels.sidebar import Sidebar, SidebarAction
from frontends.terminal.questions.panel import RequestPanel
from frontends.terminal.transcript.view import Transcript

log = logging.getLogger(__name__)

M = TypeVar("M", bound=Message)

FRAME_S: Final = 1 / 30
"""Seconds between two frames: smooth to the eye, and little work even while many sessions stream."""
_GOING: Final = ("sidebar", "focus_transcript", "focus_queue", "focus_request", "focus_widgets")
"""Actions whose keys take priority over all others: what is typed right after them must reach the new focus."""


class TerminalApp(App[None]):
    """One terminal.

    Attributes:
        fault: Why the terminal closed, if it was not the user who closed it.
    """

    TITLE = "session-core"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #main { height: 1fr; }
    #conversation { width: 1fr; height: 1fr; }
    #side { display: none; }
    #side.open { display: block; }
    Transcript { height: 1fr; }
    * { scrollbar-color: $foreground 25%; scrollbar-color-hover: $foreground 45%; scrollbar-color-active: $primary;
        scrollbar-background: $background; scrollbar-background-hover: $background;
        scrollbar-background-active: $background; }
    Input > .input--placeholder { color: $text-muted; }
    TerminalApp:nocolor OptionList > .option-list--option-highlighted { background: #808080; }
    TerminalApp:nocolor * { scrollbar-color: $foreground; }
    Screen.asking ToastRack, ModalScreen ToastRack { dock: top; align: right top; margin-bottom: 0; }
    Screen.asking Toast { margin-top: 0; padding: 0 1; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "escape", "stop", priority=False),
        Binding("ctrl+c", "interrupt", "leave", priority=True),
        Binding("ctrl+d", "leave_if_empty", "leave", show=False),
        Binding("f1", "help", "help"),
        Binding("f2", "sidebar", "sessions", priority=True),
        Binding("f3", "search", "search"),
        Binding("f4", "model", "model"),
        Binding("f5", "mode", "permissions"),
        Binding("f6", "focus_transcript", "conversation", priority=True),
        Binding("f7", "focus_queue", "queue", priority=True),
        Binding("f8", "focus_request", "question", priority=True),
        Binding("f9", "focus_widgets", "extension widgets", priority=True),
        Binding("alt+p", "toggle_plan", "the plan"),
        Binding("alt+n", "new", "new session"),
        Binding("alt+up,ctrl+pageup", "switch(-1)", "previous session", show=False),
        Binding("alt+down,ctrl+pagedown", "switch(1)", "next session", show=False),
        *(Binding(f"alt+{number}", f"switch_to({number})", show=False) for number in range(1, 10)),
        Binding("ctrl+o", "expand", "expand all"),
        Binding("pageup", "page(-1)", show=False),
        Binding("pagedown", "page(1)", show=False),
        Binding("ctrl+home", "oldest", show=False),
        Binding("ctrl+end", "newest", show=False),
    ]

    def __init__(self, place: ServiceLocation, options: TerminalOptions) -> None:
        super().__init__()
        self.no_color = colour_is_unwanted()  # Textual also counts an empty `NO_COLOR`
        for theme in THEMES:
            self.register_theme(theme)
        self.look = Look.from_theme(self.current_theme, colour=not self.no_color)
        self.colourless = ColourlessFilter.from_theme(self.current_theme)
        self.fault: str | None = None
        self.feeds = TerminalState(self.redraw)
        self.composer = Composer(
            self.submit, get_target=lambda: self.current.target, history=options.home / FILE_NAME, id="composer"
        )
        context = TerminalContext(self, options, self.feeds, self.composer, self.redraw)
        self.context, self.current = context, context.current
        self.choices = SessionChoices(context, tuple(self.available_themes))
        self.main = MainView(self, context, self.choices, self.look)
        self.feeds.handle_event = self.main.note_event
        self.connection = ServiceConnection(self, context, place)
        self.sessions = SessionActions(context, self.main, self.choices.load)
        self.messages = MessageActions(context, self.sessions)
        self.history = HistoryActions(context, self.sessions)
        self.settings = SettingsActions(self, context, self.sessions, self.choices)
        self.stopping = StopAndQuit(self, context)
        self.composer.set_completers({"/": self.choices.complete_slash, "@": self.choices.complete_file})
        self._acts: dict[type[Message], Callable[[Any], object]] = {}
        self._act_on_messages()
        self._typed_ahead: list[Event] | None = []
        self._extensions: tuple[sc.extensions.ExtensionInfo, ...] = ()
        self._dirty: set[Topic] = set()
        self._frame: Timer | None = None

    # --- the screen ---------------------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        """Compose the screen."""
        yield from self.main.compose()

    def get_line_filters(self) -> list[LineFilter]:
        """Add the last line of defence: nothing that a widget draws can control the terminal."""
        if self.no_color:
            return [self.colourless, SANITISING_FILTER]
        theirs = [each for each in super().get_line_filters() if not isinstance(each, Monochrome | NoColor)]
        return [*theirs, SANITISING_FILTER]

    def on_mount(self) -> None:
        """Start the app."""
        wanted = self.context.options.theme or self.context.preferences.theme
        self.theme = wanted if wanted in self.available_themes else DEFAULT
        if wanted is not None and wanted not in self.available_themes:
            self.context.tell(f"there is no theme {wanted!r}; /theme shows them", "warning")
        self.main.make_room(self.size.width)
        self.composer.focus()
        self.set_interval(1.0, self.main.tick)
        self.redraw()
        self.connection.start()
        self.call_after_refresh(self._read_typed_ahead)

    def watch_theme(self) -> None:
        """Redraw in the colours of the new theme."""
        self.look = Look.from_theme(self.current_theme, colour=not self.no_color)
        self.colourless = ColourlessFilter.from_theme(self.current_theme)
        self.main.set_look(self.look)

    def on_resize(self, event: Resize) -> None:
        """Adapt to the new size."""
        if self.main.is_complete:
            self.main.make_room(event.size.width)
        self.redraw("session")

    def redraw(self, *topics: Topic) -> None:
        """Redraw some topics with the next frame; without any, everything."""
        self._dirty.update(topics or ("connection", "session_list", "session"))
        if self._frame is None and self.is_running:
            self._frame = self.set_timer(FRAME_S, self._draw_frame)

    def _draw_frame(self) -> None:
        self._frame = None
        dirty, self._dirty = self._dirty, set()
        if self.main.is_complete:
            self.draw(dirty)

    def draw(self, topics: set[Topic]) -> None:
        """Draw what has changed, and do what has to be done about it."""
        if "connection" in topics:
            self.connection.revive_if_gone()
        if "session_list" in topics and self.feeds.session_list is not None:
            self.sessions.forget_deleted()
            self.messages.begin()
            extensions = tuple(self.feeds.session_list.extensions.values())
            if extensions != self._extensions:  # they start, end and change while the terminal is open
                self._extensions = extensions
                self.choices.load()
        self.main.draw(topics)

    def copy_to_clipboard(self, text: str) -> None:
        """Copy a text to the clipboard, stripped of anything that could control the program it is pasted into."""
        super().copy_to_clipboard(make_copyable(text[:COPY_CHARS]))

    def _fatal_error(self) -> None:
        """Close after an internal error; the traceback goes to the log and is not printed."""
        error = sys.exception()
        self.fault = f"{type(error).__name__}: {error}"
        log.error("the terminal failed", exc_info=error)
        self._close_messages_no_wait()

    def lines_on_screen(self) -> Iterable[str]:
        """Return the text of the screen, for tests and for copying."""
        return (strip.text for strip in self.screen._compositor.render_strips())  # noqa: SLF001 - there is no other way

    # --- what the widgets tell ----------------------------------------------------------------------------------------

    def _when(self, kind: type[M], act: Callable[[M], object]) -> None:
        self._acts[kind] = act

    def _act_on_messages(self) -> None:
        """Fill the table of handlers, one for each message that a widget posts."""
        when, context, start, current = self._when, self.context, self.context.start, self.current
        here, reopen = current.require_drawn, self.main.requests.reopen
        when(
            RequestPanel.Answered,
            lambda it: start(
                self.messages.answer(here(), it.request, it.answer), undo=lambda: reopen(it.request.request_id)
            ),
        )
        # A panel that was left while the terminal is closing finds no composer to go back to.
        when(PanelLeft, lambda _: self.main.is_complete and self.composer.focus())
        when(
            WidgetPanel.WidgetKeyPressed,
            lambda it: start(context.client.press_widget_key(here(), it.extension, it.widget_id, it.key)),
        )
        when(QueuePanel.QueueActionWanted, lambda it: self.messages.act_on_queued(it.action, it.item))
        when(
            QueuePanel.QueueMoveRequested,
            lambda it: start(context.client.reorder_queue(here(), it.item_ids), undo=self.main.queue.restore_order),
        )
        when(Transcript.OlderWanted, lambda _: self.feeds.viewed and start(self.feeds.load_older(self.feeds.viewed)))
        when(Transcript.EditWanted, lambda it: self.history.edit(current.find_message(it.block.message_id)))
        when(Transcript.BranchWanted, lambda it: self.history.switch_branch_at(it.block.message_id))
        when(Transcript.CopyWanted, lambda it: self.context.copy(it.text))
        when(Transcript.OpenWanted, lambda it: self.sessions.go_to(it.session_id))
        sessions: dict[SidebarAction, Callable[[sc.SessionId], object]] = {
            "view": self.sessions.view_from_sidebar,
            "rename": lambda session_id: self.sessions.action_rename(session_id=session_id),
            "archive": self.sessions.action_archive,
            "delete": self.sessions.action_delete,
            "stop": self.stopping.action_stop,
            "stop_subtree": self.stopping.action_stop_all,
        }
        when(Sidebar.ActionWanted, lambda it: sessions[it.action](it.session_id))
        when(Sidebar.NewWanted, lambda _: self.sessions.action_new())

    # --- keys ---------------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the keys that focus a part of the main screen while another screen covers it."""
        return self.screen is self.main.screen or action not in _GOING

    async def on_event(self, event: Event) -> None:
        """Buffer keys and pastes until there is an input for them."""
        if isinstance(event, Key | Paste):
            self.context.typed_at = event.time
        if self._typed_ahead is not None and isinstance(event, Key | Paste):
            self._typed_ahead.append(event)
        else:
            await super().on_event(event)

    def _read_typed_ahead(self) -> None:
        typed, self._typed_ahead = self._typed_ahead or [], None
        for event in typed:
            # Before we took over, the terminal turned Enter into a newline.
            was_enter = isinstance(event, Key) and event.key == "ctrl+j"
            self.post_message(Key("enter", "\r") if was_enter else event)

    def find_action(self, name: str) -> Callable[..., object] | None:
        """Return what an action does, if it belongs to one of the objects that the app owns."""
        actions = self.sessions, self.history, self.settings, self.stopping, self.connection
        owners = *actions, self.main, self.main.transcript, self.main.plan, self.main.requests
        return next((found for each in owners if (found := getattr(each, f"action_{name}", None)) is not None), None)

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Run the action of a key, and show its errors."""
        _, name, arguments = parse(action) if isinstance(action, str) else action
        found = self.find_action(name) if default_namespace is self else None
        try:
            if found is None:
                return await super().run_action(action, default_namespace, namespaces)
            if allowed := bool(self.check_action(name, arguments)):
                found(*arguments)
            return allowed
        except sc.SessionCoreError as error:
            self.context.tell(error.message, "error")
            return True

    async def _dispatch_message(self, message: Message) -> None:
        """Handle a message of a widget, and show its errors."""
        with self.context.reporting_errors():
            if (act := self._acts.get(type(message))) is not None:
                act(message)
            else:
                await super()._dispatch_message(message)

    def on_key(self, event: Key) -> None:
        """Run the extension command bound to a key that nothing else handled."""
        extensions = [each for each in self.current.extensions if each.shortcuts]
        if not extensions or self.screen is not self.main.screen:
            return
        bound = usable_shortcuts(extensions, _bound_keys()).get(event.key)
        if bound is not None:
            event.stop()
            command = ".".join(bound)
            self.context.start(self.messages.run_command(command, "", self.current.target))

    # --- the composer -------------------------------------------------------------------------------------------------

    def submit(self, entered: ParsedInput, submission: PromptSubmission) -> None:
        """Do what was typed; if it needs a service, one that is gone is started again first."""
        if entered.kind == "command":
            with self.context.reporting_errors():
                self._run_slash_command(entered.text, entered.arguments, submission)
            return
        self.connection.action_reconnect()
        if not submission.text and not submission.attached:
            return
        if self.current.target.is_same(submission.target):
            self.main.transcript.action_newest()
        if entered.kind == "shell":
            work = self.messages.run_line(entered.text, submission.target)
        else:
            work = self.messages.send(submission)
        self.context.start(work, undo=partial(self.sessions.restore, submission))

    def _run_slash_command(self, name: str, arguments: str, submission: PromptSubmission) -> None:
        """Run the command typed after `/`: our own commands first, then those of extensions."""
        brought = self.choices.commands
        command = slash_commands.find_command(name, brought)
        restore = partial(self.sessions.restore, submission)
        refused: str | None = None
        if command is not None:
            refused = slash_commands.check_arguments(command, arguments)
        elif slash_commands.is_extension_command(name, brought):
            self.context.start(self.messages.run_command(name, arguments, submission.target), undo=restore)
        else:
            refused = slash_commands.describe_unknown(name, brought)
        if refused is not None:
            self.context.tell(refused, "warning")
            restore()
        elif command is not None and (action := self.find_action(command.action)) is not None:
            action(*command.arguments_of(arguments))


def _bound_keys() -> list[str]:
    """Return the keys that are already bound, in the app and in the composer."""
    bindings = (each for kind in TerminalApp.__mro__ for each in vars(kind).get("BINDINGS", ()))
    ours = [each.key if isinstance(each, Binding) else each[0] for each in bindings]
    return [*ours, *(key for row in TABLE for key in row.keys.split())]
