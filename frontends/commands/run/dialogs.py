"""The text of an extension's dialog: what is shown, and what an answer means. Pure functions."""

from __future__ import annotations

import attrs

import session_core as sc
from frontends.commands.run.approval_text import LONGEST_LINE, MOST_LINES
from frontends.shared.conversation.work_lines import NAME_CHARS
from frontends.shared.figures import format_count
from frontends.shared.sanitise import one_line, sanitise
from frontends.shared.style import Style

_TITLE_CHARS = 200
_INDENT = "  "
_TAKE_DEFAULT = "."
_YES, _NO = {"y", "yes"}, {"n", "no"}


@attrs.frozen(kw_only=True)
class Reply:
    """An answer to a dialog; no value dismisses it. With `unclear` it does neither."""

    value: bool | str | None = None
    unclear: bool = False


def dialog_question(style: Style, dialog: sc.Dialog) -> str:
    """Return the question of an extension."""
    lines = [f"{style.yellow('?')} {describe_asker(dialog)}: {style.bold(one_line(dialog.title, _TITLE_CHARS))}"]
    lines += _message(style, dialog.message)
    if dialog.kind == "select":
        width = len(str(len(dialog.choices)))
        lines += [
            f"{_INDENT}{style.cyan(f'{number:>{width}}')}  {one_line(choice, _TITLE_CHARS)}"
            for number, choice in enumerate(dialog.choices, 1)
        ]
    elif dialog.kind == "input" and dialog.default:
        lines.append(style.dim(f"{_INDENT}suggested: {one_line(dialog.default, LONGEST_LINE)}"))
    lines.append(f"{_INDENT}{_answers(dialog)}; just Enter dismisses it: ")
    return "\n".join(lines)


def unclear_reply(style: Style, dialog: sc.Dialog) -> str:
    """Return the question again after an invalid answer."""
    return (
        f"{style.yellow('?')} That is not one of the answers.\n{_INDENT}{_answers(dialog)}; just Enter dismisses it: "
    )


def format_dismissed_dialog(style: Style, dialog: sc.Dialog) -> str:
    """Describe a dialog that was dismissed because there is no terminal to ask on."""
    title = one_line(dialog.title, _TITLE_CHARS)
    return f"{style.yellow('?')} {describe_asker(dialog)}: {title}: dismissed, because there is no terminal to ask on."


def format_waiting_dialog(style: Style, dialog: sc.Dialog) -> str:
    """Describe a dialog outside our turn that is left to other clients."""
    title = one_line(dialog.title, _TITLE_CHARS)
    question = f"{style.yellow('?')} {describe_asker(dialog)}: {title}"
    return f"{question}: there is no terminal to ask on, so it is left to other clients."


def format_asked_elsewhere(style: Style, dialog: sc.Dialog) -> str:
    """Describe a dialog that only another client may answer."""
    title = one_line(dialog.title, _TITLE_CHARS)
    return f"{style.yellow('?')} {describe_asker(dialog)} another client: {title}: only that client can answer it."


def parse_reply(dialog: sc.Dialog, typed: str) -> Reply:
    """Parse a typed answer; an empty answer or the end of input dismisses the dialog."""
    said = typed.strip()
    if not said:
        return Reply()
    match dialog.kind:
        case "confirm":
            word = said.lower()
            return Reply(value=word in _YES) if word in _YES | _NO else Reply(unclear=True)
        case "select":
            return _parse_choice(dialog.choices, said)
        case _:
            return Reply(value=dialog.default if said == _TAKE_DEFAULT and dialog.default else said)


def describe_asker(dialog: sc.Dialog) -> str:
    """Describe who asks."""
    return f"{one_line(dialog.extension, NAME_CHARS)} asks" if dialog.extension is not None else "Asked"


def _parse_choice(choices: tuple[str, ...], said: str) -> Reply:
    if said in choices:
        return Reply(value=said)
    if said.isascii() and said.isdigit() and 1 <= int(said) <= len(choices):
        return Reply(value=choices[int(said) - 1])
    fitting = [choice for choice in choices if choice.strip().casefold() == said.casefold()]
    return Reply(value=fitting[0]) if len(fitting) == 1 else Reply(unclear=True)


def _answers(dialog: sc.Dialog) -> str:
    match dialog.kind:
        case "confirm":
            return "[y]es or [n]o"
        case "select":
            return "a number or the text of a choice"
        case _:
            return f"your answer, or {_TAKE_DEFAULT} for the suggestion" if dialog.default else "your answer"


def _message(style: Style, message: str) -> list[str]:
    every = sanitise(message).rstrip("\n").split("\n") if message else []
    lines = [
        f"{_INDENT}{line if len(line) <= LONGEST_LINE else line[:LONGEST_LINE] + style.symbol('…')}"
        for line in every[:MOST_LINES]
    ]
    if remaining := len(every) - len(lines):
        lines.append(style.yellow(f"{_INDENT}({format_count(remaining, 'more line')} left out)"))
    return lines
