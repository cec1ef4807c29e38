"""How an extension's process is started: command line, environment, sandbox.

The files are checked at each start, because a restart happens when nobody is looking: what runs is what a person agreed
to. The environment is empty except for a few harmless variables and those that the manifest sets. The programs that set
up a sandbox see none of it: a variable such as LD_PRELOAD would make them run foreign code outside.
"""

import errno
import hashlib
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import attrs
import trio

from session_core.errors import SessionCoreError
from session_core.sandbox.bubblewrap import Bubblewrap, NoBubblewrap, find_bubblewrap, sandbox_argv
from session_core.sandbox.file_values import WorkspaceRefused
from session_core.sandbox.folder_walk import is_beneath
from session_core.sandbox.plan import PRIVATE, SandboxPlan, drop_vanished_files, plan_sandbox
from session_core.sandbox.seccomp import filter_in_memory
from session_core.sandbox.secrets import hidden_places, home_folders
from session_core.sep.host.catalogue.consent import digest_of
from session_core.sep.host.catalogue.discovery import DiscoveredExtension
from session_core.sep.protocol.manifest import SandboxSpec

Confine = Literal["manifest", "always", "never"]
"""Which extensions run in a sandbox: those whose manifest has a `[sandbox]`, all of them, or none."""

PASSED_ON: Final = ("PATH", "HOME", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR", "TERM", "SystemRoot")
"""Variables of ours that an extension inherits."""
_DEFAULT_PATH: Final = "/usr/local/bin:/usr/bin:/bin"
_CLEAR: Final = ("/usr/bin/env", "-i")
"""The beginning of a sandbox's command line."""
_REFERENCE: Final = re.compile(r"\$\{env:([^}]*)\}")


_LASTING: Final = frozenset({errno.ENOENT, errno.EACCES, errno.ENOEXEC})
"""System errors that another attempt would meet again."""
_NOT_PINNED: Final = ".git"
_BETWEEN_PATHS: Final = re.compile(r"[\s=:;,\"']+")


class LaunchRefused(Exception):
    """An extension cannot be started; the message tells people why. It is `final` unless it may go away on its own."""

    def __init__(self, reason: str, *, final: bool = True) -> None:
        super().__init__(reason)
        self.final = final


@attrs.frozen(kw_only=True)
class ExtensionLaunch:
    """How to start a process.

    Attributes:
        env: The environment of the first program in `argv`.
        bubblewrap: The program in `argv` that sets up the sandbox, if there is one.
        inside: The environment inside the sandbox.
        remarks: Wishes of the manifest that cannot be met here, one sentence each.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = attrs.field(repr=False)  # may contain keys
    cwd: str
    bubblewrap: str | None = None
    inside: Mapping[str, str] = attrs.field(factory=dict, repr=False)
    remarks: tuple[str, ...] = ()


async def prepare_launch(
    found: DiscoveredExtension,
    environ: Mapping[str, str],
    *,
    workspace: str | None = None,
    confine: Confine = "manifest",
    hidden: Sequence[str] = (),
    bubblewrap_places: str | None = None,
) -> ExtensionLaunch:
    """Return how to start an extension, after checking that it is still the one that was agreed to.

    Args:
        found: The discovered extension.
        environ: Our environment, of which little is passed on.
        workspace: A folder that it may read even if the sandbox would hide it.
        confine: Whether it runs in a sandbox.
        hidden: Further paths that a sandbox hides, such as the home of this service.
        bubblewrap_places: Where to look for bubblewrap; by default the folders of the system.

    Raises:
        LaunchRefused: Its files have changed, its command is missing or not the pinned one, it would run something that
            is not pinned, or it cannot be sandboxed.
    """
    env = child_environment(found.manifest.run.env, environ)
    command = await trio.to_thread.run_sync(_checked_command, found, env, abandon_on_cancel=True)
    argv = (command, *found.manifest.run.args)
    folder = str(found.folder)
    spec = found.manifest.sandbox
    if confine == "never" or (confine == "manifest" and spec is None):
        return ExtensionLaunch(argv=argv, env=env, cwd=folder)
    places = () if bubblewrap_places is None else (bubblewrap_places,)
    bubblewrap = await find_bubblewrap(*places)
    if isinstance(bubblewrap, NoBubblewrap):
        raise LaunchRefused(f"it cannot be confined: {bubblewrap.reason}", final=bubblewrap.is_lasting)
    spec = spec or SandboxSpec()

    def plan_sandbox() -> SandboxPlan:
        network = _has_network(spec)
        return drop_vanished_files(_plan(found, command, env, network=network, workspace=workspace, hidden=hidden))

    try:
        plan = await trio.to_thread.run_sync(plan_sandbox, abandon_on_cancel=True)
    except (WorkspaceRefused, OSError) as error:
        raise LaunchRefused(f"it cannot be confined: {error}", final=is_lasting(error)) from error
    return _confine_launch(argv, plan, bubblewrap, spec)


def is_lasting(error: BaseException | None) -> bool:
    """Return whether an error at a start would happen again, unlike too many open files, which go away."""
    return not isinstance(error, OSError) or error.errno in _LASTING


def child_environment(wanted: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the whole environment of an extension: a few variables of ours, overridden by its manifest."""
    passed_on = {name: environ[name] for name in PASSED_ON if name in environ}
    passed_on.setdefault("PATH", _DEFAULT_PATH)
    passed_on["PYTHONDONTWRITEBYTECODE"] = "1"  # its own folder must stay as it was agreed to
    return passed_on | {name: expand_variables(value, environ) for name, value in wanted.items()}


def expand_variables(text: str, environ: Mapping[str, str]) -> str:
    """Replace each `${env:NAME}` with the variable's value, or with nothing if it is not set."""
    return _REFERENCE.sub(lambda match: environ.get(match[1], ""), text)


def _checked_command(found: DiscoveredExtension, env: Mapping[str, str]) -> str:
    try:
        unchanged = digest_of(found.folder) == found.digest
    except (SessionCoreError, OSError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        raise LaunchRefused(f"its files cannot be checked: {error}", final=is_lasting(cause)) from error
    if not unchanged:
        raise LaunchRefused("its files have changed since it was agreed to; look at them and agree again")
    try:
        command = _resolve_program(found.manifest.run.command, found.folder, env)
    except OSError as error:
        raise LaunchRefused(f"its command cannot be looked at: {error.strerror}", final=is_lasting(error)) from error
    _check_all_is_pinned(found, command, env)
    pin = found.manifest.run.sha256
    if pin is not None and (actual := _sha256(command)) != pin.lower():
        raise LaunchRefused(f"{command} is not the pinned program: its SHA-256 is {actual}, run.sha256 says {pin}")
    return command


def _resolve_program(command: str, folder: Path, env: Mapping[str, str]) -> str:
    """Find the program: a bare name on the PATH, anything else relative to the extension's folder."""
    if os.sep in command:
        path = folder / command
        if not path.is_file():
            raise LaunchRefused(f"its command {command!r} is missing: there is no file {str(path)!r}")
        if not os.access(path, os.X_OK):
            raise LaunchRefused(f"its command {command!r} cannot be run: the file is not executable")
        return str(path)
    # A relative PATH entry would depend on where this service was started.
    absolute = os.pathsep.join(place for place in env["PATH"].split(os.pathsep) if os.path.isabs(place))  # noqa: PTH117
    program = shutil.which(command, path=absolute)
    if program is None:
        raise LaunchRefused(f"its command {command!r} is missing: there is no such program on the PATH")
    return program


def _check_all_is_pinned(found: DiscoveredExtension, command: str, env: Mapping[str, str]) -> None:
    """Refuse paths into `.git`, which the digest leaves out: its files may differ from those agreed to."""
    run = found.manifest.run
    for what, text, paths in (
        ("command", run.command, {command}),
        *(("argument", each, _paths_in(each)) for each in run.args),
        *(("variable", name, _paths_in(env[name])) for name in run.env),
    ):
        if any(_is_not_pinned(path, found.folder) for path in paths):
            raise LaunchRefused(
                f"its {what} {text!r} leads into {_NOT_PINNED}, whose files are not pinned; put them elsewhere"
            )


def _paths_in(text: str) -> set[str]:
    """Return everything in a string that a program could take for a path: the whole, list items, option values."""
    parts = {text, *_BETWEEN_PATHS.split(text)}
    return parts | {part[2:] for part in parts if part.startswith("-")}


def _is_not_pinned(path: str, folder: Path) -> bool:
    if "\0" in path:
        return False  # not a path, and refused later
    place = folder / path
    if is_beneath(os.path.normpath(place), (os.path.normpath(folder / _NOT_PINNED),)):  # may be a link itself
        return True
    # No link within the folder leads there, or there would be no digest.
    roundabout = os.path.isabs(path) or os.pardir in path  # noqa: PTH117
    return roundabout and is_beneath(os.path.realpath(place), (f"{os.path.realpath(folder)}/{_NOT_PINNED}",))


def _sha256(program: str) -> str:
    try:
        with Path(program).open("rb") as opened:
            return hashlib.file_digest(opened, "sha256").hexdigest()
    except OSError as error:
        why = f"{program} cannot be compared with run.sha256: {error.strerror}"
        raise LaunchRefused(why, final=is_lasting(error)) from error


def _plan(
    found: DiscoveredExtension,
    command: str,
    env: Mapping[str, str],
    *,
    network: bool,
    workspace: str | None,
    hidden: Sequence[str],
) -> SandboxPlan:
    """Let it read the disk except for secrets, and write only to private folders."""
    readable = [workspace] if workspace is not None else []
    # The real file as well as its name: an interpreter in a virtual environment is a link.
    programs = (str(Path(command).parent), str(Path(os.path.realpath(command)).parent))
    readable += [place for place in programs if is_beneath(os.path.realpath(place), PRIVATE)]
    plan = plan_sandbox(
        str(found.folder),
        user_home=env.get("HOME") or next(iter(home_folders()), "/"),
        environment={},
        readable_roots=readable,
        hidden=(*hidden, *hidden_places()),
        read_only=True,
        network=network,
        filter_file=filter_in_memory(),
    )
    inside = {**env, "TMPDIR": PRIVATE[0]}
    return attrs.evolve(plan, environment=tuple(sorted(inside.items())))


def _has_network(spec: SandboxSpec) -> bool:
    return spec.network == "egress" and bool(spec.allow_domains)


def _confine_launch(
    argv: Sequence[str], plan: SandboxPlan, bubblewrap: Bubblewrap, spec: SandboxSpec
) -> ExtensionLaunch:
    remarks: list[str] = []
    if spec.image is not None:
        remarks.append("sandbox.image is not used here: it runs with the programs of this machine")
    if spec.memory is not None or spec.cpus is not None:
        remarks.append("sandbox.memory and sandbox.cpus are not enforced here")
    if _has_network(spec):
        remarks.append("sandbox.allow_domains is not enforced here: it shares the whole network")
    elif spec.network == "egress":
        remarks.append("sandbox.network is egress without any of allow_domains, so it has no network")
    # The environment is passed outside the command line, which everybody on this machine could read.
    clear, confined = _CLEAR, sandbox_argv(argv, attrs.evolve(plan, environment=()), bubblewrap)
    assert tuple(confined[: len(clear)]) == clear
    return ExtensionLaunch(
        argv=tuple(confined[len(clear) :]),
        env={},
        cwd=plan.cwd,
        bubblewrap=bubblewrap.path,
        inside=dict(plan.environment),
        remarks=tuple(remarks),
    )
