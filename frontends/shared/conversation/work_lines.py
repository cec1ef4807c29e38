"""The lines about the work: tools, failures, approvals, outcomes. Pure functions of events."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

import session_core as sc
from frontends.shared.figures import duration, format_ago, format_count, usage_figures
from frontends.shared.sanitise import one_line
from frontends.shared.style import Style

_TOOL_SYMBOLS = {"success": "✓", "denied": "■", "cancelled": "■", "interrupted": "■"}
NAME_CHARS = 40
_TITLE_CHARS = 60
_ID_CHARS = 8
_ARGUMENT_CHARS = 60
_RESULT_CHARS = 60
_ERROR_CHARS = 400
_PLAN_CHARS = 100
_PLAN_LINES = 12
_PLAN_SYMBOLS = {"done": "✓", "in_progress": "●", "pending": "·"}
_NO_OUTPUT = "(no output)"
UNCONFINED = "[no sandbox]"
"""The remark on a call that ran without one."""
_REMARK = re.compile(r"\[.*\]")
_TOO_LONG = "the model reached the length limit of one answer"


def demo_notice(style: Style, model: str) -> str:
    """Describe what answers when no real model does."""
    return style.dim(f"The offline demo model ({one_line(model)}) answers; it follows simple rules and is not an AI.")


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
    said = ", ".join(
        f"{key}={json.dumps(value, default=_plain, ensure_ascii=False)}" for key, value in arguments.items()
    )
    return one_line(said, _ARGUMENT_CHARS)


def _plain(value: object) -> object:
    return dict(value) if isinstance(value, Mapping) else str(value)


def tool_line(style: Style, result: sc.ToolResultPart, arguments: Mapping[str, sc.JsonValue] | None) -> str:
    """Return the one line about the result of a tool call."""
    name = one_line(result.name, NAME_CHARS)
    call = f"{style.cyan(name)}({arguments_line(arguments or {})})"
    remark = f" {style.yellow(UNCONFINED)}" if ran_unconfined(result) else ""
    return f"{_mark(style, result)} {call} {style.dim(_ending(result))}{remark}"


def ran_unconfined(result: sc.ToolResultPart) -> bool:
    """Return whether the call ran something without a sandbox."""
    return result.details is not None and result.details.get("unconfined") is True


def exit_code(result: sc.ToolResultPart) -> int | None:
    """Return the exit code of a failed command; None for anything that did not fail or is no command."""
    code = result.details.get("exit_code") if result.details is not None else None
    return code if result.status == "success" and isinstance(code, int) and code != 0 else None


def _mark(style: Style, result: sc.ToolResultPart) -> str:
    if exit_code(result) is not None:
        return style.red(style.symbol("✗"))
    symbol = style.symbol(_TOOL_SYMBOLS.get(result.status, "✗"))
    if result.status == "success":
        return style.green(symbol)
    return style.red(symbol) if result.status == "error" else style.yellow(symbol)


def _ending(result: sc.ToolResultPart) -> str:
    """Describe for people how a call ended: the tool's own text is written for the model."""
    code = exit_code(result)
    if code is not None:
        timed_out = result.details is not None and result.details.get("timed_out") is True
        how = "ended at its time limit" if timed_out else f"exit code {code}"
        last = one_line(_last_line(result.text), _RESULT_CHARS)
        return f"{how}: {last}" if last else how
    if result.status == "denied":
        because = "" if result.refusal is None else result.refusal.explanation
        return f"denied: {one_line(because, _RESULT_CHARS)}" if because else "denied"
    return f"{result.status}: {_gist(result)}"


def _last_line(text: str) -> str:
    """Return the last line of a command's output, without remarks in brackets."""
    lines = [line for line in text.splitlines() if line.strip()]
    while lines and _REMARK.fullmatch(lines[-1]):
        lines.pop()
    return "" if not lines or lines[-1] == _NO_OUTPUT else lines[-1]


def _gist(result: sc.ToolResultPart) -> str:
    lines = result.text.splitlines()
    if result.status == "success" and len(lines) > 1:
        return format_count(len(lines), "line")
    return one_line(result.text, _RESULT_CHARS) or "no output"


def retry_line(style: Style, failed: sc.events.ModelCallFailed, failed_at: int) -> str:
    """Describe a failed model call and when it is retried."""
    wait = "" if failed.retry_at is None else f"; trying again in {duration(max(0, failed.retry_at - failed_at))}"
    said = one_line(failed.message, _ERROR_CHARS).rstrip(".")
    return f"{style.yellow(style.symbol('↻'))} {said} ({one_line(failed.kind)}){wait}"


def approval_denied(style: Style, approval: sc.Approval) -> str:
    """Describe a tool call that was denied because there is no terminal to ask on."""
    name = one_line(approval.tool_name, NAME_CHARS)
    return (
        f"{style.yellow(style.symbol('■'))} {name} needs approval and there is no terminal to ask on: denied. "
        f"Use --yes to allow every tool call.{_why_asked(approval)}"
    )


def approval_allowed(style: Style, approval: sc.Approval) -> str:
    """Describe a tool call that was allowed because of --yes."""
    name = one_line(approval.tool_name, NAME_CHARS)
    return f"{style.yellow(style.symbol('●'))} {name} is allowed this once, because of --yes.{_why_asked(approval)}"


def unconfined_denied(style: Style, approval: sc.Approval) -> str:
    """Describe a tool call that was denied because it would run without a sandbox, which only a person may allow."""
    name = one_line(approval.tool_name, NAME_CHARS)
    return (
        f"{style.yellow(style.symbol('■'))} {name} would run without a sandbox: denied. Only a person may allow that, "
        "call by call. Install bubblewrap (session-core doctor says what is wrong), or choose to have no sandbox: "
        f"--sandbox full-access.{_why_asked(approval)}"
    )


def _why_asked(approval: sc.Approval) -> str:
    return f" (Asked because: {one_line(approval.reason, _ERROR_CHARS)})" if approval.reason else ""


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
    return f"{_mark(style, result)} {style.cyan(subagent)} {style.dim(_ending(result))}"


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


def posted_line(style: Style, message: sc.Message) -> str:
    """Describe a message that an extension inserted, with its text if it is in the user's name."""
    mark, who = style.cyan(style.symbol("●")), style.cyan(one_line(message.source or "", NAME_CHARS))
    if message.role == "assistant":
        return f"{mark} {who} says:"
    return f"{mark} {who} asks for you: {one_line(message.text, _ERROR_CHARS)}"


def protocol_message_line(style: Style, message: sc.Message) -> str:
    """Return what the session's protocol has told the model."""
    who = style.cyan(one_line(message.source or "", NAME_CHARS))
    return f"{style.cyan(style.symbol('●'))} protocol {who} says: {one_line(message.text, _ERROR_CHARS)}"


def cut_short_line(style: Style, reason: str) -> str:
    """Describe why an answer ends in the middle."""
    said = _TOO_LONG if reason == "max_tokens" else one_line(reason)
    return style.yellow(f"{style.symbol('■')} cut short: {said}")


def outcome_line(
    style: Style, outcome: sc.TurnOutcome, answer: sc.Message | None, line: sc.ToolResultPart | None = None
) -> str:
    """Summarise a turn in one line; `line` is the result of the shell line that it ran instead of a model."""
    took = duration(outcome.duration_ms)
    if outcome.status == "completed" and line is not None and line.status == "denied":
        head = f"{style.yellow(style.symbol('■'))} not run"
    elif outcome.status == "completed" and line is not None and (line.status != "success" or exit_code(line)):
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
