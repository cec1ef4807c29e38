"""The agent that `run` talks to: which model, which limits, and what people should know before it begins."""

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import trio

import session_core as sc
from frontends.arguments import UsageError
from frontends.commands.sessions.patience import PatientStore
from frontends.shared.progress import ProgressLine
from frontends.shared.sanitise import one_line
from frontends.shared.style import Style

MCP_PATIENCE_S = 10.0
"""How long a turn waits for MCP servers that are still starting: its model would not learn of their tools later."""
DEMO = "demo"
_REMARK_CHARS = 400
_MODEL_CHARS = 80
_MOST_BROUGHT = 6


@attrs.frozen(kw_only=True)
class AgentRequest:
    """What was asked of the agent.

    Attributes:
        home: Where settings are, and sessions too if it `keeps` any.
        folder: Where it works.
        model: A model by its name or an alias; None takes the one of the settings.
        continued: The session to go on with, whose model counts when none was chosen.
        limits: What one turn may use, where that was said.
        sees: Whether it is given images.
        extensions: Whether extensions may be started.
        flags: What they are told, beside what the settings say.
    """

    home: Path
    folder: str
    keeps: bool = True
    model: str | None = None
    continued: sc.SessionSummary | None = None
    limits: sc.TurnLimits = attrs.field(factory=sc.TurnLimits)
    sees: bool = False
    extensions: bool = True
    flags: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class PreparedAgent:
    """What to open a service with, the model that answers, and sentences for people."""

    service: sc.ServiceConfig
    model: str
    about_model: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    told_of_demo: bool = False
    """Whether the remarks say already that no real model answers, and why."""
    extensions: "sc.ExtensionHost | None" = None
    refusal: str | None = None
    """Why the model cannot be used, unless an extension brings it."""

    @property
    def remarks(self) -> tuple[str, ...]:
        """All that people should know before a turn begins."""
        return (*self.about_model, *self.others)

    @property
    def is_demo(self) -> bool:
        """Whether no real model answers."""
        return isinstance(self.service.models.get(self.model), sc.DemoProvider)

    def check_model(self) -> None:
        """Refuse a model that no extension brings, once all of them have started."""
        if self.refusal is not None and self.model not in self.service.models:
            # That list does not have the models of extensions.
            reason = self.refusal.removesuffix("; see: session-core models --all")
            brought = [one_line(each, _MODEL_CHARS) for each in brought_models(self.extensions)]
            there = f"; they bring {', '.join(brought[:_MOST_BROUGHT])}" if brought else ""
            raise UsageError(f"{reason}; no extension that runs here brings it{there} (see: session-core ext list)")


def brought_models(host: "sc.ExtensionHost | None") -> list[str]:
    """Return the models that extensions list which run now."""
    running = [each for each in host.extensions if each.state == "ready"] if host is not None else []
    providers = [provider for each in running for provider in each.registrations.providers]
    return [f"{provider.name}/{model.id}" for provider in providers for model in provider.models]


@asynccontextmanager
async def open_agent(wanted: AgentRequest, *, progress: bool) -> AsyncGenerator[PreparedAgent]:
    """Set the agent up for the length of the block; `progress` shows on stderr what takes long.

    Raises:
        UsageError: The model of the session cannot be used any more.
        InvalidInput: The configuration is wrong, or the chosen model cannot be used.
    """
    model = wanted.model or (wanted.continued.model if wanted.continued is not None else None)
    refusal = await trio.to_thread.run_sync(_refusal, wanted, model)
    place = sc.current_environment(wanted.home, wanted.folder, keeps=wanted.keeps)
    store = PatientStore(wanted.home) if wanted.keeps else None
    flags = await trio.to_thread.run_sync(_flags, wanted, model)
    async with sc.open_setup(place, flags=flags, store=store, mode="cli") as setup:
        await wait_for_servers(setup.mcp, MCP_PATIENCE_S, progress=progress)
        yield PreparedAgent(
            service=_service(setup.service, wanted),
            model=setup.picked.name,
            told_of_demo=setup.picked.info is None and bool(setup.picked.remark),
            extensions=setup.extensions,
            refusal=None if refusal is None else getattr(refusal, "message", str(refusal)),
            about_model=tuple(_about_model(setup, wanted)),
            others=(
                *setup.remarks,
                *(slip.sentence for slip in sc.unknown_tool_names(setup.settings)),
                *about_servers(setup.mcp.statuses()),
            ),
        )


def _flags(wanted: AgentRequest, model: str | None) -> dict[str, object]:
    """Return the settings that were given on the command line."""
    flags: dict[str, object] = {"model": model, "extensions.use": None if wanted.extensions else False}
    if wanted.flags:  # beside those of the files, not in their place
        flags["extensions.flags"] = [*_config(wanted).extension_flags, *wanted.flags]
    return flags


def _config(wanted: AgentRequest) -> sc.Config:
    folder = Path(wanted.folder)
    return sc.load_config(wanted.home, folder, trust=sc.find_trusted_fingerprint(wanted.home, folder))


def _refusal(wanted: AgentRequest, chosen: str | None) -> Exception | None:
    """Return why a model cannot be used, if an extension could still bring it.

    Raises:
        UsageError: The model of the session cannot be used any more.
        InvalidInput: The chosen model cannot be used.
    """
    config = _config(wanted)
    model = chosen or config.model
    if model in {None, DEMO}:
        return None
    assert model is not None
    try:
        sc.resolve_model(config, model, os.environ)
    except sc.InvalidInput as refused:
        refusal: Exception = refused
        if chosen is None:
            refusal = sc.build_choice_error(config, refused)
        elif wanted.model is None:
            msg = f"the model of this session cannot be used now: {refused.message}; or choose another with --model"
            refusal = UsageError(msg)
    else:
        return None
    if wanted.extensions and sc.extension_may_bring(model, config, wanted.home, Path(wanted.folder), os.environ):
        return refusal
    raise refusal


def _service(config: sc.ServiceConfig, wanted: AgentRequest) -> sc.ServiceConfig:
    said = {key: value for key, value in attrs.asdict(wanted.limits).items() if value is not None}
    # An archived session may be due to be deleted: not now that somebody wants to go on with it.
    spared = wanted.continued is not None and wanted.continued.archived
    return attrs.evolve(
        config,
        turn_limits=attrs.evolve(config.turn_limits, **said),
        retention=sc.Retention() if spared else config.retention,
    )


def _about_model(setup: sc.Setup, wanted: AgentRequest) -> list[str]:
    picked, info = setup.picked, setup.picked.info
    if info is None:
        return [picked.remark] if picked.remark else []
    remarks = [f"{info.name} answers: {picked.remark}"] if picked.remark else []
    if wanted.limits.cost_micros is not None and info.prices is None:
        remarks.append(f"what {info.name} costs is not known, so --max-cost cannot end a turn")
    if wanted.sees and not info.images:
        remarks.append(f"{info.name} cannot see images: it is only told that there are some")
    return remarks


async def wait_for_servers(mcp: "sc.McpServers", patience_s: float, *, progress: bool) -> None:
    """Give MCP servers that are being connected a moment to become ready."""
    waiting = [status.name for status in mcp.statuses() if status.state == "connecting"]
    if not waiting:
        return
    with ProgressLine.on_stderr() if progress else ProgressLine(None) as doing:
        doing(f"connecting to MCP servers: {', '.join(waiting)}")
        with trio.move_on_after(patience_s):
            await mcp.wait_until_settled()


def about_servers(statuses: "Sequence[sc.ServerStatus]") -> list[str]:
    """Say which MCP servers cannot be used in this turn."""
    remarks = []
    for status in statuses:
        if status.state == "failed":
            remarks.append(f"the MCP server {status.name!r} cannot be used: {status.reason} (see: session-core mcp)")
        elif status.state == "connecting":
            remarks.append(f"the MCP server {status.name!r} is not ready yet; its tools come when it is")
    return remarks


def remark_lines(style: Style, remarks: Sequence[str]) -> str:
    """Return sentences for people, a line each."""
    mark = style.yellow(style.symbol("●"))
    return "".join(f"{mark} {one_line(remark, _REMARK_CHARS)}\n" for remark in remarks)
