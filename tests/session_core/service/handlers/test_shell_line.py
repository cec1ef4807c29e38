"""`!line`: a person's own command runs under the rules of all commands, and the model sees what it did."""

from pathlib import Path

import attrs
import pytest
import trio

from session_core.agent.hooks import Blocked, HookName
from session_core.errors import Conflict, Forbidden, InvalidInput, Unavailable
from session_core.ids import SessionId
from session_core.permissions.rules import PermissionRule
from session_core.service.config import ServiceConfig
from session_core.service.service import SessionService
from session_core.storage.memory import MemoryStore
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import ScriptedProvider, ScriptedTool, text
from session_core.tools.base import CallPreview, ToolContext, ToolOutput
from session_core.tools.shell import ShellTool
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.replies import ShellLineReply
from session_core.vocabulary.sessions import Decision, SandboxPolicy, TurnStatus
from tests._needs import needs_program, needs_sandbox
from tests.session_core.service._helpers import new_session, of_type, say


class FakeShell(ScriptedTool):
    """A shell that runs nothing: it tells rules its command, and may insist on being asked for."""

    always_ask: str | None = None

    async def preview(self, arguments: JsonObject, context: ToolContext) -> CallPreview:
        return CallPreview(summary="run", command=str(arguments["command"]), always_ask=self.always_ask)


def shell(run: object = "hello\n[exit code 0]") -> FakeShell:
    return FakeShell("bash", effects=("execute", "network"), run=run)  # type: ignore[arg-type]


def config(tool: ScriptedTool | ShellTool | None, *answers: object, **settings: object) -> ServiceConfig:
    model = ScriptedProvider(*answers)  # type: ignore[arg-type]
    return ServiceConfig(
        models={"m": model},
        tools=() if tool is None else (tool,),
        cwd="/",
        store=MemoryStore(),
        **settings,  # type: ignore[arg-type]
    )


async def run(service: SessionService, session_id: SessionId, line: str) -> tuple[TurnStatus, str]:
    """Run a line to its end; returns how it ended and what the conversation says of it."""
    reply = await service.run_shell_line(session_id, line)
    outcome = (await service.wait_for_turn(session_id, reply.turn_id)).outcome
    return outcome.status, (await service.load_session(session_id)).transcript[-1].text


async def run_and_answer(
    service: SessionService, session_id: SessionId, line: str, decision: Decision
) -> ShellLineReply:
    """Run a line to its end, and give this answer to every question."""
    async with service.subscribe(session_id) as events:
        reply = await service.run_shell_line(session_id, line)
        while True:
            for each in await events.receive_batch():
                if isinstance(each.event, ev.ApprovalRequested):
                    await service.answer_approval(session_id, each.event.approval.request_id, decision)
                elif isinstance(each.event, ev.TurnEnded):
                    return reply


async def test_the_next_turn_sees_it() -> None:
    """Without a question in the strict mode the line runs, and the next model call has it in its conversation."""
    setup = config(shell(), text("I see"), permission_mode="ask_all")
    with trio.fail_after(300):
        async with open_checked_service(setup) as service:
            session_id = await new_session(service)
            status, said = await run(service, session_id, " echo hello ")
            await say(service, session_id, "what was that?")
            snapshot = await service.load_session(session_id)

    told = "I have run this command myself:\n\n$ echo hello\n\nhello\n[exit code 0]"
    assert ("completed", told) == (status, said)
    assert ["user", "user", "assistant"] == [each.role for each in snapshot.transcript]
    model = setup.models["m"]
    assert isinstance(model, ScriptedProvider)
    assert told in [each.text for each in model.requests[0].messages]
    assert ((), "idle") == (snapshot.tools, snapshot.activity.name)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"rules": (PermissionRule(decision="deny", command="rm *"),)}, "a rule in the configuration forbids it"),
        ({"permission_mode": "read_only"}, "this session is read-only"),
    ],
)
async def test_what_is_denied_stays_denied(settings: dict[str, object], reason: str) -> None:
    """A rule that denies, and a read-only session, hold for people too; the conversation says so."""
    tool = shell()
    with trio.fail_after(300):
        async with open_checked_service(config(tool, **settings)) as service:
            status, said = await run(service, await new_session(service), "timeout 5 rm x")

    assert [] == tool.calls
    assert "completed" == status
    assert "(denied)" in said
    assert reason in said


@pytest.mark.parametrize("decision", ["allow_once", "deny"])
async def test_what_must_always_be_asked_is(decision: Decision) -> None:
    """Where no mode may skip the question, typing the line does not skip it either."""
    tool = shell()
    tool.always_ask = "there is no sandbox"
    with trio.fail_after(300):
        async with open_checked_service(config(tool, permission_mode="full")) as service:
            session_id = await new_session(service)
            reply = await run_and_answer(service, session_id, "ls", decision)
            await service.wait_for_turn(session_id, reply.turn_id)

    assert (1 if decision == "allow_once" else 0) == len(tool.calls)


async def test_a_stop_ends_it() -> None:
    """A stop ends the command, and what it had written until then is in the conversation."""

    async def forever(_arguments: JsonObject, context: ToolContext) -> ToolOutput:
        context.report("so far")
        started.set()
        await trio.sleep_forever()
        raise AssertionError

    started = trio.Event()
    with trio.fail_after(300):
        async with open_checked_service(config(shell(forever))) as service:
            session_id = await new_session(service)
            reply = await service.run_shell_line(session_id, "sleep 100")
            await started.wait()
            with pytest.raises(Conflict, match="cannot run a command while a turn is running"):
                await service.run_shell_line(session_id, "ls")
            stopped = await service.request_stop(session_id)
            outcome = (await service.wait_for_turn(session_id, reply.turn_id)).outcome
            snapshot = await service.load_session(session_id)
            deltas = of_type(service, session_id, ev.ToolOutputDelta)

    assert ("stopped", "stopped", "stopped") == (stopped.result, outcome.status, snapshot.activity.name)
    assert "$ sleep 100\n\nso far\n[it was ended before it was done]" in snapshot.transcript[-1].text
    assert (("so far",), ()) == (tuple(each.text for each in deltas), snapshot.tools)


async def test_what_was_sent_meanwhile_follows() -> None:
    """A message that comes while the command runs starts a turn when it has ended."""

    async def wait(_arguments: JsonObject, _context: ToolContext) -> ToolOutput:
        await go_on.wait()
        return ToolOutput(text="done")

    go_on = trio.Event()
    with trio.fail_after(300):
        async with open_checked_service(config(shell(wait), text("answer"))) as service:
            session_id = await new_session(service)
            first = await service.run_shell_line(session_id, "x")
            await service.send_user_message(session_id, "and now?")
            go_on.set()
            await service.wait_for_turn(session_id, first.turn_id)
            async with service.follow(session_id) as feed:
                async for _ in feed:
                    roles = [each.role for each in (await service.load_session(session_id)).transcript]
                    if roles == ["user", "user", "assistant"]:
                        break


@pytest.mark.parametrize(
    ("line", "rights"),
    [
        ("+network,sockets make", {"network": True, "sockets": True}),
        ("git commit -m x", {"change_protected": True}),
        ("git status", {}),
    ],
)
async def test_rights_beyond_the_sandbox(line: str, rights: dict[str, bool]) -> None:
    """What a line asks for becomes arguments of the shell, which asks; an undo gives back what was typed."""
    tool = shell()
    with trio.fail_after(60):
        async with open_checked_service(config(tool)) as service:
            session_id = await new_session(service)
            _, said = await run(service, session_id, line)
            typed = (await service.restore_to_message(session_id)).text

    command = line.removeprefix("+network,sockets ")
    assert [{"command": command, **rights}] == tool.calls
    assert (f"!{line}", True) == (typed, f"$ {line}\n" in said)


@needs_sandbox
@needs_program("git")
@pytest.mark.parametrize(("decision", "subject"), [("allow_once", "mine"), ("deny", "")])
async def test_git_commit(tmp_path: Path, decision: Decision, subject: str) -> None:
    """A person's `git commit` asks for leave to change `.git`, commits after a yes, and does nothing after a no."""
    git = ("git", "-C", str(tmp_path))
    await trio.run_process([*git, "init", "-q"])
    line = "git -c user.name=me -c user.email=me@localhost commit -q --allow-empty -m mine"
    with trio.fail_after(60):
        async with open_checked_service(config(ShellTool())) as service:
            session_id = await new_session(service, cwd=str(tmp_path))
            await run_and_answer(service, session_id, line, decision)
            (asked,) = of_type(service, session_id, ev.ApprovalRequested)

    log = await trio.run_process([*git, "log", "--format=%s"], capture_stdout=True, capture_stderr=True, check=False)
    assert ("it wants to change protected files such as .git", ("protected",)) == (
        asked.approval.reason,
        asked.approval.rights,
    )
    assert subject == log.stdout.decode().strip()


@attrs.frozen
class NoShell:
    """An extension that lets nobody type commands."""

    def handles(self, hook: HookName) -> bool:
        return hook == "user_bash"

    async def run(self, hook: HookName, session_id: SessionId, value: JsonObject) -> JsonObject | Blocked:
        return Blocked(reason=f"not {value['command']}")


async def test_an_extension_may_veto() -> None:
    """The hook `user_bash` is asked before anything begins."""
    tool = shell()
    with trio.fail_after(300):
        async with open_checked_service(config(tool, hooks=NoShell())) as service:
            session_id = await new_session(service)
            for line in ("ls", "+network ls"):
                with pytest.raises(Forbidden, match="not ls"):
                    await service.run_shell_line(session_id, line)
            assert ([], []) == (tool.calls, of_type(service, session_id, ev.TurnStarted))


@pytest.mark.parametrize("line", ["", "  ", "x" * 30_001, "a\0b", "\ud800", "+network", "+all ls"])
async def test_lines_that_cannot_be(line: str) -> None:
    """A line that is empty or too long, that no shell could get, or that asks for an unknown right is refused."""
    async with open_checked_service(config(shell())) as service:
        session_id = await new_session(service)
        with pytest.raises(InvalidInput) as refused:
            await service.run_shell_line(session_id, line)
    assert "line" == refused.value.field


async def test_without_a_shell() -> None:
    """Where the shell is switched off, a person is told so."""
    async with open_checked_service(config(None)) as service:
        session_id = await new_session(service)
        with pytest.raises(Unavailable, match="no tool called 'bash'"):
            await service.run_shell_line(session_id, "ls")


async def test_a_real_shell(tmp_path: Path) -> None:
    """A real command runs in the session's folder, and a failing preview or a wrong exit code is told."""
    with trio.fail_after(300):
        async with open_checked_service(config(ShellTool(), sandbox=SandboxPolicy(mode="full_access"))) as service:
            session_id = await new_session(service, cwd=str(tmp_path))
            reply = await run_and_answer(service, session_id, "pwd; exit 3", "allow_once")
            await service.wait_for_turn(session_id, reply.turn_id)
            said = (await service.load_session(session_id)).transcript[-1].text

    assert f"{tmp_path}\n[exit code 3]" in said


@pytest.mark.parametrize("came_out", ["hello\n\nyou", ""])
async def test_going_back_hands_out_what_was_typed(came_out: str) -> None:
    """After an undo of a line people get the line as they typed it, not what the conversation says of it."""
    async with open_checked_service(config(shell(came_out), permission_mode="ask_all")) as service:
        session_id = await new_session(service)
        await run(service, session_id, "echo hello |\n cat")
        await run(service, session_id, "rm -r x")
        texts = [(await service.restore_to_message(session_id)).text for _ in range(2)]

    assert ["!rm -r x", "!echo hello |\n cat"] == texts
