"""The tools that list files: a folder as a tree, or the files whose paths match a pattern."""

import shutil
from collections.abc import Iterator
from contextlib import suppress
from heapq import nsmallest
from pathlib import Path
from typing import Final

import attrs
import trio

from session_core.sandbox.file_values import FolderEntry
from session_core.sandbox.ignore import IGNORE_FILES, IgnoreRules
from session_core.sandbox.workspace import Workspace
from session_core.tools.argument_schemas import count_schema, object_schema, text_schema
from session_core.tools.arguments import count_argument, refuse_unknown, text_argument
from session_core.tools.base import PathFilter, ToolContext, ToolFailed, ToolOutput
from session_core.tools.excluded_files import FolderFilter
from session_core.tools.path_patterns import PathPattern
from session_core.tools.text_files import (
    ReadingTool,
    append_remarks,
    cut,
    explain_errors,
    format_count,
    plain_name,
    run_in_thread,
)
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.tools import ToolSpec

MAX_LISTED: Final = 1_000
"""Names in one tree; to see more, list a folder further down."""
MAX_LISTED_PER_FOLDER: Final = 200
"""A folder with very many names must not crowd out its neighbours."""
MAX_DEPTH: Final = 10
MAX_FOUND: Final = 500
"""Paths in one answer of glob."""
MAX_WALKED: Final = 200_000
"""Names visited in one walk."""
_LOOK_UP_EVERY: Final = 200
_MAX_SCANNED: Final = 100_000
_MAX_IGNORE_BYTES: Final = 256 * 1024

FOLDER_ARGUMENT: Final = text_schema(
    "The folder, relative to the working folder; the working folder itself if left out.", shortest=1
)


class ListTool(ReadingTool):
    """Show a folder as a tree."""

    spec = ToolSpec(
        name="list",
        description=(
            "Show what is in a folder and in the folders below it: folders end with a slash, links with @, files are "
            "followed by their size in bytes. Folders that the project ignores are named but not opened."
        ),
        parameters=object_schema(
            optional={
                "path": FOLDER_ARGUMENT,
                "depth": count_schema("How many levels to show; 2 if left out.", maximum=MAX_DEPTH),
            }
        ),
    )
    verb = "list"
    default_path = "."

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """List the folder; on cancel the listing is discarded."""
        refuse_unknown(arguments, self.spec)
        path = self.read_path(arguments)
        depth = min(count_argument(arguments, "depth") or 2, MAX_DEPTH)
        workspace, path_filter = context.workspace, context.path_filter
        return ToolOutput(text=await run_in_thread(lambda: _render_tree(workspace, path, depth, path_filter)))


class GlobTool(ReadingTool):
    """Find files by a pattern."""

    spec = ToolSpec(
        name="glob",
        description=(
            "Find files whose path fits a pattern such as src/**/*.py or *.{js,ts}, newest first. A pattern without a "
            "slash is for names in any folder. Files that the project ignores are left out."
        ),
        parameters=object_schema(
            required={"pattern": text_schema("The pattern, relative to the folder.", shortest=1)},
            optional={"path": FOLDER_ARGUMENT},
        ),
    )
    verb = "look for files in"
    default_path = "."

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Find the files; on cancel the result is discarded."""
        refuse_unknown(arguments, self.spec)
        pattern = PathPattern(text_argument(arguments, "pattern"))
        path = self.read_path(arguments)
        workspace, path_filter = context.workspace, context.path_filter
        return ToolOutput(text=await run_in_thread(lambda: _find_newest(workspace, path, pattern, path_filter)))


# The tree.


def _render_tree(workspace: Workspace, path: str, depth: int, path_filter: PathFilter) -> str:
    with explain_errors(path, "list"):
        location = workspace.locate(path)
    left_out = FolderFilter.for_folder(workspace, path, path_filter)
    tree = _Tree(workspace=workspace, root=location.root, start=location.relative, left_out=left_out)
    lines: list[str] = []
    for line in tree.lines(location.relative, depth, tree.rules_above(location.relative)):
        if len(lines) == MAX_LISTED:
            lines.append(f"[more than {MAX_LISTED} names; list a folder further down, or with less depth]")
            break
        lines.append(line)
    return append_remarks(cut("\n".join(lines)) if lines else "(no files here)", left_out.remarks("name"))


@attrs.frozen(kw_only=True)
class _Tree:
    """Lists folders beneath one of the workspace's roots; paths are relative to it."""

    workspace: Workspace
    root: str
    start: str
    left_out: FolderFilter

    def rules_above(self, path: str) -> IgnoreRules:
        rules = IgnoreRules.load(self.workspace)
        names = [name for name in path.split("/") if name]
        for above in range(len(names)):
            rules = self._with_rules_in("/".join(names[:above]), rules)
        return rules

    def lines(self, path: str, depth: int, rules: IgnoreRules) -> Iterator[str]:
        end_if_cancelled()
        with explain_errors(path or ".", "list"):
            entries = list(self.workspace.scan(_join(self.root, path), limit=_MAX_SCANNED))
        if any(entry.name in IGNORE_FILES for entry in entries):
            rules = self._with_rules_in(path, rules)
        inside = path.removeprefix(self.start).lstrip("/")
        entries = [entry for entry in entries if not self.left_out.is_excluded(_join(inside, entry.name), entry)]
        for entry in entries[:MAX_LISTED_PER_FOLDER]:
            yield _format_entry(entry)
            if entry.kind == "folder" and depth > 1:
                yield from (f"  {line}" for line in self._inside(_join(path, entry.name), depth - 1, rules))
        if len(entries) > MAX_LISTED_PER_FOLDER:
            yield f"[{len(entries) - MAX_LISTED_PER_FOLDER} more names are not shown]"

    def _inside(self, path: str, depth: int, rules: IgnoreRules) -> Iterator[str]:
        if path.rpartition("/")[2] == ".git" or rules.ignores(path, is_folder=True):
            yield "[not opened: the project ignores it]"
            return
        try:
            yield from self.lines(path, depth, rules)
        except ToolFailed:  # removed in the meantime, or not accessible
            yield "[cannot be read]"

    def _with_rules_in(self, path: str, rules: IgnoreRules) -> IgnoreRules:
        for name in IGNORE_FILES:
            with suppress(ToolFailed), explain_errors(name):  # most folders have none
                content = self.workspace.read(_join(self.root, _join(path, name)), max_bytes=_MAX_IGNORE_BYTES)
                rules = rules.with_lines(path, content.data.decode("utf-8", "surrogateescape"))
        return rules


def _join(folder: str, name: str) -> str:
    return f"{folder.rstrip('/')}/{name}" if folder else name


def _format_entry(entry: FolderEntry) -> str:
    name = plain_name(entry.name)
    match entry.kind:
        case "folder":
            return f"{name}/"
        case "link":
            return f"{name}@"
        case "file":
            return f"{name}  {entry.size:,}"
        case "other":
            return f"{name}  (not an ordinary file)"


# Paths by a pattern.


def files_beneath(workspace: Workspace, path: str) -> Iterator[tuple[str, str, FolderEntry]]:
    """Yield all entries beneath a folder except folders: the path as shown, the path from that folder, and the entry.

    For worker threads: raises `Cancelled` when the waiting task is cancelled.
    """
    with explain_errors(path, "list"):
        location = workspace.locate(path)
        start = "" if location.display_path == "." else location.display_path.rstrip("/") + "/"
        walk = workspace.walk(path, ignore=IgnoreRules.load(workspace), limit=MAX_WALKED)
        for number, (display_path, entry) in enumerate(walk):
            if number % _LOOK_UP_EVERY == 0:
                end_if_cancelled()
            if entry.kind != "folder":
                yield display_path, display_path.removeprefix(start), entry


def end_if_cancelled() -> None:
    """End a worker thread early once its task is cancelled; outside of trio's threads it does nothing."""
    with suppress(RuntimeError):
        trio.from_thread.check_cancelled()


def find_ripgrep(folder: str) -> str | None:
    """Return the path of ripgrep, if it is installed; a program inside the folder is as untrusted as its files."""
    program = shutil.which("rg")
    if program is None or not Path(program).is_absolute() or Path(program).is_relative_to(folder):
        return None
    return program


def _find_newest(workspace: Workspace, path: str, pattern: PathPattern, path_filter: PathFilter) -> str:
    left_out = FolderFilter.for_folder(workspace, path, path_filter)
    found: list[tuple[int, str]] = []
    total = 0
    for display_path, inside, entry in files_beneath(workspace, path):
        if not pattern.matches(inside) or left_out.is_excluded(inside, entry):
            continue
        with explain_errors(display_path):
            status = workspace.stat(display_path)
        if status is not None:  # otherwise it vanished while we walked
            total += 1
            found.append((-status.mtime_ns, display_path))
            if len(found) > 2 * MAX_FOUND:
                found = nsmallest(MAX_FOUND, found)
    if not found:
        return append_remarks("(no file fits)", left_out.remarks())
    lines = [plain_name(display_path) for _, display_path in nsmallest(MAX_FOUND, found)]
    if total > len(lines):
        lines.append(f"[{format_count(total - len(lines), 'more file')} not shown; use a narrower pattern]")
    return append_remarks(cut("\n".join(lines)), left_out.remarks())
