"""The terminal as people have it: a real window and a real service; opening it, its sizes, and closing it."""

import fcntl
import os
import re
import shlex
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trio

from frontends.server.daemon.runtime_paths import service_process
from frontends.shared.socket_path import prepare_run_folder
from tests._needs import needs_tmux
from tests.frontends._program import patient_program, program
from tests.frontends.server.daemon._service import Service, end_services, kill
from tests.frontends.terminal._tmux import HINT, PATIENCE_S, Screen, at_work

pytestmark = needs_tmux

LONG = "count to 900 slowly"
AGAIN = "Ctrl+C again closes the terminal"
SLOW_TO_END = """
import sys
from frontends.entry import main
from frontends.terminal import tty

tty.GRACE_S = 0
tty.TerminalGuard._close = lambda *_: None
sys.exit(main())
"""
COLOUR = re.compile(r"\x1b\[(?:[\d;]*;)?(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])[;m]")


@pytest.fixture
def own_home(home: Path) -> Generator[Path]:
    """A home of this test alone; whatever serves it ends with the test."""
    yield home
    end_services(home)


# --- opening it -------------------------------------------------------------------------------------------------------


async def test_a_picture_before_the_service_and_back_after_its_death(own_home: Path, screen: Screen) -> None:
    """There is a hint before the service is there; a service that is killed is started again, with its sessions."""
    with _nobody_may_start_a_service(own_home):
        await screen.open(own_home, size=(80, 24))
        await screen.until_shown(HINT, "connecting")
        await screen.type("hello")  # whoever is quick loses nothing
        await screen.until_shown("> hello")
        assert service_process(own_home) is None
    await screen.until_gone("connecting")
    await screen.press("Enter")
    await screen.until_shown("interrupt me at any moment.", "idle")
    while "interrupt me at any moment." not in (await program("show", "hello")).out:  # noqa: ASYNC110
        await trio.sleep(0.05)  # what nobody waits for is kept a moment later, and nobody is told
    with _nobody_may_start_a_service(own_home):  # or it may be back before anybody looks
        await kill(own_home)
        await screen.until(_is_away, "a sign that the service is gone")
    await screen.until(lambda shown: not _is_away(shown), "the service")
    await screen.until_shown("interrupt me at any moment.", "idle")
    await screen.type("count to 3", "Enter")
    await screen.until_shown("1 2 3 Done.")


@contextmanager
def _nobody_may_start_a_service(home: Path) -> Generator[None]:
    """Hold the right to start the service of a home."""
    with (prepare_run_folder(home) / "starting").open("w") as right_to_start:
        fcntl.flock(right_to_start, fcntl.LOCK_EX)
        yield


def _is_away(shown: str) -> bool:
    """The status line tells of no connection."""
    return any(word in shown.splitlines()[-1] for word in ("connecting", "connection lost", "no service"))


@pytest.mark.parametrize("arguments", [[], ["terminal"], ["terminal", "--embedded", "hello"]])
async def test_no_terminal(arguments: list[str], home: Path) -> None:
    """Without a terminal it says so in one line and ends with 2, and neither a home nor a service is made."""
    ended = await program(*arguments)
    assert (2, "") == (ended.code, ended.out)
    assert ended.err.startswith("session-core: this needs a terminal; to work without one: session-core run")
    assert 1 == len(ended.err.splitlines())
    assert not await trio.Path(home).exists()


@pytest.mark.slow
async def test_a_terminal_that_cannot_be_drawn_on(own_home: Path, screen: Screen) -> None:
    """On a dumb terminal it says so in one line and ends with 2."""
    await screen.open(own_home, TERM="dumb")
    shown = await screen.until_ended(2)
    assert shown.startswith("session-core: this terminal cannot be drawn on (TERM is empty or dumb)")
    assert not await trio.Path(own_home).exists()


@pytest.mark.slow
async def test_without_colours(service: Service, screen: Screen, other: Screen) -> None:
    """With NO_COLOR no colour is painted, not even a grey."""
    await screen.open(service.home, "terminal", "--new", size=(80, 24))
    await screen.until_ready()
    await other.open(service.home, "terminal", "--new", size=(80, 24), NO_COLOR="1")
    await other.until_ready()
    for each in (screen, other):
        await each.type("hello", "Enter")
    for each in (screen, other):
        await each.until_shown("at any moment.", "idle")
    assert COLOUR.search(await screen.painted()), "else nobody would see the difference"
    assert not COLOUR.search(await other.painted())


# --- its sizes --------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_80_by_24(service: Service, screen: Screen) -> None:
    """In 80 by 24 cells the composer and the status line are whole, before a session, in it, and while it asks."""
    await screen.open(service.home, "terminal", "--new", "--permissions", "ask-all", size=(80, 24))
    await screen.until_ready()
    await _until_whole(screen, "ask for something", "new session", "asks always")
    await screen.type("hello", "Enter")
    await screen.until_shown("at any moment.", "idle", "tokens")
    await _until_whole(screen, "ask for something", "idle", "demo", "asks always", "tokens")
    await screen.type("list the files", "Enter")
    await screen.until_shown("Allow list_files?", "Esc later")
    await _until_whole(screen, "queue a message; Esc stops the turn", "asks you", "demo", "asks always")


async def _until_whole(screen: Screen, typed: str, *status: str) -> None:
    """Wait until the last two lines of the window say this, and are there to their ends."""
    in_order = re.compile(".*".join(re.escape(each) for each in status))

    def is_whole(shown: str) -> bool:
        composer, last = shown.splitlines()[22:]
        return composer.startswith(f"> {typed}") and bool(in_order.search(last)) and "…" not in composer + last

    await screen.until(is_whole, f"{typed!r} and {status} at the bottom")


@pytest.mark.slow
@pytest.mark.parametrize("size", [(40, 10), (20, 5)])
async def test_resizing(size: tuple[int, int], service: Service, screen: Screen) -> None:
    """In a smaller window the end of the answer and what is typed stay in sight; in the first one all is as it was."""
    columns, rows = size
    await screen.open(service.home, "terminal", "--new", size=(90, 16))
    await screen.until_ready()
    await screen.type("hello", "Enter")
    await screen.until_shown("at any moment.", "idle", "tokens")
    await screen.type("draft")
    before = await screen.until_shown("> draft")
    await screen.resize(columns, rows)
    await screen.until(
        lambda text: _below(text) == ["─" * columns, "> draft"] and "moment." in text.splitlines()[-5],
        "the end of the answer above what is typed",
    )
    await screen.resize(90, 16)
    await screen.until(lambda text: text == before, f"the first picture:\n{before}")


def _below(shown: str) -> list[str]:
    """What is below the conversation, without the status line: the rule and what is typed."""
    return [line.rstrip() for line in shown.splitlines()[-3:-1]]


@pytest.mark.slow
async def test_the_list_makes_way(service: Service, screen: Screen) -> None:
    """Where there is no room for it, the list of sessions makes way for the conversation; with the room it is back."""
    await screen.open(service.home, "terminal", "--new", size=(110, 30))
    await screen.until_ready()
    await screen.type("count to 3", "Enter")
    await screen.until_shown("1 2 3 Done.", "idle", "just now")
    await screen.type("draft")
    await screen.until(_has_list, "the list beside the composer")
    await screen.resize(60, 20)
    await screen.until(
        lambda text: _below(text) == ["─" * 60, "> draft"] and "just now" not in text, "the composer alone"
    )
    await screen.resize(110, 30)
    await screen.until(_has_list, "the list beside the composer, again")


def _has_list(shown: str) -> bool:
    return "count to 3" in shown.splitlines()[1] and shown.splitlines()[-2].rstrip().endswith("│> draft")


@pytest.mark.slow
async def test_what_is_told_for_a_while(service: Service, screen: Screen) -> None:
    """What is told for a while leaves the picture as it was before."""
    await screen.open(service.home, "terminal", "count to 3", size=(80, 24))
    before = await screen.until_shown("1 2 3 Done.", "> ask for something", "idle", "tokens")
    await screen.press_until_told("C-c", AGAIN)
    await screen.until(lambda text: text == before, f"the first picture:\n{before}")


# --- closing it -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_closing_it_and_coming_back(service: Service, screen: Screen, other: Screen) -> None:
    """Ctrl+C twice closes the terminal and says what goes on and how to come back; then the work is there, live."""
    patient = patient_program("frontends.terminal.actions.stop_and_quit:TWICE_S")
    await screen.open(service.home, size=(100, 30), command=shlex.join([*patient, "terminal", LONG]))
    await screen.until_shown("1 2 3")
    await screen.press("C-c", "C-c")
    shown = await screen.until_ended(0)
    back = f'"{LONG}" goes on in the background; to come back: session-core, to stop it: session-core stop ID'
    assert back == "".join(shown.splitlines()[:2])
    assert [LONG] == await at_work(service.home)
    await other.open(service.home, size=(100, 30))
    shown = await other.until_shown(f"> {LONG}", "1 2 3", "answering")
    await other.until(lambda text: "answering" in text and _counted(text) > _counted(shown), "more numbers")


def _counted(shown: str) -> int:
    """How many numbers of the counting are on the screen."""
    return max((len(each.split()) for each in re.findall(r"\b1 2 3(?: \d+)*", shown)), default=0)


@pytest.mark.slow
async def test_ctrl_c_ends_no_work(service: Service, screen: Screen) -> None:
    """Ctrl+C clears what was typed, then says what it would do; pressed once at a time it closes and stops nothing."""
    await screen.open(service.home, "terminal", LONG, size=(80, 24))
    await screen.until_shown("1 2 3")
    await screen.type("draft")
    await screen.until_shown("> draft")
    await screen.press("C-c")
    shown = await screen.until_gone("> draft")
    assert AGAIN not in shown, "clearing was all that was meant"
    await screen.press_until_told("C-c", AGAIN, "work continues")
    await screen.until_gone(AGAIN)
    await screen.press_until_told("C-c", AGAIN)
    assert "answering" in (await screen.text()).splitlines()[-1]
    assert [LONG] == await at_work(service.home)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGTERM, pytest.param(signal.SIGHUP, marks=pytest.mark.slow)])
async def test_signals(number: signal.Signals, service: Service, screen: Screen) -> None:
    """A terminal that is asked to end gives the window back as it was, and leaves the service and its work alone."""
    serving = service.pid
    await screen.open(service.home, "terminal", LONG, size=(80, 24))
    await screen.until_shown("1 2 3")
    os.kill(await screen.pid(), number)
    await screen.until_ended(128 + number)
    assert serving == service.pid
    assert [LONG] == await at_work(service.home)


@pytest.mark.slow
async def test_an_orderly_end_that_takes_too_long(service: Service, screen: Screen) -> None:
    """A terminal that is asked to end and cannot do so in time gives the window back as it was all the same."""
    command = shlex.join([sys.executable, "-c", SLOW_TO_END, "terminal", LONG])
    await screen.open(service.home, size=(80, 24), command=command)
    await screen.until_shown("1 2 3")
    os.kill(await screen.pid(), signal.SIGTERM)
    await screen.until_ended(128 + signal.SIGTERM)
    assert [LONG] == await at_work(service.home)


@pytest.mark.slow
async def test_a_window_that_is_closed(service: Service, screen: Screen) -> None:
    """Closing the window itself ends the program in it, and nothing else."""
    serving = service.pid
    await screen.open(service.home, "terminal", LONG, size=(80, 24))
    await screen.until_shown("1 2 3")
    process = os.pidfd_open(await screen.pid())
    try:
        await screen.close()
        with trio.fail_after(PATIENCE_S):
            await trio.lowlevel.wait_readable(process)
    finally:
        os.close(process)
    assert serving == service.pid
    assert [LONG] == await at_work(service.home)


@pytest.mark.slow
async def test_embedded(own_home: Path, screen: Screen, other: Screen, tmp_path: Path) -> None:
    """With --embedded no service is in the background: the work ends with the terminal, and what was said is kept."""
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    await screen.open(own_home, "terminal", "--embedded", LONG, size=(80, 24), TMPDIR=str(temporary))
    await screen.until_shown("1 2 3")
    assert service_process(own_home) is None
    await screen.press_until_told("C-c", "ends the work")
    await screen.press("C-d", "C-d")
    shown = await screen.until_ended(0)
    assert "background" not in shown
    assert [] == list(temporary.iterdir())
    await other.open(own_home, "terminal", "--embedded", size=(80, 24), TMPDIR=str(temporary))
    await other.until_shown(f"> {LONG}", "1 2 3", "the service ended here", "interrupted")
    assert service_process(own_home) is None
