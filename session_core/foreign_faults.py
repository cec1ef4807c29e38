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


def flatten_group(error: BaseException) -> list[BaseException]:
    """Return the exceptions in a group, however deeply nested; any other error is returned by itself."""
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for each in error.exceptions for leaf in flatten_group(each)]
