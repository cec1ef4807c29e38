"""What marks mean, what may be meant by half a word, and which suggestion fits best."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontends.terminal.completion import (
    Entered,
    Question,
    Suggestion,
    as_message,
    fitting,
    mentioned,
    question_at,
    read_entered,
    score,
    taken,
)


@pytest.mark.parametrize(
    ("text", "entered"),
    [
        ("hello /there", Entered(kind="message", text="hello /there")),
        ("!ls  -l ", Entered(kind="shell", text="ls  -l")),
        ("!!important", Entered(kind="message", text="!important")),
        ("!", Entered(kind="message", text="!")),
        ("/help", Entered(kind="command", text="help")),
        ("/model  a b\nc ", Entered(kind="command", text="model", arguments="a b\nc")),
        ("/ext.name x", Entered(kind="command", text="ext.name", arguments="x")),
        ("//help me", Entered(kind="message", text="/help me")),
        ("///help me", Entered(kind="message", text="//help me")),
        ("//usr/share", Entered(kind="message", text="//usr/share")),
        ("/usr/bin is full", Entered(kind="message", text="/usr/bin is full")),
        ("/ is a slash", Entered(kind="message", text="/ is a slash")),
    ],
)
def test_what_was_entered(text: str, entered: Entered) -> None:
    """A mark makes a command or a shell line, a doubled one a message, and a path is a message."""
    assert entered == read_entered(text)


@given(st.text(st.sampled_from("!/ab \n")))
def test_any_message_can_be_typed(text: str) -> None:
    """Whatever a message begins with, it can be typed so that it is sent as it is."""
    assert Entered(kind="message", text=text) == read_entered(as_message(text))


@pytest.mark.parametrize(
    ("before", "row", "question"),
    [
        ("/", 0, Question(mark="/", query="", column=0)),
        ("/model cl", 0, Question(mark="/", query="model cl", column=0)),
        ("/", 1, None),
        (" /", 0, None),
        ("//he", 0, None),
        ("@", 3, Question(mark="@", query="", column=0)),
        ("see @src/m", 0, Question(mark="@", query="src/m", column=4)),
        ("(@src", 0, Question(mark="@", query="src", column=1)),
        ('see @"my fi', 0, Question(mark="@", query="my fi", column=4)),
        ("/ask @src", 0, Question(mark="@", query="src", column=5)),
        ("me@example", 0, None),
        ("@done ", 0, None),
        ("!cat @x", 0, None),
        ("x" * 500 + " @y", 0, Question(mark="@", query="y", column=501)),
        ("@" + "y" * 500, 0, None),
        ("/" + "y" * 500, 0, None),
    ],
)
def test_what_could_be_completed(before: str, row: int, question: Question | None) -> None:
    """Commands at the very start, files after a mark at the start of a word, and nothing in shell lines."""
    assert question == question_at(before, row)


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
    assert text == taken(Question(mark="/" if mark == "/" else "@", query="", column=0), value)


@given(st.lists(st.text(st.sampled_from("ab /"), min_size=1).map(lambda name: name + ".c"), max_size=3))
def test_what_is_taken_is_mentioned(paths: list[str]) -> None:
    """Whatever file is taken from the suggestions, reading the text finds it again."""
    text = "".join(taken(Question(mark="@", query="", column=0), path) for path in paths)

    assert list(dict.fromkeys(paths)) == mentioned(text)


def test_mentions_in_a_sentence() -> None:
    """What ends a sentence does not belong to a path, and an address is no mention."""
    assert ["a.py", "b/c.txt", "d e.png"] == mentioned('Is @a.py, (see @b/c.txt) or @"d e.png"? Mail me@x.y. @a.py!')


def test_the_best_comes_first() -> None:
    """A beginning beats a word, a word beats a part, a part beats scattered letters; and all of them nothing."""
    texts = ["m-o-d-e-l", "my odd elm", "unmodel", "the model", "model x", "model", "mdl", "nothing"]

    assert ["model", "model x", "the model", "unmodel", "m-o-d-e-l", "my odd elm"] == [
        each.value for each in fitting("MODEL", [Suggestion(value=text) for text in texts])
    ]
    assert ["model"] == [each.value for each in fitting("model", [Suggestion(value=text) for text in texts], most=1)]
    assert (None, 0) == (score("x", "abc"), score("", "abc"))


def test_files_are_known_by_their_names() -> None:
    """A file is found by its last name before one whose folder is called so, and labels count too, but less."""
    files = [Suggestion(value="composer/other.py"), Suggestion(value="deep/in/composer.py"), Suggestion(value="x")]
    labelled = [Suggestion(value="a1", label="second thing"), Suggestion(value="second")]

    assert ["deep/in/composer.py", "composer/other.py"] == [each.value for each in fitting("composer", files)]
    assert ["second", "a1"] == [each.value for each in fitting("second", labelled)]


@given(st.text(max_size=8), st.text(max_size=20))
def test_scores_of_any_text(query: str, text: str) -> None:
    """Any query of letters that stand in a text in order fits it, and nothing makes scoring fail."""
    fit = score(query, text)

    assert fit is None or fit >= 0
    assert score(text[::2], text) is not None


def test_suggestions_are_one_harmless_line() -> None:
    """Names of files come from strangers."""
    assert "a<U+202E>b c" == Suggestion(value="a\u202eb\x1b[2J\nc").shown
