"""A service in this process for one turn: its model, its limits, and remarks for people before it begins."""

import os
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import attrs
import trio

import session_core as sc
from frontends.commands.run.attached_service import OpenedService
from frontends.commands.run.extensions import (
    CLIENT,
    collect_extension_remarks,
    list_unused_extensions,
    ui_kinds,
    wait_until_started,
)
from frontends.commands.run.options import ContinuedSession, RunOptions
from frontends.commands.run.prompt_kind import UnusedExtension
from frontends.server.home_service import open_home_service
from frontends.shared.conversation import work_lines
from frontends.shared.folder_config import load_folder_config
from frontends.shared.parser import UsageError
from frontends.shared.progress import ProgressLine
from frontends.shared.sanitise import one_line
from frontends.shared.streams import StandardStreams

_MODEL_CHARS = 80
_MOST_BROUGHT = 6


@attrs.frozen(kw_only=True)
class EmbeddedRun:
    """A service in this process, for one turn in one folder.

    Attributes:
        setup, service: The service, and what it was opened with.
        options: What is to be done.
        folder: Where.
        refusal: Why the model cannot be used, unless an extension provides it.
    """

    setup: sc.setup.Setup
    service: sc.SessionService
    options: RunOptions
    folder: str
    refusal: str | None = None

    @property
    def model(self) -> str:
        """The model that answers."""
        return self.setup.picked.name

    @property
    def is_demo(self) -> bool:
        """Whether no real model answers."""
        return self.model == sc.setup.DEMO

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
        if self.refusal is not None and self.model not in self.setup.service.models:
            # That list lacks the models of extensions.
            reason = self.refusal.removesuffix("; see: session-core models --all")
            brought = [one_line(each, _MODEL_CHARS) for each in brought_models(self.hosts)]
            there = f"; they provide {', '.join(brought[:_MOST_BROUGHT])}" if brought else ""
            raise UsageError(f"{reason}; no running extension provides it{there} (see: session-core ext list)")

    async def list_remarks(self) -> list[str]:
        """Return everything people should know before a turn begins."""
        folder = await self.setup.folders.load(self.folder)
        slips = [slip.sentence for slip in sc.setup.unknown_tool_names(folder.config)]
        return [*(self._about_model() if self.options.asks_model else ()), *self.setup.remarks, *slips]

    def _about_model(self) -> list[str]:
        picked, info = self.setup.picked, self.setup.picked.info
        if info is None:
            return [picked.remark] if picked.remark else []
        remarks = [f"{info.name} answers: {picked.remark}"] if picked.remark else []
        if self.options.limits.cost_micros is not None and info.prices is None:
            remarks.append(f"the price of {info.name} is unknown, so --max-cost cannot end a turn")
        if self.options.attached.images and not info.images:
            remarks.append(f"{info.name} cannot see images: it is only told that they exist")
        return remarks

    async def introduce(self, streams: StandardStreams) -> None:
        """Report which model answers, if one is asked, and what people should know before."""
        interaction = self.options.interaction
        told_of_demo = interaction.is_narrated and bool(self.setup.picked.remark)
        if self.options.asks_model and self.is_demo and not interaction.quiet and not told_of_demo:
            await streams.err.write(work_lines.demo_notice(streams.err.style, self.model) + "\n")
        if interaction.is_narrated:
            await streams.err.write(work_lines.remark_lines(streams.err.style, await self.list_remarks()))

    async def wait_until_ready(self, streams: StandardStreams) -> None:
        """Wait for the extensions, and for the MCP servers if a model is asked; report which of them are not used."""
        narrated = self.options.interaction.is_narrated
        await wait_until_started(self.setup, self.folder, progress=narrated)
        self.check_model()
        remarks = collect_extension_remarks(self.hosts, self.options.flags)
        if self.options.asks_model:
            remarks += await self._connect_servers(progress=narrated)
        if narrated:
            await streams.err.write(work_lines.remark_lines(streams.err.style, remarks))

    async def _connect_servers(self, *, progress: bool) -> list[str]:
        """Open the MCP servers of the folder, give them a moment, and describe those that cannot be used."""
        folder = await self.setup.folders.load(self.folder)
        names = [each.name for each in folder.files.servers if not each.disabled]
        if names:
            with ProgressLine.on_stderr() if progress else ProgressLine(None) as doing:
                doing(f"connecting to MCP servers: {', '.join(names)}")
                (await self.setup.folders.hold(self.folder))()
        return about_servers(folder.servers.statuses())


def brought_models(hosts: "Sequence[sc.extensions.ExtensionHost]") -> list[str]:
    """Return the models of the running extensions."""
    running = [each for host in hosts for each in host.extensions if each.state == "ready"]
    providers = [provider for each in running for provider in each.registrations.providers]
    return [f"{provider.name}/{model.id}" for provider in providers for model in provider.models]


@asynccontextmanager
async def open_embedded(options: RunOptions, known: ContinuedSession | None) -> AsyncGenerator[EmbeddedRun]:
    """Open a service in this process for the duration of the block.

    Raises:
        UsageError: The session's model can no longer be used.
        InvalidInput: The configuration is wrong, or the chosen model cannot be used.
    """
    assert options.home is not None, "the settings are there"
    folder = options.find_folder(known)
    refusal, flags = await trio.to_thread.run_sync(_read_settings, options, options.home, folder, known)
    place = sc.setup.current_environment(options.home, folder, is_persistent=options.is_persistent)
    adjust = partial(_adjust, options=options, known=known)
    opening = open_home_service(place, flags=flags, mode="cli", open_folder=True, adjust=adjust)
    async with opening as (setup, service):
        why = None if refusal is None else getattr(refusal, "message", str(refusal))
        yield EmbeddedRun(setup=setup, service=service, options=options, folder=folder, refusal=why)


@asynccontextmanager
async def open_own_service(
    options: RunOptions, known: ContinuedSession | None, streams: StandardStreams
) -> AsyncGenerator[OpenedService]:
    """Have a turn in a service of this process; raises like `open_embedded`."""
    async with open_embedded(options, known) as embedded:
        # Attached at once: extensions learn at their start what can be asked here.
        with embedded.service.attach(CLIENT, ui=ui_kinds(streams)) as client:
            await embedded.introduce(streams)
            await embedded.wait_until_ready(streams)
            chosen = options if options.model is None else attrs.evolve(options, model=embedded.model)  # not its alias
            yield OpenedService(client=client, options=chosen, unused=embedded.list_unused())


def _read_settings(
    options: RunOptions, home: Path, folder: str, known: ContinuedSession | None
) -> tuple[Exception | None, dict[str, object]]:
    """Return the settings given on the command line, and why the model cannot be used if an extension may provide it.

    Raises:
        UsageError: The session's model can no longer be used.
        InvalidInput: The chosen model cannot be used.
    """
    config = load_folder_config(home, Path(folder))
    chosen = options.model or (known.summary.model if known is not None else None)
    flags: dict[str, object] = {"model": chosen, "extensions.use": None if options.extensions else False}
    if options.flags:  # in addition to those in the files
        flags["extensions.flags"] = [*config.extension_flags, *options.flags]
    return _find_refusal(config, options, home, folder, chosen), flags


def _find_refusal(
    config: sc.setup.Config, options: RunOptions, home: Path, folder: str, chosen: str | None
) -> Exception | None:
    model = chosen or config.model
    if model is None or model == sc.setup.DEMO:
        return None
    try:
        sc.setup.resolve_model(config, model, os.environ)
    except sc.InvalidInput as refused:
        refusal: Exception = refused
        if chosen is None:
            refusal = sc.setup.build_choice_error(config, refused)
        elif options.model is None:
            msg = f"the model of this session cannot be used now: {refused.message}; or choose another with --model"
            refusal = UsageError(msg)
    else:
        return None
    if options.extensions and sc.setup.extension_may_bring(model, config, home, Path(folder), os.environ):
        return refusal
    raise refusal


def _adjust(config: sc.ServiceConfig, options: RunOptions, known: ContinuedSession | None) -> sc.ServiceConfig:
    said = {key: value for key, value in attrs.asdict(options.limits).items() if value is not None}
    # An archived session may be due for deletion, but not while it is being continued.
    spared = known is not None and known.summary.archived
    return attrs.evolve(
        config,
        turn_limits=attrs.evolve(config.turn_limits, **said),
        retention=sc.maintenance.Retention() if spared else config.retention,
    )


def about_servers(statuses: "Sequence[sc.setup.ServerStatus]") -> list[str]:
    """Describe which MCP servers cannot be used in this turn."""
    remarks = []
    for status in statuses:
        if status.state == "failed":
            remarks.append(f"the MCP server {status.name!r} cannot be used: {status.reason} (see: session-core mcp)")
        elif status.state == "connecting":
            remarks.append(f"the MCP server {status.name!r} is not ready yet; its tools appear when it is")
    return remarks
