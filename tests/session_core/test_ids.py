"""Ids sort by age, never repeat and cannot be guessed."""

import re

import pytest

from session_core import ids
from session_core.ids import new_epoch, new_id, new_session_id, now_ms


def test_ids_sort_in_the_order_they_were_made() -> None:
    """Ten thousand ids made in a row are all different and already in order."""
    made = [new_id("msg") for _ in range(10_000)]
    assert sorted(set(made)) == made


def test_ids_stay_in_order_when_the_clock_is_set_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """Setting the wall clock back does not make new ids sort before old ones."""
    before = new_id("msg")
    monkeypatch.setattr(ids, "now_ms", lambda: 0)
    assert before < new_id("msg")


@pytest.mark.parametrize(
    ("made", "kind"),
    [(new_session_id(), "ses"), (new_epoch(), "run"), (new_id("x"), "x")],
    ids=["session", "epoch", "any"],
)
def test_the_shape_of_an_id(made: str, kind: str) -> None:
    """An id is its kind and 26 characters that cannot be mistaken for each other."""
    assert re.fullmatch(kind + "_[0-9a-hjkmnp-tv-z]{26}", made)


def test_the_random_part_differs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two processes that make an id in the same millisecond make different ones."""
    moment = now_ms() + 10_000
    made = []
    for _ in range(2):
        monkeypatch.setattr(ids._IdClock, "last", 0)
        monkeypatch.setattr(ids, "now_ms", lambda: moment)
        made.append(new_id("ses"))
    assert made[0][:14] == made[1][:14]
    assert made[0][14:] != made[1][14:]
