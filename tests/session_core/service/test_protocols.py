"""Protocols of sessions: which one a session has, with which options, and how it comes into memory."""

import shutil
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

from session_core.errors import InvalidInput, NotFound, SessionCoreError
from session_core.ids import SessionId
from session_core.protocols import registry
from session_core.protocols.faults import DuplicatePlugin, OptionConflict, OptionsInvalid, UnknownPlugin
from session_core.protocols.options import PluginOptions
from session_core.service.protocols import ProtocolUnusable
from session_core.service.service import SessionService, open_session_service
from session_core.storage.memory import MemoryStore
from session_core.storage.sqlite import SqliteStore
from session_core.testing.checked import WitnessStore, open_checked_service
from session_core.testing.scripted import ScriptedProvider, text
from session_core.tools.task import TaskTool
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.protocols import ProtocolRecord
from tests.session_core.service._family import by_name, hand_over
from tests.session_core.service._helpers import new_session, of_type, open_with_store, say, scripted
from tests.session_core.service._protocols import Watched, decided, fails, serving, stated


def record(version: int = 1, **options: Any) -> ProtocolRecord:
    """What a session has recorded of the protocol that is watched."""
    return ProtocolRecord(name="watched", version=version, options=decided(**options))


async def recorded_of(service: SessionService, session_id: SessionId) -> ProtocolRecord:
    """What a session's snapshot says of its protocol."""
    return (await service.load_session(session_id)).protocol


# --- selecting --------------------------------------------------------------------------------------------------------


async def test_the_protocols_there_are() -> None:
    """A client can ask which protocols there are; a session that names none has the default."""
    async with open_checked_service(scripted(text("a"), protocols=(Watched(),))) as service:
        listed = await service.list_protocols()
        assert (listed.protocols[:2], listed.protocols[-1], listed.default) == (
            ("standard", "code"),
            "watched",
            "standard",
        )
        plain, named = await new_session(service), await new_session(service, protocol="watched")
        assert await recorded_of(service, plain) == ProtocolRecord(name="standard")
        assert await recorded_of(service, named) == record()
        assert of_type(service, named, ev.SessionCreated)[0].protocol == record()


@pytest.mark.parametrize(
    ("settings", "error", "field"),
    [
        ({"protocols": (Watched(), Watched())}, DuplicatePlugin, "protocol"),
        ({"protocol": "nope"}, UnknownPlugin, "protocol"),
        ({"protocol": ""}, UnknownPlugin, "protocol"),
        ({"protocol_options": PluginOptions.for_plugin("nope", {})}, UnknownPlugin, "protocol_options"),
    ],
)
async def test_a_service_that_could_not_work(
    settings: dict[str, Any], error: type[SessionCoreError], field: str
) -> None:
    """A service with two protocols of one name, or without one that it is told to use, does not open."""
    with pytest.raises(error) as caught:
        async with open_session_service(scripted(**settings)):
            pass
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("given", "error", "field"),
    [
        ({"protocol": "nope"}, UnknownPlugin, "protocol"),
        ({"protocol": ""}, UnknownPlugin, "protocol"),
        ({"options": stated(shade=1)}, OptionsInvalid, "options.watched.shade"),
        ({"options": stated(budget=None)}, OptionsInvalid, "options.watched.budget"),
        ({"options": JsonObject({"watched": None})}, OptionsInvalid, "options.watched"),
        ({"options": JsonObject({"nope": {}})}, UnknownPlugin, "options.nope"),
        ({"options": JsonObject({"standard": {}})}, InvalidInput, "options.standard"),
        ({"protocol": "standard", "options": stated(budget=2)}, InvalidInput, "options.watched"),
    ],
)
async def test_what_is_refused(given: dict[str, Any], error: type[SessionCoreError], field: str) -> None:
    """A protocol or options that cannot be had refuse the creation with the field at fault, and nothing is written."""
    factory = Watched()
    async with open_checked_service(scripted(**factory.settings())) as service:
        with pytest.raises(error) as caught:
            await service.create_session(**given)
        assert caught.value.field == field
        assert ((await service.list_sessions()).total, service._core.seq, factory.calls) == (0, 0, [])


async def test_a_protocol_that_cannot_be_built(quiet_log: None) -> None:
    """A protocol that fails while it is built, or cannot be loaded, refuses the creation, and nothing is written."""
    factory = Watched(build=fails)
    async with open_checked_service(scripted(**factory.settings())) as service:
        broken = EntryPoint(name="broken", value="there_is_no_such_module:X", group=registry.GROUP)
        service._core.protocols.registry._offer("broken", "a package", broken.load)
        for name, reason in (("watched", "ZeroDivisionError: a bug"), ("broken", "ModuleNotFoundError")):
            with pytest.raises(ProtocolUnusable, match=f"the protocol {name} failed in build: .*{reason}") as caught:
                await service.create_session(protocol=name)
            assert (caught.value.code, caught.value.field) == ("protocol_unusable", "protocol")
        assert (service._core.seq, service._core.protocols._live) == (0, {})


# --- options ----------------------------------------------------------------------------------------------------------


async def test_options_of_a_new_session() -> None:
    """What is stated goes before what the service states for all, each option by itself; the rest has its default."""
    factory = Watched()
    supplied = PluginOptions.for_plugin("watched", {"shape": "square", "budget": 5})
    async with open_checked_service(scripted(**factory.settings(), protocol_options=supplied)) as service:
        session_id = await new_session(service, options=stated(dialect="mine", budget=6))
        assert await recorded_of(service, session_id) == record(dialect="mine", shape="square", budget=6)
        assert await recorded_of(service, await new_session(service)) == record(shape="square", budget=5)


async def test_options_of_children_and_forks() -> None:
    """A child inherits what its parent was given, whatever the service states for all; a fork takes over everything."""
    factory = Watched()
    supplied = PluginOptions.for_plugin("watched", {"shape": "square", "budget": 5})
    async with open_checked_service(scripted(**factory.settings(), protocol_options=supplied)) as service:
        parent = await new_session(service, options=stated(dialect="mine", shape="round", budget=6))
        child = await new_session(service, parent_id=parent)
        other = await new_session(service, parent_id=parent, protocol="standard")
        fork = (await service.fork_session(parent)).session_id
        changed = (await service.fork_session(parent, options=stated(budget=7))).session_id
        assert await recorded_of(service, child) == record(dialect="child", shape="round", budget=5)
        assert await recorded_of(service, other) == ProtocolRecord(name="standard")
        assert await recorded_of(service, fork) == record(dialect="mine", shape="round", budget=5)
        assert await recorded_of(service, changed) == record(dialect="mine", shape="round", budget=7)
        with pytest.raises(InvalidInput):
            await service.fork_session(parent, options=JsonObject({"standard": {}}))


async def test_a_child_of_a_session_that_has_left_memory(autojump_clock: trio.abc.Clock) -> None:
    """A child inherits from its parent also when that is not in memory."""
    factory = Watched()
    async with open_checked_service(
        scripted(protocols=(factory,), session_stay_ms=1_000)
    ) as service:  # the default is another one
        parent = await new_session(service, protocol="watched", options=stated(shape="round"))
        await trio.sleep(5)
        assert service.statistics().in_memory == 0
        child = await new_session(service, parent_id=parent)
        assert await recorded_of(service, child) == record(dialect="child", shape="round")
        with pytest.raises(NotFound, match="to be the parent"):
            await new_session(service, parent_id=SessionId("s_none"))


async def test_a_helper_has_the_protocol_of_its_parent() -> None:
    """A session that a tool starts for its own has the same protocol, as a child."""
    factory = Watched()
    provider = ScriptedProvider(hand_over("look"), text("seen"), text("done"))
    config = scripted(provider, tools=(TaskTool(),), permission_mode="full", protocols=(factory,))
    async with open_checked_service(config) as service:
        session_id = await new_session(service, protocol="watched", options=stated(shape="round"))
        assert (await say(service, session_id)).final_text == "done"
        assert await recorded_of(service, by_name(service)["look"]) == record(dialect="child", shape="round")


async def test_options_after_a_restart(tmp_path: Path) -> None:
    """A session keeps its pinned options; what the host supplies is recorded when it changes, once, at the next use."""
    async with serving(SqliteStore(tmp_path), Watched()) as service:
        session_id = await new_session(service, options=stated(dialect="mine"))
        await say(service, session_id)
    for supplied, expected, configured in (
        ({"dialect": "yours", "budget": 4}, record(dialect="mine", budget=4), 1),
        ({"dialect": "yours", "budget": 4}, record(dialect="mine", budget=4), 1),
        ({}, record(dialect="mine", budget=4), 1),
        ({"budget": 2}, record(dialect="mine", budget=2), 2),
    ):
        store = SqliteStore(tmp_path)
        factory = Watched()
        async with serving(store, factory, protocol_options=PluginOptions.for_plugin("watched", supplied)) as service:
            await service.load_session(session_id)
            assert factory.calls == []  # looking at a session needs nothing of its protocol
            assert (await say(service, session_id)).status == "completed"
            assert await recorded_of(service, session_id) == expected
            assert factory.calls[0] == ("build", dict(expected.options), True)
            journal = [each.event async for batch in store.journal(session_id) for each in batch]
            assert [type(event) for event in journal].count(ev.ProtocolConfigured) == configured


async def test_options_survive_a_crash(tmp_path: Path) -> None:
    """Protocol and options are recorded with the creation itself: once that is acknowledged, a crash finds them."""
    async with serving(SqliteStore(tmp_path / "home"), Watched()) as service:
        session_id = await new_session(service, options=stated(dialect="mine"))
        shutil.copytree(tmp_path / "home", tmp_path / "copy")  # what a process leaves behind that is killed now
    async with serving(SqliteStore(tmp_path / "copy"), Watched(), protocol="standard") as service:
        assert await recorded_of(service, session_id) == record(dialect="mine")


class Newer(Watched):
    """A later version, whose options have changed their form."""

    version = 2

    def __init__(self, upgraded: Any = None) -> None:
        super().__init__()
        self._upgraded = upgraded

    def upgrade(self, version: int, recorded: JsonObject) -> JsonObject:
        if self._upgraded is None:
            return super().upgrade(version, recorded)
        found: JsonObject = self._upgraded(version, recorded)
        return found


def to_round(version: int, recorded: JsonObject) -> JsonObject:
    """Bring options of version 1 into the next form."""
    assert version == 1
    return JsonObject({**recorded, "shape": "round"})


async def test_options_of_an_older_version() -> None:
    """Options that an older version has recorded are upgraded at the next use, and recorded in the new form."""
    store = WitnessStore()
    async with open_with_store(store, scripted(**Watched().settings())) as service:
        session_id = await new_session(service, options=stated(dialect="mine"))
    async with serving(store, Newer(to_round)) as service:
        await say(service, session_id)
        assert await recorded_of(service, session_id) == record(2, dialect="mine", shape="round")
        child = await new_session(service, parent_id=session_id)
        assert await recorded_of(service, child) == record(2, dialect="child", shape="round")


UNUSABLE = {
    "too new": (Watched(), Newer(), "version 1 here, but the session was written by version 2"),
    "no way": (Newer(), Watched(), "options of version 1 are no longer supported"),
    "a bug": (Newer(fails), Watched(), "the protocol watched failed in upgrade: ZeroDivisionError: a bug"),
    "not an object": (Newer(lambda *_: [1]), Watched(), "not an object"),
    "wrong": (Newer(lambda *_: JsonObject({"budget": "x"})), Watched(), "invalid options of the protocol watched"),
    "gone": (None, Watched(), "there is no protocol called 'watched'"),
    "broken": (Watched(build=fails), Watched(), "the protocol watched failed in build"),
}


@pytest.mark.parametrize(("here", "before", "reason"), UNUSABLE.values(), ids=UNUSABLE)
async def test_a_session_whose_protocol_cannot_be_used(
    here: Watched | None, before: Watched, reason: str, quiet_log: None
) -> None:
    """Without what it needs a session can be read and appended to; a turn is refused before anything is written."""
    store = MemoryStore()
    before.acts.clear()
    async with serving(store, before) as service:
        session_id = await new_session(service)
    protocols = {} if here is None else {"protocols": (here,)}
    async with open_session_service(scripted(text("fine"), store=store, **protocols)) as service:
        snapshot = await service.load_session(session_id)
        for use in (
            lambda: service.send_user_message(session_id, "go"),
            lambda: service.apply_extension(session_id, JsonObject()),
        ):
            with pytest.raises(ProtocolUnusable) as caught:
                await use()
            assert reason in caught.value.message
        assert await service.load_session(session_id) == snapshot
        assert (await say(service, await new_session(service))).status == "completed"


async def test_restating_options() -> None:
    """What a child is given and has by inheritance anyway is no conflict; nothing pinned is ever changed later."""
    async with open_checked_service(scripted(**Watched().settings())) as service:
        parent = await new_session(service, options=stated(shape="round"))
        child = await new_session(service, parent_id=parent, options=stated(shape="round"))
        assert await recorded_of(service, child) == record(dialect="child", shape="round")
        session = service._core.sessions[parent]
        other = attrs.evolve(session.state.protocol, name="standard")
        session.record(ev.ProtocolConfigured(protocol=other))
        assert await recorded_of(service, parent) == record(shape="round")
    assert OptionConflict("p", "o", recorded=1, requested=2).field == "options.p.o"
