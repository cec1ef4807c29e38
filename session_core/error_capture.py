"""Re-raise the error of a caller's block unwrapped, although one of our nurseries runs around the block.

own = ErrorCapture()
with own.reraise():
    async with trio.open_nursery() as nursery:
        ...
        with own.capture():
            yield something
"""

from collections.abc import Generator
from contextlib import contextmanager

from session_core.foreign_faults import flatten_group


class ErrorCapture:
    """The error raised in the block of a caller of one of our context managers, if any."""

    def __init__(self) -> None:
        self.error: BaseException | None = None

    @contextmanager
    def capture(self) -> Generator[None]:
        """Note an error raised inside and let it propagate."""
        try:
            yield
        except BaseException as error:
            self.error = error
            raise

    @contextmanager
    def reraise(self) -> Generator[None]:
        """Raise the captured error unwrapped; a group with more or other errors propagates as a group."""
        try:
            yield
        except BaseExceptionGroup as group:
            # A nursery copies a group that was raised inside, so only what is in it can be compared.
            if self.error is None or flatten_group(group) != flatten_group(self.error):
                raise
        if self.error is not None:
            raise self.error
