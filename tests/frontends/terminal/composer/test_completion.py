"""What marks mean, what may be meant by half a word, and which suggestion fits best."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontends.terminal.composer.completion import (
    CompletionQuery,
    ParsedInput,
    Suggestion,
    completed_text,
    escape_as_message,
    find_completion_query,
    find_mentions,
    parse_input,
    rank_suggestions,
    score,
)


@pytest.mark.parametrize(
    ("text", "entered"),
    [
        ("hello /there", ParsedInput(kind="message", text="hello /there")),
        ("!ls  -l ", ParsedInput(kind="shell", text="ls  -l")),
        ("!!important", ParsedInput(kind="message", text="!important")),
        ("!", ParsedInput(kind="message", text="!")),
        ("/help", ParsedInput(kind="command", text="help")),
        ("/model  a b\nc ", ParsedInput(kind="command", text="model", arguments="a b\nc")),
        ("/ext.name x", ParsedInput(kind="command", text="ext.name", arguments="x")),
        ("//help me", ParsedInput(kind="message", text="/help me")),
        ("///help me", ParsedInput(kind="message", text="//help me")),
        ("//usr/share", ParsedInput(kind="message", text="//usr/share")),
        ("/usr/bin is full", ParsedInput(kind="message", text="/usr/bin is full")),
        ("/ is a slash", ParsedInput(kind="message", text="/ is a slash")),
    ],
)
def test_what_was_entered(text: str, entered: ParsedInput) -> None:
    """A mark makes a command or a shell line, a doubled one a message, and a path is a message."""
    assert entered == parse_input(text)


@given(st.text(st.sampled_from("!/ab \n")))
def test_any_message_can_be_typed(text: str) -> None:
    """Whatever a message begins with, it can be typed so that it is sent as it is."""
    assert ParsedInput(kind="message", text=text) == parse_input(escape_as_message(text))


@pytest.mark.parametrize(
    ("before", "row", "question"),
    [
        ("/", 0, CompletionQuery(mark="/", query="", column=0)),
        ("/model cl", 0, CompletionQuery(mark="/", query="model cl", column=0)),
        ("/", 1, None),
        (" /", 0, None),
        ("//he", 0, None),
        ("@", 3, CompletionQuery(mark="@", query="", column=0)),
        ("see @src/m", 0, CompletionQuery(mark="@", query="src/m", column=4)),
        ("(@src", 0, CompletionQuery(mark="@", query="src", column=1)),
        ('see @"my fi', 0, CompletionQuery(mark="@", query="my fi", column=4)),
        ("/ask @src", 0, CompletionQuery(mark="@", query="src", column=5)),
        ("me@example", 0, None),
        ("@done ", 0, None),
        ("!cat @x", 0, None),
        ("x" * 500 + " @y", 0, CompletionQuery(mark="@", query="y", column=501)),
        ("@" + "y" * 500, 0, None),
        ("/" + "y" * 500, 0, None),
    ],
)
def test_what_could_be_completed(before: str, row: int, question: CompletionQuery | None) -> None:
    """Commands at the very start, files after a mark at the start of a word, and nothing in shell lines."""
    assert question == find_completion_query(before, row)


@pytest.mark.parametrize(
    ("mark", "value", "text"),
    [
        ("/", "model ", "/model "),
        ("@", "src/main.py", "@src/main.py "),
        ("@", "src/", "@src/"),
        ("@", "my file", '@"my file" '),
        ("@", "my files/", '@"my files/'),
    ],
)
def test_what_is_written_once_taken(mark: str, value: str, text: str) -> None:
    """A file is finished with a blank, a folder is gone on with, and names with blanks are quoted."""
    assert text == completed_text(CompletionQuery(mark="/" if mark == "/" else "@", query="", column=0), value)


@given(st.lists(st.text(st.sampled_from("ab /"), min_size=1).map(lambda name: name + ".c"), max_size=3))
def test_what_is_taken_is_mentioned(paths: list[str]) -> None:
    """Whatever file is taken from the suggestions, reading the text finds it again."""
    text = "".join(completed_text(CompletionQuery(mark="@", query="", column=0), path) for path in paths)

    assert list(dict.fromkeys(paths)) == find_mentions(text)


def test_mentions_in_a_sentence() -> None:
    """What ends a sentence does not belong to a path, and an address is no mention."""
    assert ["a.py", "b/c.txt", "d e.png"] == find_mentions(
        'Is @a.py, (see @b/c.txt) or @"d e.png"? Mail me@x.y. @a.py!'
    )


def test_the_best_comes_first() -> None:
    """A beginning beats a word, a word beats a part, a part beats scattered letters; and all of them nothing."""
    texts = ["m-o-d-e-l", "my odd elm", "unmodel", "the model", "model x", "model", "mdl", "nothing"]

    assert ["model", "model x", "the model", "unmodel", "m-o-d-e-l", "my odd elm"] == [
        each.value for each in rank_suggestions("MODEL", [Suggestion(value=text) for text in texts])
    ]
    assert ["model"] == [
        each.value for each in rank_suggestions("model", [Suggestion(value=text) for text in texts], most=1)
    ]
    assert (None, 0) == (score("x", "abc"), score("", "abc"))


def test_files_are_known_by_their_names() -> None:
    """A file is found by its last name before one whose folder is called so, and labels count too, but less."""
    files = [Suggestion(value="composer/other.py"), Suggestion(value="deep/in/composer.py"), Suggestion(value="x")]
    labelled = [Suggestion(value="a1", label="second thing"), Suggestion(value="second")]

    assert ["deep/in/composer.py", "composer/other.py"] == [each.value for each in rank_suggestions("composer", files)]
    assert ["second", "a1"] == [each.value for each in rank_suggestions("second", labelled)]


@given(st.text(max_size=8), st.text(max_size=20))
def test_scores_of_any_text(query: str, text: str) -> None:
    """Any query of letters that stand in a text in order fits it, and nothing makes scoring fail."""
    fit = score(query, text)

    assert fit is None or fit >= 0
    assert score(text[::2], text) is not None


def test_suggestions_are_one_harmless_line() -> None:
    """Names of files come from strangers."""
    assert "a<U+202E>b c" == Suggestion(value="a\u202eb\x1b[2J\nc").display_text
