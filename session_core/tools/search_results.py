"""Search results: read from the searching program as they arrive, bounded, and formatted for the model."""

import json
import os
from base64 import b64decode
from binascii import Error as NoBase64
from collections.abc import Callable
from typing import Any, Final, Literal

import attrs

from session_core.tools.text_files import append_remarks, cut, format_count, plain_name

MAX_SHOWN_LINE_CHARS: Final = 500
_MAX_DOCUMENT_CHARS: Final = 2_000_000
"""Longer lines are data, and a match in them is of no use."""

Show = Literal["lines", "files", "counts"]


@attrs.frozen(kw_only=True)
class FoundLine:
    """One line of a file."""

    number: int
    text: str
    matches: bool


@attrs.define
class FoundFile:
    """The matches in one file: how many lines match, and the lines in order, with their context."""

    path: str
    matches: int = 0
    lines: list[FoundLine] = attrs.field(factory=list)


class SearchResults:
    """Collects the output of a searching program, up to a number of lines, or of files if lines are not shown.

    It calls `when_full` as soon as there is more than that.
    """

    def __init__(self, show: Show, *, limit: int, when_full: Callable[[], None]) -> None:
        self.files: list[FoundFile] = []
        self.is_full = False
        self.is_complete = False
        self.error: str | None = None
        self.too_long = 0
        self._show = show
        self._limit = limit
        self._when_full = when_full
        self._open: FoundFile | None = None
        self._count = 0
        self._rest = ""
        self._skipping = False

    def feed(self, text: str) -> None:
        """Process a piece of output, cut anywhere."""
        *whole, rest = text.split("\n")
        for part in whole:
            if self._skipping:
                self._skipping = False
                self.too_long += 1
            else:
                self._take(self._rest + part)
            self._rest = ""
        if not self._skipping:
            self._rest += rest
        if len(self._rest) > _MAX_DOCUMENT_CHARS:
            self._rest, self._skipping = "", True

    def next_program(self) -> None:
        """Start with the output of another program; drops half a document that an ended program left."""
        self._rest, self._skipping, self._open, self.is_complete = "", False, None, False

    def _take(self, document: str) -> None:
        try:
            message = json.loads(document)
            kind, data = message["type"], message["data"]
        except (ValueError, TypeError, KeyError):  # an error message rather than a document
            return
        match kind:
            case "match" | "context":
                self._add(data, matches=kind == "match")
            case "end":
                self._end_file(data)
            case "summary":
                self.is_complete = True
            case "error":
                self.error = str(data.get("message"))
            case _:
                pass

    def _add(self, data: dict[str, Any], *, matches: bool) -> None:
        if self.is_full:
            return
        path = _decode_text(data["path"]).removeprefix("./")
        if self._open is None or self._open.path != path:
            self._open = FoundFile(path)
        if matches and self._current_count(self._open) >= self._limit:
            self._fill()
            return
        self._open.matches += matches
        if self._show != "lines":
            return
        text = _decode_text(data["lines"]).removesuffix("\n").removesuffix("\r").removeprefix("\ufeff")
        self._open.lines.append(FoundLine(number=data["line_number"], text=_shorten_line(text), matches=matches))

    def _current_count(self, file: FoundFile) -> int:
        return self._count + file.matches if self._show == "lines" else len(self.files)

    def _end_file(self, data: dict[str, Any]) -> None:
        # Only now do we know whether the whole file is text.
        if self._open is not None and data.get("binary_offset") is None:
            self._keep(self._open)
        self._open = None

    def _keep(self, file: FoundFile) -> None:
        if file.matches:
            self.files.append(file)
            self._count += file.matches

    def _fill(self) -> None:
        if self._open is not None:
            self._keep(self._open)
            self._open = None
        self.is_full = True
        self._when_full()


def _decode_text(value: dict[str, str]) -> str:
    if "text" in value:
        return value["text"]
    try:
        return os.fsdecode(b64decode(value["bytes"]))
    except (KeyError, NoBase64):
        return ""


def _shorten_line(text: str) -> str:
    text = text.encode("utf-8", errors="replace").decode() if not text.isascii() else text
    if len(text) <= MAX_SHOWN_LINE_CHARS:
        return text
    return f"{text[:MAX_SHOWN_LINE_CHARS]}... [cut: {len(text):,} characters]"


def format_results(files: list[FoundFile], show: Show, remarks: list[str]) -> str:
    """Format the results for the model."""
    lines: list[str] = []
    for file in files:
        name = plain_name(file.path)
        match show:
            case "files":
                lines.append(name)
            case "counts":
                lines.append(f"{name}: {format_count(file.matches, 'line')}")
            case "lines":
                lines += [name, *_format_excerpts(file)]
    return append_remarks(cut("\n".join(lines) or "(nothing found)"), remarks)


def _format_excerpts(file: FoundFile) -> list[str]:
    rendered: list[str] = []
    before: FoundLine | None = None
    has_context = any(not line.matches for line in file.lines)
    for line in file.lines:
        if has_context and before is not None and line.number > before.number + 1:
            rendered.append("  --")
        rendered.append(f"  {line.number}{':' if line.matches else '-'} {line.text}")
        before = line
    return rendered
