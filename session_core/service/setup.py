"""A coding agent as people have configured it: models with their keys, tools, MCP servers, checkpoints, instructions.

`open_setup` puts together, from the home and the working folder, what a `ServiceConfig` needs, and holds whatever has
to be closed again at the end. What a project's files say counts only if a person has trusted them as they are.
"""

import os
import platform
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import attrs
import trio

from session_core.agent.instructions import MAX_INSTRUCTION_BYTES, collect_instructions, project_root
from session_core.agent.prompt import Environment, build_system_prompt, read_git_branch
from session_core.agent.skills import discover_skills
from session_core.agent.standing import StandingGrants
from session_core.checkpoints.store import CheckpointStore
from session_core.config.load import load_config, trusted_project
from session_core.config.rules import LiveRules
from session_core.config.values import Config
from session_core.confine.seccomp import write_filter
from session_core.confine.trust import Fingerprint, TooMuchToTrust, fingerprint
from session_core.confine.workspace import Workspace, WorkspaceRefused
from session_core.mcp.client import McpServers, open_mcp_servers
from session_core.mcp.config import McpConfig, load_mcp_config
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
from session_core.service.config import ServiceConfig
from session_core.storage.base import SessionStore
from session_core.storage.home import prepare_home
from session_core.storage.memory import MemoryStore
from session_core.tools.background import BackgroundJobs, open_background_jobs
from session_core.tools.base import Tool
from session_core.tools.confined import ShellSetup
from session_core.tools.files import coding_file_tools, file_tools
from session_core.tools.job_tools import shell_tools
from session_core.tools.plan import Plan
from session_core.tools.skills import Skill, SkillTool
from session_core.tools.task import Task
from session_core.tools.web_fetch import WebFetch
from session_core.vocabulary.sessions import Settings
from session_core.vocabulary.tools import ToolSpec

MCP_FILE: Final = "mcp.json"
CHECKPOINTS: Final = "checkpoints"
OUTPUTS: Final = "outputs"
ALLOWED_FILE: Final = "allowed.json"


@attrs.frozen(kw_only=True)
class Place:
    """Where an agent works: the home, the folder, and the variables; `keeps` says whether anything is written there."""

    home: Path
    folder: str
    environ: Mapping[str, str] = attrs.field(repr=False)  # keys are in there
    keeps: bool = True


@attrs.frozen(kw_only=True)
class Setup:
    """What was set up, and what people should know about it.

    Attributes:
        service: What to open the service with.
        settings: The whole configuration.
        picked: The model of new sessions, and why it is that one.
        remarks: Sentences for people.
        mcp: The MCP servers.
        place, flags: What it was made from, to be read again when it changes (`follow_config`).
    """

    service: ServiceConfig
    settings: Config
    picked: PickedModel
    remarks: tuple[str, ...]
    mcp: McpServers
    place: Place
    flags: Mapping[str, object]


@asynccontextmanager
async def open_setup(
    place: Place,
    *,
    flags: Mapping[str, object] | None = None,
    store: SessionStore | None = None,
    wait_for_mcp: bool = False,
) -> AsyncGenerator[Setup]:
    """Set an agent up for the length of the block.

    Args:
        place: Where it works.
        flags: Settings that come before those of any file.
        store: Where sessions are kept.
        wait_for_mcp: Wait until every MCP server is ready or has failed; else their tools come when they come.

    Raises:
        ConfigInvalid: Something in the configuration is wrong.
        InvalidInput: The chosen model is not known, or cannot be used.
    """
    trust, config = await trio.to_thread.run_sync(_load, place, dict(flags or {}))
    picked = await default_model(config, place.environ)
    async with AsyncExitStack() as stack:
        models, infos, endpoints = _models(config, picked, place.environ)
        for endpoint in endpoints:
            stack.push_async_callback(endpoint.aclose)
        jobs = await stack.enter_async_context(open_background_jobs())
        mcp, problems = await _open_mcp(stack, place, config, trust)
        if wait_for_mcp:
            await mcp.until_settled()
        guide = _Guide(place=place, config=config)
        kept = await trio.to_thread.run_sync(_kept, place)
        tools = _tools(place, jobs, guide, kept.filter_file, demo=picked.name == DEMO)
        service = ServiceConfig(
            models=models,
            model_infos=infos,
            default_model=picked.name,
            tools=tuple(tool for tool in tools if tool.spec.name not in config.disabled_tools),
            tool_sources=(mcp,),
            system_prompt=guide.system_prompt,
            cwd=place.folder,
            permission_tier=config.permission_tier,
            sandbox=config.sandbox,
            thinking=config.thinking,
            turn_limits=config.limits,
            rules=LiveRules(config.permissions),
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
        yield Setup(
            service=service,
            settings=config,
            picked=picked,
            remarks=remarks,
            mcp=mcp,
            place=place,
            flags=dict(flags or {}),
        )


def _load(place: Place, flags: dict[str, object]) -> tuple[Fingerprint | None, Config]:
    folder = Path(place.folder)
    trust = trusted_project(place.home, folder)
    return trust, load_config(place.home, folder, place.environ, flags, trust=trust)


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


def _tools(
    place: Place, jobs: BackgroundJobs, guide: "_Guide", filter_file: str | None, *, demo: bool
) -> Iterator[Tool]:
    shell = ShellSetup(hidden=(str(place.home),), filter_file=filter_file, environment=place.environ)
    yield from coding_file_tools()
    yield from shell_tools(jobs, shell)
    yield from (WebFetch(), Plan(), Task(), SkillTool(guide.skills_in))
    if demo:
        yield from file_tools()  # the demo's script calls these


async def _open_mcp(
    stack: AsyncExitStack, place: Place, config: Config, trust: Fingerprint | None
) -> tuple[McpServers, list[str]]:
    def load() -> McpConfig:
        return load_mcp_config(
            folder=place.folder,
            trusted=trust,
            environment=place.environ,
            user_file=Path(config.mcp_file) if config.mcp_file else place.home / MCP_FILE,
            project_file=Path(place.folder) / MCP_FILE,
        )

    found = await trio.to_thread.run_sync(load)
    servers = await stack.enter_async_context(open_mcp_servers(found.servers))
    return servers, [str(problem) for problem in found.problems]


@attrs.frozen
class _Kept:
    checkpoints: CheckpointStore | None = None
    standing: StandingGrants = attrs.field(factory=StandingGrants)
    outputs: str | None = None
    filter_file: str | None = None


def _kept(place: Place) -> _Kept:
    """Prepare what is kept in the home beside the sessions."""
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


# --- what the model is told -------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class _Guide:
    """Makes the system prompt of each turn, from the files as they are then."""

    place: Place
    config: Config

    @property
    def _user(self) -> Path:
        return Path(self.place.environ.get("HOME") or Path.home())

    def skills_in(self, folder: str) -> tuple[Skill, ...]:
        """The skills of sessions that work in a folder: those of its project only if it is trusted as it is now."""
        trust = trusted_project(self.place.home, Path(os.path.realpath(folder)))
        return self._skills(folder, trusted=trust is not None)

    def _skills(self, folder: str, *, trusted: bool) -> tuple[Skill, ...]:
        own = str(self._user / ".agents" / "skills")
        return discover_skills(folder, trusted=trusted, user_folder=own, more_folders=self.config.skill_paths).skills

    async def system_prompt(self, settings: Settings, tools: tuple[ToolSpec, ...]) -> str:
        return await trio.to_thread.run_sync(self._make, settings, tools)

    def _make(self, settings: Settings, tools: tuple[ToolSpec, ...]) -> str:
        folder, user = settings.cwd, self._user
        trust = self._trusted_folders(folder, user)
        prompt = self._from_files(settings, tools, user, trust)
        if trust and trust != self._trusted_folders(folder, user):
            # Something changed between the look at the files and their reading: who knows what was read.
            return self._from_files(settings, tools, user, {})
        return prompt

    def _trusted_folders(self, folder: str, user: Path) -> dict[str, Fingerprint]:
        """This folder and those above it in the same project, as far as a person has trusted each as it is now."""
        here, top = Path(os.path.realpath(folder)), Path(project_root(folder, home=str(user)))
        within = [each for each in (here, *here.parents) if each.is_relative_to(top)]
        return {str(each): trust for each in within if (trust := trusted_project(self.place.home, each)) is not None}

    def _from_files(
        self, settings: Settings, tools: tuple[ToolSpec, ...], user: Path, trust: Mapping[str, Fingerprint]
    ) -> str:
        folder = settings.cwd
        skills = self._skills(folder, trusted=os.path.realpath(folder) in trust)
        collected = collect_instructions(
            folder, trusted=bool(trust), user_file=str(user / ".agents" / "AGENTS.md"), home=str(user)
        )
        # Trust in a folder says nothing about the files above it, nor about what its links lead to elsewhere.
        counting = [each for each in collected.texts if each.source == "user" or _is_covered(each.path, trust)]
        environment = Environment(
            cwd=folder,
            platform=platform.system(),
            date=datetime.now(UTC).astimezone().date().isoformat(),
            git_branch=read_git_branch(folder),
        )
        return build_system_prompt(environment, instructions=counting, skills=skills, tools=tools)


def _is_covered(path: str, trust: Mapping[str, Fingerprint]) -> bool:
    folder, name = os.path.split(path)
    if folder not in trust:
        return False
    try:
        content = Workspace(folder, read_only=True).read(name, max_bytes=MAX_INSTRUCTION_BYTES * 200)
    except (WorkspaceRefused, OSError):
        return False
    return trust[folder].covers(name, content.data)


def surroundings(home: Path, folder: str, *, keeps: bool = True) -> Place:
    """Return a place in the environment of this process."""
    return Place(home=home, folder=folder, environ=dict(os.environ), keeps=keeps)
