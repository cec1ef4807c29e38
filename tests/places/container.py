"""Give up what a plain container does not have, and run a command: `container.py [--only-capabilities] COMMAND...`.

Container engines start programs as root with a short list of capabilities and a filter of system calls that refuses
namespaces, mounts and ptrace. So bubblewrap may be installed there, and can confine nothing. With
`--only-capabilities` the filter is left out: root is weaker, but an unprivileged user namespace can still be made.

This file uses the standard library alone: it runs before anything is installed. It needs root, and Linux on x86_64 or
aarch64.
"""

import ctypes
import errno
import os
import platform
import struct
import sys

KEPT_CAPABILITIES = (0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 27, 29, 31)
"""What Docker keeps: chown, dac_override, fowner, fsetid, kill, setgid, setuid, setpcap, net_bind_service, net_raw,
sys_chroot, mknod, audit_write, setfcap."""
LAST_CAPABILITY = 63

NEW_NAMESPACE = 0x7E020000
"""CLONE_NEWUSER, NEWPID, NEWNET, NEWIPC, NEWUTS, NEWCGROUP and NEWNS."""
CLONE3 = 435
ARCHITECTURES = {
    # the number of the architecture, of clone, and of the refused calls: unshare, mount, umount2, pivot_root, setns,
    # ptrace, keyctl, bpf, userfaultfd, perf_event_open
    "x86_64": (0xC000003E, 56, (272, 165, 166, 155, 308, 101, 250, 321, 323, 298)),
    "aarch64": (0xC00000B7, 220, (97, 40, 39, 41, 268, 117, 219, 280, 282, 241)),
}
REFUSED_EVERYWHERE = (428, 429, 430, 431, 432, 433, 442)
"""open_tree, move_mount, fsopen, fsconfig, fsmount, fspick, mount_setattr"""

LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
ALLOW, FAIL = 0x7FFF0000, 0x00050000
PR_SET_SECCOMP, SECCOMP_MODE_FILTER, PR_CAPBSET_DROP = 22, 2, 24


class Program(ctypes.Structure):
    """What the kernel calls `sock_fprog`."""

    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def filter_steps(machine: str) -> list[bytes]:
    """Return the filter of a container engine for this kind of machine, one instruction each."""
    architecture, clone, refused = ARCHITECTURES[machine]
    steps = [step(LOAD, 4), step(EQUAL, architecture, 1, 0), step(RETURN, ALLOW), step(LOAD, 0)]
    for number in (*refused, *REFUSED_EVERYWHERE):
        steps += [step(EQUAL, number, 0, 1), step(RETURN, FAIL | errno.EPERM)]
    # The flags of clone3 lie in memory, where no filter can look; libraries then use clone.
    steps += [step(EQUAL, CLONE3, 0, 1), step(RETURN, FAIL | errno.ENOSYS)]
    steps += [step(EQUAL, clone, 0, 3), step(LOAD, 16), step(ANY_BIT, NEW_NAMESPACE, 0, 1)]
    return [*steps, step(RETURN, FAIL | errno.EPERM), step(RETURN, ALLOW)]


def step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    """Return one instruction of a filter."""
    return struct.pack("=HBBI", code, if_true, if_false, value)


def why_not() -> str | None:
    """Say why this cannot be done here; None if it can."""
    if sys.platform != "linux" or platform.machine() not in ARCHITECTURES:
        return "this needs Linux on x86_64 or aarch64"
    if os.geteuid() != 0:
        return "this needs root, to drop capabilities and install a seccomp filter"
    return None


def drop_privileges(*, with_filter: bool) -> None:
    """Drop the privileges for this process and its children; the capabilities go at the next exec."""
    libc = ctypes.CDLL(None, use_errno=True)
    if with_filter:
        steps = filter_steps(platform.machine())
        program = Program(len(steps), b"".join(steps))
        if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program)) != 0:
            raise OSError(ctypes.get_errno(), "the filter was refused")
    for number in range(LAST_CAPABILITY + 1):
        if number not in KEPT_CAPABILITIES:
            libc.prctl(PR_CAPBSET_DROP, number, 0, 0, 0)  # fails for those that this kernel does not know


def main() -> None:
    """Drop the privileges and run the command."""
    command = sys.argv[1:]
    with_filter = command[:1] != ["--only-capabilities"]
    command = command if with_filter else command[1:]
    if not command:
        sys.exit(__doc__)
    if (reason := why_not()) is not None:
        sys.exit(reason)
    drop_privileges(with_filter=with_filter)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
