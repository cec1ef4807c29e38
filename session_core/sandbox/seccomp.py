"""The system calls that a confined program may not use, as a kernel filter program.

Namespaces hide what is outside; the filter blocks the calls that could break out of them, look into other processes, or
type into the terminal. A refused call fails with an error; the program goes on.

There are two filters: with and without unix sockets. The sockets of other programs cannot all be hidden, because a
socket can be renamed, linked, opened later, or listed only in another network namespace. So the call is refused that
makes a socket which could reach one. Of a pair of connected sockets, each can reach nothing but the other.
"""

import errno
import fcntl
import os
import platform
import struct
import threading
from pathlib import Path
from typing import Final

import attrs

from session_core.storage.private_files import private_open

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
_SOCKET_PAIR: Final = {"x86_64": 53, "aarch64": 199}
_ARCHITECTURE: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}

_TERMINAL_TRICKS: Final = (0x5412, 0x541C)
"""TIOCSTI and TIOCLINUX put characters into a terminal as if they had been typed."""
_UNIX: Final = 1
_FAMILIES: Final = (2, 10, 16)
"""IPv4, IPv6, netlink. Others, such as the one to the host of a virtual machine, ignore namespaces."""
_CONNECTED: Final = (1, 5)
"""Streams and sequenced packets; with the latter, programs in Rust start others."""
_TYPE_BITS: Final = 0xF
"""The part of a socket's type that is not a flag."""

_LOAD: Final = 0x20
_AND: Final = 0x54
_EQUAL: Final = 0x15
_AT_LEAST: Final = 0x35
_RETURN: Final = 0x06
_ALLOW: Final = 0x7FFF0000
_FAIL: Final = 0x00050000

_ARCHITECTURE_OFFSET: Final = 4
_FIRST_ARGUMENT: Final = 16
_SECOND_ARGUMENT: Final = 24
"""Where the kernel puts what a filter may look at; of the arguments, the lower half."""


_Steps = list[bytes]


def filter_program(machine: str, *, sockets: bool = False) -> bytes | None:
    """Return the filter for a machine type, with or without unix sockets; None if its call numbers are unknown here."""
    if machine not in _ARCHITECTURE:
        return None
    steps = [
        _encode_instruction(_LOAD, _ARCHITECTURE_OFFSET),
        # Calls of another architecture have other numbers and would bypass the checks below.
        _encode_instruction(_EQUAL, _ARCHITECTURE[machine], 1, 0),
        _refuse(errno.ENOSYS),
        _encode_instruction(_LOAD, 0),
        _encode_instruction(_AT_LEAST, 0x40000000, 0, 1),
        _refuse(errno.ENOSYS),
    ]
    for number in sorted((*_SAME_EVERYWHERE, *_REFUSED[machine])):
        steps += _if_equal(number, [_refuse(errno.EPERM)])
    steps += _if_equal(_IOCTL[machine], _check_ioctl())
    steps += _if_equal(_SOCKET[machine], _check_socket(sockets=sockets))
    steps += _if_equal(_SOCKET_PAIR[machine], _check_socket_pair(sockets=sockets))
    return b"".join((*steps, _PERMIT))


def _check_ioctl() -> _Steps:
    steps = [_encode_instruction(_LOAD, _SECOND_ARGUMENT)]
    for number in _TERMINAL_TRICKS:
        steps += _if_equal(number, [_refuse(errno.EPERM)])
    return [*steps, _PERMIT]


def _check_socket(*, sockets: bool) -> _Steps:
    steps = [_encode_instruction(_LOAD, _FIRST_ARGUMENT)]
    steps += _if_equal(_UNIX, [_PERMIT if sockets else _refuse(errno.EPERM)])
    for family in _FAMILIES:
        steps += _if_equal(family, [_PERMIT])
    return [*steps, _refuse(errno.EAFNOSUPPORT)]


def _check_socket_pair(*, sockets: bool) -> _Steps:
    """A datagram socket can send to any address, also one of a pair; the others stay connected to each other."""
    of_type = [_encode_instruction(_LOAD, _SECOND_ARGUMENT), _encode_instruction(_AND, _TYPE_BITS)]
    for kind in _CONNECTED:
        of_type += _if_equal(kind, [_PERMIT])
    family = _if_equal(_UNIX, [_PERMIT] if sockets else [*of_type, _refuse(errno.EPERM)])
    return [_encode_instruction(_LOAD, _FIRST_ARGUMENT), *family, _refuse(errno.EAFNOSUPPORT)]


def _if_equal(value: int, steps: _Steps) -> _Steps:
    """Run these steps only if the loaded value is this one."""
    return [_encode_instruction(_EQUAL, value, 0, len(steps)), *steps]


def _refuse(number: int) -> bytes:
    return _encode_instruction(_RETURN, _FAIL | number)


def _encode_instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


_PERMIT: Final = _encode_instruction(_RETURN, _ALLOW)


@attrs.frozen
class FilterFiles:
    """Paths from which this process can open the filters."""

    without_sockets: str
    with_sockets: str

    def choose(self, *, sockets: bool) -> str:
        """Return the filter for a program that may use unix sockets, or may not."""
        return self.with_sockets if sockets else self.without_sockets


def write_filters(home: Path) -> FilterFiles | None:
    """Write the filters for this machine to private files of the home; None if there are none for it."""
    machine = platform.machine()
    if (strict := filter_program(machine)) is None or (lenient := filter_program(machine, sockets=True)) is None:
        return None
    return FilterFiles(_write(home, "seccomp", strict), _write(home, "seccomp-sockets", lenient))


def _write(home: Path, name: str, program: bytes) -> str:
    target = home / f"{name}.bpf"
    temporary = home / f"{name}.{os.getpid()}.tmp"
    with os.fdopen(private_open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
        file.write(program)
    os.replace(temporary, target)
    return str(target)


def filter_in_memory(*, sockets: bool = False) -> str | None:
    """Put a filter for this machine into memory, and return a path with which this process can open it.

    Returns None if there is no filter for this machine.
    """
    program = filter_program(platform.machine(), sockets=sockets)
    return None if program is None else seal_in_memory("commands with sockets" if sockets else "commands", program)


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
