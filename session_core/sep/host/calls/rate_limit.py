"""Limits how much an extension may show, post and append: so many in a burst, then so many per second.

Anything beyond that is answered with an error that says so; the extension's log counts how often that happened.
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
    reported_at: float = -math.inf


class PublishingLimits:
    """The remaining budget of each extension.

    Args:
        remark: Writes a sentence to the log of an extension.
        rate: How much is regained per second.
        burst: The most that can be available.
        now: Returns the time in seconds.
    """

    def __init__(
        self,
        remark: Callable[[str, str], None],
        *,
        rate: float = limits.EXTENSION_PUBLISHES_PER_S,
        burst: int = limits.EXTENSION_PUBLISHES_AT_ONCE,
        now: Callable[[], float] = trio.current_time,
    ) -> None:
        self._remark = remark
        self._rate = rate
        self._burst = burst
        self._now = now
        self._buckets: dict[str, _PublishBucket] = {}

    def spend(self, extension: str, method: str) -> None:
        """Count one publication of an extension.

        Raises:
            RpcFailed: It has published too much; the message names the limit, and `data` says when to try again.
        """
        now = self._now()
        bucket = self._buckets.setdefault(extension, _PublishBucket(self._burst, now))
        bucket.tokens = min(self._burst, bucket.tokens + (now - bucket.since) * self._rate)
        bucket.since = now
        if bucket.tokens >= 1:
            bucket.tokens -= 1
            self._report_refusals(extension, bucket, now)
            return
        bucket.refused += 1
        self._report_refusals(extension, bucket, now)
        wait_ms = math.ceil((1 - bucket.tokens) / self._rate * 1000)
        msg = f"{method} was refused: {self._limit()}; try again in {wait_ms} ms"
        raise RpcFailed(INTERNAL_ERROR, msg, {"code": "rate_limited", "retry_after_ms": wait_ms})

    def _report_refusals(self, extension: str, bucket: _PublishBucket, now: float) -> None:
        if bucket.refused and now >= bucket.reported_at + _TELL_EVERY_S:
            self._remark(extension, f"requests that were refused: {bucket.refused:,}; {self._limit()}")
            bucket.refused, bucket.reported_at = 0, now

    def _limit(self) -> str:
        return f"an extension may publish {self._rate:g} times a second, and {self._burst:,} times in a burst"
