"""`session-core store ...`, `export` and `import`: what they print, what they leave behind, how they fail."""

import json
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

import pytest

import session_core as sc
from frontends.commands.sessions.store_commands import finding_lines, rebuild_lines, statistics_lines
from frontends.shared.style import Style
from tests.frontends._kept import MINUTE, NOW, keep, kept, session_core
from tests.frontends._program import program

Said = pytest.CaptureFixture[str]
PLAIN = Style()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory to work in."""
    place = tmp_path / "here"
    place.mkdir()
    monkeypatch.chdir(place)
    return place


def damage(home: Path) -> None:
    """Change one record behind the store's back."""
    with closing(sqlite3.connect(home / "sessions.sqlite3")) as db:
        db.execute("UPDATE event SET payload = X'00' WHERE rowid = (SELECT max(rowid) FROM event)")
        db.commit()


# --- looking after the store ------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_sound_store() -> None:
    """The real program keeps a session, finds the store sound, and shows its figures."""
    await program("run", "--quiet", "count to 3")
    verified, figures = await program("store", "verify"), await program("store", "stats")

    assert (0, "") == (verified.code, verified.err)
    assert verified.out.startswith("✓ ")
    assert " is sound: 1 session, " in verified.out
    assert "\nsessions   1 (0 archived, 0 running)\nmessages   2\n" in figures.out


def test_a_damaged_store(home: Path, capfd: Said) -> None:
    """`verify` says what is wrong and what to do, with exit code 1; `rebuild` repairs it and tells where the old is."""
    _, two = keep(home, "count to 1", "count to 2")
    damage(home)
    assert 1 == session_core("store", "verify")
    said = capfd.readouterr().out
    assert "✗ ses_" in said
    assert "store rebuild" in said
    assert 1 == session_core("store", "rebuild"), "something was lost"
    said = capfd.readouterr().out
    assert f'✗ lost: "count to 2" ({two[-4:]}): record ' in said
    assert "The new file holds 2 sessions with " in said
    (old,) = [line for line in said.splitlines() if line.startswith("The old file is kept: ")]
    assert Path(old.removeprefix("The old file is kept: ")).exists()

    assert 0 == session_core("store", "verify")


def test_compact(home: Path, capfd: Said) -> None:
    """`compact` says how large the store was and is."""
    keep(home, "count to 1")

    assert 0 == session_core("store", "compact")
    assert "freed" in capfd.readouterr().out


def test_backup(home: Path, here: Path, capfd: Said) -> None:
    """A backup without a name has today's date, a second one a number, and each can serve as a home's store."""
    keep(home, "count to 1")
    assert 0 == session_core("store", "backup")
    assert 0 == session_core("store", "backup")
    first, second = sorted(here.iterdir(), key=lambda path: len(path.name))
    assert f"1 session saved in {first} (" in capfd.readouterr().out
    assert second.name == f"{first.stem}-2.sqlite3"
    assert 0 == session_core("store", "backup", "mine.sqlite3")
    other = here / "other"
    other.mkdir(mode=0o700)
    (here / "mine.sqlite3").rename(other / "sessions.sqlite3")

    assert ["count to 1"] == list(kept(other))


def test_a_backup_overwrites_nothing(home: Path, here: Path, capfd: Said) -> None:
    """A name that is taken is refused, and what is there stays."""
    keep(home, "count to 1")
    (here / "mine").write_text("precious", encoding="utf-8")

    assert 0 != session_core("store", "backup", "mine")
    assert 1 == capfd.readouterr().err.count("\n")
    assert "precious" == (here / "mine").read_text(encoding="utf-8")


def test_figures_for_scripts(home: Path, capfd: Said) -> None:
    """`stats --json` is one object with every figure."""
    keep(home, "count to 1")
    session_core("store", "stats", "--json")
    figures = json.loads(capfd.readouterr().out)

    assert (1, 2) == (figures["sessions"], figures["messages"])


@pytest.mark.parametrize("task", ["verify", "rebuild", "compact", "stats", "backup"])
def test_no_store_to_look_after(home: Path, here: Path, task: str, capfd: Said) -> None:
    """Where no sessions were ever kept, each task says so, makes nothing, and leaves a directory there as it is."""
    assert 2 == session_core("store", task)
    assert f"no sessions are stored in '{home}'" in capfd.readouterr().err
    assert not home.exists()
    here.chmod(0o755)
    assert 2 == session_core("store", task, "--home", str(here))
    assert ([], 0o755) == (list(here.iterdir()), stat.S_IMODE(here.stat().st_mode))


def test_a_task_must_be_named(capfd: Said) -> None:
    """`store` alone is wrong usage that points to the help."""
    assert 2 == session_core("store")
    assert "the following arguments are required: task (see: session-core store --help)" in capfd.readouterr().err


def test_findings_with_what_to_do() -> None:
    """What was found is told with its session, safe to print, and below those that need the same, once, what to do."""
    one = sc.maintenance.StoreFinding(
        severity="error", session_id=sc.SessionId("ses_1"), what="record 2\x1b[31m is gone", advice="rebuild"
    )
    odd = sc.maintenance.StoreFinding(severity="warning", session_id=None, what="odd", advice="nothing")
    two = sc.maintenance.StoreFinding(severity="error", session_id=None, what="worse", advice="rebuild")

    assert [
        "✗ ses_1: record 2 is gone",
        "✗ worse",
        "  rebuild",
        "● odd",
        "  nothing",
    ] == finding_lines(PLAIN, [one, odd, two])


def test_a_rebuild_that_found_nothing_wrong() -> None:
    """A rebuild of a sound store says so, and names no file that was kept."""
    report = sc.maintenance.RebuildReport(sessions=1, events=5, repaired=(), lost=(), set_aside=None)

    assert [
        "✓ nothing was wrong; everything was rebuilt anyway",
        "The new file holds 1 session with 5 events.",
    ] == rebuild_lines(PLAIN, report, {})


def test_a_rebuild_names_what_it_kept() -> None:
    """What was repaired, what is lost, with short ids, and where old things are kept is all told."""
    report = sc.maintenance.RebuildReport(
        sessions=0,
        events=0,
        repaired=("a",),
        lost=('"one" (ses_01): record 2 is gone', "session ses_02: b"),
        set_aside=Path("/x/aside"),
        damaged=Path("/x/old"),
        settled=('"one" (ses_01)',),
    )

    assert [
        "✓ repaired: a",
        '✗ lost: "one" (01): record 2 is gone',
        "✗ lost: session ses_02: b",
        (
            "● brought to rest, as records that restricted them may be lost: 1 session, now with the settings of a new "
            "session here (of permission mode and sandbox the stricter of both), and without wake-ups, queued "
            "messages, grants and open requests"
        ),
        "The new file holds 0 sessions with 0 events.",
        "The old file is kept: /x/old",
        "Events whose predecessors are lost are kept: /x/aside",
    ] == rebuild_lines(PLAIN, report, {sc.SessionId("ses_01"): "01"})


def test_a_table_of_figures() -> None:
    """Every figure has its line, long names are cut, and an empty store has no times to tell."""
    figures = sc.maintenance.StoreStatistics(
        sessions=1_200,
        archived=3,
        running=1,
        events=50,
        messages=20,
        blobs=2,
        blob_bytes=5_000,
        file_bytes=2_000_000,
        wal_bytes=0,
        oldest_at=None,
        newest_at=NOW - MINUTE,
        largest=((sc.SessionId("ses_01234567890abcdefg"), "n" * 100, 1_500),),
    )
    lines = statistics_lines(PLAIN, figures, Path("/srv/home"), now=NOW, width=60)

    assert [
        "home       /srv/home",
        "sessions   1,200 (3 archived, 1 running)",
        "messages   20",
        "events     50",
        "blobs      2 (5.0 KB)",
        "file       2.0 MB, and 0 bytes in its log",
    ] == lines[:6]
    assert "oldest" not in "\n".join(lines)
    assert lines[6].startswith("last used  ")
    assert f"largest    1.5 KB     0abcdefg  {'n' * 27}…" == lines[7]


# --- out and in -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_a_session_through_a_pipe(home: Path, tmp_path: Path) -> None:
    """What the real program exports to stdout, it imports from stdin into another home, and there it goes on."""
    await program("run", "--quiet", "--cwd", str(tmp_path), "count to 3")
    exported = await program("export", "count to 3")
    elsewhere = {"SESSION_CORE_HOME": str(tmp_path / "elsewhere")}
    imported = await program("import", "-", stdin=exported.out.encode(), env=elsewhere)
    went_on = await program("run", "--quiet", "--session", imported.out.strip(), "count to 4", env=elsewhere)

    assert (0, "", 0) == (exported.code, exported.err, imported.code)
    assert "2 messages and " in imported.err
    assert (0, "1 2 3 4 Done.\n") == (went_on.code, went_on.out)


def test_a_session_through_a_file(home: Path, here: Path, capfd: Said) -> None:
    """An export is a file for its owner alone; the same session is refused where it is, unless it is to be new."""
    (one,) = keep(home, "count to 1")
    assert 0 == session_core("export", one[-4:], "talk.jsonl")
    assert f'{one[-4:]} "count to 1" is in {here / "talk.jsonl"} (' in capfd.readouterr().err
    assert 0o600 == stat.S_IMODE((here / "talk.jsonl").stat().st_mode)
    assert ["talk.jsonl"] == [path.name for path in here.iterdir()]
    assert 1 == session_core("import", "talk.jsonl")
    assert "import this one as a new session (--as-new)" in capfd.readouterr().err
    assert 0 == session_core("import", "--as-new", "talk.jsonl")
    made = capfd.readouterr().out.strip()

    assert not one.endswith(made)
    assert 0 == session_core("show", made)
    assert "1 Done." in capfd.readouterr().out


def test_an_export_overwrites_nothing_unasked(home: Path, here: Path, capfd: Said) -> None:
    """A file that is there is kept, and replaced only with --force."""
    keep(home, "count to 1")
    target = here / "talk.jsonl"
    target.write_text("precious", encoding="utf-8")
    assert 2 == session_core("export", "count to 1", "talk.jsonl")
    assert "precious" == target.read_text(encoding="utf-8")
    assert 0 == session_core("export", "--force", "count to 1", "talk.jsonl")

    assert target.read_text(encoding="utf-8").startswith('{"type":"session_core_export"')


def test_an_export_to_nowhere(home: Path, here: Path, capfd: Said) -> None:
    """A file that cannot be made is one line with the reason."""
    keep(home, "count to 1")

    assert 2 == session_core("export", "count to 1", "no/such/place")
    assert "cannot be written: No such file or directory" in capfd.readouterr().err


def test_a_damaged_session_leaves_no_half_export(home: Path, here: Path, capfd: Said) -> None:
    """A session that cannot be read to its end leaves no file behind."""
    keep(home, "count to 1")
    damage(home)

    assert 1 == session_core("export", "count to 1", "talk.jsonl")
    assert "store verify" in capfd.readouterr().err
    assert [] == list(here.iterdir())


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (None, "'talk.jsonl' cannot be read: No such file or directory"),
        ("", "there is nothing to import: the file is empty"),
        ("hello\n", "line 1: this is not the beginning of an exported session; nothing was imported"),
    ],
)
def test_what_cannot_be_imported(home: Path, here: Path, content: str | None, sentence: str, capfd: Said) -> None:
    """A file that is no export is refused in one line, and no home is made for it."""
    if content is not None:
        (here / "talk.jsonl").write_text(content, encoding="utf-8")

    assert 2 == session_core("import", "talk.jsonl")
    assert f"session-core: {sentence}\n" == capfd.readouterr().err
    assert not home.exists()
