"""Search files with a regular expression.

The workspace decides which files are searched: beneath the folder, not through links, without what the project ignores.
Two programs can search them: ripgrep if it is installed, else our own (`search_worker`), which also supports patterns
that ripgrep does not, such as lookahead. Either runs as a process with a time limit, so no pattern can block the
service.
"""

import json
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, get_args

import attrs
import trio

from session_core.processes.child import ProcessNotStarted
from session_core.processes.run import run_in_group
from session_core.sandbox.workspace import Workspace
from session_core.tools.argument_schemas import count_schema, flag_schema, object_schema, text_schema
from session_core.tools.arguments import count_argument, flag_argument, refuse_unknown, text_argument
from session_core.tools.base import ToolContext, ToolFailed, ToolOutput
from session_core.tools.command_confinement import ConfinedReading, confine_reading
from session_core.tools.excluded_files import FolderFilter
from session_core.tools.list_files import files_beneath, find_ripgrep
from session_core.tools.path_patterns import PathPattern
from session_core.tools.search_results import SearchResults, Show, format_results
from session_core.tools.text_files import MAX_FILE_BYTES, ReadingTool, explain_errors, run_in_thread
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.tools import ToolSpec

MAX_PATTERN_CHARS: Final = 10_000
MAX_MATCHES: Final = 200
"""Matching lines in one answer, unless the call asks for another number."""
MOST_MATCHES: Final = 2_000
MAX_CONTEXT: Final = 20
MAX_SEARCHED_FILES: Final = 50_000
SEARCH_SECONDS: Final = 20.0
"""A slower search is of no use in a conversation."""
_MAX_ARGUMENT_BYTES: Final = 500_000
"""The size of the file names passed to one program; Linux accepts four times as much, other systems twice."""
_WORKER: Final = str(Path(__file__).with_name("search_worker.py"))

_SHOWS: Final[tuple[Show, ...]] = get_args(Show)

Engine = Literal["ripgrep", "own"]


@attrs.frozen(kw_only=True)
class Query:
    """What to look for, and how much of it to show."""

    pattern: str
    literal: bool = False
    ignore_case: bool = False
    context: int = 0
    show: Show = "lines"
    limit: int = MAX_MATCHES

    @property
    def max_per_file(self) -> int:
        """The limit per file: one match is enough to list a file, a count needs them all."""
        return {"files": 1, "counts": MAX_FILE_BYTES, "lines": self.limit + 1}[self.show]


class GrepTool(ReadingTool):
    """Find lines in files; `engine` settles which program searches, otherwise ripgrep does where there is one."""

    spec = ToolSpec(
        name="grep",
        description=(
            "Find the lines in files that fit a regular expression, with their numbers. Searches line by line in a "
            "file or in all files beneath a folder; files that the project ignores and binary files are left out."
        ),
        parameters=object_schema(
            required={"pattern": text_schema("The regular expression.", shortest=1, longest=MAX_PATTERN_CHARS)},
            optional={
                "path": text_schema("A file or folder; the working folder if left out.", shortest=1),
                "include": text_schema("Only files like this: *.{c,h}", shortest=1),
                "literal": flag_schema("Take the pattern as plain text."),
                "ignore_case": flag_schema("Take capitals and small letters as the same."),
                "context": count_schema(
                    "How many lines to show before and after each.", minimum=0, maximum=MAX_CONTEXT
                ),
                "show": {
                    "enum": _SHOWS,
                    "description": "The lines (if left out), only the names of the files, or how many lines fit.",
                },
                "limit": count_schema(
                    f"How many lines, or files, at the most; {MAX_MATCHES} if left out.", maximum=MOST_MATCHES
                ),
            },
        ),
    )
    verb = "search in"
    default_path = "."

    def __init__(self, engine: Engine | None = None) -> None:
        self._engine = engine

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Search; on cancel the searching process has ended when `Cancelled` propagates."""
        refuse_unknown(arguments, self.spec)
        query = _read_query(arguments)
        path = self.read_path(arguments)
        include = PathPattern(text_argument(arguments, "include"), "include") if arguments.get("include") else None
        workspace = context.workspace
        with trio.move_on_after(SEARCH_SECONDS) as patience:
            left_out = await run_in_thread(lambda: FolderFilter.for_folder(workspace, path, context.path_filter))
            files, more = await run_in_thread(lambda: _files_to_search(workspace, path, include, left_out))
            program = await run_in_thread(lambda: self._find_program(workspace.root))
            # A folder may become a link between the walk and the search; its target must not be read.
            confined = await confine_reading(context, _search_environment())
            search = _Search(query=query, cwd=workspace.root, patience=patience, confined=confined)
            await search.run(files, program)
            return ToolOutput(text=search.answer(left_out.remarks(), more=more))
        raise ToolFailed(f"the files beneath {path!r} are too many to find in {SEARCH_SECONDS:.0f} seconds")

    def _find_program(self, root: str) -> str | None:
        program = None if self._engine == "own" else find_ripgrep(root)
        if program is None and self._engine == "ripgrep":
            raise ToolFailed("ripgrep is not installed")
        return program


def _read_query(arguments: JsonObject) -> Query:
    pattern = text_argument(arguments, "pattern")
    if not pattern or len(pattern) > MAX_PATTERN_CHARS:
        raise ToolFailed(f"the argument 'pattern' must have 1 to {MAX_PATTERN_CHARS:,} characters")
    if "\n" in pattern or "\0" in pattern:
        raise ToolFailed(
            "the argument 'pattern' is for one line at a time: it cannot hold line ends or null characters"
        )
    show = arguments.get("show") or "lines"
    if show not in _SHOWS:
        raise ToolFailed(f"the argument 'show' must be one of {', '.join(_SHOWS)}")
    return Query(
        pattern=pattern,
        literal=flag_argument(arguments, "literal"),
        ignore_case=flag_argument(arguments, "ignore_case"),
        context=min(count_argument(arguments, "context", minimum=0) or 0, MAX_CONTEXT) if show == "lines" else 0,
        show=show,
        limit=min(count_argument(arguments, "limit") or MAX_MATCHES, MOST_MATCHES),
    )


def _files_to_search(
    workspace: Workspace, path: str, include: PathPattern | None, left_out: FolderFilter
) -> tuple[list[str], bool]:
    """Return the files to search, and whether there are more than the limit."""
    with explain_errors(path):
        location = workspace.locate(path)
    try:
        found: list[str] = []
        for display_path, inside, entry in files_beneath(workspace, path):
            if entry.kind == "file" and 0 < entry.size <= MAX_FILE_BYTES and (not include or include.matches(inside)):
                if left_out.is_excluded(inside, entry):
                    continue
                if len(found) == MAX_SEARCHED_FILES:
                    return found, True
                found.append(display_path)
        return found, False
    except ToolFailed as failure:
        if not isinstance(failure.__cause__, NotADirectoryError):
            raise
    with explain_errors(path):
        if workspace.read(path, max_bytes=0).size > MAX_FILE_BYTES:
            raise ToolFailed(f"{path!r} is too large to search: more than {MAX_FILE_BYTES} bytes")
    return [location.display_path], False


@attrs.define(kw_only=True)
class _Search:
    """One search, split over as many programs as its files need."""

    query: Query
    cwd: str
    patience: trio.CancelScope
    confined: ConfinedReading
    results: SearchResults = attrs.field(init=False)
    _full: trio.CancelScope = attrs.field(init=False, factory=trio.CancelScope)
    _too_slow: bool = attrs.field(init=False, default=False)

    async def run(self, files: Sequence[str], ripgrep: str | None) -> None:
        limit = trio.CancelScope(deadline=self.patience.deadline)
        self.patience.deadline = float("inf")  # from here on there may be results to show
        with limit, self._full:
            if ripgrep is not None and await self._search_with(_ripgrep_command(ripgrep, self.query), files):
                return
            if not await self._search_with(_worker_command(self.query), files):
                raise ToolFailed("the search ended before it was done; try it again with fewer files")
        self._too_slow = limit.cancelled_caught

    async def _search_with(self, command: Sequence[str], files: Sequence[str]) -> bool:
        """Search with this command; return false if it does not support the pattern."""
        self.results = SearchResults(self.query.show, limit=self.query.limit, when_full=self._full.cancel)
        for batch in _split_into_batches(files):
            self.results.next_program()
            launch = await self.confined.prepare_launch([*command, *batch], self.cwd)
            try:
                await run_in_group(launch, on_output=self.results.feed, output_limit=1_000)
            except ProcessNotStarted as error:
                raise ToolFailed(str(error)) from error
            if not self.results.is_complete:
                if self.results.error is not None:
                    raise ToolFailed(f"the pattern is not a valid regular expression: {self.results.error}")
                return False
        return True

    def answer(self, about_files: Sequence[str], *, more: bool) -> str:
        results, what = self.results, "lines" if self.query.show == "lines" else "files"
        remarks: list[str] = []
        if results.is_full:
            remarks.append(f"there are more than {self.query.limit} {what}; narrow the search, or raise the limit")
        if self._too_slow:
            remarks.append(
                f"stopped after {SEARCH_SECONDS:.0f} seconds; search in fewer files or for a simpler pattern"
            )
        if results.too_long:
            remarks.append(f"{results.too_long} very long lines are not shown")
        if more:
            remarks.append(f"only {MAX_SEARCHED_FILES:,} files were searched; name a folder further down")
        remarks += about_files
        return format_results(results.files, self.query.show, remarks)


def _split_into_batches(files: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for file in files:
        # With a leading "./" no name is mistaken for an option, nor "-" for the standard input.
        name = file if file.startswith("/") else f"./{file}"
        length = len(os.fsencode(name)) + 9
        if batch and size + length > _MAX_ARGUMENT_BYTES:
            yield batch
            batch, size = [], 0
        batch.append(name)
        size += length
    if batch:
        yield batch


def _ripgrep_command(program: str, query: Query) -> list[str]:
    command = [program, "--no-config", "--json", "--no-follow", "--no-ignore", "--hidden", "--no-messages", "--crlf"]
    command += ["--threads=1", f"--max-filesize={MAX_FILE_BYTES}", f"--max-count={query.max_per_file}"]
    command += [f"--context={query.context}"] if query.context else []
    command += ["--fixed-strings"] if query.literal else []
    command += ["--ignore-case"] if query.ignore_case else ["--case-sensitive"]
    return [*command, f"--regexp={query.pattern}", "--"]


def _worker_command(query: Query) -> list[str]:
    options = {**attrs.asdict(query), "max_per_file": query.max_per_file, "max_bytes": MAX_FILE_BYTES}
    return [sys.executable, "-I", "-S", _WORKER, json.dumps(options, ensure_ascii=False)]


def _search_environment() -> dict[str, str]:
    """Return the variables that a program needs to run, without our secrets and settings."""
    inherited = {name: os.environ[name] for name in ("PATH", "HOME", "TMPDIR", "SYSTEMROOT") if name in os.environ}
    return {**inherited, "LC_ALL": "C.UTF-8"}
