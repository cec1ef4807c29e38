"""Listing, reading and changing kept sessions: the whole way, mostly in this process."""

import os
import re
from itertools import pairwise
from pathlib import Path

import pytest
import trio

import session_core as sc
from tests.frontends._kept import keep, kept, session_core
from tests.frontends._program import LATELY, Ended, program

Said = pytest.CaptureFixture[str]


@pytest.mark.slow
async def test_a_session_goes_on_in_another_process(tmp_path: Path) -> None:
    """What `run` began is kept, `--continue` goes on with it, and list, search and conversation show both turns."""
    here = str(tmp_path)
    first = await program("run", "--cwd", here, "count to 3")
    hint = first.err.splitlines()[-1]
    short = hint.split()[-2]
    second = await program("run", "--continue", "--cwd", here, "count to 4")
    listed = await program("sessions")
    found = await program("sessions", "--search", "count")
    shown = await program("show", short)

    assert f'Continue with: session-core run --session {short} "..."' == hint
    assert (0, "1 2 3 4 Done.\n") == (second.code, second.out)
    assert re.search(f'Continuing {short} "count to 3": 2 messages, last used {LATELY}.', second.err)
    assert ("", ["ID", short]) == (listed.err, [line.split()[0] for line in listed.out.splitlines()])
    assert re.search(f" idle   {LATELY}  count to 3  ", listed.out)
    assert (0, "      you: count to 4") == (found.code, found.out.splitlines()[2])
    assert "1 2 3 Done." in shown.out
    assert "1 2 3 4 Done." in shown.out
    assert listed.out.endswith(f"  {here}\n"), "what goes to a file or a program is not cut"


@pytest.mark.slow
async def test_nothing_is_kept_unless_asked(home: Path) -> None:
    """`--no-save` answers as ever, leaves no home behind, and gives no hint how to go on."""
    ended = await program("run", "--no-save", "count to 3")

    assert (0, "1 2 3 Done.\n") == (ended.code, ended.out)
    assert "Continue with" not in ended.err
    assert not await trio.Path(home).exists()


@pytest.mark.slow
async def test_quiet_and_json_stay_as_they_are(home: Path) -> None:
    """With --quiet nothing is said about keeping; with --json the first line is the snapshot as ever."""
    quiet = await program("run", "--quiet", "--cwd", "/", "count to 3")
    lines = (await program("run", "--json", "--session", "count to 3", "count to 2")).out.splitlines()
    snapshot = sc.wire.decode(lines[0], sc.SessionSnapshot)
    final = sc.fold(snapshot, [sc.wire.decode(line, sc.SessionEvent) for line in lines[1:]])

    assert Ended(0, "1 2 3 Done.\n", "") == quiet
    assert ["count to 3", "1 2 3 Done."] == [message.text for message in snapshot.messages]
    assert "1 2 Done." == final.transcript[-1].text


def test_an_empty_home(home: Path, capfd: Said) -> None:
    """Where nothing is kept, a friendly sentence says so on stderr, and looking has made nothing."""
    for arguments in (["sessions"], ["sessions", "--json"], ["sessions", "--search", "x"]):
        assert 0 == session_core(*arguments)
        out, err = capfd.readouterr()
        assert ("", f'No sessions in {home} yet. Start one with: session-core run "list the files"\n') == (out, err)
    assert 2 == session_core("show", "abcd")
    assert 2 == session_core("rename", "abcd", "x")
    assert "there is no session 'abcd'" in capfd.readouterr().err
    assert not home.exists()


def test_another_home(home: Path, tmp_path: Path, capfd: Said) -> None:
    """`--home` goes before the environment, for reading and for writing, and hints repeat it."""
    other = tmp_path / "other home"
    assert 0 == session_core("run", "--home", str(other), "--cwd", "/", "count to 2")
    assert f"session-core run --home '{other}' --session" in capfd.readouterr().err
    assert 0 == session_core("rename", "--home", str(other), "count to 2", "two")
    assert 0 == session_core("sessions", "--home", str(other))

    assert "two" in capfd.readouterr().out
    assert not home.exists()


def test_json_lines(home: Path, capfd: Said) -> None:
    """`--json` gives summaries, hits and the state as the codec writes them, for scripts to read."""
    one, two = keep(home, "count to 1", "count to 2")
    session_core("sessions", "--json")
    summaries = [sc.wire.decode(line, sc.SessionSummary) for line in capfd.readouterr().out.splitlines()]
    session_core("sessions", "--json", "--search", "done")
    hits = [sc.wire.decode(line, sc.replies.SearchHit) for line in capfd.readouterr().out.splitlines()]
    session_core("show", "--json", one)
    snapshot = sc.wire.decode(capfd.readouterr().out, sc.SessionSnapshot)

    assert [two, one] == [each.session_id for each in summaries]
    assert {one, two} == {each.session_id for each in hits}
    assert (one, "1 Done.") == (snapshot.session_id, snapshot.transcript[-1].text)


def test_limits(home: Path, capfd: Said) -> None:
    """`--limit` gives the last used ones and says how many are left."""
    keep(home, "count to 1", "count to 2", "count to 3")
    session_core("sessions", "--limit", "2")
    out, err = capfd.readouterr()

    assert ["ID", "count to 3", "count to 2"] == [
        line.split()[0] if line.startswith("ID") else " ".join(line.split()[-4:-1]) for line in out.splitlines()
    ]
    assert "and 1 older session (--limit 3)\n" == err


def test_nothing_is_found(home: Path, capfd: Said) -> None:
    """A search without a hit says so on stderr and is no failure, also for what is no word at all."""
    keep(home, "count to 1")
    for text in ("elephant", '"', "AND OR NOT", "a*b ^c:d"):
        assert 0 == session_core("sessions", "--search", text)
        assert ("", "No message and no session name contains all of these words.\n") == tuple(capfd.readouterr())


def test_archive_and_restore(home: Path, capfd: Said) -> None:
    """Archived sessions leave the list, `--all` shows them, `restore` brings them back, and twice is no failure."""
    keep(home, "count to 1", "count to 2", "count to 3")
    assert 0 == session_core("archive", "count to 1", "count to 2")
    assert ["is archived"] * 2 == [" ".join(line.split()[-2:]) for line in capfd.readouterr().out.splitlines()]
    session_core("sessions")
    out, err = capfd.readouterr()
    assert (["count to 3"], "and 2 archived sessions (--all)\n") == (
        [name for name in kept(home) if name in out],
        err,
    )
    session_core("sessions", "--all")
    assert 2 == capfd.readouterr().out.count("archived")
    assert 0 == session_core("archive", "count to 1")
    assert "was archived already" in capfd.readouterr().out
    assert 0 == session_core("restore", "count to 1", "count to 3")
    assert ["is back in the list", "was not archived"] == [
        line.split('" ')[1] for line in capfd.readouterr().out.splitlines()
    ]
    assert {"count to 1": False, "count to 2": True, "count to 3": False} == {
        name: each.archived for name, each in kept(home).items()
    }


def test_rename(home: Path, capfd: Said) -> None:
    """A session has its new name, which can be typed from then on; a name that cannot be is refused."""
    (one,) = keep(home, "count to 1")
    assert 0 == session_core("rename", one[-4:], "my  numbers")
    assert f'{one[-4:]} "count to 1" is now called "my numbers"\n' == capfd.readouterr().out
    assert 0 == session_core("show", "my  numbers")
    assert 2 == session_core("rename", one, "")

    assert [one] == [each.session_id for each in kept(home).values()]


def test_delete_needs_a_yes(home: Path, capfd: Said) -> None:
    """Without a terminal nothing is deleted unless --yes is given; then it says what is gone, and it is."""
    one, _, three = keep(home, "count to 1", "count to 2", "count to 3")
    assert 2 == session_core("delete", "count to 1")
    assert "there is no terminal to ask on; use --yes" in capfd.readouterr().err
    assert 0 == session_core("delete", "--yes", "count to 1", "count to 3")
    assert f'deleted {one[-4:]} "count to 1"\ndeleted {three[-4:]} "count to 3"\n' == capfd.readouterr().out
    assert ["count to 2"] == list(kept(home))


def test_one_slip_deletes_nothing(home: Path, capfd: Said) -> None:
    """When one of several sessions cannot be found, none is touched."""
    keep(home, "count to 1")

    assert 2 == session_core("delete", "--yes", "count to 1", "nope")
    assert ["count to 1"] == list(kept(home))


def test_fork(home: Path, capfd: Said) -> None:
    """`fork` prints the short id of a new session that begins with the old conversation, and with that it goes on."""
    keep(home, "count to 1")
    assert 0 == session_core("fork", "count to 1", "--name", "other way")
    out, err = capfd.readouterr()
    assert 0 == session_core("run", "--quiet", "--session", out.strip(), "count to 2")
    assert 0 == session_core("show", out.strip())
    shown = capfd.readouterr().out

    assert kept(home)["other way"].session_id.endswith(out.strip())
    assert f"session-core run --session {out.strip()}" in err
    assert "1 Done." in shown
    assert "1 2 Done." in shown


def test_the_newest_messages(home: Path, capfd: Said) -> None:
    """`--last` shows the end of a conversation and says that there is more, and without it all is shown."""
    keep(home, "count to 1")
    session_core("run", "--quiet", "--session", "count to 1", "count to 2")
    capfd.readouterr()
    session_core("show", "count to 1", "--last", "2")
    last = capfd.readouterr().out
    session_core("show", "count to 1")
    whole = capfd.readouterr().out

    assert "(earlier messages are left out; --all shows them)" in last
    assert ("count to 2" in last, "1 Done." in last) == (True, False)
    assert "1 Done." in whole
    assert "left out" not in whole


def test_a_conversation_longer_than_the_window(home: Path, monkeypatch: pytest.MonkeyPatch, capfd: Said) -> None:
    """Messages that have left the state are read from the disk, as many as asked for, on the branch that is shown."""
    monkeypatch.setattr("session_core.limits.WINDOW_MESSAGES", 8)
    (one,) = keep(home, "turn 1")

    async def talk_on() -> None:
        config = sc.ServiceConfig(store=sc.SqliteStore(home), models={"demo": sc.DemoProvider(pace_ms=0)}, tools=())
        async with sc.open_session_service(config) as service:
            for number in range(2, 13):
                await service.send_user_message(one, f"turn {number}")
                await service.wait_for_turn(one)
                if number == 6:
                    asked = (await service.load_session(one)).transcript[-2]
                    await service.edit_message(one, asked.message_id, "turn 6 in other words")
                    await service.wait_for_turn(one)

    trio.run(talk_on)

    def turns(*arguments: str) -> list[str]:
        assert 0 == session_core("show", one, *arguments)
        lines = capfd.readouterr().out.splitlines()
        return [text for who, text in pairwise(lines) if who.startswith("you ")]

    every = [f"turn {number}" for number in range(1, 13)]
    every[5] += " in other words"
    window = turns()
    assert 0 < len(window) < 6
    assert every[-len(window) :] == window
    assert every[-8:] == turns("--last", "16")
    assert every == turns("--all")


def test_the_last_session_of_a_directory(home: Path, tmp_path: Path, capfd: Said) -> None:
    """`--continue` takes the last used session of this directory, by whatever path, and no other's beside it."""
    here, link = tmp_path / "here", tmp_path / "link"
    here.mkdir()
    link.symlink_to(here)
    keep(home, "count to 1", "count to 2", cwd=str(here))
    keep(home, "count to 3", cwd="/usr")
    session_core("archive", "count to 2")
    assert 0 == session_core("run", "--quiet", "--continue", "--cwd", str(link), "count to 9")
    session_core("show", "count to 1")
    assert "count to 9" in capfd.readouterr().out
    assert 2 == session_core("run", "--continue", "--cwd", str(tmp_path), "hello")

    assert f"there is no session in '{tmp_path}' or a folder above it" in capfd.readouterr().err


def test_a_directory_that_is_gone(home: Path, tmp_path: Path, capfd: Said) -> None:
    """A session whose directory is gone does not run in another one unasked; --cwd moves it."""
    gone = tmp_path / "gone"
    keep(home, "count to 1", cwd=str(gone))
    assert 2 == session_core("run", "--session", "count to 1", "count to 2")
    assert f"this session works in '{gone}', which is gone; choose another folder with --cwd" in capfd.readouterr().err
    assert 0 == session_core("run", "--quiet", "--cwd", "/", "--session", "count to 1", "count to 2")

    assert "/" == kept(home)["count to 1"].cwd


def test_nothing_to_resume(home: Path, capfd: Said) -> None:
    """Without a prompt only a turn that did not end goes on; a completed one is left alone."""
    keep(home, "count to 1")

    assert 1 == session_core("run", "--session", "count to 1")
    assert "there is nothing to resume: the last turn completed" in capfd.readouterr().err


def test_a_home_that_cannot_be_used(tmp_path: Path, capfd: Said) -> None:
    """A home that is a file is one line with the reason, and exit code 1."""
    (tmp_path / "file").write_text("x", encoding="utf-8")

    assert 1 == session_core("run", "--home", str(tmp_path / "file"), "hello")
    assert 1 == capfd.readouterr().err.count("\n")


def test_a_relative_home_in_the_environment(monkeypatch: pytest.MonkeyPatch, capfd: Said) -> None:
    """A home in the environment that is no absolute path is refused with what to do."""
    monkeypatch.setenv("SESSION_CORE_HOME", os.curdir)

    assert 1 == session_core("sessions")
    assert "not an absolute path" in capfd.readouterr().err


def test_the_last_used_conversation_is_shown(
    home: Path, tmp_path: Path, capfd: Said, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without an id `show` shows the last used session of this directory or one above, and refuses where none is."""
    inside, elsewhere = tmp_path / "project" / "inside", tmp_path / "elsewhere"
    inside.mkdir(parents=True)
    elsewhere.mkdir()
    keep(home, "count to 1", "count to 2", cwd=str(tmp_path / "project"))
    keep(home, "count to 3", cwd="/usr")
    monkeypatch.chdir(inside)
    assert 0 == session_core("show")
    assert capfd.readouterr().out.startswith("count to 2\n")
    assert 0 == session_core("show", "--json")
    assert '"name":"count to 2"' in capfd.readouterr().out

    monkeypatch.chdir(elsewhere)
    assert 2 == session_core("show")
    assert f"there is no session in '{elsewhere}' or a folder above it" in capfd.readouterr().err
