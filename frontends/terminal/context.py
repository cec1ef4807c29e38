"""What the actions work with: the service, the viewed session, the input, background work, and the user."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, nullcontext
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio.to_thread
import attrs
from textual.app import App
from textual.notifications import SeverityLevel
from textual.screen import Screen

import session_core as sc
from frontends.terminal.composer.composer import Composer
from frontends.terminal.destination import CurrentSession
from frontends.terminal.feeds import NOT_YET, TerminalState
from frontends.terminal.look.sanitised_text import sanitise_line, sanitise_text
from frontends.terminal.options import TerminalOptions
from frontends.terminal.panels.notices import Notices
from frontends.terminal.preferences import load_preferences, save_preferences
from frontends.terminal.questions.key_guard import PATIENCE_S
from frontends.terminal.screens.picker import Confirmation

if TYPE_CHECKING:
    from frontends.client import SessionClient

T = TypeVar("T")

COPY_CHARS: Final = 100_000
"""The most characters copied at once; many terminals refuse more."""
LONG_S: Final = 1.0
"""Seconds after which a running operation is mentioned."""
AGAIN_S: Final = 10.0
"""Seconds between two such mentions."""
_MESSAGE_CHARS: Final = 2_000


class TerminalContext:
    """What every action may use.

    Attributes:
        options: The options from the command line.
        feeds: What is known of the service.
        current: The session that the user views.
        composer: The input for prompts.
        redraw: Redraws some topics with the next frame; without any, everything.
        notices: Notices of extensions that wait to be shown.
        preferences: What is remembered for the next run.
        typed_at: When the last key was pressed, not when it was handled: a busy machine makes no key late.
    """

    def __init__(
        self,
        app: App[None],
        options: TerminalOptions,
        feeds: TerminalState,
        composer: Composer,
        redraw: Callable[..., object],
    ) -> None:
        self._app = app
        self.options = options
        self.feeds = feeds
        self.current = CurrentSession(feeds, options)
        self.composer = composer
        self.redraw = redraw
        self.notices = Notices()
        self.preferences = load_preferences(options.home)
        self.typed_at = float("-inf")

    @property
    def client(self) -> SessionClient:
        """The client of the service.

        Raises:
            Disconnected: There is no connection yet.
        """
        if self.feeds.client is None:
            raise sc.Disconnected(NOT_YET)
        return self.feeds.client

    @property
    def session_list(self) -> sc.SessionListState:
        """The list of sessions.

        Raises:
            Disconnected: It has not loaded yet.
        """
        if self.feeds.session_list is None:
            raise sc.Disconnected(NOT_YET)
        return self.feeds.session_list

    def remember(self, **changes: Any) -> None:
        """Change the preferences, and save them for the next run."""
        self.preferences = attrs.evolve(self.preferences, **changes)

        async def save() -> None:
            await anyio.to_thread.run_sync(save_preferences, self.options.home, self.preferences)

        self._app.run_worker(save(), exit_on_error=False)

    # --- background work ----------------------------------------------------------------------------------------------

    def start(
        self, work: Coroutine[Any, Any, object], *, what: str = "", undo: Callable[[], object] | None = None
    ) -> None:
        """Do something slow in the background; on an error, show it and `undo` what was done ahead of it.

        With `what`, it is shown that the work is still running if it takes long.
        """

        async def report_errors() -> None:
            try:
                with self._show_progress(what) if what else nullcontext():
                    await work
            except sc.SessionCoreError as error:
                self.tell(error.message, "error")
            except Exception as error:  # noqa: BLE001 - shown to the user; the session goes on
                self.tell(f"unexpected error: {type(error).__name__}: {error}", "error")
            else:
                return
            if undo is not None:
                undo()

        self._app.run_worker(report_errors(), exit_on_error=False)

    @contextmanager
    def _show_progress(self, what: str) -> Iterator[None]:
        began = monotonic()

        def report_progress() -> None:
            self.tell(f"{what}… {round(monotonic() - began)} s", seconds=AGAIN_S)

        timers = self._app.set_timer(LONG_S, report_progress), self._app.set_interval(AGAIN_S, report_progress)
        try:
            yield
        finally:
            for each in timers:
                each.stop()

    @contextmanager
    def reporting_errors(self) -> Iterator[None]:
        """Show errors within the block to the user instead of closing the terminal."""
        try:
            yield
        except sc.SessionCoreError as error:
            self.tell(error.message, "error")

    # --- the user -----------------------------------------------------------------------------------------------------

    def tell(self, text: str, severity: SeverityLevel = "information", *, title: str = "", seconds: float = 6) -> None:
        """Show a text for some seconds."""
        self._app.notify(
            sanitise_text(text[:_MESSAGE_CHARS]),
            title=sanitise_line(title),
            severity=severity,
            timeout=seconds,
            markup=False,
        )

    def ask(self, screen: Screen[T | None], then: Callable[[T], object]) -> None:
        """Push a screen and pass the choice made there to `then`, unless the user leaves it."""

        def handle_choice(chosen: T | None) -> None:
            if chosen is not None:
                with self.reporting_errors():
                    then(chosen)

        _ = self._app.push_screen(screen, handle_choice)

    def confirm(self, question: str, then: Callable[[], object], *, sudden: bool = False) -> None:
        """Ask for confirmation of something dangerous; `sudden` marks a dialog that may open while the user types."""

        self.ask(Confirmation(question, patience_s=PATIENCE_S if sudden else 0), lambda sure: sure and then())

    def copy(self, text: str) -> None:
        """Copy a text to the clipboard, and show how much was copied."""
        self._app.copy_to_clipboard(text)
        much = f"{len(text):,}" if len(text) <= COPY_CHARS else f"the first {COPY_CHARS:,} of {len(text):,}"
        self.tell(f"{much} characters copied, if your terminal allows it")
