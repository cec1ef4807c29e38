"""Whether there are any extensions at all: found out cheaply, and never wrongly denied."""

from pathlib import Path

import pytest

from session_core.sep.host.catalogue.search_paths import build_search_paths, has_extensions


def is_any(place: Path) -> bool:
    return has_extensions(build_search_paths(place / "home", place / "work", {"HOME": str(place)}, trusted=False))


@pytest.mark.parametrize(
    "folder",
    ["home/extensions", ".smooth/extensions", "work/.session-core/extensions", "work/.smooth/extensions"],
)
def test_a_folder_with_something_in_it(tmp_path: Path, folder: str) -> None:
    """Missing and empty folders hold nothing; anything in one of them is worth a look, trusted or not."""
    assert not is_any(tmp_path)
    (tmp_path / folder).mkdir(parents=True)
    assert not is_any(tmp_path)
    (tmp_path / folder / "gate").mkdir()
    assert is_any(tmp_path)


def test_what_cannot_be_read_is_not_passed_over(tmp_path: Path) -> None:
    """A folder that cannot be read may hold something: whoever looks closely says what is wrong."""
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "extensions").write_text("no folder")

    assert is_any(tmp_path)
