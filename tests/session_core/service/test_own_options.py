"""Options that a protocol sets itself, what is fixed for everybody else, and what each part of a protocol is told."""

from pathlib import Path
from typing import Any

import attrs
import pytest

from session_core import limits
from session_core.errors import NotFound, SessionCoreError
from session_core.ids import SessionId
from session_core.protocols.contexts import BeforeCallContext, SessionContext, SwitchTo
from session_core.protocols.driver import Actions, AskModel, DriverView, Finish, SetOptions
from session_core.protocols.faults import OptionConflict, OptionsInvalid
from session_core.protocols.options import PluginOptions, option
from session_core.protocols.standard import NativeToolDriver
from session_core.providers.base import ModelRequest
from session_core.service.config import ServiceConfig
from session_core.service.service import SessionService, open_session_service
from session_core.storage.memory import MemoryStore
from session_core.storage.sqlite import SqliteStore
from session_core.testing.cancel_sweep import SweepRun, cancel_sweep
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import text
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonObject
from tests.session_core.service._helpers import new_session, say, scripted, trace
from tests.session_core.service._killed import die, run_until_killed
from tests.session_core.service._protocols import WaitingTurn, Watched, serving, stated, waiting_turn


@attrs.frozen(kw_only=True)
class OwnOptions:
    """One option of each kind."""

    dialect: str = option(default="root")
    budget: int = option(default=1, kind="host")
    mood: str = option(default="calm", kind="own")
    notes: tuple[str, ...] = option(default=(), kind="own")


class Owner(Watched):
    """A protocol with such options."""

    options = OwnOptions


def has(mood: str = "calm", notes: tuple[str, ...] = (), *, dialect: str = "root", budget: int = 1) -> JsonObject:
    """Return options as they are recorded."""
    return JsonObject({"dialect": dialect, "budget": budget, "mood": mood, "notes": list(notes)})


async def options_of(service: SessionService, session_id: SessionId) -> JsonObject:
    return (await service.load_session(session_id)).protocol.options


def setting(changes: Any, **more: Any) -> Owner:
    """A protocol that sets options when it is given an extension."""

    async def apply(context: SessionContext, _: JsonObject) -> None:
        await context.set_options(changes, **more)

    return Owner(apply_extension=apply)


async def test_it_sets_its_options() -> None:
    """What a protocol sets is recorded, seen by its contexts at once and by its driver, and by what comes from it."""
    seen: list[JsonObject] = []

    async def apply(context: SessionContext, changes: JsonObject) -> None:
        seen.append(context.options)
        await context.set_options(changes)
        seen.append(context.options)

    class Telling(NativeToolDriver):
        def on_start(self, view: DriverView) -> Actions:
            return (Finish(status="failed", error=str(view.options["mood"])),)

    factory = Owner(apply_extension=apply, driver=Telling())
    async with open_checked_service(scripted(text("fine"), **factory.settings())) as service:
        session_id = await new_session(service)
        assert (await say(service, session_id)).error == "calm"
        await service.apply_extension(session_id, JsonObject({"mood": "wild", "notes": ["a"]}))
        assert seen == [has(), has("wild", ("a",))]
        assert await options_of(service, session_id) == has("wild", ("a",))
        assert (await say(service, session_id)).error == "wild"
        fork = (await service.fork_session(session_id)).session_id
        child = await new_session(service, parent_id=session_id)
        assert [await options_of(service, each) for each in (fork, child)] == [has("wild", ("a",))] * 2


async def test_setting_the_same_records_nothing() -> None:
    """A protocol that sets what it has already adds no event."""
    async with open_checked_service(scripted(**setting({"mood": "calm"}).settings())) as service:
        session_id = await new_session(service)
        before = (await service.load_session(session_id)).sseq
        await service.apply_extension(session_id, JsonObject())
        assert (await service.load_session(session_id)).sseq == before


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"dialect": "x"}, "cannot set its option 'dialect', which is pinned"),
        ({"budget": 2}, "cannot set its option 'budget', which is host"),
        ({"shade": 2}, "'shade' is not one of its options"),
        ({"mood": 3}, "invalid options of the protocol watched"),
        ({"mood": "\ud800"}, "they are not JSON"),
        ([1], "they are not an object"),
        ({"mood": "x" * limits.MAX_PROTOCOL_OPTIONS_BYTES}, "may have 65,536 bytes"),
    ],
)
@pytest.mark.parametrize("scope", ["all_frames", "frame"])
async def test_what_it_cannot_set(changes: Any, reason: str, scope: Any, quiet_log: None) -> None:
    """What others decide, what does not exist, and what has the wrong shape or size is refused; nothing is recorded."""
    async with open_checked_service(scripted(**setting(changes, scope=scope).settings())) as service:
        session_id = await new_session(service)
        before = (await service.load_session(session_id)).sseq
        with pytest.raises(SessionCoreError, match=reason):
            await service.apply_extension(session_id, JsonObject())
        assert (await service.load_session(session_id)).sseq == before


async def test_an_unknown_scope(quiet_log: None) -> None:
    """Options are set for all frames or for one, and for nothing that is not known."""
    async with open_checked_service(scripted(**setting({"mood": "wild"}, scope="galaxy").settings())) as service:
        session_id = await new_session(service)
        with pytest.raises(SessionCoreError, match="options hold for all_frames or frame, not for 'galaxy'"):
            await service.apply_extension(session_id, JsonObject())
        assert await options_of(service, session_id) == has()


async def test_a_session_that_is_deleted_meanwhile() -> None:
    """Options of a session that is deleted while its protocol is called are refused, and nothing is recorded after."""
    refused: list[str] = []

    async def apply(context: SessionContext, _: JsonObject) -> None:
        await service.delete_session(session_id)
        with pytest.raises(NotFound) as caught:
            await context.set_options({"mood": "wild"})
        refused.append(caught.value.message)

    async with open_checked_service(scripted(**Owner(apply_extension=apply).settings())) as service:
        session_id = await new_session(service)
        await service.apply_extension(session_id, JsonObject())
        assert refused == [f"the session {session_id!r} has been deleted"]
        assert isinstance(trace(service, session_id)[-1], ev.SessionDeleted)


async def test_options_of_a_frame() -> None:
    """What a protocol sets for a frame holds in that frame only, also after it comes back; for all, everywhere."""
    seen: list[tuple[str, str]] = []

    async def decide(context: BeforeCallContext, request: ModelRequest) -> SwitchTo | None:
        asked = request.messages[-1].text
        seen.append((context.frame.key, str(context.options["mood"])))
        if asked.startswith("go to "):
            return SwitchTo(key=asked.removeprefix("go to "), task="on")
        if asked.startswith("here "):
            await context.set_options({"mood": asked.removeprefix("here ")}, scope="frame")
        if asked.startswith("everywhere "):
            await context.set_options({"mood": asked.removeprefix("everywhere ")})
        return None

    factory = Owner(before_model_call=decide)
    config = scripted(*[text("ok")] * 8, **factory.settings())
    async with open_checked_service(config) as service:
        session_id = await new_session(service)
        for asked in ("here wild", "go to next", "here sad", "go to initial", "everywhere glad", "go to next"):
            await say(service, session_id, asked)
        snapshot = await service.load_session(session_id)
        assert seen == [
            ("initial", "calm"),
            ("initial", "wild"),
            ("next", "calm"),
            ("next", "calm"),
            ("next", "sad"),
            ("initial", "wild"),
            ("initial", "wild"),
            ("initial", "glad"),
            ("next", "glad"),
        ]
        assert [(frame.key, frame.options) for frame in snapshot.frames] == [
            ("initial", JsonObject()),
            ("next", JsonObject()),
        ]
        assert snapshot.protocol.options == has("glad")


async def test_a_driver_sets_options() -> None:
    """A driver sets options by an action, and finds them in its next view; a wrong one fails its turn."""

    class Setting(NativeToolDriver):
        def on_start(self, view: DriverView) -> Actions:
            assert view.prompt is not None
            return (SetOptions(options={"mood": view.prompt.text}, scope="frame"), AskModel())

        def on_answer(self, view: DriverView) -> Actions:
            wrong = view.options["mood"] == "wrong"
            change = SetOptions(options={"dialect": "x"} if wrong else {"notes": (view.options["mood"],)})
            return (change, Finish())

    factory = Owner(driver=Setting())
    async with open_checked_service(scripted(*[text("ok")] * 2, **factory.settings())) as service:
        session_id = await new_session(service)
        assert (await say(service, session_id, "wild")).status == "completed"
        snapshot = await service.load_session(session_id)
        assert snapshot.protocol.options == has(notes=("wild",))
        assert [frame.options for frame in snapshot.frames] == [JsonObject({"mood": "wild"})]
        failed = await say(service, session_id, "wrong")
        assert (failed.status, "cannot set its option 'dialect'" in (failed.error or "")) == ("failed", True)


def set_and_die(store: SqliteStore) -> tuple[ServiceConfig, Any]:
    """Set options for all frames and for one, and end the process right then."""

    async def apply(context: SessionContext, _: JsonObject) -> None:
        await context.set_options({"notes": ["kept"]})
        await context.set_options({"mood": "wild"}, scope="frame")
        die()

    config = scripted(store=store, **Owner(apply_extension=apply).settings())
    return config, lambda service, session_id: service.apply_extension(session_id, JsonObject())


async def test_they_outlive_a_kill(tmp_path: Path) -> None:
    """What `set_options` has returned from is there after a kill -9: for the frame, and for all."""
    session_id = await run_until_killed(set_and_die, tmp_path)
    seen: list[JsonObject] = []
    factory = Owner(before_model_call=lambda context, _: seen.append(context.options))
    async with serving(SqliteStore(tmp_path), factory) as service:
        assert await options_of(service, session_id) == has(notes=("kept",))
        await say(service, session_id)
    assert seen == [has("wild", ("kept",))]
    assert factory.calls[0] == ("build", dict(has(notes=("kept",))), True)


async def test_setting_them_cancelled_anywhere() -> None:
    """Wherever the setting of options is cancelled, they are all set or none, and the turn goes on."""
    changes = {"mood": "wild", "notes": ["a"]}

    async def run(turn: WaitingTurn) -> None:
        await turn.context.set_options(changes)

    async def check(turn: WaitingTurn, _: SweepRun) -> None:
        found = await options_of(turn.service, turn.session_id)
        assert found in (has(), has("wild", ("a",)))
        assert turn.context.options == found
        turn.done.set()
        assert (await turn.service.wait_for_turn(turn.session_id)).outcome.status == "completed"

    await cancel_sweep(lambda: waiting_turn(Owner()), run, check)


class Newer(Owner):
    """A later version, in which moods are shouted."""

    version = 2

    def upgrade(self, version: int, recorded: JsonObject) -> JsonObject:
        return JsonObject({**recorded, "mood": str(recorded["mood"]).upper()})


async def test_frames_of_an_older_version() -> None:
    """The options of frames are upgraded with those of the session, in one event."""
    store = MemoryStore()
    async with serving(store, setting({"mood": "wild"}, scope="frame")) as service:
        session_id = await new_session(service)
        await service.apply_extension(session_id, JsonObject())
    async with serving(store, Newer()) as service:
        await say(service, session_id)
        snapshot = await service.load_session(session_id)
    assert (snapshot.protocol.version, snapshot.protocol.options) == (2, has("CALM"))
    assert [frame.options for frame in snapshot.frames] == [JsonObject({"mood": "WILD"})]


async def test_what_is_fixed_for_everybody_else() -> None:
    """Stated differently at a fork or for an existing session, what is fixed is a conflict with both values."""
    async with open_checked_service(scripted(**Owner().settings())) as service:
        session_id = await new_session(service, options=stated(dialect="mine"))
        count = (await service.list_sessions()).total
        for name, value, before in (("dialect", "yours", "mine"), ("mood", "wild", "calm")):
            for ask in (service.fork_session, service.load_session):
                with pytest.raises(OptionConflict) as caught:
                    await ask(session_id, options=stated(**{name: value}))
                assert caught.value.field == f"options.watched.{name}"
                assert repr(value) in caught.value.message
                assert repr(before) in caught.value.message
        with pytest.raises(OptionConflict, match="'budget'"):  # a host option that the session does not have
            await service.load_session(session_id, options=stated(budget=2))
        with pytest.raises(OptionsInvalid):
            await service.load_session(session_id, options=stated(shade=2))
        assert (await service.list_sessions()).total == count
        same = stated(dialect="mine", mood="calm", budget=1)
        assert await service.load_session(session_id, options=same) == await service.load_session(session_id)
        fork = await service.fork_session(session_id, options=stated(dialect="mine", budget=2))
        assert await options_of(service, fork.session_id) == has(dialect="mine", budget=2)


async def test_a_service_that_supplies_something_else(caplog: pytest.LogCaptureFixture) -> None:
    """What a service supplies later for new sessions leaves a fixed option of an older one as it is, and says so."""
    store = MemoryStore()
    async with serving(store, Owner()) as service:
        session_id = await new_session(service)
    supplied = PluginOptions({"watched": JsonObject({"dialect": "other", "mood": "calm", "budget": 4})})
    config = scripted(text("fine"), store=store, protocol_options=supplied, **Owner().settings())
    async with open_session_service(config) as service:
        await say(service, session_id)
        assert await options_of(service, session_id) == has(budget=4)
        assert await options_of(service, await new_session(service)) == has(dialect="other", budget=4)
    warned = [record.getMessage() for record in caplog.records if record.name == "session_core.service.protocols"]
    kept = f"session {session_id}: the option 'dialect' of the protocol watched stays 'root'"
    assert warned == [f"{kept}; what the service supplies, 'other', is for new sessions"]


async def test_every_part_is_told() -> None:
    """Each callback of a root, a child and a fork is told the options, and whether the session is a root."""
    told: list[tuple[str, bool, JsonObject]] = []

    def note(name: str) -> Any:
        return lambda context, *_: told.append((name, context.is_root, context.options))

    names = ("initialize", "restore", "before_model_call")
    factory = Owner(**{name: note(name) for name in names})
    async with open_checked_service(scripted(*[text("ok")] * 3, **factory.settings())) as service:
        root = await new_session(service, options=stated(dialect="mine"))
        await say(service, root)
        await say(service, await new_session(service, parent_id=root))
        await say(service, (await service.fork_session(root)).session_id)
    assert told == [(name, is_root, has(dialect="mine")) for is_root in (True, False, True) for name in names]
    builds = [call for call in factory.calls if call[0] == "build"]
    assert builds == [("build", dict(has(dialect="mine")), is_root) for is_root in (True, False, True)]
