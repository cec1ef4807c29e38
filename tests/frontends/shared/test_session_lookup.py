"""From what a person types to the one session that is meant."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontends.shared.parser import UsageError
from frontends.shared.session_lookup import SHORTEST, find_all, find_session, short_id, short_ids
from tests.frontends._kept import summary

OLD = summary("ses_01aaaaaaaaqqqqqqqqqqqq7k2f", "the parser")
NEW = summary("ses_01aaaaaabbqqqqqqqqqqqqx93d", "the lexer")
TWIN = summary("ses_01aaaaaaccqqqqqqqqqqqqq93d", "twins")
OTHER_TWIN = summary("ses_01aaaaaaddqqqqqqqqqqqq0000", "twins")
ALL = (OLD, NEW, TWIN, OTHER_TWIN)


@pytest.mark.parametrize(
    "typed",
    [
        "ses_01aaaaaaaaqqqqqqqqqqqq7k2f",
        "ses_01aaaaaaaa",
        "01aaaaaaaa",
        "7k2f",
        "7K2F",
        "q7k2f",
        "the parser",
    ],
)
def test_the_one_that_is_meant(typed: str) -> None:
    """A whole id, the beginning of one with or without its kind, the end of one, and a name all mean the session."""
    assert OLD == find_session(typed, ALL)


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("93d", "there is no session '93d'; of an id, type at least 4 characters"),
        ("nope", "there is no session 'nope' (see: session-core sessions --all)"),
        ("", "there is no session '' (see"),
        ("ses_", "there is no session 'ses_' (see"),
        ("ses_7k2f", "there is no session 'ses_7k2f' (see"),
        ("the par", "there is no session 'the par' (see"),
        ("a\x1b[31m\nb", "there is no session 'a b' (see"),
    ],
)
def test_none_is_meant(typed: str, sentence: str) -> None:
    """What fits nothing is said to, with what to do about it, and is safe to print."""
    with pytest.raises(UsageError) as caught:
        find_session(typed, ALL)

    assert str(caught.value).startswith(sentence)


def test_several_could_be_meant() -> None:
    """What fits several sessions lists them, so that more of one can be typed."""
    with pytest.raises(UsageError, match="'ses_01aaaaaa' matches 4 sessions; type more of the one you mean") as caught:
        find_session("ses_01aaaaaa", ALL)

    assert f"{OLD.session_id}  the parser" in caught.value.details
    assert 4 == len(caught.value.details)


def test_a_name_that_two_share_means_neither() -> None:
    """An exact name counts only if one session has it; else the short ids to use instead are listed."""
    with pytest.raises(UsageError, match="2 sessions are called 'twins'; use an id") as caught:
        find_session("twins", ALL)

    ids = short_ids(ALL)
    twins = [each for each in ALL if each.name == "twins"]
    assert {f"{ids[each.session_id]}  twins" for each in twins} == set(caught.value.details)


def test_a_name_that_looks_like_an_id() -> None:
    """A session named like the end of another one's id makes that form doubtful, and a longer one is shown."""
    sly = summary("ses_01aaaaaaeeqqqqqqqqqqqq1111", "7k2f")
    sessions = (*ALL, sly)
    with pytest.raises(UsageError, match="matches 2 sessions"):
        find_session("7k2f", sessions)

    assert "q7k2f" == short_id(OLD.session_id, sessions)
    assert OLD == find_session("q7k2f", sessions)


def test_only_a_whole_id_is_beyond_doubt() -> None:
    """A session whose name is the whole id of another one cannot stand in for it."""
    sly = summary("ses_01aaaaaaeeqqqqqqqqqqqq1111", OLD.session_id)

    assert OLD == find_session(OLD.session_id, (*ALL, sly))


def test_a_long_list_of_candidates_is_cut() -> None:
    """Of very many candidates the last used ones are listed, and the rest are counted."""
    many = [summary(f"ses_01aaaaaaaaqqqqqqqqqqqq{n:04}", updated_at=n) for n in range(30)]
    with pytest.raises(UsageError) as caught:
        find_session("01aaaa", many)

    assert (11, "and 20 more") == (len(caught.value.details), caught.value.details[-1])
    assert caught.value.details[0].startswith(many[29].session_id)


def test_each_is_meant_once() -> None:
    """Typing one session in two ways means it once, in the order of typing."""
    assert [NEW, OLD] == find_all(["x93d", "7k2f", "the lexer"], ALL)


def test_short_forms_grow_where_they_must() -> None:
    """Four characters are enough unless two ids end alike."""
    assert {OLD.session_id: "7k2f", NEW.session_id: "x93d", TWIN.session_id: "q93d", OTHER_TWIN.session_id: "0000"} == (
        short_ids(ALL)
    )
    near = summary("ses_01aaaaaaffqqqqqqqqqqqz7k2f")
    assert ("q7k2f", "z7k2f") == (short_id(OLD.session_id, (OLD, near)), short_id(near.session_id, (OLD, near)))


SOME_IDS = st.text("0a", min_size=1, max_size=9).map("ses_".__add__) | st.text("0a", min_size=1, max_size=9)


@given(st.lists(st.tuples(SOME_IDS, st.text("0a", max_size=5)), unique_by=lambda each: each[0], max_size=12))
def test_what_is_shown_can_be_typed(sessions: list[tuple[str, str]]) -> None:
    """However alike ids and names are, the short form of a session, typed, means that session and no other."""
    every = [summary(session_id, name) for session_id, name in sessions]
    shown = short_ids(every)
    for each in every:
        short = shown[each.session_id]

        assert len(short) >= SHORTEST or short in each.session_id
        assert each == find_session(short, every)
