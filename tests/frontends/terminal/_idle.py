"""Waiting until an app has nothing left to do, however slow the machine is.

Textual's own pilot takes a process for idle that uses no processor; on busy cores that is also one that gets none. Here
an app is idle when its event loop has nothing to run, the picture is drawn, and no thread works for it. What somebody
else must do first (a service, a timer, a gate of the test) is not waited for: that needs a condition of its own.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import anyio
import anyio.lowlevel
import anyio.to_thread
from textual._context import active_app
from textual.app import App
from textual.pilot import Pilot
from textual.screen import Screen

from frontends.terminal import destination, feeds
from frontends.terminal.actions import stop_and_quit
from frontends.terminal.composer import attached_files

PATIENCE_S = 300
"""How long anything may take before it counts as missing; much longer than it takes on the busiest machine."""
_LOOK_S = 0.002
_TURNS = 4  # of the loop: the first ones also fetch what sockets, threads and timers have to say
_OUTSIDE = frozenset({"service", "revive"})  # workers whose threads look for the service


async def until(holds: Callable[[], object], what: str, seen: Callable[[], object] = str) -> None:
    """Wait until something is so; fails with what is `seen` if it never is."""
    with anyio.move_on_after(PATIENCE_S):
        while not holds():  # noqa: ASYNC110 - what is waited for tells nobody
            await anyio.sleep(_LOOK_S)
        return
    raise AssertionError(f"{what} has not come about; there is:\n{seen()}")


async def idle(app: App[Any]) -> None:
    """Wait until an app has done and drawn everything that it can without anybody else, or is being closed."""
    while app.is_running and app._exception is None:
        await _run_dry(app)
        if _works_in_a_thread(app) or _ticks(app):
            await anyio.sleep(_LOOK_S)
        elif app.screen_stack and _is_unfinished(app.screen):
            app.screen._on_timer_update()  # what Textual does at the next of its ticks
        else:
            return


async def workers_done(app: App[Any]) -> None:
    """Wait until nothing is done beside an app any more, and for the picture after it."""
    await idle(app)
    while any(not each.is_finished for each in app.workers):
        await anyio.sleep(_LOOK_S)
        await idle(app)


@contextmanager
def patient_pilots() -> Iterator[None]:
    """Have pilots wait until their app is idle, and what people and programs must do in time be done in time."""

    async def wait_for_idle(*_: float) -> None:
        await idle(active_app.get())

    async def wait_for_screen(pilot: Pilot[Any], timeout: float = 0) -> bool:  # noqa: ASYNC109 - as Textual has it
        await idle(pilot.app)
        return pilot.app._exception is None

    with (
        patch("textual.pilot.wait_for_idle", wait_for_idle),
        patch("textual.app.wait_for_idle", wait_for_idle),
        patch.object(Pilot, "_wait_for_screen", wait_for_screen),
        patch.object(stop_and_quit, "TWICE_S", PATIENCE_S),
        patch.object(stop_and_quit, "TYPED_TWICE_S", PATIENCE_S),
        patch.object(attached_files, "CLIPBOARD_S", PATIENCE_S),
        patch.object(feeds, "PATIENCE_S", PATIENCE_S),
        patch.object(destination, "PATIENCE_S", PATIENCE_S),
    ):
        yield


async def _run_dry(app: App[Any]) -> None:
    """Let the loop turn until nothing is left that it could run."""
    loop: Any = app._loop
    empty = 0
    while empty < _TURNS:
        await anyio.lowlevel.checkpoint()
        empty = 0 if loop._ready else empty + 1


def _works_in_a_thread(app: App[Any]) -> bool:
    outside = {id(each._task) for each in app.workers if each.group in _OUTSIDE}
    borrowers = anyio.to_thread.current_default_thread_limiter().statistics().borrowers
    return any(id(each) not in outside for each in borrowers)


def _ticks(app: App[Any]) -> bool:
    """Whether a timer of a few milliseconds draws next: our next picture, a new size, or what Textual holds back."""
    return getattr(app, "_frame", None) is not None or app._resize_event is not None or bool(app._batch_count)


def _is_unfinished(screen: Screen[Any]) -> bool:
    """Whether something is to be laid out, drawn, or done after that."""
    if not screen.is_current:
        return False
    wanted = (screen._layout_required, screen._scroll_required, screen._repaint_required, screen._recompose_required)
    return any(wanted) or bool(screen._dirty_widgets) or bool(screen._callbacks)
