"""One service for sessions of many folders. Real files, real threads, real MCP servers."""

from pathlib import Path
from typing import cast

import attrs
import pytest
import trio

from session_core.agent.folder_settings import FolderUnusable
from session_core.agent.hooks import HookName
from session_core.assembly.folders.extensions import ServiceExtensions
from session_core.assembly.folders.files import read_user_settings
from session_core.assembly.folders.registry import open_folders
from session_core.assembly.surroundings import AgentEnvironment
from session_core.ids import SessionId
from session_core.limits import MAX_OPEN_FOLDERS
from session_core.sandbox.trust import TrustStore
from session_core.sep.host.calls.contexts import Contexts
from session_core.sep.host.host import ExtensionHost
from session_core.storage.sqlite import SqliteStore
from session_core.stream.subscription import Subscription
from session_core.testing.scripted import Hang, Pause, ScriptedTool, text, tool_call, tool_calls
from session_core.vocabulary.events import ApprovalRequested, ConfigurationChanged
from session_core.vocabulary.sessions import Approval
from tests.session_core.config._documents import write_project, write_user
from tests.session_core.mcp._harness import gone
from tests.session_core.service._folders import deny, folder, served, told_of
from tests.session_core.service._helpers import new_session, say, until

LOOK = tool_call("list", {"path": "."})
DONE = text("done")


def place_of(top: Path) -> AgentEnvironment:
    """A home that serves many folders."""
    return AgentEnvironment(home=top / "home", folder=str(top), environ={"HOME": str(top)}, is_persistent=False)


def pid_in(path: str, name: str) -> int:
    """The process of a server of a folder."""
    return int((Path(path) / f"{name}.pid").read_text())


async def test_each_session_obeys_its_own_folder(tmp_path: Path) -> None:
    """Rules, limits and MCP servers of a folder are those of its sessions and of nobody else's; all servers end."""
    left = folder(tmp_path, "left", deny("list") + "[limits]\nsteps = 7\n", servers=("one",))
    right = folder(tmp_path, "right", deny("mcp__two__crash"), servers=("two",))
    calls = (LOOK, tool_call("mcp__one__tick"), tool_call("mcp__two__tick"), tool_call("mcp__two__crash"), DONE)
    async with served(tmp_path, *calls, *calls) as world:
        sessions = [await new_session(world.service, cwd=each, permission_mode="full") for each in (left, right)]
        for each in sessions:
            await say(world.service, each)
        steps = [(await world.service.load_session(each)).settings.limits.steps for each in sessions]
        statuses = [await world.statuses(each) for each in sessions]
        processes = [pid_in(left, "one"), pid_in(right, "two")]
        assert 2 == len(world.folders._pool._open)
        seen = world.tools_seen()

    assert [7, 200] == steps
    assert [["denied", "success", "error", "error"], ["success", "error", "success", "denied"]] == statuses
    assert ("mcp__one__tick" in seen[0], "mcp__two__tick" in seen[0]) == (True, False)
    for process in processes:
        await gone(process)


async def test_a_changed_file_counts_for_its_folder_only(tmp_path: Path) -> None:
    """A rule that one folder adds decides about the next call there, within a turn too, and about no call elsewhere."""
    left, right = folder(tmp_path, "left", ""), folder(tmp_path, "right", "")
    async with served(tmp_path, LOOK, (Pause("here"), *LOOK), DONE, LOOK, DONE) as world:
        service = world.service
        sessions = [await new_session(service, cwd=each) for each in (left, right)]
        async with service.subscribe() as events:
            await service.send_user_message(sessions[0], "go")
            await world.model.wait_for_pause("here")
            await world.trusts("left", deny("list"))
            told = await told_of(events, left)
            world.model.release("here")
            await service.wait_for_turn(sessions[0])
        await say(service, sessions[1])
        statuses = [await world.statuses(each) for each in sessions]

    assert ("permissions",) == told.changed
    assert [["success", "denied"], ["success"]] == statuses


async def test_a_session_that_goes_elsewhere_obeys_the_folder_there(tmp_path: Path) -> None:
    """After a change of the working directory, in a turn or between two, the next call obeys the new folder."""
    left, right = folder(tmp_path, "left", ""), folder(tmp_path, "right", deny("list"))
    async with served(tmp_path, LOOK, (Pause("here"), *LOOK), DONE, LOOK, DONE) as world:
        service = world.service
        session = await new_session(service, cwd=left)
        await service.send_user_message(session, "go")
        await world.model.wait_for_pause("here")
        await service.change_working_directory(session, right)
        world.model.release("here")
        await service.wait_for_turn(session)
        await service.change_working_directory(session, left)
        await say(service, session)
        assert ["success", "denied", "success"] == await world.statuses(session)


async def test_a_call_is_run_where_it_was_judged(tmp_path: Path) -> None:
    """A call that was let through in one folder does not run in another that the session has gone to meanwhile."""
    left, right = folder(tmp_path, "left", ""), folder(tmp_path, "right", deny("second"))
    first, second = ScriptedTool("first", effects=("write",)), ScriptedTool("second")
    both = tool_calls(("second", {}), ("first", {}))  # what only reads waits until the other one is known
    async with served(tmp_path, both, DONE, tools=(first, second)) as world:
        service = world.service
        session = await new_session(service, cwd=left)
        async with service.subscribe(session) as events:
            await service.send_user_message(session, "go")
            approval = await asked(events)
        await service.change_working_directory(session, right)
        await service.answer_approval(session, approval.request_id, "allow_once")
        await service.wait_for_turn(session)
        texts = [each.text for each in await world.results(session)]

    assert ([], []) == (first.calls, second.calls)
    assert all(each.startswith("Something has changed") for each in texts)
    assert 2 == len(texts)


async def asked(events: Subscription) -> Approval:
    """Wait until a person is asked."""
    while True:
        for each in await events.receive_batch():
            if isinstance(each.event, ApprovalRequested):
                return each.event.approval


async def test_a_broken_folder_lets_no_session_in(tmp_path: Path) -> None:
    """A wrong setting of a trusted folder refuses who comes, with the file and the line, until it is mended."""
    good, wrong = folder(tmp_path, "good", ""), folder(tmp_path, "wrong", "# hello\n[limits]\nsteps = 'many'\n")
    async with served(tmp_path) as world:
        session = await new_session(world.service, cwd=good)
        with pytest.raises(FolderUnusable) as created:
            await new_session(world.service, cwd=wrong)
        with pytest.raises(FolderUnusable) as moved:
            await world.service.change_working_directory(session, wrong)
        assert 1 == len((await world.service.list_sessions()).sessions)
        await world.trusts("wrong", "# hello\n[limits]\nsteps = 3\n")
        mended = (await world.service.load_session(await new_session(world.service, cwd=wrong))).settings

    for refused in (created.value, moved.value):
        assert f"{wrong}/.session-core/config.toml, line 3: limits.steps: " in refused.message
        assert ("cwd", "invalid_input") == (refused.field, refused.code)
    assert 3 == mended.limits.steps


async def test_a_session_in_a_broken_folder_does_nothing(tmp_path: Path) -> None:
    """A folder that has become wrong while no service ran ends the turns of its sessions with a clear error."""
    path = folder(tmp_path, "left", deny("list"))
    store = tmp_path / "store"
    async with served(tmp_path, store=SqliteStore(store)) as world:
        session = await new_session(world.service, cwd=path)
    folder(tmp_path, "left", "permissions = 1\n")
    async with served(tmp_path, LOOK, store=SqliteStore(store)) as world:
        outcome = await say(world.service, session)
        with pytest.raises(FolderUnusable, match="line 1"):
            await world.service.fork_session(session)
        assert [] == world.model.requests
        folder(tmp_path, "left", deny("list"))
        mended = await say(world.service, session)
        statuses = await world.statuses(session)

    assert "failed" == outcome.status
    assert outcome.error is not None
    assert f"nothing can run here: {path}/.session-core/config.toml, line 1: permissions: " in outcome.error
    assert ("completed", ["denied"]) == (mended.status, statuses)


async def test_a_turn_after_a_restart_obeys_its_folder(tmp_path: Path) -> None:
    """A turn that a crash has interrupted, and one that a wake-up starts by itself, obey the rules of their folder."""
    path, store = folder(tmp_path, "left", deny("list")), tmp_path / "store"
    async with served(tmp_path, (Pause("here"), Hang()), store=SqliteStore(store), now=lambda: 1_000_000) as world:
        session, woken = [await new_session(world.service, cwd=path) for _ in range(2)]
        await world.service.schedule_wakeup(woken, 60_000, "wake up")
        await world.service.send_user_message(session, "go")
        await world.model.wait_for_pause("here")
    async with served(tmp_path, LOOK, DONE, LOOK, DONE, store=SqliteStore(store), now=lambda: 2_000_000) as world:
        await until(lambda: len(world.model.requests) == 2)
        await world.service.wait_for_turn(woken)
        await world.service.resume_session(session)
        await world.service.wait_for_turn(session)
        assert [["denied"], ["denied"]] == [await world.statuses(each) for each in (woken, session)]


@pytest.mark.slow
async def test_many_folders_leave_few_open(tmp_path: Path) -> None:
    """Two hundred folders are served at once, each as it wants, and a bounded number of them stays open."""
    wanted = {str(tmp_path / f"f{number}"): 200 if number % 10 else number + 1 for number in range(200)}
    for path, most in wanted.items():
        folder(tmp_path, path, f"[limits]\nsteps = {most}\n" if most < 200 else None, trusted=most < 200)
    steps: dict[str, int | None] = {}
    async with served(tmp_path) as world:

        async def use(path: str) -> None:
            session = await new_session(world.service, cwd=path)
            steps[path] = (await world.service.load_session(session)).settings.limits.steps

        async with trio.open_nursery() as nursery:
            for path in wanted:
                nursery.start_soon(use, path)
        assert wanted == steps
        assert MAX_OPEN_FOLDERS == len(world.folders._open)


async def test_folders_that_nobody_uses_are_closed_with_their_servers(tmp_path: Path) -> None:
    """The folder used longest ago is closed when there are too many, never one in use, and its server ends with it."""
    one, two = [folder(tmp_path, name, "", servers=(name,)) for name in ("one", "two")]
    place = place_of(tmp_path)
    base = read_user_settings(place, {})
    with trio.fail_after(300):
        async with open_folders(place, base, {}, most=1) as folders:
            release = await folders.hold(one)
            (await folders.hold(two))()
            assert (2, 2) == (len(folders._open), len(folders._pool._open))
            release()
            release()  # once is enough
            await gone(pid_in(two, "two"))
            assert (1, 1, None) == (len(folders._open), len(folders._pool._open), folders.get_known(two))
            names = {each.spec.name for each in (await folders.load(one)).tools()}
        await gone(pid_in(one, "one"))

    assert "mcp__one__tick" in names


async def test_nobody_shakes_off_what_a_closed_folder_forbids(tmp_path: Path) -> None:
    """What a trusted folder forbids stays forbidden when its file changes while the folder is not even followed."""
    left, right = folder(tmp_path, "left", deny("list")), folder(tmp_path, "right", "")
    place = place_of(tmp_path)
    base = read_user_settings(place, {})
    with trio.fail_after(300):
        async with open_folders(place, base, {}, most=1) as folders:
            forbidden = (await folders.load(left)).rules
            await folders.load(right)
            assert folders.get_known(left) is None
            write_project(Path(left), "")
            assert forbidden == (await folders.load(left)).rules
            await folders.load(right)
            folder(tmp_path, "left", "")
            assert () == (await folders.load(left)).rules


async def test_trust_that_is_gone_takes_servers_and_leaves_rules(tmp_path: Path) -> None:
    """Without trust a folder's servers are gone from the next turn on, and what it forbids stays forbidden."""
    path = folder(tmp_path, "left", deny("list"), servers=("one",))
    async with served(tmp_path, LOOK, DONE, LOOK, DONE) as world:
        session = await new_session(world.service, cwd=path)
        await say(world.service, session)
        process = pid_in(path, "one")
        TrustStore(tmp_path / "home").distrust(path)
        async with world.service.subscribe() as events:
            await say(world.service, session)
            told = await told_of(events, path)
        await gone(process)
        seen, statuses = world.tools_seen(), await world.statuses(session)

    assert "until it is trusted again" in told.problems[0]
    assert [True, True, False, False] == ["mcp__one__tick" in each for each in seen]
    assert ["denied", "denied"] == statuses


async def test_people_are_told_what_does_not_count(tmp_path: Path) -> None:
    """Whoever follows the service learns that a folder is not trusted, or has an extension that cannot be used."""
    untrusted, trusted = tmp_path / "left", tmp_path / "right"
    write_project(untrusted, deny("list"))
    (trusted / ".session-core" / "extensions" / "mine").mkdir(parents=True)
    folder(tmp_path, "right")
    async with served(tmp_path, LOOK, DONE) as world:
        async with world.service.subscribe() as events:
            session = await new_session(world.service, cwd=str(untrusted))
            first = await told_of(events, str(untrusted))
            await new_session(world.service, cwd=str(trusted))
            second = await told_of(events, str(trusted))
        await say(world.service, session)
        assert first.warnings == world.folders.remarks(str(untrusted))
        assert ["success"] == await world.statuses(session)

    assert "this folder is not trusted" in first.warnings[0]
    assert ConfigurationChanged(folder=str(trusted), warnings=second.warnings) == second
    assert "of this folder is not used" in second.warnings[0]


async def test_the_users_own_rules_count_everywhere(tmp_path: Path) -> None:
    """A rule that the user adds counts in all folders, in one whose own files are not those that were trusted too."""
    left, right = folder(tmp_path, "left", deny("glob")), folder(tmp_path, "right", "")
    async with served(tmp_path, LOOK, DONE, LOOK, DONE) as world:
        sessions = [await new_session(world.service, cwd=each) for each in (left, right)]
        write_project(Path(left), "")
        async with world.service.subscribe() as events:
            write_user(tmp_path / "home", deny("list"))
            while True:
                batch = [each.event for each in await events.receive_batch()]
                if ConfigurationChanged(changed=("permissions",)) in batch:
                    break
        for each in sessions:
            await say(world.service, each)
        assert [["denied"], ["denied"]] == [await world.statuses(each) for each in sessions]


async def test_tools_that_a_folder_switches_off(tmp_path: Path) -> None:
    """A tool that one folder has switched off is neither shown to models there nor run, and is there elsewhere."""
    left, right = folder(tmp_path, "left", '[tools]\ndisabled = ["list"]\n'), folder(tmp_path, "right", "")
    async with served(tmp_path, LOOK, DONE, LOOK, DONE) as world:
        sessions = [await new_session(world.service, cwd=each) for each in (left, right)]
        for each in sessions:
            await say(world.service, each)
        seen = world.tools_seen()
        statuses = [await world.statuses(each) for each in sessions]

    assert [False, False, True, True] == ["list" in each for each in seen]
    assert [["error"], ["success"]] == statuses


async def test_a_folder_has_many_names(tmp_path: Path) -> None:
    """A link to a folder is that folder, and from the next turn on another one when it leads elsewhere."""
    left, right = folder(tmp_path, "left", deny("list")), folder(tmp_path, "right", "")
    link = tmp_path / "link"
    link.symlink_to(left)
    async with served(tmp_path, LOOK, DONE, LOOK, DONE) as world:
        session = await new_session(world.service, cwd=str(link))
        await new_session(world.service, cwd=left)
        assert 1 == len(world.folders._open)
        await say(world.service, session)
        other = tmp_path / "other"
        other.symlink_to(right)
        other.replace(link)
        await say(world.service, session)
        assert ["denied", "success"] == await world.statuses(session)


async def test_a_folder_may_do_without_extensions(tmp_path: Path) -> None:
    """Extensions are not asked about sessions of a folder that has switched them off, and about all others."""
    left, right = folder(tmp_path, "left", "[extensions]\nuse = false\n"), folder(tmp_path, "right", "")
    asked_about: list[SessionId] = []

    class Asking:
        def __init__(self) -> None:
            self.settled = trio.Event()
            self.settled.set()
            self.contexts = Contexts()

        def handles(self, hook: HookName) -> bool:
            return hook == "input"

        def participants(self, session_id: SessionId) -> tuple[()]:
            asked_about.append(session_id)
            return ()

    async with served(tmp_path, DONE, DONE) as world:
        sessions = [await new_session(world.service, cwd=each) for each in (left, right)]
        hooks = ServiceExtensions(cast("ExtensionHost", Asking()), world.folders)
        world.service.change_defaults(lambda config: attrs.evolve(config, hooks=hooks))
        for each in sessions:
            await say(world.service, each)

    assert sessions[1:] == asked_about
