"""The error of a block, handed on as it was raised, although a nursery of ours runs around it.

own = ErrorCapture()
with own.unwrapped():
    async with trio.open_nursery() as nursery:
        ...
        with own.noted():
            yield something
"""

from collections.abc import Generator
from contextlib import contextmanager


class ErrorCapture:
    """What was raised in the block of whoever uses a context manager of ours, if anything was."""

    def __init__(self) -> None:
        self.error: BaseException | None = None

    @contextmanager
    def capture(self) -> Generator[None]:
        """Take note of what is raised within; it passes on."""
        try:
            yield
        except BaseException as error:
            self.error = error
            raise

    @contextmanager
    def reraise(self) -> Generator[None]:
        """Raise what was noted as it was; a group that holds more, or something else, passes on as a group."""
        try:
            yield
        except BaseExceptionGroup as group:
            if self.error is None or group.exceptions != (self.error,):
                raise
        if self.error is not None:
            raise self.error
