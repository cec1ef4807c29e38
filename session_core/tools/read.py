"""The tool that reads a file: some of its lines, numbered, or an image.

It reads a file piece by piece until it has the requested lines, so the size of the file does not matter. It recognises
images by their first bytes, never by their names.
"""

import codecs
from base64 import b64encode
from collections.abc import Iterator
from typing import Final

from session_core.limits import MAX_IMAGE_BYTES, MAX_TOOL_OUTPUT_CHARS
from session_core.sandbox.workspace import Workspace
from session_core.tools.argument_schemas import count_schema, object_schema
from session_core.tools.arguments import count_argument, refuse_unknown
from session_core.tools.base import ToolContext, ToolFailed, ToolOutput
from session_core.tools.text_files import (
    BOM,
    FILE_ARGUMENT,
    MAX_FILE_BYTES,
    ReadingTool,
    explain_errors,
    refuse_utf16,
    run_in_thread,
)
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ImagePart, ImageType, image_type
from session_core.vocabulary.tools import ToolSpec

MAX_LINES: Final = 2_000
"""Lines in one result, unless the call asks for more."""
MAX_LINE_CHARS: Final = 2_000
"""Longer lines are data or generated; their beginning is enough."""
MAX_SCANNED_BYTES: Final = 1_000_000_000
"""How far into a huge file we look for a line."""
_PIECE_BYTES: Final = 1_000_000
_STORED_LINE_BYTES: Final = 4 * (MAX_LINE_CHARS + 1)
_ROOM_FOR_REMARKS: Final = 500


class ReadTool(ReadingTool):
    """Show the lines of a text file with their numbers, or an image."""

    spec = ToolSpec(
        name="read",
        description=(
            "Read a text file, or look at a PNG, JPEG, GIF or WebP image. Each line comes with its number and a tab, "
            f"which are not part of the file. At most {MAX_LINES} lines come at once unless you ask for more; "
            "read on by naming the first line you want."
        ),
        parameters=object_schema(
            required={"path": FILE_ARGUMENT},
            optional={
                "first_line": count_schema("Where to start; 1 if left out."),
                "lines": count_schema(f"How many lines; {MAX_LINES} if left out."),
            },
        ),
    )
    verb = "read"

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Read the file; on cancel the result is discarded."""
        refuse_unknown(arguments, self.spec)
        path = self.read_path(arguments)
        first = count_argument(arguments, "first_line") or 1
        count = count_argument(arguments, "lines") or MAX_LINES
        workspace = context.workspace
        return await run_in_thread(lambda: read_file(workspace, path, first, count))


def read_file(workspace: Workspace, path: str, first: int, count: int) -> ToolOutput:
    """Read some lines of a text file, or a whole image."""
    with explain_errors(path):
        start = workspace.read(path, max_bytes=64)
    if media_type := image_type(start.data):
        return _read_image(workspace, path, media_type)
    refuse_utf16(path, start.data)
    taker = LineTaker(first, count)
    try:
        enough = _feed(taker, workspace, path, stop_early=start.size > MAX_FILE_BYTES)
    except UnicodeDecodeError as error:
        raise ToolFailed(f"{path!r} is not UTF-8 text; it may be a binary file") from error
    if enough:
        return ToolOutput(text=_format_lines(taker, f"the file has {start.size:,} bytes"))
    if first > max(1, taker.total):
        raise ToolFailed(f"the argument 'first_line' is {first}, but the file has {taker.total} lines")
    return ToolOutput(text=_format_lines(taker, f"{taker.total} in all"))


def _feed(taker: "LineTaker", workspace: Workspace, path: str, *, stop_early: bool) -> bool:
    """Take the lines and count the others; return whether it stopped early, before all of them were counted."""
    scanned = 0
    for piece in _iterate_pieces(workspace, path):
        if b"\0" in piece:
            raise ToolFailed(f"{path!r} is a binary file, not text")
        taker.feed(piece)
        if taker.has_all and stop_early:
            return True
        scanned += len(piece)
        if scanned >= MAX_SCANNED_BYTES:
            raise ToolFailed(
                f"line {taker.first} is not in the first {MAX_SCANNED_BYTES:,} bytes of {path!r}; use grep"
            )
    taker.end()
    return False


def _iterate_pieces(workspace: Workspace, path: str) -> Iterator[bytes]:
    offset = 0
    while True:
        with explain_errors(path):
            piece = workspace.read_range(path, offset=offset, length=_PIECE_BYTES)
        if piece:
            yield piece
        if len(piece) < _PIECE_BYTES:  # the file ends here
            return
        offset += len(piece)


def _format_lines(taker: "LineTaker", whole: str) -> str:
    if not taker.lines:
        return "(the file is empty)"
    numbered = [f"{number:>6}\t{line}" for number, line in enumerate(taker.lines, taker.first)]
    after = taker.first + len(taker.lines)
    if taker.has_crlf:
        numbered.append("[its lines end with CR LF; edits keep that]")
    if taker.has_more:
        numbered.append(f"[lines {taker.first} to {after - 1}, {whole}; read on with first_line {after}]")
    return "\n".join(numbered)


class LineTaker:
    """Takes a range of lines from a stream of bytes, and counts the other lines without keeping them."""

    def __init__(self, first: int, count: int, *, max_chars: int = MAX_TOOL_OUTPUT_CHARS - _ROOM_FOR_REMARKS) -> None:
        self.first = first
        self.lines: list[str] = []
        self.has_all = False
        self.has_crlf = False
        self._count = count
        self._chars_left = max_chars
        self._number = 1  # of the line that is being read
        self._line = _OpenLine()

    @property
    def total(self) -> int:
        """How many lines have begun so far."""
        return self._number - 1 + bool(self._line.length)

    @property
    def has_more(self) -> bool:
        """Whether there are lines after the range."""
        return self.total >= self.first + len(self.lines)

    def feed(self, piece: bytes) -> None:
        """Process the next bytes; raises `UnicodeDecodeError` if a line in the range is not UTF-8."""
        start = 0
        if self._number < self.first:
            if self._number + piece.count(b"\n") < self.first:
                self._skip(piece, 0)
                return
            while self._number < self.first:
                start = piece.index(b"\n", start) + 1
                self._number += 1
            self._line = _OpenLine()
        view = memoryview(piece)
        while not self.has_all:
            end = piece.find(b"\n", start)
            self._line.add(view[start : end if end >= 0 else len(piece)], keep=True)
            if end < 0:
                return
            self._take()
            self._number += 1
            self._line = _OpenLine()
            start = end + 1
        self._skip(piece, start)

    def end(self) -> None:
        """Finish the last line at the end of the file."""
        if self._line.length:
            if self._number >= self.first and not self.has_all:
                self._take()
            self._number += 1
            self._line = _OpenLine()

    def _skip(self, piece: bytes, start: int) -> None:
        ends = piece.count(b"\n", start)
        if ends:
            self._number += ends
            self._line = _OpenLine()
            start = piece.rfind(b"\n") + 1
        self._line.add(memoryview(piece)[start:], keep=False)

    def _take(self) -> None:
        text = self._line.text()
        if self._number == 1:
            text = text.removeprefix(BOM)
        if text.endswith("\r"):
            text, self.has_crlf = text[:-1], True
        self._chars_left -= len(text) + 8
        if self.lines and self._chars_left < 0:
            self.has_all = True
            return
        self.lines.append(text)
        self.has_all = len(self.lines) >= self._count


class _OpenLine:
    """A line whose end has not arrived yet; keeps only its beginning."""

    def __init__(self) -> None:
        self.length = 0
        self._stored = bytearray()

    def add(self, part: memoryview, *, keep: bool) -> None:
        self.length += len(part)
        if keep:
            self._stored += part[: _STORED_LINE_BYTES - len(self._stored)]

    def text(self) -> str:
        whole = self.length == len(self._stored)
        text = codecs.getincrementaldecoder("utf-8")().decode(bytes(self._stored), final=whole)
        if whole and len(text) <= MAX_LINE_CHARS:
            return text
        return f"{text[:MAX_LINE_CHARS]}... [cut: this line has {self.length:,} bytes]"


def _read_image(workspace: Workspace, path: str, media_type: ImageType) -> ToolOutput:
    with explain_errors(path):
        content = workspace.read(path, max_bytes=MAX_IMAGE_BYTES)
    if content.truncated or content.size > MAX_IMAGE_BYTES:
        raise ToolFailed(f"the image {path!r} is too large: more than {MAX_IMAGE_BYTES:,} bytes")
    kind = media_type.removeprefix("image/")
    return ToolOutput(
        text=f"{path}: an image ({kind}, {content.size:,} bytes)",
        images=(ImagePart(media_type=media_type, data=b64encode(content.data).decode()),),
        details=JsonObject({"media_type": media_type, "bytes": content.size}),
    )
