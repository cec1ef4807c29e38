"""Rate limits: a token bucket per client, refilled at a steady rate."""

from collections import OrderedDict
from typing import Final

import attrs

_MOST: Final = 4_096


@attrs.define
class _TokenBucket:
    level: float
    updated_at: float


class RateLimits:
    """A bucket for each recent client; a forgotten client starts with a full bucket again.

    Args:
        per_s: How fast a bucket fills.
        at_once: How much it holds.
    """

    def __init__(self, *, per_s: float, at_once: float) -> None:
        self._per_s = per_s
        self._at_once = at_once
        self._buckets: OrderedDict[str, _TokenBucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def take(self, client: str, now: float) -> float:
        """Take one from a client's bucket; return 0, or the seconds until one is available."""
        bucket = self._buckets.get(client)
        if bucket is None:
            bucket = self._buckets[client] = _TokenBucket(self._at_once, now)
            if len(self._buckets) > _MOST:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(client)
        bucket.level = min(self._at_once, bucket.level + (now - bucket.updated_at) * self._per_s)
        bucket.updated_at = now
        if bucket.level >= 1:
            bucket.level -= 1
            return 0.0
        return (1 - bucket.level) / self._per_s
