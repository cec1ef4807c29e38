"""Changes of the configuration while a service runs. Real files, real threads."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
import trio.testing

from session_core.agent.hooks import NO_HOOKS
from session_core.assembly.config_reload import follow_config, log_change
from session_core.assembly.folders import files
from session_core.assembly.folders.files import SettingsReader
from session_core.assembly.setup import AgentEnvironment, open_setup
from session_core.config.load import load_config
from session_core.config.problems import ConfigInvalid
from session_core.config.values import Config
from session_core.config.watch import ConfigChange
from session_core.sandbox.trust import TrustStore, take_fingerprint
from session_core.sandbox.workspace import Workspace
from session_core.service.config import ServiceConfig
from session_core.service.service import SessionService, open_session_service
from session_core.storage.memory import MemoryStore
from session_core.stream.subscription import Subscription
from session_core.testing.scripted import ScriptedProvider, text, tool_call
from session_core.vocabulary.events import ConfigurationChanged
from session_core.vocabulary.messages import Message, ToolResultPart
from session_core.vocabulary.sessions import TurnLimits
from tests.session_core.config._documents import write_project, write_user
from tests.session_core.service._folders import told_of
from tests.session_core.service._helpers import new_session, say


@attrs.frozen
class World:
    """A service that follows its configuration, and what it tells about it."""

    folder: Path
    service: SessionService
    model: ScriptedProvider
    told: trio.MemoryReceiveChannel[ConfigChange]

    async def write(self, settings: str) -> ConfigChange:
        """Change the user's file and wait until that is told."""
        # In one step: half a file would be a change of its own.
        write_user(self.folder / "new", settings).replace(self.folder / "home" / "config.toml")
        return await self.told.receive()


def trust(tmp_path: Path) -> None:
    """Trust the project as it is."""
    project = str(tmp_path / "project")
    TrustStore(tmp_path / "home").trust(project, take_fingerprint(Workspace(project)))


def statuses(messages: tuple[Message, ...]) -> list[str]:
    """How the tool calls of a conversation ended."""
    return [part.status for message in messages for part in message.parts if isinstance(part, ToolResultPart)]


async def next_told(events: Subscription) -> ConfigurationChanged:
    """Wait until everybody is told of a change of the user's file."""
    while True:
        for each in await events.receive_batch():
            if isinstance(each.event, ConfigurationChanged) and each.event.folder is None:
                return each.event


@asynccontextmanager
async def followed(tmp_path: Path, *answers: tuple[object, ...]) -> AsyncGenerator[World]:
    """Open a service in `project` with the home `home`, and follow the files."""
    for each in ("home", "project"):
        (tmp_path / each).mkdir(exist_ok=True)
    model = ScriptedProvider(*answers)  # type: ignore[arg-type]
    place = AgentEnvironment(
        home=tmp_path / "home", folder=str(tmp_path / "project"), environ={"HOME": str(tmp_path)}, is_persistent=False
    )
    send, receive = trio.open_memory_channel[ConfigChange](8)
    with trio.fail_after(300):
        async with open_setup(place, flags={"model": "demo"}) as setup, trio.open_nursery() as nursery:
            models = {"m": model, "demo": model}
            config = attrs.evolve(
                setup.service, models=models, model_infos={}, hooks=NO_HOOKS, background_tasks=(setup.folders.run,)
            )
            async with open_session_service(config) as service:
                follow = partial(follow_config, setup, service, every_s=0.001, tell=send.send_nowait)
                nursery.start_soon(follow)
                yield World(tmp_path, service, model, receive)
                nursery.cancel_scope.cancel()
    send.close()
    receive.close()


async def test_new_sessions_start_with_the_new_settings(tmp_path: Path) -> None:
    """A changed mode, sandbox or limit counts for sessions created afterwards; the others keep what they have."""
    async with followed(tmp_path) as world:
        old = await new_session(world.service)
        change = await world.write(
            'permission_mode = "read_only"\nthinking = "low"\n[limits]\nsteps = 3\n[sandbox]\nmode = "read_only"\n'
        )
        new = await new_session(world.service)
        settings = [(await world.service.load_session(each)).settings for each in (old, new)]

    assert ((), ()) == (change.problems, change.needs_restart)
    assert [("ask_writes", "off", 200, "workspace_write"), ("read_only", "low", 3, "read_only")] == [
        (each.permission_mode, each.thinking, each.limits.steps, each.sandbox.mode) for each in settings
    ]


async def test_whoever_opens_a_setup_has_it(tmp_path: Path) -> None:
    """A service that is opened with a setup follows the files by itself, and tells those who follow it."""
    write_user(tmp_path / "home", 'permission_mode = "ask_all"\n')
    write_project(tmp_path / "project", "")
    place = AgentEnvironment(
        home=tmp_path / "home", folder=str(tmp_path / "project"), environ={"HOME": str(tmp_path)}, is_persistent=False
    )
    with trio.fail_after(300):
        async with (
            open_setup(place, flags={"model": "demo"}) as setup,
            open_session_service(setup.service) as service,
            service.subscribe() as events,
        ):
            write_user(tmp_path / "new", 'permission_mode = "full"\n').replace(tmp_path / "home" / "config.toml")
            taken = await next_told(events)
            write_user(tmp_path / "new", "permission_mode = 1\n").replace(tmp_path / "home" / "config.toml")
            refused = await next_told(events)
            settings = (await service.load_session(await new_session(service))).settings

    assert ConfigurationChanged(changed=("permission_mode",)) == taken
    assert "line 1: permission_mode: expected one of" in refused.problems[0]
    assert "full" == settings.permission_mode


async def test_what_runs_beside_a_service_cannot_end_it(caplog: pytest.LogCaptureFixture) -> None:
    """A background task that fails is told in the log, and the service goes on."""

    async def fails(service: SessionService) -> None:
        await new_session(service)
        raise OSError("the disk is gone")

    config = ServiceConfig(store=MemoryStore(), background_tasks=(fails,))
    with trio.fail_after(300):
        async with open_session_service(config) as service:
            await trio.testing.wait_all_tasks_blocked()
            assert 1 == len((await service.list_sessions()).sessions)

    assert ["a background task failed; the service continues without it"] == caplog.messages


async def test_what_a_frontend_has_chosen_stays(tmp_path: Path) -> None:
    """Only what has changed is taken over: limits that were given when the service was opened stay."""
    async with followed(tmp_path) as world:
        world.service.change_defaults(lambda now: attrs.evolve(now, turn_limits=TurnLimits(steps=7, tokens=8)))
        await world.write("[limits]\ntokens = 9\n")
        limits = (await world.service.load_session(await new_session(world.service))).settings.limits

    assert TurnLimits(steps=7, tokens=9) == limits


async def test_what_a_project_may_not_say_is_told(tmp_path: Path) -> None:
    """A project that is trusted while the service runs and tries too much is heard as far as it may, with a warning."""
    write_project(tmp_path / "project", "permission_mode = 'full'\n[limits]\nsteps = 3\n")
    async with followed(tmp_path) as world, world.service.subscribe() as events:
        await new_session(world.service)
        await trio.to_thread.run_sync(trust, tmp_path)
        settings = (await world.service.load_session(await new_session(world.service))).settings
        told = [each.event for each in await events.receive_batch() if isinstance(each.event, ConfigurationChanged)]

    assert (("limits.steps",), 3, "ask_writes") == (told[-1].changed, settings.limits.steps, settings.permission_mode)
    assert ["permission_mode" in each for each in told[-1].warnings] == [True]


async def test_rules_count_in_sessions_that_run(tmp_path: Path) -> None:
    """A new rule decides about the next call of a session that was there before, and so does its removal."""
    calls = [each for _ in range(3) for each in (tool_call("list", {"path": "."}), text("done"))]
    async with followed(tmp_path, *calls) as world:
        session_id = await new_session(world.service)
        await say(world.service, session_id)
        await world.write('[[permissions]]\ntool = "list"\ndecision = "deny"\n')
        await say(world.service, session_id)
        await world.write("# no rules any more\n")
        await say(world.service, session_id)
        messages = (await world.service.load_session(session_id)).transcript

    assert ["success", "denied", "success"] == statuses(messages)


async def test_a_disabled_tool_is_refused_at_once(tmp_path: Path) -> None:
    """A tool that is switched off is neither shown nor run any more, in sessions that were there before too."""
    async with followed(tmp_path, tool_call("list", {"path": "."}), text("done")) as world:
        session_id = await new_session(world.service)
        change = await world.write('[tools]\ndisabled = ["list"]\n')
        await say(world.service, session_id)
        messages = (await world.service.load_session(session_id)).transcript

    assert () == change.needs_restart
    assert ["error"] == statuses(messages)


async def test_what_cannot_be_used_changes_nothing(tmp_path: Path) -> None:
    """A broken file is told with its problems, everything stays as it was, and the next good file counts again."""
    write_user(tmp_path / "home", 'permission_mode = "ask_all"\n')
    async with followed(tmp_path) as world:
        broken = await world.write("permission_mode = \n")
        kept = await new_session(world.service)
        await world.write('permission_mode = "full"\n')
        mended = await new_session(world.service)
        modes = [(await world.service.load_session(each)).settings.permission_mode for each in (kept, mended)]

    assert (None, 1) == (broken.config, len(broken.problems))
    assert ["ask_all", "full"] == modes


@pytest.mark.parametrize("how", ["changed", "removed", "distrusted"])
async def test_nobody_shakes_off_what_a_trusted_project_forbids(tmp_path: Path, how: str) -> None:
    """What a trusted project forbids stays forbidden when its file changes or goes, until it is trusted anew."""
    path = write_project(tmp_path / "project", '[[permissions]]\ntool = "list"\ndecision = "deny"\n')
    trust(tmp_path)
    project = str(tmp_path / "project")
    async with followed(tmp_path, tool_call("list", {"path": "."}), text("done")) as world:
        if how == "changed":
            path.write_text("", encoding="utf-8")
        elif how == "removed":
            path.unlink()
        else:
            TrustStore(tmp_path / "home").distrust(str(tmp_path / "project"))
        async with world.service.subscribe() as events:
            session_id = await new_session(world.service)
            told = await told_of(events, project)
        await say(world.service, session_id)
        messages = (await world.service.load_session(session_id)).transcript

    assert "until it is trusted again" in told.problems[0]
    assert ["denied"] == statuses(messages)


def test_a_file_that_changes_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a trusted project forbids stays when its file is changed between the look at the trust and its reading."""
    path = write_project(tmp_path / "project", '[[permissions]]\ntool = "list"\ndecision = "deny"\n')
    trust(tmp_path)
    place = AgentEnvironment(home=tmp_path / "home", folder=str(tmp_path / "project"), environ={}, is_persistent=False)
    read = SettingsReader(place, {})
    before = read()

    def load_late(*arguments: Any, **options: Any) -> Config:
        path.write_text("", encoding="utf-8")
        return load_config(*arguments, **options)

    monkeypatch.setattr(files, "load_config", load_late)
    with pytest.raises(ConfigInvalid, match="until it is trusted again"):
        read()
    with pytest.raises(ConfigInvalid, match="until it is trusted again"):
        read()
    assert before is read.last


async def test_the_log_has_what_nobody_listens_to(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Problems and what needs a restart are in the log as sentences."""
    caplog.set_level("INFO", logger="session_core")
    async with followed(tmp_path) as world:
        log_change(await world.write("thinking = 'hgih'\n"))
        log_change(await world.write("thinking = 'high'\n[mcp]\nfile = '/x'\n"))

    assert "is not used" in caplog.messages[0]
    assert "did you mean high?" in caplog.messages[0]
    assert [
        "the configuration was changed: thinking, mcp.file",
        "this takes effect only after a restart: mcp.file",
    ] == caplog.messages[1:]
