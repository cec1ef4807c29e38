"""Servers that keep to the protocol: one that others wrote, and one written with the SDK."""

import os
import signal

import pytest
import trio

from session_core.mcp.client import open_mcp_servers
from session_core.mcp.content import McpPrompt, McpResource, PromptArgument, PromptMessage, ResourceText
from session_core.mcp.transport import McpFailed
from session_core.tools.base import ToolFailed, ToolOutput
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ImagePart
from tests.session_core.mcp._harness import (
    PATIENCE,
    QUICK,
    Called,
    call,
    failure,
    ready,
    time_server,
    tool_named,
    workshop,
)
from tests.session_core.mcp._servers import PNG


@pytest.mark.slow
@pytest.mark.usefixtures("unhurried")
async def test_the_time_server_works_dies_and_works_again() -> None:
    """A call succeeds, bad arguments are explained, a kill -9 is survived: the server is back for the next call."""
    async with open_mcp_servers([time_server()], pace=QUICK) as servers:
        await ready(servers, "time")
        now = tool_named(servers, "mcp__time__get_current_time")
        assert {"read"} == now.effects
        assert ("timezone",) == now.spec.parameters["required"]
        output = await call(servers, "mcp__time__get_current_time", timezone="Asia/Tokyo")
        assert '"timezone": "Asia/Tokyo"' in output.text
        assert output.details is not None
        structured = output.details["structured"]
        assert isinstance(structured, JsonObject)
        assert "Asia/Tokyo" == structured["timezone"]
        assert "No time zone found with key Mars" in await failure(
            servers, "mcp__time__get_current_time", timezone="Mars"
        )
        assert "timezone" in await failure(servers, "mcp__time__get_current_time", wrong=1)
        with trio.CancelScope() as scope:
            scope.cancel()
            await call(servers, "mcp__time__get_current_time", timezone="UTC")
        assert '"UTC"' in (await call(servers, "mcp__time__get_current_time", timezone="UTC")).text
        pid = servers.status("time").pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        with trio.fail_after(PATIENCE):
            lost = await servers.wait_for_state("time", "connecting")
        assert "its process was ended by SIGKILL" in lost.reason
        assert '"UTC"' in (await call(servers, "mcp__time__get_current_time", timezone="UTC")).text
        assert pid != servers.status("time").pid


@pytest.mark.usefixtures("unhurried")
@pytest.mark.slow
async def test_a_call_under_way_ends_when_its_server_is_killed() -> None:
    """The model is told in plain words, and the server is there again afterwards."""
    async with open_mcp_servers([workshop()], pace=QUICK) as servers:
        await ready(servers, "workshop")
        called, told = Called(), []

        async def hang() -> None:
            with pytest.raises(ToolFailed) as raised:
                await call(servers, "mcp__workshop__hang", called)
            told.append(str(raised.value))

        async with trio.open_nursery() as nursery:
            nursery.start_soon(hang)
            await called.happened.wait()
            pid = servers.status("workshop").pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
        assert ["the MCP server 'workshop' was lost before it answered: its process was ended by SIGKILL"] == told
        assert "counted to 1" == (await call(servers, "mcp__workshop__count", to=1)).text


async def test_what_a_server_can_give_arrives() -> None:
    """Progress, pictures, sound, links, resources, structured content, failures; and new tools are noticed."""
    async with open_mcp_servers([workshop()], pace=QUICK) as servers:
        await ready(servers, "workshop")
        assert "Ask for the count first." == servers.status("workshop").instructions
        called = Called()
        assert "counted to 3" == (await call(servers, "mcp__workshop__count", called, to=3)).text
        assert called.texts
        assert set(called.texts) <= {"at 1 (1 of 3)\n", "at 2 (2 of 3)\n", "at 3 (3 of 3)\n"}
        assert sorted(called.texts) == called.texts, "progress never goes back"
        assert ToolOutput(
            text="look\n[image left out: image/tiff, about 15 bytes]\n[sound left out: audio/wav, about 3 bytes]\n"
            "[resource memo://first (first)]\ninside\n"
            "[resource memo://blob left out: application/zip, about 3 bytes]",
            images=(ImagePart(media_type="image/png", data=PNG),),
            details=JsonObject({"server": "workshop", "tool": "picture"}),
        ) == await call(servers, "mcp__workshop__picture")
        assert '{"one": 1}' == (await call(servers, "mcp__workshop__numbers")).text
        assert "out of glue" in await failure(servers, "mcp__workshop__fail")
        assert frozenset({"execute", "network"}) == tool_named(servers, "mcp__workshop__fail").effects
        assert "grew" == (await call(servers, "mcp__workshop__grow")).text
        with trio.fail_after(PATIENCE):
            await servers._connection("workshop").wait_for_status(lambda status: status.tools == 8)
        assert "taller" == (await call(servers, "mcp__workshop__grown")).text


@pytest.mark.slow
async def test_resources_and_prompts_are_there() -> None:
    """They can be listed and read, by us and by the model, and what does not exist is said not to."""
    async with open_mcp_servers([workshop()], pace=QUICK) as servers:
        await ready(servers, "workshop")
        memo = McpResource(
            server="workshop",
            uri="memo://first",
            name="first_memo",
            description="The first memo",
            media_type="text/plain",
        )
        assert (memo,) == await servers.list_resources() == await servers.list_resources("workshop")
        assert ResourceText(text="buy glue") == await servers.read_resource("workshop", "memo://first")
        listed = (await call(servers, "mcp_list_resources")).text
        assert "workshop memo://first first_memo The first memo" == listed
        assert "buy glue" == (await call(servers, "mcp_read_resource", server="workshop", uri="memo://first")).text
        assert "refused" in await failure(servers, "mcp_read_resource", server="workshop", uri="memo://none")
        assert "there is no MCP server called 'x'" in await failure(servers, "mcp_read_resource", server="x", uri="y")
        assert "the argument 'uri'" in await failure(servers, "mcp_read_resource", server="workshop")
        assert "there is no argument 'path'" in await failure(servers, "mcp_list_resources", path="x")
        prompt = McpPrompt(
            server="workshop",
            name="greet",
            description="Greet someone.",
            arguments=(PromptArgument(name="name", required=True),),
        )
        assert (prompt,) == await servers.list_prompts()
        assert (PromptMessage(role="user", text="Say hello to Ann."),) == await servers.get_prompt(
            "workshop", "greet", {"name": "Ann"}
        )
        with pytest.raises(McpFailed, match="refused"):
            await servers.get_prompt("workshop", "nothing")


@pytest.mark.slow
async def test_what_servers_ask_for_is_refused() -> None:
    """Sampling, roots and questions to the user are refused politely, and the call goes on."""
    async with open_mcp_servers([workshop()], pace=QUICK) as servers:
        await ready(servers, "workshop")
        text = (await call(servers, "mcp__workshop__beg")).text
        assert 3 == text.lower().count("not support"), text
        assert "granted" not in text
