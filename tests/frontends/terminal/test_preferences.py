"""What the terminal remembers."""

import stat
from pathlib import Path

import pytest

from frontends.terminal.preferences import FILE, TerminalPreferences, load_preferences, save_preferences

KEPT = TerminalPreferences(theme="high-contrast", sidebar=False)


def test_it_comes_back_and_is_private(tmp_path: Path) -> None:
    """What is saved is loaded again; nobody else may read it, and nothing but its lock is left in the home."""
    save_preferences(tmp_path, TerminalPreferences())
    save_preferences(tmp_path, KEPT)
    assert load_preferences(tmp_path) == KEPT
    assert {each.name for each in tmp_path.iterdir()} == {FILE, "terminal.lock"}
    assert stat.S_IMODE((tmp_path / FILE).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe",
        b"[1]",
        b"null",
        b"{",
        b"[" * 60_000,
        b'{"theme": "' + b"x" * 100_000,
        b'{"theme": 7, "sidebar": 1}',
    ],
)
def test_what_cannot_be_read_counts_as_empty(tmp_path: Path, content: bytes) -> None:
    """A file that is damaged, foreign or too long is as good as none."""
    (tmp_path / FILE).write_bytes(content)
    assert load_preferences(tmp_path) == TerminalPreferences()


def test_one_bad_value_does_not_spoil_the_other(tmp_path: Path) -> None:
    """What is right in a file is used, whatever else it holds."""
    (tmp_path / FILE).write_text('{"theme": ["x"], "sidebar": true, "more": 1}')
    assert load_preferences(tmp_path) == TerminalPreferences(sidebar=True)


def test_a_home_that_cannot_be_written(tmp_path: Path) -> None:
    """Where nothing can be kept, nothing is, and nobody is troubled."""
    save_preferences(tmp_path / "nowhere", KEPT)
    assert load_preferences(tmp_path / "nowhere") == TerminalPreferences()
