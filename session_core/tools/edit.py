"""The tools that change parts of a file: one place, every place, or several edits, all or none.

Each call reads the file again and finds the places by their text, so other changes since the model last saw the file do
not matter. If the file changes between reading and writing, or after a person approved the edit, nothing is written,
and the model has to read it again.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import attrs

from session_core.limits import MAX_ERROR_CHARS
from session_core.sandbox.workspace import Workspace
from session_core.tools.argument_schemas import flag_schema, object_schema, text_schema
from session_core.tools.arguments import flag_argument, objects_argument, path_argument, refuse_unknown, text_argument
from session_core.tools.base import ToolFailed
from session_core.tools.diffs import difference
from session_core.tools.text_files import (
    FILE_ARGUMENT,
    MAX_FILE_BYTES,
    append_remarks,
    explain_errors,
    format_count,
    plain_name,
    read_text,
)
from session_core.tools.text_match import NoSinglePlace, replace_text
from session_core.tools.write import FileChange, FileChangingTool, describe_file_state
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.tools import ToolSpec

MAX_EDITS: Final = 100
"""Edits in one call; with more, writing the whole file is clearer."""

_TEXTS: Final = {
    "old_text": text_schema(
        "The text to replace, with its indentation and without line numbers; it must occur once.", shortest=1
    ),
    "new_text": text_schema("What to put in its place; empty to remove it."),
}
_REPLACE_ALL: Final = {"replace_all": flag_schema("Replace every occurrence of old_text; false if left out.")}


@attrs.frozen(kw_only=True)
class TextEdit:
    """One replacement."""

    old: str
    new: str
    replace_all: bool = False

    @classmethod
    def read(cls, arguments: JsonObject) -> "TextEdit":
        """Read it from unchecked arguments."""
        return cls(
            old=text_argument(arguments, "old_text"),
            new=text_argument(arguments, "new_text"),
            replace_all=flag_argument(arguments, "replace_all"),
        )


class EditTool(FileChangingTool):
    """Replace text in a file."""

    spec = ToolSpec(
        name="edit",
        description=(
            "Replace text in a file. old_text must occur in the file exactly once, so include enough surrounding "
            "lines, or set replace_all. The file's line endings are kept."
        ),
        parameters=object_schema(required={"path": FILE_ARGUMENT, **_TEXTS}, optional=_REPLACE_ALL),
    )
    verb = "edit"

    def read_plan(self, arguments: JsonObject) -> Callable[[Workspace], FileChange]:
        """Read the path and the edit."""
        refuse_unknown(arguments, self.spec)
        return partial(_plan, path=path_argument(arguments), edits=(TextEdit.read(arguments),))


class MultiEditTool(FileChangingTool):
    """Make several edits of one file, all or none."""

    spec = ToolSpec(
        name="multi_edit",
        description=(
            "Make several edits of one file, one after the other, each in the text that the previous one left. "
            "If one of them cannot be made, none is."
        ),
        parameters=object_schema(
            required={
                "path": FILE_ARGUMENT,
                "edits": {
                    "type": "array",
                    "minItems": 1,
                    "maxItems": MAX_EDITS,
                    "items": object_schema(required=_TEXTS, optional=_REPLACE_ALL),
                },
            }
        ),
    )
    verb = "edit"

    def read_plan(self, arguments: JsonObject) -> Callable[[Workspace], FileChange]:
        """Read the path and the edits."""
        refuse_unknown(arguments, self.spec)
        path = path_argument(arguments)
        edits = objects_argument(arguments, "edits", limit=MAX_EDITS)
        return partial(_plan, path=path, edits=[_numbered_edit(edit, number) for number, edit in enumerate(edits)])


def _numbered_edit(arguments: JsonObject, number: int) -> TextEdit:
    known = (*_TEXTS, *_REPLACE_ALL)
    unknown = next((name for name in arguments if name not in known), None)
    if unknown is not None:
        raise ToolFailed(f"unknown field {unknown[:100]!r} in 'edits[{number}]'; it takes {', '.join(known)}")
    try:
        return TextEdit.read(arguments)
    except ToolFailed as failure:
        raise ToolFailed(f"edits[{number}]: {failure}") from failure


def _plan(workspace: Workspace, path: str, edits: Sequence[TextEdit]) -> FileChange:
    with explain_errors(path, "edit"):
        location = workspace.locate(path)
        place = workspace.resolve_target(path)
    file = read_text(workspace, path)
    name = plain_name(location.display_path)
    text, places, remarks = file.text, 0, list[str]()
    for number, edit in enumerate(edits, 1):
        which = f"edit {number} of {len(edits)}: " if len(edits) > 1 else ""
        try:
            replaced = replace_text(text, edit.old, edit.new, replace_all=edit.replace_all)
        except NoSinglePlace as failure:
            none = "; none of the edits was made" if len(edits) > 1 else ""
            raise ToolFailed(f"cannot edit {name}{none}: {which}{failure}"[:MAX_ERROR_CHARS]) from failure
        text, places = replaced.text, places + replaced.places
        if replaced.overlooked is not None:
            remarks.append(
                f"{which}old_text does not occur exactly; it matched one place, ignoring {replaced.overlooked}"
            )
    data = file.encode(text)
    if len(data) > MAX_FILE_BYTES:
        raise ToolFailed(f"{name} would become too large: more than {MAX_FILE_BYTES} bytes")
    changes = difference(name, file.text, text)
    done = f"edited {name}: {format_count(places, 'place')} ({changes.counts})"
    return FileChange(
        path=location.display_path,
        place=place,
        data=data,
        version=file.content.version,
        state=describe_file_state(place, file.content),
        difference=changes,
        done_message=append_remarks(done, remarks),
    )
