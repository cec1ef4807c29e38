"""What a tool call is about and how it ended, in a few words, the same in every frontend. Pure; foreign text is clean.

The subject of a call is the one argument that matters. Its outcome says what it found or did, or what was wrong.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Final, Literal

import attrs

import session_core as sc
from frontends.shared.figures import format_count, format_size
from frontends.shared.sanitise import one_line, sanitise

_BY_TOOL: Final[Mapping[str, str]] = {
    "bash": "command",
    "shell": "command",  # the earlier name of `bash`
    "glob": "pattern",
    "grep": "pattern",
    "web_fetch": "url",
    "task": "title",
    "skill": "name",
    "job_output": "job_id",
    "job_stop": "job_id",
    "cell": "code",
}
_LIKELY: Final = ("path", "file_path", "file", "command", "pattern", "query", "url", "title", "name", "prompt", "text")
_SUBJECT_CHARS: Final = 400
_MOST_ARGUMENTS: Final = 6
_VALUE_CHARS: Final = 60
_READ_CHARS: Final = 4_000
_FOUND_LINE: Final = re.compile(r"^ +\d+: ", re.MULTILINE)
_REMARK: Final = re.compile(r"\[.*\]")
_NO_OUTPUT: Final = "(no output)"
_ENDING: Final = re.compile(
    r"\n?\[(?:exit code (?P<code>-?\d{1,5})|\S{1,80}: (?:running|finished with exit code -?\d{1,5}))\]\s*\Z"
)


# --- subjects ---------------------------------------------------------------------------------------------------------


def subject_of(name: str, arguments: Mapping[str, sc.JsonValue]) -> str:
    """Return the subject of a call as one line; empty if nothing stands out."""
    if name == "plan":
        return ""
    for key in (_BY_TOOL[name],) if name in _BY_TOOL else _LIKELY:
        value = arguments.get(key)
        if isinstance(value, str) and value.strip():
            return _first_line(value)
    if name in {"list", "list_files"}:
        return "."
    few = list(arguments.items())[:_MOST_ARGUMENTS]
    said = ", ".join(f"{one_line(key, _VALUE_CHARS)}={_short(value)}" for key, value in few)
    return f"{said}, …" if len(arguments) > _MOST_ARGUMENTS else said


def _first_line(text: str) -> str:
    lines = [line for line in sanitise(text[:_SUBJECT_CHARS]).strip().split("\n") if line.strip()]
    if not lines:
        return ""
    return lines[0].strip() + (" …" if len(lines) > 1 or len(text) > _SUBJECT_CHARS else "")


def _short(value: sc.JsonValue) -> str:
    match value:
        case str():
            return f'"{one_line(value, _VALUE_CHARS)}"'
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case Mapping():
            return format_count(len(value), "field")
        case tuple():
            return format_count(len(value), "item")
        case _:
            return str(value)


def describe_extras(name: str, arguments: Mapping[str, sc.JsonValue]) -> Iterator[str]:
    """Yield other notable arguments of a call, in a few words each."""
    match name:
        case "grep" | "glob" if isinstance(path := arguments.get("path"), str):
            yield f"in {one_line(path, _VALUE_CHARS)}"
        case "read" | "read_file" if isinstance(first := arguments.get("first_line"), int):
            yield f"from line {first}"
        case "bash" | "shell":
            yield from (said for key, said in _SHELL_FLAGS.items() if arguments.get(key) is True)
            if isinstance(folder := arguments.get("workdir"), str):
                yield f"in {one_line(folder, _VALUE_CHARS)}"
        case "task" if arguments.get("read_only") is True:
            yield "changes nothing"
        case _:
            pass


_SHELL_FLAGS: Final = {
    "background": "in the background",
    "network": "with network",
    "sockets": "with unix sockets",
    "change_protected": "may change protected files",
}


def pretty_json(value: sc.JsonValue) -> str:
    """Return an argument as readable JSON, or a remark if it is nested too deeply; not sanitised."""
    try:
        return json.dumps(value, default=dict, ensure_ascii=False, indent=2)
    except RecursionError:
        return "(nested too deeply to be shown)"


# --- streaming arguments ----------------------------------------------------------------------------------------------


def partial_subject(name: str, writing: str) -> str:
    """Return the subject of a call as far as incomplete JSON shows it."""
    wanted = (_BY_TOOL[name],) if name in _BY_TOOL else _LIKELY[:7]
    start = writing[:_READ_CHARS]
    for key in wanted:
        found = re.search(rf'"{key}"\s*:\s*"((?:[^"\\]|\\.)*)', start)
        if found is not None and found[1]:
            return _first_line(_unescaped(found[1]))
    return ""


def _unescaped(text: str) -> str:
    try:
        return str(json.loads(f'"{text}"', strict=False))
    except ValueError:
        return text


def last_written_lines(writing: str, most: int) -> list[str]:
    """Return the last lines of the text being streamed into arguments; none before its second line."""
    tail = writing[-_TAIL_CHARS:]
    lines = sanitise(_ESCAPED.sub(_unescape_match, tail)).split("\n")
    return lines[1:][-most:]  # the first one is cut, or includes the argument's name


_TAIL_CHARS: Final = 1_000
_ESCAPES: Final = {"n": "\n", "t": "\t", '"': '"', "\\": "\\", "/": "/"}
_ESCAPED: Final = re.compile(r"\\(u[0-9a-fA-F]{0,4}|.?)")


def _unescape_match(found: re.Match[str]) -> str:
    sign = found[1]
    return chr(int(sign[1:], 16)) if len(sign) == 5 else _ESCAPES.get(sign, "")


def count_partial_lines(writing: str) -> int:
    """Count the lines of text in arguments that are being streamed."""
    return writing.count("\\n")


# --- outcomes ---------------------------------------------------------------------------------------------------------


@attrs.frozen
class CallOutcome:
    """How a call ended, and a few words on that; `words` are empty where a text of its own says it all."""

    level: Literal["done", "failed", "ended"]
    words: str = ""


ENDINGS: Final[Mapping[str, str]] = {
    "error": "failed",
    "denied": "not allowed",
    "cancelled": "stopped",
    "interrupted": "the service ended",
}
"""How a call ended that did not succeed, by its status."""


def outcome_of(result: sc.ToolResultPart) -> CallOutcome:
    """Describe in a few words how a call ended, and what it found or did."""
    if result.status != "success":
        return CallOutcome("failed" if result.status == "error" else "ended", ENDINGS[result.status])
    wrong = _describe_exit(result)
    return CallOutcome("failed", wrong) if wrong else CallOutcome("done", _findings(result))


def ending_of(result: sc.ToolResultPart, most: int) -> str:
    """Describe how a call ended for people who do not see its text, with a line of that where it helps."""
    outcome = outcome_of(result)
    if outcome.level == "done":
        return outcome.words or _gist(result.text, most)
    if result.status == "denied":
        said = "" if result.refusal is None else result.refusal.explanation
    else:
        said = result.text if result.status != "success" else _last_line(result.text)
    return f"{outcome.words}: {one_line(said, most)}" if said.strip() else outcome.words


def _gist(text: str, most: int) -> str:
    lines = text.splitlines()
    return format_count(len(lines), "line") if len(lines) > 1 else one_line(text, most) or "no output"


def _last_line(text: str) -> str:
    """Return the last line of a command's output, without remarks in brackets."""
    lines = [line for line in text.splitlines() if line.strip()]
    while lines and _REMARK.fullmatch(lines[-1]):
        lines.pop()
    return "" if not lines or lines[-1] == _NO_OUTPUT else lines[-1]


def _describe_exit(result: sc.ToolResultPart) -> str:
    """Describe how a command failed; empty if it did not, or is no command."""
    if _details(result).get("timed_out") is True:
        return "ended at its time limit"
    code = _details(result).get("exit_code")
    return f"exit code {code}" if type(code) is int and code else ""


def split_ending(text: str) -> tuple[str, str]:
    """Split the remark on how a command ended off its output; the second text describes a failure, if there was one."""
    found = _ENDING.search(text[-200:])
    if found is None:
        return text, ""
    code = found["code"]
    return text[: len(text) - len(found[0])], f"exit code {code}" if code is not None and int(code) else ""


def readable_text(result: sc.ToolResultPart) -> str:
    """Return the text of a result for people: of a call that was refused, the reason instead of words for the model."""
    return result.text if result.refusal is None else result.refusal.explanation


def ran_unconfined(result: sc.ToolResultPart) -> bool:
    """Return whether the call ran something without a sandbox."""
    return _details(result).get("unconfined") is True


def find_diff(result: sc.ToolResultPart) -> str | None:
    """Return the diff of what a call changed, if it has one."""
    diff = _details(result).get("diff")
    return diff if isinstance(diff, str) and diff.strip() else None


def find_child(result: sc.ToolResultPart) -> sc.SessionId | None:
    """Return the session that did the work of a call, if that says which."""
    child_id = _details(result).get("session_id")
    return sc.SessionId(child_id) if isinstance(child_id, str) else None


def describe_image(image: sc.ImagePart) -> str:
    """Describe an image that is not shown."""
    kind = one_line(image.media_type.removeprefix("image/").upper(), 20)
    return f"({kind} image, {format_size(len(image.data) * 3 // 4)})"


def _details(result: sc.ToolResultPart) -> Mapping[str, sc.JsonValue]:
    return result.details or {}


def _findings(result: sc.ToolResultPart) -> str:
    details = _details(result)
    match result.name:
        case "read" | "read_file" if not result.images:
            return format_count(_lines_in(result.text), "line")
        case "list" | "list_files":
            return _describe_count(result.text, "name", "(no files here)")
        case "glob":
            return _describe_count(result.text, "file", "(no file fits)")
        case "grep":
            return _describe_matches(result.text)
        case "web_fetch":
            return format_size(len(result.text))
        case "write" | "edit" | "multi_edit":
            added, removed = details.get("added"), details.get("removed")
            if isinstance(added, int) and isinstance(removed, int):
                return f"{'new, ' if details.get('created') is True else ''}+{added:,} -{removed:,}"
            return ""
        case "plan":
            return one_line(result.text.removeprefix("the plan has "), 200)
        case "task" if isinstance(steps := details.get("steps"), int):
            return format_count(steps, "step")
        case _:
            return ""


def _describe_matches(text: str) -> str:
    if text.startswith("(nothing found)"):
        return "nothing"
    matches = len(_FOUND_LINE.findall(text))
    if matches:
        return format_count(matches, "matching line")
    return format_count(_lines_in(text), "file")


def _describe_count(text: str, noun: str, nothing: str) -> str:
    return f"no {noun}s" if text.startswith(nothing) else format_count(_lines_in(text), noun)


def _lines_in(text: str) -> int:
    """Count lines, without remarks for the model."""
    lines = text.rstrip("\n").split("\n")
    while lines and _REMARK.fullmatch(lines[-1]):
        lines.pop()
    return len(lines)
