"""The log of a service: one JSON object per line, bounded on the disk and in memory, with secrets masked.

A slow disk never blocks the service: a thread writes, and lines that it cannot take in time are dropped and counted.
"""

import json
import logging
import os
import queue
import re
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from io import TextIOWrapper
from logging.handlers import QueueHandler, QueueListener, RotatingFileHandler
from pathlib import Path
from typing import Final

import session_core as sc
from frontends.shared.sanitise import dump_json

LEVELS: Final = ("debug", "info", "warning", "error")
FILE_BYTES: Final = 4 * 1024 * 1024
"""The longest file; then it is rotated, and the oldest one is deleted."""
FILES_BEFORE: Final = 3
_WAITING_LINES: Final = 2_000
_MESSAGE_CHARS: Final = 8_000
_OURS: Final = ("session_core", "frontends")
_NAMES_OF_SECRETS: Final = re.compile(r"(?i)(?:key|token|secret|password|passwd|credentials?)$")
_SHORTEST_SECRET: Final = 8


def secrets_in_environment(environ: Mapping[str, str]) -> tuple[sc.setup.Secret, ...]:
    """Return the values of variables whose names look like secrets."""
    return tuple(
        sc.setup.Secret(value)
        for name, value in environ.items()
        if _NAMES_OF_SECRETS.search(name) and len(value) >= _SHORTEST_SECRET
    )


class JsonLines(logging.Formatter):
    """Formats a record as one line of JSON."""

    def __init__(self, secrets: Iterable[sc.setup.Secret] = ()) -> None:
        super().__init__()
        self._secrets = tuple(secrets)

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, without its end."""
        said = {
            "at": datetime.fromtimestamp(record.created, tz=UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._clean(record.getMessage()),
        }
        if record.exc_info:
            said["error"] = self._clean(self.formatException(record.exc_info))
        return dump_json(said)  # ASCII: nothing in it can control the reader's terminal

    def _clean(self, text: str) -> str:
        masked = sc.setup.redact(text, self._secrets)  # before it is cut: half a key is not recognised
        return masked if len(masked) <= _MESSAGE_CHARS else f"{masked[:_MESSAGE_CHARS]}..."


class _PrivateFile(RotatingFileHandler):
    """A log file that only its owner may read."""

    def _open(self) -> TextIOWrapper:
        descriptor = sc.setup.private_open(Path(self.baseFilename), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        return open(descriptor, "a", encoding="ascii")  # noqa: PTH123 - a descriptor, and the handler closes it


class _BoundedQueueHandler(QueueHandler):
    """Passes finished lines to the writing thread; never waits for it."""

    left_out = 0

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        return logging.makeLogRecord({"msg": self.format(record), "levelno": record.levelno})

    def enqueue(self, record: logging.LogRecord) -> None:
        try:
            if self.left_out:
                self.queue.put_nowait(_build_record(f"{self.left_out} lines were dropped: the disk was too slow"))
                self.left_out = 0
            self.queue.put_nowait(record)
        except queue.Full:
            self.left_out += 1


class _Writing(QueueListener):
    """The thread that writes."""

    def __init__(self, lines: "queue.Queue[logging.LogRecord | None]", writer: logging.Handler) -> None:
        super().__init__(lines, writer)
        self._lines = lines

    def enqueue_sentinel(self) -> None:
        self._lines.put(None)  # waits for room, unlike the inherited method


def _build_record(message: str) -> logging.LogRecord:
    return logging.makeLogRecord({"msg": dump_json({"level": "warning", "message": message})})


@contextmanager
def write_log(file: Path, level: str, environ: Mapping[str, str] = os.environ) -> Generator[Path]:
    """Write the log to this file for the length of the block.

    Of other libraries, only warnings are kept: the rest may be more than people want on their disk.

    Raises:
        StoreUnusable: The file cannot be created, or is not private.
    """
    sc.setup.prepare_home(file.parent)
    writer = _PrivateFile(file, maxBytes=FILE_BYTES, backupCount=FILES_BEFORE, encoding="ascii")
    writer.setFormatter(logging.Formatter("%(message)s"))
    lines: queue.Queue[logging.LogRecord | None] = queue.Queue(_WAITING_LINES)
    bounded = _BoundedQueueHandler(lines)
    bounded.setFormatter(JsonLines(secrets_in_environment(environ)))
    listener = _Writing(lines, writer)
    root, before = logging.getLogger(), {name: logging.getLogger(name).level for name in ("", *_OURS)}
    wanted = logging.getLevelNamesMapping()[level.upper()]
    root.addHandler(bounded)
    root.setLevel(max(logging.WARNING, wanted))
    for name in _OURS:
        logging.getLogger(name).setLevel(wanted)
    listener.start()
    try:
        yield file
    finally:
        root.removeHandler(bounded)
        for name, earlier in before.items():
            logging.getLogger(name).setLevel(earlier)
        listener.stop()
        writer.close()
        bounded.close()


def last_messages(file: Path, most: int) -> list[str]:
    """Return the last warnings and errors of a log, for people; empty if there are none."""
    try:
        with file.open("rb") as opened:
            opened.seek(max(0, file.stat().st_size - 64 * 1024))
            lines = opened.read(64 * 1024).splitlines()
    except OSError:
        return []
    messages: list[str] = []
    for line in lines:
        try:
            said = json.loads(line)
            if said["level"] in {"warning", "error", "critical"}:
                messages.append(str(said["message"]))
        except (ValueError, LookupError, TypeError):
            continue
    return messages[-most:]
