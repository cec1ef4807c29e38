"""The lines about the work: tools, failures, approvals, outcomes. Pure functions of events."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

import session_core as sc
from frontends.shared.conversation.messages import speaker_of
from frontends.shared.conversation.tool_calls import (
    describe_extras,
    ending_of,
    outcome_of,
    ran_unconfined,
    subject_of,
)
from frontends.shared.figures import duration, format_ago, format_count, usage_figures
from frontends.shared.sanitise import one_line
from frontends.shared.style import Style

NAME_CHARS = 40
_TITLE_CHARS = 60
_ID_CHARS = 8
_ARGUMENT_CHARS = 60
_RESULT_CHARS = 60
_ERROR_CHARS = 400
_PLAN_CHARS = 100
_PLAN_LINES = 12
_PLAN_SYMBOLS = {"done": "✓", "in_progress": "●", "pending": "·"}
UNCONFINED = "[no sandbox]"
"""The remark on a call that ran without one."""


def demo_notice(style: Style, model: str) -> str:
    """Describe what answers when no real model does."""
    return style.dim(f"The offline demo model ({one_line(model)}) answers; it follows simple rules and is not an AI.")


def remark_lines(style: Style, remarks: Sequence[str]) -> str:
    """Return remarks for people, one line each."""
    mark = style.yellow(style.symbol("●"))
    return "".join(f"{mark} {one_line(remark, _ERROR_CHARS)}\n" for remark in remarks)


def format_continued_session(style: Style, state: sc.SessionState, short: str, *, used_at: int, now: int) -> str:
    """Describe which session continues, and how its last turn ended if it did not end well."""
    messages = format_count(state.earlier + len(state.messages), "message")
    name = one_line(state.name, NAME_CHARS)
    said = style.dim(f'Continuing {short} "{name}": {messages}, last used {format_ago(used_at, now)}.')
    reason = one_line(state.activity.message or "no reason was given", _ERROR_CHARS)
    answer = state.find_message(state.head)
    saved_note = "; its partial answer was kept" if answer is not None and answer.is_interrupted else ""
    match state.activity.name:
        case "interrupted":
            mark = style.red(style.symbol("✗"))
            return f"{said}\n{mark} Its last turn was interrupted: the program that ran it ended{saved_note}."
        case "stopped":
            return f"{said}\n{style.yellow(style.symbol('■'))} Its last turn was stopped{saved_note}."
        case "errored":
            return f"{said}\n{style.red(style.symbol('✗'))} Its last turn failed: {reason}"
        case _:
            return said


def arguments_line(arguments: Mapping[str, sc.JsonValue]) -> str:
    """Return the arguments of a tool call, short enough for one line."""
    said = (f"{key}={json.dumps(value, default=dict, ensure_ascii=False)}" for key, value in arguments.items())
    return one_line(", ".join(said), _ARGUMENT_CHARS)


def tool_line(style: Style, result: sc.ToolResultPart, arguments: Mapping[str, sc.JsonValue] | None) -> str:
    """Return the one line about the result of a tool call."""
    given = arguments or {}
    about = [one_line(subject_of(result.name, given), _ARGUMENT_CHARS), *describe_extras(result.name, given)]
    remark = f" {style.yellow(UNCONFINED)}" if ran_unconfined(result) else ""
    return _ended_line(style, result, one_line(result.name, NAME_CHARS), about) + remark


def running_line(style: Style, tool: sc.LiveTool) -> str:
    """Return the one line about a tool call that is running."""
    subject = one_line(subject_of(tool.name, tool.arguments), _ARGUMENT_CHARS)
    call = f"{style.cyan(one_line(tool.name, NAME_CHARS))}{subject and f' {subject}'}"
    return f"{style.yellow(style.symbol('●'))} {call} {style.dim('has begun')}"


def _ended_line(style: Style, result: sc.ToolResultPart, name: str, about: Sequence[str]) -> str:
    """Return the line about a call, with its name, its subject and other facts, and how it ended."""
    subject, *extras = about
    dot = f" {style.symbol('·')} "
    tail = style.dim("".join(f"{dot}{each}" for each in (*extras, ending_of(result, _RESULT_CHARS))))
    return f"{_mark(style, result)} {style.cyan(name)}{subject and f' {subject}'}{tail}"


def _mark(style: Style, result: sc.ToolResultPart) -> str:
    match outcome_of(result).level:
        case "done":
            return style.green(style.symbol("✓"))
        case "failed":
            return style.red(style.symbol("✗"))
        case "ended":
            return style.yellow(style.symbol("■"))


def retry_line(style: Style, failed: sc.events.ModelCallFailed, failed_at: int) -> str:
    """Describe a failed model call and when it is retried."""
    wait = "" if failed.retry_at is None else f"; trying again in {duration(max(0, failed.retry_at - failed_at))}"
    said = one_line(failed.message, _ERROR_CHARS).rstrip(".")
    return f"{style.yellow(style.symbol('↻'))} {said} ({one_line(failed.kind)}){wait}"


def waiting_line(style: Style, approval: sc.Approval) -> str:
    """Describe a tool call that waits for somebody's approval."""
    call = f"{one_line(approval.tool_name, NAME_CHARS)}({arguments_line(approval.arguments)})"
    how = f" {style.yellow(UNCONFINED)}" if "unconfined" in approval.rights else ""
    return f"{style.yellow('?')} {style.cyan(call)}{how} waits for approval"


def plan_lines(style: Style, plan: Sequence[sc.PlanItem]) -> list[str]:
    """Return a plan as a short checklist; of a long one, the next steps."""
    done = sum(item.status == "done" for item in plan)
    if not plan:
        return [style.dim("The plan is empty now.")]
    lines = [f"Plan: {done} of {len(plan)} done"]
    first = next((place for place, item in enumerate(plan) if item.status != "done"), 0)
    start = max(0, min(first - 1, len(plan) - _PLAN_LINES))
    displayed_items = plan[start : start + _PLAN_LINES]
    if start:
        lines.append(style.dim(f"  ({format_count(start, 'step')} before)"))
    lines += [_plan_line(style, item) for item in displayed_items]
    if remaining := len(plan) - start - len(displayed_items):
        lines.append(style.dim(f"  (and {format_count(remaining, 'more step')})"))
    return lines


def _plan_line(style: Style, item: sc.PlanItem) -> str:
    mark, text = style.symbol(_PLAN_SYMBOLS[item.status]), one_line(item.text, _PLAN_CHARS)
    if item.status == "done":
        return f"  {style.green(mark)} {style.dim(text)}"
    return f"  {style.yellow(mark)} {style.bold(text)}" if item.status == "in_progress" else f"  {mark} {text}"


def subagent_name(child_id: sc.SessionId, title: sc.JsonValue) -> str:
    """Return the display name of a child session."""
    called = f' "{one_line(title, _TITLE_CHARS)}"' if isinstance(title, str) and title.strip() else ""
    return f"subagent {one_line(child_id[-_ID_CHARS:])}{called}"


def subagent_line(style: Style, subagent: str, result: sc.ToolResultPart) -> str:
    """Describe how the work of a child session ended; `subagent` is its name."""
    return _ended_line(style, result, subagent, [""])


def compacted_line(style: Style, finished: sc.events.CompactionFinished) -> str:
    """Describe the result of a compaction."""
    if finished.status == "completed":
        return style.dim("The conversation was long and was replaced by a summary.")
    reason = one_line(finished.error or finished.status, _ERROR_CHARS)
    return f"{style.yellow(style.symbol('●'))} The conversation could not be compacted: {reason}"


def restored_line(style: Style, event: sc.events.FilesRestored) -> str:
    """Describe restored files."""
    figures = [
        f"{format_count(len(paths), 'file')} {what}"
        for paths, what in ((event.restored, "restored"), (event.removed, "removed"), (event.kept, "left alone"))
        if paths
    ]
    return style.dim(f"Files were restored: {', '.join(figures) or 'none had changed'}.")


def notice_line(style: Style, notice: sc.events.NoticeShown) -> str:
    """Return a notice of an extension."""
    marks = {"info": style.cyan(style.symbol("●")), "warn": style.yellow(style.symbol("■"))}
    mark = marks.get(notice.level, style.red(style.symbol("✗")))
    return f"{mark} {style.cyan(one_line(notice.extension, NAME_CHARS))}: {one_line(notice.message, _ERROR_CHARS)}"


def status_line(style: Style, extension: str, status: str) -> str:
    """Return the status of an extension."""
    return style.dim(f"{style.symbol('·')} {one_line(extension, NAME_CHARS)}: {one_line(status, _ERROR_CHARS)}")


def posted_line(style: Style, message: sc.Message, protocol: str | None) -> str:
    """Describe a message that an extension or the protocol inserted, with its text unless that is an answer."""
    said = "" if message.role == "assistant" else f" {one_line(message.text, _ERROR_CHARS)}"
    return f"{style.cyan(style.symbol('●'))} {style.cyan(speaker_of(message, protocol))}:{said}"


def cut_short_line(style: Style, why: str) -> str:
    """Return the line about why an answer ends in the middle."""
    return style.yellow(f"{style.symbol('■')} {why}")


def outcome_line(
    style: Style, outcome: sc.TurnOutcome, answer: sc.Message | None, line: sc.ToolResultPart | None = None
) -> str:
    """Summarise a turn in one line; `line` is the result of the shell line that it ran instead of a model."""
    took = duration(outcome.duration_ms)
    if outcome.status == "completed" and line is not None and line.status == "denied":
        head = f"{style.yellow(style.symbol('■'))} not run"
    elif outcome.status == "completed" and line is not None and outcome_of(line).level != "done":
        head = f"{style.red(style.symbol('✗'))} failed after {took}"
    else:
        head = _headline(style, outcome, answer, took)
    return head + style.dim(_figures(outcome, f" {style.symbol('·')} "))


def _headline(style: Style, outcome: sc.TurnOutcome, answer: sc.Message | None, took: str) -> str:
    reason = one_line(outcome.error or "no reason was given", _ERROR_CHARS)
    match outcome.status:
        case "completed":
            return f"{style.green(style.symbol('✓'))} completed in {took}"
        case "stopped":
            return f"{style.yellow(style.symbol('■'))} stopped after {took}: {_describe_saved_answer(answer)}"
        case "failed":
            return f"{style.red(style.symbol('✗'))} failed after {took}: {reason}"
        case "interrupted":
            return f"{style.red(style.symbol('✗'))} interrupted after {took}: the service ended"
        case "limit_reached":
            return f"{style.red(style.symbol('✗'))} ended after {took}: {reason}"


def _describe_saved_answer(answer: sc.Message | None) -> str:
    if answer is None or not answer.is_interrupted:
        return "earlier answers were kept" if answer is not None else "there was no answer yet"
    words = len(answer.text.split())
    return f"the partial answer was kept ({format_count(words, 'word')})"


def _figures(outcome: sc.TurnOutcome, separator: str) -> str:
    figures = [format_count(outcome.steps, "step")]
    if outcome.tool_calls:
        figures.append(format_count(outcome.tool_calls, "tool call"))
    return separator + separator.join([*figures, *usage_figures(outcome.usage)])
