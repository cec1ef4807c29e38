"""Lists of sessions and of what was found, as a terminal shows them."""

import unicodedata
from collections.abc import Callable

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import session_core as sc
from frontends.commands.sessions.list_lines import (
    find_named_sessions,
    hit_lines,
    session_lines,
)
from frontends.shared.activity_words import state_word
from frontends.shared.session_lookup import newest_first
from frontends.shared.style import Style
from frontends.shared.text_width import text_width
from tests.frontends._kept import MINUTE, NOW, summary

PLAIN, COLOURED = Style(), Style(colours=True)
A = summary("ses_a", "fix the parser")
B = summary(
    "ses_b", "a name " * 20, activity=sc.Activity(name="awaiting_permission"), cwd="/srv/" + "deep/" * 20 + "end"
)
IDS = {A.session_id: "aaaa", B.session_id: "bbbbb"}


def test_a_list_fits_80_columns() -> None:
    """Long names lose their end, long directories their beginning, and every column stands in its place."""
    assert [
        "ID     STATE     USED       NAME                            FOLDER",
        "aaaa   idle      3 min ago  fix the parser                  /srv/project",
        "bbbbb  asks you  3 min ago  a name a name a name a name a…  …/deep/deep/deep/end",
    ] == session_lines(PLAIN, [A, B], IDS, now=NOW, width=80)


def test_a_wide_terminal_shows_more() -> None:
    """On a wide terminal nothing is cut that fits."""
    assert B.name.strip() in session_lines(PLAIN, [B], IDS, now=NOW, width=400)[1]


@given(st.text(max_size=300), st.text(max_size=300), st.integers(60, 160))
def test_no_name_breaks_the_list(name: str, cwd: str, width: int) -> None:
    """Whatever a session is called and wherever it works, its line fits and holds no control character."""
    wild = attrs.evolve(A, name=name, cwd=cwd)
    _, line = session_lines(PLAIN, [wild], IDS, now=NOW, width=width)

    assert text_width(line) <= width
    assert not {"Cc", "Cf", "Cs", "Zl", "Zp"} & set(map(unicodedata.category, line))


@pytest.mark.parametrize(
    ("changes", "word", "colour"),
    [
        ({"archived": True}, "archived", COLOURED.dim),
        ({}, "idle", COLOURED.dim),
        ({"activity": sc.Activity(name="streaming")}, "answering", COLOURED.green),
        ({"activity": sc.Activity(name="waiting_for_model")}, "waiting for the model", COLOURED.green),
        ({"activity": sc.Activity(name="awaiting_permission")}, "asks you", COLOURED.yellow),
        ({"activity": sc.Activity(name="interrupted")}, "interrupted", COLOURED.red),
        ({"activity": sc.Activity(name="errored", message="x")}, "failed", COLOURED.red),
    ],
)
def test_states_have_words_and_colours(changes: dict[str, object], word: str, colour: Callable[[str], str]) -> None:
    """Each state is a word or two, in a colour that tells whether to look."""
    changed = attrs.evolve(A, **changes)  # type: ignore[arg-type]

    assert word == state_word(changed)
    line = session_lines(COLOURED, [changed], IDS, now=NOW, width=80)[1]
    assert colour(word.ljust(len("STATE"))) in line


def test_the_last_used_comes_first() -> None:
    """The order is that of use, whenever a session was made."""
    older = attrs.evolve(A, updated_at=1)
    newer = attrs.evolve(B, updated_at=2)

    assert [newer, older] == newest_first([older, newer])


def hit(session: sc.SessionSummary, excerpt: str, role: str = "user") -> sc.replies.SearchHit:
    return sc.replies.SearchHit(
        session_id=session.session_id,
        session_name=session.name,
        message_id=sc.MessageId("msg_1"),
        role=role,  # type: ignore[arg-type]
        created_at=NOW - MINUTE,
        excerpt=excerpt,
    )


def test_what_was_found_session_by_session() -> None:
    """Hits stand below the session they are in, in the order of the best one of each, and archived ones are marked."""
    away = attrs.evolve(B, archived=True, name="away")
    found = [hit(A, "parse it"), hit(away, "…the parse\n error"), hit(A, "parsed", "assistant")]
    lines = hit_lines(PLAIN, found, {each.session_id: each for each in (A, away)}, IDS, ["parse"], now=NOW, width=80)

    assert [
        "aaaa   fix the parser  1 min ago",
        "       you: parse it",
        "       model: parsed",
        "bbbbb  away  1 min ago (archived)",
        "       you: …the parse error",
    ] == lines


def test_names_that_fit_come_first() -> None:
    """A session whose name fits stands before those with hits, with its own hits or without any."""
    sessions = {each.session_id: each for each in (A, B)}
    lines = hit_lines(PLAIN, [hit(B, "parse")], sessions, IDS, ["pars"], named=[A], now=NOW, width=80)

    assert ["aaaa   fix the parser  3 min ago", "       you: parse"] == [lines[0], lines[2]]


def test_which_names_fit() -> None:
    """All words must begin words of a name, in any order and any case."""
    older = attrs.evolve(A, updated_at=A.updated_at - MINUTE, name="The Parser, fixed")

    assert [A, older] == find_named_sessions([older, B, A], ["pars", "FIX"])
    assert [] == find_named_sessions([older, A], ["arser"])
    assert [] == find_named_sessions([older, A], ["parser", "name"])


def test_found_words_stand_out() -> None:
    """On a terminal the words that were searched for are coloured, wherever they begin and in any case."""
    lines = hit_lines(COLOURED, [hit(A, "A Parser (parses)")], {}, IDS, ["pars", "(", "parse"], now=NOW, width=80)

    assert lines[1].endswith(f"A {COLOURED.yellow('Parse')}r {COLOURED.yellow('(')}{COLOURED.yellow('parse')}s)")


def test_hostile_excerpts_are_harmless() -> None:
    """What was found cannot steer the terminal."""
    lines = hit_lines(PLAIN, [hit(A, "x\x1b[2Jy\x1b]0;t\x07\r\u202e")], {}, IDS, ["x"], now=NOW, width=80)

    assert "       you: xy<U+202E>".replace("       ", "      ") == lines[1]
