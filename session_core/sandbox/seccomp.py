"""The system calls that a confined program may not use, as a kernel filter program.

Namespaces hide what is outside; the filter blocks the calls that could break out of them, look into other processes, or
type into the terminal. A refused call fails with an error; the program goes on.
"""

import errno
import fcntl
import os
import platform
import struct
import threading
from pathlib import Path
from typing import Final

from session_core.storage.home import private_open

_SAME_EVERYWHERE: Final = (
    425, 426, 427,  # io_uring_setup, io_uring_enter, io_uring_register
    428, 429, 430, 431, 432, 433, 442,  # open_tree, move_mount, fsopen, fsconfig, fsmount, fspick, mount_setattr
    438,  # pidfd_getfd
)  # fmt: skip
_REFUSED: Final[dict[str, tuple[int, ...]]] = {
    "x86_64": (
        101, 310, 311, 312,  # ptrace, process_vm_readv, process_vm_writev, kcmp
        248, 249, 250,  # add_key, request_key, keyctl
        298, 321, 323,  # perf_event_open, bpf, userfaultfd
        155, 161, 165, 166, 272, 304, 308,  # pivot_root, chroot, mount, umount2, unshare, open_by_handle_at, setns
        163, 167, 168, 169, 175, 176, 179, 246, 313, 320,  # acct, swap, reboot, modules, quotactl, kexec
    ),
    "aarch64": (
        117, 270, 271, 272,
        217, 218, 219,
        241, 280, 282,
        41, 51, 40, 39, 97, 265, 268,
        89, 224, 225, 142, 105, 106, 60, 104, 273, 294,
    ),
}  # fmt: skip
_IOCTL: Final = {"x86_64": 16, "aarch64": 29}
_SOCKET: Final = {"x86_64": 41, "aarch64": 198}
_ARCHITECTURE: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

_TERMINAL_TRICKS: Final = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX put characters into a terminal as if they had been typed."""
_FAMILIES: Final = (1, 2, 10, 16)
"""Unix, IPv4, IPv6, netlink. Others, such as the one to the host of a virtual machine, ignore namespaces."""

_LOAD: Final = 0x20
_EQUAL: Final = 0x15
_AT_LEAST: Final = 0x35
_RETURN: Final = 0x06
_ALLOW: Final = 0x7FFF0000
_FAIL: Final = 0x00050000


def filter_program(machine: str) -> bytes | None:
    """Return the filter for a machine type; None if its call numbers are not known here."""
    if machine not in _ARCHITECTURE:
        return None
    steps = [
        _encode_instruction(_LOAD, 4),
        # Calls of another architecture have other numbers and would bypass the checks below.
        _encode_instruction(_EQUAL, _ARCHITECTURE[machine], 1, 0),
        _encode_instruction(_RETURN, _FAIL | errno.ENOSYS),
        _encode_instruction(_LOAD, 0),
        _encode_instruction(_AT_LEAST, 0x40000000, 0, 1),
        _encode_instruction(_RETURN, _FAIL | errno.ENOSYS),
    ]
    for number in sorted((*_SAME_EVERYWHERE, *_REFUSED[machine])):
        steps += [_encode_instruction(_EQUAL, number, 0, 1), _encode_instruction(_RETURN, _FAIL | errno.EPERM)]
    steps += [
        _encode_instruction(_EQUAL, _IOCTL[machine], 0, 2 + 2 * len(_TERMINAL_TRICKS)),
        _encode_instruction(_LOAD, 24),
    ]
    for number in _TERMINAL_TRICKS:
        steps += [_encode_instruction(_EQUAL, number, 0, 1), _encode_instruction(_RETURN, _FAIL | errno.EPERM)]
    steps += [_encode_instruction(_RETURN, _ALLOW)]
    steps += [_encode_instruction(_EQUAL, _SOCKET[machine], 0, 2 + 2 * len(_FAMILIES)), _encode_instruction(_LOAD, 16)]
    for number in _FAMILIES:
        steps += [_encode_instruction(_EQUAL, number, 0, 1), _encode_instruction(_RETURN, _ALLOW)]
    steps += [_encode_instruction(_RETURN, _FAIL | errno.EAFNOSUPPORT), _encode_instruction(_RETURN, _ALLOW)]
    return b"".join(steps)


def _encode_instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def write_filter(home: Path) -> str | None:
    """Write the filter for this machine to a private file of the home, and return its path; None if there is none."""
    program = filter_program(platform.machine())
    if program is None:
        return None
    target = home / "seccomp.bpf"
    temporary = home / f"seccomp.{os.getpid()}.tmp"
    with os.fdopen(private_open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
        file.write(program)
    os.replace(temporary, target)
    return str(target)


def filter_in_memory() -> str | None:
    """Put the filter for this machine into memory, and return a path with which this process can open it.

    Returns None if there is no filter for this machine.
    """
    program = filter_program(platform.machine())
    return None if program is None else seal_in_memory("commands", program)


def seal_in_memory(name: str, program: bytes) -> str:
    """Put a filter into a sealed file in memory, and return a path with which this process can open it."""
    with _lock:
        if name not in _in_memory:
            with os.fdopen(os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING), "wb", buffering=0) as file:
                file.write(program)
                seals = fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
                fcntl.fcntl(file, fcntl.F_ADD_SEALS, seals)
                _in_memory[name] = os.dup(file.fileno())
    return f"/proc/self/fd/{_in_memory[name]}"


_in_memory: dict[str, int] = {}
"""One descriptor per filter, for the lifetime of this process."""
_lock: Final = threading.Lock()
"""Sandboxes are planned in threads."""
