"""Run a program in a real sandbox for tests, with something to steal and something to break all around it."""

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import attrs
import trio

from session_core.sandbox.bubblewrap import Bubblewrap, find_bubblewrap, open_filter, sandbox_argv
from session_core.sandbox.guard import GuardedRun, check_neighbours, end_run, register_run
from session_core.sandbox.plan import ResourceLimits, SandboxPlan, drop_vanished_files, plan_sandbox
from session_core.sandbox.seccomp import filter_in_memory

CANARY = "canary-7f3a9"
PATIENCE = 300


@attrs.frozen(kw_only=True)
class Ran:
    """How a confined program ended, and all it wrote."""

    code: int
    text: str
    remarks: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class World:
    """A user's home with secrets, a project in it, and a folder of the service."""

    base: Path
    bubblewrap: Bubblewrap

    @property
    def root(self) -> Path:
        return self.base / "user/project"

    @property
    def user_home(self) -> Path:
        return self.base / "user"

    @property
    def service_home(self) -> Path:
        return self.base / "user/.local/service"

    def plan(
        self,
        *,
        root: Path | None = None,
        network: bool = False,
        sockets: bool = False,
        read_only: bool = False,
        readable: Sequence[str] = (),
        limits: ResourceLimits | None = None,
    ) -> SandboxPlan:
        return plan_sandbox(
            str(root or self.root),
            user_home=str(self.user_home),
            environment={**os.environ, "HOME": str(self.user_home), "API_KEY": CANARY, "GITHUB_TOKEN": CANARY},
            hidden=[str(self.service_home)],
            network=network,
            sockets=sockets,
            read_only=read_only,
            readable=readable,
            limits=limits,
            filter_file=filter_in_memory(sockets=sockets),
        )

    def argv(self, command: Sequence[str], plan: SandboxPlan) -> list[str]:
        """Return the command line that runs a command."""
        return sandbox_argv(command, drop_vanished_files(plan), self.bubblewrap)

    async def run(
        self, script: str, plan: SandboxPlan | None = None, *, program: tuple[str, ...] = ("bash", "-c")
    ) -> Ran:
        ran = await self._run(script, plan, program)
        for _ in range(_MORE_TRIES):
            if not ran.text.startswith("bwrap: Can't"):
                break
            ran = await self._run(script, plan, program)  # a socket of another test vanished in that very moment
        return ran

    async def _run(self, script: str, plan: SandboxPlan | None, program: tuple[str, ...]) -> Ran:
        chosen = plan if plan is not None else self.plan()
        guarded = GuardedRun(
            roots=chosen.writable, before=chosen.before, approved=False, outputs=str(self.base / "work/outputs/session")
        )
        register_run(guarded)
        remarks = await trio.to_thread.run_sync(check_neighbours, guarded)
        chosen = drop_vanished_files(chosen)
        with trio.fail_after(PATIENCE), ExitStack() as closing:
            argv = sandbox_argv([*program, script], chosen, self.bubblewrap)
            words, opened = closing.enter_context(open_argv(argv, self.bubblewrap))
            done = await trio.run_process(
                words,
                pass_fds=opened,
                stdin=subprocess.DEVNULL,
                capture_stdout=True,
                stderr=subprocess.STDOUT,
                check=False,
                env={**os.environ, "API_KEY": CANARY},
            )
        remarks += await trio.to_thread.run_sync(end_run, guarded)
        return Ran(code=done.returncode, text=done.stdout.decode("utf-8", "replace"), remarks=remarks)


@contextmanager
def open_argv(argv: Sequence[str], bubblewrap: Bubblewrap) -> Iterator[tuple[list[str], tuple[int, ...]]]:
    """Open the filter that a command line names; gives the words to run, and the descriptors to hand over."""
    words, opened = open_filter(argv, bubblewrap.path)
    try:
        yield words, () if opened is None else (opened,)
    finally:
        if opened is not None:
            os.close(opened)


_MORE_TRIES = 2


async def make_world(base: Path) -> World:
    """Build it; tests ask for the fixture `require_sandbox` before."""
    found = await find_bubblewrap()
    assert isinstance(found, Bubblewrap)
    world = World(base=base, bubblewrap=found)
    world.root.mkdir(parents=True)
    world.service_home.mkdir(parents=True, mode=0o700)
    (world.service_home / "token").write_text(CANARY)
    for path in (".ssh/id_ed25519", ".aws/credentials", ".config/gh/hosts.yml", ".netrc", ".docker/config.json"):
        (world.user_home / path).parent.mkdir(parents=True, exist_ok=True)
        (world.user_home / path).write_text(CANARY)
    (world.user_home / "notes").write_text("private")
    (world.user_home / ".gitconfig").write_text("[user]\n\tname = me\n")
    (world.user_home / ".bashrc").write_text("# mine\n")
    (world.root / ".git/hooks").mkdir(parents=True)
    (world.root / ".git/config").write_text("[core]\n")
    (world.root / ".envrc").write_text("# mine\n")
    (world.root / "file").write_text("old")
    return world
