"""The lines of keys: right where they are known, and never a key that is not there."""

import tomllib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from session_core.config.toml_key_lines import KeyPath, find_key_lines, find_line
from tests.session_core.config._documents import documents, to_toml

TEXT = (
    '''# a comment with = and [brackets]
top = """
not = a key
""""" # two quotes before the three
dotted . "quoted key".'x' = [ # comment ]
  "a ] b", # here too
  {inner = 1},
]
literal = \'\'\'
[nor a table]
\'\'\'

[ table . sub ]
key = 'it''s'
'''.replace("'it''s'", "'its'")
    + """
[[many]]
name = 1
[many.child]
deep = 1
[[many]]
name = 2
[[many.child2]]
a = 1
"escaped \\" \\u0041" = 1
"""
)


def test_lines() -> None:
    """Strings, comments, brackets over several lines and repeated tables do not confuse the count."""
    lines = find_key_lines(TEXT)

    assert {
        ("top",): 2,
        ("dotted",): 5,
        ("dotted", "quoted key"): 5,
        ("dotted", "quoted key", "x"): 5,
        ("literal",): 9,
        ("table",): 13,
        ("table", "sub"): 13,
        ("table", "sub", "key"): 14,
        ("many",): 16,
        ("many", 0): 16,
        ("many", 0, "name"): 17,
        ("many", 0, "child"): 18,
        ("many", 0, "child", "deep"): 19,
        ("many", 1): 20,
        ("many", 1, "name"): 21,
        ("many", 1, "child2"): 22,
        ("many", 1, "child2", 0): 22,
        ("many", 1, "child2", 0, "a"): 23,
        ("many", 1, "child2", 0, 'escaped " A'): 24,
    } == lines


def test_what_is_inside_counts_with_what_is_around_it() -> None:
    """A key that has no line of its own has that of the innermost thing around it, and an unknown one has none."""
    lines = find_key_lines("\nlist = [{a = 1}]")

    assert (2, 2, None) == (
        find_line(lines, ("list", 0, "a")),
        find_line(lines, ("list",)),
        find_line(lines, ("other",)),
    )


def reached(document: Any, path: KeyPath) -> bool:
    for part in path:
        try:
            document = document[part]
        except (KeyError, IndexError, TypeError):
            return False
    return True


@given(text=st.text(alphabet="[]={}\"'\\\n.# ab1,", max_size=80) | documents.map(to_toml))
def test_any_text(text: str) -> None:
    """In any text that is TOML, every key that has a line is there, and every key of the outermost table has one."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return
    lines = find_key_lines(text)

    assert all(reached(document, path) for path in lines)
    assert set(document) == {path[0] for path in lines}
    assert all(1 <= line <= text.count("\n") + 1 for line in lines.values())
