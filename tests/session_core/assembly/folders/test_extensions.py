"""Extensions that come with projects, in one service for many folders. Real processes, real files."""

import sys
from pathlib import Path

import pytest
import trio
import trio.testing

from session_core.agent.folder_settings import FolderUnusable
from session_core.assembly.folders import extension_hosts
from session_core.assembly.folders.extensions import ServiceExtensions
from session_core.assembly.folders.registry import Folders, OpenFolder
from session_core.errors import Conflict, NotFound
from session_core.ids import TurnId
from session_core.sandbox.trust import TrustStore
from session_core.sep.host.host import ExtensionHost
from session_core.service.extension_bridge import delegate
from session_core.service.service import SessionService
from session_core.storage.memory import MemoryStore
from session_core.storage.sqlite import SqliteStore
from session_core.testing.scripted import text, tool_call
from session_core.vocabulary.events import ExtensionRemoved, TurnStarted, WorkingDirectoryChanged
from tests.session_core.mcp._harness import gone
from tests.session_core.sep._children import SCRIPTS
from tests.session_core.service._folder_extensions import MANIFEST, Place, first_answer, ready, removed, served
from tests.session_core.service._folders import folder
from tests.session_core.service._helpers import until

TOOL = {"name": "greet", "description": "Says hello.", "parameters": {"type": "object"}}
LATER = {"name": "find", "description": "Finds birds.", "parameters": {"type": "object"}, "deferred": True}
DONE = text("done")
EVERYTHING = {"tools": [TOOL], "hooks": ["input", "tool_call"], "subscriptions": ["turn_end", "session_shutdown"]}


async def test_each_folder_has_its_own(tmp_path: Path) -> None:
    """Commands, tools and processes of two projects' extensions of one name are those of the sessions there alone."""
    place = Place(tmp_path)
    left, right = (place.project(name, "gate", registrations=EVERYTHING) for name in ("left", "right"))
    plain = folder(tmp_path, "plain")
    async with served(place, DONE, DONE, DONE) as world:
        sessions = [await world.session(each) for each in (left, right, plain)]
        commands = [await world.commands(each) for each in (*sessions, None)]
        pids = [await world.pid(each) for each in sessions[:2]]
        in_folders = [(await world.service.list_commands(cwd=each)).commands for each in (left.path, plain)]
        with pytest.raises(NotFound, match="there is no command 'pid'"):
            await world.pid(sessions[2])
        for each in sessions:
            await world.turn(each)
        offered = [sum("greet" in tool.name for tool in each.tools) for each in world.model.requests]
        listed, shown = (await world.service.list_extensions()).extensions, await world.shown()

    both = [("gate", "do"), ("gate", "pid")]
    assert [both, both, [], []] == commands
    assert ["gate", None] == [each[0].extension if each else None for each in in_folders]
    assert 2 == len(set(pids))
    assert [1, 1, 0] == offered
    assert [("gate", "project", left.path), ("gate", "project", right.path)] == [
        (each.name, each.scope, each.folder) for each in listed
    ]
    # Both were started at once, and the snapshot has them in the order in which they were first told of.
    assert listed == tuple(sorted(shown, key=lambda each: str(each.folder)))
    for pid in pids:
        await gone(pid)


async def test_nothing_is_heard_of_other_folders(tmp_path: Path) -> None:
    """Hooks are asked and events are told of sessions of the folder alone; the end of a deleted session is told."""
    place = Place(tmp_path)
    here = place.project("left", "gate", registrations=EVERYTHING)
    there = folder(tmp_path, "right")
    async with served(place, DONE, DONE, DONE) as world:
        mine, other, asking = [await world.session(each) for each in (here, there, here)]
        await world.commands(asking)
        for each in (other, mine):
            await world.turn(each, "hello")
        for each in (other, mine):
            await world.service.delete_session(each)
        told: list[tuple[str, str]] = []
        while ("session_shutdown", mine) not in told:
            events = await world.heard(asking, "event")
            told = [(each["event"], each["payload"]["session_id"]) for each in events]
        asked = [each["input"]["session_id"] for each in await world.heard(asking, "hook")]

    assert [("turn_end", mine), ("session_shutdown", mine)] == told
    assert [mine] == asked


async def test_a_session_that_goes_elsewhere_is_lost_to_them(tmp_path: Path) -> None:
    """An extension that is just doing something in a session cannot touch it any more once it works elsewhere."""
    place = Place(tmp_path)
    here, there = place.project("left", "gate"), folder(tmp_path, "right")
    async with served(place) as world:
        session = await world.session(here)
        answers: list[object] = []

        async def act() -> None:
            say = ["session/send_message", {"context": "$context", "text": "hi"}]
            show = ["ui/request", {"context": "$context", "kind": "set_status", "status": "here"}]
            state = ["session/state", {"context": "$context"}]
            wait = ["wait", {"note": "gone"}]
            answers.extend(await world.asks(session, say, ["note", {"note": "said"}], wait, say, show, state))

        with world.service.attach("people", ui={"set_status"}):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(act)
                await until((place.home.notes / "said").exists)
                await world.service.change_working_directory(session, there)
                (place.home.notes / "gone").touch()
        messages = (await world.service.load_session(session)).transcript

    first, *others = answers
    assert {"result": {}} == first
    assert 1 == len(messages)
    for each in others:
        assert isinstance(each, dict)
        assert (-32000, "forbidden") == (each["error"]["code"], each["error"]["data"]["code"])
        assert "works in another folder" in each["error"]["message"]


async def test_they_go_when_trust_or_consent_is_gone(tmp_path: Path) -> None:
    """Without trust or consent a folder's extensions end, with what they show; with both again they are back."""
    place = Place(tmp_path)
    here = place.project("left", "gate")
    async with served(place) as world:
        session = await world.session(here)
        with world.service.attach("people", ui={"set_status"}):
            await world.asks(session, ["ui/request", {"context": "$context", "kind": "set_status", "status": "here"}])
        shown = [(await world.service.load_session(session)).displays]
        first = await world.pid(session)
        async with world.service.subscribe() as events:
            await trio.to_thread.run_sync(lambda: place.home.consents.withdraw("gate", here.extension))
            gone_by_consent = await removed(events)
        shown.append((await world.service.load_session(session)).displays)
        await gone(first)
        assert ([], ()) == (await world.commands(session), await world.shown())

        await trio.to_thread.run_sync(lambda: place.home.agree("gate", here.extension))
        second = await world.pid(session)
        async with world.service.subscribe() as events:
            await trio.to_thread.run_sync(lambda: TrustStore(place.home.path).distrust(here.path))
            gone_by_trust = await removed(events)
        await gone(second)
        assert [] == await world.commands(session)

    assert [1, 0] == [len(each) for each in shown]
    assert gone_by_consent == gone_by_trust == ExtensionRemoved(name="gate", folder=here.path)


async def test_they_go_when_nobody_has_used_the_folder_for_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that is closed takes its extensions with it, and they are started again when it is used again."""
    place = Place(tmp_path)
    here, there = place.project("left", "gate"), folder(tmp_path, "right")
    async with served(place) as world:
        monkeypatch.setattr(world.folders, "_most", 1)
        session = await world.session(here)
        first = await world.pid(session)
        async with world.service.subscribe() as events:
            await world.session(there)
            await removed(events)
        await gone(first)
        assert first != await world.pid(session)


async def test_one_of_the_project_takes_the_place_of_the_users_own(tmp_path: Path) -> None:
    """Of two with one name, sessions of the project have that of the project alone, and all others the user's."""
    place = Place(tmp_path)
    place.home.install("gate", registrations=EVERYTHING)
    place.home.install("more", registrations={**EVERYTHING, "tools": [TOOL, LATER]})
    here = place.project("left", "gate", registrations={**EVERYTHING, "tools": [TOOL, LATER]})
    there = folder(tmp_path, "right")
    search = tool_call("tool_search", {"query": "birds"})
    async with served(place, search, DONE, DONE) as world:
        mine, other = await world.session(here), await world.session(there)
        host = world.service.core.config.extensions
        assert host is not None
        await until(lambda: ["ready"] * 3 == [each.state for each in host.list()])
        pids = [await world.pid(mine, "gate"), await world.pid(other, "gate")]
        commands = [[each for each, name in await world.commands(session) if name == "do"] for session in (mine, other)]
        await world.turn(mine)
        await world.turn(other)
        tools = [
            sorted(tool.name for tool in each.tools if "greet" in tool.name or "find" in tool.name)
            for each in world.model.requests
        ]
        asked = [await world.heard(other, "hook", "gate"), await world.heard(mine, "hook", "gate")]

    assert 2 == len(set(pids))
    assert [["more", "gate"], ["gate", "more"]] == commands
    found = ["gate.find", "gate.greet", "more.find", "more.greet"]
    assert [["gate.greet", "more.greet"], found, ["gate.greet", "more.greet"]] == tools
    assert [[other], [mine, mine]] == [[each["input"]["session_id"] for each in hooks] for hooks in asked]


async def test_models_of_a_folder(tmp_path: Path) -> None:
    """A model that a project brings is one for sessions there, from their beginning on, and for no others."""
    place = Place(tmp_path)
    here = place.put("left", "models", ["-I", "-S", str(SCRIPTS / "models.py")])
    there = folder(tmp_path, "right")
    async with served(place) as world:
        session = await world.session(here, model="words/echo")
        other = await world.session(there)
        for refused in (world.service.switch_model(other, "words/echo"), world.session(there, model="words/echo")):
            with pytest.raises(NotFound, match="there is no model called 'words/echo'"):
                await refused
        async with world.service.subscribe(session) as events:
            await world.service.send_user_message(session, "one two")
            answer = await first_answer(events)
        await world.service.request_stop(session)

    assert ("one two ", "words/echo") == (answer.text, answer.model)


async def test_a_stored_session_is_guarded_from_its_first_command_on(tmp_path: Path) -> None:
    """After a restart, the first message in a folder that nobody has read is shown to the hooks of its extensions."""
    place = Place(tmp_path)
    say_no = {"input": {"action": "block", "reason": "not today"}}
    here = place.project("left", "gate", registrations={"hooks": ["input"]}, hooks=say_no)
    store = tmp_path / "sessions.db"
    async with served(place, store=SqliteStore(store)) as world:
        session = await world.session(here)
    async with served(place, store=SqliteStore(store)) as world:
        with pytest.raises(Exception, match="gate: not today"):
            await world.service.send_user_message(session, "hello")


async def test_nobody_waits_for_one_that_does_not_start(tmp_path: Path) -> None:
    """A session begins, and others work, while the extension of a folder has not answered yet."""
    place = Place(tmp_path)
    here = place.project("left", "gate", wait_for=["nobody"])
    async with served(place, DONE) as world:
        other = await world.session(folder(tmp_path, "right"))
        session = await world.session(here)
        await until((place.home.notes / "gate of left-begun").exists)
        states = [each.state for each in await world.shown()]
        await world.service.rename_session(session, "still there")
        said = await world.turn(other)
        (place.home.notes / "nobody-begun").touch()
        assert await world.pid(session)
        (place.home.notes / "nobody-ended").touch()

    assert (["starting"], "done") == (states, said)


async def test_whoever_watches_a_session_has_them(tmp_path: Path) -> None:
    """Following a session of an earlier run starts the extensions of its folder, without any command there."""
    place = Place(tmp_path)
    here = place.project("left", "gate")
    store = tmp_path / "sessions.db"
    async with served(place, store=SqliteStore(store)) as world:
        session = await world.session(here)
    async with served(place, store=SqliteStore(store)) as world:
        async with world.service.subscribe() as events, world.service.follow(session):
            extension = await ready(events)

    assert ("gate", here.path) == (extension.name, extension.folder)


async def test_which_one_is_reloaded(tmp_path: Path) -> None:
    """Of several folders' extensions of one name the folder says which is meant; a single one needs no folder."""
    place = Place(tmp_path)
    left, right = place.project("left", "gate"), place.project("right", "gate")
    place.project("right", "only")
    place.home.agree("gate", right.extension)
    async with served(place) as world:
        sessions = [await world.session(each) for each in (left, right)]
        before = [await world.pid(each, "gate") for each in sessions]
        with pytest.raises(Conflict, match="several folders have an extension 'gate'"):
            await world.service.reload_extension("gate")
        with pytest.raises(NotFound, match="no extension 'gate' in use that serves '/nowhere' alone"):
            await world.service.reload_extension("gate", folder="/nowhere")
        await world.service.reload_extension("gate", folder=right.path)
        await world.service.reload_extension("only")
        after = [await world.pid(each, "gate") for each in sessions]

    assert [True, False] == [one == other for one, other in zip(before, after, strict=True)]


@pytest.mark.parametrize("again_s", [0.0, 1_000.0])
async def test_those_that_were_lost_begin_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again_s: float) -> None:
    """When what runs a folder's extensions fails, others begin at the next look, but not right after the failure."""
    place = Place(tmp_path)
    here = place.project("left", "gate")
    lose, real = trio.Event(), delegate.run_host

    async def run_host(host: ExtensionHost, service: SessionService) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(real, host, service)
            if not lose.is_set():
                await lose.wait()
                raise ZeroDivisionError

    monkeypatch.setattr(delegate, "run_host", run_host)
    monkeypatch.setattr(extension_hosts, "_AGAIN_S", again_s)
    async with served(place) as world:
        session = await world.session(here)
        first = await world.pid(session)
        async with world.service.subscribe() as events:
            lose.set()
            assert "gate" == (await removed(events)).name
        commands = await world.commands(session)
        if again_s:
            assert [] == commands
        else:
            assert [("gate", "do"), ("gate", "pid")] == commands
            assert first != await world.pid(session)


async def test_own_extensions_work_where_the_settings_are_wrong(tmp_path: Path) -> None:
    """A command of the user's own extension that is listed can be run, also where the folder cannot be used."""
    place = Place(tmp_path)
    args = ["-I", "-S", str(SCRIPTS / "obedient.py"), '{"identity": "mine"}', str(place.home.notes)]
    place.home.agree("mine", place.home.put("mine", sys.executable, args, manifest=MANIFEST))
    here = folder(tmp_path, "left")
    store = tmp_path / "sessions.db"
    async with served(place, store=SqliteStore(store)) as world:
        session = await world.session(here)
    async with served(place, store=SqliteStore(store)) as world:
        own = world.service.core.config.extensions
        assert isinstance(own, ServiceExtensions)
        assert own.own is not None
        await own.own.settled.wait()
        (place.home.path / "config.toml").write_text("= wrong", encoding="utf-8")
        with pytest.raises(FolderUnusable):
            await world.folders.load(here)
        assert [("mine", "do"), ("mine", "pid")] == await world.commands(session)
        assert await world.pid(session)


async def test_what_happened_before_a_session_left_is_told_where_it_happened(tmp_path: Path) -> None:
    """Events are for the folder that a session worked in when they happened, however late they are read."""
    place = Place(tmp_path)
    heard_of = {"subscriptions": ["turn_start", "session_shutdown"]}
    left, right = (place.project(name, "gate", registrations=heard_of) for name in ("left", "right"))
    async with served(place, store=MemoryStore()) as world:
        moved, deleted, asking = [await world.session(left) for _ in range(3)]
        asking_there = await world.session(right)
        for each in (asking, asking_there):
            await world.commands(each)
        core = world.service.core
        for each in (moved, deleted):  # in one step: nobody can read in between
            core.session(each).record(TurnStarted(turn_id=TurnId("turn_1")))
        core.session(moved).record(WorkingDirectoryChanged(cwd=right.path))
        core.remove_session(core.session(deleted), None)
        core.session(asking_there).record(TurnStarted(turn_id=TurnId("turn_2")))
        told: list[list[tuple[str, str]]] = [[], []]
        while ("session_shutdown", deleted) not in told[0] or not told[1]:
            for number, each in enumerate((asking, asking_there)):
                events = await world.heard(each, "event")
                told[number] = [(event["event"], event["payload"]["session_id"]) for event in events]

    at_home = [("turn_start", moved), ("turn_start", deleted), ("session_shutdown", deleted)]
    assert [at_home, [("turn_start", asking_there)]] == told


async def test_a_folder_lists_its_own_models_alone(tmp_path: Path) -> None:
    """Where two projects bring a provider of the same name, each folder shows what its own one says of it."""
    place = Place(tmp_path)
    for name in ("left", "right"):
        models = [{"id": "echo", "display_name": f"Echo of {name}"}]
        place.project(name, "models", registrations={"providers": [{"name": "words", "models": models}]})
    async with served(place) as world:
        shown = []
        for name in ("left", "right"):
            cwd = str(tmp_path / name)
            await world.commands(await world.session(cwd))  # by then they have started
            listed = (await world.service.list_models(cwd=cwd)).models
            shown += [each.title for each in listed if each.provider == "words"]

    assert ["Echo of left", "Echo of right"] == shown


async def test_a_fault_in_reading_a_folder_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """When a folder that somebody looks at cannot be read by a fault of ours, the service goes on."""
    asked: list[str] = []

    async def fails(_folders: Folders, cwd: str) -> OpenFolder:
        asked.append(cwd)
        raise ZeroDivisionError

    async with served(Place(tmp_path)) as world:
        session = await world.session(folder(tmp_path, "left"))
        monkeypatch.setattr(Folders, "load", fails)
        world.folders.visit("/elsewhere")
        await until(lambda: asked)
        await trio.testing.wait_all_tasks_blocked()
        await world.service.rename_session(session, "still there")


async def test_nothing_begins_when_all_is_over(tmp_path: Path) -> None:
    """Looking at a session whose folder nobody has read begins nothing once the folders are closed."""
    async with served(Place(tmp_path)) as world:
        await world.session(folder(tmp_path, "left"))
    before = len(world.folders._open)
    world.folders.visit(str(tmp_path))
    await trio.testing.wait_all_tasks_blocked()
    assert before == len(world.folders._open)
