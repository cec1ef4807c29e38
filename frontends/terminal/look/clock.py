"""The time as the service gives it: whole milliseconds."""

from time import time_ns


def now_ms() -> int:
    """Return the time."""
    return time_ns() // 1_000_000
