"""Errors of a block that reach its author as they were raised."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
import trio

from session_core.error_capture import ErrorCapture


@asynccontextmanager
async def _opened(*, failing: bool = False) -> AsyncGenerator[None]:
    """A block with a task around it that ends with the block, or fails by itself."""
    own = ErrorCapture()
    with own.reraise():
        async with trio.open_nursery() as nursery:
            if failing:
                nursery.start_soon(_fail)
            try:
                with own.capture():
                    yield
            finally:
                nursery.cancel_scope.cancel()


async def _fail() -> None:
    raise OSError("in the background")


async def test_an_error_of_the_block_comes_as_it_was_raised() -> None:
    """Whoever raises in the block catches the very same error outside of it, without a group around it."""
    error = ValueError("mine")
    with pytest.raises(ValueError, match="mine") as caught:
        async with _opened():
            raise error
    assert error is caught.value


async def test_a_group_of_the_block_comes_as_it_was_raised() -> None:
    """A block that raises a group itself, as one with a nursery does, gets no further groups around it."""
    group = ExceptionGroup("mine", [ValueError("a"), KeyError("b")])
    with pytest.RaisesGroup(ValueError, KeyError) as caught:
        async with _opened(), _opened():
            raise group
    assert group is caught.value


async def test_a_failure_in_the_background_stays_a_group() -> None:
    """What fails around a block in peace comes as a group, as with any nursery."""
    with pytest.RaisesGroup(OSError):
        async with _opened(failing=True):
            await trio.lowlevel.checkpoint()


async def _fail_too() -> None:
    async with _opened(failing=True):
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("mine")


async def test_nothing_of_two_errors_is_lost() -> None:
    """When the block and the background fail together, both are told."""
    with pytest.RaisesGroup(OSError, ValueError):
        await _fail_too()
