"""Small tables in private files of the home."""

import errno
import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from session_core.errors import StoreUnusable
from session_core.storage import private_table
from session_core.storage.private_table import PrivateTable, first_line_of


def make_table(file: Path | None) -> PrivateTable[str, int]:
    def parse(document: Any) -> dict[str, int]:
        return {str(key): int(value) for key, value in document["rows"].items()}

    return PrivateTable(
        file, parse=parse, build=lambda rows: {"rows": rows}, explain=lambda _, error: first_line_of(error), most=1_000
    )


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where the rows are kept."""
    return tmp_path / "table.json"


def test_changes_of_several_are_all_kept(file: Path) -> None:
    """Whoever changes a table at the same time as others loses nothing of theirs."""

    def add(number: int) -> None:
        for each in range(5):
            with make_table(file).change() as rows:
                rows[f"{number}-{each}"] = each

    threads = [threading.Thread(target=add, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {f"{number}-{each}": each for number in range(4) for each in range(5)} == make_table(file).read()


@pytest.mark.parametrize("in_file", [True, False])
def test_a_block_that_raises_writes_nothing(file: Path, *, in_file: bool) -> None:
    """An error inside the block leaves the file as it was; rows in memory have no file to leave."""
    table = make_table(file if in_file else None)
    with table.change() as rows:
        rows["a"] = 1
    with pytest.raises(KeyError), table.change() as rows:
        del rows["missing"]
    assert {"a": 1} == table.read()
    assert in_file == file.exists()


@pytest.mark.parametrize(
    ("content", "remark"),
    [("{", "Expecting"), ("{}", "'rows'"), (json.dumps({"rows": {"a": "b" * 2_000}}), "too large")],
)
def test_a_damaged_file_has_no_rows(file: Path, content: str, remark: str) -> None:
    """What cannot be read has no rows, the remark says why, and a change keeps the damaged file beside the new one."""
    file.write_text(content, encoding="utf-8")
    table = make_table(file)
    assert {} == table.read()
    assert remark in str(table.remark)
    with table.change() as rows:
        rows["new"] = 1
    assert ({"new": 1}, None) == (table.read(), table.remark)
    assert content == file.with_suffix(".damaged").read_text(encoding="utf-8")


def _fail(*_: object) -> bytes:
    raise OSError(errno.EIO, "input/output error")


@pytest.mark.parametrize("failure", [_fail, None])
def test_a_file_that_cannot_be_read_now(
    file: Path, monkeypatch: pytest.MonkeyPatch, failure: Callable[..., bytes] | None
) -> None:
    """It has no rows and a remark says why, but it may be sound: no change replaces it or moves it aside."""
    with make_table(file).change() as rows:
        rows["a"] = 1
    table = make_table(file)
    with monkeypatch.context() as broken:
        if failure is not None:
            broken.setattr(private_table, "read_private", failure)
        else:
            broken.setattr(os, "open", _unless(file, os.open))
        assert {} == table.read()
        assert table.remark
        with pytest.raises(StoreUnusable, match=r"table\.json"), table.change() as rows:
            rows["b"] = 2
    again = make_table(file)
    assert ({"a": 1}, None) == (again.read(), again.remark)
    assert not file.with_suffix(".damaged").exists()


def _unless(file: Path, real: Callable[..., int]) -> Callable[..., int]:
    def refuse(path: Path, *arguments: Any, **options: Any) -> int:
        if path == file:
            raise PermissionError(errno.EACCES, "permission denied")
        return real(path, *arguments, **options)

    return refuse


def test_what_is_no_file_of_ours_stays(file: Path) -> None:
    """A folder or a link in its place is not moved aside either: the error names it."""
    for make in (Path.mkdir, lambda path: path.symlink_to("elsewhere")):
        make(file)
        with pytest.raises(StoreUnusable, match=r"table\.json"), make_table(file).change():
            raise AssertionError
        file.rmdir() if file.is_dir() else file.unlink()
    assert [file.with_suffix(".lock")] == list(file.parent.iterdir())


def test_a_file_that_cannot_be_written(file: Path) -> None:
    """The error names the file, and whatever is there stays."""
    file.with_suffix(".tmp").mkdir()
    with pytest.raises(StoreUnusable, match=r"table\.tmp"), make_table(file).change() as rows:
        rows["a"] = 1
    assert not file.exists()
