"""The terminal as people have it: a real window and a real service; talking, being asked, stopping, two windows."""

import re
from itertools import pairwise
from pathlib import Path

import pytest
import trio

import session_core as sc
from frontends.client import open_client
from tests._needs import needs_sandbox, needs_tmux
from tests.frontends._program import program
from tests.frontends.server.daemon._service import Service, begin
from tests.frontends.terminal._tmux import HINT, Screen, at_work

pytestmark = needs_tmux


# --- talking ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_talking(service: Service, screen: Screen) -> None:
    """An answer streams in; what is said meanwhile waits in sight, and is answered next, with a tool."""
    await screen.open(service.home, "terminal", "--new", size=(80, 24))
    await screen.until_ready()
    await screen.type("count to 6 slowly", "Enter")
    await screen.until_shown("> count to 6 slowly", "1 2", "answering")
    await screen.type("how many words in notes.txt", "Enter")
    shown = await screen.until_shown("1 queued", "how many words in notes.txt")
    assert "Done." not in shown
    shown = await screen.until_shown("1 2 3 4 5 6 Done.", "count_words says:", "idle")
    told = ["> count to 6 slowly", "1 2 3 4 5 6 Done.", "> how many words in notes.txt", "count_words says: "]
    assert sorted(told, key=shown.index) == told
    assert "queued" not in shown


@pytest.mark.slow
async def test_pasting_much(service: Service, screen: Screen) -> None:
    """A paste of 200 lines is one piece, sends nothing by itself, and arrives whole."""
    await screen.open(service.home, "terminal", "--new", size=(80, 24))
    await screen.until_ready()
    pasted = "\n".join(f"line {number}" for number in range(200))
    await screen.paste(pasted)
    shown = await screen.until_shown("[pasted 200 lines #1]")
    assert HINT in shown, "nothing was sent"
    await screen.press("Enter")
    await screen.until_shown('You said "line 0 line 1', "idle")
    told = await program("show", await _session_in(screen.folder, service), "--home", str(service.home), "--all")
    assert [f"line {number}" for number in range(200)] == re.findall(r"line \d+$", told.out, flags=re.MULTILINE)


@pytest.mark.slow
async def test_two_windows(service: Service, screen: Screen, other: Screen) -> None:
    """Two windows show one session alike, live: what is said in one is in the other, and either stops it."""
    await begin(service.home, "common work", "count to 3", to_its_end=True)
    for each in (screen, other):
        await each.open(service.home, "terminal", "--session", "common work", size=(80, 24))
    for each in (screen, other):
        await each.until_shown("1 2 3 Done.", "2 clients connected")
    await screen.type("count to 900 slowly", "Enter")
    await other.until_shown("> count to 900 slowly", "1 2 3 4", "answering")
    await other.press("Escape")
    await screen.until_shown("stopped here", "stopped  demo")
    await other.type("think about the sea", "Enter")
    for each in (screen, other):
        await each.until_shown("> think about the sea", "I have thought about the sea.", "idle")


# --- being asked ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_approving(service: Service, screen: Screen) -> None:
    """A question is shown with what is asked for; a yes lets the tool run, and not before."""
    await screen.open(service.home, "terminal", "--permissions", "ask-all", "list the files", size=(80, 24))
    shown = await screen.until_shown("Allow list_files?", '"path": "."', "waits for your approval", "asks you")
    assert "notes.txt" not in shown
    await screen.answer("y", "Enter: yes, this once")
    shown = await screen.until_shown("notes.txt", "idle")
    assert "Allow" not in shown


@pytest.mark.slow
async def test_denying_elsewhere(service: Service, screen: Screen, other: Screen) -> None:
    """A no in one window closes the question in the other, and the tool does not run."""
    session_id = await _made(service, screen, name="careful", permission_mode="ask_all")
    for each in (screen, other):
        await each.open(service.home, "terminal", "--session", session_id, size=(80, 24))
        await each.until_shown("asks always")
    await screen.type("list the files", "Enter")
    await screen.until_shown("Allow list_files?")
    await other.answer("n", "Enter: no")
    for each in (screen, other):
        shown = await each.until_shown("I was not allowed to use list_files", "idle")
        assert "Allow list_files?" not in shown


@pytest.mark.slow
async def test_a_shell_line_is_refused(service: Service, screen: Screen) -> None:
    """A line after `!` goes through the permissions: where nothing may be changed, it is refused and told."""
    session_id = await _made(service, screen, name="looking only", permission_mode="read_only")
    await screen.open(service.home, "terminal", "--session", session_id, size=(80, 24))
    await screen.until_shown("reads only")
    await screen.type("!touch made.txt", "Enter")
    await screen.until_shown("touch made.txt", "not allowed", "this session is read-only", "idle")
    assert not await trio.Path(screen.folder / "made.txt").exists()


@pytest.mark.slow
@needs_sandbox
async def test_a_shell_line_is_confined(service: Service, screen: Screen) -> None:
    """A line after `!` is a yes of its own: it runs, in the sandbox of all commands."""
    await screen.open(service.home, "terminal", "--new", size=(80, 24))
    await screen.until_ready()
    await screen.type("!touch made.txt ../outside; echo $((6 * 7))")
    await screen.until_shown("shell line")
    await screen.press("Enter")
    await screen.until_shown("! touch made.txt", "    42\n", "idle")
    assert await trio.Path(screen.folder / "made.txt").exists()
    assert not await trio.Path(screen.folder.parent / "outside").exists()


# --- stopping ---------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_stopping_here_and_in_the_background(service: Service, screen: Screen) -> None:
    """Esc stops what is viewed and nothing else; the list stops another, and the view stays where it is."""
    await screen.open(service.home, "terminal", "count to 800 slowly", size=(110, 30))
    await screen.until_shown("1 2 3")
    await screen.press("M-n")
    await screen.until_shown(HINT)
    await screen.type("count to 900 slowly", "Enter")
    await screen.until_shown("> count to 900", "1 2 3", "1 other at work")
    await screen.press("Escape")
    await screen.until_shown("stopped here")
    shown = await screen.until(lambda text: _listed(text, "count to 900 slowly") == "stopped", "the end of one")
    assert "answering" == _listed(shown, "count to 800 slowly")
    assert ["count to 800 slowly"] == await at_work(service.home)
    await _go_to_list(screen)
    await screen.press("Down", "s")
    shown = await screen.until(lambda text: _listed(text, "count to 800 slowly") == "stopped", "the end of the other")
    assert "> count to 900 slowly" in shown, "it is still the one that is viewed"
    assert [] == await at_work(service.home)


@pytest.mark.slow
async def test_stopping_helpers(service: Service, screen: Screen) -> None:
    """Esc leaves a helper at work and says so; Esc twice stops it too."""
    session_id = await _made(service, screen, name="the boss")
    helper = await _made(service, screen, name="the helper", parent_id=session_id)
    async with open_client(service.home, name="a test", kind="script") as client:
        for each in (session_id, helper):
            await client.send_user_message(each, "count to 900 slowly")
    await screen.open(service.home, "terminal", "--session", session_id, size=(110, 30))
    await screen.until_shown("1 2 3", "the helper")
    await screen.press("Escape")
    shown = await screen.until_shown("stopped here", "stopped; 1 left running")
    assert "answering" == _listed(shown, "the helper")
    assert ["the helper"] == await at_work(service.home)
    await screen.press("Escape", "Escape")
    await screen.until(lambda text: _listed(text, "the helper") == "stopped", "the end of the helper")
    assert [] == await at_work(service.home)


@pytest.mark.slow
async def test_keys_all_at_once(service: Service, screen: Screen) -> None:
    """Keys that come all at once do what they do one by one: what follows the key that leaves the list is typed."""
    await screen.open(service.home, "terminal", "count to 900 slowly", size=(110, 30))
    await screen.until_shown("1 2 3")
    await screen.until(lambda text: _listed(text, "count to 900 slowly") == "answering", "the list")
    await _go_to_list(screen)
    await screen.press("F2", "s", "u", "r", "e")
    await screen.until_shown("> sure", "answering")
    assert ["count to 900 slowly"] == await at_work(service.home)


# --- for these tests --------------------------------------------------------------------------------------------------


async def _made(
    service: Service,
    screen: Screen,
    *,
    name: str,
    permission_mode: sc.PermissionMode | None = None,
    parent_id: sc.SessionId | None = None,
) -> sc.SessionId:
    """Have a client make a session in the folder of the window."""
    async with open_client(service.home, name="a test", kind="script") as client:
        created = await client.create_session(
            name=name, cwd=str(screen.folder), permission_mode=permission_mode, parent_id=parent_id
        )
    return created.session_id


async def _session_in(folder: Path, service: Service) -> sc.SessionId:
    """The one session that works in a folder."""
    async with open_client(service.home, name="a test", kind="script") as client:
        [session] = [each for each in (await client.list_sessions()).sessions if each.cwd == str(folder)]
    return session.session_id


async def _go_to_list(screen: Screen) -> None:
    """Go to the list of sessions, and wait until it has the keys, which is seen by its colours."""
    before = _list_of(await screen.painted())
    await screen.press("F2")
    await screen.until(lambda painted: _list_of(painted) != before, "other colours of the list", painted=True)


def _list_of(painted: str) -> str:
    """The first line of the list, which is the folder of this test."""
    return painted.partition("│")[0]


def _listed(shown: str, name: str) -> str | None:
    """What the list says of a session, below its name."""
    listed = [line.partition("│")[0].strip() for line in shown.splitlines()]
    return next((below for line, below in pairwise(listed) if line.endswith(f" {name}")), None)
