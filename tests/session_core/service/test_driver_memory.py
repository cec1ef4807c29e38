"""What a driver remembers about a turn, and when a later turn finds it again."""

from pathlib import Path
from typing import Any

from session_core import limits
from session_core.ids import SessionId
from session_core.protocols.driver import Actions, AskModel, DriverView, Finish, Remember
from session_core.protocols.standard import NativeToolDriver
from session_core.service.config import ServiceConfig
from session_core.service.service import SessionService
from session_core.storage.sqlite import SqliteStore
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import Pause, ScriptedProvider, failure, text, tool_call
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.sessions import TurnOutcome
from tests.session_core.service._helpers import new_session, of_type, say, scripted
from tests.session_core.service._killed import DeadlyTool, run_until_killed
from tests.session_core.service._protocols import Watched, serving


class Counting(NativeToolDriver):
    """Counts how often its turn has begun, and notes what it found."""

    def __init__(self) -> None:
        self.found: list[Any] = []

    def on_start(self, view: DriverView) -> Actions:
        self.found.append(view.memory)
        begun = view.memory["begun"] if isinstance(view.memory, JsonObject) else 0
        assert isinstance(begun, int)
        return (Remember(memory=JsonObject({"begun": begun + 1})), AskModel())


def begun(count: int) -> JsonObject:
    return JsonObject({"begun": count})


async def resumed(service: SessionService, session_id: SessionId) -> TurnOutcome:
    await service.resume_session(session_id)
    return (await service.wait_for_turn(session_id)).outcome


async def memory_of(service: SessionService, session_id: SessionId) -> Any:
    return (await service.load_session(session_id)).driver_memory


async def test_a_stopped_turn_is_resumed() -> None:
    """A turn that resumes a stopped one finds what was remembered; a new one, and one after the end, finds nothing."""
    driver, provider = Counting(), ScriptedProvider((Pause("here"), *text("a")), text("b"), text("c"))
    async with open_checked_service(scripted(provider, **Watched(driver=driver).settings())) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        await provider.wait_for_pause("here")
        await service.request_stop(session_id)
        assert await memory_of(service, session_id) == begun(1)
        assert (await resumed(service, session_id)).status == "completed"
        assert await memory_of(service, session_id) is None
        await say(service, session_id, "more")
        assert driver.found == [None, begun(1), None]
        assert [each.resumes for each in of_type(service, session_id, ev.TurnStarted)] == [False, True, False]


async def test_a_failed_turn_is_resumed_and_another_one_is_not() -> None:
    """What a failed turn remembered is there when it is resumed, but not for a new message, or on another branch."""
    driver = Counting()
    broken = failure("refused")
    config = scripted(broken, broken, broken, text("b"), **Watched(driver=driver).settings())
    async with open_checked_service(config) as service:
        session_id = await new_session(service)
        assert (await say(service, session_id)).status == "failed"
        assert (await resumed(service, session_id)).status == "failed"
        assert (await say(service, session_id, "something else")).status == "failed"
        head = (await service.load_session(session_id)).head
        assert head is not None
        await service.switch_branch(session_id, head)
        assert await memory_of(service, session_id) is None
        assert (await resumed(service, session_id)).status == "completed"
        assert driver.found == [None, begun(1), None, None]


async def test_the_same_is_recorded_once() -> None:
    """Remembering what is remembered already adds no event, as drivers may say it at every step."""

    class Repeating(NativeToolDriver):
        def on_answer(self, view: DriverView) -> Actions:
            if view.step == 3:
                return (Remember(memory=(1,)), Finish())
            return (Remember(memory=(1,)), AskModel())

    async with open_checked_service(scripted(*[text("a")] * 3, **Watched(driver=Repeating()).settings())) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        assert of_type(service, session_id, ev.DriverRemembered) == [ev.DriverRemembered(memory=(1,))]


async def test_what_looks_the_same_is_told_apart() -> None:
    """True and 1 are two values: the newer one is what a resumed turn finds."""

    class Exact(NativeToolDriver):
        def on_start(self, view: DriverView) -> Actions:
            return (Remember(memory=1), Remember(memory=True), Finish(status="failed", error="enough"))

    async with open_checked_service(scripted(**Watched(driver=Exact()).settings())) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        assert await memory_of(service, session_id) is True


async def test_a_fault_is_forgotten() -> None:
    """A driver that fails over what it remembered begins anew when its turn is resumed; so does one with too much."""

    class Stumbling(Counting):
        def on_answer(self, view: DriverView) -> Actions:
            many = limits.MAX_DRIVER_MEMORY_BYTES if len(self.found) == 1 else 1
            return (Remember(memory="x" * many), Finish(status="failed", error="enough"))

    driver = Stumbling()
    config = scripted(*[text("a")] * 3, **Watched(driver=driver).settings())
    async with open_checked_service(config) as service:
        session_id = await new_session(service)
        failed = await say(service, session_id)
        assert "a Remember of 65,538 bytes, and 65,536 are allowed" in (failed.error or "")
        assert await memory_of(service, session_id) is None
        await say(service, session_id, "again")
        assert await memory_of(service, session_id) == "x"
        assert driver.found == [None, None]


def remember_and_die(store: SqliteStore) -> tuple[ServiceConfig, Any]:
    """End the process in a tool call of a turn whose driver has remembered something."""
    settings = Watched(driver=Counting()).settings()
    config = scripted(tool_call("t"), tools=(DeadlyTool("t"),), store=store, **settings)
    return config, lambda service, session_id: service.send_user_message(session_id, "go")


async def test_it_outlives_a_kill(tmp_path: Path) -> None:
    """A turn that a kill -9 has interrupted is resumed with what its driver had remembered before the model call."""
    session_id = await run_until_killed(remember_and_die, tmp_path)
    driver = Counting()
    async with serving(SqliteStore(tmp_path), Watched(driver=driver)) as service:
        snapshot = await service.load_session(session_id)
        assert (snapshot.activity.name, snapshot.driver_memory) == ("interrupted", begun(1))
        assert (await resumed(service, session_id)).status == "completed"
    assert driver.found == [begun(1)]
