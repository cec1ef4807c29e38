"""The pause before the next attempt: longer each time, and not the same for all clients."""

import random
from collections.abc import Callable
from typing import Final

FIRST_PAUSE_S: Final = 0.05
"""Before the first retry: a restarted server is back soon."""
LONGEST_PAUSE_S: Final = 5.0
"""People who repair a network should not have to wait long for us to notice."""


def pause_before(attempt: int, chance: Callable[[], float] = random.random) -> float:
    """Return the seconds before this attempt, counted from 1: twice as long each time, or up to half of that less."""
    longest = min(FIRST_PAUSE_S * 2.0 ** min(max(attempt, 1) - 1, 16), LONGEST_PAUSE_S)
    return longest * (1 - chance() / 2)
