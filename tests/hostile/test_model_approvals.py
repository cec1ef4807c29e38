"""A hostile model that wants a person's yes for something else than what it does."""

import pytest

from frontends.shared.sanitise import one_line, sanitise
from session_core.errors import SessionCoreError
from session_core.vocabulary.sessions import Approval, Decision
from tests._mostly_slow import mostly_slow
from tests.hostile._model import Arena, Call, shell

PERSON_TAKES_MS = 60_000
"""Nobody is hurried here; see `open_arena`."""
EVIL = "echo evil > notes.txt"
TRICKS = {
    "escape codes": f"{EVIL}\x1b[2K\x1b[1A\rls",
    "carriage return": f"{EVIL} #\rls                                        ",
    "backspaces": EVIL + " #" + "\b" * 40 + "ls",
    "right to left": f"{EVIL} # \u202els\u202c",
    "isolates": f"\u2067{EVIL}\u2069 # ls",
    "title of the terminal": f"{EVIL} # \x1b]0;ls\x07",
    "link of the terminal": f"{EVIL} # \x1b]8;;http://example.com\x1b\\ls\x1b]8;;\x1b\\",
    "clipboard": f"{EVIL} # \x1b]52;c;ZXZpbA==\x07",
    "eight-bit codes": f"{EVIL} # \x9b2J",
    "far away": "ls" + " " * 3_000 + f"; {EVIL}",
    "far below": "ls" + "\n" * 500 + EVIL,
    "other line ends": f"ls\u2028{EVIL}\u2029\x85\x0b\x0c",
    "nothing to see": f"\u200b\u200b{EVIL}\u200b\u2060",
    "another alphabet": f"l\u0455; {EVIL}",
    "tags": f"{EVIL} # " + "".join(chr(0xE0000 + ord(letter)) for letter in "safe"),
    "very long": f"{EVIL} # " + "x" * 20_000,
}


def _always(decision: Decision) -> "object":
    async def person(_: Approval) -> Decision:
        return decision

    return person


@pytest.mark.parametrize("name", mostly_slow(TRICKS, quick=6))
async def test_a_command_is_shown_as_it_is(arena: Arena, name: str) -> None:
    """Whatever is in a command, the person is shown all of it, and a screen shows its letters only."""
    arena.person = _always("deny")  # type: ignore[assignment]
    command = TRICKS[name]
    attacked = await arena.attack(shell(command, description="List the files"), mode="auto_edit")
    assert attacked.statuses == ["denied"]
    (approval,) = arena.asked
    assert approval.shown.startswith(f"{command}\n\nfolder: {arena.root}\n")
    assert approval.arguments["command"] == command
    assert "List the files" not in approval.summary
    for drawn in (sanitise(approval.shown), one_line(approval.summary, 300)):
        assert all(letter.isprintable() or letter in "\n\t" for letter in drawn)
    assert "echo evil" in sanitise(approval.shown)
    assert not arena.changes()


async def test_a_yes_is_for_what_was_shown(arena: Arena) -> None:
    """After a yes exactly the shown change is made, and a second call asks again."""
    arena.person = _always("allow_once")  # type: ignore[assignment]
    change: Call = ("write", {"path": "new.txt", "content": "as shown\n"})
    attacked = await arena.attack(change, ("write", {"path": "new.txt", "content": "other\n"}), mode="ask_writes")
    assert attacked.statuses == ["success", "success"]
    assert [approval.shown.splitlines()[-1] for approval in arena.asked] == ["+as shown", "+other"]
    assert arena.changes() == {"new.txt"}


SWAPS = {
    "folder becomes a link outside": ("dir/x", "rm -r dir; ln -s '<OUTSIDE>' dir"),
    "folder becomes a link to hooks": ("dir/x", "rm -r dir; ln -s .git/hooks dir"),
    "file becomes a link outside": ("dir/y", "rm dir/y; ln -s '<OUTSIDE>/private.txt' dir/y"),
    "file becomes a link to a protected one": ("dir/y", "cp .envrc dir/y; rm dir/y; ln -s ../.envrc dir/y"),
    "file has another content": ("dir/y", "echo changed > dir/y"),
    "file is made meanwhile": ("dir/new", "echo changed > dir/new"),
    "folder above becomes a link": ("a/b/x", "mv a c; ln -s . a; mkdir b; ln -s ../.git b/x; rm -r b; ln -s .git b"),
}


@pytest.mark.parametrize("name", mostly_slow(SWAPS, quick=3))
async def test_swapped_between_yes_and_run(arena: Arena, name: str) -> None:
    """If what a path means changes between the question and the answer, the yes counts for nothing."""
    path, swap = SWAPS[name]
    made = await arena.attack(shell("mkdir -p dir a/b; echo first > dir/y; echo made"))
    assert "made" in made.text

    async def person(approval: Approval) -> Decision:
        other = await arena.service.create_session(permission_mode="full")
        swapped = await arena.attack(shell(f"{swap}; echo swapped"), session_id=other.session_id)
        assert "swapped" in swapped.text
        return "allow_once"

    arena.person = person
    # The script belongs to whoever asks first: the swap is played while the question is open.
    attacked = await arena.attack(("write", {"path": path, "content": "evil\n"}), mode="ask_writes")
    assert attacked.statuses == ["error"]
    assert not any(name.startswith((".git", ".envrc")) for name in arena.changes())


async def test_an_answer_fits_one_question(arena: Arena) -> None:
    """An answer to another question, to a changed one, or a second answer changes nothing."""
    answers: list[str] = []

    async def person(approval: Approval) -> Decision:
        session_id = arena.events[-1].session_id
        assert session_id is not None
        for request_id, fingerprint in ((approval.request_id, "0" * 64), ("req_forged", approval.fingerprint)):
            try:
                await arena.service.answer_approval(session_id, request_id, "allow_once", fingerprint=fingerprint)  # type: ignore[arg-type]
            except SessionCoreError as refused:
                answers.append(refused.code)
        if len(arena.asked) == 2:
            first = arena.asked[0]
            reply = await arena.service.answer_approval(
                session_id, first.request_id, "allow_once", fingerprint=first.fingerprint
            )
            answers.append("accepted" if reply.accepted else "too late")
        return "deny"

    arena.person = person
    attacked = await arena.attack(shell(EVIL), shell(EVIL), mode="ask_writes")
    assert attacked.statuses == ["denied", "denied"]
    assert "accepted" not in answers
    assert len(answers) >= 4
    assert not arena.changes()


async def test_a_yes_for_the_session_covers_one_command(arena: Arena) -> None:
    """A yes for the session is for one command in one folder, and no other that begins like it."""
    asked_again: list[Decision] = ["allow_session"]

    async def person(_: Approval) -> Decision:
        return asked_again.pop() if asked_again else "deny"

    arena.person = person
    more = [
        shell(f"true {more}")
        for more in ("", "; echo evil > notes.txt", "\necho evil > notes.txt", "&& echo evil > notes.txt")
    ]
    attacked = await arena.attack(shell("true"), shell("true"), *more, shell("true", workdir="src"), mode="auto_edit")
    assert attacked.statuses == ["success", "success", *["denied"] * 5]
    assert not arena.changes()


async def test_a_yes_does_not_open_protected_files(arena: Arena) -> None:
    """A yes for all writes of a session does not cover protected files: they are asked for each time."""
    answers: list[Decision] = ["allow_session"]

    async def person(_: Approval) -> Decision:
        return answers.pop() if answers else "deny"

    arena.person = person
    calls: list[Call] = [
        ("write", {"path": path, "content": "x\n"}) for path in ("a.txt", "b.txt", ".envrc", ".git/config")
    ]
    attacked = await arena.attack(*calls, mode="ask_writes")
    assert attacked.statuses == ["success", "success", "denied", "denied"]
    assert arena.changes() == {"a.txt", "b.txt"}


@pytest.mark.slow
async def test_asking_a_thousand_times(arena: Arena) -> None:
    """A model that asks again and again is denied as often, and a stop ends it at once."""
    arena.person = _always("deny")  # type: ignore[assignment]
    session_id = await arena.begin(*[[shell(EVIL)] * 100] * 10, mode="ask_writes")
    await arena.until(lambda: len(arena.asked) >= 150)
    stopped = await arena.service.request_stop(session_id)
    asked = len(arena.asked)
    assert stopped.result == "stopped"
    assert (await arena.service.load_session(session_id)).approvals == ()
    assert len(arena.asked) == asked < 1_000
    assert not arena.changes()
