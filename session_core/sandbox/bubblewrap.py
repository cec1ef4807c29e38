"""Run programs confined by bubblewrap: turn a plan into its command line, and check whether bubblewrap works here."""

import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Final, Literal

import attrs
import trio

from session_core.sandbox.plan import ResourceLimits, SandboxPlan

_PLACES: Final = "/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin"
"""Never the user's PATH: a project may have put itself there."""
_PATIENCE_SECONDS: Final = 10
_FILTER: Final = "--seccomp"
_NAMESPACE_ERRORS: Final = (
    "to create new namespace",
    "Creating new namespace failed",
    "setting up uid map",
    "RTM_NEWADDR",
)
"""Its errors in containers, and where kernel settings or AppArmor forbid users to create namespaces."""

_TRANSIENT_ERRORS: Final = ("Resource temporarily unavailable", "Cannot allocate memory", "Too many open files")
"""Its errors where the machine is short of something now: whoever uses it up must not take the sandbox away."""

# Shells use different option letters for the number of processes.
_LIMITING: Final = (
    'ulimit -c 0 && ulimit -f "$1" && ulimit -n "$2" && { ulimit -u "$3" 2>/dev/null || ulimit -p "$3"; } &&'
    ' ulimit -d "$4" || exit 126; shift 4; exec "$@"'
)


@attrs.frozen(kw_only=True)
class Bubblewrap:
    """The program that confines others; old versions cannot stop them from creating user namespaces."""

    path: str
    stops_namespaces: bool = True


@attrs.frozen(kw_only=True)
class NoBubblewrap:
    """Programs cannot be confined here.

    Bubblewrap is not installed (`missing`), can never work here (`refused`), or could not be tested, which may change
    the next time (`unknown`).
    """

    reason: str
    kind: Literal["missing", "refused", "unknown"] = attrs.field(default="unknown", eq=False)

    @property
    def is_lasting(self) -> bool:
        """Whether another check would give the same result."""
        return self.kind == "refused"


def sandbox_argv(command: Sequence[str], plan: SandboxPlan, bubblewrap: Bubblewrap) -> list[str]:
    """Return the command line that runs `command` as planned, with exactly the planned environment.

    The environment is part of it because bubblewrap's own is readable from inside, in `/proc/1`. The command line names
    the system call filter by path: before starting it, call `open_filter`, since bubblewrap needs a descriptor.
    """
    return [
        *("/usr/bin/env", "-i"),
        *(f"{name}={value}" for name, value in plan.environment),
        bubblewrap.path,
        *_namespace_options(plan, bubblewrap),
        *((_FILTER, plan.filter_file) if plan.filter_file is not None else ()),
        *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"),
        # bubblewrap leaves kernel settings writable, which a program running as root could use.
        *("--remount-ro", "/proc"),
        *_mount_options(plan),
        *("--chdir", plan.cwd, "--"),
        *_limit_command(command, plan.limits),
    ]


def open_filter(argv: Sequence[str], bubblewrap: str) -> tuple[list[str], int | None]:
    """Open the filter that a command line of `sandbox_argv` names, and replace its path by the descriptor.

    The child must inherit the descriptor, and bubblewrap closes it: nothing inside can reach the file. The caller
    closes it too, after starting the child. The descriptor is None if there is no filter.

    Raises:
        OSError: The filter cannot be opened.
    """
    words = list(argv)
    place = words.index(bubblewrap)
    if _FILTER not in takewhile(lambda word: word != "--", words[place:]):  # the command may have such a word too
        return words, None
    filter_index = words.index(_FILTER, place) + 1
    descriptor = os.open(words[filter_index], os.O_RDONLY | os.O_CLOEXEC)
    words[filter_index] = str(descriptor)
    return words, descriptor


def _namespace_options(plan: SandboxPlan, bubblewrap: Bubblewrap) -> Iterator[str]:
    yield from ("--die-with-parent", "--new-session", "--unshare-user")
    if bubblewrap.stops_namespaces:
        yield "--disable-userns"
    yield from ("--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try")
    if not plan.network:
        yield "--unshare-net"
    yield from ("--cap-drop", "ALL")


def _mount_options(plan: SandboxPlan) -> Iterator[str]:
    """Order the mounts: deeper paths come later; of several rules for one path, the last one here wins."""
    size = str(plan.limits.private_bytes)
    rules: dict[str, tuple[str, ...]] = {}
    rules |= {path: ("--size", size, "--perms", "1777", "--tmpfs", path) for path in plan.private}
    rules |= {path: ("--symlink", target, path) for target, path in plan.links}
    rules |= {path: ("--ro-bind", path, path) for path in plan.visible}
    rules |= {path: ("--bind", path, path) for path in (*plan.writable, *plan.pinned)}
    # One that has vanished fails the start: it is elsewhere now, where nothing would guard it.
    rules |= {path: ("--ro-bind", path, path) for path in plan.protected}
    rules |= {path: ("--perms", "0555", "--tmpfs", path) for path in plan.hidden_folders}
    rules |= {path: ("--ro-bind", "/dev/null", path) for path in plan.hidden_files}
    for path in sorted(rules, key=lambda path: path.split("/")):
        yield from rules[path]
    # At the end, because the mount points of deeper mounts are created in them.
    # What is written to /dev itself would stay in memory without a bound.
    for path in ("/dev", *sorted(plan.hidden_folders)):
        yield from ("--remount-ro", path)


def _limit_command(command: Sequence[str], limits: ResourceLimits) -> list[str]:
    numbers = (
        _lower_to_hard_limit(resource.RLIMIT_FSIZE, limits.file_bytes) // 512,
        _lower_to_hard_limit(resource.RLIMIT_NOFILE, limits.open_files),
        _lower_to_hard_limit(resource.RLIMIT_NPROC, limits.processes),
        _lower_to_hard_limit(resource.RLIMIT_DATA, limits.data_bytes) // 1024,
    )
    return ["/bin/sh", "-c", _LIMITING, "sh", *map(str, numbers), *command]


def _lower_to_hard_limit(which: int, wanted: int) -> int:
    """Return what can be set: nobody but the system's administrator can raise a hard limit."""
    hard = resource.getrlimit(which)[1]
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)


_found: dict[str, Bubblewrap | NoBubblewrap] = {}


async def find_bubblewrap(places: str = _PLACES) -> Bubblewrap | NoBubblewrap:
    """Find bubblewrap and test whether it can confine programs here.

    The result is cached, unless it may change: bubblewrap is not installed, cannot be started, or was too slow just
    now.
    """
    if (known := _found.get(places)) is not None:
        return known
    found = await _test_bubblewrap(places)
    if isinstance(found, Bubblewrap) or found.is_lasting:
        _found[places] = found
    return found


async def _test_bubblewrap(places: str) -> Bubblewrap | NoBubblewrap:
    if sys.platform != "linux":
        return NoBubblewrap(reason="bubblewrap confines programs on Linux only", kind="refused")
    path = await trio.to_thread.run_sync(_find_program, places)
    if path is None:
        reason = "bubblewrap is not installed; install the package called bubblewrap"
        return NoBubblewrap(reason=reason, kind="missing")
    problem = ""
    for stops_namespaces in (True, False):
        candidate = Bubblewrap(path=path, stops_namespaces=stops_namespaces)
        try:
            problem = await _find_problem(candidate)
        except _TestInconclusive as trouble:
            return NoBubblewrap(reason=f"bubblewrap is installed but could not be tried out: {trouble}")
        if not problem:
            return candidate
    return NoBubblewrap(reason=f"bubblewrap is installed but does not work here: {problem}", kind="refused")


class _TestInconclusive(Exception):
    """The test gave no result; the message says why."""


def _find_program(places: str) -> str | None:
    path = shutil.which("bwrap", path=places)
    return os.path.realpath(path) if path is not None else None


def _shorten_reason(said: str) -> str:
    """Return the reason from bubblewrap's error output: its last line, without advice and addresses."""
    line = said.strip().rpartition("\n")[2].removeprefix("bwrap: ").partition(". See <")[0].strip()
    if any(words in line for words in _NAMESPACE_ERRORS):
        return "the system does not let it create namespaces"
    return line[:200]


async def _find_problem(candidate: Bubblewrap) -> str:
    argv = sandbox_argv(["/bin/sh", "-c", "exit 42"], SandboxPlan(cwd="/"), candidate)
    with trio.move_on_after(_PATIENCE_SECONDS):
        try:
            done = await trio.run_process(
                argv, stdin=subprocess.DEVNULL, capture_stdout=True, capture_stderr=True, check=False
            )
        except OSError as error:
            raise _TestInconclusive(error.strerror or "it cannot be started") from error
        if done.returncode == 42:
            return ""
        said = done.stderr.decode("utf-8", "replace")
        passing = next((words for words in _TRANSIENT_ERRORS if words in said), None)
        if passing is not None:
            raise _TestInconclusive(passing)
        return _shorten_reason(said) or f"it ended with {done.returncode}"
    raise _TestInconclusive(f"it did not finish within {_PATIENCE_SECONDS} seconds")
