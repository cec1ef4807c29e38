"""What people type after a command reaches the program under the keys that it reads."""

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from session_core.sep.host.calls.commands import as_arguments

ECHO = "Say something: /echo <phrase>"
MOVE = "Move a file: /move <source> [target] [--force]"
PLAN = "Plan first (state: on|off)"


def customary(text: str, **more: str) -> dict[str, Any]:
    return {"phrase": text, "state": text, **more}


@pytest.mark.parametrize(
    ("description", "typed", "named"),
    [
        ("", "", {}),
        ("", "  ", {}),
        ("Switch it", "off", customary("off")),
        ("Switch it", ' "hi there" ', customary("hi there")),
        ("Switch it", " hi  there ", customary("hi  there")),
        ("Switch it", "it's me", customary("it's me")),
        ("Switch it", "state=off", {"phrase": "state=off", "state": "off"}),
        ("Switch it", 'now a-b="x y" 1=2 c=', customary('now a-b="x y" 1=2 c=', **{"a-b": "x y", "c": ""})),
        (ECHO, "", {}),
        (ECHO, "hi", {"phrase": "hi"}),
        (ECHO, "hi there\n x=1", {"phrase": "hi there\n x=1"}),
        (ECHO, "phrase='hi there'", {"phrase": "hi there"}),
        (MOVE, "a", {"source": "a"}),
        (MOVE, "a b", {"source": "a", "target": "b"}),
        (MOVE, "'a b' c d", {"source": "a b", "target": "c d"}),
        (MOVE, "b source=a", {"source": "a", "target": "b"}),
        (MOVE, "source=a target=b c", {"source": "a", "target": "b"}),
        (PLAN, "off", {"state": "off"}),
        ("Plan: [state=on|off]", "off", {"state": "off"}),
        ("Plan: [<state...>]", "off", {"state": "off"}),
        ("See [the page](address), on|off or <on|off>", "off", customary("off")),
    ],
)
def test_keys(description: str, typed: str, named: dict[str, Any]) -> None:
    """Parameters in the description get the words in order; without any, the text gets the customary keys."""
    found = as_arguments(typed, description)
    assert (typed, named) == (found.pop("text"), {key: found[key] for key in found if key != "args"})


@pytest.mark.parametrize("typed", ['{"state": "off"}', ' {"text": 1}', "{}"])
def test_an_object(typed: str) -> None:
    """A JSON object is sent as it was typed, whatever the description says."""
    assert as_arguments(typed) == as_arguments(typed, MOVE)
    assert "args" not in as_arguments(typed)


@given(st.text(), st.sampled_from(["", ECHO, MOVE, PLAN, "/say <args> <text>"]))
def test_nothing_is_lost(typed: str, description: str) -> None:
    """Whatever is typed, it is there as it was typed, and every other value is text or a list of words."""
    assume(not typed.lstrip().startswith("{"))
    found = as_arguments(typed, description)
    words = found.pop("args")
    assert typed == found["text"]
    assert all(isinstance(value, str) for value in (*words, *found.values()))
