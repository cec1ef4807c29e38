"""A guest, a client with a token for one session: what it answers never gives it more than the session has."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, Literal

import attrs
import pytest
import trio

import session_core as sc
from frontends.server.access import Access
from frontends.server.http.tokens import scoped_token
from session_core.permissions.answers import possible_decisions
from session_core.testing.scripted import text, tool_call
from session_core.tools.command_confinement import ShellSetup
from session_core.tools.files import coding_file_tools
from session_core.tools.shell import ShellTool
from tests._needs import needs_sandbox
from tests.frontends.server._world import PlainClient, World, open_world
from tests.frontends.server.http._listener import RunningListener, open_listener
from tests.session_core.agent._previewing import PutTool

RIGHTS: Final[tuple[tuple[sc.ExtraRight, ...], ...]] = (
    (),
    ("network",),
    ("sockets",),
    ("protected",),
    ("unconfined",),
    ("network", "protected"),
    ("unconfined", "network"),
)
DECISIONS: Final[tuple[sc.Decision, ...]] = ("allow_once", "allow_session", "allow_always", "deny")
PUT: Final = tool_call("put", {"text": "new"})


@attrs.frozen(kw_only=True)
class Guest:
    """A client of one session, in which a call waits for an answer."""

    service: sc.SessionService
    client: PlainClient
    session_id: sc.SessionId
    approval: sc.Approval
    tool: PutTool

    async def answer(self, decision: sc.Decision) -> sc.replies.AnswerReply:
        """Answer the open approval."""
        return await self.client.run(
            sc.commands.AnswerApproval(
                session_id=self.session_id, request_id=self.approval.request_id, decision=decision
            )
        )


async def first_request(
    service: sc.SessionService, session_id: sc.SessionId, kind: Literal["approval", "dialog"]
) -> Any:
    """Wait until somebody is asked."""
    async with service.follow(session_id) as feed:
        async for item in feed:
            match item:
                case sc.SessionSnapshot() if kind == "approval" and item.approvals:
                    return item.approvals[0]
                case sc.SessionSnapshot() if kind == "dialog" and item.dialogs:
                    return item.dialogs[0]
                case sc.SessionEvent(event=sc.events.ApprovalRequested(approval=found)) if kind == "approval":
                    return found
                case sc.SessionEvent(event=sc.events.DialogOpened(dialog=opened)) if kind == "dialog":
                    return opened
    raise AssertionError


def guest_of(session_id: sc.SessionId) -> Access:
    """The rights of a guest."""
    return Access(role="controller", sessions=frozenset({session_id}))


@asynccontextmanager
async def waiting_call(rights: tuple[sc.ExtraRight, ...]) -> AsyncGenerator[Guest]:
    """A guest who is asked about a call with these rights."""
    tool = PutTool(rights=rights)
    config = {"tools": (tool,)}
    with trio.fail_after(300):
        async with open_world(PUT, text("done"), config=config) as world:
            session_id = (await world.service.create_session()).session_id
            await world.service.send_user_message(session_id, "go")
            approval = await first_request(world.service, session_id, "approval")
            async with world.client(guest_of(session_id), client_id="guest") as client:
                yield Guest(service=world.service, client=client, session_id=session_id, approval=approval, tool=tool)
            await world.service.request_stop(session_id)


@pytest.mark.parametrize("rights", RIGHTS)
@pytest.mark.parametrize("decision", DECISIONS)
async def test_what_a_guest_may_answer(rights: tuple[sc.ExtraRight, ...], decision: sc.Decision) -> None:
    """A guest's answer counts exactly if the table has it; else nothing runs, and the question stays open."""
    async with waiting_call(rights) as guest:
        assert rights == guest.approval.rights
        if decision in possible_decisions(rights, "guest"):
            assert (await guest.answer(decision)).accepted
            await guest.service.wait_for_turn(guest.session_id)
            assert (decision != "deny") == bool(guest.tool.rights)
            return
        with pytest.raises(sc.AccessDenied, match=r"a scoped token|allowed once only") as refused:
            await guest.answer(decision)
        assert "decision" == refused.value.field
        assert (guest.approval,) == (await guest.service.load_session(guest.session_id)).approvals
        assert [] == guest.tool.rights


async def test_a_guest_can_still_say_no_to_what_only_the_owner_may_allow() -> None:
    """Nothing is wider for a no, and it ends the question."""
    async with waiting_call(("unconfined",)) as guest:
        assert (await guest.answer("deny")).accepted
        await guest.service.wait_for_turn(guest.session_id)
        assert [] == guest.tool.rights


@pytest.mark.parametrize("rights", RIGHTS)
@pytest.mark.parametrize("value", [True, False, None, 1, "yes"])
async def test_what_a_guest_may_say_to_an_extension(rights: tuple[sc.ExtraRight, ...], value: Any) -> None:
    """A dialog about a program of an extension is held to the same table as an approval; a no always counts."""

    async def ask(world: World, session_id: sc.SessionId) -> None:
        await world.service.open_dialog(session_id, "confirm", "May it run?", rights=rights)

    with trio.fail_after(300):
        async with open_world() as world, trio.open_nursery() as nursery:
            session_id = (await world.service.create_session()).session_id
            nursery.start_soon(ask, world, session_id)
            dialog = await first_request(world.service, session_id, "dialog")
            answer = sc.commands.AnswerDialog(session_id=session_id, request_id=dialog.request_id, value=value)
            async with world.client(guest_of(session_id), client_id="guest") as client:
                if value in (None, False) or "allow_once" in possible_decisions(rights, "guest"):
                    assert (await client.run(answer)).accepted
                else:
                    with pytest.raises(sc.AccessDenied, match="the owner of the service can"):
                        await client.run(answer)
                    assert (dialog,) == (await world.service.load_session(session_id)).dialogs
            nursery.cancel_scope.cancel()


async def post(world: RunningListener, token: str, name: str, **fields: Any) -> tuple[int, dict[str, Any]]:
    """Send one command over HTTP."""
    async with world.client(token) as client:
        answer = await client.post(f"/v1/commands/{name}", json=fields)
    return answer.status_code, answer.json()


@needs_sandbox
async def test_no_way_to_change_protected_files(tmp_path: Path) -> None:
    """A guest asks for a command with `change_protected`, and its own yes does not count."""
    repo = tmp_path / "repo"
    repo.mkdir()
    command = {"command": "ln -s /tmp .vscode", "change_protected": True}
    config = {"tools": (ShellTool(),), "cwd": str(repo)}
    async with open_listener(tmp_path / "home", tool_call("bash", command), text("done"), config=config) as world:
        status, answer = await say_yes(world)
        assert (403, "access_denied") == (status, answer["code"])
        assert "change protected files" in answer["message"]
        assert [] == [*repo.iterdir()]


async def test_no_way_to_the_token_of_the_home(tmp_path: Path) -> None:
    """A guest asks for the token where nothing confines, and its own yes does not count."""
    home, repo = tmp_path / "home", tmp_path / "repo"
    repo.mkdir()
    setup = ShellSetup(bubblewrap_places="/nowhere", hidden=(str(home),))
    command = {"command": f"cp {home}/run/token {repo}/stolen"}
    config = {"tools": (ShellTool(setup=setup),), "cwd": str(repo)}
    async with open_listener(home, tool_call("bash", command), text("done"), config=config) as world:
        assert world.token, "there is something to steal"
        status, answer = await say_yes(world)
        assert (403, "access_denied") == (status, answer["code"])
        assert "run without a sandbox" in answer["message"]
        assert [] == [*repo.iterdir()]


async def test_no_way_by_writing_a_protected_file(tmp_path: Path) -> None:
    """Nor does a guest's yes let the write tool plant what runs later in the owner's name."""
    repo = tmp_path / "repo"
    repo.mkdir()
    call = tool_call("write", {"path": ".git/config", "content": "[core]\n\tfsmonitor = touch stolen\n"})
    config = {"tools": coding_file_tools(), "cwd": str(repo), "permission_mode": "auto_edit"}
    async with open_listener(tmp_path / "home", call, text("done"), config=config) as world:
        status, answer = await say_yes(world)
        assert (403, "access_denied") == (status, answer["code"])
        assert [] == [*repo.iterdir()]


async def test_no_way_by_a_line_of_ones_own(tmp_path: Path) -> None:
    """A shell line that a guest types is asked about where nothing confines it, and its own yes does not count."""
    repo = tmp_path / "repo"
    repo.mkdir()
    config = {"tools": (ShellTool(setup=ShellSetup(bubblewrap_places="/nowhere")),), "cwd": str(repo)}
    async with open_listener(tmp_path / "home", config=config) as world:
        session_id = (await world.service.create_session()).session_id
        token = scoped_token(world.home, guest_of(session_id), expires_at=sc.now_ms() + 60_000)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: post(world, token, "run_shell_line", session_id=session_id, line="touch made"))
            status, answer = await answer_yes(world, token, session_id)
            await world.service.request_stop(session_id)
        assert (403, "access_denied") == (status, answer["code"])
        assert [] == [*repo.iterdir()]


async def say_yes(world: RunningListener) -> tuple[int, dict[str, Any]]:
    """As a guest: send a message, wait for the question, and say yes to it oneself."""
    with trio.fail_after(300):
        session_id = (await world.service.create_session()).session_id
        token = scoped_token(world.home, guest_of(session_id), expires_at=sc.now_ms() + 60_000)
        await post(world, token, "send_user_message", session_id=session_id, text="go")
        answered = await answer_yes(world, token, session_id)
        await world.service.request_stop(session_id)
        return answered


async def answer_yes(world: RunningListener, token: str, session_id: sc.SessionId) -> tuple[int, dict[str, Any]]:
    """Wait for a question, and say yes to it with this token."""
    approval = await first_request(world.service, session_id, "approval")
    fields = {"session_id": session_id, "request_id": approval.request_id, "decision": "allow_once"}
    return await post(world, token, "answer_approval", **fields)
