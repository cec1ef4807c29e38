"""A coding agent as the user has configured it: models with their keys, tools, MCP servers, checkpoints, instructions.

`open_setup` builds a `ServiceConfig` from the home, for sessions of any number of folders, and closes at the end
whatever it has opened. A project's files count only if a person has trusted them as they are.
"""

from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
import trio

from session_core.agent.joined_mapping import JoinedMapping
from session_core.assembly.extension_models import pick_extension_model
from session_core.assembly.folders.extensions import ServiceExtensions, takes_own_part
from session_core.assembly.folders.files import read_servers, read_user_settings, rules_of
from session_core.assembly.folders.registry import Folders, open_folders
from session_core.assembly.surroundings import AgentEnvironment as AgentEnvironment
from session_core.assembly.surroundings import current_environment as current_environment
from session_core.assembly.surroundings import user_places
from session_core.assembly.system_prompt import SystemPromptBuilder
from session_core.checkpoints.store import CheckpointStore
from session_core.config.values import Config
from session_core.errors import InvalidInput
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
    from session_core.service.service import SessionService

CHECKPOINTS: Final = "checkpoints"
OUTPUTS: Final = "outputs"
ALLOWED_FILE: Final = "allowed.json"


@attrs.frozen(kw_only=True)
class Setup:
    """A finished setup, with remarks for people.

    Attributes:
        service: The configuration to open the service with.
        settings: The configuration without that of any folder.
        picked: The model of new sessions, and why it is that one.
        remarks: Remarks for people.
        folders: The folders that sessions work in, each with its own settings, MCP servers and extensions.
        extensions: The extensions: the user's own, and those of folders.
        place, flags: The inputs of the setup, read again when they change (`follow_config`).
    """

    service: ServiceConfig
    settings: Config
    picked: PickedModel
    remarks: tuple[str, ...]
    folders: Folders
    extensions: ServiceExtensions
    place: AgentEnvironment
    flags: Mapping[str, object]


@asynccontextmanager
async def open_setup(
    place: AgentEnvironment,
    *,
    flags: Mapping[str, object] | None = None,
    store: SessionStore | None = None,
    mode: Mode = "headless",
    open_folder: bool = True,
) -> AsyncGenerator[Setup]:
    """Set up an agent whose sessions work in any number of folders, within the block.

    The user's own files count for all sessions. A folder's settings (rules, disabled tools, defaults of new sessions,
    MCP servers, extensions) count for sessions that work in it, and are read when the first of them does. A service
    that is opened with it applies configuration changes automatically.

    Args:
        place: The home, the working folder of sessions that name none, and the environment.
        flags: Settings that override those of any file.
        store: Where sessions are kept.
        mode: The kind of frontend, as reported to extensions.
        open_folder: Whether to read the settings of the working folder at once.

    Raises:
        ConfigInvalid: Something in the configuration is wrong.
        InvalidInput: The chosen model is not known, or cannot be used.
    """
    said = dict(flags or {})
    config = await trio.to_thread.run_sync(read_user_settings, place, said)
    servers = await trio.to_thread.run_sync(read_servers, place, config)
    picked = await _pick_model(config, place)
    async with AsyncExitStack() as stack:
        folders = await stack.enter_async_context(open_folders(place, config, said, mode=mode))
        remarks = (*config.remarks, *map(str, servers.problems))
        if open_folder:
            remarks += (await folders.load(place.folder)).files.remarks
        service = await _build_service_config(stack, place, config, picked, store)
        service = attrs.evolve(service, folders=folders, background_tasks=(folders.run,))
        service, extensions = await join_extensions(service, place, config, folders, mode)
        setup = Setup(
            service=service,
            settings=config,
            picked=picked,
            remarks=tuple(dict.fromkeys(remarks)),
            folders=folders,
            extensions=extensions,
            place=place,
            flags=said,
        )
        yield attrs.evolve(
            setup,
            service=attrs.evolve(service, background_tasks=(*service.background_tasks, partial(_follow, setup))),
        )


async def _build_service_config(
    stack: AsyncExitStack, place: AgentEnvironment, config: Config, picked: PickedModel, store: SessionStore | None
) -> ServiceConfig:
    """Build the parts that are the same for all folders; with all tools."""
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


async def join_extensions(
    service: ServiceConfig, place: AgentEnvironment, config: Config, folders: Folders, mode: Mode
) -> tuple[ServiceConfig, ServiceExtensions]:
    """Add the user's own extensions to all sessions of a service, and those of each folder to the sessions there."""
    extensions = ServiceExtensions(None, folders)
    if config.extensions and await trio.to_thread.run_sync(lambda: has_extensions(user_places(place))):
        from session_core.assembly.extension_setup import make_host, run_extensions

        takes_part = partial(takes_own_part, folders)
        own = await trio.to_thread.run_sync(make_host, place, config, mode, takes_part)
        extensions = ServiceExtensions(own, folders)
        service = attrs.evolve(
            service,
            models=JoinedMapping(service.models, own.models.providers),
            model_infos=JoinedMapping(service.model_infos, own.models.infos),
            background_tasks=(*service.background_tasks, partial(run_extensions, own, config.watched_extensions)),
        )
    joined = attrs.evolve(
        service, hooks=extensions, extensions=extensions, tool_sources=(*service.tool_sources, extensions)
    )
    return joined, extensions


async def _follow(setup: Setup, service: "SessionService") -> None:
    from session_core.assembly.config_reload import follow_config

    await follow_config(setup, service)


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
