"""The terminal application: what is on screen, when it is drawn, and what keys and clicks mean.

Rules:
1. The first frame waits for nothing: the service is found or started while something is already visible.
2. Widgets receive states and post messages; they never call the service. `service_actions` carries out the requests.
3. However much happens, the screen is drawn at most once per `FRAME_S`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from time import monotonic
from typing import ClassVar, Final

import anyio
import anyio.to_thread
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.events import Event, Key, Paste, Resize
from textual.filter import LineFilter, Monochrome, NoColor
from textual.geometry import Spacing

import session_core as sc
from frontends.terminal.actions.event_handlers import SIDEBAR_NEEDS, TerminalHandlers
from frontends.terminal.actions.history_actions import HistoryActions
from frontends.terminal.backend import ServiceLocation
from frontends.terminal.composer.composer import Composer
from frontends.terminal.composer.prompt_history import FILE_NAME
from frontends.terminal.feeds import Topic
from frontends.terminal.look.clock import now_ms
from frontends.terminal.look.sanitised_text import SANITISING_FILTER
from frontends.terminal.look.themes import DEFAULT, THEMES
from frontends.terminal.options import TerminalOptions
from frontends.terminal.panels.extension_widgets import WidgetPanel
from frontends.terminal.panels.message_queue import QueuePanel
from frontends.terminal.panels.plan import PlanPanel
from frontends.terminal.panels.sidebar import Sidebar
from frontends.terminal.panels.status_line import StatusLine
from frontends.terminal.panels.welcome import WelcomeView
from frontends.terminal.questions.panel import RequestPanel
from frontends.terminal.transcript.blocks import Block
from frontends.terminal.transcript.view import Transcript

_REVIVE_AFTER: Final = 2
"""Failed connection attempts after which the service is started again if it is gone."""
QUIET_S: Final = 1.0
"""Seconds without typing before a new question gets the focus."""
LOOK_EVERY_S: Final = 1.0
"""Seconds between two looks for a service that somebody else may have started: people notice no less."""
_GOING: Final = ("sidebar", "focus_transcript", "focus_queue", "focus_request", "focus_widgets")
"""Actions whose keys take priority over all others: what is typed right after them must reach the new focus."""


class TerminalApp(TerminalHandlers, HistoryActions):
    """One terminal.

    Attributes:
        quiet_s: Seconds without typing before a new question gets the focus.
        look_every_s: Seconds between two looks for a service while there is none.
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
        super().__init__(place, options)
        self._reviving = False
        self._has_room = False
        self._typed_ahead: list[Event] | None = []
        self._question_is_new = False
        self.quiet_s = QUIET_S
        self.look_every_s = LOOK_EVERY_S
        for theme in THEMES:
            self.register_theme(theme)

    # --- the screen ---------------------------------------------------------------------------------------------------

    def compose(self) -> ComposeResult:
        """Compose the screen."""
        with Horizontal(id="main"):
            yield Sidebar(id="side")
            with Vertical(id="conversation"):
                yield WelcomeView(id="welcome")
                yield Transcript(self.look, id="transcript")
                yield WidgetPanel(id="widgets")
                yield PlanPanel(id="plan")
                yield QueuePanel(id="queue")
                yield RequestPanel(id="request")
                yield Composer(self.submit, id="composer")
        yield StatusLine(id="status")

    def get_line_filters(self) -> list[LineFilter]:
        """Add the last line of defence: nothing that a widget draws can control the terminal."""
        if self.no_color:
            return [self.colourless, SANITISING_FILTER]
        theirs = [each for each in super().get_line_filters() if not isinstance(each, Monochrome | NoColor)]
        return [*theirs, SANITISING_FILTER]

    def on_mount(self) -> None:
        """Start the app."""
        wanted = self.options.theme or self.preferences.theme
        self.theme = wanted if wanted in self.available_themes else DEFAULT
        if wanted is not None and wanted not in self.available_themes:
            self.tell(f"there is no theme {wanted!r}; /theme shows them", "warning")
        self._make_room(self.size.width)
        self.composer.use_history(self.options.home / FILE_NAME)
        self.composer.focus()
        self.prepare_composer()
        self.set_interval(1.0, self._tick)
        self.schedule_draw("connection", "session_list", "session")
        self.run_worker(self._stay_connected(), group="service", exit_on_error=False)
        self.call_after_refresh(self._read_typed_ahead)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Disable the keys that focus a part of the main screen while another screen covers it."""
        return self.screen is self.screen_stack[0] or action not in _GOING

    async def on_event(self, event: Event) -> None:
        """Buffer keys and pastes until there is an input for them."""
        if isinstance(event, Key | Paste):
            self.typed_at = event.time
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

    # --- the service --------------------------------------------------------------------------------------------------

    async def _stay_connected(self) -> None:
        """Find or start the service, and stay connected until asked to end.

        A service that somebody has ended is not started again without being asked to; but as soon as one runs again,
        it is used.
        """
        try:
            address = await anyio.to_thread.run_sync(self.place.open, abandon_on_cancel=True)
            while True:
                self._show_failure(None)
                self._show_failure(await self.terminal_state.run(address))
                address = await self._wait_for_service()
        except sc.SessionCoreError as error:
            self._show_failure(error.message)
        except Exception as error:  # noqa: BLE001 - shown to the user, who may try again
            self._show_failure(f"{type(error).__name__}: {error}")

    async def _wait_for_service(self) -> Path:
        """Wait until somebody has started a service, and return its socket."""
        find = partial(anyio.to_thread.run_sync, self.place.find, abandon_on_cancel=True)
        while (address := await find()) is None:  # noqa: ASYNC110 - whoever starts one tells nobody here
            await anyio.sleep(self.look_every_s)
        return address

    def _show_failure(self, failure: str | None) -> None:
        self.failure = failure
        self.schedule_draw("connection", "session")

    def action_reconnect(self) -> None:
        """Find or start the service now after a failure."""
        if self.failure is not None:
            self._show_failure(None)
            self.run_worker(self._stay_connected(), group="service", exclusive=True, exit_on_error=False)

    async def _revive(self) -> None:
        """Start the service again if it is gone; the client reconnects on its own."""
        try:
            await anyio.to_thread.run_sync(self.place.open, abandon_on_cancel=True)
        except Exception as error:  # noqa: BLE001 - the next attempt may succeed
            self.tell(f"the service cannot be started again: {error}", "error")
        finally:
            self._reviving = False

    # --- drawing ------------------------------------------------------------------------------------------------------

    def draw(self, dirty: set[Topic]) -> None:
        """Draw what has changed."""
        now = now_ms()
        if "connection" in dirty:
            self._check_connection()
        if "session_list" in dirty and self.terminal_state.session_list is not None:
            self._draw_sessions(now)
            self.forget_deleted()
            self.service_actions.session_list_changed()
        if "session" in dirty:
            self._draw_session()
        self._draw_status(now)

    def _draw_sessions(self, now: int) -> None:
        if self.terminal_state.session_list is not None:
            viewed = self.terminal_state.viewed.session_id if self.terminal_state.viewed is not None else None
            side = self.screen_stack[0].query_one(Sidebar)
            side.show(self.terminal_state.session_list, viewed, here=self.options.cwd, now_ms=now)

    def _draw_session(self) -> None:
        main = self.screen_stack[0]
        viewed = self.terminal_state.viewed
        self.drawn_session_id = self.service_actions.session_id
        state = viewed.state if viewed is not None else None
        blocks: tuple[Block, ...] = ()
        if viewed is not None and state is not None and not viewed.is_deleted:
            blocks = viewed.blocks.build_blocks(state, self.service_actions.extensions)
        welcome = main.query_one(WelcomeView)
        welcome.display = not blocks
        default = self.service_actions.default_model
        welcome.show(
            viewed,
            self.failure,
            here=self.options.cwd,
            draft=self.service_actions.draft,
            default_model=default,
            embedded=self.options.embedded,
        )
        transcript = main.query_one(Transcript)
        transcript.display = bool(blocks)
        if viewed is not None:
            transcript.show(viewed.session_id, blocks)
        main.query_one(PlanPanel).show(state.plan if state is not None else ())
        main.query_one(QueuePanel).show(state.queue if state is not None else ())
        main.query_one(WidgetPanel).show(state.displays if state is not None else ())
        self._draw_requests(state)
        busy = state is not None and not state.activity.is_at_rest
        self.composer.show(busy=busy, placeholder=self.service_actions.placeholder())

    def _draw_requests(self, state: sc.SessionState | None) -> None:
        panel = self.request_panel
        asked_before = panel.has_question
        panel.show(
            state.approvals if state is not None else (),
            state.dialogs if state is not None else (),
            self.terminal_state.client.client_id if self.terminal_state.client is not None else sc.ClientId(""),
            subagent_names=self.service_actions.subagent_names(),
        )
        if panel.has_question and not asked_before:
            self._question_is_new = True
            self._go_to_question()
        self.screen_stack[0].set_class(panel.has_question, "asking")
        self.call_after_refresh(self._place_toasts)
        self.show_notices()

    def _go_to_question(self) -> None:
        """Focus a new question once the user has stopped typing, so it does not swallow letters of a message."""
        if not self._question_is_new or not self.is_fully_mounted:
            return
        wait_s = self.typed_at + self.quiet_s - monotonic()
        if not self.request_panel.has_question or not self.composer.is_empty or not self.composer.has_focus_within:
            self._question_is_new = False  # an open question shows that F8 focuses it
        elif wait_s > 0:
            self.set_timer(wait_s, self._go_to_question)
        else:
            self._question_is_new = False
            self.request_panel.focus_question()

    def _place_toasts(self) -> None:
        """Keep toasts above the composer, or hide them where there is no room."""
        if self.is_fully_mounted:
            panel = self.request_panel
            below = Spacing(bottom=0 if panel.has_question else self.size.height - self.composer.region.y)
            for rack in self.screen_stack[0].query("ToastRack"):
                # Setting it without need would leave removed toasts on the screen.
                if panel.has_question or rack.styles.max_height is not None:
                    rack.styles.max_height = panel.region.y if panel.has_question else None
                if rack.styles.margin != below:
                    rack.styles.margin = below

    def _draw_status(self, now: int) -> None:
        main = self.screen_stack[0]
        viewed = self.terminal_state.viewed
        main.query_one(StatusLine).show(
            connection=self.terminal_state.connection,
            state=viewed.state if viewed is not None else None,
            session_list=self.terminal_state.session_list,
            lag=viewed.recent_lag(now) if viewed is not None else None,
            now_ms=now,
            failure=self.failure,
            draft=self.service_actions.draft,
            following=main.query_one(Transcript).following,
        )

    def _tick(self) -> None:
        """Redraw whatever shows an elapsed time."""
        if not self.is_fully_mounted:
            return
        now = now_ms()
        self.screen_stack[0].query_one(Transcript).tick()
        self._draw_sessions(now)
        self._draw_status(now)
        self._place_toasts()
        self.show_notices()

    def _check_connection(self) -> None:
        connection = self.terminal_state.connection
        lost = connection is not None and connection.phase == "lost" and connection.attempt >= _REVIVE_AFTER
        if lost and not self._reviving:
            self._reviving = True
            self.run_worker(self._revive(), group="revive", exit_on_error=False)

    def on_resize(self, event: Resize) -> None:
        """Adapt to the new size."""
        if self.is_fully_mounted:
            self._make_room(event.size.width)
        self.schedule_draw("session")

    def _make_room(self, columns: int) -> None:
        """Show the session list automatically where there is room for it, and hide it where there is none."""
        has_room = columns >= SIDEBAR_NEEDS
        if has_room != self._has_room:
            self._has_room = has_room
            wanted = has_room and self.preferences.sidebar is not False
            self.screen_stack[0].query_one(Sidebar).set_class(wanted, "open")

    def lines_on_screen(self) -> Iterable[str]:
        """Return the text of the screen, for tests and for copying."""
        return (strip.text for strip in self.screen._compositor.render_strips())  # noqa: SLF001 - there is no other way
