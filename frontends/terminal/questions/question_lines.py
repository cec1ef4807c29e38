"""The lines around a question, all in our words: who asks what, the answers, and the keys. Pure functions."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

import session_core as sc
from frontends.shared.figures import format_count
from frontends.terminal.look.styles import Look
from frontends.terminal.panels.panel import cut_to, wrap_text
from frontends.terminal.questions.answers import AnswerChoice, AnswerMeaning, ScreenQuestion, describe_time_left
from frontends.terminal.questions.dialog_view import describe_other_dialog

_TITLE_ROWS = 4
_FACT_ROWS = 3
_CHOICE_ROWS = 4
"""The most rows of one long choice."""
_HINT_ROWS = 3
_MOST_CHOICES = 8
_INDENT = 2


def head(
    question: ScreenQuestion,
    width: int,
    look: Look,
    *,
    which: tuple[int, int],
    others: Sequence[sc.Dialog],
    now_ms: int,
    tight: bool = False,
) -> list[Text]:
    """Return the question, how many wait, and how long it stays open."""
    dot = f" {look.glyph('dot')} "
    place, count = which
    number = f"{place} of {count}{dot}" if count > 1 else ""
    when = Text(f"{number}{describe_time_left(question.expires_at, now_ms)}", look.dim)
    title = Text.assemble((f"{look.glyph('asked')} ", look.warn), (question.title, look.strong))
    between = width - title.cell_len - when.cell_len
    if between >= _INDENT:
        lines = [title.append(" " * between).append_text(when)]
    else:
        lines = [*wrap_text(title, width, most=_TITLE_ROWS), _indented(when)]
    most = 1 if tight else _FACT_ROWS
    for fact in question.facts:
        lines += [_indented(row) for row in wrap_text(Text(fact, look.dim), width - _INDENT, most=most)]
    return [*lines, *draw_others(others, width, look)]


def draw_others(dialogs: Sequence[sc.Dialog], width: int, look: Look) -> list[Text]:
    """Return one line about questions that are for other clients, if there are any."""
    if not dialogs:
        return []
    more = f" (and {format_count(len(dialogs) - 1, 'more question')})" if len(dialogs) > 1 else ""
    said = cut_to(Text(describe_other_dialog(dialogs[0]), look.dim), max(1, width - len(more)), look)
    return [said.append(more, look.dim)]


def draw_scroll_rule(in_sight: tuple[int, int, int], width: int, look: Look) -> Text:
    """Return the line below the foreign text, with the visible part if that is not all."""
    first, last, total = in_sight
    line = look.glyph("line")
    if total <= 0 or last < first or (first <= 1 and last >= total):
        return Text(line * width, look.dim)
    below = total - last
    more = f", {format_count(below, 'line')} below" if below else ", the end"
    said = f" {first} to {last} of {format_count(total, 'line')}{more} "
    return Text.assemble((line * 2, look.dim), (said, look.warn), (line * max(0, width - 2 - len(said)), look.dim))


def choices(
    question: ScreenQuestion, numbers: Sequence[int], marked: int | None, width: int, look: Look, *, tight: bool = False
) -> list[tuple[int, Text]]:
    """Return the rows of the answers with their numbers; of many, those around the marked one."""
    marked_index = numbers.index(marked) if marked in numbers else 0
    most = _MOST_CHOICES // 2 if tight else _MOST_CHOICES
    begin = max(0, min(marked_index - most // 2, len(numbers) - most))
    rows: list[tuple[int, Text]] = []
    for number in numbers[begin : begin + most]:
        whole = _CHOICE_ROWS if not tight and (number == marked or not question.filters) else 1
        rows += [(number, row) for row in _choice(question.choices[number], width, look, number == marked, whole)]
    if len(numbers) > most and rows:
        said = f"  {look.glyph('more')} {marked_index + 1} of {len(numbers)}"
        rows.append((rows[-1][0], Text(said, look.dim)))
    return rows


def _choice(choice: AnswerChoice, width: int, look: Look, marked: bool, most: int) -> list[Text]:  # noqa: FBT001 - one caller
    mark = ">" if marked else " "
    key = f"{choice.key}  " if choice.key else ""
    front = Text.assemble((f"{mark} ", look.accent), (key, look.accent))
    label = Text(choice.label, look.strong if marked else look.text)
    rows = wrap_text(label, max(1, width - front.cell_len), most=most) or [Text()]
    rows[0] = cut_to(rows[0], max(1, width - front.cell_len), look)
    return [front.copy().append_text(rows[0]), *(Text(" " * front.cell_len).append_text(row) for row in rows[1:])]


def hints(
    meaning: AnswerMeaning, width: int, look: Look, *, focused: bool, several: bool, scrolls: bool, is_dialog: bool
) -> list[Text]:
    """Return what Enter would do, and the other keys."""
    if not focused:
        return [Text("F8 to answer", look.warn)]
    keys = ["Esc later"]
    keys += ["PgUp PgDn scroll"] if scrolls else []
    keys += ["Tab next question"] if several else []
    keys += ["Ctrl+G dismiss it"] if is_dialog else []
    hint_line = Text(meaning.hint, look.accent if meaning.answer is not None else look.dim)
    return [*wrap_text(hint_line, width, most=_HINT_ROWS), Text(f" {look.glyph('dot')} ".join(keys), look.dim)]


def _indented(row: Text) -> Text:
    return Text(" " * _INDENT).append_text(row)
