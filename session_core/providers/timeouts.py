"""The timeouts of a provider, as one value that settings fill in and endpoints apply."""

import math
from typing import Final

import attrs

from session_core.errors import InvalidInput

LONGEST_TIMEOUT_S: Final = 24 * 3_600
"""An answer that takes longer than a day is of no use."""


def _check_seconds(_: object, field: "attrs.Attribute[float]", seconds: object) -> None:
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not math.isfinite(seconds):
        raise InvalidInput("A time must be a number of seconds.", field=field.name)
    if not 0 < seconds <= LONGEST_TIMEOUT_S:
        raise InvalidInput(
            f"A time must be more than 0 and at most {LONGEST_TIMEOUT_S} seconds (a day).", field=field.name
        )


@attrs.frozen(kw_only=True)
class ProviderTimeouts:
    """Seconds, each more than 0 and at most a day.

    Attributes:
        connect_s: For reaching the host.
        read_s: Between two pieces of the answer.
        progress_s: Between two events with content; also for the response headers.
        total_s: For the whole answer.
    """

    connect_s: float = attrs.field(default=15.0, validator=_check_seconds)
    read_s: float = attrs.field(default=120.0, validator=_check_seconds)
    progress_s: float = attrs.field(default=600.0, validator=_check_seconds)
    total_s: float = attrs.field(default=3_600.0, validator=_check_seconds)
