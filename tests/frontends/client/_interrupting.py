"""An interrupt that comes while the main thread waits for something, and not a moment earlier."""

import signal
import sys
import threading
from collections.abc import Callable
from typing import Final

_LOOK_EVERY_S: Final = 0.005
_LOOKS: Final = 12_000


def interrupt_while_waiting(inside: str, first: Callable[[], object] = lambda: None) -> threading.Thread:
    """Interrupt the main thread as soon as it waits for a result in the function of this name.

    Args:
        inside: The function.
        first: Is called by then, before the interrupt.
    """
    pause = threading.Event()

    def interrupt() -> None:
        for _ in range(_LOOKS):
            if _waits_in(inside):
                first()
                signal.pthread_kill(_main(), signal.SIGINT)
                return
            pause.wait(_LOOK_EVERY_S)

    interrupting = threading.Thread(target=interrupt, name="interrupting")
    interrupting.start()
    return interrupting


def _waits_in(function: str) -> bool:
    frame = sys._current_frames().get(_main())
    names: list[str] = []
    while frame is not None and len(names) < 3:
        names.append(frame.f_code.co_name)
        frame = frame.f_back
    return ["wait", "result", function] == names


def _main() -> int:
    ident = threading.main_thread().ident
    assert ident is not None
    return ident
