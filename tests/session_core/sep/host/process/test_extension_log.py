"""What an extension says beside the protocol."""

import os
from pathlib import Path

import pytest
import trio

from session_core import limits
from session_core.sep.host.process.extension_log import ExtensionLog, ExtensionLogLine


def test_lines_are_cut_cleaned_and_bounded() -> None:
    """Texts become single lines without control characters, cut to a length, and the oldest are forgotten."""
    log = ExtensionLog(now=lambda: 7)
    log.note("info", "one\x1b[31m\ntwo\u202etwo\r\n\n" + "x" * 5_000)
    assert log.lines()[:2] == (
        ExtensionLogLine(time_ms=7, source="info", text="one\N{REPLACEMENT CHARACTER}[31m"),
        ExtensionLogLine(time_ms=7, source="info", text="two\N{REPLACEMENT CHARACTER}two"),
    )
    assert log.lines()[2].text == "x" * limits.EXTENSION_LOG_CHARS + " ..."
    for number in range(limits.EXTENSION_LOG_LINES):
        log.note("host", str(number))
    assert [line.text for line in log.lines()] == [str(number) for number in range(limits.EXTENSION_LOG_LINES)]


def test_last_words_are_those_of_one_process() -> None:
    """The last line of stderr is remembered for the process that wrote it, unfinished lines included."""
    whole = ExtensionLog()
    log = whole.open_process_log()
    log.feed_stderr(b"first\nsec")
    assert log.last_words() == "first"
    log.feed_stderr(b"ond\nthi\xc3")
    assert log.last_words() == "second"
    log.note("stdout", "something else")
    log.finish_stderr()
    assert log.last_words() == "thi\N{REPLACEMENT CHARACTER}"
    assert whole.open_process_log().last_words() == ""
    assert [line.source for line in whole.lines()] == ["stderr", "stderr", "stdout", "stderr"]


def test_the_lines_of_two_processes_do_not_mix() -> None:
    """While a reload is under way, each of both processes has its own unfinished line and its own last words."""
    whole = ExtensionLog()
    old, new = whole.open_process_log(), whole.open_process_log()
    old.feed_stderr(b"password: ")
    new.feed_stderr(b"no such module\n")
    old.feed_stderr(b"given\nbye")
    new.finish_stderr()
    old.finish_stderr()
    assert [line.text for line in whole.lines()] == ["no such module", "password: given", "bye"]
    assert (old.last_words(), new.last_words()) == ("bye", "no such module")


async def test_the_file_is_private_and_turned_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lines are written to a file of our own, which is replaced when it is full; one old file is kept."""
    monkeypatch.setattr(limits, "EXTENSION_LOG_BYTES", 100)
    file = tmp_path / "logs" / "x.log"
    for text in ("first", "second", "third"):
        log = ExtensionLog(file, now=lambda: 0)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.write_lines)
            log.note("stderr", text * 8)
            nursery.cancel_scope.cancel()
    assert file.read_text() == "1970-01-01T00:00:00.000+00:00 stderr: " + "third" * 8 + "\n"
    assert (tmp_path / "logs" / "x.log.1").read_text() == "1970-01-01T00:00:00.000+00:00 stderr: " + "second" * 8 + "\n"
    assert file.stat().st_mode & 0o777 == 0o600
    assert sorted(entry.name for entry in file.parent.iterdir()) == ["x.log", "x.log.1"]


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
async def test_a_file_that_cannot_be_written_is_told_once(tmp_path: Path, kind: str) -> None:
    """Where no file can be, or something else lies, the log goes on in memory and says so, and nothing hangs."""
    file, other = tmp_path / "x.log", tmp_path / "other"
    match kind:
        case "link":
            file.symlink_to(other)
        case "pipe":
            os.mkfifo(file)
        case _:
            file.mkdir()
    log = ExtensionLog(file)
    with trio.fail_after(300):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(log.write_lines)
            log.note("info", "hello")
            nursery.cancel_scope.cancel()
    assert not other.exists()
    assert log.file is None
    assert log.lines()[0].text == "hello"
    assert log.lines()[1].text.startswith(f"its log cannot be written to {file}: ")


async def test_a_slow_disk_loses_lines_and_says_how_many(tmp_path: Path) -> None:
    """Lines that the disk cannot take in time are left out of the file, and their number is in it."""
    log = ExtensionLog(tmp_path / "x.log")
    for number in range(limits.EXTENSION_LOG_LINES + 5):
        log.note("info", f"line {number}")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(log.write_lines)
        nursery.cancel_scope.cancel()
    lines = (tmp_path / "x.log").read_text().splitlines()
    assert lines[0] == "... 5 lines were left out"
    assert [line.partition("info: ")[2] for line in lines[1:]] == [
        f"line {number}" for number in range(5, limits.EXTENSION_LOG_LINES + 5)
    ]
