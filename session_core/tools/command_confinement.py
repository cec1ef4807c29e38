"""Confinement of commands: in a sandbox according to the session's policy, or only with a person's approval."""

import logging
import math
import os
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

import attrs
import trio

from session_core.processes.child import Launch, ProcessNotStarted
from session_core.sandbox.bubblewrap import Bubblewrap, NoBubblewrap, find_bubblewrap, sandbox_argv
from session_core.sandbox.file_values import WorkspaceRefused
from session_core.sandbox.folder_walk import is_beneath
from session_core.sandbox.guard import (
    FinalCheck,
    GuardedRun,
    check_neighbours,
    count_agreed,
    describe_failed_check,
    forget_run,
    has_neighbours,
    keep_pending_remarks,
    note_mounts,
    register_run,
    take_pending_remarks,
)
from session_core.sandbox.plan import PRIVATE, SandboxPlan, drop_vanished_files, is_outdated, plan_sandbox
from session_core.sandbox.protected_scan import ProtectedState
from session_core.sandbox.seccomp import FilterFiles, filter_in_memory
from session_core.sandbox.secrets import clean_environment, home_folders, own_places
from session_core.tools.base import ToolContext, ToolFailed
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.sessions import ExtraRight

log = logging.getLogger(__name__)

QUIET: Final = {"GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "PAGER": "cat", "TERM": "dumb"}
"""Programs must not wait for a person to scroll or to type a password: there is none."""
UNCONFINED: Final = "sandbox: none, it can do anything you can do"
UNCONFINED_DETAILS: Final = JsonObject({"unconfined": True})
"""Details of a result, by which frontends tell people that something ran without a sandbox."""
_HOW_TO_GO_ON: Final = (
    "fix the path named above, or ask the user to start a session without a sandbox (--sandbox full-access)"
)
CHECK_S: Final = 30.0
"""How long a command waits for a check; longer means that the disk hangs."""
STOP_CHECK_S: Final = 1.0
"""How long a stop waits for the check after a command, which has to read every folder that the command has made."""
STILL_CHECKED: Final = (
    "whether protected files were changed is still being checked; the next command in these folders says what was found"
)
_MAX_PLANS: Final = 3
"""A program that renames folders all the time must not hold up a command forever."""
_SHELLS: Final = ("/bin/bash", "/usr/bin/bash")
_WANTS: Final[Mapping[ExtraRight, str]] = {
    "network": "use the network",
    "sockets": "use unix sockets",
    "protected": "change protected files such as .git",
}


def explain_no_sandbox(what: str, reason: str) -> str:
    """Explain why an unconfined command or cell needs approval."""
    return f"no sandbox here: {reason}, so every {what} needs your approval"


@attrs.frozen(kw_only=True)
class ShellSetup:
    """The service's settings for running commands.

    Attributes:
        hidden: Paths that no command may see: the home of this service.
        filters: The system call filters, see `sandbox.seccomp`; by default in memory.
        environment: The environment whose harmless part commands inherit; ours by default.
        user_home: The home directory that is hidden except for what builds need; the user's by default.
        bubblewrap_places: Where to look for bubblewrap; the system's folders by default.
    """

    hidden: tuple[str, ...] = ()
    filters: FilterFiles | None = None
    environment: Mapping[str, str] | None = attrs.field(default=None, repr=False)  # it holds keys
    user_home: str | None = None
    bubblewrap_places: str | None = None


@attrs.frozen(kw_only=True)
class CommandLaunch(Launch):
    """How to run one command.

    `remarks` gets what the check after the command has to say, for the model and for people, once the block around it
    has ended.
    """

    remarks: list[str] = attrs.field(factory=list)

    def format_remarks(self) -> str:
        """Return the remarks as lines to add to the output."""
        return "".join(f"[{remark}]\n" for remark in self.remarks)


@attrs.frozen(kw_only=True)
class Confinement:
    """How a command will be confined.

    `unconfined` says why there is no sandbox although the policy asks for one: the machine has none. Whatever else
    is in the way of a sandbox may come from the project, a guest or another user, and refuses the command instead.

    `requested` are the rights beyond the session's policy that the command asks for; it gets them if a person agrees.
    `sockets` says whether it may use unix sockets, by the policy or by such a right.

    `outputs` is the session's folder of outputs, which says where things go that are set aside after it; `roots` are
    the folders that the session may change. `plan_again` makes the plan anew if things have changed since, for which
    `agreed` is the state of `count_agreed` before it was made.
    """

    folder: str
    environment: Mapping[str, str]
    plan: SandboxPlan | None = None
    bubblewrap: Bubblewrap | None = None
    unconfined: str | None = None
    requested: tuple[ExtraRight, ...] = ()
    sockets: bool = False
    outputs: str | None = None
    roots: tuple[str, ...] = ()
    plan_again: Callable[[], Awaitable[SandboxPlan]] | None = attrs.field(default=None, eq=False, repr=False)
    agreed: int = attrs.field(default=0, eq=False)

    @property
    def rights(self) -> tuple[ExtraRight, ...]:
        """What the command gets beyond the session's policy, if a person agrees."""
        return self.requested if self.unconfined is None else ("unconfined", *self.requested)

    @property
    def reason(self) -> str | None:
        """Why the command needs approval even in a sandbox."""
        return f"it wants to {' and '.join(_WANTS[right] for right in self.requested)}" if self.requested else None


async def confine(
    context: ToolContext,
    setup: ShellSetup,
    *,
    workdir: str = ".",
    requested: tuple[ExtraRight, ...] = (),
    to_show: bool = False,
) -> Confinement:
    """Determine how a command would run here, without changing anything.

    Args:
        context: The call.
        setup: The service's settings for commands.
        workdir: The folder to run in.
        requested: What the command may do beyond the session's policy.
        to_show: Nothing will run by this plan, so protected things need not be looked for.

    Raises:
        ToolFailed: The folder does not exist, or the session may not use it; or there is a sandbox on this machine, but
            the command cannot be confined in it as things are.
    """
    sockets = context.sandbox.sockets or "sockets" in requested
    filter_file = setup.filters.choose(sockets=sockets) if setup.filters else filter_in_memory(sockets=sockets)
    ours = os.environ if setup.environment is None else setup.environment
    folder = await trio.to_thread.run_sync(_resolve_folder, context, workdir, abandon_on_cancel=True)
    confinement = Confinement(
        folder=folder,
        environment={**clean_environment(ours), **QUIET},
        requested=requested,
        sockets=sockets,
        outputs=context.outputs,
        roots=await trio.to_thread.run_sync(_resolve_roots, context, abandon_on_cancel=True),
    )
    if context.sandbox.mode == "full_access":
        return confinement
    places = () if setup.bubblewrap_places is None else (setup.bubblewrap_places,)
    found = await _find_lasting(*places)
    if isinstance(found, NoBubblewrap):
        return attrs.evolve(confinement, unconfined=found.reason)

    def make_plan() -> SandboxPlan:
        return plan_sandbox(
            context.cwd,
            user_home=setup.user_home or ours.get("HOME") or str(Path.home()),
            environment=ours,
            writable_roots=context.sandbox.writable_roots,
            readable_roots=(context.outputs,) if context.outputs is not None else (),
            readable=context.sandbox.readable,
            hidden=(*setup.hidden, *context.hidden, *own_places()),
            read_only=context.sandbox.mode == "read_only",
            network=context.sandbox.network or "network" in requested,
            sockets=sockets,
            protected=not ("protected" in requested or to_show),
            homes=home_folders(),
            filter_file=filter_file,
            cwd=folder,
        )

    async def plan_now() -> SandboxPlan:
        try:
            plan = await trio.to_thread.run_sync(make_plan, abandon_on_cancel=True)
        except (WorkspaceRefused, OSError) as error:
            raise ToolFailed(f"this command was not run, as it cannot be confined: {error}; {_HOW_TO_GO_ON}") from error
        return attrs.evolve(plan, environment=tuple(sorted((dict(plan.environment) | QUIET).items())))

    agreed = count_agreed()
    plan = await plan_now()
    return attrs.evolve(
        confinement,
        environment=dict(plan.environment),
        plan=plan,
        bubblewrap=found,
        plan_again=plan_now,
        agreed=agreed,
    )


async def _find_lasting(*places: str) -> Bubblewrap | NoBubblewrap:
    """Find bubblewrap. A check without a result is no answer: whoever keeps the machine busy could cause it.

    Raises:
        ToolFailed: The check gave no result twice.
    """
    found = await find_bubblewrap(*places)
    if isinstance(found, NoBubblewrap) and found.kind == "unknown":
        found = await find_bubblewrap(*places)
    if isinstance(found, NoBubblewrap) and found.kind == "unknown":
        raise ToolFailed(f"nothing can be confined at the moment: {found.reason}; try again")
    return found


@asynccontextmanager
async def prepare_launch(
    command: str, confinement: Confinement, *, reports_if_stopped: bool = False
) -> AsyncGenerator[CommandLaunch]:
    """Prepare a command for the block that runs it, and check afterwards what it has left behind (`guard`).

    Args:
        command: The command line.
        confinement: How to confine it.
        reports_if_stopped: The caller passes on the remarks of a stopped command too.

    Raises:
        ToolFailed: It cannot be confined as things are, or it could not be started in the block.

    Cancellation: the check is made too, but waited for no longer than `STOP_CHECK_S`; the next command in the same
        folders reports what it found.
    """
    argv = (await trio.to_thread.run_sync(_find_shell), "-c", command)
    launch = CommandLaunch(argv=argv, cwd=confinement.folder, env=confinement.environment)
    plan, bubblewrap = confinement.plan, confinement.bubblewrap
    if plan is None or bubblewrap is None:
        run = GuardedRun(roots=confinement.roots, before=ProtectedState(), approved=True, outputs=confinement.outputs)
    else:
        approved = "protected" in confinement.requested
        run = GuardedRun(roots=plan.writable, before=plan.before, approved=approved, outputs=confinement.outputs)
    reported = False
    launch.remarks.extend(register_run(run))
    try:
        if plan is None or bubblewrap is None:
            if has_neighbours(run):
                launch.remarks.extend(await _check_neighbours(run))
        else:
            plan = await _settle_plan(plan, confinement, run, launch.remarks)
            launch = attrs.evolve(launch, argv=sandbox_argv(argv, plan, bubblewrap), bubblewrap=bubblewrap.path)
        reported = reports_if_stopped
        yield launch
        reported = True
    except ProcessNotStarted as error:
        raise ToolFailed(str(error)) from error
    finally:
        try:
            await _check_after(run, launch.remarks)  # noqa: ASYNC102 - it bounds its wait after a stop
        except trio.Cancelled:
            reported = reports_if_stopped
            raise
        finally:
            if not reported:
                keep_pending_remarks(run, (remark for remark in launch.remarks if remark != STILL_CHECKED))


async def _check_after(run: GuardedRun, remarks: list[str]) -> None:
    """Check what a run has left behind, and add what there is to say. What takes too long goes on by itself.

    Cancellation: waits for `STOP_CHECK_S` more at most; the remarks are added.
    """
    ended, token = trio.Event(), trio.lowlevel.current_trio_token()

    def tell() -> None:
        with suppress(trio.RunFinishedError):
            token.run_sync_soon(ended.set)

    try:
        check = FinalCheck(run, tell)
    except RuntimeError as error:
        forget_run(run)
        remarks.append(describe_failed_check(error))
        return
    try:
        if trio.current_effective_deadline() > -math.inf:  # not stopped by now
            with trio.move_on_after(CHECK_S):
                await ended.wait()
    finally:
        with trio.move_on_after(STOP_CHECK_S, shield=True):
            await ended.wait()
        found = check.take_remarks()
        remarks.extend((STILL_CHECKED,) if found is None else found)
    await trio.lowlevel.checkpoint_if_cancelled()  # whoever is stopped after this might pass on no remarks


async def _settle_plan(plan: SandboxPlan, confinement: Confinement, run: GuardedRun, remarks: list[str]) -> SandboxPlan:
    """Return a plan that holds now: what neighbours have planted is gone, and what is to be mounted is in its place.

    Raises:
        ToolFailed: Something renames what is protected again and again.
    """
    outdated = not run.approved and count_agreed() != confinement.agreed
    for plans_left in reversed(range(_MAX_PLANS)):
        if has_neighbours(run):
            remarks.extend(await _check_neighbours(run))
        if not outdated and not await trio.to_thread.run_sync(is_outdated, plan):
            await trio.to_thread.run_sync(note_mounts, run, plan.protected)
            return await trio.to_thread.run_sync(drop_vanished_files, plan)
        if confinement.plan_again is None or not plans_left:
            break
        plan, outdated = await confinement.plan_again(), False
        run.before = plan.before
    raise ToolFailed(
        "this command was not run, as protected files are being renamed at the moment; end what runs in the "
        "background, and try again"
    )


async def _check_neighbours(run: GuardedRun) -> tuple[str, ...]:
    """Check what runs beside a run, in a thread; what hinders it is a remark too.

    Cancellation: the check goes on, and the next command in these folders says what it found.
    """

    def check() -> None:
        keep_pending_remarks(run, check_neighbours(run))

    try:
        with trio.move_on_after(CHECK_S):
            await trio.to_thread.run_sync(check, abandon_on_cancel=True)
            return take_pending_remarks(run)
        return (describe_failed_check(TimeoutError(f"it took longer than {CHECK_S:g} seconds")),)
    except Exception as error:
        log.exception("a check of commands that are running has failed")
        return (describe_failed_check(error),)


@attrs.frozen(kw_only=True)
class ConfinedReading:
    """How to run a program that only reads workspace files; unconfined where the machine has no sandbox."""

    environment: Mapping[str, str]
    plan: SandboxPlan | None = None
    bubblewrap: Bubblewrap | None = None

    async def prepare_launch(self, command: Sequence[str], cwd: str) -> Launch:
        """Return how to run this command now; ask again for each start, as sockets come and go."""
        if self.plan is None or self.bubblewrap is None:
            return Launch(argv=command, cwd=cwd, env=self.environment)
        plan = await trio.to_thread.run_sync(drop_vanished_files, self.plan, abandon_on_cancel=True)
        argv = sandbox_argv(command, plan, self.bubblewrap)
        return Launch(argv=argv, cwd=cwd, env=self.environment, bubblewrap=self.bubblewrap.path)


def _own_program() -> tuple[str, ...]:
    """Return the paths of the interpreter and this program that a sandbox would otherwise hide."""
    places = dict.fromkeys((sys.prefix, sys.base_prefix, str(Path(__file__).parent)))
    hiding = (*PRIVATE, *map(os.path.realpath, home_folders()))
    return tuple(place for place in places if is_beneath(os.path.realpath(place), hiding))


async def confine_reading(context: ToolContext, environment: Mapping[str, str]) -> ConfinedReading:
    """Determine how to run a program that opens files by path, while another process may swap them for links.

    The program sees no more than the model's commands do, and may change nothing.

    Raises:
        ToolFailed: There is a sandbox on this machine, but the program cannot be confined in it as things are.
    """
    if context.sandbox.mode == "full_access":
        return ConfinedReading(environment=environment)
    found = await _find_lasting()
    if isinstance(found, NoBubblewrap):
        return ConfinedReading(environment=environment)

    def make_plan() -> SandboxPlan:
        plan = plan_sandbox(
            context.cwd,
            user_home=str(Path.home()),
            environment={},
            readable_roots=(
                *context.sandbox.writable_roots,
                *((context.outputs,) if context.outputs else ()),
                *_own_program(),
            ),
            readable=context.sandbox.readable,
            hidden=(*context.hidden, *own_places()),
            read_only=True,
            homes=home_folders(),
            show_toolchains=False,
            filter_file=filter_in_memory(),
        )
        return attrs.evolve(plan, environment=tuple(environment.items()))

    try:
        plan = await trio.to_thread.run_sync(make_plan, abandon_on_cancel=True)
    except (WorkspaceRefused, OSError) as error:
        raise ToolFailed(f"nothing was searched, as the search cannot be confined: {error}; {_HOW_TO_GO_ON}") from error
    return ConfinedReading(environment=environment, plan=plan, bubblewrap=found)


def _find_shell() -> str:
    return next((path for path in _SHELLS if Path(path).exists()), "/bin/sh")


def _resolve_roots(context: ToolContext) -> tuple[str, ...]:
    """Return the folders that the session may change; of a session in the whole disk, none."""
    roots = map(os.path.realpath, (context.cwd, *context.sandbox.writable_roots))
    return tuple(dict.fromkeys(root for root in roots if root != "/"))


def _resolve_folder(context: ToolContext, workdir: str) -> str:
    """Return the folder to run in, with links resolved; it must lie in a folder that the session may use."""
    try:
        folder = Path(context.cwd, workdir).resolve(strict=True)
        roots = [Path(root).resolve() for root in (context.cwd, *context.sandbox.writable_roots)]
    except (OSError, RuntimeError, ValueError) as error:
        raise ToolFailed(f"there is no folder {workdir!r} to run a command in") from error
    if not folder.is_dir():
        raise ToolFailed(f"{workdir!r} is not a folder, so no command can run there")
    if context.sandbox.mode != "full_access" and not any(folder.is_relative_to(root) for root in roots):
        raise ToolFailed(f"the folder {workdir!r} is outside of the working folder, and commands run inside only")
    return str(folder)
