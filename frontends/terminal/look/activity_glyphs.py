"""A session's activity as a glyph and a colour, and its words where there is little room. Pure."""

from __future__ import annotations

from typing import Final

import session_core as sc
from frontends.shared.activity_words import Tone, describe_activity, tone_of
from frontends.shared.figures import duration

GLYPHS: Final[dict[sc.ActivityName, str]] = {
    "idle": "○",
    "starting": "◐",
    "waiting_for_model": "◐",
    "streaming": "●",
    "running_tools": "▶",
    "awaiting_permission": "?",
    "rate_limited": "◷",
    "compacting": "◐",
    "stopping": "◼",
    "stopped": "◼",
    "errored": "✗",
    "interrupted": "!",
}
_COLOURS: Final[dict[Tone, str]] = {"rest": "text-muted", "work": "success", "notice": "warning", "failure": "error"}
"""The theme's colour of each tone."""


def colour_of(activity: sc.Activity) -> str:
    """Return the name of the theme's colour."""
    return _COLOURS[tone_of(activity)]


def describe_activity_briefly(activity: sc.Activity, now_ms: int) -> str:
    """Return a shorter form for little room: the time must not be cut off."""
    if activity.name == "rate_limited" and activity.retry_at is not None:
        return f"limited, {duration(max(0, activity.retry_at - now_ms))}"
    return describe_activity(activity, now_ms)
