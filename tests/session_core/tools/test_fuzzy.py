"""Finding paths by some letters: what fits, and which of them comes first."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core.tools import fuzzy
from session_core.tools.fuzzy import PathIndex

PATHS = st.lists(st.text(st.sampled_from("abAB/_.-İ\n["), min_size=1, max_size=12), max_size=30)
QUERIES = st.text(st.sampled_from("abAB/_.-[^]\\"), max_size=4)


def holds(path: str, query: str) -> bool:
    """Whether the letters of the query are in the path, in their order."""
    rest = iter(path)
    return all(letter in rest for letter in query)


@pytest.mark.parametrize(
    ("query", "better", "worse"),
    [
        ("core", "service/core.py", "core/service.py"),  # the name before the folder
        ("core", "core.py", "encore.py"),  # the start of a name
        ("core", "core.py", "core_of_it_all.py"),  # the whole name
        ("core", "my_core.py", "encore.py"),  # the start of a word
        ("sc", "session_core.py", "visceral.py"),  # starts of words
        ("sc", "SessionCore.py", "ascii.py"),  # starts of words in capitals
        ("abc", "xabcx.py", "axbxc.py"),  # side by side
        ("test", "tests/", "tests/deeper/other/tests/"),  # the shorter one
        ("src/main", "src/main.py", "src/domain/maintain.py"),  # a query with folders
    ],
)
def test_the_better_of_two_comes_first(query: str, better: str, worse: str) -> None:
    """Names come before folders, starts before middles, whole before parts, short before long."""
    found, more = PathIndex([worse, better]).best(query, 10)
    assert (better, False) == (found[0], more)


def test_capitals_in_a_query_are_meant() -> None:
    """Small letters find both, and a capital only finds a capital."""
    index = PathIndex(["Makefile", "makefile"])
    assert {"Makefile", "makefile"} == set(index.best("make", 10)[0])
    assert ["Makefile"] == index.best("Make", 10)[0]


def test_nothing_typed_shows_what_is_at_the_top() -> None:
    """An empty query gives the names of the folder itself first, by name."""
    index = PathIndex(["src/a.py", "README.md", "src/", "b.py"])
    assert (["b.py", "README.md", "src/"], True) == index.best("", 3)


@given(paths=PATHS, query=QUERIES, limit=st.integers(1, 40))
def test_what_is_found_fits_and_nothing_that_fits_is_left_out(paths: list[str], query: str, limit: int) -> None:
    """Exactly the paths that hold the letters in order are found, each once, up to the limit."""
    distinct = list(dict.fromkeys(paths))
    found, more = PathIndex(distinct).best(query, limit)

    def fits(path: str) -> bool:
        small = path.lower()
        folded = small if query == query.lower() and len(small) == len(path) else path
        return holds(folded, query)

    fitting = {path for path in distinct if fits(path)}
    assert set(found) <= fitting
    assert len(set(found)) == len(found) == min(limit, len(fitting))
    assert more == (len(fitting) > limit)


@given(paths=PATHS, query=QUERIES)
def test_of_very_many_only_what_fits_is_found(paths: list[str], query: str) -> None:
    """Where not all that fit are rated, whatever is found still fits."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fuzzy, "MOST_RATED", 2)
        found, _ = PathIndex(dict.fromkeys(paths)).best(query, 50)
    assert all(holds(path, query) or holds(path.lower(), query) for path in found)
    assert bool(found) == bool(PathIndex(dict.fromkeys(paths)).best(query, 1)[0])


def test_of_very_many_the_best_name_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A long path with the right name comes first, however many shorter ones hold the letters somewhere."""
    monkeypatch.setattr(fuzzy, "MOST_RATED", 10)
    index = PathIndex(["deep/" * 9 + "core.py", *(f"c{number}/ore" for number in range(100))])
    found, more = index.best("core", 3)
    assert ("deep/" * 9 + "core.py", True) == (found[0], more)
