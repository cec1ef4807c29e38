"""Taking over the terminal and restoring it: type-ahead, signals, and a terminal that was closed.

Rules:
1. Keys typed while the program starts are kept for it and not echoed.
2. On a signal to end, the process exits at once and restores the terminal; background work continues.
3. Nothing can prevent that. A closed terminal accepts no output, and a write to it may block for ever, so a separate
   thread ends the process after a moment and restores a terminal that is still there.
"""

import os
import signal
import sys
import termios
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import attrs

if TYPE_CHECKING:
    from textual.app import App

SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)
GRACE_S: Final = 3.0
"""How long an orderly exit may take."""
_AGAIN_S: Final = 0.05
_EXIT_SIGNAL: Final = 128
_RESET_SCREEN: Final = b"".join(
    b"\x1b[" + each
    for each in (b"?2026l", b"?1000l", b"?1003l", b"?1015l", b"?1006l", b"?2004l", b"?1004l", b"<u", b"?1049l", b"?25h")
)
"""What Textual sends on exit: end synchronized output, mouse, bracketed paste and key modes; show the main screen."""
_INPUT, _LOCAL = 0, 3  # indexes into the result of `tcgetattr`


@contextmanager
def acquire_terminal() -> Generator["TerminalGuard"]:
    """Take over keyboard and signals for the duration of the block, and restore the terminal afterwards."""
    leaving = TerminalGuard(_settings())
    before = {number: signal.signal(number, leaving.handle_signal) for number in SIGNALS}
    try:
        if leaving.saved_settings is not None:
            _apply_settings(_without_echo(leaving.saved_settings))
        yield leaving
    finally:
        leaving.restore_terminal()
        for number, handler in before.items():
            signal.signal(number, handler)


@attrs.define(eq=False)
class TerminalGuard:
    """Handles signals to end; `signal_number` is the one received, `saved_settings` the original terminal settings."""

    saved_settings: list[Any] | None
    signal_number: int | None = None
    _app: "App[Any] | None" = None
    _ended: threading.Event = attrs.field(factory=threading.Event)

    @property
    def exit_code(self) -> int | None:
        """The exit code if a signal asked for the end, else None."""
        return None if self.signal_number is None else _EXIT_SIGNAL + self.signal_number

    def attach_app(self, app: "App[Any]") -> None:
        """Direct signals to this app from now on."""
        self._app = app

    def handle_signal(self, number: int, _: FrameType | None) -> None:
        """End the app, and the process too if the app hangs; without an app, exit at once."""
        if self.signal_number is None:
            self.signal_number = number
            if self._app is None:
                raise SystemExit(self.exit_code)
            for act in (self._close, self._force_exit):
                threading.Thread(target=act, args=(self._app,), daemon=True).start()

    def restore_terminal(self) -> None:
        """Restore the terminal."""
        self._ended.set()
        if self.saved_settings is not None:
            _apply_settings(self.saved_settings)

    def _close(self, app: "App[Any]") -> None:
        while not self._ended.wait(_AGAIN_S):
            with suppress(RuntimeError):  # the app has not started yet
                app.call_from_thread(app.exit, return_code=self.exit_code)
                return

    def _force_exit(self, _: "App[Any]") -> None:
        if not self._ended.wait(GRACE_S):
            self.restore_terminal()
            _leave_screen()
            os._exit(self.exit_code or 1)


def _settings() -> list[Any] | None:
    try:
        return termios.tcgetattr(sys.stdin.fileno())
    except (termios.error, OSError, ValueError):
        return None


def _without_echo(found: list[Any]) -> list[Any]:
    """Return settings close to Textual's, as far as they matter before it starts; Ctrl+C still ends the program."""
    quiet = list(found)
    quiet[_INPUT] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR)
    quiet[_LOCAL] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN)
    return quiet


def _apply_settings(settings: list[Any]) -> None:
    with suppress(termios.error, OSError, ValueError):  # the terminal is gone
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, settings)


def _leave_screen() -> None:
    """Switch back to the main screen without blocking; reopen the terminal, as others share our descriptor."""
    with suppress(OSError, ValueError):  # the terminal is gone, or accepts no output
        terminal = os.open(os.ttyname(sys.stdin.fileno()), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
        try:
            os.write(terminal, _RESET_SCREEN)
        finally:
            os.close(terminal)
