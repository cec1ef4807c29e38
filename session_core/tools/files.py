"""Tools that look at files beneath the session's folder and change nothing.

Every path is resolved through all its links before it is judged, so no link and no `..` leads out of the folder. The
answer to a path outside is the same whether or not anything is there.
"""

import os
import stat
from collections.abc import Callable, Iterable
from heapq import nsmallest
from pathlib import Path
from typing import Final, TypeVar

import trio

from session_core.limits import MAX_PATH_CHARS, MAX_TOOL_OUTPUT_CHARS
from session_core.tools.base import Tool, ToolContext, ToolFailed, ToolOutput
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.tools import Effect, ToolSpec

MAX_ENTRIES: Final = 500
"""Names in one listing; who needs more asks for a folder further down."""
MAX_FILE_BYTES: Final = 10_000_000
"""Larger files are data rather than text, and would fill memory before anything is cut."""

T = TypeVar("T")

_READ_ONLY: frozenset[Effect] = frozenset({"read"})
_FILE_ARGUMENT = {"type": "string", "description": "The file, relative to the working folder."}


def file_tools() -> tuple[Tool, ...]:
    """Return one of each tool in this module."""
    return (ListFiles(), ReadFile(), CountWords())


class ListFiles:
    """List the names in a folder."""

    spec = ToolSpec(
        name="list_files",
        description=f"List the names in a folder, sorted, folders with a slash at the end; {MAX_ENTRIES} at the most.",
        parameters=JsonObject(
            {
                "type": "object",
                "properties": {
                    "path": {"type": "string", "description": "The folder, relative to the working folder."},
                    "hidden": {"type": "boolean", "description": "Whether to show names that start with a dot."},
                },
                "additionalProperties": False,
            }
        ),
    )
    effects = _READ_ONLY

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """List it; on cancel the listing is forgotten."""
        _refuse_unknown(arguments, self.spec)
        path = _path_argument(arguments, default=".")
        hidden = arguments.get("hidden", False)
        if not isinstance(hidden, bool):
            raise ToolFailed("the argument 'hidden' must be true or false")
        return ToolOutput(text=await _in_thread(lambda: _list(context.cwd, path, hidden=hidden)))


class ReadFile:
    """Show the text of a file, or some lines of it."""

    spec = ToolSpec(
        name="read_file",
        description="Read a text file. Long files are cut; read on by naming the first line you want.",
        parameters=JsonObject(
            {
                "type": "object",
                "properties": {
                    "path": _FILE_ARGUMENT,
                    "first_line": {"type": "integer", "minimum": 1, "description": "Where to start; 1 if left out."},
                    "lines": {"type": "integer", "minimum": 1, "description": "How many lines; all if left out."},
                },
                "required": ["path"],
                "additionalProperties": False,
            }
        ),
    )
    effects = _READ_ONLY

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Read it; on cancel what was read is forgotten."""
        _refuse_unknown(arguments, self.spec)
        path = _path_argument(arguments)
        first = _count_argument(arguments, "first_line") or 1
        count = _count_argument(arguments, "lines")
        text = await _in_thread(lambda: _read_text(context.cwd, path))
        return ToolOutput(text=_excerpt(_lines(text), first, count))


class CountWords:
    """Count the lines, words and characters of a file."""

    spec = ToolSpec(
        name="count_words",
        description="Count the lines, words and characters of a text file.",
        parameters=JsonObject(
            {
                "type": "object",
                "properties": {"path": _FILE_ARGUMENT},
                "required": ["path"],
                "additionalProperties": False,
            }
        ),
    )
    effects = _READ_ONLY

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Count; on cancel what was counted is forgotten."""
        _refuse_unknown(arguments, self.spec)
        path = _path_argument(arguments)
        text = await _in_thread(lambda: _read_text(context.cwd, path))
        lines, words, characters = len(_lines(text)), len(text.split()), len(text)
        return ToolOutput(
            text=f"{path}: {lines} lines, {words} words, {characters} characters",
            details=JsonObject({"lines": lines, "words": words, "characters": characters}),
        )


def _refuse_unknown(arguments: JsonObject, spec: ToolSpec) -> None:
    known = spec.parameters["properties"]
    assert isinstance(known, JsonObject)
    for name in arguments:
        if name not in known:
            raise ToolFailed(f"{spec.name} has no argument {name[:MAX_PATH_CHARS]!r}; it takes {', '.join(known)}")


def _path_argument(arguments: JsonObject, default: str | None = None) -> str:
    path = arguments.get("path", default)
    if path is None:
        raise ToolFailed("the argument 'path' is missing")
    if not isinstance(path, str) or not path:
        raise ToolFailed("the argument 'path' must be the name of a file or folder, as text")
    if len(path) > MAX_PATH_CHARS:
        raise ToolFailed(f"the argument 'path' is longer than {MAX_PATH_CHARS} characters")
    try:
        path.encode()
    except UnicodeEncodeError as error:
        raise ToolFailed("the argument 'path' holds half a character, which no text may") from error
    return path


def _count_argument(arguments: JsonObject, name: str) -> int | None:
    number = arguments.get(name)
    if number is None:
        return None
    if not isinstance(number, int) or isinstance(number, bool) or number < 1:
        raise ToolFailed(f"the argument {name!r} must be a whole number from 1 upwards")
    return number


async def _in_thread(work: Callable[[], T]) -> T:
    # Reading changes nothing, so a stop need not wait for a slow disk: the thread ends by itself, unheard.
    return await trio.to_thread.run_sync(work, abandon_on_cancel=True)


def _resolve(cwd: str, path: str) -> Path:
    """Follow the path to where it really leads, and refuse it when that is outside the folder."""
    try:
        root = Path(cwd).resolve(strict=True)
        target = root.joinpath(path).resolve()
    except OSError as error:
        raise ToolFailed(f"cannot use the path {path!r}: {error.strerror}") from error
    except RuntimeError as error:
        raise ToolFailed(f"cannot use the path {path!r}: its links go round in a circle") from error
    except ValueError as error:
        raise ToolFailed(f"the argument 'path' cannot be a path: {error}") from error
    if not target.is_relative_to(root):
        raise ToolFailed(f"the path {path!r} leads out of the working folder, and only what is inside may be read")
    return target


def _list(cwd: str, path: str, *, hidden: bool) -> str:
    target = _resolve(cwd, path)
    total = 0

    def wanted(entries: Iterable["os.DirEntry[str]"]) -> Iterable[str]:
        nonlocal total
        for entry in entries:
            if hidden or not entry.name.startswith("."):
                total += 1
                yield _shown(entry)

    try:
        with os.scandir(target) as entries:
            names = nsmallest(MAX_ENTRIES, wanted(entries), key=lambda name: name.rstrip("/"))
    except NotADirectoryError as error:
        raise ToolFailed(f"{path!r} is a file, not a folder") from error
    except OSError as error:
        raise ToolFailed(_why_not(path, error)) from error
    if not names:
        return "(no files here)"
    rest = [f"[{total - len(names)} more names are not shown]"] if total > len(names) else []
    return _cut("\n".join([*names, *rest]))


def _shown(entry: "os.DirEntry[str]") -> str:
    """The name made fit for one line of text, whatever bytes it is made of."""
    name = os.fsencode(entry.name).decode("utf-8", errors="replace")
    name = "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in name)
    try:
        return f"{name}/" if entry.is_dir() else name
    except OSError:  # a link that leads nowhere or round in a circle is still a name
        return name


def _read_text(cwd: str, path: str) -> str:
    target = _resolve(cwd, path)
    try:
        # Non-blocking, or opening a named pipe would wait for a writer. No link is left in the resolved path; one that
        # has appeared at its end since then is not followed.
        descriptor = os.open(target, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            _refuse_unreadable(path, os.fstat(descriptor))
            with os.fdopen(descriptor, "rb", closefd=False) as file:
                content = file.read(MAX_FILE_BYTES + 1)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise ToolFailed(_why_not(path, error)) from error
    if len(content) > MAX_FILE_BYTES:
        raise ToolFailed(_too_large(path))
    if b"\0" in content:
        raise ToolFailed(f"{path!r} is a binary file, not text")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ToolFailed(f"{path!r} is not UTF-8 text; it may be a binary file") from error


def _refuse_unreadable(path: str, status: os.stat_result) -> None:
    if stat.S_ISDIR(status.st_mode):
        raise ToolFailed(f"{path!r} is a folder, not a file")
    if not stat.S_ISREG(status.st_mode):
        raise ToolFailed(f"{path!r} is not a regular file")
    if status.st_size > MAX_FILE_BYTES:
        raise ToolFailed(_too_large(path))


def _too_large(path: str) -> str:
    return f"{path!r} is too large: more than {MAX_FILE_BYTES} bytes"


def _why_not(path: str, error: OSError) -> str:
    if isinstance(error, FileNotFoundError):
        return f"there is no {path!r} in the working folder"
    return f"cannot read {path!r}: {error.strerror}"


def _lines(text: str) -> list[str]:
    """The lines with their ends, counted as editors do: `splitlines` would break them at stranger characters too."""
    *whole, last = text.split("\n")
    return [f"{line}\n" for line in whole] + ([last] if last else [])


def _excerpt(lines: list[str], first: int, count: int | None) -> str:
    """The lines asked for, as many as fit, with a remark when there are more."""
    if first > max(1, len(lines)):
        raise ToolFailed(f"the argument 'first_line' is {first}, but the file has {len(lines)} lines")
    asked = lines[first - 1 :] if count is None else lines[first - 1 : first - 1 + count]
    taken, size = 0, 0
    while taken < len(asked) and size + len(asked[taken]) <= MAX_TOOL_OUTPUT_CHARS - 200:  # room for the remark
        size += len(asked[taken])
        taken += 1
    if asked and not taken:
        return _cut(asked[0])
    text = "".join(asked[:taken])
    after = first + taken
    if after > len(lines):
        return text or "(the file is empty)"
    gap = "" if text.endswith("\n") else "\n"
    return f"{text}{gap}[lines {first} to {after - 1} of {len(lines)}; read on with first_line {after}]"


def _cut(text: str) -> str:
    if len(text) <= MAX_TOOL_OUTPUT_CHARS:
        return text
    remark = f"\n[cut: {len(text)} characters in all]"
    return text[: MAX_TOOL_OUTPUT_CHARS - len(remark)] + remark
