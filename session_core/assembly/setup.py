"""A coding agent as the user has configured it: models with their keys, tools, MCP servers, checkpoints, instructions.

`open_setup` builds a `ServiceConfig` from the home and the working folder, and closes at the end whatever it has
opened; `open_home_setup` does so for sessions of any number of folders. A project's files count only if a person has
trusted them as they are.
"""

import os
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

import attrs
import trio

from session_core.assembly.extension_models import pick_extension_model
from session_core.assembly.folders.files import list_trust_remarks, read_servers_of, read_settings_of, rules_of
from session_core.assembly.surroundings import AgentEnvironment as AgentEnvironment
from session_core.assembly.surroundings import current_environment as current_environment
from session_core.assembly.surroundings import extension_places
from session_core.assembly.system_prompt import SystemPromptBuilder
from session_core.checkpoints.store import CheckpointStore
from session_core.config.tool_names import is_disabled
from session_core.config.values import Config
from session_core.errors import InvalidInput
from session_core.ids import SessionId
from session_core.mcp.no_servers import NoServers
from session_core.permissions.rules import LiveRules
from session_core.permissions.standing_grants import StandingGrants
from session_core.providers.base import Provider
from session_core.providers.catalogue import ModelInfo
from session_core.providers.demo import DemoProvider
from session_core.providers.endpoint import Endpoint
from session_core.providers.model_choice import (
    DEMO,
    PickedModel,
    available_models,
    default_model,
    make_endpoint,
    make_provider,
)
from session_core.sandbox.seccomp import FilterFiles, write_filters
from session_core.sandbox.trust import Fingerprint
from session_core.sep.host.catalogue.search_paths import has_extensions
from session_core.sep.protocol.names import Mode
from session_core.service.config import ServiceConfig
from session_core.storage.base import SessionStore
from session_core.storage.home import prepare_home
from session_core.storage.memory import MemoryStore
from session_core.tools.background_jobs import BackgroundJobs, open_background_jobs
from session_core.tools.base import Tool
from session_core.tools.command_confinement import ShellSetup
from session_core.tools.files import coding_file_tools, file_tools
from session_core.tools.job_tools import shell_tools
from session_core.tools.plan import PlanTool
from session_core.tools.skills import SkillTool
from session_core.tools.task import TaskTool
from session_core.tools.web_fetch import WebFetch

if TYPE_CHECKING:
    from session_core.assembly.folders.folder import OpenFolder
    from session_core.assembly.folders.registry import Folders
    from session_core.mcp.client import McpServers
    from session_core.sep.host.config import ParticipationRule
    from session_core.sep.host.host import ExtensionHost
    from session_core.service.service import SessionService

CHECKPOINTS: Final = "checkpoints"
OUTPUTS: Final = "outputs"
ALLOWED_FILE: Final = "allowed.json"


@attrs.frozen(kw_only=True)
class Setup:
    """A finished setup, with remarks for people.

    Attributes:
        service: The configuration to open the service with.
        settings: The whole configuration.
        picked: The model of new sessions, and why it is that one.
        remarks: Remarks for people.
        mcp: The MCP servers.
        mcp_tools: Their tools, without the disabled ones.
        extensions: The extensions; None if they are not to be used, or if there are none. Where sessions work in many
            folders these are the user's own.
        place, flags: The inputs of the setup, read again when they change (`follow_config`).
        folders: The folders that sessions work in, if each has its own settings and MCP servers.
    """

    service: ServiceConfig
    settings: Config
    picked: PickedModel
    remarks: tuple[str, ...]
    mcp: "McpServers"
    mcp_tools: "McpToolSource"
    place: AgentEnvironment
    flags: Mapping[str, object]
    extensions: "ExtensionHost | None" = None
    folders: "Folders | None" = None


@asynccontextmanager
async def open_setup(
    place: AgentEnvironment,
    *,
    flags: Mapping[str, object] | None = None,
    store: SessionStore | None = None,
    wait_for_mcp: bool = False,
    mode: Mode = "headless",
) -> AsyncGenerator[Setup]:
    """Set up an agent within the block.

    A service that is opened with it applies configuration changes automatically.

    Args:
        place: Where it works.
        flags: Settings that override those of any file.
        store: Where sessions are kept.
        wait_for_mcp: Wait until every MCP server is ready or has failed; otherwise their tools appear later.
        mode: The kind of frontend, as reported to extensions.

    Raises:
        ConfigInvalid: Something in the configuration is wrong.
        InvalidInput: The chosen model is not known, or cannot be used.
    """
    trust, config = await trio.to_thread.run_sync(read_settings_of, place, dict(flags or {}))
    picked = await _pick_model(config, place)
    async with AsyncExitStack() as stack:
        service = await _build_service_config(stack, place, config, picked, store)
        mcp, problems = await _open_mcp(stack, place, config, trust)
        if wait_for_mcp:
            await mcp.wait_until_settled()
        offered = McpToolSource(mcp, config)
        service = attrs.evolve(
            service,
            tools=tuple(tool for tool in service.tools if not is_disabled(config, tool.spec.name)),
            tool_sources=(offered,),
        )
        untrusted = await trio.to_thread.run_sync(lambda: [*list_trust_remarks(place, trusted=trust is not None)])
        setup = Setup(
            service=service,
            settings=config,
            picked=picked,
            remarks=(*config.remarks, *problems, *untrusted),
            mcp=mcp,
            mcp_tools=offered,
            place=place,
            flags=dict(flags or {}),
        )
        yield await _with_extensions(setup, mode)


@asynccontextmanager
async def open_home_setup(
    home: Path,
    environ: Mapping[str, str] | None = None,
    *,
    folder: str | None = None,
    flags: Mapping[str, object] | None = None,
    store: SessionStore | None = None,
    mode: Mode = "headless",
    is_persistent: bool = True,
) -> AsyncGenerator[Setup]:
    """Set up an agent whose sessions work in any number of folders, within the block.

    The user's own files count for all sessions. A folder's settings (rules, disabled tools, defaults of new sessions,
    MCP servers, extensions) count for sessions that work in it, and are read when the first of them does.

    Args:
        home: The user's home of sessions, settings and keys.
        environ: The environment variables; by default those of this process.
        folder: The working folder of sessions that name none; the user's home directory by default.
        flags: Settings that override those of any file.
        store: Where sessions are kept.
        mode: The kind of frontend, as reported to extensions.
        is_persistent: Whether anything is written to the home.

    Raises:
        ConfigInvalid: Something in the user's configuration is wrong.
        InvalidInput: The chosen model is not known, or cannot be used.
    """
    from session_core.assembly.folders.registry import open_folders

    known = dict(os.environ if environ is None else environ)
    folder = folder or known.get("HOME") or str(Path.home())
    place = AgentEnvironment(home=home, folder=folder, environ=known, is_persistent=is_persistent, whole_home=True)
    said = dict(flags or {})
    _, config = await trio.to_thread.run_sync(read_settings_of, place, said)
    servers = await trio.to_thread.run_sync(read_servers_of, place, config, None)
    picked = await _pick_model(config, place)
    async with AsyncExitStack() as stack:
        service = await _build_service_config(stack, place, config, picked, store)
        folders = await stack.enter_async_context(open_folders(place, config, said))
        nothing = cast("McpServers", NoServers())
        setup = Setup(
            service=attrs.evolve(service, folders=folders, background_tasks=(folders.run,)),
            settings=config,
            picked=picked,
            remarks=(*config.remarks, *map(str, servers.problems)),
            mcp=nothing,
            mcp_tools=McpToolSource(nothing, config),
            place=place,
            flags=said,
            folders=folders,
        )
        yield await _with_folder_extensions(setup, folders, mode)


async def _build_service_config(
    stack: AsyncExitStack, place: AgentEnvironment, config: Config, picked: PickedModel, store: SessionStore | None
) -> ServiceConfig:
    """Build the parts that are the same for one folder or many; with all tools."""
    models, infos, endpoints = _models(config, picked, place.environ)
    for endpoint in endpoints:
        stack.push_async_callback(endpoint.aclose)
    jobs = await stack.enter_async_context(open_background_jobs())
    guide = SystemPromptBuilder(place=place, config=config)
    storage = await trio.to_thread.run_sync(_prepare_home_storage, place)
    return ServiceConfig(
        models=models,
        model_infos=infos,
        catalogue=tuple(available_models(config, place.environ)),
        default_model=picked.name,
        tools=tuple(_tools(place, jobs, guide, storage.filters, demo=picked.name == DEMO)),
        system_prompt=guide.system_prompt,
        cwd=place.folder,
        permission_mode=config.permission_mode,
        sandbox=config.sandbox,
        thinking=config.thinking,
        protocol=config.protocol,
        turn_limits=config.limits,
        rules=LiveRules(rules_of(config)),
        compact_at=config.compaction_threshold,
        checkpoints=storage.checkpoints,
        standing=storage.standing,
        outputs=storage.outputs,
        hidden=(str(place.home),),
        jobs=jobs,
        store=store or MemoryStore(),
        retention=config.retention,
    )


async def _with_extensions(setup: Setup, mode: Mode) -> Setup:
    """Add extensions, if there are any, and let the service follow its configuration."""
    service = setup.service
    service = attrs.evolve(service, background_tasks=(*service.background_tasks, partial(_follow, setup)))
    if not setup.settings.extensions or not await trio.to_thread.run_sync(_has_extensions, setup.place):
        return attrs.evolve(setup, service=service)
    from session_core.assembly.extension_setup import join_extensions
    from session_core.sep.host.host import ExtensionHost

    service = await join_extensions(service, setup.place, setup.settings, mode)
    assert isinstance(service.extensions, ExtensionHost)
    return attrs.evolve(setup, service=service, extensions=service.extensions)


async def _with_folder_extensions(setup: Setup, folders: "Folders", mode: Mode) -> Setup:
    """Add the user's own extensions to all sessions, and those of each folder to the sessions there."""
    from session_core.assembly.folders.extension_hosts import FolderHosts
    from session_core.assembly.folders.extensions import FolderHooks, FolderTools, HomeExtensions, takes_own_part

    def make(folder: "OpenFolder", takes_part: "ParticipationRule") -> "ExtensionHost":
        from session_core.assembly.extension_setup import make_folder_host

        return make_folder_host(setup.place.with_folder(folder.path), folder.config, mode, takes_part)

    service, own, hooks = setup.service, None, None
    if setup.settings.extensions and await trio.to_thread.run_sync(_has_extensions, setup.place):
        from session_core.assembly.extension_setup import join_host, make_host
        from session_core.service.extension_bridge.delegate import ExtensionHooks

        takes_part = partial(takes_own_part, folders)
        own = await trio.to_thread.run_sync(make_host, setup.place, setup.settings, mode, takes_part)
        hooks = ExtensionHooks(own)
        service = join_host(service, own, setup.settings)
    folders.hosting = FolderHosts(make, folders.works_in)
    extensions = HomeExtensions(own, folders)
    service = attrs.evolve(
        service,
        hooks=FolderHooks(hooks, folders),
        tool_sources=(*service.tool_sources, FolderTools(extensions, folders)),
        extensions=extensions,
        background_tasks=(*service.background_tasks, partial(_follow, setup)),
    )
    return attrs.evolve(setup, service=service, extensions=own)


async def _follow(setup: Setup, service: "SessionService") -> None:
    from session_core.assembly.config_reload import follow_config

    await follow_config(setup, service)


def _has_extensions(place: AgentEnvironment) -> bool:
    """Return whether any extension could be started; the code that runs them is imported only then."""
    return has_extensions(extension_places(place, trusted=False))


async def _pick_model(config: Config, place: AgentEnvironment) -> PickedModel:
    refused: InvalidInput | None = None
    try:
        return await default_model(config, place.environ)
    except InvalidInput as error:
        refused = error
    return await trio.to_thread.run_sync(pick_extension_model, config, place, refused)


# --- models -----------------------------------------------------------------------------------------------------------


def _models(
    config: Config, picked: PickedModel, environ: Mapping[str, str]
) -> tuple[dict[str, Provider], dict[str, ModelInfo], list[Endpoint]]:
    """Build every model that has a key; models of one provider share its connections. The demo always exists."""
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


def _tools(
    place: AgentEnvironment,
    jobs: BackgroundJobs,
    guide: SystemPromptBuilder,
    filters: FilterFiles | None,
    *,
    demo: bool,
) -> Iterator[Tool]:
    shell = ShellSetup(hidden=(str(place.home),), filters=filters, environment=place.environ)
    yield from coding_file_tools()
    yield from shell_tools(jobs, shell)
    yield from (WebFetch(), PlanTool(), TaskTool(), SkillTool(guide.skills_in))
    if demo:
        yield from file_tools()  # the demo's script calls these


class McpToolSource:
    """The enabled tools of MCP servers; which ones are enabled can change."""

    def __init__(self, mcp: "McpServers", config: Config) -> None:
        self._mcp = mcp
        self.config = config

    def tools(self, session_id: SessionId) -> tuple[Tool, ...]:
        """Return the tools that exist right now."""
        return tuple(tool for tool in self._mcp.tools() if not is_disabled(self.config, tool.spec.name))


async def _open_mcp(
    stack: AsyncExitStack, place: AgentEnvironment, config: Config, trust: Fingerprint | None
) -> tuple["McpServers", list[str]]:
    found = await trio.to_thread.run_sync(read_servers_of, place, config, trust)
    problems = [str(problem) for problem in found.problems]
    if not found.servers:
        return cast("McpServers", NoServers()), problems
    from session_core.mcp.client import open_mcp_servers

    return await stack.enter_async_context(open_mcp_servers(found.servers)), problems


@attrs.frozen
class _HomeStorage:
    checkpoints: CheckpointStore | None = None
    standing: StandingGrants = attrs.field(factory=StandingGrants)
    outputs: str | None = None
    filters: FilterFiles | None = None


def _prepare_home_storage(place: AgentEnvironment) -> _HomeStorage:
    """Prepare what the home stores besides the sessions."""
    if not place.is_persistent:
        return _HomeStorage()
    prepare_home(place.home)
    outputs = place.home / OUTPUTS
    outputs.mkdir(mode=0o700, exist_ok=True)
    return _HomeStorage(
        CheckpointStore(place.home / CHECKPOINTS),
        StandingGrants(place.home / ALLOWED_FILE),
        str(outputs),
        write_filters(place.home),
    )
