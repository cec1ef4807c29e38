"""Distinguish faults of foreign code (tools, providers, compactors) from exceptions that must always propagate."""

import trio

FOREIGN_FAULTS = (BaseException,)
"""What foreign code may raise without bringing down the service; check `must_propagate` before handling one."""


def must_propagate(error: BaseException) -> bool:
    """Return whether an error is or contains a cancellation or Ctrl-C, which an outer scope must handle."""
    always = (trio.Cancelled, KeyboardInterrupt)
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(always) is not None
    return isinstance(error, always)
