"""One digest for all files of an extension: the manifest, the program, and everything that comes with them.

It covers whatever the program could load: names, contents, links, and whether a file is executable. A link counts with
its target path; a link to a file outside the folder also counts with that file's content, as for interpreters in
virtual environments. Times and owners do not count, nor does the `.git` of a checkout, which changes on its own;
therefore `launch` runs nothing from it.

The same pass can write a copy, and each byte hashed is the byte written. Whatever others do to the folder meanwhile, a
copy with the digest that a person agreed to holds what they agreed to. No link of a copy leads to what could change
later: one within the folder stays within the copy, one to a file elsewhere becomes that file, and one that leads
nowhere is left out.
"""

import errno
import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import BinaryIO, Final

import attrs

from session_core.errors import InvalidInput
from session_core.sandbox.openat import open_beneath
from session_core.sep.protocol.manifest import MANIFEST_FILE

MAX_FILES: Final = 20_000
"""Files, folders and links of one extension: a few hundred packages. More could not be read at every start."""
MAX_BYTES: Final = 256 * 1024 * 1024
"""The total size of all contents; they are read before every start."""
MAX_TOLD_FILES: Final = 256
"""The most files whose own digests are returned; with more, there are better tools to find out what changed."""
_MAX_DEPTH: Final = 64
_CHUNK: Final = 1024 * 1024
NOT_COUNTED: Final = ".git"
"""What is in an extension's folder and is never run."""
_OPEN: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC  # a pipe must not hang us


class NotDigestible(InvalidInput):
    """An extension has too many or too large files, or a kind that cannot be pinned; the message names one."""

    code = "not_digestible"


@attrs.frozen(kw_only=True)
class FolderDigest:
    """The digest of a whole folder, and that of the manifest in it.

    Attributes:
        content: The digest of what a copy holds; that of a copy is the same.
        files: A short digest of each file and link by path, to name those that changed; empty if there are too many. It
            decides nothing.
    """

    whole: str
    manifest: str | None
    content: str = ""
    files: Mapping[str, str] = attrs.field(factory=dict, hash=False)


def digest_of(folder: Path) -> str:
    """Return the digest of everything in an extension's folder. This blocks while it reads.

    Raises:
        NotDigestible: There is too much, or something that cannot be pinned.
    """
    return compute_digest(folder).whole


def outline_of(folder: Path) -> str:
    """Return a value that differs whenever the folder may have changed: names, kinds, sizes, times. Reads no file.

    Raises:
        NotDigestible: There is too much, or it cannot be searched.
    """
    outline = hashlib.blake2b(digest_size=16)
    with ExitStack() as opened:
        try:
            root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            opened.callback(os.close, root)
            for path, status in _DigestBuilder(root, os.path.realpath(folder)).walk("", 0):
                seen = [status]
                if stat.S_ISLNK(status.st_mode):  # counts with its target
                    with suppress(OSError):
                        seen.append(os.stat(path, dir_fd=root))
                facts = [(each.st_mode, each.st_ino, each.st_size, each.st_mtime_ns, each.st_ctime_ns) for each in seen]
                outline.update(repr((path, facts)).encode("utf-8", "surrogateescape"))
        except OSError as error:
            raise NotDigestible(f"the files of this extension cannot be searched: {error.strerror}") from error
    return outline.hexdigest()


def compute_digest(folder: Path, *, copy_to: Path | None = None) -> FolderDigest:
    """Do what `digest_of` does, and also return the digest of the manifest that was read.

    Args:
        folder: The folder.
        copy_to: An empty folder of ours, into which everything that counts is copied in the same pass.

    Raises:
        NotDigestible: There is too much, or something that cannot be pinned.
    """
    with ExitStack() as opened:
        try:
            root = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            opened.callback(os.close, root)
            return _DigestBuilder(root, os.path.realpath(folder), copy_to).run()
        except OSError as error:
            place = f" at {os.fsdecode(error.filename)!r}" if isinstance(error.filename, str | bytes) else ""
            what = "read" if copy_to is None else "read and copied"
            raise NotDigestible(f"the files of this extension cannot be {what}{place}: {error.strerror}") from error


class _DigestBuilder:
    def __init__(self, root: int, place: str, copy_to: Path | None = None) -> None:
        self._root = root
        self._place = place
        self._copy_to = copy_to
        self._whole = hashlib.sha256(b"extension folder 1")
        self._copied = hashlib.sha256(b"copy of an extension folder 1")
        self._manifest: str | None = None
        self._files: dict[str, str] = {}
        self._single = hashlib.blake2b(digest_size=8)
        self._count = 0
        self._bytes = 0

    def run(self) -> FolderDigest:
        for path, status in self.walk("", 0):
            self._single = hashlib.blake2b(digest_size=8)
            self._add(path, status)
            if not stat.S_ISDIR(status.st_mode) and len(self._files) <= MAX_TOLD_FILES:
                self._files[path] = self._single.hexdigest()
        return FolderDigest(
            whole=self._whole.hexdigest(),
            manifest=self._manifest,
            content=self._copied.hexdigest(),
            files=self._files if len(self._files) <= MAX_TOLD_FILES else {},
        )

    def walk(self, path: str, depth: int) -> Iterator[tuple[str, os.stat_result]]:
        """Visit everything that counts, in a fixed order."""
        if depth > _MAX_DEPTH:
            raise NotDigestible(f"its folders are nested too deeply, at {path!r}")
        folder = open_beneath(self._root, path, os.O_RDONLY | os.O_DIRECTORY, follow=False)
        try:
            with os.scandir(folder) as listing:
                entries: list[tuple[str, os.stat_result]] = []
                for entry in listing:
                    self._count += 1  # here and not later, because each level above this one holds its list too
                    if self._count > MAX_FILES:
                        raise NotDigestible(f"there are more than {MAX_FILES:,} files in it, at {path or '.'!r}")
                    entries.append((entry.name, entry.stat(follow_symlinks=False)))
        finally:
            os.close(folder)
        for name, status in sorted(entries, key=lambda entry: os.fsencode(entry[0])):
            below = os.path.join(path, name)  # noqa: PTH118 - relative to a descriptor
            if below == NOT_COUNTED:
                continue
            yield below, status
            if stat.S_ISDIR(status.st_mode):
                yield from self.walk(below, depth + 1)

    def _add(self, path: str, status: os.stat_result) -> None:
        if stat.S_ISDIR(status.st_mode):
            self._part(b"folder", os.fsencode(path))
            self._copy_part(b"folder", os.fsencode(path))
            if self._copy_to is not None:
                (self._copy_to / path).mkdir(mode=0o700)
        elif stat.S_ISLNK(status.st_mode):
            self._add_link(path)
        elif stat.S_ISREG(status.st_mode):
            opened = open_beneath(self._root, path, _OPEN, follow=False)
            content, executable = self._read(opened, path, into=path)
            if path == MANIFEST_FILE:
                self._manifest = content
            self._part(b"program" if executable else b"file", os.fsencode(path), content.encode())
        else:
            raise NotDigestible(f"{path!r} is neither a file nor a folder nor a link, and cannot be pinned")

    def _add_link(self, path: str) -> None:
        parent, name = os.path.split(path)
        folder = open_beneath(self._root, parent, os.O_RDONLY | os.O_DIRECTORY, follow=False)
        try:
            target = os.readlink(name, dir_fd=folder)
        finally:
            os.close(folder)
        self._part(b"link", os.fsencode(path), os.fsencode(target))
        # From the text that was read, and not from the link again: it may be another one by now.
        real = os.path.realpath(os.path.join(self._place, parent, target))  # noqa: PTH118
        if real == self._place or real.startswith(f"{self._place}/"):
            inside = os.path.relpath(real, self._place)
            if NOT_COUNTED in inside.split("/")[:1]:
                raise NotDigestible(f"the link {path!r} leads into {NOT_COUNTED}, which is not pinned")
            if not _stays_inside(target, parent):
                self._part(b"inside", os.fsencode(inside))
                target = os.path.relpath(inside, parent or ".")
            self._copy_link(path, target)
            return
        try:
            descriptor = os.open(real, _OPEN)
        except FileNotFoundError:
            return
        except OSError as error:
            if error.errno in {errno.ELOOP, errno.ENOTDIR}:
                return
            raise NotDigestible(f"the link {path!r} leads to what cannot be read: {error.strerror}") from error
        if _stays_inside(target, parent):  # it leads to another link, which leads outside
            content, _ = self._read(descriptor, path, into=None)
            self._copy_link(path, target)
        elif _can_change(real):
            content, _ = self._read(descriptor, path, into=path)
        else:  # a program of the system finds its libraries from its own place
            content, _ = self._read(descriptor, path, into=None)
            self._copy_link(path, real)
        self._part(b"outside", os.fsencode(real), content.encode())

    def _read(self, descriptor: int, path: str, *, into: str | None) -> tuple[str, bool]:
        """Read an open file to its end, and copy it; returns its digest, and whether it is executable."""
        whole = hashlib.sha256()
        with ExitStack() as opened:
            opened.callback(os.close, descriptor)
            mode = os.fstat(descriptor).st_mode
            if stat.S_ISDIR(mode):
                raise NotDigestible(f"the link {path!r} leads to a folder outside; put the files themselves there")
            if not stat.S_ISREG(mode):
                raise NotDigestible(f"{path!r} is no ordinary file, and cannot be pinned")
            executable = bool(mode & 0o111)
            copy = None
            if into is not None and self._copy_to is not None:
                copy = opened.enter_context(open_read_only(self._copy_to / into, executable=executable))
            while data := os.read(descriptor, _CHUNK):
                self._bytes += len(data)
                if self._bytes > MAX_BYTES:
                    raise NotDigestible(f"its files are larger than {MAX_BYTES:,} bytes together, at {path!r}")
                whole.update(data)
                if copy is not None:
                    copy.write(data)
        if into is not None:
            self._copy_part(b"program" if executable else b"file", os.fsencode(into), whole.digest())
        return whole.hexdigest(), executable

    def _copy_link(self, path: str, target: str) -> None:
        self._copy_part(b"link", os.fsencode(path), os.fsencode(target))
        if self._copy_to is not None:
            (self._copy_to / path).symlink_to(target)

    def _part(self, *parts: bytes) -> None:
        """Add byte strings unambiguously, so that no others give the same digest."""
        for part in parts:
            self._whole.update(len(part).to_bytes(8, "big") + part)
            self._single.update(len(part).to_bytes(8, "big") + part)

    def _copy_part(self, *parts: bytes) -> None:
        for part in parts:
            self._copied.update(len(part).to_bytes(8, "big") + part)


def open_read_only(path: Path, *, executable: bool) -> BinaryIO:
    """Create a file that nobody may change once it is written."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    os.fchmod(descriptor, 0o500 if executable else 0o400)
    return open(descriptor, "wb")  # noqa: PTH123 - a descriptor, not a path


def _stays_inside(target: str, parent: str) -> bool:
    """Return whether a link leads down from a folder around it, so that it means the same in a copy."""
    up, names = 0, target.split("/")
    while up < len(names) and names[up] == os.pardir:
        up += 1
    climbs = up > len([name for name in parent.split("/") if name])
    return not (climbs or target.startswith("/") or os.pardir in names[up:])


def _can_change(path: str) -> bool:
    """Return whether we could change or replace a file; then another program of ours could too."""
    own, file = os.geteuid(), Path(path)
    return any(each.stat().st_uid == own or os.access(each, os.W_OK) for each in (file, *file.parents))
