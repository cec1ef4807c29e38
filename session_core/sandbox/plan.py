"""Plan what a confined program sees: turn a policy and the state of the disk into a plan, a comparable value."""

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from session_core.sandbox.file_values import WorkspaceRefused
from session_core.sandbox.folder_walk import is_beneath
from session_core.sandbox.protected_scan import ProtectedState, find_protected
from session_core.sandbox.secrets import clean_environment, secret_paths

# --- the sockets of other programs, which a confined program must not reach -------------------------------------------
MAX_SOCKETS: Final = 1_000
"""How many can be hidden one by one; bubblewrap accepts nine thousand arguments."""
_ROW: Final = re.compile(r"[0-9a-fA-F]+: (?:\S+ +){5}\S+(?: (.*))?")


class SocketsUnknown(OSError):
    """The system does not list the open sockets."""


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


# --- plan -------------------------------------------------------------------------------------------------------------


class CannotConfine(WorkspaceRefused):
    """No sandbox can enforce this policy; the message says why."""


PRIVATE: Final = ("/tmp", "/var/tmp")  # noqa: S108 - each sandbox gets its own empty ones
_COVERED: Final = ("/run", "/var/run", "/var/lib/docker", "/var/lib/containerd", "/sys/firmware")
_STAYS_VISIBLE: Final = ("/run/current-system", "/run/opengl-driver")
"""Where NixOS keeps its programs."""


@attrs.frozen(kw_only=True)
class ResourceLimits:
    """The resource limits of a program and everything it starts; the number of processes does not limit root."""

    processes: int = 1_024
    file_bytes: int = 4 * 1024**3
    open_files: int = 4_096
    private_bytes: int = 1024**3
    """The size of each private folder for temporary files, in memory."""


@attrs.frozen(kw_only=True)
class SandboxPlan:
    """Everything about one confined run. All paths are absolute and without links.

    Attributes:
        cwd: Where the program starts.
        writable: Folders it may change.
        pinned: Folders that it must not rename, because something protected lies inside.
        protected: Existing paths inside writable folders that it may only read.
        visible: Paths that it may read although they lie in a hidden folder.
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
    hidden: Sequence[str] = (),
    read_only: bool = False,
    network: bool = False,
    protected: bool = True,
    homes: Sequence[str] = (),
    limits: ResourceLimits | None = None,
    filter_file: str | None = None,
    cwd: str | None = None,
) -> SandboxPlan:
    """Read the disk and plan a run in `root`.

    Args:
        root: The folder of the session.
        user_home: The user's home directory, whose secrets are hidden.
        environment: The environment whose harmless part the program inherits.
        writable_roots: Further folders that may be changed.
        readable_roots: Folders that may be read even if they lie in a hidden one.
        hidden: Further paths to hide: the home of session-core.
        read_only: Change nothing but private folders.
        network: Share the network.
        protected: Keep protected things from being changed, at any depth of the writable folders, and the start files
            of home directories in them.
        homes: Further home directories of the user.
        limits: The resource limits.
        filter_file: See `seccomp.write_filter`.
        cwd: Where to start; `root` by default.

    Raises:
        CannotConfine: A root is the whole disk or missing, or there are more sockets than can be hidden.
    """
    writable = () if read_only else tuple(dict.fromkeys(_resolve_folder(path) for path in (root, *writable_roots)))
    readable = tuple(dict.fromkeys(_resolve_folder(path) for path in (root, *readable_roots) if os.path.isdir(path)))
    if "/" in writable:
        raise CannotConfine("the whole disk is open to this session, so there is nothing to confine")
    places = [os.path.realpath(path) for path in hidden]
    covered = tuple(dict.fromkeys(_resolve_folder(path) for path in _COVERED if os.path.isdir(path)))
    secrets = [*secret_paths(user_home), *(path for path in places if os.path.exists(path))]
    visible_roots = (*writable, *readable)
    masked = _drop_covered(
        (*secrets, *_find_open_sockets(covered, visible_roots)), over=(*covered, *PRIVATE), under=visible_roots
    )
    folders = tuple(path for path in masked if os.path.isdir(path))
    before = find_protected(
        writable,
        homes=dict.fromkeys(os.path.realpath(home) for home in (user_home, *homes)),
        left_out={*covered, *folders},
        by_name=protected,
        missing=[path for path in places if not os.path.lexists(path)],
    )
    mounts, pinned = before.mounts()
    visible = [path for path in readable if path not in writable]
    visible += [path for path in _STAYS_VISIBLE if os.path.exists(path)]
    if network and (names := os.path.realpath("/etc/resolv.conf")).startswith(covered) and os.path.exists(names):
        visible.append(names)
    return SandboxPlan(
        cwd=_resolve_folder(cwd) if cwd is not None else _resolve_folder(root),
        writable=writable,
        pinned=pinned,
        protected=mounts,
        visible=tuple(visible),
        hidden_folders=tuple(sorted({*covered, *folders})),
        hidden_files=tuple(sorted(set(masked) - set(folders))),
        network=network,
        environment=tuple(clean_environment(environment).items()),
        limits=limits or ResourceLimits(),
        filter_file=filter_file,
        before=before,
    )


def _find_open_sockets(covered: Sequence[str], visible_roots: Sequence[str]) -> list[str]:
    """Return all sockets that are not in a covered folder; none of them may stay reachable."""
    hiding = (*covered, *PRIVATE)
    try:
        found = [path for path in open_sockets() if not is_beneath(path, hiding) or is_beneath(path, visible_roots)]
    except SocketsUnknown as error:
        raise CannotConfine(error.strerror or str(error)) from error
    if len(found) > MAX_SOCKETS:
        raise CannotConfine(f"other programs listen on {len(found)} sockets, and only {MAX_SOCKETS} can be hidden")
    return found


def _resolve_folder(path: str) -> str:
    real = os.path.realpath(path)
    if not os.path.isdir(real):
        raise CannotConfine(f"{path!r} is not a folder")
    return real


def _drop_covered(paths: Iterable[str], *, over: Sequence[str], under: Sequence[str]) -> list[str]:
    """Drop paths that a hidden folder already hides, unless they lie in a visible folder inside it."""
    remaining: list[str] = []
    for path in sorted(set(paths)):
        hiding = max((len(each) for each in (*over, *remaining) if path.startswith(each + "/")), default=-1)
        showing = max((len(each) for each in under if path.startswith(each + "/")), default=-1)
        if hiding <= showing and path not in over:
            remaining.append(path)
    return remaining


def drop_vanished_files(plan: SandboxPlan) -> SandboxPlan:
    """Drop what is gone by now, such as the socket of a program that has just ended.

    A mount needs an existing mount point, and a vanished socket must not fail a command.
    """
    return attrs.evolve(
        plan,
        protected=tuple(path for path in plan.protected if os.path.lexists(path)),
        pinned=tuple(path for path in plan.pinned if os.path.lexists(path)),
        hidden_files=tuple(path for path in plan.hidden_files if os.path.lexists(path)),
    )
