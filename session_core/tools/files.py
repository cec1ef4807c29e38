"""The available file tools: a few plain read-only ones, and the full set for work on code.

The demo model knows only the plain ones. They show texts as they are, without line numbers.
"""

from typing import Final

from session_core.limits import MAX_TOOL_OUTPUT_CHARS
from session_core.sandbox.file_values import FolderEntry
from session_core.sandbox.workspace import Workspace
from session_core.tools.argument_schemas import count_schema, flag_schema, object_schema, text_schema
from session_core.tools.arguments import count_argument, flag_argument, refuse_unknown
from session_core.tools.base import PathFilter, Tool, ToolContext, ToolFailed, ToolOutput
from session_core.tools.diffs import split_lines
from session_core.tools.edit import EditTool, MultiEditTool
from session_core.tools.excluded_files import FolderFilter
from session_core.tools.list_files import GlobTool, ListTool
from session_core.tools.read import ReadTool
from session_core.tools.search import GrepTool
from session_core.tools.text_files import (
    FILE_ARGUMENT,
    ReadingTool,
    append_remarks,
    cut,
    explain_errors,
    plain_name,
    read_text,
    run_in_thread,
)
from session_core.tools.write import WriteTool
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.tools import ToolSpec

MAX_ENTRIES: Final = 500
"""Names in one listing; to see more, list a folder further down."""
_MAX_SCANNED: Final = 100_000


def file_tools() -> tuple[Tool, ...]:
    """Return the plain, read-only tools."""
    return (ListFiles(), ReadFile(), CountWords())


def coding_file_tools() -> tuple[Tool, ...]:
    """Return the tools for work on code: first those that read, then those that change files."""
    return (ReadTool(), ListTool(), GlobTool(), GrepTool(), WriteTool(), EditTool(), MultiEditTool())


class ListFiles(ReadingTool):
    """List the names in a folder."""

    spec = ToolSpec(
        name="list_files",
        description=f"List the names in a folder, sorted, folders with a slash at the end; {MAX_ENTRIES} at the most.",
        parameters=object_schema(
            optional={
                "path": text_schema("The folder, relative to the working folder."),
                "hidden": flag_schema("Whether to show names that start with a dot."),
            }
        ),
    )
    verb = "list"
    default_path = "."

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """List the folder; on cancel the listing is discarded."""
        refuse_unknown(arguments, self.spec)
        path = self.read_path(arguments)
        hidden = flag_argument(arguments, "hidden")
        workspace, path_filter = context.workspace, context.path_filter
        return ToolOutput(text=await run_in_thread(lambda: _list_names(workspace, path, path_filter, hidden=hidden)))


class ReadFile(ReadingTool):
    """Show the text of a file, or some lines of it."""

    spec = ToolSpec(
        name="read_file",
        description="Read a text file. Long files are cut; read on by naming the first line you want.",
        parameters=object_schema(
            required={"path": FILE_ARGUMENT},
            optional={
                "first_line": count_schema("Where to start; 1 if left out."),
                "lines": count_schema("How many lines; all if left out."),
            },
        ),
    )
    verb = "read"

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Read the file; on cancel the result is discarded."""
        refuse_unknown(arguments, self.spec)
        path = self.read_path(arguments)
        first = count_argument(arguments, "first_line") or 1
        count = count_argument(arguments, "lines")
        workspace = context.workspace
        file = await run_in_thread(lambda: read_text(workspace, path))
        return ToolOutput(text=_format_excerpt(split_lines(file.text), first, count))


class CountWords(ReadingTool):
    """Count the lines, words and characters of a file."""

    spec = ToolSpec(
        name="count_words",
        description="Count the lines, words and characters of a text file.",
        parameters=object_schema(required={"path": FILE_ARGUMENT}),
    )
    verb = "count the words of"

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Count; on cancel the result is discarded."""
        refuse_unknown(arguments, self.spec)
        path = self.read_path(arguments)
        workspace = context.workspace
        text = (await run_in_thread(lambda: read_text(workspace, path))).text
        lines, words, characters = len(split_lines(text)), len(text.split()), len(text)
        return ToolOutput(
            text=f"{path}: {lines} lines, {words} words, {characters} characters",
            details=JsonObject({"lines": lines, "words": words, "characters": characters}),
        )


def _list_names(workspace: Workspace, path: str, path_filter: PathFilter, *, hidden: bool) -> str:
    with explain_errors(path, "list"):
        entries = list(workspace.scan(path, limit=_MAX_SCANNED))
    left_out = FolderFilter.for_folder(workspace, path, path_filter)
    visible = (entry for entry in entries if hidden or not entry.name.startswith("."))
    names = [_format_entry(entry) for entry in visible if not left_out.is_excluded(entry.name, entry)]
    if not names:
        return append_remarks("(no files here)", left_out.remarks("name"))
    rest = [f"[{len(names) - MAX_ENTRIES} more names are not shown]"] if len(names) > MAX_ENTRIES else []
    return append_remarks(cut("\n".join([*names[:MAX_ENTRIES], *rest])), left_out.remarks("name"))


def _format_entry(entry: FolderEntry) -> str:
    return plain_name(entry.name) + ("/" if entry.kind == "folder" else "")


def _format_excerpt(lines: list[str], first: int, count: int | None) -> str:
    """Return the requested lines, as many as fit, with a remark if there are more."""
    if first > max(1, len(lines)):
        raise ToolFailed(f"the argument 'first_line' is {first}, but the file has {len(lines)} lines")
    asked = lines[first - 1 :] if count is None else lines[first - 1 : first - 1 + count]
    taken, size = 0, 0
    while taken < len(asked) and size + len(asked[taken]) <= MAX_TOOL_OUTPUT_CHARS - 200:  # room for the remark
        size += len(asked[taken])
        taken += 1
    if asked and not taken:
        return cut(asked[0])
    text = "".join(asked[:taken])
    after = first + taken
    if after > len(lines):
        return text or "(the file is empty)"
    gap = "" if text.endswith("\n") else "\n"
    return f"{text}{gap}[lines {first} to {after - 1} of {len(lines)}; read on with first_line {after}]"
