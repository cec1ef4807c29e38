"""The workspace: access to files beneath its roots, and nowhere else."""

import errno
import functools
import os
import secrets
import stat
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import islice
from types import EllipsisType
from typing import Final

import attrs

from session_core.sandbox.file_values import FileChanged as FileChanged
from session_core.sandbox.file_values import FileContent as FileContent
from session_core.sandbox.file_values import FileStatus as FileStatus
from session_core.sandbox.file_values import FileVersion as FileVersion
from session_core.sandbox.file_values import FolderEntry as FolderEntry
from session_core.sandbox.file_values import Location as Location
from session_core.sandbox.file_values import OutsideWorkspace as OutsideWorkspace
from session_core.sandbox.file_values import ProtectedPath as ProtectedPath
from session_core.sandbox.file_values import WorkspaceRefused as WorkspaceRefused
from session_core.sandbox.file_values import list_folder, read_up_to, to_file_status, write_all
from session_core.sandbox.folder_walk import is_beneath, walk_folder
from session_core.sandbox.guard import accept_change
from session_core.sandbox.home_directory import list_hidden_entries
from session_core.sandbox.ignore import IgnoreRules
from session_core.sandbox.openat import FOLDER_ONLY, descriptor_path, open_beneath
from session_core.sandbox.protected_paths import (
    home_guards,
    is_protected_at_home,
    is_protected_path,
    is_repository_member,
)
from session_core.sandbox.protected_scan import find_protected
from session_core.sandbox.protected_targets import resolve_link_targets
from session_core.sandbox.secrets import hidden_places, home_folders, own_places, resolve_existing


# --- replace a file in one step ---------------------------------------------------------------------------------------
def replace_file(
    folder: int, name: str, data: bytes, expected: FileVersion | EllipsisType | None, display_path: str
) -> None:
    """Write a new file beside the old one in an open folder, and rename it over the old one; see `Workspace.write`."""
    mode = None
    version = None
    with suppress(FileNotFoundError):
        found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), display_path)
        if not stat.S_ISREG(found.st_mode):
            raise PermissionError(errno.EACCES, "this is not an ordinary file", display_path)
        mode = stat.S_IMODE(found.st_mode) & 0o777
        version = FileVersion(size=found.st_size, mtime_ns=found.st_mtime_ns)
    if not isinstance(expected, EllipsisType) and version != expected:
        what = "is there already" if expected is None else "has changed since it was read"
        raise FileChanged(f"{display_path!r} {what}, so nothing was written; read it again")
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


# Which places inside its roots a workspace keeps closed, and which it changes only with approval.
@attrs.define(kw_only=True, slots=False)
class Bounds:
    """Decides about places, which are absolute paths without links; reads the disk once, at the first question.

    Attributes:
        writable, readable: The roots of the workspace.
        also_hidden: Closed places besides those with keys.
        readable_at_home: Places in the home directory that the person has made readable.
    """

    writable: tuple[str, ...]
    readable: tuple[str, ...]
    also_hidden: tuple[str, ...]
    readable_at_home: tuple[str, ...] = ()

    @functools.cached_property
    def hidden(self) -> tuple[str, ...]:
        """The closed places inside the roots; none if the whole disk is open."""
        if "/" in self._real_roots:
            return ()
        homes = [home for home in self._homes if is_beneath(home, self._real_roots)]
        entries = [place for home in homes if not is_beneath(home, self._opened) for place in list_hidden_entries(home)]
        places = [place for place in (*hidden_places(), *entries) if place not in self._opened]
        places += self._always_hidden
        return tuple(
            dict.fromkeys(
                place for place in places if is_beneath(place, self._real_roots) and place not in self._real_roots
            )
        )

    def load_hidden(self) -> None:
        """Read the disk now."""
        _ = self.hidden

    def is_hidden(self, place: str, *, writing: bool) -> bool:
        """Return whether a place is closed; a root inside a closed place was chosen by a person, and is open."""
        roots = self._real_writable if writing else (*self._real_roots, *self._opened)
        return _depth(place, self.hidden) > _depth(place, roots)

    def is_guarded(self, place: str, *, new_folder: bool = False) -> bool:
        """Return whether a change of this place needs approval."""
        roots = self._real_writable
        return (
            is_protected_path(place, roots)
            or is_repository_member(place, roots)
            or is_protected_at_home(place, roots, self._homes, new_folder=new_folder)
            or is_beneath(place, self._link_targets)
        )

    @functools.cached_property
    def _real_writable(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(os.path.realpath(root) for root in self.writable))

    @functools.cached_property
    def _real_roots(self) -> tuple[str, ...]:
        return (*self._real_writable, *(os.path.realpath(root) for root in self.readable))

    @functools.cached_property
    def _always_hidden(self) -> tuple[str, ...]:
        return (*own_places(), *(os.path.realpath(each) for each in self.also_hidden))

    @functools.cached_property
    def _opened(self) -> tuple[str, ...]:
        return tuple(
            place for place in resolve_existing(self.readable_at_home) if not is_beneath(place, self._always_hidden)
        )

    @functools.cached_property
    def _homes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(os.path.realpath(home) for home in home_folders()))

    @functools.cached_property
    def _link_targets(self) -> tuple[str, ...]:
        """The targets of protected paths that are links or git pointers, at any depth of what is no whole disk."""
        found = find_protected(root for root in self._real_writable if root != "/")
        targets = {*found.targets, *found.missing}
        for folder, path in home_guards(self._real_writable, self._homes):
            targets.update(resolve_link_targets(folder, path))
        return tuple(targets)


def _depth(place: str, folders: Iterable[str]) -> int:
    """Return the path length of the innermost of these folders around a place; negative if there is none."""
    return max((len(folder) for folder in folders if is_beneath(place, (folder,))), default=-1)


# --- workspace --------------------------------------------------------------------------------------------------------

_MAX_LINKS: Final = 40


class Workspace:
    """Files beneath a root folder and further roots; the kernel keeps every path beneath the root it starts from.

    Nothing stays open between calls. File system errors pass through as `OSError`; the workspace's own refusals are
    `WorkspaceRefused`.

    Args:
        root: Where relative paths start.
        extra_roots: Further folders whose files may be read and written.
        readable_roots: Further folders whose files may be read.
        read_only: Refuse every write.
        may_write_protected: A person has approved a change of protected paths.
        hidden: Closed places besides those with keys.
        readable_at_home: Places in the home directory that the person has made readable, if they lie beneath a root.

    Places with keys, the home of the service, and in a home directory the dot files that no build needs, are closed
    even beneath a root, unless the whole disk is open.
    """

    def __init__(
        self,
        root: str,
        *,
        extra_roots: Sequence[str] = (),
        readable_roots: Sequence[str] = (),
        read_only: bool = False,
        may_write_protected: bool = False,
        hidden: Sequence[str] = (),
        readable_at_home: Sequence[str] = (),
    ) -> None:
        self.root = os.path.abspath(root)
        self._writable = (self.root, *(os.path.abspath(each) for each in extra_roots))
        self._readable = tuple(os.path.abspath(each) for each in readable_roots)
        self._read_only = read_only
        self._may_write_protected = may_write_protected
        self._bounds = Bounds(
            writable=self._writable,
            readable=self._readable,
            also_hidden=tuple(hidden),
            readable_at_home=tuple(readable_at_home),
        )

    def locate(self, path: str) -> Location:
        """Find the root that a path belongs to; absolute paths must lie beneath one as written.

        Raises:
            OutsideWorkspace: The path belongs to no root.
        """
        try:
            usable = "\0" not in path and bool(os.fsencode(path))
        except UnicodeEncodeError:
            usable = False
        if not usable:
            raise OutsideWorkspace(f"{path!r} is not a path")
        absolute = os.path.normpath(os.path.join(self.root, path))
        if absolute.startswith("//"):  # POSIX leaves two slashes alone
            absolute = absolute[1:]
        # If the whole disk is a root, links cannot leave it.
        whole_disk = "/" in self._writable
        found = self._root_of(absolute, ("/",) if whole_disk else self._writable)
        # A read-only folder stays read-only inside a writable one.
        deeper = None if whole_disk else self._root_of(absolute, self._readable)
        if deeper is not None and (found is None or len(deeper[1]) > len(found[1])):
            found = deeper
        if found is None:
            raise OutsideWorkspace(f"{path!r} is outside of the folders that tools may use")
        root, start = found
        relative = absolute[len(start) :].lstrip("/")
        return Location(root=root, relative=relative, display_path=self._display_path(absolute, root, relative))

    @staticmethod
    def _root_of(absolute: str, roots: Sequence[str]) -> tuple[str, str] | None:
        """Return the first root that a path lies in, and how the path spells that root."""
        for root in roots:
            if is_beneath(absolute, (root,)):
                return root, root
            if is_beneath(absolute, (real := os.path.realpath(root),)):
                return root, real
        return None

    def read(self, path: str, *, max_bytes: int) -> FileContent:
        """Read an ordinary file, or its first `max_bytes` bytes."""
        with self._open_file(path) as (descriptor, found):
            data = read_up_to(descriptor, max_bytes)
            more = len(data) == max_bytes and bool(os.read(descriptor, 1))
        return FileContent(
            data=data,
            size=max(found.st_size, len(data)),
            mode=stat.S_IMODE(found.st_mode),
            mtime_ns=found.st_mtime_ns,
            truncated=more,
        )

    def read_range(self, path: str, *, offset: int, length: int) -> bytes:
        """Read a range of bytes of an ordinary file; fewer if it ends earlier."""
        with self._open_file(path) as (descriptor, _):
            os.lseek(descriptor, offset, os.SEEK_SET)
            return read_up_to(descriptor, length)

    def stat(self, path: str) -> FileStatus | None:
        """Return the status of a path, without following a link at the end; None if it is missing."""
        location = self.locate(path)
        try:
            if not location.relative:
                with self._folder(location) as folder:
                    return to_file_status(os.fstat(folder))
            with self._folder(location, os.path.dirname(location.relative)) as folder:
                name = os.path.basename(location.relative)
                self._refuse_hidden(location, folder, name)
                return to_file_status(os.stat(name, dir_fd=folder, follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(
        self,
        path: str,
        data: bytes,
        *,
        expected: FileVersion | EllipsisType | None = ...,
        place: str | None = None,
        make_parents: bool = True,
    ) -> None:
        """Replace a file atomically, or create it; readers see the old content or the new one, never a part.

        A link at the end is followed: its target is written and the link stays. An existing file keeps its mode.

        Args:
            path: The file.
            data: Its whole new content.
            expected: The version it must still have, or None if it must be missing; by default any.
            place: The path it must resolve to, as `resolve_target` returns it; by default any.
            make_parents: Create missing parent folders.

        Raises:
            ProtectedPath: The change needs approval first.
            FileChanged: The file is not as expected.
        """
        location = self._locate_for_writing(path)
        with self._parent(location, make_parents=make_parents) as (folder, name):
            self._check_protected(location, folder, name)
            if place is not None and _real_path_of(folder, name) != place:
                raise FileChanged(
                    f"{location.display_path!r} now resolves to a different file, so nothing was written; read it again"
                )
            replace_file(folder, name, data, expected, location.display_path)
            self._note_agreed(folder, name)

    def remove(self, path: str) -> None:
        """Remove a file, or a link without following it."""
        location = self._locate_for_writing(path)
        if not location.relative:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), location.display_path)
        with self._folder(location, os.path.dirname(location.relative)) as folder:
            name = os.path.basename(location.relative)
            self._refuse_hidden(location, folder, name, writing=True)
            self._check_protected(location, folder, name)
            if stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), location.display_path)
            os.unlink(name, dir_fd=folder)
            self._note_agreed(folder, name)

    def scan(self, path: str, *, limit: int) -> Iterator[FolderEntry]:
        """List one folder by name, at most `limit` entries; links are listed, not followed."""
        location = self.locate(path)
        with self._folder(location, location.relative, os.O_RDONLY | os.O_DIRECTORY) as folder:
            return islice(iter(list_folder(folder)), limit)

    def walk(self, path: str, *, ignore: IgnoreRules | None, limit: int) -> Iterator[tuple[str, FolderEntry]]:
        """Walk through everything beneath a folder, depth first and by name, with paths that `read` accepts.

        Links are listed, not followed. Leaves out `.git`, and what `ignore` and the ignore files on the way exclude.
        Skips unreadable folders. Yields at most `limit` entries.
        """
        location = self.locate(path)
        with ExitStack() as opened:
            folder = opened.enter_context(self._folder(location, location.relative, os.O_RDONLY | os.O_DIRECTORY))
            root = opened.enter_context(self._folder(location))
            yield from islice(walk_folder(folder, root, location, ignore, self._bounds.hidden), limit)

    def is_protected(self, path: str) -> bool:
        """Return whether a write to this path needs approval, whether or not the path exists."""
        return self._bounds.is_guarded(self._target(self.locate(path)))

    def resolve_target(self, path: str) -> str:
        """Return where a write to this path would go: an absolute path without links."""
        return self._target(self.locate(path))

    def find_link_target(self, path: str) -> str | None:
        """Return where a write to this path would go, if links lead it to another place than the path says."""
        location = self.locate(path)
        target = self._target(location)
        seems = os.path.join(os.path.realpath(location.root), location.relative).rstrip("/")
        if target == seems:
            return None
        inside = os.path.realpath(self.root).rstrip("/") + "/"
        return target.removeprefix(inside)

    def _target(self, location: Location) -> str:
        """Return the absolute path, without links, that a write would create or change."""
        with suppress(FileNotFoundError, NotADirectoryError, IsADirectoryError):
            with self._parent(location, make_parents=False) as (folder, name):
                return _real_path_of(folder, name)
        # The existing part of the path may hold links; the missing part is only names.
        there, missing = location.relative, ""
        while True:
            with suppress(FileNotFoundError, NotADirectoryError):
                with self._folder(location, there) as folder:
                    return _real_path_of(folder, missing)
            if not there:
                raise FileNotFoundError(errno.ENOENT, "the folder itself is missing", location.root)
            there, name = os.path.split(there)
            missing = os.path.join(name, missing) if missing else name

    def _display_path(self, absolute: str, root: str, relative: str) -> str:
        if root == self.root:
            return relative or "."
        for start in (self.root, os.path.realpath(self.root)):
            if absolute.startswith(start.rstrip("/") + "/"):
                return absolute[len(start) :].lstrip("/")
        return absolute

    def _locate_for_writing(self, path: str) -> Location:
        location = self.locate(path)
        if self._read_only:
            raise PermissionError(errno.EACCES, "this session may only read files", location.display_path)
        if location.root not in self._writable:
            raise PermissionError(errno.EACCES, "files in this folder may only be read", location.display_path)
        self._bounds.load_hidden()  # before this write creates a folder that would then look as if it had existed
        return location

    @contextmanager
    def _folder(self, location: Location, relative: str = "", flags: int = FOLDER_ONLY) -> Generator[int]:
        """Open a folder beneath the location's root; errors inside the block name the requested path."""
        with ExitStack() as opened, _translate_errors(location.display_path):
            root = os.open(location.root, FOLDER_ONLY | os.O_CLOEXEC)
            opened.callback(os.close, root)
            if relative or flags != FOLDER_ONLY:
                root = open_beneath(root, relative, flags, whole_disk=location.root == "/")
                opened.callback(os.close, root)
                self._refuse_hidden(location, root)
            yield root

    @contextmanager
    def _open_file(self, path: str) -> Generator[tuple[int, os.stat_result]]:
        location = self.locate(path)
        with self._folder(location) as root:
            # Without O_NONBLOCK, opening a named pipe would block.
            flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
            descriptor = open_beneath(root, location.relative, flags, whole_disk=location.root == "/")
            try:
                self._refuse_hidden(location, descriptor)
                found = os.fstat(descriptor)
                if stat.S_ISDIR(found.st_mode):
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), location.display_path)
                if not stat.S_ISREG(found.st_mode):
                    raise PermissionError(errno.EACCES, "this is not an ordinary file", location.display_path)
                yield descriptor, found
            finally:
                os.close(descriptor)

    @contextmanager
    def _parent(self, location: Location, *, make_parents: bool) -> Generator[tuple[int, str]]:
        """Open the folder of the file, or of a final link's target, and yield it with the name in it."""
        whole_disk = location.root == "/"
        with self._folder(location) as root:
            relative = location.relative
            for _ in range(_MAX_LINKS):
                parent, name = os.path.split(relative.rstrip("/"))
                if name in {"", ".", ".."}:
                    raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), location.display_path)
                with ExitStack() as opened:
                    folder = self._open_parent(location, root, parent, make=make_parents)
                    opened.callback(os.close, folder)
                    try:
                        target = os.readlink(name, dir_fd=folder)
                    except OSError as error:
                        if error.errno not in {errno.EINVAL, errno.ENOENT}:
                            raise
                        self._refuse_hidden(location, folder, name, writing=True)
                        yield folder, name
                        return
                if target.startswith("/") and not whole_disk:
                    raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), location.display_path)
                relative = os.path.join(parent, target).lstrip("/")
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), location.display_path)

    def _open_parent(self, location: Location, root: int, path: str, *, make: bool) -> int:
        whole_disk = location.root == "/"
        try:
            return open_beneath(root, path, FOLDER_ONLY, whole_disk=whole_disk)
        except FileNotFoundError:
            if not make or not path:
                raise
        above, name = os.path.split(path)
        folder = self._open_parent(location, root, above, make=True)
        try:
            self._check_protected(location, folder, name, new_folder=True)
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=folder)
            return open_beneath(folder, name, FOLDER_ONLY | os.O_NOFOLLOW)
        finally:
            os.close(folder)

    def _refuse_hidden(self, location: Location, opened: int, name: str = "", *, writing: bool = False) -> None:
        if self._bounds.hidden and self._bounds.is_hidden(_real_path_of(opened, name), writing=writing):
            raise OutsideWorkspace(f"{location.display_path!r} may hold keys or other secrets, so no tool may use it")

    def _note_agreed(self, folder: int, name: str) -> None:
        """Keep the checks after commands from taking an agreed change for theirs."""
        if self._may_write_protected:
            with suppress(FileNotFoundError):
                accept_change(_real_path_of(folder, name))

    def _check_protected(self, location: Location, folder: int, name: str, *, new_folder: bool = False) -> None:
        if not self._may_write_protected and self._bounds.is_guarded(
            _real_path_of(folder, name), new_folder=new_folder
        ):
            raise ProtectedPath(f"{location.display_path!r} is protected: a person has to agree before it is changed")


def _real_path_of(opened: int, name: str = "") -> str:
    """Return the path of an open folder, or of a name in it, without links."""
    place = descriptor_path(opened)
    if place is None:
        raise FileNotFoundError(errno.ENOENT, "it was moved away just now")
    return os.path.join(place, name) if name else place


@contextmanager
def _translate_errors(display_path: str) -> Generator[None]:
    """Turn the kernel's refusal to leave the root into a sentence; other errors name the path as people know it."""
    try:
        yield
    except OSError as error:
        if error.errno in {errno.EXDEV, errno.ELOOP}:
            raise OutsideWorkspace(
                f"{display_path!r} leads outside of the folders that tools may use, through a link"
            ) from None
        error.filename = display_path
        raise
