"""Open a path under a folder without ever leaving it, even while another process swaps folders for links.

Linux does it in one system call, `openat2`. Without it, we walk the path by hand: every component is opened from the
descriptor of the one before it and never through a link; links are read and walked by hand too. Both refuse the same:
`..` above the folder, absolute links, and the links in `/proc` that are not paths.
"""

import ctypes
import errno
import functools
import os
import sys
from collections import deque
from contextlib import ExitStack
from typing import Final

_OPENAT2: Final = 437
"""The number of the system call, the same on every architecture."""
_NO_MAGIC_LINKS: Final = 0x02
_NO_LINKS: Final = 0x04
_BENEATH: Final = 0x08
_IN_ROOT: Final = 0x10

_TRIES: Final = 128
"""The kernel reports a temporary failure while folders are being moved; we retry this often."""
_MAX_LINKS: Final = 40
"""The number of links that Linux follows in one path."""

FOLDER_ONLY: Final = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY
"""Open a folder only to open things in it; works without the right to list it if the system supports that."""


class _HowToOpen(ctypes.Structure):
    _fields_ = (("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64))


def open_beneath(
    folder: int, path: str, flags: int, mode: int = 0, *, follow: bool = True, whole_disk: bool = False
) -> int:
    """Open `path` beneath an open folder and return the descriptor, which is not inherited by child processes.

    Args:
        folder: Descriptor of the folder that must not be left.
        path: Relative to it; empty for the folder itself.
        flags: As for `os.open`.
        mode: For a new file; the umask applies.
        follow: Whether links inside the folder may be followed at all.
        whole_disk: The folder is `/`: absolute links start there, and there is nothing to leave.

    Raises:
        OSError: As `os.open`; `EXDEV` if the path leads out of the folder, `ELOOP` if it goes through a link that must
            not be followed.
    """
    if has_openat2():
        return _open_by_kernel(folder, path, flags, mode, follow=follow, whole_disk=whole_disk)
    return open_by_hand(folder, path, flags, mode, follow=follow, whole_disk=whole_disk)


@functools.cache
def has_openat2() -> bool:
    """Return whether this system has `openat2` and lets us use it; some containers do not."""
    if sys.platform != "linux":
        return False
    folder = os.open("/", FOLDER_ONLY | os.O_CLOEXEC)
    try:
        os.close(_openat2(folder, ".", FOLDER_ONLY | os.O_CLOEXEC, 0, _BENEATH | _NO_MAGIC_LINKS))
    except OSError:
        return False
    finally:
        os.close(folder)
    return True


def _open_by_kernel(folder: int, path: str, flags: int, mode: int, *, follow: bool, whole_disk: bool) -> int:
    resolve = _NO_MAGIC_LINKS | (_IN_ROOT if whole_disk else _BENEATH) | (0 if follow else _NO_LINKS)
    mode = mode if flags & os.O_CREAT else 0
    for _ in range(_TRIES):
        try:
            return _openat2(folder, path or ".", flags | os.O_CLOEXEC, mode, resolve)
        except (BlockingIOError, InterruptedError):
            continue
    return open_by_hand(folder, path, flags, mode, follow=follow, whole_disk=whole_disk)


@functools.cache
def _system_call() -> "ctypes._NamedFuncPointer":
    function = ctypes.CDLL(None, use_errno=True).syscall
    function.restype = ctypes.c_long
    return function


def _openat2(folder: int, path: str, flags: int, mode: int, resolve: int) -> int:
    encoded = os.fsencode(path)
    if b"\0" in encoded:
        raise ValueError("embedded null byte")
    how = _HowToOpen(flags, mode, resolve)
    descriptor = int(
        _system_call()(
            ctypes.c_long(_OPENAT2),
            ctypes.c_int(folder),
            ctypes.c_char_p(encoded),
            ctypes.byref(how),
            ctypes.c_size_t(ctypes.sizeof(how)),
        )
    )
    if descriptor < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), path)
    return descriptor


def open_by_hand(
    folder: int, path: str, flags: int, mode: int = 0, *, follow: bool = True, whole_disk: bool = False
) -> int:
    """Do what `open_beneath` does without `openat2`."""
    for _ in range(_TRIES):
        with ExitStack() as opened:
            walk = _PathWalk(folder, path, opened, follow=follow, whole_disk=whole_disk)
            try:
                return walk.open_last(flags | os.O_CLOEXEC, mode)
            except _Swapped:  # something became a link, or ceased to be one, between two checks
                continue
    raise OSError(errno.EAGAIN, "the folders on the way keep changing", path)


class _Swapped(Exception):
    pass


class _PathWalk:
    """One walk along a path; holds the descriptor of every folder from the start to the current one."""

    def __init__(self, folder: int, path: str, opened: ExitStack, *, follow: bool, whole_disk: bool) -> None:
        self._folders = [folder]
        self._path = path
        self._opened = opened
        self._follow = follow
        self._whole_disk = whole_disk
        self._rest: deque[str] = deque()
        self._links = 0
        self._must_be_folder = False
        self._push(path)

    def open_last(self, flags: int, mode: int) -> int:
        """Walk to the end and open what is there."""
        last_as_it_is = bool(flags & os.O_NOFOLLOW) or bool(flags & os.O_CREAT and flags & os.O_EXCL)
        while self._rest:
            name = self._rest.popleft()
            if name == "..":
                self._go_up()
                continue
            last = not self._rest
            target = None if last and last_as_it_is else self._read_link(name)
            if target is not None:
                self._follow_link(target)
            elif not last:
                self._go_down(name)
            else:
                return self._open(name, flags, mode)
        # The path ended in `..`, or named the folder itself.
        return os.open(".", flags & ~(os.O_CREAT | os.O_EXCL), dir_fd=self._folders[-1])

    def _push(self, path: str) -> None:
        names = [name for name in path.split("/") if name not in {"", "."}]
        if path.endswith(("/", "/.")) and not self._rest:
            self._must_be_folder = True
        self._rest.extendleft(reversed(names))

    def _go_up(self) -> None:
        # Never by opening "..": the folder may have been moved elsewhere since it was opened.
        if len(self._folders) > 1:
            self._folders.pop()
        elif not self._whole_disk:
            raise self._error(errno.EXDEV)

    def _go_down(self, name: str) -> None:
        try:
            descriptor = os.open(name, FOLDER_ONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=self._folders[-1])
        except (NotADirectoryError, OSError) as error:
            if error.errno in {errno.ELOOP, errno.ENOTDIR} and self._read_link(name) is not None:
                raise _Swapped from None
            raise self._error(error.errno or errno.EIO) from None
        self._opened.callback(os.close, descriptor)
        self._folders.append(descriptor)

    def _read_link(self, name: str) -> str | None:
        try:
            return os.readlink(name, dir_fd=self._folders[-1])
        except OSError as error:
            if error.errno in {errno.EINVAL, errno.ENOENT}:  # not a link; or missing, which opening it will report
                return None
            raise self._error(error.errno or errno.EIO) from None

    def _follow_link(self, target: str) -> None:
        self._links += 1
        if not self._follow or self._links > _MAX_LINKS:
            raise self._error(errno.ELOOP)
        if target.startswith("/"):
            if not self._whole_disk:
                raise self._error(errno.EXDEV)
            del self._folders[1:]
        self._push(target)

    def _open(self, name: str, flags: int, mode: int) -> int:
        if self._must_be_folder:
            flags |= os.O_DIRECTORY
        try:
            return os.open(name, flags | os.O_NOFOLLOW, mode, dir_fd=self._folders[-1])
        except OSError as error:
            if not flags & os.O_NOFOLLOW and error.errno in {errno.ELOOP, errno.ENOTDIR, errno.EMLINK}:
                if self._read_link(name) is not None:
                    raise _Swapped from None
            raise self._error(error.errno or errno.EIO) from None

    def _error(self, number: int) -> OSError:
        return OSError(number, os.strerror(number), self._path)


def descriptor_path(descriptor: int) -> str | None:
    """Return the current path of an open folder, without links; None if the system cannot tell."""
    if sys.platform == "darwin":
        import fcntl

        return os.fsdecode(fcntl.fcntl(descriptor, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
    try:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        # A removed folder is called "name (deleted)", which might also be a name.
        there, here = os.stat(path), os.fstat(descriptor)
    except OSError:
        return None
    return path if (there.st_dev, there.st_ino) == (here.st_dev, here.st_ino) else None
