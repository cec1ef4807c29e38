"""How an extension's process is started: command line, environment, sandbox.

The files are checked at each start, because a restart happens when nobody is looking, and the extension runs from a
private copy that was made while they were checked: what runs is what a person agreed to. The environment is empty
except for a few harmless variables and those that the manifest sets. The programs that set up a sandbox see none of it:
a variable such as LD_PRELOAD would make them run foreign code outside.
"""

import errno
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, Literal

import attrs
import trio

from session_core.errors import SessionCoreError
from session_core.processes.child import Launch
from session_core.sandbox.bubblewrap import Bubblewrap, NoBubblewrap, find_bubblewrap, sandbox_argv
from session_core.sandbox.file_values import WorkspaceRefused
from session_core.sandbox.folder_walk import is_beneath
from session_core.sandbox.home_directory import find_installation
from session_core.sandbox.plan import PRIVATE, SandboxPlan, drop_vanished_files, plan_sandbox
from session_core.sandbox.seccomp import filter_in_memory
from session_core.sandbox.secrets import home_folders, own_places
from session_core.sep.host.catalogue.agreed_copies import AgreedCopies, AgreedCopy, NotAgreed, check_program
from session_core.sep.host.catalogue.discovery import DiscoveredExtension
from session_core.sep.host.process.copied_paths import CopiedPaths
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
class ExtensionLaunch(Launch):
    """How to start an extension's process.

    Attributes:
        copies: What it runs from; kept as long as this value, or until it is released.
        paths: Translates paths of the copy for people.
        remarks: Wishes of the manifest that cannot be met here, one sentence each.
    """

    copies: tuple[AgreedCopy, ...] = attrs.field(default=(), eq=False, repr=False)
    paths: CopiedPaths | None = attrs.field(default=None, eq=False, repr=False)
    remarks: tuple[str, ...] = ()

    def release(self) -> None:
        """Let go of the copies, once nothing runs from them any more; it may block."""
        for copy in self.copies:
            copy.release()


async def prepare_launch(
    found: DiscoveredExtension,
    environ: Mapping[str, str],
    *,
    workspace: str | None = None,
    confine: Confine = "manifest",
    hidden: Sequence[str] = (),
    bubblewrap_places: str | None = None,
    copies: AgreedCopies | None = None,
) -> ExtensionLaunch:
    """Return how to start an extension, after checking that it is still the one that was agreed to.

    Args:
        found: The discovered extension.
        environ: Our environment, of which little is passed on.
        workspace: A folder that it may read even if the sandbox would hide it.
        confine: Whether it runs in a sandbox.
        hidden: Further paths that a sandbox hides, such as the home of this service.
        bubblewrap_places: Where to look for bubblewrap; by default the folders of the system.
        copies: Where copies of extensions are kept; by default they are temporary.

    Raises:
        LaunchRefused: Its files have changed, its command is missing or not the pinned one, it would run something that
            is not pinned, or it cannot be sandboxed.
    """
    env = child_environment(found.manifest.run.env, environ)
    made = partial(_prepare_program, found, env, copies or AgreedCopies())
    unconfined = await trio.to_thread.run_sync(made, abandon_on_cancel=True)
    spec = found.manifest.sandbox
    if confine == "never" or (confine == "manifest" and spec is None):
        return unconfined
    places = () if bubblewrap_places is None else (bubblewrap_places,)
    bubblewrap = await find_bubblewrap(*places)
    if isinstance(bubblewrap, NoBubblewrap):
        raise LaunchRefused(f"it cannot be confined: {bubblewrap.reason}", final=bubblewrap.is_lasting)
    spec = spec or SandboxSpec()

    def plan_sandbox() -> SandboxPlan:
        return drop_vanished_files(_plan(unconfined, network=_has_network(spec), workspace=workspace, hidden=hidden))

    try:
        plan = await trio.to_thread.run_sync(plan_sandbox, abandon_on_cancel=True)
    except (WorkspaceRefused, OSError) as error:
        raise LaunchRefused(f"it cannot be confined: {error}", final=is_lasting(error)) from error
    return _confine_launch(unconfined, plan, bubblewrap, spec)


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


def _prepare_program(found: DiscoveredExtension, env: Mapping[str, str], copies: AgreedCopies) -> ExtensionLaunch:
    """Return how to start, without a sandbox, a program that was agreed to and that nobody can change any more."""
    try:
        copy = copies.copy_extension(found)
    except NotAgreed as refused:
        raise LaunchRefused(refused.message) from refused
    except (SessionCoreError, OSError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        raise LaunchRefused(f"its files cannot be checked: {error}", final=is_lasting(cause)) from error
    paths, run = CopiedPaths(found.folder, copy.path), found.manifest.run
    try:
        named = _resolve_program(run.command, found.folder, env, CopiedPaths(found.folder, found.folder))
        _check_all_is_pinned(found, named, env)
        inside = {**env, **{name: paths.translate(env[name]) for name in run.env}}
        command = _resolve_program(run.command, found.folder, inside, paths)
    except OSError as error:
        raise LaunchRefused(f"its command cannot be looked at: {error.strerror}", final=is_lasting(error)) from error
    held, pinned = [copy], None  # the second is the copy of a pinned program that lies elsewhere
    if run.sha256 is not None:
        try:
            if is_beneath(command, (str(copy.path),)):
                check_program(command, run.sha256)
            else:
                held.append(copies.copy_program(command, run.sha256))
                pinned = str(held[-1].path / Path(os.path.realpath(command)).name)
        except NotAgreed as refused:
            raise LaunchRefused(f"{paths.show(command)} {refused.message}") from refused
        except OSError as error:
            why = f"{paths.show(command)} cannot be compared with run.sha256: {error.strerror}"
            raise LaunchRefused(why, final=is_lasting(error)) from error
    argv = (*paths.interpret(command), *map(paths.translate, run.args))
    return ExtensionLaunch(argv=argv, env=inside, cwd=str(copy.path), copies=tuple(held), paths=paths, program=pinned)


def _resolve_program(command: str, folder: Path, env: Mapping[str, str], paths: CopiedPaths) -> str:
    """Find the program: a bare name on the PATH, anything else relative to the extension's folder."""
    if os.sep in command:
        path = paths.find_program(command)
        if not path.is_file():
            raise LaunchRefused(f"its command {command!r} is missing: there is no file {str(folder / command)!r}")
        if not os.access(path, os.X_OK):
            raise LaunchRefused(f"its command {command!r} cannot be run: the file is not executable")
        return str(path)
    # A relative PATH entry would depend on where this service was started.
    absolute = os.pathsep.join(place for place in env["PATH"].split(os.pathsep) if os.path.isabs(place))  # noqa: PTH117
    program = shutil.which(command, path=absolute)
    if program is None:
        raise LaunchRefused(f"its command {command!r} is missing: there is no such program on the PATH")
    return paths.translate(program)  # the PATH may hold the folder itself


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


def _plan(launch: ExtensionLaunch, *, network: bool, workspace: str | None, hidden: Sequence[str]) -> SandboxPlan:
    """Let it read the disk except for the home directory, and write only to private folders."""
    homes = (launch.env.get("HOME") or next(iter(home_folders()), "/"), *home_folders())
    readable = [workspace] if workspace is not None else []
    # The real file as well as its name: an interpreter in a virtual environment is a link.
    command = launch.argv[0]
    programs = (str(Path(command).parent), str(Path(os.path.realpath(command)).parent))
    for place in programs:
        if _is_hidden(place, homes):
            readable += find_installation(place, map(os.path.realpath, homes))
    plan = plan_sandbox(
        launch.cwd,
        user_home=homes[0],
        homes=homes[1:],
        environment={},
        readable_roots=readable,
        hidden=(*hidden, *own_places()),
        read_only=True,
        network=network,
        filter_file=filter_in_memory(),
    )
    inside = {**launch.env, "TMPDIR": PRIVATE[0]}
    return attrs.evolve(plan, environment=tuple(sorted(inside.items())))


def _is_hidden(place: str, homes: Sequence[str]) -> bool:
    hiding = (*PRIVATE, *(home for home in map(os.path.realpath, homes) if home != "/"))
    return is_beneath(os.path.realpath(place), hiding)


def _has_network(spec: SandboxSpec) -> bool:
    return spec.network == "egress" and bool(spec.allow_domains)


def _confine_launch(
    launch: ExtensionLaunch, plan: SandboxPlan, bubblewrap: Bubblewrap, spec: SandboxSpec
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
    clear, confined = _CLEAR, sandbox_argv(launch.argv, attrs.evolve(plan, environment=()), bubblewrap)
    assert tuple(confined[: len(clear)]) == clear
    if launch.program is not None:  # the copy takes the place of the program, after all other mounts
        place = confined.index("--chdir")
        confined[place:place] = ["--ro-bind", launch.program, os.path.realpath(launch.argv[0])]
    return attrs.evolve(
        launch,
        argv=confined[len(clear) :],
        env={},
        cwd=plan.cwd,
        bubblewrap=bubblewrap.path,
        inside=dict(plan.environment),
        program=None,
        remarks=tuple(remarks),
    )
