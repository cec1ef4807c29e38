"""The real program on a real terminal: colours, status line, questions, and the live panel of the tour."""

import fcntl
import os
import re
import struct
import sys
import termios
from collections.abc import Sequence
from pathlib import Path

import pytest
import trio

import session_core as sc
from tests._mostly_slow import mostly_slow
from tests.frontends._kept import keep_sessions, kept_sessions
from tests.frontends._program import PROGRAM, ROOT, environment

ESCAPE = "\x1b["


async def on_terminal(
    *arguments: str, typed: bytes = b"", after: str = "", command: Sequence[str] = PROGRAM, **env: str
) -> tuple[int, str]:
    """Run it on a terminal of its own, typing something once a text has appeared; returns exit code and screen."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
    screen = b""
    with trio.fail_after(120):
        process = await trio.lowlevel.open_process(
            [*command, *arguments],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=ROOT,
            env=environment(TERM="xterm", **env),
        )
        os.close(theirs)
        while True:
            try:
                await trio.lowlevel.wait_readable(ours)
                screen += os.read(ours, 65536)
            except OSError:  # how Linux says that the other side has gone
                break
            if typed and after.encode() in screen:
                os.write(ours, typed)
                typed = b""
        code = await process.wait()
    os.close(ours)
    return code, screen.decode().replace("\r\n", "\n")


@pytest.mark.slow
async def test_colours_on_a_terminal() -> None:
    """On a terminal thoughts are dimmed, marks are coloured, and the answer itself carries no codes."""
    code, screen = await on_terminal("run", "count to 3")

    assert 0 == code
    assert f"{ESCAPE}2m✻ {ESCAPE}22m" in screen
    assert f"{ESCAPE}32m✓{ESCAPE}39m completed in" in screen
    assert "\n1 2 3 Done.\n" in screen


@pytest.mark.slow
async def test_no_color_is_respected() -> None:
    """With NO_COLOR a terminal gets no escape code at all."""
    code, screen = await on_terminal("run", "count to 3", NO_COLOR="1")

    assert 0 == code
    assert "\x1b" not in screen
    assert "✻ Numbers, one by one.\n1 2 3 Done.\n✓ completed in" in screen


async def test_a_question_on_a_terminal() -> None:
    """A tool that needs a yes is asked for on the terminal, and the answer counts."""
    arguments = ("run", "--permissions", "ask_all", "list the files")
    code, screen = await on_terminal(*arguments, typed=b"y\n", after="instead:", NO_COLOR="1")

    assert 0 == code
    assert '? Allow list_files(path=".")?\n  asked for because it reads\n  [y]es once, [s] every list_files ' in screen
    assert "list_files found" in screen


@pytest.mark.parametrize(("typed", "left"), mostly_slow([(b"make it green\n", "red"), (b"y\n", "blue")], quick=1))
async def test_a_change_is_shown_before_it_is_made(tmp_path: Path, typed: bytes, left: str) -> None:
    """A change of a file is asked for with its diff, harmless to the terminal, and only a yes makes it."""
    poem = tmp_path / "poem.txt"
    poem.write_text("roses\nred\n", encoding="utf-8")
    command = [sys.executable, "-m", "tests.frontends._scripted_program"]
    code, screen = await on_terminal(str(tmp_path), typed=typed, after="instead:", command=command, NO_COLOR="1")

    assert 0 == code
    assert "? Allow edit: " in screen
    assert "  asked for because it changes files\n" in screen
    assert "  --- a/poem.txt\n  +++ b/poem.txt\n" in screen
    assert "   roses\n  -red\n  +blue <U+001B>[31m\n" in screen
    assert "\x1b" not in screen
    assert ("not allowed: The user says: make it green\n" in screen) == (left == "red")
    assert "This call was not allowed" not in screen
    assert poem.read_text(encoding="utf-8").startswith(f"roses\n{left}")


async def test_a_list_on_a_terminal(home: Path) -> None:
    """On a terminal the list has colours, and no line is wider than the terminal."""
    await keep_sessions(home, "count to 1 " + "and so on " * 15)
    code, screen = await on_terminal("sessions")

    assert 0 == code
    assert f"{ESCAPE}2midle {ESCAPE}22m" in screen
    assert "and so on" in screen
    assert all(len(re.sub(r"\x1b\[[0-9]+m", "", line)) <= 100 for line in screen.splitlines())


@pytest.mark.parametrize(("typed", "code", "left"), mostly_slow([(b"y\n", 0, []), (b"\n", 1, ["count to 1"])], quick=1))
async def test_deleting_asks_on_a_terminal(home: Path, typed: bytes, code: int, left: list[str]) -> None:
    """Only a clear yes deletes; a bare Enter leaves everything and says so."""
    (one,) = await keep_sessions(home, "count to 1")
    ended, screen = await on_terminal("delete", one, typed=typed, after="[y/N]", NO_COLOR="1")

    assert code == ended
    assert f'? Delete {one[-4:]} "count to 1" for good? [y/N] ' in screen
    assert ("nothing was deleted" in screen) == bool(left)
    assert left == list(await kept_sessions(home))


@pytest.mark.parametrize(("typed", "code"), [(b"y\n", 0), (b"\n", 1)])
async def test_trusting_asks_on_a_terminal(home: Path, tmp_path: Path, typed: bytes, code: int) -> None:
    """The files that would count are listed, and only a clear yes trusts them."""
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "AGENTS.md").write_text("Be brief.", encoding="utf-8")
    ended, screen = await on_terminal("trust", str(folder), typed=typed, after="[y/N]", NO_COLOR="1")

    assert code == ended
    assert "  AGENTS.md\n      instructions for the model, 1 line\n      | Be brief.\n" in screen
    assert f"? Trust {folder} with 1 file as listed? [y/N] " in screen
    assert (sc.setup.find_trusted_fingerprint(home, folder) is not None) == (code == 0)


@pytest.mark.slow
async def test_the_tour_on_a_terminal() -> None:
    """On a terminal the tour shows the answer that its first follower sees."""
    code, screen = await on_terminal("demo", "--fast")

    assert 0 == code
    assert "\n1 2 3 4 " in screen
    assert "claims held" in screen
