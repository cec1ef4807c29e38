"""What servers without manners can do to us: nothing, but fail."""

import json
import os
import signal
import sys

import attrs
import pytest
import trio
from trio.testing import MockClock

from session_core.errors import InvalidInput, NotFound
from session_core.limits import MAX_TOOL_OUTPUT_CHARS
from session_core.mcp.client import open_mcp_servers
from session_core.mcp.config import StdioServer
from session_core.mcp.content import MAX_TOOLS, ServerStatus
from session_core.mcp.diagnostics import MAX_LINE_CHARS, MAX_LINES, Diagnostics
from session_core.mcp.transport import McpFailed
from tests.session_core.mcp._harness import PATIENCE, QUICK, Called, call, failure, gone, ready, rude, tool_named


@pytest.mark.usefixtures("unhurried")
async def test_a_server_that_dies_at_the_start_is_given_up() -> None:
    """It is tried a few times, then left alone with a reason that quotes its last words, until someone asks for it."""
    seen: list[ServerStatus] = []
    async with open_mcp_servers([rude("die")], pace=QUICK, on_change=seen.append) as servers:
        with trio.fail_after(PATIENCE):
            await servers._connection("rude").wait_for_status(lambda status: status.gave_up)
        status = servers.status("rude")
        assert "its process ended with exit status 3; it last wrote: no licence found" == status.reason
        assert ("failed", QUICK.attempts, ()) == (status.state, status.attempts, servers.tools())
        assert ["failed", "connecting"] * 2 + ["failed"] == [each.state for each in seen]
        servers.reconnect("rude")
        with trio.fail_after(PATIENCE):
            await servers.wait_for_state("rude", "connecting")
            assert 1 == (await servers.wait_for_state("rude", "failed")).attempts


async def test_a_program_that_does_not_exist_says_so() -> None:
    """The reason names the program, or the folder it should run in."""
    missing = StdioServer(name="a", command="no-such-program-here", cwd="/")
    astray = StdioServer(name="b", command=sys.executable, cwd="/no/such/folder")
    async with open_mcp_servers([missing, astray], pace=QUICK) as servers:
        with trio.fail_after(PATIENCE):
            assert "there is no such program" in (await servers.wait_for_state("a", "failed")).reason
            assert "the folder '/no/such/folder' does not exist" in (await servers.wait_for_state("b", "failed")).reason


async def test_a_server_that_never_answers_the_greeting_is_not_waited_for(mock_clock: MockClock) -> None:
    """It fails after its time, and others are ready meanwhile."""
    mock_clock.rate = 1.5 / PATIENCE  # until the other is ready, however slow this machine is
    pace = attrs.evolve(QUICK, connecting=1.5)
    async with open_mcp_servers([rude("mute", name="mute"), rude()], pace=pace) as servers:
        assert "ready" == (await servers.wait_for_state("rude", "ready", "failed")).state
        assert "connecting" == servers.status("mute").state
        mock_clock.rate = 1
        with trio.fail_after(PATIENCE):
            assert (
                "it did not become ready within 1.5 seconds" == (await servers.wait_for_state("mute", "failed")).reason
            )


async def test_a_server_that_does_not_keep_to_the_protocol_fails() -> None:
    """The reason names the place where it does not."""
    async with open_mcp_servers([rude("broken")], pace=QUICK) as servers:
        with trio.fail_after(PATIENCE):
            reason = (await servers.wait_for_state("rude", "failed")).reason
        assert "it does not keep to the protocol at 'tools.9.inputSchema.type': Input should be 'object'" == reason


async def test_a_call_to_a_failed_server_says_what_is_wrong() -> None:
    """The tools of a server that is gone for good stay, and their calls fail with the reason."""
    pace = attrs.evolve(QUICK, patience=0.01)
    async with open_mcp_servers([rude()], pace=pace) as servers:
        await ready(servers, "rude")
        tick = tool_named(servers, "mcp__rude__tick")
        servers._connection("rude").config = attrs.evolve(rude(), command="no-such-program")
        assert "about to crash" in await failure(servers, "mcp__rude__crash")
        with trio.fail_after(PATIENCE):
            await servers.wait_for_state("rude", "failed")
        assert "is not available: cannot run 'no-such-program'" in await failure(servers, "mcp__rude__tick")
        assert tick is tool_named(servers, "mcp__rude__tick")


async def test_what_is_no_message_is_passed_over() -> None:
    """Greetings and broken lines on stdout are noted for diagnosis, and the messages between them arrive."""
    async with open_mcp_servers([rude("garbage")], pace=QUICK) as servers:
        await ready(servers, "rude")
        assert "cancelled: []" == (await call(servers, "mcp__rude__tick")).text
        assert "not a message: Welcome!" in servers.diagnostics("rude")


async def test_a_huge_result_is_cut() -> None:
    """Two megabytes of text arrive as its beginning and its end, with a remark between."""
    async with open_mcp_servers([rude()], pace=QUICK) as servers:
        await ready(servers, "rude")
        text = (await call(servers, "mcp__rude__huge")).text
        assert MAX_TOOL_OUTPUT_CHARS - 2 <= len(text) <= MAX_TOOL_OUTPUT_CHARS
        assert "characters left out" in text


async def test_a_monstrous_message_costs_its_own_call_only() -> None:
    """A message beyond the bound ends the call it answers; a crooked one does too; the server goes on."""
    async with open_mcp_servers([rude()], pace=QUICK) as servers:
        await ready(servers, "rude")
        pid = servers.status("rude").pid
        assert "the answer has more than 16,777,216 bytes" in await failure(servers, "mcp__rude__monstrous")
        assert "it does not keep to the protocol at 'content'" in await failure(servers, "mcp__rude__crooked")
        assert "cancelled: []" == (await call(servers, "mcp__rude__tick")).text
        assert pid == servers.status("rude").pid


@pytest.mark.usefixtures("unhurried")
async def test_a_call_ends_with_its_server() -> None:
    """A crash in the middle of a call ends it at once, in words; the server is started again and used."""
    async with open_mcp_servers([rude()], pace=QUICK) as servers:
        await ready(servers, "rude")
        told = await failure(servers, "mcp__rude__crash")
        assert "the MCP server 'rude' was lost before it answered: its process ended with exit status 7" in told
        assert "cancelled: []" == (await call(servers, "mcp__rude__tick")).text


async def test_a_cancelled_call_is_cancelled_at_the_server() -> None:
    """The server is told, and the connection is as good as before."""
    async with open_mcp_servers([rude()], pace=QUICK) as servers:
        await ready(servers, "rude")
        called = Called()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, servers, "mcp__rude__silent", called)
            await called.happened.wait()
            nursery.cancel_scope.cancel()
        assert "cancelled: ['caller cancelled']" == (await call(servers, "mcp__rude__tick")).text


async def test_a_call_has_a_time_limit() -> None:
    """A server that does not answer in time is told to stop, and so is the model."""
    async with open_mcp_servers([rude()], pace=QUICK) as servers:
        await ready(servers, "rude")
        servers._connection("rude").config = rude(timeout_ms=200)
        assert "did not answer within 0.2 seconds" in await failure(servers, "mcp__rude__silent")
        servers._connection("rude").config = rude()  # which has all the time it needs for a real answer
        assert "cancelled: ['caller cancelled']" == (await call(servers, "mcp__rude__tick")).text


async def test_cancelling_does_not_wait_for_a_deaf_server() -> None:
    """A server that has stopped reading cannot hold up a stop."""
    with trio.fail_after(PATIENCE):  # the server would sleep for ten minutes
        async with open_mcp_servers([rude("deaf")], pace=QUICK) as servers:
            await ready(servers, "rude")
            for _ in range(3):
                with trio.move_on_after(0.01) as scope:
                    await call(servers, "mcp__rude__tick", text="z" * 500_000)
                assert scope.cancelled_caught


async def test_nothing_of_a_server_is_left() -> None:
    """A child that ignores SIGTERM and holds the pipes is ended with its server, when closing and after a kill -9."""
    async with open_mcp_servers([rude("child")], pace=QUICK) as servers:
        await ready(servers, "rude")
        first, pid = int(tool_named(servers, "mcp__rude__tick").spec.description), servers.status("rude").pid
        assert pid is not None
        assert os.getpgid(first) == pid != os.getpgid(0)
        os.kill(pid, signal.SIGKILL)
        await gone(first)
        await servers._connection("rude").wait_for_status(lambda status: status.state == "ready" and status.pid != pid)
        second = int(tool_named(servers, "mcp__rude__tick").spec.description)
        assert first != second
    await gone(second)


async def test_a_server_sees_a_clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of our variables it gets the harmless ones, and on top of them what its entry says."""
    monkeypatch.setenv("SECRET_TOKEN", "s3cret")
    async with open_mcp_servers([rude(env={"MINE": "1", "LANG": "C"})], pace=QUICK) as servers:
        await ready(servers, "rude")
        seen = json.loads((await call(servers, "mcp__rude__environment")).text)
        assert ("1", "C", os.environ["PATH"]) == (seen["MINE"], seen["LANG"], seen["PATH"])
        assert "SECRET_TOKEN" not in seen


async def test_tools_are_filtered_and_bounded() -> None:
    """Allowed and denied names decide, broken descriptions are left out with a remark, and there is a most."""
    chosen = rude(name="chosen", allow=("t*", "huge", "deep"), deny=("tick",))
    async with open_mcp_servers(
        [rude(), chosen, rude("many", name="many"), rude("circle", name="circle")], pace=QUICK
    ) as servers:
        for name in ("rude", "chosen", "many", "circle"):
            await ready(servers, name)
        names = {tool.spec.name for tool in servers.tools()}
        assert {"mcp__chosen__huge"} == {name for name in names if "chosen" in name}
        left_out = "the tool 'deep' is left out: the description of its arguments is too large"
        assert (left_out,) == servers.status("chosen").notes
        assert (MAX_TOOLS, 8) == (servers.status("many").tools, servers.status("circle").tools)
        assert "mcp__rude__with_dots_and_blanks_a08043b5" in names
        assert "done: with.dots" in (await call(servers, "mcp__rude__with_dots_and_blanks_a08043b5")).text


async def test_arguments_that_no_text_can_hold_are_refused() -> None:
    """Half a character never reaches the pipe, where it would break the connection."""
    async with open_mcp_servers([rude()], pace=QUICK) as servers:
        await ready(servers, "rude")
        assert "unpaired surrogate" in await failure(servers, "mcp__rude__tick", text="\ud800")
        assert "cancelled: []" == (await call(servers, "mcp__rude__tick")).text


async def test_a_disabled_server_is_listed_and_not_started() -> None:
    """It has a status with a reason, no tools, and cannot be asked anything."""
    async with open_mcp_servers([rude(disabled=True)]) as servers:
        await servers.wait_until_settled()
        assert ("disabled", None) == (servers.status("rude").state, servers.status("rude").pid)
        with pytest.raises(McpFailed, match="it is disabled"):
            await servers.list_resources("rude")
        with pytest.raises(NotFound, match="servers: rude"):
            await servers.list_prompts("nobody")


async def test_two_servers_of_one_name_are_refused() -> None:
    """Their tools could not be told apart."""
    with pytest.raises(InvalidInput, match="two MCP servers called 'rude'"):
        async with open_mcp_servers([rude(), rude()]):
            raise AssertionError


def test_diagnostics_are_bounded() -> None:
    """However much a server writes, with or without line ends, little of it is kept, and it is the end."""
    diagnostics = Diagnostics()
    for number in range(1_000):
        diagnostics.feed(f"line {number}\n{'x' * 9_000}".encode())
    diagnostics.finish()
    assert len(diagnostics.lines()) == MAX_LINES
    assert all(len(line) <= MAX_LINE_CHARS + 4 for line in diagnostics.lines())
    assert diagnostics.last().startswith("xxx")
    diagnostics.begin()
    assert "" == diagnostics.last()
