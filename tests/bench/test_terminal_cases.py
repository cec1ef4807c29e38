"""The measurements of the terminal: real programs in real pseudo terminals, counted right, and gone afterwards."""

import math
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import attrs
import pytest

from bench import __main__ as program
from bench import store_material, terminal_long, terminal_start, terminal_streaming, terminal_window
from bench.measure import Result
from bench.server_driver import ROOT
from bench.terminal_streaming import Watched
from frontends.server.daemon.runtime_paths import service_process
from tests.frontends.server.daemon._service import runs

CURTAIN = "\\x1b[?2026h"  # begins a picture that is shown when it is whole
DRAWS_THREE = f"""
import os, sys, time, tty
tty.setraw(0)
say = lambda text: (sys.stdout.write(text), sys.stdout.flush())
say("\\x1b[?20"); say("26$p")
asked = os.read(0, 100)
for piece in ("{CURTAIN}one {CURTAIN[:6]}", "{CURTAIN[6:]}two {CURTAIN}", "three " + asked[1:].decode()):
    say(piece); time.sleep(0.01)
input()
"""


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep everything that is measured within the test's own folder, and wait no longer than it takes."""
    place = tmp_path / "scratch"
    monkeypatch.setattr(store_material, "SCRATCH", place)
    for module in (terminal_streaming, terminal_long):
        monkeypatch.setattr(module, "SETTLE_S", 0.1)
    return place


@pytest.fixture(autouse=True)
def windows(monkeypatch: pytest.MonkeyPatch) -> list[terminal_window.Window]:
    """All windows that were opened; each is closed in the end, and its program gone."""
    opened: list[terminal_window.Window] = []
    make = terminal_window.Window

    def remembered(*arguments: object) -> terminal_window.Window:
        opened.append(make(*arguments))  # type: ignore[arg-type]
        return opened[-1]

    monkeypatch.setattr(terminal_window, "Window", remembered)
    return opened


def check_measured(result: Result) -> None:
    """Fail unless a result holds figures, and is on offer."""
    assert result.name in program.CASES
    assert all(figure > 0 and math.isfinite(figure) for figure in (result.ratio, *result.details.values()))


def check_gone(windows: list[terminal_window.Window]) -> None:
    """Fail unless there were windows, and none of their programs is left."""
    assert windows
    assert all(window.process.returncode is not None and not runs(window.process.pid) for window in windows)


# --- windows ----------------------------------------------------------------------------------------------------------


def test_pictures_are_counted_however_they_are_torn(tmp_path: Path) -> None:
    """A window says that it can hold pictures back, and counts each that begins, even one whose mark was torn."""
    with terminal_window.opened(tmp_path, "-c", DRAWS_THREE) as window:
        window.until_shown("one")
        window.until_shown("two")
        shown = window.until_shown("three [?2026;2$y")

    assert 3 == window.pictures
    assert shown > window.began


def test_texts_are_found_in_any_order(tmp_path: Path) -> None:
    """Texts that are waited for together may come in any order, and nothing that comes after them is lost."""
    says = "print('upper lower', flush=True); input(); print('later last'); input()"
    with terminal_window.opened(tmp_path, "-c", says) as window:
        lower, upper = window.until_all_shown("lower", "upper")
        pressed = window.press(b"\r")
        last, later = window.until_all_shown("last", "later")

    assert window.began < upper <= lower < pressed < later <= last


def test_a_program_that_ends_early_is_told(tmp_path: Path, windows: list[terminal_window.Window]) -> None:
    """A program that fails at once is an error that shows what it said, not an endless wait."""
    with (
        pytest.raises(RuntimeError, match="ended early: b'this went wrong"),
        terminal_window.opened(tmp_path, "-c", "raise SystemExit('this went wrong')") as window,
    ):
        window.until_shown("something else")

    check_gone(windows)


def test_what_is_not_drawn_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, windows: list[terminal_window.Window]
) -> None:
    """A text that does not come is given up, and a program that does not leave when told to is ended by force."""
    monkeypatch.setattr(terminal_window, "_END_S", 0.1)
    stubborn = "import signal; signal.signal(15, signal.SIG_IGN); print('here'); signal.pause()"
    with terminal_window.opened(tmp_path, "-c", stubborn) as window:
        window.until_shown("here")
        monkeypatch.setattr(terminal_window, "PATIENCE_S", 0.1)
        with pytest.raises(RuntimeError, match="'there' was not drawn"):
            window.until_shown("there")

    check_gone(windows)
    assert -9 == window.process.returncode


# --- cases ------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_start_is_measured(monkeypatch: pytest.MonkeyPatch, windows: list[terminal_window.Window]) -> None:
    """The case, in small, times all three programs, and neither they nor the service that was started are left."""
    services: list[int] = []
    end = terminal_start.end_service

    def noted(home: Path) -> None:
        holder = service_process(home)
        assert holder is not None, "the terminal has started it"
        services.append(holder.pid)
        end(home)

    monkeypatch.setattr(terminal_start, "end_service", noted)
    result = terminal_start._terminal_start(1)

    check_measured(result)
    check_gone(windows)
    assert (3, [False]) == (len(windows), [runs(pid) for pid in services])


@pytest.mark.slow
def test_streaming_is_measured(windows: list[terminal_window.Window]) -> None:
    """The cases, in small, see the pictures of a session that streams, and time its words and no others."""
    watched = terminal_streaming.watch(2, 2, 1.0)

    assert 1 <= len(watched.waited) <= 20, "of a hundred words of the viewed session, one in five tells when"
    assert all(seconds > 0 for seconds in watched.waited)
    check_measured(terminal_streaming._pictures_result([watched]))
    check_gone(windows)


@pytest.mark.slow
def test_background_is_measured() -> None:
    """The case, in small, compares sessions that stream in the background with those that are silent."""
    result = terminal_streaming._background(2, 1.0, 1)

    at_rest = "nothing streams, % of a CPU"
    assert 0 <= result.details[at_rest] < 100, "within so short a time it may do nothing at all"
    check_measured(attrs.evolve(result, details={k: v for k, v in result.details.items() if k != at_rest}))


@pytest.mark.slow
@pytest.mark.parametrize(
    "case", [partial(terminal_long._memory, 12, 10, 1), partial(terminal_long._opening, 12, 10, 1)]
)
def test_long_sessions_are_measured(case: Callable[[], Result], windows: list[terminal_window.Window]) -> None:
    """Each case, in small, weighs or times terminals that show the ends of sessions."""
    check_measured(case())
    check_gone(windows)


# --- judging ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pictures", "ratio"),
    [((62.0, 20.0, 20.0), 2.0), ((5.0, 5.0, 20.0), 2.0), ((5.0, 20.0, 31.0), 1.0)],
)
def test_neither_too_many_nor_too_few_pictures(pictures: tuple[float, ...], ratio: float) -> None:
    """One round with too many pictures is a miss, and so is a usual round with too few; one slow round is none."""
    watched = Watched(cpu=0.1, pictures=0, ms_per_picture=3, waited=[0.01], idle_cpu=0.01)
    result = terminal_streaming._pictures_result([attrs.evolve(watched, pictures=each) for each in pictures])

    assert (ratio, ratio <= 1) == (result.ratio, result.passed)


def test_a_word_is_timed_when_it_is_first_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """A word that says when it was said counts once, even torn between two looks and drawn again later."""
    monkeypatch.setattr(time, "monotonic_ns", lambda: 3_000_000_000)
    waited = terminal_streaming._Waited()

    for drawn in (b"at1000000000; at20000", b"00000; ", b"at1000000000; at2000000000;"):
        waited.look(drawn)

    assert [2.0, 1.0] == waited.seconds


@pytest.mark.slow
def test_measuring_other_things_does_not_load_textual() -> None:
    """Whoever measures something else pays nothing for the terminal's toolkit."""
    code = "import sys, bench.__main__; sys.exit('textual' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False)  # noqa: TID251 - no loop

    assert 0 == done.returncode
