"""A terminal whose service comes and goes."""

from pathlib import Path

import anyio
import attrs
import pytest

import session_core as sc
from session_core.testing.scripted import ScriptedProvider, ScriptedTool, text
from tests.frontends.client._real import real_server
from tests.frontends.terminal._asyncio import on_asyncio
from tests.frontends.terminal._harness import attach_terminal, open_terminal

NOT_RUN = "this line was not run: there is no connection to the service at the moment; once there is, Enter runs it"


def config(home: Path, *answers: str) -> sc.ServiceConfig:
    """A service that keeps what is said, and answers so."""
    provider = ScriptedProvider(*(text(each) for each in answers))
    return sc.ServiceConfig(store=sc.SqliteStore(home), tools=(), models={"m": provider})


def test_a_killed_service_that_is_back(tmp_path: Path) -> None:
    """The terminal says that the connection is lost, looks for the service, and goes on in the same session."""

    async def scene() -> None:
        with real_server(tmp_path, config(tmp_path, "one")) as first:
            async with attach_terminal(first, ScriptedProvider()) as terminal:
                await terminal.say("hello")
                await terminal.until_shown("one")
                await terminal.until_shown("ask for something; /")  # the message is acknowledged
                first.kill()
                await terminal.until_shown("connection lost")
                await terminal.until(lambda: terminal.place.opened > 1, "another look for the service")
                with real_server(tmp_path, config(tmp_path, "two")):
                    await terminal.until_gone("connection lost")
                    assert "one" in terminal.text
                    await terminal.say("again")
                    await terminal.until_shown("two")
                    await terminal.app.action_quit()

    on_asyncio(scene)


@pytest.mark.slow
def test_a_service_that_is_shut_down(tmp_path: Path) -> None:
    """When somebody ends the service, the terminal says so and starts none by itself; the next message does."""

    async def scene() -> None:
        async with open_terminal(tmp_path, text("fine")) as terminal:
            client = terminal.app.feeds.client
            assert client is not None
            await client.shutdown()
            await terminal.until_shown("no service")
            await terminal.until_shown("shut down")
            assert terminal.place.opened == 1
            with real_server(tmp_path, config(tmp_path, "two")):
                await terminal.say("hello")
                await terminal.until_shown("two")
                await terminal.app.action_quit()

    on_asyncio(scene)


def test_a_service_that_runs_again(tmp_path: Path) -> None:
    """When a service that was shut down is started again by somebody else, the terminal goes on there by itself."""

    async def scene() -> None:
        with real_server(tmp_path, config(tmp_path, "one")) as first:
            async with attach_terminal(first, ScriptedProvider()) as terminal:
                await terminal.say("hello")
                await terminal.until_shown("one")
                # The composer is empty once the message is acknowledged; before that, a shutdown gives the text back.
                await terminal.until_shown("ask for something; /")
                client = terminal.app.feeds.client
                assert client is not None
                await client.shutdown()
                await terminal.until_shown("no service")
                await terminal.until_shown("there is no service; Enter tries again")
                await anyio.to_thread.run_sync(first.wait_until_ended)
                with real_server(tmp_path, config(tmp_path, "two")):
                    await terminal.until_gone("no service")
                    assert terminal.place.opened == 1
                    await terminal.say("again")
                    await terminal.until_shown("two")
                    await terminal.app.action_quit()

    on_asyncio(scene)


def test_a_shell_line_without_a_service(tmp_path: Path) -> None:
    """Without a service a shell line is given back at once, and does not run later; the next Enter runs it."""

    async def scene() -> None:
        tools = (ScriptedTool("bash", effects=frozenset({"execute"})),)
        settings = attrs.evolve(config(tmp_path), tools=tools)
        with real_server(tmp_path, settings) as first:
            async with attach_terminal(first, ScriptedProvider()) as terminal:
                client = terminal.app.feeds.client
                assert client is not None
                await client.shutdown()
                await terminal.until_shown("no service")
                terminal.place.let_in.clear()
                await terminal.say("!make")
                await terminal.until(lambda: terminal.app.composer.draft.prompt.whole == "!make", "the line")
                assert [each.message for each in terminal.app._notifications] == [NOT_RUN]
                with real_server(tmp_path, settings) as second:
                    terminal.place.let_in.set()
                    await terminal.until(lambda: terminal.app.feeds.client, "the connection")
                    assert (await terminal.app.context.client.list_sessions()).sessions == ()
                    await terminal.pilot.press("enter")
                    await terminal.until_shown("! make")
                    await terminal.app.action_quit()
                assert second is not first

    on_asyncio(scene)


def test_a_shell_line_while_the_connection_is_lost(tmp_path: Path) -> None:
    """A shell line that is typed while the connection is lost is given back, although the client reconnects."""

    async def scene() -> None:
        with real_server(tmp_path, config(tmp_path)) as first:
            async with attach_terminal(first, ScriptedProvider()) as terminal:
                first.kill()
                await terminal.until_shown("connection lost")
                await terminal.say("!make")
                await terminal.until(lambda: terminal.app.composer.draft.prompt.whole == "!make", "the line")
                assert [each.message for each in terminal.app._notifications] == [NOT_RUN]
                await terminal.app.action_quit()

    on_asyncio(scene)


@pytest.mark.slow
def test_enter_alone_looks_for_the_service_again(tmp_path: Path) -> None:
    """Without a service Enter tries again, as the screen says, although nothing is typed."""

    async def scene() -> None:
        async with open_terminal(tmp_path, text("fine")) as terminal:
            client = terminal.app.feeds.client
            assert client is not None
            await client.shutdown()
            await terminal.until_shown("Enter tries again")
            await terminal.pilot.press("enter")
            await terminal.until(lambda: terminal.place.opened > 1, "another look for the service")

    on_asyncio(scene)


@pytest.mark.slow
def test_two_terminals_see_the_same(tmp_path: Path) -> None:
    """What is said in one terminal is seen in another, which opens the last used session of the folder by itself."""

    async def scene() -> None:
        async with open_terminal(tmp_path, text("well met")) as one:
            await one.say("hello")
            await one.until_shown("well met")
            async with attach_terminal(one.server, one.provider) as two:
                await two.until_shown("well met")
                assert two.app.current.session_id == one.app.current.session_id
                await two.until_shown("2 clients connected")

    on_asyncio(scene)
