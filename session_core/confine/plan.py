"""Decide what a confined program sees: a look at the disk turns a policy into a plan, a value that can be compared."""

import fcntl
import os
import stat
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from typing import Final

import attrs

from session_core.confine.contents import WorkspaceRefused
from session_core.confine.protected import PROTECTED
from session_core.confine.secrets import clean_environment, open_sockets, secret_paths

PRIVATE: Final = ("/tmp", "/var/tmp")  # noqa: S108 - each sandbox gets empty ones of its own
_COVERED: Final = ("/run", "/var/run", "/var/lib/docker", "/var/lib/containerd", "/sys/firmware")
_STAYS_VISIBLE: Final = ("/run/current-system", "/run/opengl-driver")
"""Where one system keeps its programs."""


class CannotConfine(WorkspaceRefused):
    """No sandbox can keep what this policy promises; the message says why."""


@attrs.frozen(kw_only=True)
class ResourceLimits:
    """What a program and all that it starts may use up; the number of processes does not bind root."""

    processes: int = 1_024
    file_bytes: int = 4 * 1024**3
    open_files: int = 4_096
    private_bytes: int = 1024**3
    """The size of each of its private folders for temporary files, which are in memory."""


@attrs.frozen(kw_only=True)
class SandboxPlan:
    """Everything about one confined run. All paths are absolute and without links.

    Attributes:
        cwd: Where the program starts.
        writable: Folders it may change.
        pinned: Folders that it must not rename, for something protected lies inside of them.
        protected: Paths inside of writable folders that are there and that it may only read.
        missing: The same, but not there; an empty folder that cannot be changed takes their place.
        visible: Paths that it may read although they lie in a hidden folder.
        private: Empty folders of its own, in memory.
        hidden_folders: Folders that it sees empty.
        hidden_files: Files that it sees empty.
        network: Whether it shares the network.
        environment: All variables that it gets.
        limits: What it may use up.
        filter_file: A file with the filter for system calls.
    """

    cwd: str
    writable: tuple[str, ...] = ()
    pinned: tuple[str, ...] = ()
    protected: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    visible: tuple[str, ...] = ()
    private: tuple[str, ...] = PRIVATE
    hidden_folders: tuple[str, ...] = ()
    hidden_files: tuple[str, ...] = ()
    network: bool = False
    environment: tuple[tuple[str, str], ...] = ()
    limits: ResourceLimits = ResourceLimits()
    filter_file: str | None = None


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
    protected: Sequence[str] = PROTECTED,
    limits: ResourceLimits | None = None,
    filter_file: str | None = None,
    cwd: str | None = None,
) -> SandboxPlan:
    """Look at the disk and plan a run in `root`.

    Args:
        root: The folder of the session.
        user_home: The user's home directory, whose secrets are hidden.
        environment: Of which the harmless part is handed on.
        writable_roots: Further folders that may be changed.
        readable_roots: Folders that may be read even if they lie in a hidden one.
        hidden: Further paths to hide: the home of session-core.
        read_only: Change nothing but private folders.
        network: Share the network.
        protected: Paths beneath each writable folder that stay as they are, whether they exist or not.
        limits: What it may use up.
        filter_file: See `seccomp.write_filter`.
        cwd: Where to start; `root` when left out.

    Raises:
        CannotConfine: A root is the whole disk or missing, or a protected path is a link, which could be replaced.
    """
    writable = () if read_only else tuple(dict.fromkeys(_real(path) for path in (root, *writable_roots)))
    readable = tuple(dict.fromkeys(_real(path) for path in (root, *readable_roots) if os.path.isdir(path)))
    if "/" in writable:
        raise CannotConfine("the whole disk is open to this session, so there is nothing to confine")
    guarded = _Guarded()
    for each in writable:
        for path in protected:
            guarded.add(each, path)
    covered = tuple(dict.fromkeys(_real(path) for path in _COVERED if os.path.isdir(path)))
    secrets = [*secret_paths(user_home), *(os.path.realpath(path) for path in hidden if os.path.exists(path))]
    masked = _uncovered((*secrets, *open_sockets()), over=(*covered, *PRIVATE), under=(*writable, *readable))
    folders = tuple(path for path in masked if os.path.isdir(path))
    visible = [path for path in readable if path not in writable]
    visible += [path for path in _STAYS_VISIBLE if os.path.exists(path)]
    if network and (names := os.path.realpath("/etc/resolv.conf")).startswith(covered) and os.path.exists(names):
        visible.append(names)
    return SandboxPlan(
        cwd=_real(cwd) if cwd is not None else _real(root),
        writable=writable,
        pinned=guarded.pinned(),
        protected=tuple(sorted(guarded.present)),
        missing=tuple(sorted(guarded.missing)),
        visible=tuple(visible),
        hidden_folders=tuple(sorted({*covered, *folders})),
        hidden_files=tuple(sorted(set(masked) - set(folders))),
        network=network,
        environment=tuple(clean_environment(environment).items()),
        limits=limits or ResourceLimits(),
        filter_file=filter_file,
    )


class _Guarded:
    """The protected paths of all roots, sorted by what has to be done about them."""

    def __init__(self) -> None:
        self.present: set[str] = set()
        self.missing: set[str] = set()
        self._above: set[str] = set()

    def add(self, root: str, path: str) -> None:
        place = root
        names = [name for name in os.path.normpath(path).split("/") if name not in {"", "."}]
        for number, name in enumerate(names, start=1):
            place = os.path.join(place, name)
            try:
                found = os.lstat(place)
            except FileNotFoundError:
                self.missing.add(place)
                return
            if stat.S_ISLNK(found.st_mode):
                raise CannotConfine(f"{place!r} is protected but a link, which a program could replace")
            if number == len(names):
                # An empty folder may be the stand-in of another run, which must not vanish before we end.
                empty = stat.S_ISDIR(found.st_mode) and not os.listdir(place)
                (self.missing if empty else self.present).add(place)
            elif stat.S_ISDIR(found.st_mode):
                self._above.add(place)
            else:
                self.present.add(place)
                return

    def pinned(self) -> tuple[str, ...]:
        return tuple(sorted(self._above - self.present - self.missing))


def _real(path: str) -> str:
    real = os.path.realpath(path)
    if not os.path.isdir(real):
        raise CannotConfine(f"{path!r} is not a folder")
    return real


def _uncovered(paths: Iterable[str], *, over: Sequence[str], under: Sequence[str]) -> list[str]:
    """Leave out what a hidden folder hides already, unless it lies in a folder that is shown inside of that one."""
    left: list[str] = []
    for path in sorted(set(paths)):
        hiding = max((len(each) for each in (*over, *left) if path.startswith(each + "/")), default=-1)
        showing = max((len(each) for each in under if path.startswith(each + "/")), default=-1)
        if hiding <= showing and path not in over:
            left.append(path)
    return left


def without_vanished(plan: SandboxPlan) -> SandboxPlan:
    """Leave out hidden files that are gone by now, such as the socket of a program that has ended meanwhile.

    Nothing can be mounted on what is not there, and one socket less on the machine must not fail a command.
    """
    return attrs.evolve(plan, hidden_files=tuple(path for path in plan.hidden_files if os.path.lexists(path)))


@contextmanager
def hold_places(plan: SandboxPlan) -> Generator[None]:
    """Make the stand-ins for missing protected paths, and take them away when no run needs them any more.

    They have to be on the disk, for nothing can be mounted on what is not there. Folders, because git does not see
    empty ones. A lock on each keeps other runs, of other processes too, from taking it away under this one: the kernel
    would take the mount away with it.
    """
    with ExitStack() as held:
        for path in plan.missing:
            with suppress(FileExistsError):
                os.mkdir(path, 0o755)
                _made_here.add(path)
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            except OSError:
                raise CannotConfine(f"{path!r} is protected and was made just now; try again") from None
            held.callback(_give_up, path, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_SH)
        yield


_made_here: set[str] = set()
"""Stand-ins that this process has made; those of people and of other processes are not ours to take away."""


def _give_up(path: str, descriptor: int) -> None:
    try:
        if path in _made_here:
            with suppress(OSError):  # another run holds it, or somebody has put something into it
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _made_here.discard(path)
                os.rmdir(path)
    finally:
        os.close(descriptor)
