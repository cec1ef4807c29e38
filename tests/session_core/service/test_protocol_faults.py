"""A plugin that raises or hangs: its own turn fails and names it, and the session runs its next turn."""

from collections.abc import Callable
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from session_core.errors import StorageFailed
from session_core.protocols.driver import Actions, DriverView, ExecuteCode
from session_core.protocols.faults import StateNotKeepable, StateRejected
from session_core.protocols.standard import NativeToolDriver
from session_core.service.service import SessionService, open_session_service
from session_core.storage.memory import MemoryStore
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import Hang, ScriptedProvider, text
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.sessions import TurnOutcome
from tests.session_core.service._helpers import new_session, of_type, say, scripted, transcript
from tests.session_core.service._protocols import CellDriver, ToyExecutor, Watched, fails, hangs

CALLBACKS = ("initialize", "restore", "check_turn_extension", "before_model_call")
PARTS = ("execute", "probe", "capture", "executor")


async def turn(service: SessionService, session_id: Any) -> TurnOutcome:
    """Run a turn that meets every callback."""
    await service.send_user_message(session_id, "go", extension=JsonObject({"a": 1}))
    return (await service.wait_for_turn(session_id)).outcome


FAULTS = [(callback, trouble) for callback in (*CALLBACKS, *PARTS) for trouble in (fails, hangs)]
FAULTS.remove(("execute", hangs))  # how long a cell may take is the executor's own affair


@pytest.mark.parametrize(("callback", "trouble"), FAULTS)
async def test_a_plugin_with_a_fault(
    callback: str, trouble: Callable[..., Any], autojump_clock: trio.abc.Clock, quiet_log: None
) -> None:
    """Whatever callback raises or hangs: the turn fails with the plugin and the callback, and the next turn runs."""
    name = {"executor": "restore"}.get(callback, callback)
    executor = ToyExecutor(**{name: trouble} if callback in PARTS else {})
    factory = Watched(driver=CellDriver(), executor=executor)
    factory.acts = {callback: trouble} if callback in CALLBACKS else {}
    provider = ScriptedProvider(*[text("run x"), text("end")] * 3)
    async with open_checked_service(scripted(provider, **factory.settings())) as service:
        session_id = await new_session(service)
        outcome = await turn(service, session_id)
        reason = "ZeroDivisionError: a bug" if trouble is fails else "it took longer than "
        assert outcome.status == "failed"
        assert outcome.error is not None
        assert outcome.error.startswith(f"the protocol watched failed in {name}: {reason}")
        factory.acts.clear()
        executor.acts.clear()
        provider._answers.clear()
        assert (await turn(service, session_id)).final_text == "(script is over)"
        assert factory.calls[-3] == ("restore", factory.calls[-3][1])
        assert not (await service.load_session(session_id)).tools


class Failing(NativeToolDriver):
    """A driver with a bug."""

    def on_answer(self, view: DriverView) -> Actions:
        raise ZeroDivisionError("a bug")


async def test_other_parts_of_a_plugin(quiet_log: None) -> None:
    """Drivers, projectors and instructions that raise fail their turn in the same way."""

    class Prose:
        def open(self) -> Any:
            raise ZeroDivisionError("a bug")

    for name, part in {"driver": Failing(), "prose": Prose(), "instructions": fails}.items():
        parts: dict[str, Any] = {name: part}
        async with open_checked_service(scripted(text("a"), **Watched(**parts).settings())) as service:
            session_id = await new_session(service)
            outcome = await say(service, session_id)
            where = " (in on_answer)" if name == "driver" else ""
            error = f"the protocol watched failed in {name}: ZeroDivisionError: a bug{where}"
            assert (outcome.status, outcome.error) == ("failed", error)
            other = await new_session(service, protocol="standard")
            assert (await say(service, other)).status == "completed"


class Leaving(BaseException):
    """An error that is no `Exception`."""


class Gone(NativeToolDriver):
    """A driver that raises what hardly anybody catches."""

    def on_start(self, view: DriverView) -> Actions:
        raise Leaving("now")


async def test_an_error_of_an_odd_kind(quiet_log: None) -> None:
    """An error that is no `Exception` fails the turn of its plugin, and the service goes on."""
    async with open_checked_service(scripted(text("a"), **Watched(driver=Gone()).settings())) as service:
        outcome = await say(service, await new_session(service))
        error = "the protocol watched failed in driver: Leaving: now (in on_start)"
        assert (outcome.status, outcome.error) == ("failed", error)
        assert (await say(service, await new_session(service, protocol="standard"))).status == "completed"


async def test_a_stop_while_a_plugin_hangs() -> None:
    """A plugin that hangs is ended by a stop at once, and the session is at rest."""
    for callback in CALLBACKS:
        factory = Watched()
        factory.acts = {callback: hangs}
        async with open_checked_service(scripted(text("a"), **factory.settings())) as service:
            session_id = await new_session(service)
            await service.send_user_message(session_id, "go", extension=JsonObject())
            await wait_all_tasks_blocked()
            await service.request_stop(session_id)
            assert (await service.wait_for_turn(session_id)).outcome.status == "stopped"
            factory.acts.clear()
            assert (await say(service, session_id)).status == "completed"


async def test_a_provider_that_hangs_leaves_others_alone() -> None:
    """Sessions of one protocol know nothing of each other: while one hangs, another one works."""
    factory = Watched()
    async with open_checked_service(scripted(Hang(), text("fine"), **factory.settings())) as service:
        first, second = await new_session(service), await new_session(service)
        await service.send_user_message(first, "go")
        await wait_all_tasks_blocked()
        assert (await say(service, second)).final_text == "fine"


# --- code -------------------------------------------------------------------------------------------------------------


class NoEar(NativeToolDriver):
    """Wants code run, and cannot hear what became of it."""

    def on_answer(self, view: DriverView) -> Actions:
        return (ExecuteCode(language="toy", code="x"),)


@pytest.mark.parametrize(
    ("driver", "executor", "error"),
    [
        (CellDriver(), None, "failed in execute: it asked to run code, but has no executor"),
        (CellDriver("rust"), ToyExecutor(), "failed in execute: its executor runs toy, not rust"),
        (
            NoEar(),
            ToyExecutor(),
            "failed in driver: the driver asked to run code, but has no on_code callback",
        ),
    ],
)
async def test_code_that_cannot_be_run(driver: Any, executor: ToyExecutor | None, error: str) -> None:
    """A driver that asks for code nobody can run fails its turn; nothing is left running, and the next turn runs."""
    factory = Watched(driver=driver, executor=executor)
    async with open_checked_service(scripted(text("run x"), **factory.settings())) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id)
        assert (outcome.status, outcome.error) == ("failed", f"the protocol watched {error}")
        assert (await service.load_session(session_id)).tools == ()
        if not isinstance(driver, NoEar):
            assert (await say(service, session_id)).status == "completed"


def unkeepable() -> None:
    """A state with something in it that cannot be written down."""
    raise StateNotKeepable("the variable f is an open file")


@pytest.mark.parametrize("callback", ["probe", "capture"])
async def test_a_state_that_cannot_be_kept(callback: str) -> None:
    """A turn that leaves behind what cannot be kept fails and says why; the next goes on from what was kept before."""
    executor = ToyExecutor()
    factory = Watched(driver=CellDriver(), executor=executor)
    provider = ScriptedProvider(*map(text, ("run x", "end", "run y", "end", "fine", "run z", "end")))
    async with open_checked_service(scripted(provider, **factory.settings())) as service:
        session_id = await new_session(service)
        assert (await say(service, session_id)).status == "completed"
        executor.acts[callback] = unkeepable
        outcome = await say(service, session_id)
        told = "what the code has left behind cannot be kept: the variable f is an open file"
        assert (outcome.status, outcome.error) == ("failed", told)
        if callback == "probe":
            assert len(provider.requests) == 3  # no model was asked about a state that is lost
            provider._answers.popleft()
        assert (await say(service, session_id)).final_text == "fine"
        executor.acts.clear()
        assert (await say(service, session_id)).status == "completed"
        assert (executor.restored, executor.cells) == ([None, 1], ["x", "z"])


async def test_a_state_that_is_rejected() -> None:
    """A kept state that the executor does not take fails the turn that needs it, and no other."""

    def reject() -> None:
        raise StateRejected("version 9 is not known")

    executor = ToyExecutor(restore=reject)
    factory = Watched(driver=CellDriver(), executor=executor)
    async with open_checked_service(scripted(text("run x"), text("fine"), **factory.settings())) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id)
        assert outcome.error is not None
        assert outcome.error.startswith("the protocol watched failed in restore: version 9 is not known; ")
        assert (await say(service, session_id)).final_text == "fine"


async def test_an_executor_that_cannot_be_told(quiet_log: None) -> None:
    """A fault after the turn is over changes nothing of it; the executor is restored before it is used again."""
    executor = ToyExecutor(acknowledge=fails)
    factory = Watched(driver=CellDriver(), executor=executor)
    provider = ScriptedProvider(*map(text, ("run x", "end", "run y", "end")))
    async with open_checked_service(scripted(provider, **factory.settings())) as service:
        session_id = await new_session(service)
        assert (await say(service, session_id)).status == "completed"
        executor.acts.clear()
        assert (await say(service, session_id)).status == "completed"
        assert executor.restored == [None, 1]
        assert len(of_type(service, session_id, ev.ExecutorStateSaved)) == 2


class Vague(ToyExecutor):
    """Cannot tell whether it has anything to keep."""

    @property
    def dirty(self) -> bool:
        if self.cells:
            raise ZeroDivisionError("a bug")
        return False


async def test_an_executor_that_cannot_tell(autojump_clock: trio.abc.Clock, quiet_log: None) -> None:
    """An executor that fails to say whether it has anything to keep is taken to have: it is captured, and stays."""
    executor = Vague()
    factory = Watched(driver=CellDriver(), executor=executor)
    config = scripted(text("run x"), text("end"), **factory.settings(), session_stay_ms=1_000)
    async with open_checked_service(config) as service:
        session_id = await new_session(service)
        assert (await say(service, session_id)).status == "completed"
        assert len(of_type(service, session_id, ev.ExecutorStateSaved)) == 1
        await trio.sleep(5)
        assert service.statistics().in_memory == 1
        assert (await transcript(service, session_id))[-1] == ("assistant", "end")


class FullDisk(MemoryStore):
    """Fails when the test says so."""

    @property
    def durable_seq(self) -> int:
        return self._durable if self.failure is None else 0

    @durable_seq.setter
    def durable_seq(self, seq: int) -> None:
        self._durable = seq

    async def wait_durable(self, seq: int) -> None:
        await trio.lowlevel.checkpoint()
        if self.failure is not None:
            raise self.failure


async def test_a_store_that_does_not_take_it(caplog: pytest.LogCaptureFixture) -> None:
    """When the store fails, the executor hears that its state was not kept, and offers it again."""
    store, executor = FullDisk(), ToyExecutor()
    factory = Watched(driver=CellDriver(), executor=executor)
    async with open_session_service(scripted(text("run x"), text("end"), store=store, **factory.settings())) as service:
        session_id = await new_session(service)

        def fill(*_: object) -> None:
            store.failure = StorageFailed("the disk is full")

        factory.acts["before_model_call"] = lambda context, _: fill() if context.step else None
        executor.known = ["something"]
        await service.send_user_message(session_id, "go")
        await wait_all_tasks_blocked()
        assert (executor.cells, executor.known) == (["x"], [])
    assert "nothing can be saved any more" in caplog.text


async def test_executors_that_do_not_close(autojump_clock: trio.abc.Clock, quiet_log: None) -> None:
    """At the end of a service every executor and every protocol is closed, whatever another one does."""
    closed: list[str] = []
    factory = Watched(driver=CellDriver(), executor=ToyExecutor(aclose=hangs))
    async with open_checked_service(scripted(text("run x"), **factory.settings())) as service:
        await say(service, await new_session(service))
        factory._parts["executor"] = ToyExecutor(aclose=fails)
        await say(service, await new_session(service))
        factory._parts["executor"] = ToyExecutor(aclose=lambda: closed.append("third"))
        await say(service, await new_session(service))
    assert (closed, factory.names()[-1]) == (["third"], "aclose")
