"""The agent that `run` talks to: its model, its limits, and remarks for people before it begins."""

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import trio

import session_core as sc
from frontends.commands.run.extensions import list_unused_extensions
from frontends.commands.run.prompt_kind import UnusedExtension
from frontends.shared.parser import UsageError
from frontends.shared.progress import ProgressLine
from frontends.shared.sanitise import one_line
from frontends.shared.style import Style
from frontends.shared.wait_for_home import WaitingStore

_REMARK_CHARS = 400
_MODEL_CHARS = 80
_MOST_BROUGHT = 6


@attrs.frozen(kw_only=True)
class AgentRequest:
    """The requested agent.

    Attributes:
        home: Where settings are, and sessions too if it `keeps` any.
        folder: The working directory.
        model: A model by name or alias; None takes the one from the settings.
        continued: The session to continue, whose model counts if none was chosen.
        limits: The limits of one turn, as far as they were given.
        sees: Whether it is given images.
        extensions: Whether extensions may be started.
        flags: Flags for extensions, in addition to those in the settings.
    """

    home: Path
    folder: str
    is_persistent: bool = True
    model: str | None = None
    continued: sc.SessionSummary | None = None
    limits: sc.TurnLimits = attrs.field(factory=sc.TurnLimits)
    sees: bool = False
    extensions: bool = True
    flags: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class PreparedAgent:
    """The setup of a service, the model that answers, and remarks for people."""

    service: sc.ServiceConfig
    model: str
    folder: str
    about_model: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    told_of_demo: bool = False
    """Whether the remarks already say that no real model answers, and why."""
    setup: sc.setup.Setup
    refusal: str | None = None
    """Why the model cannot be used, unless an extension provides it."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """Everything people should know before a turn begins."""
        return (*self.about_model, *self.others)

    @property
    def is_demo(self) -> bool:
        """Whether no real model answers."""
        return isinstance(self.service.models.get(self.model), sc.DemoProvider)

    @property
    def hosts(self) -> "tuple[sc.extensions.ExtensionHost, ...]":
        """The hosts of the extensions of its folder."""
        return self.setup.extensions.hosts_in(self.folder)

    def list_unused(self) -> list[UnusedExtension]:
        """Return the extensions that do not run, with advice about each."""
        folder = self.setup.folders.get_known(self.folder)
        return list_unused_extensions(self.hosts, folder.files.unused if folder is not None else ())

    def check_model(self) -> None:
        """Reject a model that no extension provides, once all extensions have started."""
        if self.refusal is not None and self.model not in self.service.models:
            # That list lacks the models of extensions.
            reason = self.refusal.removesuffix("; see: session-core models --all")
            brought = [one_line(each, _MODEL_CHARS) for each in brought_models(self.hosts)]
            there = f"; they provide {', '.join(brought[:_MOST_BROUGHT])}" if brought else ""
            raise UsageError(f"{reason}; no running extension provides it{there} (see: session-core ext list)")


def brought_models(hosts: "Sequence[sc.extensions.ExtensionHost]") -> list[str]:
    """Return the models of the running extensions."""
    running = [each for host in hosts for each in host.extensions if each.state == "ready"]
    providers = [provider for each in running for provider in each.registrations.providers]
    return [f"{provider.name}/{model.id}" for provider in providers for model in provider.models]


@asynccontextmanager
async def open_agent(wanted: AgentRequest) -> AsyncGenerator[PreparedAgent]:
    """Set up the agent for the duration of the block.

    Raises:
        UsageError: The session's model can no longer be used.
        InvalidInput: The configuration is wrong, or the chosen model cannot be used.
    """
    model = wanted.model or (wanted.continued.model if wanted.continued is not None else None)
    refusal = await trio.to_thread.run_sync(_refusal, wanted, model)
    place = sc.setup.current_environment(wanted.home, wanted.folder, is_persistent=wanted.is_persistent)
    store = WaitingStore(wanted.home) if wanted.is_persistent else None
    flags = await trio.to_thread.run_sync(_flags, wanted, model)
    async with sc.setup.open_setup(place, flags=flags, store=store, mode="cli") as setup:
        folder = await setup.folders.load(wanted.folder)
        yield PreparedAgent(
            service=_service(setup.service, wanted),
            model=setup.picked.name,
            folder=wanted.folder,
            setup=setup,
            told_of_demo=setup.picked.info is None and bool(setup.picked.remark),
            refusal=None if refusal is None else getattr(refusal, "message", str(refusal)),
            about_model=tuple(_about_model(setup, wanted)),
            others=(
                *setup.remarks,
                *(slip.sentence for slip in sc.setup.unknown_tool_names(folder.config)),
            ),
        )


def _flags(wanted: AgentRequest, model: str | None) -> dict[str, object]:
    """Return the settings given on the command line."""
    flags: dict[str, object] = {"model": model, "extensions.use": None if wanted.extensions else False}
    if wanted.flags:  # in addition to those in the files
        flags["extensions.flags"] = [*_config(wanted).extension_flags, *wanted.flags]
    return flags


def _config(wanted: AgentRequest) -> sc.setup.Config:
    folder = Path(wanted.folder)
    return sc.setup.load_config(wanted.home, folder, trust=sc.setup.find_trusted_fingerprint(wanted.home, folder))


def _refusal(wanted: AgentRequest, chosen: str | None) -> Exception | None:
    """Return why a model cannot be used, if an extension could still provide it.

    Raises:
        UsageError: The session's model can no longer be used.
        InvalidInput: The chosen model cannot be used.
    """
    config = _config(wanted)
    model = chosen or config.model
    if model in {None, sc.setup.DEMO}:
        return None
    assert model is not None
    try:
        sc.setup.resolve_model(config, model, os.environ)
    except sc.InvalidInput as refused:
        refusal: Exception = refused
        if chosen is None:
            refusal = sc.setup.build_choice_error(config, refused)
        elif wanted.model is None:
            msg = f"the model of this session cannot be used now: {refused.message}; or choose another with --model"
            refusal = UsageError(msg)
    else:
        return None
    if wanted.extensions and sc.setup.extension_may_bring(model, config, wanted.home, Path(wanted.folder), os.environ):
        return refusal
    raise refusal


def _service(config: sc.ServiceConfig, wanted: AgentRequest) -> sc.ServiceConfig:
    said = {key: value for key, value in attrs.asdict(wanted.limits).items() if value is not None}
    # An archived session may be due for deletion, but not while it is being continued.
    spared = wanted.continued is not None and wanted.continued.archived
    return attrs.evolve(
        config,
        turn_limits=attrs.evolve(config.turn_limits, **said),
        retention=sc.maintenance.Retention() if spared else config.retention,
    )


def _about_model(setup: sc.setup.Setup, wanted: AgentRequest) -> list[str]:
    picked, info = setup.picked, setup.picked.info
    if info is None:
        return [picked.remark] if picked.remark else []
    remarks = [f"{info.name} answers: {picked.remark}"] if picked.remark else []
    if wanted.limits.cost_micros is not None and info.prices is None:
        remarks.append(f"the price of {info.name} is unknown, so --max-cost cannot end a turn")
    if wanted.sees and not info.images:
        remarks.append(f"{info.name} cannot see images: it is only told that they exist")
    return remarks


async def connect_servers(agent: PreparedAgent, *, progress: bool) -> list[str]:
    """Open the MCP servers of the folder, give them a moment, and describe those that cannot be used."""
    folder = await agent.setup.folders.load(agent.folder)
    names = [each.name for each in folder.files.servers if not each.disabled]
    if names:
        with ProgressLine.on_stderr() if progress else ProgressLine(None) as doing:
            doing(f"connecting to MCP servers: {', '.join(names)}")
            (await agent.setup.folders.hold(agent.folder))()
    return about_servers(folder.servers.statuses())


def about_servers(statuses: "Sequence[sc.setup.ServerStatus]") -> list[str]:
    """Describe which MCP servers cannot be used in this turn."""
    remarks = []
    for status in statuses:
        if status.state == "failed":
            remarks.append(f"the MCP server {status.name!r} cannot be used: {status.reason} (see: session-core mcp)")
        elif status.state == "connecting":
            remarks.append(f"the MCP server {status.name!r} is not ready yet; its tools appear when it is")
    return remarks


def remark_lines(style: Style, remarks: Sequence[str]) -> str:
    """Return remarks for people, one line each."""
    mark = style.yellow(style.symbol("●"))
    return "".join(f"{mark} {one_line(remark, _REMARK_CHARS)}\n" for remark in remarks)
