"""Secrets do not show themselves, and texts are freed of them."""

import copy
import pickle

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core.providers.secrets import Secret, redact

KEY = "sk-ant-api03-abcDEF_123-456"


@attrs.frozen
class _Holder:
    secret: Secret


def test_a_secret_shows_itself_to_those_who_ask_only() -> None:
    """No way to print, format, copy into a dictionary or save a secret tells it."""
    secret = Secret(KEY)
    shown = [repr(secret), str(secret), f"{secret}", f"{secret!r:>40}", "%s" % secret, repr(_Holder(secret))]  # noqa: UP031
    assert KEY == secret.reveal()
    assert not any("abcDEF" in each for each in [*shown, repr(attrs.asdict(_Holder(secret)))])
    with pytest.raises(TypeError):
        pickle.dumps(secret)


def test_secrets_compare_by_what_they_hide() -> None:
    """Equal secrets are equal, copies too, and an empty one is false."""
    assert Secret(KEY) == Secret(KEY) == copy.deepcopy(Secret(KEY)) == copy.copy(Secret(KEY))
    assert hash(Secret(KEY)) == hash(Secret(KEY))
    assert Secret(KEY) != Secret("other")
    assert Secret(KEY) != KEY
    assert not Secret("")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nothing here", "nothing here"),
        (f"key {KEY} is wrong", "key *** is wrong"),
        ("Incorrect API key provided: sk-proj-abc***xyz.", "Incorrect API key provided: ***"),
        ("Authorization: Bearer abcdef123456", "Authorization: Bearer ***"),
        ("authorization: abcdef123456", "authorization: ***"),
        ('{"x-api-key": "abcdef123456"}', '{"x-api-key": "***"}'),
        ("https://host/path?api_key=abcdef123456&x=1", "https://host/path?api_key=***&x=1"),
        ("token ghp_0123456789abcdefghij", "token ***"),
        ("jwt eyJhbGciOiJI.eyJzdWIiOiIx.c2ln", "jwt ***"),
        ("the api key is missing", "the api key is missing"),
        ("Bearer of news", "Bearer of news"),
        ("ask-me-anything is a risk-free-offer", "ask-me-anything is a risk-free-offer"),
    ],
)
def test_what_looks_like_a_key_is_masked(text: str, expected: str) -> None:
    """Whatever is shaped like a key is masked although nobody named it, and plain words stay."""
    assert expected == redact(text)


@given(
    key=st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=6, max_size=40),
    around=st.text(max_size=20),
)
def test_a_known_secret_is_masked_whatever_it_looks_like(key: str, around: str) -> None:
    """A secret that was named does not survive, whatever stands around it."""
    masked = redact(f"{around} {key} {around}", [Secret(key)])
    assert key not in masked or key in f"{around} *** {around}"


def test_a_secret_in_an_address_is_masked() -> None:
    """A secret is recognised in the form it has in an address."""
    assert "k=***" == redact("k=a%2Fb%20c%2Bd", [Secret("a/b c+d")])
