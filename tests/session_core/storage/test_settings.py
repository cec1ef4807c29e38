"""The settings file of a home: defaults, what it may hold, and sentences about everything else."""

import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core.errors import InvalidInput
from session_core.storage.settings import MAX_SETTINGS_BYTES, HomeSettings, Retention, read_settings


def settings_of(home: Path, text: str | bytes) -> HomeSettings:
    content = text.encode() if isinstance(text, str) else text
    (home / "config.toml").write_bytes(content)
    return read_settings(home)


def test_without_a_file_everything_is_kept(tmp_path: Path) -> None:
    """A home without a settings file, or no home at all, has the defaults: keep everything for ever."""
    assert HomeSettings(retention=Retention()) == read_settings(tmp_path)
    assert HomeSettings() == read_settings(tmp_path / "missing")
    assert Retention().keeps_everything


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Retention()),
        ("# nothing yet\n[retention]\n", Retention()),
        ("[retention]\narchive_after_days = 30\n", Retention(archive_after_days=30)),
        ("\ufeff[retention]\r\ndelete_archived_after_days = 90\r\n", Retention(delete_archived_after_days=90)),
        (
            "retention = {archive_after_days = 1, delete_archived_after_days = 2}",
            Retention(archive_after_days=1, delete_archived_after_days=2),
        ),
    ],
)
def test_what_is_written_is_read(tmp_path: Path, text: str, expected: Retention) -> None:
    """Each key may be there or not, in any form that TOML has, also as an editor on Windows writes it."""
    assert expected == settings_of(tmp_path, text).retention


@pytest.mark.parametrize(
    ("text", "field", "said"),
    [
        ("retenton = 1", "retenton", "'retenton' is not a known setting; expected the table [retention]"),
        ("[Retention]", "Retention", "'Retention' is not a known setting"),
        ("retention = 30", "retention", "retention must be a table, [retention], not 30"),
        ("[[retention]]", "retention", "retention must be a table"),
        (
            "[retention]\narchive_after = 30",
            "retention.archive_after",
            "'archive_after' is not a known setting of [retention]; expected archive_after_days or delete_archived_",
        ),
        (
            "[retention]\narchive_after_days = 0",
            "retention.archive_after_days",
            "archive_after_days must be a whole number of days, at least 1, not 0",
        ),
        ("[retention]\narchive_after_days = -1", "retention.archive_after_days", "not -1"),
        ("[retention]\narchive_after_days = true", "retention.archive_after_days", "not True"),
        ("[retention]\narchive_after_days = 1.5", "retention.archive_after_days", "not 1.5"),
        ("[retention]\ndelete_archived_after_days = '9'", "retention.delete_archived_after_days", "not '9'"),
        ("[retention", None, "cannot be understood"),
        ("x = 1\nx = 2", None, "cannot be understood"),
        ("x = " + "[" * 20_000, None, "nested too deeply"),
        (b"\xff\xfe", None, "is not text in UTF-8 (at byte 0)"),
        ("#" * (MAX_SETTINGS_BYTES + 1), None, "is longer than"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, text: str | bytes, field: str | None, said: str) -> None:
    """A wrong file is refused with a sentence that names the file, the key and what was expected."""
    with pytest.raises(InvalidInput) as refused:
        settings_of(tmp_path, text)

    assert field == refused.value.field
    assert said in refused.value.message
    assert refused.value.message.startswith(str(tmp_path / "config.toml"))


def test_what_is_no_file_is_refused(tmp_path: Path) -> None:
    """A pipe, a directory or a link in a circle in the place of the file is refused at once, without waiting."""
    pipe, directory, circle = (tmp_path / kind / "config.toml" for kind in ("pipe", "directory", "circle"))
    for path in (pipe, directory, circle):
        path.parent.mkdir()
    os.mkfifo(pipe)
    directory.mkdir()
    circle.symlink_to(circle)

    for path in (pipe, directory, circle):
        with pytest.raises(InvalidInput) as refused:
            read_settings(path.parent)
        assert refused.value.message.startswith(str(path))


def test_a_file_at_the_limit_is_read(tmp_path: Path) -> None:
    """The longest file that is allowed is read to its end."""
    text = "[retention]\narchive_after_days = 7\n#"

    read = settings_of(tmp_path, text + "x" * (MAX_SETTINGS_BYTES - len(text)))

    assert Retention(archive_after_days=7) == read.retention


@given(content=st.binary(max_size=200) | st.text(alphabet="[]={}\"'\n.# aretnion1", max_size=60).map(str.encode))
def test_any_file_is_read_or_refused(tmp_path: Path, content: bytes) -> None:
    """Whatever the file holds, the answer is settings or one sentence, never another error."""
    refusal: str | None = None
    try:
        settings_of(tmp_path, content)
    except InvalidInput as refused:
        refusal = refused.message

    assert refusal is None or refusal.startswith(str(tmp_path / "config.toml"))


@pytest.mark.parametrize("days", [0, -5, True, 1.0, "1"])
def test_retention_checks_its_numbers(days: Any) -> None:
    """A retention made by a program refuses the same numbers, and names the field."""
    with pytest.raises(InvalidInput) as refused:
        Retention(delete_archived_after_days=days)

    assert "delete_archived_after_days" == refused.value.field
