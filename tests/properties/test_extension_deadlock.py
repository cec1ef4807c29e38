"""Extensions that call back in every way, at any time: nothing waits for itself, and everybody gets one outcome."""

from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from functools import partial
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from session_core.assembly.folders.extensions import ServiceExtensions
from session_core.assembly.folders.files import read_user_settings
from session_core.assembly.folders.registry import Folders, open_folders
from session_core.assembly.surroundings import AgentEnvironment
from session_core.errors import ExtensionFailed, SessionCoreError
from session_core.ids import SessionId
from session_core.rpc.failures import RpcFailed
from session_core.rpc.messages import Request
from session_core.sep.host.catalogue.discovery import DiscoveredExtension, Discovery, SkippedExtension
from session_core.sep.host.extension import HostedExtension
from session_core.sep.host.host import ExtensionHost, HostConfig
from session_core.sep.protocol.manifest import Manifest, RunSpec
from session_core.service.extension_bridge.delegate import run_host
from session_core.service.service import SessionService
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import ScriptedProvider, text, tool_call
from session_core.vocabulary import events as ev
from tests.properties._world import world_config
from tests.session_core.sep._stand_in import StandIn, StandIns, no_preparation

NAMES = ("a", "b")
_ASKED: dict[str, tuple[str, dict[str, Any]]] = {
    "post": ("session/send_message", {"text": "posted"}),
    "send": ("session/send_user_message", {"text": "said"}),
    "steer": ("session/send_user_message", {"text": "said", "deliver_as": "steer"}),
    "dialog": ("ui/request", {"kind": "confirm", "prompt": "really?"}),
    "notice": ("ui/request", {"kind": "notify", "message": "look"}),
    "keep": ("kv/set", {"key": "k", "value": 1}),
    "state": ("session/state", {}),
    "publish": ("bus/publish", {"topic": "t", "payload": {}}),
}
LONG = 100_000
"""Seconds of the clock that jumps; every wait of extensions, dialogs and commands in a row ends long before."""


@attrs.frozen
class Step:
    """One thing an extension does, in one of the two sessions, and what it does within that."""

    kind: str
    extension: str = "a"
    session: int = 0
    inner: "tuple[Step, ...]" = ()


def steps() -> "st.SearchStrategy[tuple[Step, ...]]":
    where = {"extension": st.sampled_from(NAMES), "session": st.integers(0, 1)}
    simple = st.builds(
        Step,
        st.sampled_from(
            (
                *(*_ASKED, "register"),
                *("reload", "off_and_on", "wait_for_turn", "stop", "crash", "pause"),
            )
        ),
        **where,
    )
    some = st.lists(simple, max_size=3).map(tuple)
    nested = st.builds(Step, st.just("command"), inner=some, **where)
    twice = st.builds(Step, st.just("command"), inner=st.lists(simple | nested, max_size=3).map(tuple), **where)
    return st.lists(simple | nested | twice, min_size=1, max_size=5).map(tuple)


class Harness:
    """Two extensions, two sessions, people who answer, and a count of everything that was begun and has ended."""

    def __init__(self, hooked: tuple[Step, ...], random: Random) -> None:
        self.begun = self.ended = self.probes = 0
        self.service: SessionService
        self.sessions: list[SessionId] = []
        self.processes = {name: StandIns() for name in NAMES}
        self._hooked = hooked
        self._programs: list[tuple[Step, ...]] = []
        self._random = random
        self._on: dict[str, bool] = dict.fromkeys(NAMES, True)
        for name, each in self.processes.items():
            each.answer = partial(self._answer, name)
            tool = {"name": "t", "description": "", "parameters": {"type": "object"}}
            each.registrations = {
                "commands": [{"name": "run", "description": ""}],
                "tools": [tool],
                "hooks": ["input", "tool_call", "message_end"],
                "subscriptions": ["turn_start", "bus/event"],
            }

    def open_process(self, *args: Any, name: str, **others: Any) -> AbstractAsyncContextManager[StandIn]:
        return self.processes[name].open(*args, name=name, **others)

    # --- what extensions do -------------------------------------------------------------------------------------------

    async def _answer(self, name: str, process: StandIn, request: Request) -> Any:
        params = request.params
        if request.method == "command/execute":
            program = self._programs[int(params["arguments"]["text"])]
            await self._perform_all(process, params["context"], program)
            return {"content": "done"}
        if request.method == "tool/execute":
            await self._perform_all(process, params["context"], self._hooked)
            return {"content": "done"}
        if request.method == "hook":
            if params["hook"] == "tool_call" and self._hooked:
                await self._perform_all(process, params["context"], self._hooked[:1])
            return {"action": "continue"}
        return await self.processes[name].answer_well(process, request)

    async def _perform_all(self, process: StandIn, context: Any, doing: Sequence[Step]) -> None:
        for step in doing:
            with self._counted(), suppress(SessionCoreError, RpcFailed):  # a refusal is an outcome too
                if step.kind in _ASKED:
                    method, params = _ASKED[step.kind]
                    await process.theirs.request(method, {"context": context, **params})
                else:
                    await self._perform(process, step)

    async def _perform(self, process: StandIn, step: Step) -> None:
        session_id = self.sessions[step.session]
        match step.kind:
            case "register":
                await process.theirs.notify("registry/update", {"subscriptions": ["turn_end"]})
            case "command":
                await self.run_command(step.extension, session_id, step.inner)
            case "reload":
                await self.service.reload_extension(step.extension)
            case "off_and_on":
                await self.service.disable_extension(step.extension)
                await self.service.enable_extension(step.extension)
            case "wait_for_turn":
                await self.service.wait_for_turn(session_id)
            case "stop":
                await self.service.request_stop(session_id)
            case "crash":
                process.crash()
                await trio.lowlevel.checkpoint()
            case _:
                await trio.sleep(self._random.choice((0, 0.5, 3, 200)))

    async def run_command(self, extension: str, session_id: SessionId, inner: tuple[Step, ...]) -> None:
        """What a person does, or a frontend that an extension has told to."""
        self._programs.append(inner)
        with self._counted():
            await self.service.run_command(session_id, "run", str(len(self._programs) - 1), extension=extension)

    @contextmanager
    def _counted(self) -> Generator[None]:
        self.begun += 1
        try:
            yield
        finally:
            self.ended += 1

    # --- the world around ---------------------------------------------------------------------------------------------

    def _look(self) -> Discovery:
        known = [_found(name) for name in NAMES]
        off = (
            SkippedExtension(name=each.name, folder=each.folder, scope="user", reason="off", kind="disabled")
            for each in known
        )
        return Discovery(
            found=tuple(each for each in known if self._on[each.name]),
            skipped=tuple(each for each in off if not self._on[each.name]),
        )

    @asynccontextmanager
    async def open(self, monkeypatch: pytest.MonkeyPatch) -> AsyncGenerator[None]:
        """Open the service with both extensions and two sessions."""
        monkeypatch.setattr(
            "session_core.sep.host.host.HostedExtension", partial(HostedExtension, open_process=self.open_process)
        )
        monkeypatch.setattr("trio.to_thread.run_sync", _at_once)
        host_config = HostConfig(folder="/")
        self.host = ExtensionHost(self._look, host_config, prepare=no_preparation, enable=self._on.__setitem__)
        with TemporaryDirectory() as work:
            place = AgentEnvironment(home=Path(work, "home"), folder=work, environ={}, is_persistent=False)
            async with open_folders(place, read_user_settings(place, {}), {}, every_s=LONG**2) as folders:
                async with self._serve(ServiceExtensions(self.host, folders), folders, work):
                    yield

    @asynccontextmanager
    async def _serve(self, extensions: ServiceExtensions, folders: Folders, work: str) -> AsyncGenerator[None]:
        answers = [each for _ in range(3) for each in (tool_call("a.t"), tool_call("b.t"), text("done"))]
        config = attrs.evolve(
            world_config(provider=ScriptedProvider(*answers)),
            permission_mode="full",
            cwd=work,
            folders=folders,
            hooks=extensions,
            extensions=extensions,
            tool_sources=(extensions,),
            background_tasks=(folders.run, partial(run_host, self.host)),
        )
        async with open_checked_service(config) as self.service:
            await self.host.settled.wait()
            self.sessions = [(await self.service.create_session()).session_id for _ in range(2)]
            with self.service.attach("person", ui=frozenset({"confirm", "notify"})):
                yield

    async def answer_dialogs(self) -> None:
        """Be a person who answers most questions after a while, and lets the others run out of time."""
        async with self.service.subscribe() as events:
            async for each in events:
                if isinstance(each.event, ev.DialogOpened) and each.session_id is not None:
                    await trio.sleep(self._random.choice((0, 1, 30)))
                    if self._random.random() < 0.8:
                        with suppress(SessionCoreError):  # it may be closed already
                            await self.service.answer_dialog(each.session_id, each.event.dialog.request_id, True)

    async def probe(self) -> None:
        """See again and again that the mailbox answers."""
        while True:
            await trio.sleep(self._random.choice((0.5, 5, 60)))
            with trio.fail_after(1):
                await self.service.list_queue(self.sessions[0])
                await self.service.list_extensions()
            self.probes += 1


async def _at_once(function: Callable[..., Any], *args: Any, **_: Any) -> Any:
    """Do at once what else a thread would do, as the clock would jump meanwhile."""
    await trio.lowlevel.checkpoint()
    return function(*args)


def _found(name: str) -> DiscoveredExtension:
    manifest = Manifest(name=name, version="1", run=RunSpec(command="x"))
    return DiscoveredExtension(name=name, folder=Path("/nowhere"), scope="user", manifest=manifest, digest="")


async def check(
    programs: list[tuple[Step, ...]], hooked: tuple[Step, ...], random: Random, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Let several programs run at once, and see that all come to an end and that the service is as good as before."""
    harness = Harness(hooked, random)
    outcomes: list[str] = []

    async def run(number: int, program: tuple[Step, ...]) -> None:
        await trio.sleep(random.choice((0, 0, 1, 10)))
        try:
            await harness.run_command(NAMES[number % 2], harness.sessions[number % 2], program)
            outcomes.append("done")
        except SessionCoreError as error:
            outcomes.append(error.code)

    with monkeypatch.context() as patched, trio.fail_after(LONG):
        async with harness.open(patched), trio.open_nursery() as around:
            around.start_soon(harness.answer_dialogs)
            around.start_soon(harness.probe)
            async with trio.open_nursery() as running:
                for number, program in enumerate(programs):
                    running.start_soon(run, number, program)
            for session_id in harness.sessions:
                await harness.service.send_user_message(session_id, "one more")
                while not (await harness.service.load_session(session_id)).activity.is_at_rest:
                    await harness.service.wait_for_turn(session_id)
            around.cancel_scope.cancel()
    assert len(programs) == len(outcomes)
    assert harness.begun == harness.ended
    assert {each.state for each in harness.host.extensions} <= {"stopped"}


@given(
    programs=st.lists(steps(), min_size=1, max_size=3),
    hooked=steps(),
    seed=st.integers(0, 10**6),
    schedule=st.random_module(),
)
@settings(max_examples=min(settings().max_examples, 1_000))
async def test_nothing_waits_for_itself(
    *,
    programs: list[tuple[Step, ...]],
    hooked: tuple[Step, ...],
    seed: int,
    schedule: object,
    monkeypatch: pytest.MonkeyPatch,
    autojump_clock: MockClock,
) -> None:
    """Messages, dialogs, commands of others, reloads, crashes and stops from within commands, tools and hooks end."""
    await check(programs, hooked, Random(seed), monkeypatch)


async def test_one_command_that_does_it_all(monkeypatch: pytest.MonkeyPatch, autojump_clock: MockClock) -> None:
    """A command speaks, asks, has the other extension call it back, and is reloaded; its outcome is told, and why."""
    back = Step("command", "a", 0, (Step("post"), Step("dialog")))
    everything = (Step("send"), Step("dialog"), Step("command", "b", 1, (Step("post"), back)), Step("reload", "a"))
    harness = Harness((), Random(0))
    with trio.fail_after(LONG):
        async with harness.open(monkeypatch), trio.open_nursery() as around:
            around.start_soon(harness.answer_dialogs)
            with pytest.raises(ExtensionFailed):  # the process that ran it was replaced meanwhile
                await harness.run_command("a", harness.sessions[0], everything)
            known = {each.name: (each.state, each.generation) for each in harness.host.extensions}
            first, second = [await harness.service.load_session(each) for each in harness.sessions]
            around.cancel_scope.cancel()
    assert {"a": ("ready", 2), "b": ("ready", 1)} == known
    assert ["said", "posted"] == [each.text for each in first.messages if each.text in {"said", "posted"}]
    assert ["posted"] == [each.text for each in second.messages]
    assert harness.begun == harness.ended
