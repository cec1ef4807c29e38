"""A whole service with a zoo of extensions: hostile ones, and a healthy one that must not feel anything of them.

At its end a zoo has proved that no process that any of them has ever started is left, no file descriptor, and no task.
"""

import json
import os
import shutil
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final

import attrs
import trio

from session_core.agent.joined_mapping import JoinedMapping
from session_core.assembly.setup import AgentEnvironment, open_setup
from session_core.errors import ExtensionFailed
from session_core.ids import SessionId, new_id
from session_core.providers.base import ModelRequest, ProviderEvent
from session_core.sep.host.catalogue.consent import CONSENT_FILE, Consents, digest_of
from session_core.sep.host.catalogue.discovery import DiscoveredExtension
from session_core.sep.host.extension import HostedExtension
from session_core.sep.host.host import ExtensionHost
from session_core.sep.host.process.process_session import ExtensionTimeouts
from session_core.service.service import AttachedClient, SessionService, open_session_service
from session_core.storage.sqlite import SqliteStore
from session_core.testing.scripted import ScriptedProvider, ScriptItem, text, tool_calls
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.messages import ToolResultPart
from session_core.vocabulary.sessions import TurnOutcome
from tests.hostile._model import make_folder

SCRIPT: Final = Path(__file__).with_name("_zoo_extension.py")
HEALTHY: Final = "healthy"
PATIENCE: Final = 300
"""No test should take a fraction of this; what takes longer hangs."""
PACE: Final = ExtensionTimeouts(start=PATIENCE, stop=0.5, backoffs=(0.01,))
"""Nobody is given up for being slow, however busy this machine is ..."""
HANGING: Final = attrs.evolve(PACE, start=2)
"""... but those that will never answer the greeting: turns wait for them."""
SILENCES: Final = ("hang", "wrong_id", "no_stdin", "deaf_to_signals")
"""Ways of misbehaving after which the animal is there, and does not answer what it was asked."""


@attrs.frozen(kw_only=True)
class Animal:
    """An extension that misbehaves: `when`, and `how`; see the script.

    Attributes:
        env: Variables that tell the script more.
        more: Further lines of its manifest.
    """

    name: str
    when: str = "never"
    how: str = "well"
    env: Mapping[str, str] = attrs.field(factory=dict, hash=False)
    more: str = ""


@attrs.frozen(kw_only=True)
class Turn:
    """What came of a turn."""

    session_id: SessionId
    outcome: TurnOutcome
    results: tuple[ToolResultPart, ...]


class _Endless(ScriptedProvider):
    """Plays one answer again and again, and remembers no request."""

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncGenerator[AsyncIterator[ProviderEvent]]:
        """Play it."""
        [answer] = self._answers
        async with ScriptedProvider(answer).stream(request) as events:
            yield events


def _model(request: ModelRequest) -> Sequence[ScriptItem]:
    """Call the tools that the user names; turns side by side do not take each other's answers."""
    last = request.messages[-1]
    called = last.text.split() if last.role == "user" else []
    return tool_calls(*((name, {}) for name in called)) if called and called != ["nothing"] else text("all done")


class _WatchedStore(SqliteStore):
    def __init__(self, home: Path, on_event: Callable[[SessionEvent], None]) -> None:
        super().__init__(home)
        self._on_event = on_event

    def append(self, event: SessionEvent) -> None:
        self._on_event(event)
        super().append(event)


class Zoo:
    """The service, its extensions, and somebody who is watching."""

    def __init__(self, base: Path) -> None:
        self.base = base
        self.home = base / "home"
        self.root = base / "work"
        self.mark = new_id("zoo")
        self.provider = _Endless(_model)
        self.events: list[SessionEvent] = []
        self.service: SessionService
        self.host: ExtensionHost
        self.me: AttachedClient
        self.session_id: SessionId
        self.generation: int  # of the healthy one
        self.animals: dict[str, Animal] = {}
        self.most_dialogs = 0
        self.published = 0  # words on the bus

    # --- the animals --------------------------------------------------------------------------------------------------

    def house(self, animal: Animal) -> None:
        """Write an extension's folder, and agree to it."""
        folder = self.home / "extensions" / animal.name
        folder.mkdir(parents=True)
        self.notes(animal.name).mkdir(parents=True)
        args = ["-I", "-S", str(SCRIPT), animal.when, animal.how, str(self.notes(animal.name))]
        env = {"ZOO": self.mark, **animal.env}
        variables = "".join(f"{name} = {json.dumps(value)}\n" for name, value in env.items())
        patience = 500 if animal.how in SILENCES else 60_000
        self.animals[animal.name] = animal
        (folder / "extension.toml").write_text(
            f'name = "{animal.name}"\nversion = "1"\nhook_timeout_ms = {patience}\n{animal.more}\n'
            f"[run]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps(args)}\n[run.env]\n{variables}"
        )
        Consents(self.home / CONSENT_FILE).agree(animal.name, folder, digest_of(folder))

    def notes(self, name: str) -> Path:
        """The folder in which an animal leaves notes."""
        return self.base / "notes" / name

    def extension(self, name: str) -> HostedExtension:
        """An animal as the host sees it."""
        return self.host.extension(name)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait for something that a process does, of which nobody tells us."""
        while not holds():  # noqa: ASYNC110 - see above
            await trio.sleep(0.005)

    # --- using them ---------------------------------------------------------------------------------------------------

    async def do(self, animal: str, **what: Any) -> str:
        """Have an animal do something by its command, in the session."""
        reply = await self.me.run_command(self.session_id, "do", json.dumps(what), extension=animal)
        return reply.content

    async def ask(self, animal: str, method: str, **params: Any) -> dict[str, Any]:
        """Have an animal ask the host something while its command runs, and return what it was answered."""
        said = await self.do(animal, do="ask", method=method, params=params)
        answer: dict[str, Any] = json.loads(said)
        return answer

    async def refusal(self, animal: str, method: str, **params: Any) -> int:
        """The same, and return the code of the error that it gets; 0 if it gets none."""
        answer = await self.ask(animal, method, **params)
        return int(answer["error"]["code"]) if "error" in answer else 0

    async def begin_turn(self, *tools: str) -> SessionId:
        """Begin a turn in a session of its own, in which the model calls these tools at once."""
        session_id = (await self.service.create_session(permission_mode="full")).session_id
        await self.service.send_user_message(session_id, " ".join(tools) or "nothing")
        return session_id

    async def end_turn(self, session_id: SessionId) -> Turn:
        """Wait for the end of a turn."""
        outcome = (await self.service.wait_for_turn(session_id)).outcome
        results = [
            each.event.result
            for each in self.events
            if each.session_id == session_id and isinstance(each.event, ev.ToolCallFinished)
        ]
        return Turn(session_id=session_id, outcome=outcome, results=tuple(results))

    async def turn(self, *tools: str) -> Turn:
        """Have a whole turn."""
        return await self.end_turn(await self.begin_turn(*tools))

    async def check_all_is_well(self) -> None:
        """A turn is made, with a tool of the healthy extension, and its command works."""
        turn = await self.turn(f"{HEALTHY}.echo")
        assert (turn.outcome.status, turn.outcome.final_text) == ("completed", "all done"), turn
        assert [(result.status, result.text) for result in turn.results] == [("success", "from echo")], turn
        assert await self.do(HEALTHY) == "done"
        assert self.extension(HEALTHY).generation == self.generation

    async def poke(self, animal: str, when: str) -> None:
        """Bring an animal to the point at which it misbehaves, and get out of it again.

        One that never answers is given up by whoever waits, once it is known that it was asked.
        """
        deed = self.notes(animal) / "deed"
        match when:
            case "command":
                await self._give_up_after(deed, lambda: self._command(animal))
            case "tool":
                session_id = await self.begin_turn(f"{animal}.echo", f"{HEALTHY}.echo")
                await self._give_up_after(
                    deed, lambda: self._wait(session_id), lambda: self.service.request_stop(session_id)
                )
                turn = await self.end_turn(session_id)
                assert turn.outcome.status in {"completed", "stopped"}, turn
                assert len(turn.results) == 2, turn
            case "event":
                await self.check_turn()
                await self.until(deed.exists)
            case _ if when.startswith("hook:"):
                await self.check_turn(f"{HEALTHY}.echo")
                await self.until(deed.exists)  # its hook was asked
            case "initialize":  # one that hangs may be given up before it gets so far
                await self.until(lambda: deed.exists() or self.extension(animal).state == "failed")
            case _:
                assert when in {"start", "shutdown"}, when

    async def check_turn(self, *tools: str) -> Turn:
        """A turn comes to its end."""
        turn = await self.turn(*tools)
        assert (turn.outcome.status, turn.outcome.final_text) == ("completed", "all done"), turn
        return turn

    async def _command(self, animal: str) -> None:
        with suppress(ExtensionFailed):
            await self.do(animal)

    async def _wait(self, session_id: SessionId) -> None:
        await self.service.wait_for_turn(session_id)

    async def _give_up_after(
        self, deed: Path, wait: Callable[[], Any], give_up: Callable[[], Any] | None = None
    ) -> None:
        async with trio.open_nursery() as nursery:

            async def waiting() -> None:
                await wait()
                nursery.cancel_scope.cancel()

            nursery.start_soon(waiting)
            await self.until(deed.exists)
            await trio.sleep(0.2)  # who is going to answer has answered
            if give_up is not None:
                await give_up()
            nursery.cancel_scope.cancel()

    # --- what must hold -----------------------------------------------------------------------------------------------

    def processes(self) -> list[str]:
        """All processes of all animals; zombies left out."""
        found = []
        mark = f"ZOO={self.mark}".encode()
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                    found.append(f"{entry.name} {(entry / 'cmdline').read_bytes()!r}")
            except OSError:  # it has just ended, or is none of ours
                continue
        return found


def descriptors() -> dict[str, int]:
    """What our descriptors lead to, and how many of each."""
    found: dict[str, int] = {}
    for entry in Path("/proc/self/fd").iterdir():
        try:
            kind = str(entry.readlink()).partition(":[")[0]
        except OSError:  # the one by which we look
            continue
        found[kind] = found.get(kind, 0) + 1
    return found


def resident_bytes() -> int:
    """How much memory we have now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


class Meter:
    """The most memory that we have had more than at first."""

    def __init__(self) -> None:
        self._before = resident_bytes()
        self.most = 0

    def look(self) -> None:
        """Look at it now."""
        self.most = max(self.most, resident_bytes() - self._before)


@asynccontextmanager
async def open_zoo(
    *animals: Animal, pace: ExtensionTimeouts = PACE, healthy_env: Mapping[str, str] | None = None
) -> AsyncGenerator[Zoo]:
    """Open a service with these animals and a healthy extension; at the end, prove that nothing is left of any."""
    base = make_folder(new_id("zoo"))
    zoo = Zoo(base)
    try:
        zoo.root.mkdir()
        zoo.home.mkdir(mode=0o700)
        for animal in (*animals, Animal(name=HEALTHY, env=healthy_env or {})):
            zoo.house(animal)
        before = descriptors()
        with trio.fail_after(PATIENCE):
            async with _open_service(zoo, pace) as zoo.service:
                begin = {HEALTHY, *(each.name for each in animals if each.when not in {"start", "initialize"})}
                await zoo.until(lambda: begin <= {each.name for each in zoo.host.extensions if each.running})
                zoo.generation = zoo.extension(HEALTHY).generation
                yield zoo
        assert not zoo.processes()
        assert descriptors() == before
    finally:
        shutil.rmtree(base, ignore_errors=True)


@asynccontextmanager
async def _open_service(zoo: Zoo, pace: ExtensionTimeouts) -> AsyncGenerator[SessionService]:
    environ = {**os.environ, "HOME": str(zoo.base)}
    environ.pop("SMOOTH_HOME", None)
    place = AgentEnvironment(home=zoo.home, folder=str(zoo.root), environ=environ)
    store = _WatchedStore(zoo.home, zoo.events.append)
    async with open_setup(place, store=store) as setup:
        host = setup.extensions.own
        assert host is not None
        zoo.host = host
        begin, publish = host._begin, host.publish

        async def paced(found: DiscoveredExtension) -> HostedExtension:
            animal = zoo.animals[found.name]
            hangs = animal.when in {"start", "initialize"} and animal.how in SILENCES
            host.config = attrs.evolve(host.config, pace=HANGING if hangs else pace)
            return await begin(found)

        def counted(extension: str, topic: str, payload: Mapping[str, Any]) -> None:
            zoo.published += 1
            publish(extension, topic, payload)

        host._begin, host.publish = paced, counted  # type: ignore[method-assign]
        config = attrs.evolve(
            setup.service,
            models=JoinedMapping({"scripted": zoo.provider}, host.models.providers),
            default_model="scripted",
        )
        async with open_session_service(config) as service:
            zoo.session_id = (await service.create_session(permission_mode="full")).session_id
            with service.attach("visitor", ui={"confirm", "input", "select", "notify"}) as zoo.me:
                yield service
