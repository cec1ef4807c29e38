"""The machine: user and container, sandbox, terminal, Python with its packages, and git."""

import os
import platform
import pwd
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path

import session_core as sc
from frontends.commands.doctor.finding import DoctorFinding, ok, problem, warning
from frontends.server.http import installed
from frontends.server.telemetry import availability
from frontends.shared.streams import StandardStreams

OLDEST_PYTHON = (3, 11)
NEEDED = ("trio", "attrs", "cattrs", "msgspec", "httpx2")
USEFUL = {
    "mcp": "MCP servers cannot be used without it: pip install 'session-core[mcp]'",
    "hypercorn": f"serving over HTTP needs it: {installed.INSTALL}",
}
NARROW = 60


CAP_SYS_ADMIN = 21
NAMESPACE_SETTINGS = {
    "/proc/sys/user/max_user_namespaces": ("0", "sysctl user.max_user_namespaces=15000"),
    "/proc/sys/kernel/unprivileged_userns_clone": ("0", "sysctl kernel.unprivileged_userns_clone=1"),
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": (
        "1",
        "sysctl kernel.apparmor_restrict_unprivileged_userns=0",
    ),
}
"""Kernel settings that forbid user namespaces, with the command that root can run to allow them."""


def check_user(environ: Mapping[str, str], root: Path = Path("/")) -> Iterator[DoctorFinding]:
    """Report which user runs this, and whether in a container."""
    try:
        name = pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        name = f"uid {os.geteuid()} (no user name)"
    where = find_container(environ, root)
    yield ok("user", f"{name}, in a container ({where})" if where else name)


def find_container(environ: Mapping[str, str], root: Path = Path("/")) -> str | None:
    """Return the kind of container that this runs in, if it can be detected; None if there is no sign of one."""
    for name, kind in (("run/.containerenv", "Podman"), (".dockerenv", "Docker")):
        if os.access(root / name, os.F_OK):
            return kind
    with suppress(OSError):
        named = (root / "run/systemd/container").read_text(encoding="utf-8").strip()
        return named if named != "wsl" else None
    if "KUBERNETES_SERVICE_HOST" in environ:
        return "Kubernetes"
    if environ.get("container"):
        return environ["container"]
    if os.geteuid() == 0 and not _has_sys_admin(root):
        return "reduced capabilities"
    return None


def _has_sys_admin(root: Path) -> bool:
    try:
        status = (root / "proc/self/status").read_text(encoding="utf-8")
    except OSError:
        return True  # this is not Linux
    rights = next((line.split()[1] for line in status.splitlines() if line.startswith("CapEff:")), "0")
    return bool(int(rights, 16) >> CAP_SYS_ADMIN & 1)


def sandbox_remedy(environ: Mapping[str, str], root: Path = Path("/")) -> str:
    """Describe how to fix a bubblewrap that is installed but does not work."""
    if find_container(environ, root):
        return (
            "start the container with user namespaces allowed, "
            "or rely on the container as your sandbox: SESSION_CORE_SANDBOX=full_access"
        )
    for path, (value, command) in NAMESPACE_SETTINGS.items():
        with suppress(OSError):
            if (root / path.lstrip("/")).read_text(encoding="utf-8").strip() == value:
                return f"as root: {command}"
    return "enable unprivileged user namespaces on this machine"


async def check_sandbox(environ: Mapping[str, str], mode: str | None = None) -> list[DoctorFinding]:
    """Test whether commands can be sandboxed; `mode` is the sandbox of new sessions."""
    found = await sc.setup.find_bubblewrap()
    if mode == "full_access":
        return [warning("sandbox", "sandbox.mode is full_access: commands run unconfined and unasked in new sessions")]
    if isinstance(found, sc.setup.NoBubblewrap):
        can_be_fixed = found.kind == "refused" and sys.platform == "linux"
        remedy = f"{sandbox_remedy(environ)}; until then" if can_be_fixed else "until then"
        hint = (
            f"{remedy} every command needs your approval, each time; --yes denies it. To have no sandbox on purpose: "
            "--sandbox full-access"
        )
        return [warning("sandbox", f"commands cannot be confined: {found.reason}", hint)]
    findings = [ok("sandbox", f"{found.path} works, with its own namespaces")]
    if not found.stops_namespaces:
        findings = [warning("sandbox", f"{found.path} is old: programs in it can make namespaces", "update bubblewrap")]
    machine = platform.machine()
    if sc.setup.filter_program(machine) is None:
        findings.append(warning("sandbox", f"there is no filter of system calls for {machine}"))
    findings.append(
        ok("sandbox", "Landlock keeps abstract sockets and signals inside as well")
        if sc.setup.has_landlock_scopes()
        else ok(
            "sandbox",
            "Landlock scopes are not available (Linux 6.12 or newer); only namespaces and the system call filter "
            "confine commands",
        )
    )
    findings.append(
        ok("sandbox", "your home directory is hidden except for toolchains and caches; sandbox.readable adds to that")
    )
    return findings


def check_terminal(streams: StandardStreams, environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Check the streams this program writes to."""
    out = streams.out
    if not out.style.symbols:
        hint = "use a UTF-8 locale, as in: export LANG=C.UTF-8"
        yield warning("terminal", f"the encoding is {out.encoding}, so symbols are left out", hint)
    if not out.tty:
        yield ok("terminal", f"the output is not a terminal; encoding {out.encoding}")
        return
    width, height = shutil.get_terminal_size()
    why = " (NO_COLOR is set)" if environ.get("NO_COLOR") else f" (TERM={environ.get('TERM', '')})"
    colours = "with colours" if out.style.colours else f"without colours{why}"
    if width < NARROW:
        yield warning("terminal", f"{width} x {height}, {colours}", f"a width of {NARROW} or more reads better")
    else:
        yield ok("terminal", f"{width} x {height}, {colours}, {out.encoding}")


def check_python() -> Iterator[DoctorFinding]:
    """Check the versions of Python and of this program's packages."""
    version = platform.python_version()
    if sys.version_info[:2] < OLDEST_PYTHON:
        yield problem("python", f"{version} is too old", f"use {'.'.join(map(str, OLDEST_PYTHON))} or newer")
    found = {name: _version(name) for name in (*NEEDED, *USEFUL)}
    missing = [name for name in NEEDED if found[name] is None]
    there = ", ".join(f"{name} {found[name]}" for name in found if found[name] is not None)
    if missing:
        yield problem("python", f"{', '.join(missing)} cannot be found", "install session-core again")
    yield ok("python", f"{version}; session-core {sc.__version__}, {there}")
    for name, why in USEFUL.items():
        if found[name] is None:
            yield warning("python", f"{name} is not installed", why)


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def check_telemetry(environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Check whether a service would send spans, and whether it could."""
    there = availability.is_installed()
    if availability.is_wanted(environ, asked=False):
        named = next(name for name in availability.ENDPOINTS if environ.get(name, "").strip())
        yield (
            ok("telemetry", f"spans are sent, as {named} is set")
            if there
            else warning("telemetry", availability.MISSING)
        )
    else:
        yield ok("telemetry", "off; serve --telemetry sends spans" if there else "off, and not installed")


def check_git(environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Check for git."""
    path = shutil.which("git", path=environ.get("PATH", os.defpath))
    yield ok("git", path) if path else warning("git", "git is not installed", "models often use it: install git")
