"""Extensions that send more than anybody wants: others are served meanwhile, and memory stays bounded."""

import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest
import trio

from session_core import limits
from session_core.errors import ExtensionFailed
from session_core.vocabulary import events as ev
from tests.hostile._zoo import Animal, Meter, Zoo, open_zoo

MEGABYTE = 1_000_000
LISTENS = {"REGISTRATIONS": json.dumps({"subscriptions": ["bus/event"]})}
MODEL = {"REGISTRATIONS": json.dumps({"providers": [{"name": "loud", "models": [{"id": "m"}]}]}), "DELTAS": "200"}


async def meanwhile(zoo: Zoo, flood: Callable[[], Awaitable[Any]], *, megabytes: int) -> Any:
    """Let something happen while others use the service again and again; memory may grow by so much."""
    meter = Meter()
    result: list[Any] = []

    async def look() -> None:
        while True:
            meter.look()
            await trio.sleep(0.01)

    async def flooding() -> None:
        result.append(await flood())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(look)
        nursery.start_soon(flooding)
        await zoo.check_all_is_well()
        while not result:
            await zoo.check_all_is_well()
        nursery.cancel_scope.cancel()
    await zoo.check_all_is_well()
    assert meter.most < megabytes * MEGABYTE, f"{meter.most:,} bytes more"
    return result[0]


BYTES: dict[str, dict[str, Any]] = {
    "lines that are no messages": {"do": "bytes", "bytes": "x\n" * 10_000, "count": 10},
    "one endless line": {"do": "bytes", "bytes": "x" * 100_000, "count": 150},
    "empty lines": {"do": "bytes", "bytes": "\n" * 100_000, "count": 20},
    "empty objects": {"do": "bytes", "bytes": "{}\n" * 10_000, "count": 5},
    "stderr": {"do": "stderr", "bytes": "x" * 99 + "\n" + "y\n" * 50_000, "count": 100},
}
WORDS: dict[str, dict[str, Any]] = {
    "no/such": {"a": "b" * 50},
    "log": {"message": "m" * 500, "fields": {"n": 1}},
    "tool/update": {"call_id": "of nothing"},
    "provider/delta": {"request_id": "of nothing", "event": {"type": "Delta", "content": "x" * 100}},
    "$/cancel": {"id": 7},
    "bus/publish": {"topic": "t", "payload": {"x": "y" * 200}},
    "registry/update": {"commands": [{"name": f"c{n}", "description": "d" * 100} for n in range(50)]},
}
TOO_MUCH: dict[str, dict[str, Any]] = {
    "lines that are no messages": {"do": "bytes", "bytes": "x\n" * 50_000, "count": 200},
    "one endless line": {"do": "bytes", "bytes": "{" + "x" * 100_000, "count": 3_000},
}


@pytest.mark.slow
async def test_flood_of_bytes() -> None:
    """Others are served while an extension writes a lot of what is no message, and it goes on itself afterwards."""
    async with open_zoo(Animal(name="loud")) as zoo:
        for flood in BYTES.values():
            await meanwhile(zoo, partial(zoo.do, "loud", **flood), megabytes=100)
            assert await zoo.do("loud") == "done"
        assert zoo.extension("loud").state == "ready"
        assert len(zoo.extension("loud").log.lines()) <= limits.EXTENSION_LOG_LINES


@pytest.mark.slow
async def test_flood_of_words() -> None:
    """Others are served while an extension sends one notification after the other, and hears the same as before."""
    async with open_zoo(Animal(name="loud"), healthy_env=LISTENS) as zoo:
        for method, params in WORDS.items():
            count = 500 if "/update" in method else 2_000
            flood = partial(zoo.do, "loud", do="many", method=method, params=params, count=count)
            await meanwhile(zoo, flood, megabytes=100)
            assert await zoo.do("loud") == "done"
        assert zoo.extension("loud").state == "ready"
        assert len(zoo.extension("loud").registrations.commands) == 51
        told = sum(isinstance(each.event, ev.ExtensionChanged) for each in zoo.events)
        assert told < 500, "what changes all the time is told now and then"


@pytest.mark.slow
@pytest.mark.parametrize("what", TOO_MUCH)
async def test_flood_without_end(what: str) -> None:
    """An extension that writes nothing but nonsense is given up, and started again."""
    async with open_zoo(Animal(name="loud")) as zoo:

        async def flood() -> bool:
            with pytest.raises(ExtensionFailed):
                await zoo.do("loud", **TOO_MUCH[what])
            return True

        await meanwhile(zoo, flood, megabytes=100)
        await zoo.until(lambda: zoo.extension("loud").generation > zoo.generation)
        assert await zoo.do("loud") == "done"


async def test_line_of_a_hundred_megabytes() -> None:
    """A line that is far too long fails the request it answers, is kept nowhere, and ends nothing else."""
    async with open_zoo(Animal(name="long", when="command", how="long_line", env={"MEGABYTES": "100"})) as zoo:

        async def flood() -> bool:
            with pytest.raises(ExtensionFailed, match="too large"):
                await zoo.do("long")
            return True

        await meanwhile(zoo, flood, megabytes=100)
        assert zoo.extension("long").state == "ready"


async def test_flood_of_progress() -> None:
    """A tool that tells its progress all the time is shown now and then, and its result counts."""
    async with open_zoo(Animal(name="busy", env={"TOOL_UPDATES": "3000"})) as zoo:
        turn = await meanwhile(zoo, lambda: zoo.check_turn("busy.echo"), megabytes=100)
        assert [result.text for result in turn.results] == ["from echo"]
        shown = sum(each.session_id == turn.session_id for each in zoo.events)
        assert shown < 1_500, "not each of its three thousand words is an event"


async def test_flood_of_a_model() -> None:
    """A model of an extension that never stops talking fails, or is cut; others are served meanwhile."""
    async with open_zoo(Animal(name="loud", env=MODEL)) as zoo:

        async def flood() -> str:
            session_id = (await zoo.service.create_session(model="loud/m")).session_id
            await zoo.service.send_user_message(session_id, "nothing")
            return (await zoo.end_turn(session_id)).outcome.status

        assert await meanwhile(zoo, flood, megabytes=150) in {"completed", "failed"}


async def test_large_registrations() -> None:
    """An extension that registers as much as it may is used like any other, and small additions to it cost little."""
    async with open_zoo(Animal(name="large", when="huge")) as zoo:
        assert len(zoo.extension("large").registrations.tools) == 256
        flood = {"do": "many", "method": "registry/update", "params": {"flags": ["one"]}, "count": 500}
        await meanwhile(zoo, lambda: zoo.do("large", **flood), megabytes=100)
        assert zoo.extension("large").registrations.flags == ("one",)
