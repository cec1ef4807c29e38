"""What a cell can reach: Python itself and the session's folder, both read-only, and a small in-memory folder.

It uses bubblewrap and the system call filter, like a model's commands, but stricter: nothing else of the disk is
visible, there is no network whatever the session's policy says, nothing can be changed, no program can be started.
A cell that needs any of that calls a tool, which asks for approval where needed.
"""

import os
import platform
import struct
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import attrs
import trio

from session_core import limits
from session_core.processes.child import Launch
from session_core.protocols.code.worker_process import BOOT
from session_core.protocols.execution import Execution
from session_core.sandbox.bubblewrap import Bubblewrap, NoBubblewrap, find_bubblewrap, sandbox_argv
from session_core.sandbox.file_values import WorkspaceRefused
from session_core.sandbox.folder_walk import is_beneath
from session_core.sandbox.plan import ResourceLimits, SandboxPlan, drop_vanished_files, plan_sandbox
from session_core.sandbox.seccomp import filter_program, seal_in_memory
from session_core.sandbox.secrets import clean_environment, home_folders, own_places

_PYTHON_FLAGS: Final = ("-S", "-s", "-P", "-B", "-X", "utf8")
"""No packages, no folder of the user, nothing from the working folder."""
_ENVIRONMENT: Final = {"PYTHONHASHSEED": "0"}
"""Otherwise each process would serialise a set of strings differently."""
_PASSED_ON: Final = ("LANG", "LC_ALL", "LC_CTYPE", "TZ")
_SYSTEM: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")
_SYSTEM_FILES: Final = ("/etc/ld.so.cache", "/etc/localtime", "/etc/alternatives")
_WHOLE_DISK: Final = ("--ro-bind", "/", "/")
_PROCESSES: Final = 256
_NO_FOLDER: Final = "/usr"
"""Replaces the session's folder where that must not be visible: it exists anyway."""
_OWN_FOLDER: Final = "/tmp"  # noqa: S108 - in memory, and its own


class CannotRunCells(Exception):
    """There is no safe way to run cells here; the message says why, and what to do."""


async def plan_launch(execution: Execution) -> Launch:
    """Return how to start the process that runs cells; changes nothing.

    If reading the session's files needs approval (not `may_read`), the session's folder is not visible, and the process
    starts in a folder of its own. If no sandbox can be made at all, it runs without one if a person has approved that
    (`unconfined`).

    Raises:
        CannotRunCells: The policy requires a sandbox, and none can be made.
    """
    environment = _environment()
    command = (_python_path(), *_PYTHON_FLAGS, "-c", BOOT)
    cwd = execution.cwd
    found = await find_bubblewrap() if execution.sandbox.mode != "full_access" else None
    if found is None or (execution.unconfined and isinstance(found, NoBubblewrap)):
        return Launch(argv=command, cwd=cwd, env=environment)
    if isinstance(found, NoBubblewrap):
        raise CannotRunCells(f"code cannot be confined here: {found.reason}, and nobody agreed to run it unconfined")
    try:
        folder = cwd if execution.may_read else _NO_FOLDER
        argv = await trio.to_thread.run_sync(build_confined_argv, command, folder, execution.hidden, environment, found)
    except WorkspaceRefused as error:
        raise CannotRunCells(f"code cannot be confined here: {error}") from error
    return Launch(argv=argv, cwd=cwd, env=environment, bubblewrap=found.path)


def build_confined_argv(
    command: Sequence[str], cwd: str, hidden: Sequence[str], environment: dict[str, str], bubblewrap: Bubblewrap
) -> list[str]:
    """Return the command line that runs a program in the sandbox of cells; raises `WorkspaceRefused`."""
    system = tuple(dict.fromkeys((*_SYSTEM, sys.base_prefix, sys.base_exec_prefix)))
    plan = plan_sandbox(
        cwd,
        user_home=str(Path.home()),
        environment={},
        readable_roots=system,
        hidden=(*hidden, *own_places()),
        read_only=True,
        homes=home_folders(),
        show_toolchains=False,
        limits=ResourceLimits(
            processes=_PROCESSES, file_bytes=limits.CELL_FILE_BYTES, private_bytes=limits.CELL_FILE_BYTES
        ),
        filter_file=_filter_path(),
    )
    plan = drop_vanished_files(_narrow_plan(plan, environment))
    argv = sandbox_argv(command, plan, bubblewrap)
    place = next(index for index in range(len(argv)) if tuple(argv[index : index + 3]) == _WHOLE_DISK)
    argv[place : place + 3] = _root_arguments()
    end = argv.index("--chdir")
    if cwd == _NO_FOLDER:
        argv[end + 1] = _OWN_FOLDER
    argv[end:end] = ["--remount-ro", "/"]
    return argv


def _narrow_plan(plan: SandboxPlan, environment: dict[str, str]) -> SandboxPlan:
    """Leave out what need not be hidden, as it is not visible anyway."""
    visible = plan.visible
    return attrs.evolve(
        plan,
        links=(),
        private=(_OWN_FOLDER,),
        hidden_folders=tuple(path for path in plan.hidden_folders if is_beneath(path, visible)),
        hidden_files=tuple(path for path in plan.hidden_files if is_beneath(path, visible)),
        environment=tuple(sorted(environment.items())),
    )


def _root_arguments() -> list[str]:
    """Return the arguments for an empty root with what every program needs."""
    words: list[str] = []
    for path in _SYSTEM:
        if Path(path).is_symlink():
            words += ["--symlink", str(Path(path).readlink()), path]
    for path in _SYSTEM_FILES:
        words += ["--ro-bind-try", path, path]
    return words


def _python_path() -> str:
    """Return the interpreter outside of any virtual environment."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


def _environment() -> dict[str, str]:
    ours = clean_environment(os.environ)
    inherited = {name: ours[name] for name in _PASSED_ON if name in ours}
    return {**inherited, **_ENVIRONMENT, "HOME": _OWN_FOLDER, "PATH": "/usr/bin:/bin", "TMPDIR": _OWN_FOLDER}


# --- no programs, no sockets, no memory besides its own ---------------------------------------------------------------

_CALLS: Final = {
    "x86_64": (0xC000003E, 56, (41, 57, 58, 29, 64, 68, 319, 447)),
    "aarch64": (0xC00000B7, 220, (198, 194, 190, 186, 279, 447)),
}
"""The architecture, the number of `clone`, and those of `socket`, `fork`, `vfork`, `shmget`, `semget`, `msgget`,
`memfd_create` and `memfd_secret`."""
_CLONE3: Final = 435
_CLONE_THREAD: Final = 0x00010000
_REFUSED: Final = 0x00050001
"""The call fails with EPERM."""
_UNKNOWN: Final = 0x00050026
"""The call fails with ENOSYS: libraries then use `clone`, whose flags the filter can check."""


def cell_filter(machine: str) -> bytes | None:
    """Return the system call filter for cells: that of all sandboxed programs, minus processes, sockets, shared memory.

    Threads and socket pairs are allowed. Without processes there are no fork bombs, and nothing outlives a cell.
    Without sockets a cell cannot reach one that another program has opened in the folder. Memory that belongs to a
    file, or to no process, is not counted as the process's own: a cell could use all the memory of the machine.
    """
    common = filter_program(machine)
    if common is None or machine not in _CALLS:
        return common
    architecture, clone, refused = _CALLS[machine]
    checks = [_encode_step(0x20, 0)]  # load the number of the call
    for number in refused:
        checks += [_encode_step(0x15, number, 0, 1), _encode_step(0x06, _REFUSED)]
    checks += [_encode_step(0x15, _CLONE3, 0, 1), _encode_step(0x06, _UNKNOWN)]
    checks += [
        _encode_step(0x15, clone, 0, 3),
        _encode_step(0x20, 16),  # load the flags
        _encode_step(0x45, _CLONE_THREAD, 1, 0),
        _encode_step(0x06, _REFUSED),
    ]
    # For another architecture, all of it is skipped; the common part refuses that.
    before = [_encode_step(0x20, 4), _encode_step(0x15, architecture, 0, len(checks))]
    return b"".join((*before, *checks, common))


def _encode_step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _filter_path() -> str | None:
    """Return a path through which children of this process open the filter."""
    program = cell_filter(platform.machine())
    return None if program is None else seal_in_memory("cells", program)
