"""Plan what a confined program sees: turn a policy and the state of the disk into a plan, a comparable value."""

import functools
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import attrs

from session_core.sandbox.file_values import WorkspaceRefused
from session_core.sandbox.folder_walk import is_beneath
from session_core.sandbox.home_directory import find_named_places, view_home
from session_core.sandbox.open_sockets import SocketsUnknown, TooManySockets, cover_sockets, open_sockets
from session_core.sandbox.protected_scan import ProtectedState, find_protected
from session_core.sandbox.secrets import clean_environment, find_secrets, resolve_existing


class CannotConfine(WorkspaceRefused):
    """No sandbox can enforce this policy; the message says why."""


PRIVATE: Final = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - each sandbox gets its own empty ones
_OWN: Final = (*PRIVATE, "/dev", "/proc")
"""Nothing of these is shared with a sandbox."""
_COVERED: Final = ("/run", "/var/run", "/var/lib/docker", "/var/lib/containerd", "/sys/firmware")
_STAYS_VISIBLE: Final = ("/run/current-system", "/run/opengl-driver")
"""Where NixOS keeps its programs."""


@functools.cache
def default_data_bytes() -> int:
    """Return how much memory one process may have: enough for any build, but not all that the machine has."""
    try:
        installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return _LEAST_DATA_BYTES
    return max(_LEAST_DATA_BYTES, installed * 3 // 4)


_LEAST_DATA_BYTES: Final = 4 * 1024**3
"""Node and Java, which start more threads and larger heaps than others, need some of it on any machine."""


@attrs.frozen(kw_only=True)
class ResourceLimits:
    """The resource limits of a program and everything it starts; the number of processes does not limit root."""

    processes: int = 1_024
    file_bytes: int = 4 * 1024**3
    open_files: int = 4_096
    private_bytes: int = 1024**3
    """The size of each private folder for temporary files, in memory."""
    data_bytes: int = attrs.field(factory=default_data_bytes)
    """The memory of each process, without what it shares with others."""


@attrs.frozen(kw_only=True)
class SandboxPlan:
    """Everything about one confined run. All paths are absolute and without links.

    Attributes:
        cwd: Where the program starts.
        writable: Folders it may change.
        pinned: Folders that it must not rename, because something protected lies inside.
        protected: Existing paths inside writable folders that it may only read.
        visible: Paths that it may read although they lie in a hidden folder.
        links: Links in hidden folders that lead to visible paths, as (target, path).
        private: Its own empty folders, in memory.
        hidden_folders: Folders that it sees empty.
        hidden_files: Files that it sees empty.
        network: Whether it shares the network.
        environment: All its variables.
        limits: Its resource limits.
        filter_file: A file with the system call filter.
        before: Everything protected as it was found, to compare with after the run (`guard`).
    """

    cwd: str
    writable: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    visible: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    private: tuple[str, ...] = PRIVATE
    hidden_folders: tuple[str, ...] = ()
    hidden_files: tuple[str, ...] = ()
    network: bool = False
    environment: tuple[tuple[str, str], ...] = ()
    limits: ResourceLimits = ResourceLimits()
    filter_file: str | None = None
    before: ProtectedState = attrs.field(factory=ProtectedState, eq=False, repr=False)


def plan_sandbox(
    root: str,
    *,
    user_home: str,
    environment: Mapping[str, str],
    writable_roots: Sequence[str] = (),
    readable_roots: Sequence[str] = (),
    readable: Sequence[str] = (),
    hidden: Sequence[str] = (),
    read_only: bool = False,
    network: bool = False,
    sockets: bool = False,
    protected: bool = True,
    homes: Sequence[str] = (),
    show_toolchains: bool = True,
    limits: ResourceLimits | None = None,
    filter_file: str | None = None,
    cwd: str | None = None,
) -> SandboxPlan:
    """Read the disk and plan a run in `root`.

    Args:
        root: The folder of the session.
        user_home: The user's home directory, which is hidden except for what builds need.
        environment: The environment whose harmless part the program inherits.
        writable_roots: Further folders that may be changed.
        readable_roots: Folders that may be read even if they lie in a hidden one.
        readable: Files and folders that the person has made readable.
        hidden: Further paths to hide: the home of session-core.
        read_only: Change nothing but private folders.
        network: Share the network.
        sockets: It may use unix sockets. `filter_file` must fit; without a filter, it may in any case.
        protected: Keep protected things from being changed, at any depth of the writable folders, and the start files
            of home directories in them.
        homes: Further home directories of the user.
        show_toolchains: Show what builds need of the home directories.
        limits: The resource limits.
        filter_file: See `seccomp.write_filters`.
        cwd: Where to start; `root` by default.

    Raises:
        CannotConfine: A root is the whole disk or missing, there are more sockets than can be hidden, or so many new
            folders that protected things among them are no longer found.
    """
    writable = () if read_only else tuple(dict.fromkeys(_resolve_folder(path) for path in (root, *writable_roots)))
    read_roots = tuple(dict.fromkeys(_resolve_folder(path) for path in (root, *readable_roots) if os.path.isdir(path)))
    if "/" in writable:
        raise CannotConfine("the whole disk is open to this session, so there is nothing to confine")
    all_homes = tuple(dict.fromkeys(os.path.realpath(home) for home in (user_home, *homes)))
    places = [os.path.realpath(path) for path in hidden]
    covered = tuple(dict.fromkeys(_resolve_folder(path) for path in _COVERED if os.path.isdir(path)))

    roots = (*writable, *read_roots)
    added = tuple(place for place in resolve_existing(readable) if not is_beneath(place, places))
    secrets = find_secrets(all_homes, environment, added)
    views = [
        view_home(
            home,
            roots=roots,
            readable=[path for path in readable if os.path.realpath(path) in added],
            named=find_named_places(environment),
            secrets=(*secrets, *places),
            show_toolchains=show_toolchains,
        )
        for home in all_homes
        if os.path.isdir(home)
    ]
    at_home = [path for view in views for path in view.hidden]
    masks = (*at_home, *secrets, *(path for path in places if os.path.exists(path)))
    visible = dict.fromkeys(path for path in read_roots if path not in writable)
    for path in sorted({*added, *(path for view in views for path in view.visible)}):
        if _depth(path, (*covered, *PRIVATE, *masks)) > _depth(path, (*roots, *visible), or_equal=True):
            visible[path] = None
    visible |= dict.fromkeys(path for view in views for path in view.read_only if path not in roots)
    visible |= dict.fromkeys(path for path in _STAYS_VISIBLE if os.path.exists(path))
    if network and (names := os.path.realpath("/etc/resolv.conf")).startswith(covered) and os.path.exists(names):
        visible[names] = None
    under = (*roots, *visible)
    found = _find_open_sockets((*covered, *_OWN, *at_home), under, filtered=filter_file is not None and not sockets)
    masked = _drop_covered((*masks, *found), over=(*covered, *PRIVATE), under=under)
    folders = tuple(path for path in masked if os.path.isdir(path))
    before = find_protected(
        writable,
        homes=all_homes,
        # A root may lie in a hidden folder itself, and is seen nevertheless.
        left_out={path for path in (*covered, *folders) if is_beneath(path, writable)},
        by_name=protected,
        missing=[path for path in places if not os.path.lexists(path)],
    )
    if before.cut_short:
        raise CannotConfine(
            "the session's folder could be searched for protected files to its end before, and now "
            f"{before.incomplete}; remove some of its folders, or run the command with change_protected, about which "
            "the user is asked"
        )
    mounts, pinned = before.mounts()
    return SandboxPlan(
        cwd=_resolve_folder(cwd) if cwd is not None else _resolve_folder(root),
        writable=writable,
        pinned=pinned,
        protected=mounts,
        visible=tuple(visible),
        links=tuple(
            link
            for view in views
            for link in view.links
            if _depth(link[1], view.hidden) > _depth(link[1], under, or_equal=True)
        ),
        hidden_folders=tuple(sorted({*covered, *folders})),
        hidden_files=tuple(sorted(set(masked) - set(folders))),
        network=network,
        environment=tuple(clean_environment(environment).items()),
        limits=limits or ResourceLimits(),
        filter_file=filter_file,
        before=before,
    )


def _find_open_sockets(hiding: Sequence[str], visible: Sequence[str], *, filtered: bool) -> list[str]:
    """Return what hides all sockets that no hidden folder hides already; none of them may stay reachable."""
    try:
        found = [path for path in open_sockets() if not is_beneath(path, hiding) or is_beneath(path, visible)]
        return cover_sockets(found, visible, filtered=filtered)
    except (SocketsUnknown, TooManySockets) as error:
        raise CannotConfine(getattr(error, "strerror", None) or str(error)) from error


def _resolve_folder(path: str) -> str:
    real = os.path.realpath(path)
    if not os.path.isdir(real):
        raise CannotConfine(f"{path!r} is not a folder")
    return real


def _drop_covered(paths: Iterable[str], *, over: Sequence[str], under: Sequence[str]) -> list[str]:
    """Drop paths that a hidden folder already hides, unless they lie in a visible folder inside it."""
    remaining: list[str] = []
    for path in sorted(set(paths)):
        if _depth(path, (*over, *remaining)) <= _depth(path, under) and path not in over:
            remaining.append(path)
    return remaining


def _depth(path: str, folders: Iterable[str], *, or_equal: bool = False) -> int:
    """Return the path length of the innermost of these folders around a path; negative if there is none."""
    around = (
        folder for folder in folders if path.startswith(folder.rstrip("/") + "/") or (or_equal and path == folder)
    )
    return max(map(len, around), default=-1)


def drop_vanished_files(plan: SandboxPlan) -> SandboxPlan:
    """Drop what need not be hidden as it is gone by now, such as the socket of a program that has just ended.

    A mount needs an existing mount point, and a vanished socket must not fail a command. What is protected is never
    dropped: it may have been renamed, and would be writable at its new place.
    """
    return attrs.evolve(plan, hidden_files=tuple(path for path in plan.hidden_files if os.path.lexists(path)))


def is_outdated(plan: SandboxPlan) -> bool:
    """Return whether something protected is no longer where it was, so that its mount would guard something else."""
    items = plan.before.items
    for path in (*plan.protected, *plan.pinned):
        try:
            found = os.lstat(path)
        except OSError:
            return True
        if path in items and items[path].identity != (found.st_dev, found.st_ino):
            return True
    return False
