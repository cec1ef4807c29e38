"""The sockets on which other programs listen, which no confined program may reach: find them, decide what hides them.

This is the second layer. The first is the system call filter: a program that may not use unix sockets cannot open any,
wherever it is. The table of the kernel misses sockets with a relative path, renamed ones and those of other network
namespaces, and it is read before the program starts.
"""

import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator
from typing import Final

MAX_SOCKETS: Final = 1_000
"""How many places can be hidden one by one; bubblewrap accepts nine thousand arguments."""
_ROW: Final = re.compile(r"[0-9a-fA-F]+: (?:\S+ +){5}\S+(?: (.*))?")


class SocketsUnknown(OSError):
    """The system does not list the open sockets."""


class TooManySockets(Exception):
    """There are more sockets than can be hidden; the message says how many."""


def open_sockets() -> tuple[str, ...]:
    """Return the file system sockets on which programs listen now; a read-only mount does not block them.

    Raises:
        SocketsUnknown: The system does not list them.
    """
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape", newline="\n") as table:
            paths = sorted(set(socket_paths(table.read())))
    except FileNotFoundError:  # a kernel without such sockets
        return ()
    except OSError as error:
        raise SocketsUnknown(error.errno, "the system does not list the open sockets") from error
    return tuple(dict.fromkeys(os.path.realpath(path) for path in paths if path.startswith("/") and _is_socket(path)))


def socket_paths(table: str) -> Iterator[str]:
    """Parse the kernel's table; a path may hold blanks and even line ends, and then continues in the next row."""
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


def cover_sockets(found: Collection[str], needed: Iterable[str], *, filtered: bool) -> list[str]:
    """Return what to hide so that no socket is left: the sockets themselves or, if they are too many, their folders.

    Args:
        found: The sockets.
        needed: Places that must stay visible, so that no folder around one of them can be hidden.
        filtered: The system call filter blocks unix sockets, so those that cannot be hidden are out of reach as well.

    Raises:
        TooManySockets: Some can neither be hidden nor blocked.
    """
    unhidden = {"/"}
    for place in needed:
        while place not in unhidden:
            unhidden.add(place)
            place = os.path.dirname(place)
    places = set(found)
    for least in (2,) if filtered else (2, 1):
        for depth in range(max((place.count("/") for place in places), default=0), 1, -1):
            if len(places) <= MAX_SOCKETS:
                return sorted(places)
            _merge(places, depth, unhidden, least)
    if len(places) <= MAX_SOCKETS or filtered:
        return sorted(places, key=lambda place: (place in found, place))[:MAX_SOCKETS]
    raise TooManySockets(f"other programs listen on {len(found)} sockets, and only {MAX_SOCKETS} can be hidden")


def _merge(places: set[str], depth: int, unhidden: Collection[str], least: int) -> None:
    """Replace the places at one depth by their folders, where a folder holds at least so many of them."""
    folders: dict[str, list[str]] = {}
    for place in places:
        if place.count("/") == depth:
            folders.setdefault(os.path.dirname(place), []).append(place)
    for folder, inside in folders.items():
        if folder not in unhidden and len(inside) >= least:
            places.difference_update(inside)
            places.add(folder)
