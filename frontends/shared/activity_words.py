"""What a session does, in words, and whether that calls for attention: one table for all frontends. Pure functions."""

from collections.abc import Mapping
from typing import Final, Literal

import session_core as sc
from frontends.shared.figures import duration
from frontends.shared.style import Style

Tone = Literal["rest", "work", "notice", "failure"]

WORDS: Final[Mapping[sc.ActivityName, str]] = {
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
_TONES: Final[Mapping[sc.ActivityName, Tone]] = {
    "idle": "rest",
    "awaiting_permission": "notice",
    "rate_limited": "notice",
    "stopping": "notice",
    "stopped": "notice",
    "errored": "failure",
    "interrupted": "failure",
}
"""All others are work."""


def tone_of(activity: sc.Activity) -> Tone:
    """Return whether it rests, works, should be noticed, or has failed."""
    return _TONES.get(activity.name, "work")


def describe_activity(activity: sc.Activity, now_ms: int) -> str:
    """Return a few words, with the remaining time where it is known."""
    word = WORDS[activity.name]
    if activity.name == "rate_limited" and activity.retry_at is not None:
        return f"{word}, tries again in {duration(max(0, activity.retry_at - now_ms))}"
    return word


def state_word(summary: sc.SessionSummary) -> str:
    """Return the words for a session in a list, where those out of use are marked."""
    return "archived" if summary.archived else WORDS[summary.activity.name]


def paint_activity(style: Style, activity: sc.Activity, text: str) -> str:
    """Colour a text about an activity by its tone."""
    match tone_of(activity):
        case "rest":
            return style.dim(text)
        case "work":
            return style.green(text)
        case "notice":
            return style.yellow(text)
        case "failure":
            return style.red(text)
