"""Replace a file in one step."""

import errno
import os
import secrets
import stat
from contextlib import ExitStack, suppress
from types import EllipsisType

from session_core.sandbox.file_values import FileChanged, FileVersion, write_all


def replace_file(folder: int, name: str, data: bytes, expected: FileVersion | EllipsisType | None, shown: str) -> None:
    """Write a new file beside the old one in an open folder, and give it its name; see `Workspace.write`."""
    mode = None
    version = None
    with suppress(FileNotFoundError):
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), shown)
        if not stat.S_ISREG(found.st_mode):
            raise PermissionError(errno.EACCES, "this is not an ordinary file", shown)
        mode = stat.S_IMODE(found.st_mode) & 0o777
        version = FileVersion(size=found.st_size, mtime_ns=found.st_mtime_ns)
    if not isinstance(expected, EllipsisType) and version != expected:
        what = "is there already" if expected is None else "has changed since it was read"
        raise FileChanged(f"{shown!r} {what}, so nothing was written; read it again")
    temporary = f".{secrets.token_hex(8)}.tmp"
    with ExitStack() as undo:
        descriptor = os.open(
            temporary,
            os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC,
            0o644 if mode is None else 0o600,
            dir_fd=folder,
        )
        undo.callback(_unlink_quietly, temporary, folder)
        try:
            write_all(descriptor, data)
            if mode is not None:
                os.fchmod(descriptor, mode)
        finally:
            os.close(descriptor)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
        undo.pop_all()


def _unlink_quietly(name: str, folder: int) -> None:
    with suppress(FileNotFoundError):
        os.unlink(name, dir_fd=folder)
