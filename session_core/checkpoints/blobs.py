"""Contents of files, each stored once under its SHA-256."""

import hashlib
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from session_core.sandbox.file_values import write_all
from session_core.storage.private_files import private_open

NAME: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_UNFINISHED: Final = ".new-"


def digest(data: bytes) -> str:
    """Return the name of a content."""
    return hashlib.sha256(data).hexdigest()


class BlobLost(Exception):
    """A stored content is missing or damaged; the message says which."""


class Blobs:
    """The contents of one session, in folders named by the first two digits."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._checked: set[str] = set()  # names whose content this process has written or read

    def put(self, data: bytes, *, durable: bool) -> str:
        """Store a content and return its name; `durable` means that it survives even a power loss."""
        name = digest(data)
        if name in self._checked and not durable:
            return name
        place = self._place(name)
        if self._holds(place, data):
            if durable:
                _sync(place, os.O_NOFOLLOW)
        else:
            self._write(place, data, durable=durable)
        self._checked.add(name)
        return name

    def get(self, name: str) -> bytes:
        """Return a content.

        Raises:
            BlobLost: It is missing or damaged.
        """
        try:
            data = _read(self._place(name))
        except OSError as error:
            raise BlobLost(f"the saved content {name[:12]} cannot be read: {error.strerror}") from error
        if digest(data) != name:
            raise BlobLost(f"the saved content {name[:12]} is damaged")
        return data

    def drop(self, name: str) -> None:
        """Delete a content for good."""
        self._checked.discard(name)
        with suppress(FileNotFoundError):
            self._place(name).unlink()

    def names(self) -> Iterator[str]:
        """Yield the names of all stored contents; removes unfinished files left by a crash."""
        for folder in sorted(self._folder.glob("??")):
            for file in sorted(folder.iterdir()):
                if NAME.fullmatch(file.name):
                    yield file.name
                elif file.name.startswith(_UNFINISHED):
                    file.unlink(missing_ok=True)

    def _place(self, name: str) -> Path:
        assert NAME.fullmatch(name), "names come from a hash or a checked record"
        return self._folder / name[:2] / name

    def _holds(self, place: Path, data: bytes) -> bool:
        try:
            return _read(place) == data  # content half written at a power loss is written again
        except OSError:
            return False

    def _write(self, place: Path, data: bytes, *, durable: bool) -> None:
        make_private_folder(place.parent)
        unfinished = place.with_name(_UNFINISHED + secrets.token_hex(8))
        try:
            descriptor = private_open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            try:
                write_all(descriptor, data)
                if durable:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
            unfinished.replace(place)
        except BaseException:
            unfinished.unlink(missing_ok=True)
            raise
        if durable:
            sync_folder(place.parent)


def make_private_folder(folder: Path) -> None:
    """Ensure a folder that only we may enter, creating its parent the same way if needed."""
    if not folder.is_dir():
        make_private_folder(folder.parent)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
            sync_folder(folder.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    _sync(folder, os.O_DIRECTORY)


def _sync(place: Path, flags: int) -> None:
    descriptor = os.open(place, os.O_RDONLY | flags | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _read(place: Path) -> bytes:
    descriptor = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        return file.read()
