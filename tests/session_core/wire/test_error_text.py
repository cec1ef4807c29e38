"""Tests of session_core.wire.error_text."""

from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core.vocabulary.frozen import JsonObject
from session_core.wire.error_text import child_path, describe_json, mismatch, quote_text


@pytest.mark.parametrize(
    ("step", "path"),
    [
        (0, "$[0]"),
        ("text", "$.text"),
        ("two words", '$["two words"]'),
        ("", '$[""]'),
        ("é", '$["\\u00e9"]'),
        ("x" * 61, '$["' + "x" * 59 + '\\u2026"]'),
    ],
)
def test_a_path_grows_by_one_step(step: str | int, path: str) -> None:
    """A step is an index, a plain name, or a quoted key when it could not be read otherwise."""
    assert path == child_path("$", step)


@given(st.text(st.characters()) | st.integers())
def test_what_is_said_can_always_be_sent(step: str | int) -> None:
    """Quotes and paths are short plain ASCII, whatever foreign text they name."""
    path = child_path("$", step)

    assert path.isascii()
    assert len(path) < 800
    assert quote_text(str(step)).isascii()


@pytest.mark.parametrize(
    ("plain", "words"),
    [
        (None, "nothing"),
        (True, "true"),
        (False, "false"),
        ("x", "text"),
        (1, "a number"),
        (1.5, "a decimal number"),
        ([], "a list"),
        ((), "a list"),
        ({}, "an object"),
        (JsonObject(), "an object"),
        (MappingProxyType({}), "an object"),
        (b"", "a Python bytes"),
    ],
)
def test_every_kind_of_value_has_a_name(plain: Any, words: str) -> None:
    """Every JSON value is named in plain English, and anything else by its Python type."""
    assert words == describe_json(plain)
    assert f"expected text, got {words}" == mismatch("text", plain)
