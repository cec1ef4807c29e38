"""Telling faults of foreign code (tools, providers, compactors) from what must always pass through."""

import trio

FOREIGN_FAULTS = (BaseException,)
"""What foreign code may raise without taking the service with it; look at `must_propagate` before handling one."""


def must_propagate(error: BaseException) -> bool:
    """Tell whether an error is, or holds, a cancellation or Ctrl-C: those belong to somebody further out."""
    always = (trio.Cancelled, KeyboardInterrupt)
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(always) is not None
    return isinstance(error, always)
