"""Long work shows that it goes on; short work and pipes show nothing."""

import sys
from threading import Event

import pytest

from frontends.shared.progress import ERASE_LINE, ProgressLine


def test_long_work_is_shown_and_wiped_away() -> None:
    """Once patience is over, what is being done is on the line, made harmless, and in the end the line is empty."""
    written: list[str] = []
    shown = Event()

    def write(text: str) -> None:
        written.append(text)
        shown.set()

    progress = ProgressLine(write, patience_s=0)
    progress("copying \x1b[31m")
    with progress:
        assert shown.wait(60)

    assert f"{ERASE_LINE}copying (0 seconds)" == written[0]
    assert ERASE_LINE == written[-1]


def test_quick_work_shows_nothing() -> None:
    """Work that ends before patience is over leaves no trace."""
    written: list[str] = []
    with ProgressLine(written.append, patience_s=600) as progress:
        progress("copying")

    assert [] == written


def test_a_terminal_that_goes_away_harms_nothing() -> None:
    """The work goes on when its progress cannot be shown any more."""
    tried = Event()

    def write(_: str) -> None:
        tried.set()
        raise OSError(5, "gone")

    with ProgressLine(write, patience_s=0):
        assert tried.wait(60)


@pytest.mark.parametrize("closed", [False, True])
def test_nothing_is_shown_where_nobody_looks(monkeypatch: pytest.MonkeyPatch, closed: bool) -> None:  # noqa: FBT001
    """Without a terminal on stderr there is no thread and no text."""
    if closed:
        monkeypatch.setattr(sys, "stderr", None)

    with ProgressLine.on_stderr() as progress:
        progress("copying")

    assert progress._thread is None
