"""Running without a sandbox: only a person allows it, call by call, and nothing that others can cause leads there."""

import os
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
import trio

import session_core as sc
from frontends.commands.run.options import InteractionOptions, RunOptions
from frontends.commands.run.run import converse
from frontends.shared.streams import StandardStreams
from session_core.permissions.rules import PermissionRule
from session_core.permissions.standing_grants import StandingGrants
from session_core.sandbox import bubblewrap, plan
from session_core.sandbox.open_sockets import SocketsUnknown
from session_core.testing.scripted import ScriptedProvider, text, tool_call
from session_core.tools.base import ToolFailed
from session_core.tools.command_confinement import ShellSetup, confine_reading
from session_core.tools.shell import ShellTool
from tests._needs import needs_sandbox
from tests.frontends._paper import NoSignals, Paper, written
from tests.session_core.tools._calls import context_in

SECRET: Final = "hunter2-7d1f0c"
NOWHERE: Final = ShellSetup(bubblewrap_places="/nowhere")


@attrs.frozen(kw_only=True)
class Ground:
    """A repository, a home directory with a secret that no command sees, and a folder that none may change."""

    folder: Path

    @property
    def repo(self) -> Path:
        return self.folder / "repo"

    @property
    def user(self) -> Path:
        return self.folder / "user"

    @property
    def outside(self) -> Path:
        return self.folder / "outside"

    @property
    def attack(self) -> str:
        """Read the secret and leave a trace outside."""
        return f"cat {self.user}/.ssh/id_ed25519; touch {self.outside}/made"


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    """The ground of one attack."""
    laid_out = Ground(folder=tmp_path)
    for each in (laid_out.repo, laid_out.user / ".ssh", laid_out.outside):
        each.mkdir(parents=True)
    (laid_out.user / ".ssh" / "id_ed25519").write_text(SECRET)
    return laid_out


# --- what a project, a guest or another user can cause ----------------------------------------------------------------


def plant_link(ground: Ground) -> None:
    """A link at a protected path that leads to a folder of the repository."""
    (ground.repo / "cfg").mkdir()
    (ground.repo / ".vscode").symlink_to("cfg")


def plant_link_out(ground: Ground) -> None:
    """A link at a protected path that leads out of the repository."""
    (ground.repo / ".claude").symlink_to(ground.outside)


def plant_broken_link(ground: Ground) -> None:
    """A link at a protected path that leads nowhere."""
    (ground.repo / ".mcp.json").symlink_to("gone.json")


def plant_linked_git(ground: Ground) -> None:
    """A repository whose .git is a link."""
    (ground.repo / "git").mkdir()
    (ground.repo / ".git").symlink_to("git")


def plant_ring(ground: Ground) -> None:
    """A link at a protected path that leads to itself."""
    (ground.repo / ".idea").symlink_to(".idea")


PLANTED: Final = (plant_link, plant_link_out, plant_broken_link, plant_linked_git, plant_ring)


@contextmanager
def sockets_unknown(_ground: Ground, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The system does not list the open sockets."""

    def fail() -> tuple[str, ...]:
        raise SocketsUnknown("the system does not list the open sockets")

    monkeypatch.setattr(plan, "open_sockets", fail)
    yield


@contextmanager
def no_files_left(_ground: Ground, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Too many files are open while the plan is made."""

    def fail() -> tuple[str, ...]:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(plan, "open_sockets", fail)
    yield


@contextmanager
def busy_machine(_ground: Ground, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The check whether bubblewrap works gives no result in time, as whoever keeps the machine busy can arrange."""
    monkeypatch.setattr(bubblewrap, "_found", {})
    monkeypatch.setattr(bubblewrap, "_PATIENCE_SECONDS", 0)
    yield


CAUSED: Final = (sockets_unknown, no_files_left, busy_machine)


def streams_to(keyboard: int | None = None) -> StandardStreams:
    """A terminal, or none."""
    return StandardStreams(out=Paper(), err=Paper(), keyboard=keyboard)


@asynccontextmanager
async def open_service(
    ground: Ground, command: str, *, setup: ShellSetup | None = None, **more: Any
) -> AsyncGenerator[tuple[sc.SessionService, ScriptedProvider]]:
    """A service with a model that always obeys."""
    model = ScriptedProvider(*(tool_call("bash", {"command": command}), text("done")) * 3)
    setup = attrs.evolve(setup or ShellSetup(), user_home=str(ground.user))
    config = sc.ServiceConfig(
        models={"m": model}, tools=(ShellTool(setup=setup),), cwd=str(ground.repo), store=sc.MemoryStore(), **more
    )
    async with sc.open_session_service(config) as service:
        yield service, model


async def run(
    ground: Ground, command: str, streams: StandardStreams, *, setup: ShellSetup | None = None, **how: Any
) -> tuple[int, str]:
    """Run one prompt as `session-core run` does; returns the exit code and all that the model was told."""
    options = RunOptions(prompt="go", cwd=str(ground.repo), interaction=InteractionOptions(**how))
    with trio.fail_after(300):
        async with open_service(ground, command, setup=setup) as (service, model):
            code = await converse(service, options, streams, NoSignals())
    return code, repr(model.requests)


@needs_sandbox
@pytest.mark.parametrize("plant", PLANTED)
async def test_a_planted_link_takes_no_sandbox_away(ground: Ground, plant: Callable[[Ground], None]) -> None:
    """With `run --yes` in a hostile repository, a command is confined or refused, and the secret stays one."""
    plant(ground)
    streams = streams_to()
    _, told = await run(ground, ground.attack, streams, yes=True)

    assert SECRET not in told
    assert [] == [*ground.outside.iterdir()]
    assert "[no sandbox]" not in "".join(written(streams))


@needs_sandbox
@pytest.mark.parametrize("cause", CAUSED)
async def test_what_others_cause_takes_no_sandbox_away(
    ground: Ground, cause: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does anything that another user of the machine can cause; nobody is even asked."""
    with ExitStack() as caused:
        caused.enter_context(cause(ground, monkeypatch))
        streams = streams_to()
        _, told = await run(ground, ground.attack, streams, yes=True)

    assert SECRET not in told
    assert [] == [*ground.outside.iterdir()]
    assert "sandbox: denied" not in "".join(written(streams)), "it must be refused before anybody is asked"


@needs_sandbox
@pytest.mark.parametrize("cause", CAUSED)
async def test_a_search_is_confined_or_refused(
    ground: Ground, cause: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program that searches for a tool does not lose its sandbox either."""
    with cause(ground, monkeypatch):
        confined = None
        with suppress(ToolFailed):
            confined = await confine_reading(context_in(ground.repo), {"PATH": "/usr/bin:/bin"})
    assert confined is None or confined.plan is not None


@needs_sandbox
async def test_a_refusal_says_what_to_do(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who cannot be confined is told why, and how to go on."""
    with sockets_unknown(ground, monkeypatch), pytest.raises(ToolFailed) as refused:
        await ShellTool().preview(sc.JsonObject({"command": "true"}), context_in(ground.repo))
    said = str(refused.value)
    assert "it cannot be confined: the system does not list the open sockets; fix the path named above" in said
    assert "--sandbox full-access" in said


@pytest.mark.parametrize(
    "said",
    [
        "bwrap: Creating new namespace failed: Resource temporarily unavailable",
        "bwrap: Can't fork unshare helper: Cannot allocate memory",
        "bwrap: Can't open /newroot: Too many open files",
        "/bin/sh: 1: Cannot fork: Resource temporarily unavailable",
    ],
)
async def test_a_machine_short_of_something_has_a_sandbox_all_the_same(ground: Ground, said: str) -> None:
    """Whoever uses up processes, memory or files while bubblewrap is tried out gets a refusal, not a question."""
    places = ground.folder / "bin"
    places.mkdir()
    (places / "bwrap").write_text(f'#!/bin/sh\necho "{said}" >&2\nexit 1\n')
    (places / "bwrap").chmod(0o755)
    shell = ShellTool(setup=ShellSetup(bubblewrap_places=str(places)))
    with pytest.raises(ToolFailed, match=r"nothing can be confined at the moment: .*; try again"):
        await shell.preview(sc.JsonObject({"command": "true"}), context_in(ground.repo))


# --- who may allow it -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", [{"yes": True}, {"approve": "never"}, {"approve": "rules"}, {}])
async def test_nothing_but_a_person_allows_it(ground: Ground, how: dict[str, Any]) -> None:
    """Where there is no bubblewrap, --yes, --approve and a missing terminal deny, and say what to do."""
    streams = streams_to()
    code, told = await run(ground, ground.attack, streams, setup=NOWHERE, **how)

    assert 3 == code
    assert SECRET not in told
    assert [] == [*ground.outside.iterdir()]
    said = "".join(written(streams))
    assert "bash would run without a sandbox: denied. Only a person may allow that, call by call." in said
    assert "Install bubblewrap" in said
    assert "--sandbox full-access" in said


async def test_yes_denies_even_at_a_terminal(ground: Ground) -> None:
    """With --yes nobody at the terminal is asked either."""
    keyboard, hand = os.pipe()
    code, told = await run(ground, ground.attack, streams_to(keyboard), setup=NOWHERE, yes=True)
    os.close(hand)
    os.close(keyboard)
    assert (3, False) == (code, SECRET in told)


class Typist(Paper):
    """Paper whose reader answers each question with the next word."""

    def __init__(self, hand: int, words: Sequence[str]) -> None:
        super().__init__()
        self._hand, self._words = hand, [*words]

    async def write(self, data: str | bytes) -> None:
        await super().write(data)
        if isinstance(data, str) and "Allow " in data:
            os.write(self._hand, f"{self._words.pop(0)}\n".encode())


@pytest.mark.parametrize(("words", "ran"), [(["y"], True), (["s", "a", "always", "n"], False), (["no, not so"], False)])
async def test_a_person_allows_it_once(ground: Ground, words: list[str], *, ran: bool) -> None:
    """A person is asked with yes and no only, other letters are not clear, and what ran without a sandbox says so."""
    keyboard, hand = os.pipe()
    streams = StandardStreams(out=Paper(), err=Typist(hand, words), keyboard=keyboard)
    code, _ = await run(ground, f"touch {ground.outside}/made", streams, setup=NOWHERE)
    os.close(hand)
    os.close(keyboard)
    said = "".join(written(streams))
    assert (0, ran) == (code, (ground.outside / "made").exists())
    assert "[y]es once, [N]o, [v]iew all of it" in said
    assert ran == ("[no sandbox]" in said)


async def asked(service: sc.SessionService, session_id: sc.SessionId) -> sc.Approval:
    """Wait until a person is asked; a turn that ends without a question fails the test."""
    async with service.follow(session_id) as feed:
        async for item in feed:
            match item:
                case sc.SessionSnapshot(approvals=(approval, *_)):
                    return approval
                case sc.SessionEvent(event=sc.events.ApprovalRequested(approval=approval)):
                    return approval
                case sc.SessionSnapshot(turn=None) | sc.SessionEvent(event=sc.events.TurnEnded()):
                    break
                case _:
                    pass
    raise AssertionError("nobody was asked")


@pytest.mark.parametrize("decision", ["allow_session", "allow_always"])
async def test_it_is_allowed_for_one_call_only(ground: Ground, decision: sc.Decision) -> None:
    """Not even the owner can allow it for longer: the answer is refused, and the question stays open."""
    async with open_service(ground, "true", setup=NOWHERE) as (service, _):
        session_id = (await service.create_session()).session_id
        await service.send_user_message(session_id, "go")
        approval = await asked(service, session_id)
        assert ("unconfined",) == approval.rights
        with pytest.raises(sc.Forbidden, match="can be allowed once only") as refused:
            await service.answer_approval(session_id, approval.request_id, decision)
        assert "decision" == refused.value.field
        assert (approval,) == (await service.load_session(session_id)).approvals
        await service.answer_approval(session_id, approval.request_id, "allow_once")
        assert "completed" == (await service.wait_for_turn(session_id)).outcome.status


async def test_no_earlier_yes_covers_it(ground: Ground) -> None:
    """A standing grant of exactly this call, a rule that allows it and the fullest mode leave it to be asked."""
    standing = StandingGrants()
    rules = (PermissionRule(decision="allow", tool="bash"),)
    config: dict[str, Any] = {"standing": standing, "rules": rules, "permission_mode": "full"}
    async with open_service(ground, "true", setup=NOWHERE, **config) as (service, _):
        session_id = (await service.create_session()).session_id
        for _ in range(2):
            await service.send_user_message(session_id, "go")
            approval = await asked(service, session_id)
            await standing.add(approval.fingerprint, tool="bash", summary="")
            await service.answer_approval(session_id, approval.request_id, "allow_once")
            await service.wait_for_turn(session_id)


@pytest.mark.parametrize("how", [{"yes": True}, {"approve": "never"}])
async def test_full_access_is_chosen_openly(ground: Ground, how: dict[str, Any]) -> None:
    """With --sandbox full-access commands run unconfined where the mode lets them, which is said first and of each."""
    streams = streams_to()
    options = RunOptions(
        prompt="go",
        cwd=str(ground.repo),
        sandbox="full_access",
        permissions="full",
        interaction=InteractionOptions(**how),
    )
    async with open_service(ground, f"touch {ground.outside}/made") as (service, _):
        assert 0 == await converse(service, options, streams, NoSignals())
    assert (ground.outside / "made").exists()
    said = "".join(written(streams))
    assert "This session has no sandbox: its commands can do anything that you can do." in said
    assert "[no sandbox]" in said
