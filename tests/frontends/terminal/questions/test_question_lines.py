"""The lines around a question: always harmless, whatever those who ask have written into it."""

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.segment import Segment
from rich.text import Text
from textual.color import Color

import session_core as sc
from frontends.terminal.look.sanitised_text import SanitisingFilter
from frontends.terminal.panels.message_queue import queue_line
from frontends.terminal.panels.panel import cut_to
from frontends.terminal.panels.plan import plan_line, step_rows
from frontends.terminal.questions import question_lines
from frontends.terminal.questions.answers import ScreenQuestion
from frontends.terminal.questions.approval_view import approval_meaning, approval_question
from frontends.terminal.questions.dialog_view import dialog_question
from frontends.terminal.questions.panel import CurrentRequest
from frontends.terminal.questions.untrusted_view import build_rows, draw_row
from tests.frontends.terminal._panels import ASCII, PLAIN
from tests.frontends.terminal._requests import APPROVAL, HELPER, NOW

SNIPPETS = ("\x1b[2J", "\x1b]0;t\x07", "\x9b31m", "\x1bP", "\r", "\n", "\t", "\b", "\x00", "\ud800")
UNSEEN = ("\u202e", "\u200b", "\ufe0f")
LOOKALIKES = ("e\u0301", "日本", "\U0001f469\u200d\U0001f467", "[b]", "[/]", "{{x}}", "rm -rf ~", "│ ", "> y  yes", " ")
HOSTILE = st.lists(st.sampled_from((*SNIPPETS, *UNSEEN, *LOOKALIKES)) | st.text(max_size=10), max_size=12).map("".join)


def check(lines: list[Text], width: int) -> None:
    """Every line fits once it is cut, and the last wall before the terminal finds nothing to do."""
    for line in lines:
        text = cut_to(line, width, PLAIN).plain
        assert cell_len(text) <= width
        segments = [Segment(text)]
        assert SanitisingFilter().apply(segments, Color(0, 0, 0)) is segments


def around(question: ScreenQuestion, width: int) -> list[Text]:
    """Return all lines of a question."""
    rows = [draw_row(row, PLAIN) for row in build_rows(question.passages, width)]
    head = question_lines.head(question, width, PLAIN, which=(1, 2), others=(), now_ms=NOW)
    shown = question_lines.choices(question, range(len(question.choices)), 0, width, PLAIN)
    return [*head, *rows, *(line for _, line in shown)]


@given(said=st.lists(HOSTILE, min_size=6, max_size=6), width=st.integers(min_value=12, max_value=90))
def test_an_approval_is_harmless(said: list[str], width: int) -> None:
    """Tool, summary, reason, grant, what is shown and who asks cannot steer the terminal or leave their place."""
    tool, summary, reason, grant, shown, name = said
    approval = sc.Approval(
        request_id=sc.RequestId("r"),
        call_id=sc.CallId("c"),
        tool_name=tool,
        summary=summary,
        arguments=sc.JsonObject({"a": shown}),
        requested_at=0,
        expires_at=0,
        shown=shown,
        reason=reason,
        grant=grant,
        session_id=HELPER,
    )
    check(around(approval_question(approval, {HELPER: name}), width), width)


@given(said=st.lists(HOSTILE, min_size=4, max_size=4), choices=st.lists(HOSTILE, max_size=12))
def test_a_dialog_is_harmless(said: list[str], choices: list[str]) -> None:
    """So it is with the questions of extensions, their choices and what Enter would do."""
    title, message, default, extension = said
    dialog = sc.Dialog(
        request_id=sc.RequestId("r"),
        kind="select" if choices else "input",
        title=title,
        message=message,
        choices=tuple(choices),
        default=default,
        extension=extension,
        opened_at=0,
        expires_at=0,
    )
    question = dialog_question(dialog)
    meaning = CurrentRequest(dialog, question, 0).meaning("")
    hints = question_lines.hints(meaning, 60, PLAIN, focused=True, several=True, scrolls=True, is_dialog=True)
    check([*around(question, 60), *hints, *question_lines.draw_others([dialog], 60, PLAIN)], 60)


@given(text=HOSTILE)
def test_queue_and_plan_are_harmless(text: str) -> None:
    """So it is with messages that wait and with steps of a plan."""
    item = sc.QueueItem(
        item_id=sc.QueueItemId("q"), parts=(sc.TextPart(text=text),), deliver_as="steer", queued_at=0, source=text
    )
    step = sc.PlanItem(text=text)
    check([queue_line(item, 1, PLAIN, marked=True), plan_line((step,), ASCII), *step_rows(step, 40, PLAIN)], 40)


def test_how_far_one_has_scrolled() -> None:
    """The line below the foreign text says which part of it can be seen, only if that is not all."""
    assert question_lines.draw_scroll_rule((1, 5, 5), 10, PLAIN).plain == "─" * 10
    assert question_lines.draw_scroll_rule((1, 0, 40), 10, PLAIN).plain == "─" * 10
    assert question_lines.draw_scroll_rule((1, 5, 6), 44, PLAIN).plain == "── 1 to 5 of 6 lines, 1 line below ─────────"
    assert question_lines.draw_scroll_rule((2, 6, 6), 10, ASCII).plain == "-- 2 to 6 of 6 lines, the end "


def test_a_narrow_hint_is_told_whole() -> None:
    """What Enter would do goes on below where it does not fit, and the keys stand under it."""
    meaning = approval_meaning(APPROVAL, "perhaps not", None)
    lines = question_lines.hints(meaning, 40, PLAIN, focused=True, several=False, scrolls=False, is_dialog=False)
    assert " ".join(line.plain for line in lines) == f"{meaning.hint} Esc later"
    assert max(line.cell_len for line in lines) <= 40


def test_a_narrow_head_keeps_the_whole_question() -> None:
    """Where the time that is left does not fit beside the question, it stands below."""
    question = ScreenQuestion(title="the tester asks. Allow shell?", expires_at=NOW + 9_000)

    def head(width: int) -> list[str]:
        lines = question_lines.head(question, width, PLAIN, which=(2, 3), others=(), now_ms=NOW)
        return [line.plain for line in lines]

    assert head(60) == ["? the tester asks. Allow shell?            2 of 3 · 9 s left"]
    assert head(34) == ["? the tester asks. Allow shell?", "  2 of 3 · 9 s left"]
    assert head(20) == ["? the tester asks.", "Allow shell?", "  2 of 3 · 9 s left"]
