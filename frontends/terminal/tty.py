"""Taking the terminal and giving it back: typing ahead, signals, and a terminal that was closed.

Rules:
1. What is typed while the program starts is kept for it, and not shown in between.
2. Asked to end, the process ends at once and leaves the terminal as it was found; work in the background goes on.
3. Nothing can keep it from that: a terminal that is gone takes no more output, and whoever writes to it may wait for
   ever. So a thread of its own ends the process after a moment, and restores a terminal that is still there.
"""

import os
import signal
import sys
import termios
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NoReturn

import attrs

if TYPE_CHECKING:
    from textual.app import App

SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)
GRACE_S: Final = 3.0
"""How long an orderly end may take."""
_AGAIN_S: Final = 0.05
_EXIT_SIGNAL: Final = 128
_RESET_SCREEN: Final = b"".join(
    b"\x1b[" + each
    for each in (b"?2026l", b"?1000l", b"?1003l", b"?1015l", b"?1006l", b"?2004l", b"?1004l", b"<u", b"?1049l", b"?25h")
)
"""What Textual sends on exit: end synchronized output, mouse, bracketed paste and key modes; show the main screen."""
_INPUT, _LOCAL = 0, 3  # places in what `tcgetattr` returns


@contextmanager
def acquire_terminal() -> Generator["TerminalGuard"]:
    """Have the keys of the terminal, and mind signals, for the length of the block; it is given back as it was."""
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
    """Whether somebody has asked for the end; `number` is the signal, `found` how the terminal was."""

    saved_settings: list[Any] | None
    signal_number: int | None = None
    _app: "App[Any] | None" = None
    _ended: threading.Event = attrs.field(factory=threading.Event)

    @property
    def exit_code(self) -> int | None:
        """What to exit with if somebody has asked for the end, else None."""
        return None if self.signal_number is None else _EXIT_SIGNAL + self.signal_number

    def attach_app(self, app: "App[Any]") -> None:
        """From now on, whoever asks for the end means this app."""
        self._app = app

    def handle_signal(self, number: int, _: FrameType | None) -> None:
        """Have the app end, and the process too if the app does not; without an app there is nothing to wait for."""
        if self.signal_number is None:
            self.signal_number = number
            if self._app is None:
                self._leave()
            for act in (self._close, self._insist):
                threading.Thread(target=act, args=(self._app,), daemon=True).start()

    def restore_terminal(self) -> None:
        """Give the terminal back."""
        self._ended.set()
        if self.saved_settings is not None:
            _apply_settings(self.saved_settings)

    def _close(self, app: "App[Any]") -> None:
        while not self._ended.wait(_AGAIN_S):
            with suppress(RuntimeError):  # it has not begun yet
                app.call_from_thread(app.exit, return_code=self.exit_code)
                return

    def _insist(self, _: "App[Any]") -> None:
        if not self._ended.wait(GRACE_S):
            self.restore_terminal()
            _leave_screen()
            os._exit(self.exit_code or 1)

    def _leave(self) -> NoReturn:
        raise SystemExit(self.exit_code)


def _settings() -> list[Any] | None:
    try:
        return termios.tcgetattr(sys.stdin.fileno())
    except (termios.error, OSError, ValueError):
        return None


def _without_echo(found: list[Any]) -> list[Any]:
    """Keys as Textual wants them, as far as that matters before it is there; Ctrl+C still ends the program."""
    quiet = list(found)
    quiet[_INPUT] &= ~(termios.ICRNL | termios.INLCR | termios.IGNCR)
    quiet[_LOCAL] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN)
    return quiet


def _apply_settings(settings: list[Any]) -> None:
    with suppress(termios.error, OSError, ValueError):  # the terminal is gone
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSANOW, settings)


def _leave_screen() -> None:
    """Switch back to the main screen without blocking; reopen the terminal, as others share our descriptor."""
    with suppress(OSError, ValueError):  # the terminal is gone, or takes nothing
        terminal = os.open(os.ttyname(sys.stdin.fileno()), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)
        try:
            os.write(terminal, _RESET_SCREEN)
        finally:
            os.close(terminal)
