"""The text of an approval: what would happen, why it is asked, and the possible answers. Pure functions."""

from __future__ import annotations

from typing import Literal

import attrs

import session_core as sc
from frontends.shared.conversation.work_lines import NAME_CHARS, arguments_line, subagent_name
from frontends.shared.figures import format_count
from frontends.shared.sanitise import escape_invisible, one_line
from frontends.shared.style import Style

Approve = Literal["never", "ask", "rules"]
"""Who approves a tool call that needs approval: nobody, the person at the terminal, or the rules alone."""
MOST_LINES = 40
"""The number of lines that fit on a screen together with the question."""
LONGEST_LINE = 400
_SUMMARY_CHARS = 300
_INDENT = "  "
_DETAILS = ("environment: ",)
"""Facts that are the same for every command: shown only on request."""


@attrs.frozen(kw_only=True)
class ApprovalPromptText:
    """The text to show; `cut` means that it leaves out part of what would happen."""

    text: str
    cut: bool


def format_question(
    style: Style, approval: sc.Approval, subagent: str | None = None, *, whole: bool = False
) -> ApprovalPromptText:
    """Return the question whether a tool may run; `subagent` is the child session that asks, `whole` omits nothing."""
    who = "" if subagent is None else f"{subagent} asks. "
    lines = [f"{style.yellow('?')} {who}Allow {style.bold(_call(approval))}?"]
    if approval.reason:
        lines.append(style.dim(f"{_INDENT}asked for because {one_line(approval.reason, _SUMMARY_CHARS)}"))
    command = command_of(approval)
    if command is None:
        preview, cut = preview_lines(style, approval.shown, whole=whole)
        lines += preview
    else:
        preview, cut = preview_lines(style, command, whole=whole)
        facts = _facts(approval.shown.removeprefix(command))
        displayed_facts = facts if whole else [each for each in facts if not each.startswith(_DETAILS)]
        lines += [*preview, *(style.dim(f"{_INDENT}{each}") for each in displayed_facts)]
        cut = cut or len(displayed_facts) < len(facts)
    lines.append(f"{_INDENT}{_answers(approval, cut=cut)}: ")
    return ApprovalPromptText(text="\n".join(lines), cut=cut)


def format_denied_approval(style: Style, approval: sc.Approval, approve: Approve) -> str:
    """Describe a tool call that was denied without asking: why, and what would let it run."""
    if "unconfined" in approval.rights:
        why = (
            "would run without a sandbox: denied. Only a person may allow that, call by call. Install bubblewrap "
            "(session-core doctor says what is wrong), or choose to have no sandbox: --sandbox full-access."
        )
        why += _why_asked(approval)
    elif approve == "ask":
        why = "needs approval and there is no terminal to ask on: denied. Use --yes to allow every tool call."
        why += _why_asked(approval)
    elif approve == "rules":
        because = f" ({one_line(approval.reason, _SUMMARY_CHARS)})" if approval.reason else ""
        why = f"is not allowed by a permission rule{because}: denied. See: session-core config show"
    else:
        why = "needs approval, and with --approve never there is none: denied."
    return f"{style.yellow(style.symbol('■'))} {one_line(approval.tool_name, NAME_CHARS)} {why}"


def format_allowed_approval(style: Style, approval: sc.Approval) -> str:
    """Describe a tool call that was allowed because of --yes."""
    name = one_line(approval.tool_name, NAME_CHARS)
    return f"{style.yellow(style.symbol('●'))} {name} is allowed this once, because of --yes.{_why_asked(approval)}"


def _why_asked(approval: sc.Approval) -> str:
    return f" (Asked because: {one_line(approval.reason, LONGEST_LINE)})" if approval.reason else ""


def format_waiting_approval(style: Style, approval: sc.Approval) -> str:
    """Describe an approval outside our turn that is left to other clients."""
    name = one_line(approval.tool_name, NAME_CHARS)
    return f"{style.yellow('?')} {name} needs approval, and there is no terminal to ask on: left to other clients."


def format_unclear_answer(style: Style, approval: sc.Approval) -> str:
    """Return the question again after an answer that may have been meant as a yes."""
    name = one_line(approval.tool_name, NAME_CHARS)
    said = "that is not clear, so nothing was done yet. Type y for yes or n for no"
    return (
        f"{style.yellow('?')} Allow {style.bold(name)}? {said};\n"
        f'{_INDENT}to tell the model something, begin with "no", as in: no, do this instead: '
    )


def _answers(approval: sc.Approval, *, cut: bool) -> str:
    view = ", [v]iew all of it" if cut else ""
    texts = {
        "allow_once": "[y]es once",
        "allow_session": f"[s] {_describe_session_grant(approval)}",
        "allow_always": "[a]lways exactly this",
        "deny": "[N]o",
    }
    answers = ", ".join(texts[each] for each in sc.possible_decisions(approval.rights))
    return f"{answers}{view}, or type what to do instead"


def _describe_session_grant(approval: sc.Approval) -> str:
    """Describe what an approval for the whole session would cover."""
    name = one_line(approval.tool_name, NAME_CHARS)
    if approval.grant in {"", approval.tool_name}:
        return f"every {name} of this session"
    if command_of(approval) is not None:
        return "this command, whenever it occurs in this session"
    return f"for this session: {one_line(approval.grant, _SUMMARY_CHARS)}"


def command_of(approval: sc.Approval) -> str | None:
    """Return the command line, if the approval is about one and it is shown first."""
    command = approval.arguments.get("command")
    if not isinstance(command, str) or not command:
        return None
    return command if approval.shown.startswith(f"{command}\n\n") else None


def _facts(text: str) -> list[str]:
    """Return the facts about how a command runs, line by line and safe to print."""
    return [one_line(escape_invisible(line), LONGEST_LINE) for line in text.split("\n") if line.strip()]


def _call(approval: sc.Approval) -> str:
    name = one_line(approval.tool_name, NAME_CHARS)
    if command_of(approval) is not None:
        return name
    if approval.shown:
        return f"{name}: {one_line(approval.summary, _SUMMARY_CHARS)}"
    return f"{name}({arguments_line(approval.arguments)})"


def preview_lines(style: Style, text: str, *, whole: bool) -> tuple[list[str], bool]:
    """Return what would happen, line by line and safe to print, and whether something was left out."""
    every = escape_invisible(text).rstrip("\n").split("\n") if text else []
    lines = every if whole else every[:MOST_LINES]
    is_diff = text.startswith("--- ")
    cut = len(lines) < len(every)
    preview = []
    for line in lines:
        short = line if whole or len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}{style.symbol('…')}"
        cut = cut or short != line
        preview.append(f"{_INDENT}{_colour_diff_line(style, short) if is_diff else short}")
    if cut:
        remaining = len(every) - len(lines)
        what = f"{format_count(remaining, 'more line')} left out" if remaining else "long lines are cut"
        preview.append(style.yellow(f"{_INDENT}({what}; v shows everything)"))
    return preview, cut


def _colour_diff_line(style: Style, line: str) -> str:
    if line.startswith("@@"):
        return style.cyan(line)
    if line.startswith(("+++", "---")):
        return style.bold(line)
    return style.green(line) if line.startswith("+") else style.red(line) if line.startswith("-") else line


def find_asking_subagent(state: sc.SessionState, approval: sc.Approval) -> str | None:
    """Return which child session asks, by the title of its work where known; None if it is the session itself."""
    if approval.session_id is None:
        return None
    for tool in state.tools:
        if tool.child_id == approval.session_id:
            return subagent_name(approval.session_id, tool.arguments.get("title"))
    return subagent_name(approval.session_id, None)
