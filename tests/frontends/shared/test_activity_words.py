"""What a session does, in words."""

from collections.abc import Callable
from typing import get_args

import session_core as sc
from frontends.shared.activity_words import WORDS, describe_activity, paint_activity
from frontends.shared.style import Style
from frontends.terminal.look.activity_glyphs import GLYPHS


def test_every_activity_has_words_and_a_glyph() -> None:
    """No activity lacks words or a glyph, and no two look the same."""
    names = set(get_args(sc.ActivityName))

    assert names == WORDS.keys() == GLYPHS.keys()
    assert len(names) == len(set(WORDS.values()))


def test_the_remaining_time_is_told() -> None:
    """A session that waits for its rate limit says for how long, where that is known."""
    limited = sc.Activity(name="rate_limited", retry_at=5_000)

    assert "rate limited, tries again in 2.0 s" == describe_activity(limited, 3_000)
    assert "rate limited, tries again in 0.0 ms" == describe_activity(limited, 9_000)
    assert "rate limited" == describe_activity(sc.Activity(name="rate_limited"), 3_000)


def test_colours_tell_whether_to_look() -> None:
    """Work, rest, what should be noticed and failures differ in colour."""
    style = Style(colours=True)
    colours: dict[sc.ActivityName, Callable[[str], str]] = {
        "streaming": style.green,
        "idle": style.dim,
        "stopping": style.yellow,
        "interrupted": style.red,
    }

    assert {name: paint_activity(style, sc.Activity(name=name), "x") for name in colours} == {
        name: colour("x") for name, colour in colours.items()
    }
