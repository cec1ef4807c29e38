"""Words for what a session does."""

from collections.abc import Mapping

import session_core as sc

ACTIVITY_WORDS: Mapping[str, str] = {
    "waiting_for_model": "waiting",
    "running_tools": "running tools",
    "awaiting_permission": "asks you",
    "rate_limited": "rate limited",
    "errored": "failed",
}
"""Activities with shorter names, to fit into a column."""


def state_word(summary: sc.SessionSummary) -> str:
    """Describe in a word or two what a session does."""
    if summary.archived:
        return "archived"
    return ACTIVITY_WORDS.get(summary.activity.name, summary.activity.name)
