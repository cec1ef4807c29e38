"""Tool calls: a header with the tool, its subject and its state; beneath it the details.

Collapsed, a call takes a few rows and says how much more there is; errors are always shown in full.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import attrs
from rich.style import Style
from textual.strip import Strip

import session_core as sc
from frontends.shared.conversation.blocks import ToolBlock
from frontends.shared.conversation.tool_calls import (
    count_partial_lines,
    describe_extras,
    describe_image,
    find_diff,
    last_written_lines,
    outcome_of,
    partial_subject,
    pretty_json,
    ran_unconfined,
    readable_text,
    subject_of,
)
from frontends.shared.figures import duration, format_count
from frontends.terminal.look.sanitised_text import sanitise_line, sanitise_text
from frontends.terminal.look.styles import Glyph, Look
from frontends.terminal.transcript.rendering.code import highlight
from frontends.terminal.transcript.rendering.diffs import diff_rows
from frontends.terminal.transcript.rendering.growing_markdown import Flow
from frontends.terminal.transcript.rendering.lines import (
    Span,
    cut_row,
    cut_spans,
    excerpt_rows,
    indent_rows,
    indented_width,
    limit_rows,
    omission,
    spans_width,
    wrap,
)
from frontends.terminal.transcript.rendering.markdown import code_rows
from frontends.terminal.transcript.rendering.shell import command_rows, live_rows, output_rows

_SHORT: Final = 4
_ERROR_LINES: Final = 40
_MOST_LINES: Final = 2_500
_SHORT_ROWS: Final = 2
_LONG_ROWS: Final = 60
_NAME_CHARS: Final = 60
_ANSWER_CHARS: Final = 2_000
_WRITTEN_LINES: Final = 3
_ARGUMENT_CHARS: Final = 20_000
_ARGUMENT_LINES: Final = 400
_NOTABLE_MS: Final = 1_000
"""Calls that take less do not show their duration."""
_ONE_LINE: Final = frozenset({"read", "read_file", "list", "list_files", "glob", "grep", "web_fetch", "skill"})
_COMMANDS: Final = frozenset({"bash", "shell", "job_output", "job_stop", "cell"})


@attrs.frozen
class _CallStatus:
    """The state of a call: a symbol, words, and the style of both."""

    glyph: Glyph
    style: Style
    words: tuple[str, ...] = ()


def tool_rows(block: ToolBlock, width: int, look: Look, *, expanded: bool, now_ms: int) -> list[Strip]:
    """Draw a tool call."""
    body = _body(block, indented_width(width), look, expanded=expanded)
    return limit_rows([_header(block, width, look, now_ms), *indent_rows(body, width)], look, width)


# --- the header -------------------------------------------------------------------------------------------------------


def _header(block: ToolBlock, width: int, look: Look, now_ms: int) -> Strip:
    standing = _call_status(block, look, now_ms)
    name = sanitise_line(block.name, _NAME_CHARS) or "a tool"
    if block.arguments is not None:
        subject = subject_of(block.name, block.arguments)
        extra = [sanitise_line(each) for each in describe_extras(block.name, block.arguments)]
    else:
        subject, extra = partial_subject(block.name, block.writing or ""), []
    dot = f" {look.glyph('dot')} "
    tail = "".join(f"{dot}{each}" for each in (*extra, *standing.words))
    head: list[Span] = [(f"{look.glyph(standing.glyph)} ", standing.style), (name, look.accent)]
    about: list[Span] = [(f" {sanitise_line(subject)}", look.text)] if subject else []
    room = max(width // 2, width - spans_width(head) - spans_width(about))
    end = cut_spans([(tail, look.dim if standing.glyph in {"done", "running"} else standing.style)], room)
    about = cut_spans(about, width - spans_width(head) - spans_width(end))
    return cut_row([*head, *about, *end], width)


def _call_status(block: ToolBlock, look: Look, now_ms: int) -> _CallStatus:
    if block.result is not None:
        return _ended_status(block, block.result, look)
    if block.asked:
        return _CallStatus("asked", look.warn, ("waits for your approval",))
    if block.live is not None:
        since = max(0, now_ms - block.live.started_at)
        return _CallStatus("running", look.accent, (*_progress(block.live), _seconds(since)))
    if block.writing is not None:
        lines = count_partial_lines(block.writing)
        return _CallStatus("running", look.accent, (format_count(lines, "line") if lines else "writing",))
    return _CallStatus("waiting", look.dim, ("waits",))


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds // 1000} s" if milliseconds < 60_000 else duration(milliseconds)


def _ended_status(block: ToolBlock, result: sc.ToolResultPart, look: Look) -> _CallStatus:
    took = () if block.took_ms is None or block.took_ms < _NOTABLE_MS else (duration(block.took_ms),)
    if ran_unconfined(result):
        took = ("no sandbox", *took)
    outcome = outcome_of(result)
    style = {"done": look.success, "failed": look.error, "ended": look.warn}[outcome.level]
    words = (sanitise_line(outcome.words),) if outcome.words else ()
    return _CallStatus(outcome.level, style, (*words, *took))


def _progress(live: sc.LiveTool) -> tuple[str, ...]:
    if live.progress is None:
        return ()
    share = live.progress.progress
    percent = (f"{min(1.0, max(0.0, share)):.0%}",) if share is not None and share == share else ()  # noqa: PLR0124 - NaN
    message = (sanitise_line(live.progress.message, 200),) if live.progress.message else ()
    return (*message, *percent)


# --- the body ---------------------------------------------------------------------------------------------------------


def _body(block: ToolBlock, width: int, look: Look, *, expanded: bool) -> list[Strip]:
    rows: list[Strip] = []
    if expanded and block.arguments is not None and _diff_of(block) is None:
        rows += _arguments(block.name, block.arguments, width, look)
    if block.result is None:
        if block.writing is not None:
            lines = last_written_lines(block.writing, _WRITTEN_LINES)
            rows += [
                row for line in lines for row in wrap([(sanitise_text(line), look.dim)], width, words=False, most=1)
            ]
        if block.live is not None and block.name != "task":
            rows += live_rows(block.live.output, width, look, expanded=expanded)
        return rows
    return rows + _result_rows(block, block.result, width, look, expanded=expanded)


def _result_rows(block: ToolBlock, result: sc.ToolResultPart, width: int, look: Look, *, expanded: bool) -> list[Strip]:
    diff = _diff_of(block)
    rows: list[Strip] = []
    if result.status == "error":
        head = _MOST_LINES if expanded else _ERROR_LINES
        rows += excerpt_rows(result.text, width, look, look.error, head=head, most=_LONG_ROWS)
    elif result.status != "success":
        head = _MOST_LINES if expanded else _SHORT
        rows += excerpt_rows(readable_text(result), width, look, look.dim, head=head, most=_LONG_ROWS)
    elif diff is not None:
        rows += diff_rows(diff, width, look, expanded=expanded)
    elif block.name in _COMMANDS:
        rows += output_rows(result, width, look, expanded=expanded)
    elif block.name == "plan":
        rows += _plan(block.arguments or {}, width, look) if expanded else []
    elif block.name == "task":
        rows += _subagent_answer_rows(result.text, width, look, expanded=expanded)
    elif expanded or block.name not in _ONE_LINE:
        rows += _text(result.text, width, look, expanded=expanded)
    images = (sanitise_line(describe_image(image)) for image in result.images)
    return rows + [cut_row([(each, look.dim)], width) for each in images]


def _subagent_answer_rows(text: str, width: int, look: Look, *, expanded: bool) -> list[Strip]:
    """Draw the answer of a subagent."""
    rows = Flow(width, look).draw(text if expanded else text[:_ANSWER_CHARS], growing=False)
    if expanded or (len(rows) <= _SHORT + 1 and len(text) <= _ANSWER_CHARS):
        return rows
    hidden = max(1, text.count("\n") - _SHORT + 1, len(rows) - _SHORT)
    return rows[:_SHORT] + omission(hidden, look, width)


def _diff_of(block: ToolBlock) -> str | None:
    return None if block.result is None else find_diff(block.result)


def _text(text: str, width: int, look: Look, *, expanded: bool) -> list[Strip]:
    if expanded:
        return excerpt_rows(text, width, look, look.text, head=_MOST_LINES, most=_LONG_ROWS)
    return excerpt_rows(text, width, look, look.dim, head=_SHORT, words=False, most=_SHORT_ROWS)


# --- arguments --------------------------------------------------------------------------------------------------------


def _arguments(name: str, arguments: Mapping[str, sc.JsonValue], width: int, look: Look) -> list[Strip]:
    """Draw the arguments of a call, as far as its header does not show them."""
    command, code, prompt = arguments.get("command"), arguments.get("code"), arguments.get("prompt")
    match name:
        case "bash" | "shell" if isinstance(command, str):
            return command_rows(command, width, look)
        case "cell" if isinstance(code, str) and len(code) <= _ARGUMENT_CHARS:
            return code_rows(highlight(code.rstrip("\n"), "python", look), width)
        case "task" if isinstance(prompt, str):
            return excerpt_rows(prompt, width, look, look.dim, head=_MOST_LINES, most=_LONG_ROWS)
        case "plan":
            return []
        case _ if name in _ONE_LINE and len(arguments) <= 1:
            return []
        case _:
            return [row for key, value in arguments.items() for row in _argument(key, value, width, look)]


def _argument(key: str, value: sc.JsonValue, width: int, look: Look) -> list[Strip]:
    label: Span = (f"{sanitise_line(key, _NAME_CHARS)}:", look.accent)
    text = value if isinstance(value, str) else pretty_json(value)
    if "\n" not in text and len(text) <= _NAME_CHARS * 10:
        return wrap([(f"{label[0]} ", label[1]), (sanitise_text(text), look.dim)], width, words=False, most=_LONG_ROWS)
    beneath = excerpt_rows(
        text, indented_width(width), look, look.dim, head=_ARGUMENT_LINES, most=_LONG_ROWS, whole=_ARGUMENT_CHARS
    )
    return [cut_row([label], width), *indent_rows(beneath, width)]


_PLAN_GLYPHS: Final[Mapping[object, Glyph]] = {"done": "done", "in_progress": "running", "pending": "waiting"}


def _plan(arguments: Mapping[str, sc.JsonValue], width: int, look: Look) -> list[Strip]:
    items = arguments.get("items")
    rows: list[Strip] = []
    for item in items if isinstance(items, tuple) else ():
        if isinstance(item, Mapping) and isinstance(text := item.get("text"), str):
            glyph = look.glyph(_PLAN_GLYPHS.get(item.get("status", "pending"), "waiting"))
            rows += wrap([(sanitise_line(text), look.text)], width, first=[(f"{glyph} ", look.accent)])
    return rows
