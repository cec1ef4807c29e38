"""Small tables in private JSON files of the home, such as trusted folders, consents and logins.

All of this blocks: call it in a worker thread.
"""

import json
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Generic, TypeVar

import attrs

from session_core.errors import StoreUnusable
from session_core.storage.home import prepare_home
from session_core.storage.private_files import hold_file_lock, read_private, replace_private, store_unusable_error

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@attrs.define(eq=False)
class PrivateTable(Generic[_Key, _Value]):
    """A few rows in a JSON file of the home, read anew each time and changed by one process at a time.

    A missing file has no rows. Neither has one that is damaged: then `remark` says so, and the next change moves the
    file aside to `NAME.damaged`, because a person may still want to look at it. One that cannot be read now has no rows
    either, but may be sound: it is left as it is, and cannot be changed. Without a file, the rows are in memory.

    Args:
        file: The file, in a folder for ourselves.
        parse: Returns the rows of a JSON document; any exception means that it is damaged.
        build: Returns the JSON document for some rows.
        explain: Returns the remark for such an exception.
        most: The most bytes of the file.
    """

    file: Path | None
    _parse: Callable[[Any], dict[_Key, _Value]] = attrs.field(kw_only=True)
    _build: Callable[[dict[_Key, _Value]], Any] = attrs.field(kw_only=True)
    _explain: Callable[[Path, Exception], str] = attrs.field(kw_only=True)
    _most: int = attrs.field(kw_only=True)
    remark: str | None = attrs.field(default=None, init=False)
    _in_memory: dict[_Key, _Value] = attrs.field(factory=dict, init=False)

    def read(self) -> dict[_Key, _Value]:
        """Return the rows, in the order of the file."""
        return self._in_memory if self.file is None else self._read_file(self.file)[0]

    def _read_file(self, file: Path) -> tuple[dict[_Key, _Value], Exception | None]:
        """Return the rows, and what is wrong with the file."""
        self.remark = None
        try:
            file.lstat()  # what is missing is told from what cannot be opened
            return self._parse(json.loads(read_private(file, self._most))), None
        except (FileNotFoundError, NotADirectoryError):
            return {}, None
        except Exception as error:  # noqa: BLE001 - every error has the same consequence for a reader
            self.remark = self._explain(file, error)
            return {}, error

    @contextmanager
    def change(self) -> Generator[dict[_Key, _Value]]:
        """Yield the rows for the block to change, and write them at its end; if it raises, nothing is written.

        Raises:
            StoreUnusable: The file cannot be read, or not be written.
        """
        if self.file is None:
            yield self._in_memory
            return
        prepare_home(self.file.parent)
        try:
            with hold_file_lock(self.file):
                rows, wrong = self._read_file(self.file)
                if isinstance(wrong, StoreUnusable):
                    raise wrong
                if isinstance(wrong, OSError):
                    raise store_unusable_error(f"the file {str(self.file)!r} cannot be read", wrong) from wrong
                yield rows
                if wrong is not None:
                    with suppress(OSError):
                        self.file.replace(self.file.with_suffix(".damaged"))
                replace_private(self.file, json.dumps(self._build(rows), indent=1).encode())
                self.remark = None
        except OSError as error:
            raise store_unusable_error(f"the file {str(self.file)!r} cannot be written", error) from error


def first_line_of(error: Exception) -> str:
    """Return what an error says, in one line."""
    return f"{error}".splitlines()[0] if f"{error}" else type(error).__name__
