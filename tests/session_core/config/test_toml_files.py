"""Reading files of settings: bounded, never waiting, whatever lies there."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core.config.load import load_config
from session_core.config.problems import ConfigInvalid
from session_core.config.toml_files import MAX_CONFIG_BYTES


def refusal(home: Path) -> str:
    with pytest.raises(ConfigInvalid) as refused:
        load_config(home, environ={})
    return str(refused.value)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"[limits", "this is not TOML: expected"),
        (b"x = 1\nx = 2\n", "config.toml, line 2: this is not TOML: cannot overwrite a value (at column 6)"),
        (b"x = " + b"[" * 20_000, "nested too deeply"),
        (b"x = 1\ny" + b".y" * 30_000 + b" = 1", "config.toml, line 2: there are more than 250 dots in this line"),
        (b"x = " + b"9" * 5_000, "a number in it is too long"),
        (b"\xff\xfe", "it is not text in UTF-8 (at byte 0)"),
        (b"#" * (MAX_CONFIG_BYTES + 1), "it is longer than 65536 bytes"),
    ],
)
def test_what_cannot_be_read(tmp_path: Path, content: bytes, said: str) -> None:
    """A file that is no TOML is refused with a sentence that names it."""
    (tmp_path / "config.toml").write_bytes(content)

    told = refusal(tmp_path)

    assert told.startswith(str(tmp_path / "config.toml"))
    assert said.lower() in told.lower()


def test_what_an_editor_elsewhere_writes(tmp_path: Path) -> None:
    """A mark at the beginning and line ends of Windows are understood, and lines are counted right."""
    (tmp_path / "config.toml").write_bytes(b"\xef\xbb\xbf[limits]\r\nsteps = 7\r\n")

    config = load_config(tmp_path, environ={})

    assert (7, 2) == (config.limits.steps, config.source("limits.steps").line)


def test_a_file_at_the_limit(tmp_path: Path) -> None:
    """The longest file that is allowed is read to its end."""
    (tmp_path / "config.toml").write_text("#\n" + " " * (MAX_CONFIG_BYTES - 18) + "thinking = 'low'", encoding="utf-8")

    assert "low" == load_config(tmp_path, environ={}).thinking


def test_what_is_no_file(tmp_path: Path) -> None:
    """A pipe, a directory or a link in a circle in the place of the file is refused at once, and nothing stays open."""
    pipe, directory, circle = (tmp_path / kind / "config.toml" for kind in ("pipe", "directory", "circle"))
    for path in (pipe, directory, circle):
        path.parent.mkdir()
    os.mkfifo(pipe)
    directory.mkdir()
    circle.symlink_to(circle)
    open_before = sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208 - names are all that is wanted

    for path in (pipe, directory, circle):
        assert refusal(path.parent).startswith(str(path))
    assert open_before == sorted(os.listdir("/proc/self/fd"))  # noqa: PTH208


def test_a_link_to_ones_own_file(tmp_path: Path) -> None:
    """The user's own file may lie elsewhere, behind a link, as people who keep such files together have it."""
    (tmp_path / "kept.toml").write_text("thinking = 'low'", encoding="utf-8")
    (tmp_path / "config.toml").symlink_to("kept.toml")

    assert "low" == load_config(tmp_path, environ={}).thinking


@given(content=st.binary(max_size=200) | st.text(alphabet="[]={}\"'\n.# aretnion1-:e", max_size=60).map(str.encode))
def test_any_bytes_are_read_or_refused(tmp_path: Path, content: bytes) -> None:
    """Whatever the file holds, the answer is a configuration or sentences about it, never another error."""
    path = tmp_path / "config.toml"
    path.write_bytes(content)
    path.chmod(0o600)
    places = set()
    try:
        load_config(tmp_path, environ={})
    except ConfigInvalid as refused:
        places = {each.place for each in refused.problems}

    assert places <= {str(path)}
