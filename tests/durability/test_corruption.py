"""What one flipped bit or a cut can do to a store: it is noticed, it harms what it hits, and the rest can be saved."""

import json
import os
import shutil
import sqlite3
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import attrs
import pytest
import trio

from session_core.errors import StoreDamaged
from session_core.ids import SessionId
from session_core.storage.executor_state import leaf_digests
from session_core.storage.files import MARK_FILE, STORE_FILE
from session_core.storage.maintenance.findings import LEAVES_MISSING
from session_core.storage.maintenance.rebuild import LOST_WITH_LOG, RebuildReport, rebuild_store
from session_core.storage.maintenance.verify import VerifyReport, verify_store
from tests._mostly_slow import mostly_slow
from tests.session_core.storage.maintenance._stores import (
    Contents,
    contents_of,
    count_kept,
    make_interrupted_store,
    make_store,
)

SMALL_PAGE = 512
HEADER_BITS = 800
RANDOM_BITS = 60
RANDOM_SEEDS = 6


WAL_BITS = 40
PARTS = 64
EVERY_BIT = "CORRUPTION_EVERY_BIT"
"""Set to 1, the slow test takes all eight bits of each byte, which needs many hours; otherwise one of them."""


@attrs.frozen(kw_only=True)
class Original:
    """A sound store as bytes, what is in it, and a place on a fast disk to try what becomes of it."""

    image: bytes
    log: bytes
    mark: bytes
    contents: Contents
    place: Path

    def flipped(self, bit: int) -> bytes:
        """Return the file with one bit changed."""
        return flip(self.image, bit)

    def home_with(self, image: bytes, log: bytes) -> Path:
        """Make a home that holds these bytes."""
        home = self.place / "home"
        shutil.rmtree(home, ignore_errors=True)
        home.mkdir(mode=0o700)
        (home / STORE_FILE).write_bytes(image)
        (home / MARK_FILE).write_bytes(self.mark)
        if log:
            (home / f"{STORE_FILE}-wal").write_bytes(log)
        return home


def flip(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


@pytest.fixture(scope="module")
def fast_place() -> Iterator[Path]:
    in_memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=in_memory if in_memory.is_dir() else None) as name:
        yield Path(name)


@pytest.fixture(scope="module")
def original(fast_place: Path) -> Original:
    return taken(fast_place / "made", fast_place)


@pytest.fixture(scope="module")
def original_of_small_pages(fast_place: Path) -> Original:
    """The same store in small pages: fewer unused bytes, and every table a tree of many pages."""
    home = fast_place / "small"
    trio.run(make_store, home)
    with closing(sqlite3.connect(home / STORE_FILE, isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = DELETE")
        db.execute(f"PRAGMA page_size = {SMALL_PAGE}")
        db.execute("VACUUM")
        db.execute("PRAGMA journal_mode = WAL")
    return read(home, fast_place)


@pytest.fixture(scope="module")
def interrupted(fast_place: Path) -> Original:
    """What a crash left behind: most of it is still in the write-ahead log, and an answer is half written."""
    copy = fast_place / "interrupted"
    trio.run(make_interrupted_store, fast_place / "running", copy)
    return read(copy, fast_place)


def taken(home: Path, place: Path) -> Original:
    trio.run(make_store, home)
    return read(home, place)


def read(home: Path, place: Path) -> Original:
    log = home / f"{STORE_FILE}-wal"
    original = Original(
        image=(home / STORE_FILE).read_bytes(),
        log=log.read_bytes() if log.exists() else b"",
        mark=(home / MARK_FILE).read_bytes(),
        contents=contents_of(home),
        place=place,
    )
    assert verify_store(home).findings == ()
    return original


def named(report: VerifyReport) -> set[SessionId | None]:
    return {each.session_id for each in report.findings if each.severity == "error" or LEAVES_MISSING in each.what}


def same(session_id: SessionId, found: Contents, original: Contents) -> bool:
    return all(
        session_id in ours and ours[session_id] == theirs[session_id]
        for ours, theirs in (
            (found.listed, original.listed),
            (found.loaded, original.loaded),
            (found.journals, original.journals),
            (found.leaves, original.leaves),
        )
    )


def judge(original: Original, image: bytes, log: bytes = b"", *, repair: bool = True) -> str:
    """Check all promises for a store that was changed behind everybody's back, and say what became of it."""
    home = original.home_with(image, log)
    before = original.contents
    report = verify_store(home)
    assert (home / STORE_FILE).read_bytes() == image, "verify changes nothing"
    found = contents_of(home)
    if not report.findings:
        assert found == before, "what is not noticed does no harm"
        return "harmless"
    for session_id in before.loaded:
        if not same(session_id, found, before) and not log:
            assert named(report) & {session_id, None}, "a session that is not named is as it was"
    if not repair:
        return "noticed"
    rebuilt = rebuild_store(home)
    after = contents_of(home)
    harmed = [session_id for session_id in before.loaded if not same(session_id, after, before)]
    for session_id in before.loaded:
        told = [each for each in rebuilt.lost if session_id in each]
        if session_id in harmed:
            assert told or (log and LOST_WITH_LOG in rebuilt.lost), "what is lost is told"
        else:
            assert all("is unknown" in each for each in told), "what is said to be lost is lost"
    for session_id in harmed:
        kept = after.journals.get(session_id, ())
        count = count_kept(kept, before.journals[session_id])
        assert count == len(kept) or is_settled(rebuilt, session_id), "a session stays a beginning of what it was"
        missing = len(before.journals[session_id]) - count - set_aside(rebuilt, session_id)
        assert missing <= 1, "a flipped bit costs the record it hits, the others can be read"
        lost = len(before.leaves[session_id]) - len(after.leaves.get(session_id, ()))
        assert lost <= 1 or missing, "it costs no more of what code has left behind"
    assert after.listed.keys() <= before.listed.keys(), "nothing is invented"
    check_mended(home, after)
    return "lost a record" if harmed else "repaired"


def check_mended(home: Path, contents: Contents) -> None:
    """Check that nothing is wrong, but that parts are missing which nobody can make again."""
    incomplete = {
        each
        for each, state in contents.loaded.items()
        if len(contents.leaves[each]) < len(leaf_digests(state.executor))
    }
    findings = verify_store(home).findings
    assert [LEAVES_MISSING in each.what for each in findings] == [True] * len(incomplete)
    assert {each.session_id for each in findings} == incomplete


def is_settled(report: RebuildReport, session_id: SessionId) -> bool:
    """Return whether a rebuild has recorded events of its own, after the kept ones."""
    return any(session_id in each for each in report.settled)


def set_aside(report: RebuildReport, session_id: SessionId) -> int:
    if report.set_aside is None:
        return 0
    lines = map(json.loads, report.set_aside.read_text(encoding="utf-8").splitlines())
    return sum(1 for line in lines if line["session_id"] == session_id and line["complete"])


@pytest.mark.slow
def test_every_bit_of_the_header(original: Original) -> None:
    """Whatever bit of the file's header flips, it is noticed or does no harm, and no record is lost by it."""
    verdicts = Counter(judge(original, original.flipped(bit), repair=bit % 27 == 0) for bit in range(HEADER_BITS))

    assert verdicts.keys() == {"harmless", "noticed", "repaired"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(RANDOM_SEEDS))
def test_a_flipped_bit_is_noticed_and_harms_only_what_it_hits(original: Original, seed: int) -> None:
    """A bit that flips anywhere in the file is noticed or harmless, and costs at most the record it hits."""
    bits = Random(seed).sample(range(len(original.image) * 8), RANDOM_BITS)

    verdicts = Counter(judge(original, original.flipped(bit)) for bit in bits)

    assert verdicts.keys() == {"harmless", "repaired", "lost a record"}, "all kinds occur, so the test has teeth"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_every_byte(original_of_small_pages: Original, part: int) -> None:
    """Every byte of a store may change by a bit, and all that is promised holds."""
    original = original_of_small_pages
    every_bit = os.environ.get(EVERY_BIT) == "1"
    verdicts: Counter[str] = Counter()
    for place in range(part, len(original.image), PARTS):
        for bit in range(8) if every_bit else [place * 5 // PARTS % 8]:
            verdicts[judge(original, original.flipped(place * 8 + bit))] += 1

    assert verdicts.keys() == {"harmless", "repaired", "lost a record"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", mostly_slow(range(2), quick=1))
def test_a_flipped_bit_in_the_log(interrupted: Original, seed: int) -> None:
    """A bit that flips in the log of a crashed service is noticed or harmless, and costs at most the record it hits."""
    bits = Random(seed).sample(range(len(interrupted.log) * 8), WAL_BITS)

    verdicts = Counter(judge(interrupted, interrupted.image, flip(interrupted.log, bit)) for bit in bits)

    assert verdicts["repaired"]
    assert verdicts["harmless"] < WAL_BITS // 2


@pytest.mark.parametrize("part", mostly_slow(range(4), quick=1))
@pytest.mark.slow
def test_a_file_that_was_cut_off(original: Original, part: int) -> None:
    """A file that was cut off anywhere is noticed, and what is left of each session is a beginning of it."""
    for length in _cuts(original, every=512)[part::4]:
        _check_cut(original, length)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_a_file_that_was_cut_off_at_many_more_places(original: Original, part: int) -> None:
    """A file that was cut off anywhere is noticed, and what is left of each session is a beginning of it."""
    for length in _cuts(original, every=16)[part::PARTS]:
        _check_cut(original, length)


def _cuts(original: Original, *, every: int) -> list[int]:
    size, page = len(original.image), 4_096
    edges = {place + off for place in range(page, size, page) for off in (-1, 0, 1)}
    return sorted({*range(every, size, every), *edges})


def _check_cut(original: Original, length: int) -> None:
    home = original.home_with(original.image[:length], b"")

    assert not verify_store(home).ok
    _check_what_is_left(home, original.contents)


def _check_what_is_left(home: Path, before: Contents) -> None:
    damaged = (home / STORE_FILE).read_bytes()
    try:
        rebuilt = rebuild_store(home)
    except StoreDamaged:
        assert (home / STORE_FILE).read_bytes() == damaged, "a store of which nothing can be saved is left alone"
        return
    after = contents_of(home)
    assert after.listed.keys() <= before.listed.keys()
    for session_id in after.journals:
        kept = after.journals[session_id]
        assert count_kept(kept, before.journals[session_id]) == len(kept) or is_settled(rebuilt, session_id)
        assert same(session_id, after, before) or any(session_id in each for each in rebuilt.lost)
    check_mended(home, after)
