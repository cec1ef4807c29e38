"""The tool that creates or replaces a file; and how every file change is previewed and carried out."""

from collections.abc import Callable
from functools import partial
from hashlib import sha256
from typing import ClassVar, Final

import attrs

from session_core.sandbox.file_values import FileContent, FileVersion
from session_core.sandbox.workspace import Workspace
from session_core.tools.argument_schemas import object_schema, text_schema
from session_core.tools.arguments import path_argument, refuse_unknown, text_argument
from session_core.tools.base import CallPreview, ToolContext, ToolFailed, ToolOutput
from session_core.tools.diffs import Difference, difference, split_lines
from session_core.tools.text_files import (
    FILE_ARGUMENT,
    MAX_FILE_BYTES,
    WRITES,
    explain_errors,
    format_count,
    named_paths,
    plain_name,
    run_in_thread,
    run_in_thread_to_end,
)
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.tools import ToolSpec


@attrs.frozen(kw_only=True)
class FileChange:
    """A planned change of one file.

    Attributes:
        path: As the workspace names it.
        data: The whole new content.
        place: The real path, with all links resolved.
        version: The version of the file that the change is based on; None if there was no file.
        state: The same by content, for `CallPreview.state`.
        difference: The diff for people.
        done_message: The message to the model after the change.
    """

    path: str
    place: str
    data: bytes
    version: FileVersion | None
    state: str
    difference: Difference
    done_message: str


def preview_change(change: FileChange, workspace: Workspace, verb: str) -> CallPreview:
    """Return the preview of a change for its approval."""
    with explain_errors(change.path, "write"):
        protected = workspace.is_protected(change.path)
        elsewhere = workspace.find_link_target(change.path)
    name = plain_name(change.path)
    new = "new file, " if change.version is None else ""
    lines = [change.difference.text or (f"{name} stays as it is" if change.version else f"{name} is made, empty")]
    # An approval is bound to the preview, so the preview must contain everything that could be swapped before it.
    lines += [f"[through links, this is {plain_name(elsewhere)}]"] if elsewhere is not None else []
    lines += [f"[{name} is a protected file]"] if protected else []
    return CallPreview(
        summary=f"{verb} {name} ({new}{change.difference.counts})",
        displayed_text="\n".join(lines),
        paths=named_paths(workspace, change.path),
        rights=("protected",) if protected else (),
        always_ask=f"{name} is a protected file" if protected else None,
        state=change.state,
    )


def describe_file_state(place: str, content: FileContent | None) -> str:
    """Return an identifier of the file's current state at this place, or of its absence."""
    digest = sha256(place.encode("utf-8", "surrogateescape") + b"\0")
    if content is not None:
        digest.update(b"%d\0" % content.size + content.data)
        if content.truncated:  # then the time has to identify the part that was not read
            digest.update(b"\0%d" % content.mtime_ns)
    return f"{'missing' if content is None else 'there'} {digest.hexdigest()}"


async def apply_change(change: FileChange, context: ToolContext) -> ToolOutput:
    """Carry out a change.

    Raises:
        ToolFailed: The file is not in the state that the change is based on, or that a person approved; nothing was
            changed.

    Cancellation: takes effect before or after the file is written.
    """
    if context.approved_state is not None and context.approved_state != change.state:
        raise ToolFailed(
            f"{plain_name(change.path)!r} has changed since this call was allowed, so nothing was written; read it "
            "again and make a new call"
        )
    await context.host.before_write(change.path)
    workspace = context.workspace

    def write() -> None:
        with explain_errors(change.path, "write"):
            workspace.write(change.path, change.data, expected=change.version, place=change.place)

    await run_in_thread_to_end(write)
    return ToolOutput(
        text=change.done_message,
        details=JsonObject(
            {
                "path": plain_name(change.path),
                "created": change.version is None,
                "added": change.difference.added,
                "removed": change.difference.removed,
                "diff": change.difference.text,
            }
        ),
    )


class FileChangingTool:
    """The common part of the tools that change one file: both steps plan the change anew; `verb` is for its preview."""

    effects: Final = WRITES
    verb: ClassVar[str]

    async def preview(self, arguments: JsonObject, context: ToolContext) -> CallPreview:
        """Show the difference that the call would make."""
        plan, workspace = self.read_plan(arguments), context.workspace
        return await run_in_thread(lambda: preview_change(plan(workspace), workspace, self.verb))

    async def run(self, arguments: JsonObject, context: ToolContext) -> ToolOutput:
        """Change the file; a stop takes effect before or after, never in between."""
        plan, workspace = self.read_plan(arguments), context.workspace
        return await apply_change(await run_in_thread(lambda: plan(workspace)), context)

    def read_plan(self, arguments: JsonObject) -> Callable[[Workspace], FileChange]:
        """Read the arguments, and return the function that plans the change, which blocks."""
        raise NotImplementedError


class WriteTool(FileChangingTool):
    """Create a file or overwrite it."""

    spec = ToolSpec(
        name="write",
        description=(
            "Create a file with this content, or replace the whole content of an existing one. "
            "Missing folders are created. To change part of a file, use edit."
        ),
        parameters=object_schema(
            required={"path": FILE_ARGUMENT, "content": text_schema("The whole content, exactly as it should be.")}
        ),
    )
    verb = "write"

    def read_plan(self, arguments: JsonObject) -> Callable[[Workspace], FileChange]:
        """Read the path and the content."""
        refuse_unknown(arguments, self.spec)
        return partial(_plan, path=path_argument(arguments), content=text_argument(arguments, "content"))


def _plan(workspace: Workspace, path: str, content: str) -> FileChange:
    with explain_errors(path, "write"):
        location = workspace.locate(path)
        place = workspace.resolve_target(path)
    data = content.encode()
    size = f"{format_count(len(split_lines(content)), 'line')}, {format_count(len(data), 'byte')}"
    name = plain_name(location.display_path)
    present = _read_existing(workspace, path)
    before, version = _text_of(present), present.version if present is not None else None
    changes = difference(name, before, content)
    if version is None:
        done = f"created {name}: {size}"
    elif before is None:
        done = f"replaced {name}, which was not text: {size}; it had {format_count(version.size, 'byte')}"
    elif before == content:
        done = f"{name} is unchanged: it had this content already"
    else:
        was = f"{format_count(len(split_lines(before)), 'line')}, {format_count(version.size, 'byte')}"
        done = f"replaced {name}: {size} ({changes.counts}); it had {was}"
    return FileChange(
        path=location.display_path,
        place=place,
        data=data,
        version=version,
        state=describe_file_state(place, present),
        difference=changes,
        done_message=done,
    )


def _read_existing(workspace: Workspace, path: str) -> FileContent | None:
    """Return the current content, if the file exists."""
    try:
        with explain_errors(path, "write"):
            return workspace.read(path, max_bytes=MAX_FILE_BYTES)
    except ToolFailed as failure:
        if isinstance(failure.__cause__, FileNotFoundError):
            return None
        raise


def _text_of(content: FileContent | None) -> str | None:
    """Return the text, if it is text of moderate size."""
    if content is None or content.truncated or b"\0" in content.data:
        return None
    try:
        return content.data.decode("utf-8")
    except UnicodeDecodeError:
        return None
