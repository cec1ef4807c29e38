"""The record of one turn: JSON lines, each with a checksum, appended and made durable before a file is changed.

A torn or damaged line is skipped and counted; the lines around it stay valid. Since a write waits for its line, a torn
last line means that the write never began.
"""

import json
import os
import re
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final, get_args

import attrs

from session_core.checkpoints.blobs import NAME, make_private_folder, sync_folder
from session_core.checkpoints.values import FileState, Origin, SavedFile, StateKind, UndoDescription
from session_core.errors import StoreUnusable
from session_core.ids import TurnId
from session_core.sandbox.file_values import write_all
from session_core.storage.private_files import private_open, replace_private

MAX_LINE_BYTES: Final = 64 * 1024
"""A path of 4,096 characters, each written as an escape, with room to spare."""

_KINDS: Final = frozenset(get_args(StateKind))
_ORIGINS: Final = frozenset(get_args(Origin))
_FILE_NAME: Final = re.compile(r"(\d{8})\.([A-Za-z0-9_-]{1,100})\.jsonl", re.ASCII)


@attrs.define(kw_only=True)
class TurnRecord:
    """The record of one turn, in the order in which it was saved."""

    turn_id: TurnId
    number: int
    saved_at: int = 0
    undo: bool = False
    dropped: bool = False
    damaged: int = 0
    before: dict[str, tuple[FileState, Origin]] = attrs.field(factory=dict)
    after: dict[str, FileState] = attrs.field(factory=dict)
    remarks: list[str] = attrs.field(factory=list)
    undoes: UndoDescription | None = None
    finished: bool = False

    def files(self) -> tuple[SavedFile, ...]:
        """Return the files of this turn."""
        return tuple(
            SavedFile(path=path, before=state, after=self.after.get(path), origin=origin)
            for path, (state, origin) in self.before.items()
        )

    def apply_line(self, fields: dict[str, Any]) -> None:
        """Fold one line into the record; raise `ValueError` or `KeyError` for a line that we did not write."""
        match fields["line"]:
            case "turn":
                self.saved_at = _read_whole_number(fields["at"])
                self.undo = fields["undo"] is True
                self.dropped = fields["dropped"] is True
            case "before":
                origin: Origin = fields["origin"] if fields["origin"] in _ORIGINS else "tool"
                # Only the first line of a path counts: later ones can only come from damage or tampering.
                self.before.setdefault(_read_text(fields["path"]), (parse_state(fields["state"]), origin))
            case "after":
                self.after[_read_text(fields["path"])] = parse_state(fields["state"])
            case "remark":
                if (remark := _read_text(fields["text"])) not in self.remarks:
                    self.remarks.append(remark)
            case "undoes":
                self.undoes = _read_undo_description(fields)
            case "finished":
                self.finished = True
            case other:
                raise ValueError(f"no such line: {other!r}")


def turn_line(*, saved_at: int, undo: bool, dropped: bool = False) -> dict[str, Any]:
    """Return the first line of a record."""
    return {"line": "turn", "at": saved_at, "undo": undo, "dropped": dropped}


def before_line(path: str, state: FileState, origin: Origin) -> dict[str, Any]:
    """Return the line for the state of a file before the turn changed it."""
    return {"line": "before", "path": path, "state": attrs.asdict(state), "origin": origin}


def after_line(path: str, state: FileState) -> dict[str, Any]:
    """Return the line for the state in which the turn left a file."""
    return {"line": "after", "path": path, "state": attrs.asdict(state)}


def remark_line(text: str) -> dict[str, Any]:
    """Return the line for a remark to people about the record."""
    return {"line": "remark", "text": text}


def undoes_line(undoing: UndoDescription) -> dict[str, Any]:
    """Return the line that says what an undo reverts."""
    return {"line": "undoes", **attrs.asdict(undoing)}


def finished_line() -> dict[str, Any]:
    """Return the line that says that an undo is finished."""
    return {"line": "finished"}


def file_name(record: TurnRecord) -> str:
    """Return the file name of a turn's record: its number keeps the order, whatever the clock says."""
    return f"{record.number:08}.{record.turn_id}.jsonl"


def encode(lines: Iterable[dict[str, Any]]) -> bytes:
    """Write lines with their checksums."""
    return b"".join(_encode(line) for line in lines)


def decode(data: bytes) -> Iterator[dict[str, Any] | None]:
    """Read lines; `None` stands for a damaged one. A last line without its end is not valid and is left out."""
    *whole, torn = data.split(b"\n")
    del torn
    for line in whole:
        if line:
            yield _decode(line)


def read_turn(path: Path) -> TurnRecord | None:
    """Read the record of a turn; None if the file is something else."""
    named = _FILE_NAME.fullmatch(path.name)
    if named is None:
        return None
    record = TurnRecord(turn_id=TurnId(named[2]), number=int(named[1]))
    try:
        lines = read_lines(path)
    except (OSError, StoreUnusable):
        record.damaged = 1
        return record
    for fields in lines:
        try:
            if fields is None:
                raise ValueError("damaged")
            record.apply_line(fields)
        except (ValueError, KeyError, TypeError):
            record.damaged += 1
    return record


def _cut_torn_line(descriptor: int) -> None:
    """Remove a line torn by a crash: it was never valid, must not become so, and must not swallow the next line."""
    size = os.fstat(descriptor).st_size
    if not size or os.pread(descriptor, 1, size - 1) == b"\n":
        return
    end = size
    while end:
        start = max(0, end - _PIECE)
        if (place := os.pread(descriptor, end - start, start).rfind(b"\n")) >= 0:
            os.ftruncate(descriptor, start + place + 1)
            return
        end = start
    os.ftruncate(descriptor, 0)


_PIECE = 4_096


def append(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    """Add lines and wait until they are durable."""
    make_private_folder(path.parent)
    new = not path.exists()
    descriptor = private_open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    try:
        _cut_torn_line(descriptor)
        write_all(descriptor, encode(lines))
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    if new:
        sync_folder(path.parent)


def replace(path: Path, lines: Iterable[dict[str, Any]]) -> None:
    """Rewrite a file atomically and wait until it is durable."""
    make_private_folder(path.parent)
    replace_private(path, encode(lines))


def read_lines(path: Path) -> Iterator[dict[str, Any] | None]:
    """Read a record, as `decode`.

    Raises:
        StoreUnusable: It cannot be read, or others could have written it.
    """
    with os.fdopen(private_open(path, os.O_RDONLY, obeyed=True), "rb") as file:
        return decode(file.read())


def parse_state(fields: object) -> FileState:
    """Read a state from its stored form, that of `attrs.asdict`; raise `ValueError` for one that we did not write."""
    if not isinstance(fields, dict) or set(fields) != set(attrs.fields_dict(FileState)):
        raise ValueError("not a state")
    if fields["kind"] not in _KINDS:
        raise ValueError("no such kind")
    name = fields["sha256"]
    if name is not None and not (isinstance(name, str) and NAME.fullmatch(name)):
        raise ValueError("not a hash")
    if (fields["kind"] == "content") and name is None:
        raise ValueError("a content has a hash")
    return FileState(
        kind=fields["kind"],
        sha256=name,
        size=_read_whole_number(fields["size"]),
        mode=_read_whole_number(fields["mode"]) & 0o777,
        mtime_ns=_read_whole_number(fields["mtime_ns"]),
        why=_read_text(fields["why"]),
    )


def _encode(fields: dict[str, Any]) -> bytes:
    text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
    return f'{{"check":{zlib.crc32(text.encode())},"fields":{text}}}\n'.encode()


def _decode(line: bytes) -> dict[str, Any] | None:
    if len(line) > MAX_LINE_BYTES:
        return None
    try:
        whole = json.loads(line)
        fields = whole["fields"]
        text = json.dumps(fields, sort_keys=True, separators=(",", ":"))
        if not isinstance(fields, dict) or whole["check"] != zlib.crc32(text.encode()):
            return None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return fields


def _read_undo_description(fields: dict[str, Any]) -> UndoDescription:
    return UndoDescription(
        turn_ids=tuple(TurnId(_read_text(each)) for each in fields["turn_ids"]),
        root=_read_text(fields["root"]),
        takes_back=None if fields["takes_back"] is None else TurnId(_read_text(fields["takes_back"])),
        conversation=fields["conversation"] is True,
        head_before=_text_or_none(fields["head_before"]),
        head_after=_text_or_none(fields["head_after"]),
    )


def _read_whole_number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise ValueError("not a whole number")
    return value


def _text_or_none(value: object) -> str | None:
    return None if value is None else _read_text(value)


def _read_text(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("not a string")
    return value
