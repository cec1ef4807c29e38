"""The order of sessions in the list."""

from hypothesis import given
from hypothesis import strategies as st

import session_core as sc
from frontends.terminal.panels.session_order import DEEPEST, group_by_folder


def summary(
    name: str, *, at: int = 0, parent: str | None = None, cwd: str = "/a", archived: bool = False
) -> sc.SessionSummary:
    """A session called by its name."""
    return sc.SessionSummary(
        session_id=sc.SessionId(name),
        name=name,
        created_at=at,
        updated_at=100 - at,
        archived=archived,
        parent_id=None if parent is None else sc.SessionId(parent),
        cwd=cwd,
        model="m",
        activity=sc.Activity(name="idle"),
    )


def shown(*sessions: sc.SessionSummary, here: str = "/a", query: str = "") -> list[tuple[str, list[tuple[str, int]]]]:
    """The list as folders with names and depths."""
    folders = group_by_folder(sessions, here=here, query=query)
    return [(each.folder, [(row.summary.name, row.depth) for row in each.rows]) for each in folders]


def test_newest_first_and_helpers_beneath() -> None:
    """The newest session comes first, whatever was used since, and helpers stand beneath whom they work for."""
    sessions = [
        summary("old", at=1),
        summary("new", at=5),
        summary("help", at=9, parent="old"),
        summary("more", at=2, parent="help"),
    ]
    assert shown(*sessions) == [("/a", [("new", 0), ("old", 0), ("help", 1), ("more", 2)])]


def test_this_folder_first() -> None:
    """The folder in which the terminal was opened comes first, the others by their newest session."""
    sessions = [summary("a", at=1), summary("b", at=7, cwd="/b"), summary("c", at=9, cwd="/c")]
    assert [folder for folder, _ in shown(*sessions)] == ["/a", "/c", "/b"]


def test_archived_ones_are_left_out() -> None:
    """An archived session is not listed, and its helpers stand by themselves."""
    assert shown(summary("gone", archived=True), summary("help", parent="gone")) == [("/a", [("help", 0)])]


def test_a_query_keeps_the_parents_of_what_it_finds() -> None:
    """Searching keeps whom a found helper works for, and nothing else."""
    sessions = [summary("lead"), summary("fix parser", parent="lead"), summary("other")]
    assert shown(*sessions, query="PARSER fix") == [("/a", [("lead", 0), ("fix parser", 1)])]


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=20))
def test_each_session_is_listed_once(links: list[tuple[int, int]]) -> None:
    """Whoever works for whom, and be it in a circle, no session is listed twice and none is deeper than the bound."""
    sessions = {str(one): summary(str(one), parent=str(other)) for one, other in links}
    rows = [row for _, each in shown(*sessions.values()) for row in each]
    assert len({name for name, _ in rows}) == len(rows)
    assert all(depth <= DEEPEST for _, depth in rows)
