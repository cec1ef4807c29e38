"""Calls that were allowed for good, and the file they are kept in."""

import json
import os
from functools import partial
from pathlib import Path

import pytest
import trio

from session_core.permissions import standing_grants
from session_core.permissions.standing_grants import StandingGrants
from session_core.storage import private_table


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where grants are kept."""
    return tmp_path / "standing.json"


async def test_grants_survive(file: Path) -> None:
    """What was allowed is allowed for whoever opens the file later, and for its owner only."""
    grants = StandingGrants(file)
    assert ([], False) == (list(grants), "a" in grants)
    await grants.add("a", tool="t", summary="write \ud800 x")
    await grants.add("b", tool="t", summary="write y")
    again = StandingGrants(file)
    assert (["a", "b"], 2, True, False) == (list(again), len(again), "a" in again, "c" in again)
    assert (0o600, [file, file.with_suffix(".lock")]) == look(file)


def look(file: Path) -> tuple[int, list[Path]]:
    """Who may read the file, and what lies beside it."""
    return file.stat().st_mode & 0o777, sorted(file.parent.iterdir())


def kept(file: Path) -> set[str]:
    """What stands in the file."""
    return set(json.loads(file.read_text(encoding="utf-8"))["allowed"])


async def test_without_a_file() -> None:
    """Without a file they last as long as the service."""
    grants = StandingGrants()
    await grants.add("a", tool="t", summary="s")
    assert "a" in grants


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"5",
        b'{"allowed": ["a"]}',
        b'{"allowed": {"a": null}}',
        b'{"allowed": {"a": {"tool": "t"}}}',
        b'{"version": 1, "other": {"a": {"tool": "t", "summary": "s"}}}',
        b"[" * 100_000,
    ],
)
def test_a_damaged_file_grants_nothing(file: Path, content: bytes, caplog: pytest.LogCaptureFixture) -> None:
    """What cannot be read allows nothing, says so, and can be written anew."""
    file.write_bytes(content)
    grants = StandingGrants(file)
    assert [] == list(grants)
    assert "cannot be read" in caplog.text
    trio.run(partial(grants.add, "b", tool="t", summary="s"))
    assert ["b"] == list(StandingGrants(file))


def test_a_file_that_may_not_be_read(file: Path) -> None:
    """A folder in the file's place grants nothing and breaks nothing."""
    file.mkdir()
    assert [] == list(StandingGrants(file))


async def test_a_file_that_cannot_be_read_now(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its grants are not lost: a grant from that time holds as long as the service, and joins them when it can."""
    await StandingGrants(file).add("a", tool="t", summary="s")

    def fail(*_: object) -> bytes:
        raise OSError(5, "input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(private_table, "read_private", fail)
        grants = StandingGrants(file)
        await grants.add("b", tool="t", summary="s")
        assert ["b"] == list(grants)
        assert "could not be saved" in caplog.text
    assert ["a"] == list(StandingGrants(file))
    await grants.add("c", tool="t", summary="s")
    assert ["a", "b", "c"] == list(StandingGrants(file))
    assert (0o600, [file, file.with_suffix(".lock")]) == look(file)


@pytest.mark.parametrize("moment", ["fsync", "replace"])
async def test_a_write_that_fails_leaves_the_old_file(
    file: Path, monkeypatch: pytest.MonkeyPatch, moment: str, caplog: pytest.LogCaptureFixture
) -> None:
    """At whatever moment writing breaks off, the file has the grants from before, whole, and the service goes on."""
    await StandingGrants(file).add("a", tool="t", summary="s")
    grants = StandingGrants(file)

    def fail(*_: object) -> None:
        raise OSError(28, "no space left")

    with monkeypatch.context() as broken:
        broken.setattr(os if moment == "fsync" else Path, moment, fail)
        await grants.add("b", tool="t", summary="s")
    assert "b" in grants
    assert "could not be saved" in caplog.text
    assert ["a"] == list(StandingGrants(file))
    await grants.add("c", tool="t", summary="s")
    assert ["a", "b", "c"] == list(StandingGrants(file))


def test_a_planted_link_is_not_followed(file: Path, tmp_path: Path) -> None:
    """A link in the place of the new file does not make us write to where it leads."""
    victim = tmp_path / "victim"
    victim.write_text("mine", encoding="utf-8")
    file.with_suffix(".tmp").symlink_to(victim)
    grants = StandingGrants(file)
    trio.run(partial(grants.add, "a", tool="t", summary="s"))
    assert "mine" == victim.read_text(encoding="utf-8")
    assert not file.exists()


async def test_many_at_once(file: Path) -> None:
    """Grants that come at the same time are all kept."""
    grants = StandingGrants(file)

    async def add(number: int) -> None:
        await grants.add(str(number), tool="t", summary="s")

    async with trio.open_nursery() as nursery:
        for number in range(20):
            nursery.start_soon(add, number)
    assert {str(number) for number in range(20)} == set(StandingGrants(file))


async def test_the_oldest_are_forgotten(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a bound to how many are kept, in the file as in memory."""
    monkeypatch.setattr(standing_grants, "MAX_STANDING", 2)
    grants = StandingGrants(file)
    for fingerprint in "abc":
        await grants.add(fingerprint, tool="t", summary="s")
    assert ["b", "c"] == list(grants)
    assert {"b", "c"} == kept(file)
