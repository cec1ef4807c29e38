"""Whatever a command waits for while it is preparing, those of its session stay in order."""

from contextvars import Context
from functools import partial
from pathlib import Path
from random import Random

import attrs
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from session_core.agent.hooks import Blocked, HookName
from session_core.errors import Overloaded, ServiceClosed
from session_core.ids import ClientId, SessionId
from session_core.service.extension_api import extension_client
from session_core.service.service import SessionService
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import Pause, ScriptedProvider, text
from session_core.vocabulary import commands as c
from session_core.vocabulary.events import MessageQueued, SessionRenamed
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import TextPart
from tests.session_core.service._folder_extensions import Place, served
from tests.session_core.service._folders import folder
from tests.session_core.service._helpers import new_session, of_type, scripted, trace

BUSY = (Pause("busy"), *text("done"))


class Slow:
    """Thinks about every message, for as many steps as a message says, or until it is let go."""

    def __init__(self) -> None:
        self.held: dict[str, trio.Event] = {}
        self.asked: list[str] = []

    def hold(self, said: str) -> trio.Event:
        return self.held.setdefault(said, trio.Event())

    def handles(self, hook: HookName) -> bool:
        return hook == "input"

    async def run(self, hook: HookName, _session_id: SessionId, value: JsonObject) -> JsonObject | Blocked:
        said = str(value["text"])
        self.asked.append(said)
        if said in self.held:
            await self.held[said].wait()
        for _ in range(int(said.partition("+")[2] or 0)):
            await trio.lowlevel.checkpoint()
        return Blocked(reason="no") if said.startswith("no") else value


async def busy(service: SessionService, session_id: SessionId, model: ScriptedProvider) -> None:
    """Let a turn begin that does not end, so that messages are queued in their order."""
    await service.send_user_message(session_id, "go")
    await model.wait_for_pause("busy")


@attrs.frozen
class Sent:
    session: int
    client: str
    command: str  # "say" is asked about, "rename" is not
    steps: int
    cancelled: bool


SENT = st.builds(
    Sent,
    session=st.integers(0, 1),
    client=st.sampled_from(["a", "b"]),
    command=st.sampled_from(["say", "rename"]),
    steps=st.integers(0, 12),
    cancelled=st.sampled_from([False, False, False, True]),
)


def changes(service: SessionService, session_id: SessionId) -> list[str]:
    """What was said and named in a session, in the order in which it was done."""
    found: list[str] = []
    for event in trace(service, session_id):
        if isinstance(event, MessageQueued) and isinstance(part := event.item.parts[0], TextPart):
            found.append(part.text)
        elif isinstance(event, SessionRenamed):
            found.append(event.name)
    return found


@given(sent=st.lists(SENT, max_size=25), seed=st.integers(), rnd=st.random_module())
async def test_commands_of_a_session_run_in_the_order_of_arrival(sent: list[Sent], seed: int, rnd: object) -> None:
    """However long hooks think about some, and whoever gives up, the commands of a session run as they came."""
    model = ScriptedProvider(BUSY, BUSY)
    random = Random(seed)
    arrived: dict[SessionId, list[str]] = {}
    given_up: set[str] = set()
    async with open_checked_service(scripted(model, hooks=Slow())) as service:
        sessions = [await new_session(service), await new_session(service)]
        for session_id in sessions:
            arrived[session_id] = []
            await busy(service, session_id, model)

        async def send(number: int, each: Sent, scope: trio.CancelScope) -> None:
            session_id = sessions[each.session]
            name = f"{number}+{each.steps}"
            arrived[session_id].append(name)
            command: c.Command[object] = (
                c.SendUserMessage(session_id=session_id, text=name)
                if each.command == "say"
                else c.RenameSession(session_id=session_id, name=name)
            )
            with scope:
                await service.execute(command, client_id=ClientId(each.client))
            if scope.cancelled_caught:
                given_up.add(name)

        async with trio.open_nursery() as nursery:
            for number, each in enumerate(sent):
                scope = trio.CancelScope()
                nursery.start_soon(send, number, each, scope)
                for _ in range(random.randrange(3)):
                    await trio.lowlevel.checkpoint()
                if each.cancelled:
                    scope.cancel()
        for session_id in sessions:
            done = changes(service, session_id)
            assert done == [name for name in arrived[session_id] if name in done]
            assert {*arrived[session_id]} - {*done} <= given_up
        assert [] == [*service.core.list_waiting_commands()]
        model.release("busy")


async def test_a_hook_holds_up_its_own_session_and_neither_stop_nor_others() -> None:
    """While a hook thinks, changes of its session wait; other sessions, other readers and a stop do not."""
    hooks, model = Slow(), ScriptedProvider(BUSY, BUSY, text("x"))
    async with open_checked_service(scripted(model, hooks=hooks)) as service:
        mine, other = await new_session(service), await new_session(service)
        await busy(service, mine, model)
        go_on = hooks.hold("held")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(service.send_user_message, mine, "held")
            await wait_all_tasks_blocked()
            nursery.start_soon(service.rename_session, mine, "later")
            await wait_all_tasks_blocked()
            assert [] == of_type(service, mine, SessionRenamed)
            await service.rename_session(other, "at once")
            reader = ClientId("reader")
            assert not (await service.execute(c.LoadSession(session_id=mine), client_id=reader)).queue
            stopped = await service.request_stop(mine)
            assert ("stopped", 1) == (stopped.result, stopped.withheld)
            go_on.set()
        assert ["held", "later"] == changes(service, mine)
        model.release("busy")


async def test_who_sends_and_then_reads_sees_what_it_sent() -> None:
    """What a client reads right after a command of its own that waits, it reads after that command."""
    hooks, model = Slow(), ScriptedProvider(BUSY)
    async with open_checked_service(scripted(model, hooks=hooks)) as service:
        session_id = await new_session(service)
        await busy(service, session_id, model)
        go_on, seen, other = hooks.hold("held"), list[str](), ClientId("other")

        async def read() -> None:
            seen.append((await service.execute(c.LoadSession(session_id=session_id), client_id=other)).name)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(service.send_user_message, session_id, "held")
            await wait_all_tasks_blocked()
            rename = c.RenameSession(session_id=session_id, name="mine")
            nursery.start_soon(partial(service.execute, rename, client_id=other))
            await wait_all_tasks_blocked()
            nursery.start_soon(read)
            await wait_all_tasks_blocked()
            assert [] == seen
            go_on.set()
        assert ["mine"] == seen
        model.release("busy")


async def test_who_is_asked_can_see_the_question() -> None:
    """A client whose message makes a hook ask people can read the session meanwhile, and answer."""
    hooks, model = Slow(), ScriptedProvider(BUSY)
    async with open_checked_service(scripted(model, hooks=hooks)) as service:
        session_id = await new_session(service)
        await busy(service, session_id, model)
        go_on = hooks.hold("held")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(service.send_user_message, session_id, "held")
            await wait_all_tasks_blocked()
            with trio.fail_after(300):
                await service.load_session(session_id)
            go_on.set()
        assert ["held"] == changes(service, session_id)
        model.release("busy")


class Crossing(Slow):
    """Asked about one session it speaks in another, and asked about that one it renames the first."""

    service: SessionService
    sessions: tuple[SessionId, SessionId]

    async def run(self, hook: HookName, session_id: SessionId, value: JsonObject) -> JsonObject | Blocked:
        one, two = self.sessions
        if value["text"] == "cross":
            await self.service.send_user_message(two, "crossed")
        elif session_id == two:
            await self.service.rename_session(one, "from the other side")
        return value


async def test_hooks_within_hooks() -> None:
    """A hook whose own message makes another hook act in the first session waits for nobody."""
    hooks, model = Crossing(), ScriptedProvider(BUSY, text("x"))
    async with open_checked_service(scripted(model, hooks=hooks)) as service:
        hooks.service = service
        hooks.sessions = one, _two = await new_session(service), await new_session(service)
        await busy(service, one, model)
        with trio.fail_after(300):
            await service.send_user_message(one, "cross")
        assert ["from the other side", "cross"] == changes(service, one)
        model.release("busy")


async def test_those_who_wait_are_told_when_the_service_closes() -> None:
    """Whoever waits for others when the service closes gets an error at once, and no hook is asked about it."""
    hooks, model = Slow(), ScriptedProvider(BUSY)
    told: list[str] = []
    async with trio.open_nursery() as nursery:
        async with open_checked_service(scripted(model, hooks=hooks)) as service:
            session_id = await new_session(service)
            await busy(service, session_id, model)
            go_on = hooks.hold("held")

            async def say(said: str) -> None:
                with pytest.raises(ServiceClosed):
                    await service.send_user_message(session_id, said)
                told.append(said)

            for said in ("held", "next"):
                nursery.start_soon(say, said)
                await wait_all_tasks_blocked()
            model.release("busy")
        await wait_all_tasks_blocked()
        assert ["next"] == told
        go_on.set()
    assert ["go", "held"] == hooks.asked


async def test_a_refused_message_lets_the_next_one_on() -> None:
    """When a hook says no to a message, those behind it go on."""
    hooks, model = Slow(), ScriptedProvider(BUSY)
    async with open_checked_service(scripted(model, hooks=hooks)) as service:
        session_id = await new_session(service)
        await busy(service, session_id, model)
        go_on, refused = hooks.hold("no"), list[str]()

        async def say_no() -> None:
            with pytest.raises(Exception, match="does not allow this") as problem:
                await service.send_user_message(session_id, "no")
            refused.append(type(problem.value).__name__)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(say_no)
            await wait_all_tasks_blocked()
            nursery.start_soon(service.send_user_message, session_id, "next")
            await wait_all_tasks_blocked()
            go_on.set()
        assert (["Forbidden"], ["next"]) == (refused, changes(service, session_id))
        model.release("busy")


class Acting(Slow):
    """Does something in the session itself before it answers, under a name or as an extension would."""

    def __init__(self, client_id: ClientId) -> None:
        super().__init__()
        self.service: SessionService | None = None
        self.client_id = client_id

    async def run(self, hook: HookName, session_id: SessionId, value: JsonObject) -> JsonObject | Blocked:
        command = c.RenameSession(session_id=session_id, name=f"before {value['text']}")
        if self.client_id != extension_client("x"):
            await self._act(command)
            return value
        async with trio.open_nursery() as nursery:  # it answers by a connection of its own, in another context
            Context().run(nursery.start_soon, self._act, command)
        return value

    async def _act(self, command: c.RenameSession) -> None:
        assert self.service is not None
        await self.service.execute(command, client_id=self.client_id)


@pytest.mark.parametrize("client_id", [ClientId("local"), extension_client("x")])
async def test_what_a_hook_does_itself_never_waits_for_it(client_id: ClientId) -> None:
    """A hook that acts in the session it is asked about is done at once: nobody waits for each other."""
    hooks, model = Acting(client_id), ScriptedProvider(BUSY)
    async with open_checked_service(scripted(model, hooks=hooks)) as service:
        hooks.service = service
        session_id = await new_session(service)
        with trio.fail_after(300):
            await busy(service, session_id, model)
            await service.send_user_message(session_id, "two")
        assert ["before go", "before two", "two"] == changes(service, session_id)
        model.release("busy")


async def test_waiting_commands_are_bounded() -> None:
    """One command more than the mailbox holds is refused before any hook hears of it, and is counted."""
    hooks, model = Slow(), ScriptedProvider(BUSY)
    async with open_checked_service(scripted(model, hooks=hooks, mailbox_capacity=2)) as service:
        session_id = await new_session(service)
        await busy(service, session_id, model)
        go_on = hooks.hold("held")
        async with trio.open_nursery() as nursery:
            for said in ("held", "next"):
                nursery.start_soon(service.send_user_message, session_id, said)
                await wait_all_tasks_blocked()
            with pytest.raises(Overloaded):
                await service.send_user_message(session_id, "one too many")
            assert 1 == service.statistics().mailbox.refused
            go_on.set()
        assert ["held", "next"] == changes(service, session_id)
        model.release("busy")


@pytest.mark.parametrize("name", ["plain", "link"])
async def test_messages_of_a_home_keep_their_order(tmp_path: Path, name: str) -> None:
    """Messages sent one right after the other in a home come in that order, also by a link to their folder."""
    place = Place(tmp_path)
    here = folder(tmp_path, "plain")
    (tmp_path / "link").symlink_to(here)
    order: list[str] = []
    async with served(place, BUSY) as world:
        session_id = await world.session(str(tmp_path / name))
        await busy(world.service, session_id, world.model)

        async def say(said: str) -> None:
            order.append(said)
            await world.service.send_user_message(session_id, said)

        async with trio.open_nursery() as nursery:
            for number in range(30):
                nursery.start_soon(say, str(number))
        assert order == changes(world.service, session_id)
        world.model.release("busy")


async def test_a_session_that_comes_back_keeps_the_order() -> None:
    """Commands for a session that has to be read from the store first run in the order in which they came."""
    order: list[str] = []
    async with open_checked_service(scripted()) as service:
        session_id = await new_session(service)
        service.core.loaded_sessions.remove(session_id)

        async def rename(name: str) -> None:
            order.append(name)
            await service.rename_session(session_id, name)

        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(rename, str(number))
        assert order == changes(service, session_id)


class FirstStep(trio.abc.Instrument):
    """Notes what was done in a session when the task of this name has made its first step."""

    def __init__(self, service: SessionService, session_id: SessionId) -> None:
        self.service = service
        self.session_id = session_id
        self.done: list[str] | None = None

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        if task.name == "the sender" and self.done is None:
            self.done = changes(self.service, self.session_id)


async def test_nothing_is_waited_for_where_nobody_has_a_say(tmp_path: Path) -> None:
    """In a home without extensions a message is taken in within the step in which it is sent."""
    place = Place(tmp_path)
    async with served(place, BUSY) as world:
        session_id = await world.session(folder(tmp_path, "plain"))
        await busy(world.service, session_id, world.model)
        first = FirstStep(world.service, session_id)
        trio.lowlevel.add_instrument(first)
        async with trio.open_nursery() as nursery:  # noqa: ASYNC112 - the instrument knows its task by the name
            nursery.start_soon(world.service.send_user_message, session_id, "now", name="the sender")
        trio.lowlevel.remove_instrument(first)
        assert ["now"] == first.done
        world.model.release("busy")
