"""Limits how much an extension may show, post, append and send to the bus: so many in a burst, then so many per second.

Anything beyond that is answered with an error that says so, or dropped where nobody waits for an answer; the
extension's log counts how often that happened.
"""

import math
from collections.abc import Callable
from typing import Final

import attrs
import trio

from session_core import limits
from session_core.rpc.failures import RpcFailed
from session_core.sep.protocol.names import INTERNAL_ERROR

_TELL_EVERY_S: Final = 1.0


@attrs.define(eq=False)
class _PublishBucket:
    tokens: float
    since: float
    refused: int = 0
    flooding: bool = False
    reported_at: float = -math.inf


class PublishingLimits:
    """The remaining budget of each extension.

    Args:
        remark: Writes a sentence to the log of an extension.
        refused: What the log calls anything beyond the limit.
        on_flood: Told of an extension that exceeds the limit, once until it has been quiet for long enough.
        rate: How much is regained per second.
        burst: The most that can be available.
        now: Returns the time in seconds.
    """

    def __init__(
        self,
        remark: Callable[[str, str], None],
        *,
        refused: str = "requests that were refused",
        on_flood: Callable[[str, str], None] = lambda _extension, _limit: None,
        rate: float = limits.EXTENSION_PUBLISHES_PER_S,
        burst: int = limits.EXTENSION_PUBLISHES_AT_ONCE,
        now: Callable[[], float] = trio.current_time,
    ) -> None:
        self._remark = remark
        self._refused = refused
        self._on_flood = on_flood
        self._rate = rate
        self._burst = burst
        self._now = now
        self._buckets: dict[str, _PublishBucket] = {}

    def spend(self, extension: str, method: str) -> None:
        """Count one publication of an extension.

        Raises:
            RpcFailed: It has published too much; the message names the limit, and `data` says when to try again.
        """
        if not self.admit(extension):
            wait_ms = math.ceil((1 - self._buckets[extension].tokens) / self._rate * 1000)
            msg = f"{method} was refused: {self._limit()}; try again in {wait_ms} ms"
            raise RpcFailed(INTERNAL_ERROR, msg, {"code": "rate_limited", "retry_after_ms": wait_ms})

    def admit(self, extension: str) -> bool:
        """Count one publication of an extension; return whether it is within the limit."""
        now = self._now()
        bucket = self._buckets.setdefault(extension, _PublishBucket(self._burst, now))
        bucket.tokens = min(self._burst, bucket.tokens + (now - bucket.since) * self._rate)
        bucket.since = now
        if admitted := bucket.tokens >= 1:
            bucket.flooding = bucket.flooding and bucket.tokens < self._burst
            bucket.tokens -= 1
        else:
            bucket.refused += 1
            if not bucket.flooding:
                bucket.flooding = True
                self._on_flood(extension, self._limit())
        self._report_refusals(extension, bucket, now)
        return admitted

    def _report_refusals(self, extension: str, bucket: _PublishBucket, now: float) -> None:
        if bucket.refused and now >= bucket.reported_at + _TELL_EVERY_S:
            self._remark(extension, f"{self._refused}: {bucket.refused:,}; {self._limit()}")
            bucket.refused, bucket.reported_at = 0, now

    def _limit(self) -> str:
        return f"an extension may publish {self._rate:g} times a second, and {self._burst:,} times in a burst"
