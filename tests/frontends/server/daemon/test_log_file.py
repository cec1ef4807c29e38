"""The log of a service: lines of JSON, private, bounded, without secrets."""

import json
import logging
import stat
from pathlib import Path
from typing import Any

import pytest

from frontends.server.daemon import log_file
from frontends.server.daemon.log_file import last_messages, write_log

OURS = logging.getLogger("session_core.something")
THEIRS = logging.getLogger("some_library")


def lines_of(file: Path) -> list[dict[str, Any]]:
    """What a log holds."""
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_lines_of_json(tmp_path: Path) -> None:
    """Each record is one line of ASCII in a private file, with its error, and so much of it as was asked for."""
    file = tmp_path / "logs" / "service.log"
    with write_log(file, "info", {}):
        OURS.debug("too much")
        OURS.info("hello %s\n\x1b[31m", "wörld")
        THEIRS.info("chatter")
        THEIRS.warning("watch out")
        try:
            raise ValueError("oh")
        except ValueError:
            OURS.exception("it failed")
    OURS.warning("after the end")

    told = lines_of(file)
    assert ["hello wörld\n\x1b[31m", "watch out", "it failed"] == [each["message"] for each in told]
    assert ["info", "warning", "error"] == [each["level"] for each in told]
    assert "ValueError: oh" in told[2]["error"]
    assert file.read_text().isascii()
    assert "\x1b" not in file.read_text()
    assert 0o600 == stat.S_IMODE(file.stat().st_mode)
    assert 0o700 == stat.S_IMODE(file.parent.stat().st_mode)


def test_secrets_are_masked(tmp_path: Path) -> None:
    """Keys of the environment and whatever looks like a key never reach the file, not even in a traceback."""
    file = tmp_path / "logs" / "service.log"
    with write_log(file, "info", {"OPENAI_API_KEY": "hunter2-hunter2", "HARMLESS": "in plain view"}):
        OURS.warning("the key is hunter2-hunter2, in plain view")
        OURS.warning("Authorization: Bearer abcdefghijk")
        try:
            raise ValueError("sk-abcdefghijklmnop")
        except ValueError:
            OURS.exception("it failed")

    said = file.read_text()
    assert "in plain view" in said
    assert all(each not in said for each in ("hunter2", "abcdefghijk", "sk-abc"))


def test_it_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that has become long is set aside, the oldest of these goes, and all of them are private."""
    monkeypatch.setattr(log_file, "FILE_BYTES", 2_000)
    file = tmp_path / "logs" / "service.log"
    with write_log(file, "info", {}):
        for number in range(200):
            OURS.info("line %d", number)
    files = sorted(file.parent.iterdir())
    assert ["service.log", "service.log.1", "service.log.2", "service.log.3"] == [each.name for each in files]
    assert all(each.stat().st_size <= 2_000 for each in files)
    assert {0o600} == {stat.S_IMODE(each.stat().st_mode) for each in files}
    assert "line 199" == lines_of(file)[-1]["message"]


def test_a_disk_that_does_not_keep_up_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be written in time is left out, never waited for, and its number is told."""
    monkeypatch.setattr(log_file, "_WAITING_LINES", 4)
    monkeypatch.setattr(log_file._Writing, "start", lambda self: None)
    held: list[Any] = []
    monkeypatch.setattr(log_file._Writing, "__init__", _remember(held, log_file._Writing.__init__))
    file = tmp_path / "logs" / "service.log"
    monkeypatch.setattr(log_file._Writing, "stop", lambda self: None)
    with write_log(file, "info", {}):
        for number in range(10):
            OURS.info("line %d", number)
        waiting = held[0]
        written = [waiting.get_nowait().msg for _ in range(4)]
        OURS.info("once more")
        written += [waiting.get_nowait().msg for _ in range(2)]
    messages = [json.loads(each)["message"] for each in written]
    assert ["line 0", "line 1", "line 2", "line 3"] == messages[:4]
    assert ["6 lines were dropped: the disk was too slow", "once more"] == messages[4:]


def _remember(held: list[Any], init: Any) -> Any:
    def remembering(self: Any, lines: Any, writer: Any) -> None:
        held.append(lines)
        init(self, lines, writer)

    return remembering


def test_the_last_messages(tmp_path: Path) -> None:
    """Of a log, what tells of something wrong can be had in the end; a damaged or missing one says nothing."""
    file = tmp_path / "service.log"
    file.write_text('{"level": "error", "message": "one"}\nnonsense\n{"level": "info", "message": "two"}\n[]\n')
    assert ["one"] == last_messages(file, 3)
    assert [] == last_messages(tmp_path / "missing", 3)
