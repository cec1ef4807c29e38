"""A session's activity as a glyph and a word, for every place that shows it. Pure."""

from __future__ import annotations

from typing import Final

import session_core as sc
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
WORDS: Final[dict[sc.ActivityName, str]] = {
    "idle": "idle",
    "starting": "starting",
    "waiting_for_model": "waiting for the model",
    "streaming": "answering",
    "running_tools": "running tools",
    "awaiting_permission": "asks you",
    "rate_limited": "rate limited",
    "compacting": "compacting",
    "stopping": "stopping",
    "stopped": "stopped",
    "errored": "failed",
    "interrupted": "interrupted",
}
COLOURS: Final[dict[sc.ActivityName, str]] = {
    "awaiting_permission": "warning",
    "rate_limited": "warning",
    "stopping": "warning",
    "stopped": "warning",
    "errored": "error",
    "interrupted": "error",
    "idle": "text-muted",
}
"""The theme colour of each activity; working sessions have the colour of success."""


def colour_of(activity: sc.Activity) -> str:
    """Return the name of the theme's colour."""
    return COLOURS.get(activity.name, "success")


def glyph_of(activity: sc.Activity) -> str:
    """Return one character."""
    return GLYPHS.get(activity.name, "·")


def describe_activity(activity: sc.Activity, now_ms: int) -> str:
    """Return a few words, with the remaining time where it is known."""
    word = WORDS.get(activity.name, activity.name)
    if activity.name == "rate_limited" and activity.retry_at is not None:
        return f"{word}, tries again in {duration(max(0, activity.retry_at - now_ms))}"
    return word


def describe_activity_briefly(activity: sc.Activity, now_ms: int) -> str:
    """Return a shorter form for little room: the time must not be cut off."""
    if activity.name == "rate_limited" and activity.retry_at is not None:
        return f"limited, {duration(max(0, activity.retry_at - now_ms))}"
    return describe_activity(activity, now_ms)
