"""Shared parts of the file tools: reading and writing text files, harmless names, errors as sentences."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import ClassVar, Final, TypeVar

import attrs
import trio

from session_core.limits import MAX_TOOL_OUTPUT_CHARS
from session_core.sandbox.file_values import FileContent, WorkspaceRefused
from session_core.sandbox.workspace import Workspace
from session_core.tools.argument_schemas import text_schema
from session_core.tools.arguments import path_argument
from session_core.tools.base import CallPreview, ToolContext, ToolFailed
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.tools import Effect

MAX_FILE_BYTES: Final = 10_000_000
"""Larger files are data rather than text, and would fill memory before anything is cut."""

READS: Final[frozenset[Effect]] = frozenset({"read"})
WRITES: Final[frozenset[Effect]] = frozenset({"write"})
FILE_ARGUMENT: Final = text_schema("The file, relative to the working folder.", shortest=1)
BOM: Final = "\ufeff"
_OTHER_BOMS: Final = (b"\xff\xfe", b"\xfe\xff")

T = TypeVar("T")


async def run_in_thread(work: Callable[[], T]) -> T:
    """Run blocking work that changes nothing; a stop does not wait for it."""
    return await trio.to_thread.run_sync(work, abandon_on_cancel=True)


async def run_in_thread_to_end(work: Callable[[], T]) -> T:
    """Run blocking work that changes something; a stop waits for its end, and nothing changes after that."""
    return await trio.to_thread.run_sync(work, abandon_on_cancel=False)


class ReadingTool:
    """The common part of the tools that read a file or a folder: `verb` says what they do with it.

    Where `default_path` is given, a call may leave out its path.
    """

    effects: Final = READS
    verb: ClassVar[str]
    default_path: ClassVar[str | None] = None

    async def preview(self, arguments: JsonObject, context: ToolContext) -> CallPreview:
        """Name what the call would read, for rules to match; on cancel nothing has happened."""
        path, workspace = self.read_path(arguments), context.workspace
        paths = await run_in_thread(lambda: named_paths(workspace, path))
        return CallPreview(summary=f"{self.verb} {plain_name(paths[0])}", paths=paths)

    def read_path(self, arguments: JsonObject) -> str:
        """Read the argument `path` of a call."""
        return path_argument(arguments, default=self.default_path)


def named_paths(workspace: Workspace, path: str) -> tuple[str, ...]:
    """Return a path as written and, if different, with links resolved; rules about either apply."""
    with explain_errors(path):
        place = workspace.locate(path)
        behind = os.path.realpath(os.path.join(place.root, place.relative))  # noqa: PTH118
        with suppress(WorkspaceRefused):
            behind = workspace.locate(behind).display_path
    return tuple(dict.fromkeys((place.display_path, behind)))


@attrs.frozen(kw_only=True)
class TextFile:
    """A text file as it was at one moment; `text` is without the byte order mark and with the line ends it has."""

    text: str
    bom: bool
    content: FileContent

    def encode(self, text: str) -> bytes:
        """Encode new text for this file, with the byte order mark if there was one."""
        return ((BOM if self.bom else "") + text).encode()


def read_text(workspace: Workspace, path: str) -> TextFile:
    """Read a text file of moderate size; anything else is refused with a sentence."""
    with explain_errors(path):
        content = workspace.read(path, max_bytes=MAX_FILE_BYTES)
    if content.truncated or content.size > MAX_FILE_BYTES:
        raise ToolFailed(f"{path!r} is too large: more than {MAX_FILE_BYTES} bytes")
    refuse_utf16(path, content.data)
    if b"\0" in content.data:
        raise ToolFailed(f"{path!r} is a binary file, not text")
    try:
        text = content.data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ToolFailed(f"{path!r} is not UTF-8 text; it may be a binary file") from error
    return TextFile(text=text.removeprefix(BOM), bom=text.startswith(BOM), content=content)


def refuse_utf16(path: str, start: bytes) -> None:
    """Refuse a file whose first bytes announce UTF-16."""
    if start.startswith(_OTHER_BOMS):
        raise ToolFailed(f"{path!r} is UTF-16 text, and only UTF-8 can be handled; convert it first")


@contextmanager
def explain_errors(path: str, doing: str = "read") -> Iterator[None]:
    """Turn errors about a path into a sentence for the model."""
    try:
        yield
    except WorkspaceRefused as error:
        raise ToolFailed(str(error)) from error
    except FileNotFoundError as error:
        raise ToolFailed(f"there is no {path!r} in the working folder") from error
    except IsADirectoryError as error:
        raise ToolFailed(f"{path!r} is a folder, not a file") from error
    except OSError as error:
        if doing == "list" and isinstance(error, NotADirectoryError):
            raise ToolFailed(f"{path!r} is a file, not a folder") from error
        raise ToolFailed(f"cannot {doing} {path!r}: {error.strerror or error}") from error
    except ValueError as error:
        raise ToolFailed(f"the path {path!r} cannot be used: {error}") from error


def plain_name(name: str) -> str:
    """Return a file name that is safe in one line of text, whatever bytes it holds."""
    if name.isprintable():
        return name
    name = os.fsencode(name).decode("utf-8", errors="replace")
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in name)


def cut(text: str, remark: str | None = None) -> str:
    """Cut a result to its limit, with a remark; by default, it says how long the result was."""
    if len(text) <= MAX_TOOL_OUTPUT_CHARS:
        return text
    remark = f"\n[{remark or f'cut: {len(text)} characters in all'}]"
    return text[: MAX_TOOL_OUTPUT_CHARS - len(remark)] + remark


def append_remarks(text: str, remarks: Iterable[str]) -> str:
    """Append remarks for the model to a result."""
    return "\n".join([text, *(f"[{remark}]" for remark in remarks)])


def format_count(count: int, noun: str) -> str:
    """Format a number of things: `1 line`, `2,000 lines`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
