"""Extensions that drive each other, storm or hoard: each is bounded, and people and authors are told."""

import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from session_core import limits
from session_core.stream.subscription import Subscription
from session_core.testing.scripted import ScriptedTool, text, tool_call
from session_core.vocabulary import events as ev
from session_core.vocabulary.messages import ToolResultPart
from tests.session_core.sep._children import SCRIPTS
from tests.session_core.sep._service import Home, World, open_world


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


# --- chains of speakers -----------------------------------------------------------------------------------------------


def says(text: str, **more: Any) -> list[Any]:
    """A request to send a message as the user."""
    return ["session/send_user_message", {"text": text, "context": "$context", **more}]


def install_speaker(home: Home, name: str, hook: str = "input", **more: Any) -> None:
    """Put an extension there that sends a message whenever it is asked about a hook."""
    home.install(
        name,
        registrations={"hooks": [hook]},
        asks={hook: [says(f"{name} says", **more)]},
    )


async def run_to_rest(world: World, said: str) -> list[ev.Event]:
    """Say something, and return all that happened until nothing runs any more."""
    async with world.service.subscribe(world.session_id) as events:
        await world.service.send_user_message(world.session_id, said)
        return await hear_to_rest(world, events)


async def hear_to_rest(world: World, events: Subscription) -> list[ev.Event]:
    """Return all that happens until nothing runs any more, to the last event."""
    happened: list[ev.Event] = []
    session, heard = world.service.core.session(world.session_id), 0
    while session.work is not None or heard < session.state.sseq:
        batch = await events.receive_batch()
        heard = batch[-1].sseq
        happened += [each.event for each in batch]
    return happened


def said_by_people(world: World) -> list[str]:
    state = world.service.core.session(world.session_id).state
    return [each.text for each in state.messages if each.role == "user" and each.source is None]


def said_by_extensions(world: World) -> list[str | None]:
    state = world.service.core.session(world.session_id).state
    return [each.source for each in state.messages if each.role == "user" and each.source is not None]


@pytest.mark.parametrize(
    ("hook", "deliver_as"),
    [
        *(("input", "follow_up"), ("input", "steer"), ("input", "next_turn")),
        *(("message_end", "follow_up"), ("message_end", "steer")),
    ],
)
@pytest.mark.parametrize("names", [("ping", "pong"), ("one", "two", "three")])
async def test_extensions_that_drive_each_other_are_cut(
    home: Home, names: tuple[str, ...], hook: str, deliver_as: str
) -> None:
    """However several extensions drive each other, at most eight turns come of one message, and everybody is told."""
    for name in names:
        install_speaker(home, name, hook, deliver_as=deliver_as)
    async with open_world(home, *[text("ok")] * 40) as world:
        happened = await run_to_rest(world, "hello")
        notices = [each for each in happened if isinstance(each, ev.NoticeShown)]
        asked = [params for name in names for method, params in await world.heard(name) if method == "asked"]
        logs = {name: "\n".join(each.text for each in world.extension(name).log.lines()) for name in names}
        steps = len(world.provider.requests)

    refused = [result["error"] for each in asked for result in each["results"] if "error" in result]
    assert ["hello"] == said_by_people(world)
    assert limits.MAX_TURNS_OF_ONE_MESSAGE - 1 == len(said_by_extensions(world))
    assert steps <= limits.MAX_TURNS_OF_ONE_MESSAGE
    assert {"chain_too_long"} == {each["data"]["code"] for each in refused}
    assert [("warn", True)] == [(each.level, "was refused" in each.message) for each in notices]
    assert {name for name, log in logs.items() if "was refused" in log} == set(said_by_extensions(world))


async def test_a_ring_of_three_is_cut(home: Home) -> None:
    """Three extensions that each answer only the one before them are cut too, and have each said their share."""
    for name, hears in (("one", ("hello", "three says")), ("two", ("one says",)), ("three", ("two says",))):
        asks = {f"input {said}": [says(f"{name} says")] for said in hears}
        home.install(name, registrations={"hooks": ["input"]}, asks=asks)
    async with open_world(home, *[text("ok")] * 40) as world:
        happened = await run_to_rest(world, "hello")
        steps = len(world.provider.requests)

    assert ["hello"] == said_by_people(world)
    assert ["one", "three", "two", "one", "three", "two", "one"] == said_by_extensions(world)
    assert steps <= limits.MAX_TURNS_OF_ONE_MESSAGE
    assert ["two"] == [each.extension for each in happened if isinstance(each, ev.NoticeShown)]


async def test_an_innocent_chain_goes_through(home: Home) -> None:
    """A message that one extension sends in a command, and another because of that, reach the model untold."""
    home.install("first")
    install_speaker(home, "second")
    async with open_world(home, *[text("ok")] * 3) as world:
        async with world.service.subscribe(world.session_id) as events:
            results = await world.do("first", says("first says"))
            happened = await hear_to_rest(world, events)

    assert [{"result": {}}] == results
    assert ["second", "first"] == said_by_extensions(world)
    assert [] == [each for each in happened if isinstance(each, ev.NoticeShown)]


async def test_a_person_always_has_a_turn_and_lets_extensions_go_on(home: Home) -> None:
    """After a chain was cut, the next message of a person has its turn, and as many messages may follow from it."""
    for name in ("ping", "pong"):
        install_speaker(home, name)
    async with open_world(home, *[text("ok")] * 40) as world:
        happened = [each for said in ("hello", "again") for each in await run_to_rest(world, said)]

    assert ["hello", "again"] == said_by_people(world)
    assert 2 * (limits.MAX_TURNS_OF_ONE_MESSAGE - 1) == len(said_by_extensions(world))
    assert 2 == len([each for each in happened if isinstance(each, ev.NoticeShown)])


# --- storms on the bus ------------------------------------------------------------------------------------------------


async def test_a_storm_on_the_bus_is_shed_counted_and_told_once(home: Home) -> None:
    """Two extensions that answer each message with another are soon stopped, while a neighbour is still heard."""
    back = ["bus/publish", {"topic": "ball"}, "tell"]
    for name in ("ping", "pong"):
        home.install(name, registrations={"subscriptions": ["bus/event"]}, asks={"event bus/event": [back, back]})
    home.install("neighbour")
    home.install("ear", registrations={"subscriptions": ["bus/event"]})
    async with open_world(home) as world, world.service.subscribe(world.session_id) as events:
        await world.asks("ping", "bus/publish", topic="ball")
        notices: list[ev.NoticeShown] = []
        while not notices:
            notices = [each.event for each in await events.receive_batch() if isinstance(each.event, ev.NoticeShown)]
        await world.asks("neighbour", "bus/publish", topic="hello")
        while not any(each["from"] == "neighbour" for name, each in await world.events("ear") if name == "bus/event"):
            pass
        log = [each.text for each in world.extension(notices[0].extension).log.lines()]

    told = [each.extension for each in notices]
    assert set(told) <= {"ping", "pong"}
    assert len(set(told)) == len(told)
    assert "messages to the bus that were dropped: 1; an extension may publish 100 times a second" in log[0]


# --- bursts -----------------------------------------------------------------------------------------------------------


async def test_an_extension_of_our_sdk_keeps_to_what_a_host_takes_at_once(home: Home) -> None:
    """A thousand values that are stored at once are all stored, because the SDK sends as many as the host takes."""
    home.put("bursting", sys.executable, [str(SCRIPTS / "bursting.py")])
    async with open_world(home) as world:
        reply = await world.service.run_command(world.session_id, "burst")

    assert "{'stored': 1000}" == reply.content


# --- dialogs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("context", [{"context": "$context"}, {}])
async def test_dialogs_end_with_the_command_that_opened_them(home: Home, context: dict[str, Any]) -> None:
    """A question is closed when the command that asked it has ended, whether its request named the command or not."""
    home.install("asker")
    ask = ["ui/request", {"kind": "confirm", "prompt": "Sure?", **context}, "forget"]
    async with open_world(home) as world, world.service.subscribe(world.session_id) as events:
        with world.service.attach("person", ui=frozenset({"confirm"})):
            happened: list[ev.Event] = []
            async with trio.open_nursery() as nursery:
                nursery.start_soon(world.do, "asker", ask, ["wait", {"note": "go on"}])
                while not happened:
                    happened = [e.event for e in await events.receive_batch() if isinstance(e.event, ev.DialogOpened)]
                world.home.notes.joinpath("go on").touch()
            while not isinstance(happened[-1], ev.DialogClosed):
                happened += [e.event for e in await events.receive_batch() if isinstance(e.event, ev.DialogClosed)]
        state = world.service.core.session(world.session_id).state

    assert () == state.dialogs


async def test_one_extension_cannot_take_the_places_of_all_dialogs(home: Home) -> None:
    """An extension has a part of the places for dialogs: one more is refused, and another extension can still ask."""
    home.install("hoarder")
    home.install("other")
    most = limits.MAX_DIALOGS_OF_EXTENSION
    ask = ["ui/request", {"kind": "confirm", "prompt": "Sure?", "context": "$context"}]
    async with open_world(home) as world, world.service.subscribe(world.session_id) as events:
        with world.service.attach("person", ui=frozenset({"confirm"})) as person:
            async with trio.open_nursery() as nursery:
                hoarding = [[*ask, "forget"]] * most
                nursery.start_soon(partial(world.do, "hoarder", *hoarding, ["wait", {"note": "go on"}]))
                opened: list[ev.DialogOpened] = []
                while len(opened) < most:
                    opened += [e.event for e in await events.receive_batch() if isinstance(e.event, ev.DialogOpened)]
                (refused,) = await world.do("hoarder", ask)
                nursery.start_soon(world.do, "other", ask)
                while len(opened) == most:
                    opened += [e.event for e in await events.receive_batch() if isinstance(e.event, ev.DialogOpened)]
                await person.answer_dialog(world.session_id, opened[-1].dialog.request_id, value=True)
                world.home.notes.joinpath("go on").touch()

    assert ["hoarder"] * most + ["other"] == [each.dialog.extension for each in opened]
    assert "16 dialogs of extension 'hoarder' are open in this session already" == refused["error"]["message"]


# --- oversized results ------------------------------------------------------------------------------------------------


async def until_it_has_answered(world: World, name: str) -> str:
    """The log of an extension after a turn in which it was asked."""
    await world.turn()
    return "\n".join(each.text for each in world.extension(name).log.lines())


OVERSIZED: list[tuple[str, str, dict[str, Any], str]] = [
    ("context", "messages", {"repeat": [{"role": "user", "content": "x"}, 60_000]}, "has 60,000 messages, and at most"),
    ("context", "messages", {"repeat": [{"role": "user", "content": "x"}, 200_000]}, "has more than 200,000 values"),
    (
        "context",
        "messages",
        {"repeat": [{"role": "user", "content": {"repeat": ["x", 50_000]}}, 100]},
        "larger than 4,000,000",
    ),
    ("before_agent_start", "system_prompt", {"repeat": ["x", 12_000_000]}, "larger than 1,000,000 characters"),
    ("tool_result", "details", {"repeat": [{}, 40_000]}, "more than 5,000 values"),
    ("input", "text", {"repeat": ["x", 1_100_000]}, "larger than 1,000,000 characters"),
]


@pytest.mark.parametrize(("hook", "key", "patch", "why"), OVERSIZED)
async def test_an_oversized_patch_changes_nothing(
    home: Home, hook: str, key: str, patch: dict[str, Any], why: str
) -> None:
    """A patch above its bound is not used, the turn goes on without it, and the log of the extension says why."""
    home.install("hoarder", registrations={"hooks": [hook]}, hooks={hook: {"action": "modify", "patch": {key: patch}}})
    tool = ScriptedTool("look")
    async with open_world(home, tool_call("look"), text("done"), tools=(tool,)) as world:
        log = await until_it_has_answered(world, "hoarder")
        requests = world.provider.requests
        state = world.service.core.session(world.session_id).state

    assert why in log
    assert [["user"], ["user", "assistant", "tool"]] == [[each.role for each in one.messages] for one in requests]
    assert ["hi"] == [each.text for each in state.messages if each.role == "user"]
    assert all(len(request.system) < 100_000 for request in requests)


async def test_a_usable_large_patch_is_used(home: Home) -> None:
    """A conversation as long as its bound allows reaches the model as the extension left it."""
    messages = {"repeat": [{"role": "user", "content": "x"}, 1_000]}
    home.install(
        "adder",
        registrations={"hooks": ["context"]},
        hooks={"context": {"action": "modify", "patch": {"messages": messages}}},
    )
    async with open_world(home, text("done")) as world:
        await world.turn()
        (request,) = world.provider.requests

    assert ["x"] * 1_000 == [each.text for each in request.messages]


@pytest.mark.parametrize(("objects", "lost"), [(40_000, "more than 5,000 values"), (400_000, "")])
async def test_oversized_details_of_a_tool(home: Home, objects: int, lost: str) -> None:
    """Details above their bound are lost, and the log says so; an answer above all bounds is a failure of the tool."""
    tools = [{"name": "hoard", "description": "", "parameters": {"type": "object"}}]
    home.install(
        "hoarder",
        registrations={"tools": tools},
        tools={"hoard": {"content": "hoarded", "details": {"all": {"repeat": [{}, objects]}}}},
    )
    async with open_world(home, tool_call("hoarder.hoard"), text("done"), permission_mode="full") as world:
        log = await until_it_has_answered(world, "hoarder")
        state = world.service.core.session(world.session_id).state
        (result,) = [p for each in state.messages for p in each.parts if isinstance(p, ToolResultPart)]

    assert lost in log
    assert result.details is None
    assert ("hoarded" if lost else "the message has more than 200,000 values") in result.text


async def test_an_oversized_entry_is_refused(home: Home) -> None:
    """An entry with very many values is refused by its size, and nothing is stored."""
    home.install("hoarder")
    async with open_world(home) as world:
        entry = {"all": {"repeat": [{}, 40_000]}}
        refused = await world.asks("hoarder", "session/append_entry", entry=entry, context="$context")
        state = world.service.core.session(world.session_id).state

    assert "entry: has more than 5,000 values" == refused["error"]["message"]
    assert () == state.entries


async def test_an_oversized_value_and_progress_are_refused(home: Home) -> None:
    """A value to store and a progress report with very many values are refused, with what is wrong with them."""
    home.install("hoarder")
    async with open_world(home) as world:
        value = {"repeat": [{}, 20_000]}
        stored = await world.asks("hoarder", "kv/set", key="k", value=value)
        kept = await world.asks("hoarder", "kv/get", key="k")
        told = await world.asks("hoarder", "tool/update", call_id="x", details={"repeat": [{}, 1_000]})

    assert "value: has more than 20,000 values" == stored["error"]["message"]
    assert {"result": {"value": None}} == kept
    assert "has more than 1,000 values" == told["error"]["message"]
