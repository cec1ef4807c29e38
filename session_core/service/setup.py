"""A coding agent as people have configured it: models with their keys, tools, MCP servers, checkpoints, instructions.

`open_setup` puts together, from the home and the working folder, what a `ServiceConfig` needs, and holds whatever has
to be closed again at the end. What a project's files say counts only if a person has trusted them as they are.
"""

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import attrs
import trio

from session_core.agent.standing import StandingGrants
from session_core.checkpoints.store import CheckpointStore
from session_core.config.load import load_config, trusted_project
from session_core.config.rules import LiveRules, PermissionRule
from session_core.config.tool_names import is_disabled
from session_core.config.values import Config
from session_core.confine.guarding import clear_stand_ins
from session_core.confine.seccomp import write_filter
from session_core.confine.secrets import home_folders
from session_core.confine.trust import Fingerprint, TooMuchToTrust, fingerprint
from session_core.confine.workspace import Workspace, WorkspaceRefused
from session_core.errors import InvalidInput
from session_core.ids import SessionId
from session_core.mcp.config import McpConfig, load_mcp_config
from session_core.mcp.nothing import NoServers
from session_core.providers.base import Provider
from session_core.providers.catalogue import ModelInfo
from session_core.providers.choose import (
    DEMO,
    PickedModel,
    available_models,
    default_model,
    make_endpoint,
    make_provider,
)
from session_core.providers.demo import DemoProvider
from session_core.providers.endpoint import Endpoint
from session_core.sep.names import Mode
from session_core.sep.places import holds_any, places_of
from session_core.service.config import ServiceConfig
from session_core.service.guide import Guide
from session_core.service.late_models import late_or_refused
from session_core.service.place import Place as Place
from session_core.service.place import surroundings as surroundings
from session_core.storage.base import SessionStore
from session_core.storage.home import prepare_home
from session_core.storage.memory import MemoryStore
from session_core.tools.background import BackgroundJobs, open_background_jobs
from session_core.tools.base import Tool
from session_core.tools.confined import ShellSetup
from session_core.tools.files import coding_file_tools, file_tools
from session_core.tools.job_tools import shell_tools
from session_core.tools.plan import Plan
from session_core.tools.skills import SkillTool
from session_core.tools.task import Task
from session_core.tools.web_fetch import WebFetch

if TYPE_CHECKING:
    from session_core.mcp.client import McpServers
    from session_core.sep.host import ExtensionHost
    from session_core.service.service import SessionService

MCP_FILE: Final = "mcp.json"
CHECKPOINTS: Final = "checkpoints"
OUTPUTS: Final = "outputs"
ALLOWED_FILE: Final = "allowed.json"


@attrs.frozen(kw_only=True)
class Setup:
    """What was set up, and what people should know about it.

    Attributes:
        service: What to open the service with.
        settings: The whole configuration.
        picked: The model of new sessions, and why it is that one.
        remarks: Sentences for people.
        mcp: The MCP servers.
        offered: Their tools, without those that are switched off.
        extensions: The extensions; None if they are not to be used, or if there are none.
        place, flags: What it was made from, to be read again when it changes (`follow_config`).
    """

    service: ServiceConfig
    settings: Config
    picked: PickedModel
    remarks: tuple[str, ...]
    mcp: "McpServers"
    offered: "Offered"
    place: Place
    flags: Mapping[str, object]
    extensions: "ExtensionHost | None" = None


@asynccontextmanager
async def open_setup(
    place: Place,
    *,
    flags: Mapping[str, object] | None = None,
    store: SessionStore | None = None,
    wait_for_mcp: bool = False,
    mode: Mode = "headless",
) -> AsyncGenerator[Setup]:
    """Set an agent up for the length of the block.

    A service that is opened with it takes over changes of the configuration by itself.

    Args:
        place: Where it works.
        flags: Settings that come before those of any file.
        store: Where sessions are kept.
        wait_for_mcp: Wait until every MCP server is ready or has failed; else their tools come when they come.
        mode: What kind of frontend there is, as extensions are told.

    Raises:
        ConfigInvalid: Something in the configuration is wrong.
        InvalidInput: The chosen model is not known, or cannot be used.
    """
    trust, config = await trio.to_thread.run_sync(_load, place, dict(flags or {}))
    picked = await _picked(config, place)
    async with AsyncExitStack() as stack:
        models, infos, endpoints = _models(config, picked, place.environ)
        for endpoint in endpoints:
            stack.push_async_callback(endpoint.aclose)
        jobs = await stack.enter_async_context(open_background_jobs())
        mcp, problems = await _open_mcp(stack, place, config, trust)
        if wait_for_mcp:
            await mcp.until_settled()
        guide = Guide(place=place, config=config)
        kept = await trio.to_thread.run_sync(_kept, place)
        tools = _tools(place, jobs, guide, kept.filter_file, demo=picked.name == DEMO)
        offered = Offered(mcp, config)
        service = ServiceConfig(
            models=models,
            model_infos=infos,
            default_model=picked.name,
            tools=tuple(tool for tool in tools if not is_disabled(config, tool.spec.name)),
            tool_sources=(offered,),
            system_prompt=guide.system_prompt,
            cwd=place.folder,
            permission_tier=config.permission_tier,
            sandbox=config.sandbox,
            thinking=config.thinking,
            protocol=config.protocol,
            turn_limits=config.limits,
            rules=LiveRules(rules_of(config)),
            compact_at=config.compaction_threshold,
            checkpoints=kept.checkpoints,
            standing=kept.standing,
            outputs=kept.outputs,
            hidden=(str(place.home),),
            jobs=jobs,
            store=store or MemoryStore(),
            retention=config.retention,
        )
        remarks = tuple(filter(None, (*config.remarks, *problems, *_about_trust(place, trusted=trust is not None))))
        setup = Setup(
            service=service,
            settings=config,
            picked=picked,
            remarks=remarks,
            mcp=mcp,
            offered=offered,
            place=place,
            flags=dict(flags or {}),
        )
        service = attrs.evolve(service, companions=(partial(_follow, setup),))
        host: ExtensionHost | None = None
        if config.extensions and await trio.to_thread.run_sync(_has_extensions, place):
            from session_core.service.extension_setup import host_of, join_extensions

            service = await join_extensions(service, place, config, mode)
            host = host_of(service)
        yield attrs.evolve(setup, service=service, extensions=host)


async def _follow(setup: Setup, service: "SessionService") -> None:
    from session_core.service.reloading import follow_config

    await follow_config(setup, service)


def _load(place: Place, flags: dict[str, object]) -> tuple[Fingerprint | None, Config]:
    folder = Path(place.folder)
    trust = trusted_project(place.home, folder)
    return trust, load_config(place.home, folder, place.environ, flags, trust=trust)


def _has_extensions(place: Place) -> bool:
    """Tell whether any could be started; all that runs them is imported only then."""
    return holds_any(places_of(place.home, Path(place.folder), place.environ, trusted=False))


async def _picked(config: Config, place: Place) -> PickedModel:
    refused: InvalidInput | None = None
    try:
        return await default_model(config, place.environ)
    except InvalidInput as error:
        refused = error
    return await trio.to_thread.run_sync(late_or_refused, config, place, refused)


def _about_trust(place: Place, *, trusted: bool) -> Iterator[str]:
    """Say that the folder has files that would count if it were trusted."""
    if trusted:
        return
    try:
        if fingerprint(Workspace(place.folder)).is_empty:
            return
    except (TooMuchToTrust, WorkspaceRefused, OSError, ValueError):
        pass
    yield (
        "this folder is not trusted, so its AGENTS.md, skills, settings and MCP servers are not used "
        "(to trust it: session-core trust)"
    )


# --- models -----------------------------------------------------------------------------------------------------------


def _models(
    config: Config, picked: PickedModel, environ: Mapping[str, str]
) -> tuple[dict[str, Provider], dict[str, ModelInfo], list[Endpoint]]:
    """Make every model that has a key, those of one provider sharing its connections; the demo is always there."""
    usable = [choice.info for choice in available_models(config, environ) if choice.available]
    if picked.info is not None and picked.info.name not in {info.name for info in usable}:
        usable.append(picked.info)
    settings = {each.name: each for each in config.providers}
    endpoints: dict[str, Endpoint] = {}
    models: dict[str, Provider] = {}
    for info in usable:
        if info.provider not in endpoints:
            endpoints[info.provider] = make_endpoint(settings[info.provider], environ)
        models[info.name] = make_provider(info, config, environ, endpoint=endpoints[info.provider])
    models[DEMO] = DemoProvider()
    return models, {info.name: info for info in usable}, list(endpoints.values())


# --- tools ------------------------------------------------------------------------------------------------------------


def _tools(place: Place, jobs: BackgroundJobs, guide: Guide, filter_file: str | None, *, demo: bool) -> Iterator[Tool]:
    shell = ShellSetup(hidden=(str(place.home),), filter_file=filter_file, environment=place.environ)
    yield from coding_file_tools()
    yield from shell_tools(jobs, shell)
    yield from (WebFetch(), Plan(), Task(), SkillTool(guide.skills_in))
    if demo:
        yield from file_tools()  # the demo's script calls these


class Offered:
    """The tools of MCP servers that are not switched off; which ones those are can change."""

    def __init__(self, mcp: "McpServers", config: Config) -> None:
        self._mcp = mcp
        self.config = config

    def tools(self, session_id: SessionId) -> tuple[Tool, ...]:
        """Return those there are right now."""
        return tuple(tool for tool in self._mcp.tools() if not is_disabled(self.config, tool.spec.name))


def rules_of(config: Config) -> Iterable[PermissionRule]:
    """Return all rules, with one that denies for each tool that is switched off: a model may know of it still."""
    disabled = (PermissionRule(decision="deny", tool=name) for name in config.disabled_tools)
    return (*config.permissions, *disabled)


async def _open_mcp(
    stack: AsyncExitStack, place: Place, config: Config, trust: Fingerprint | None
) -> tuple["McpServers", list[str]]:
    def load() -> McpConfig:
        return load_mcp_config(
            folder=place.folder,
            trusted=trust,
            environment=place.environ,
            user_file=Path(config.mcp_file) if config.mcp_file else place.home / MCP_FILE,
            project_file=Path(place.folder) / MCP_FILE,
        )

    found = await trio.to_thread.run_sync(load)
    problems = [str(problem) for problem in found.problems]
    if not found.servers:
        return cast("McpServers", NoServers()), problems
    from session_core.mcp.client import open_mcp_servers

    return await stack.enter_async_context(open_mcp_servers(found.servers)), problems


@attrs.frozen
class _Kept:
    checkpoints: CheckpointStore | None = None
    standing: StandingGrants = attrs.field(factory=StandingGrants)
    outputs: str | None = None
    filter_file: str | None = None


def _kept(place: Place) -> _Kept:
    """Prepare what is kept in the home beside the sessions; the folder is rid of what killed runs left there."""
    clear_stand_ins(place.folder, home_folders())
    if not place.keeps:
        return _Kept()
    prepare_home(place.home)
    outputs = place.home / OUTPUTS
    outputs.mkdir(mode=0o700, exist_ok=True)
    return _Kept(
        CheckpointStore(place.home / CHECKPOINTS),
        StandingGrants(place.home / ALLOWED_FILE),
        str(outputs),
        write_filter(place.home),
    )
