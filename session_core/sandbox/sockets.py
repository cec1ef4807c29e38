"""The sockets of other programs, which a confined program must not reach."""

import os
import re
import stat
from collections.abc import Iterator
from typing import Final

MAX_SOCKETS: Final = 1_000
"""So many can be hidden one by one; bubblewrap takes nine thousand words."""
_ROW: Final = re.compile(r"[0-9a-fA-F]+: (?:\S+ +){5}\S+(?: (.*))?")


class SocketsUnknown(OSError):
    """The system does not tell which sockets there are."""


def open_sockets() -> tuple[str, ...]:
    """Return the sockets in the file system on which programs listen now; a read-only mount does not close them.

    Raises:
        SocketsUnknown: Nobody can tell.
    """
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape", newline="\n") as table:
            paths = sorted(set(socket_paths(table.read())))
    except FileNotFoundError:  # a kernel without such sockets
        return ()
    except OSError as error:
        raise SocketsUnknown(error.errno, "the system does not tell which sockets are open") from error
    return tuple(dict.fromkeys(os.path.realpath(path) for path in paths if path.startswith("/") and _is_socket(path)))


def socket_paths(table: str) -> Iterator[str]:
    """Read the kernel's table; a path may hold blanks and even line ends, and then goes on in the next row."""
    path: str | None = None
    for line in table.split("\n"):
        row = _ROW.fullmatch(line)
        if row is None:
            path = f"{path}\n{line}" if path is not None else None
            continue
        if path is not None:
            yield path.removesuffix("\n")
        path = row[1]
    if path is not None:
        yield path.removesuffix("\n")


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except (OSError, ValueError):
        return False
