"""The agent that `run` talks to: which model, which limits, and what people should know before it begins."""

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import trio

import session_core as sc
from frontends.arguments import UsageError
from frontends.console.progress import Progress
from frontends.console.sanitise import one_line
from frontends.console.style import Style
from frontends.stored.patience import PatientStore

MCP_PATIENCE_S = 10.0
"""How long a turn waits for MCP servers that are still starting: its model would not learn of their tools later."""
DEMO = "demo"
_REMARK_CHARS = 400


@attrs.frozen(kw_only=True)
class Wanted:
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
class Agent:
    """What to open a service with, the model that answers, and sentences for people."""

    service: sc.ServiceConfig
    model: str
    remarks: tuple[str, ...] = ()
    told_of_demo: bool = False
    """Whether the remarks say already that no real model answers, and why."""
    extensions: "sc.ExtensionHost | None" = None
    refusal: Exception | None = None
    """Why the model cannot be used, unless an extension brings it."""

    @property
    def is_demo(self) -> bool:
        """Whether no real model answers."""
        return isinstance(self.service.models.get(self.model), sc.DemoProvider)

    def check_model(self) -> None:
        """Refuse a model that no extension brings, once all of them have started."""
        if self.refusal is not None and self.model not in self.service.models:
            raise self.refusal


@asynccontextmanager
async def open_agent(wanted: Wanted, *, progress: bool) -> AsyncGenerator[Agent]:
    """Set the agent up for the length of the block; `progress` shows on stderr what takes long.

    Raises:
        UsageError: The model of the session cannot be used any more.
        InvalidInput: The configuration is wrong, or the chosen model cannot be used.
    """
    model = wanted.model or (wanted.continued.model if wanted.continued is not None else None)
    refusal = None if model is None else await trio.to_thread.run_sync(_refusal, wanted, model)
    late = model if refusal is not None else None
    place = sc.surroundings(wanted.home, wanted.folder, keeps=wanted.keeps)
    store = PatientStore(wanted.home) if wanted.keeps else None
    flags = await trio.to_thread.run_sync(_flags, wanted, None if late is not None else model)
    async with sc.open_setup(place, flags=flags, store=store, mode="cli") as setup:
        if refusal is not None and setup.extensions is None:
            raise refusal
        await wait_for_servers(setup.mcp, MCP_PATIENCE_S, progress=progress)
        yield Agent(
            service=_service(setup.service, wanted),
            model=late or setup.picked.name,
            told_of_demo=setup.picked.info is None and bool(setup.picked.remark),
            extensions=setup.extensions,
            refusal=refusal,
            remarks=(
                *(_about_model(setup, wanted) if late is None else ()),
                *setup.remarks,
                *(slip.sentence for slip in sc.unknown_tool_names(setup.settings)),
                *about_servers(setup.mcp.statuses()),
            ),
        )


def _flags(wanted: Wanted, model: str | None) -> dict[str, object]:
    """Return the settings that were given on the command line."""
    flags: dict[str, object] = {"model": model, "extensions.use": None if wanted.extensions else False}
    if wanted.flags:  # beside those of the files, not in their place
        flags["extensions.flags"] = [*_config(wanted).extension_flags, *wanted.flags]
    return flags


def _config(wanted: Wanted) -> sc.Config:
    folder = Path(wanted.folder)
    return sc.load_config(wanted.home, folder, trust=sc.trusted_project(wanted.home, folder))


def _refusal(wanted: Wanted, model: str) -> Exception | None:
    """Return why a model cannot be used, if an extension could still bring it.

    Raises:
        UsageError: The model of the session cannot be used any more.
        InvalidInput: The chosen model cannot be used.
    """
    config = _config(wanted)
    if model == DEMO:
        return None
    try:
        sc.chosen_model(config, model, os.environ)
    except sc.InvalidInput as refused:
        refusal: Exception = refused
        if wanted.model is None:
            msg = f"the model of this session cannot be used now: {refused.message}; or choose another with --model"
            refusal = UsageError(msg)
    else:
        return None
    provider, slash, _ = model.partition("/")
    known = {each.name for each in config.providers}
    if slash and provider not in known and wanted.extensions and config.extensions:
        return refusal
    raise refusal


def _service(config: sc.ServiceConfig, wanted: Wanted) -> sc.ServiceConfig:
    said = {key: value for key, value in attrs.asdict(wanted.limits).items() if value is not None}
    # An archived session may be due to be deleted: not now that somebody wants to go on with it.
    spared = wanted.continued is not None and wanted.continued.archived
    return attrs.evolve(
        config,
        turn_limits=attrs.evolve(config.turn_limits, **said),
        retention=sc.Retention() if spared else config.retention,
    )


def _about_model(setup: sc.Setup, wanted: Wanted) -> list[str]:
    picked, info = setup.picked, setup.picked.info
    if info is None:
        return [picked.remark] if picked.remark else []
    told = [f"{info.name} answers: {picked.remark}"] if picked.remark else []
    if wanted.limits.cost_micros is not None and info.prices is None:
        told.append(f"what {info.name} costs is not known, so --max-cost cannot end a turn")
    if wanted.sees and not info.images:
        told.append(f"{info.name} cannot see images: it is only told that there are some")
    return told


async def wait_for_servers(mcp: "sc.McpServers", patience_s: float, *, progress: bool) -> None:
    """Give MCP servers that are being connected a moment to become ready."""
    waiting = [status.name for status in mcp.statuses() if status.state == "connecting"]
    if not waiting:
        return
    with Progress.on_stderr() if progress else Progress(None) as doing:
        doing(f"connecting to MCP servers: {', '.join(waiting)}")
        with trio.move_on_after(patience_s):
            await mcp.until_settled()


def about_servers(statuses: "Sequence[sc.ServerStatus]") -> list[str]:
    """Say which MCP servers cannot be used in this turn."""
    told = []
    for status in statuses:
        if status.state == "failed":
            told.append(f"the MCP server {status.name!r} cannot be used: {status.reason} (see: session-core mcp)")
        elif status.state == "connecting":
            told.append(f"the MCP server {status.name!r} is not ready yet; its tools come when it is")
    return told


def remark_lines(style: Style, remarks: Sequence[str]) -> str:
    """Return sentences for people, a line each."""
    mark = style.yellow(style.symbol("●"))
    return "".join(f"{mark} {one_line(remark, _REMARK_CHARS)}\n" for remark in remarks)
