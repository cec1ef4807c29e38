"""`run` as a client of the home's running service: the same turn, in a session that continues without us."""

import os
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import attrs
import trio

import session_core as sc
from frontends.commands.run.extensions import ui_kinds
from frontends.commands.run.options import ContinuedSession, RunOptions
from frontends.commands.run.prompt_kind import UnusedExtension
from frontends.server.daemon.attached_client import connect_if_running
from frontends.server.daemon.keys import describe_lacking_keys
from frontends.server.daemon.presence import Presence
from frontends.server.daemon.runtime_paths import service_process
from frontends.shared.conversation import work_lines
from frontends.shared.folder_config import load_folder_config
from frontends.shared.home import format_command
from frontends.shared.parser import UsageError
from frontends.shared.streams import StandardStreams

if TYPE_CHECKING:
    from frontends.client import RemoteFeed, SessionClient

R = TypeVar("R")

NAME = "run"


class ServiceFeed:
    """The feed of a session of the service; an error marks its end, or the end of the service."""

    def __init__(self, feed: "RemoteFeed", presence: Presence, go_on: str) -> None:
        self._feed = feed
        self._presence = presence
        self._go_on = go_on

    @property
    def last_resync(self) -> sc.Resync | None:
        """The reason for the newest snapshot."""
        return self._feed.last_resync

    async def receive_batch(self) -> list[sc.FeedItem]:
        """Wait until there is something, then return all of it, in order.

        Raises:
            NotFound: The session was deleted.
            Disconnected: The service is gone.
        """
        import anyio  # imported late: an embedded service does not need it

        reason = ""
        with self._presence.read_while_present():
            try:
                return await self._feed.receive_batch()
            except anyio.EndOfStream:
                raise sc.NotFound("the session was deleted by another client") from None
            except sc.Disconnected as error:
                reason = error.message
        raise sc.Disconnected(
            f"{reason or self._presence.gone}; the turn was interrupted; to continue it: {self._go_on}"
        )


class ServiceClient(sc.SessionMethods):
    """The service as `run` sees it: the same methods as one in this process."""

    def __init__(self, client: "SessionClient", presence: Presence, home: Path) -> None:
        self._client = client
        self._presence = presence
        self._home = home

    @property
    def client_id(self) -> sc.ClientId:
        """Our id among the clients of the service."""
        return self._client.client_id

    async def execute(self, command: sc.Command[R], *, idempotency_key: str | None = None) -> R:
        """Run a command and return its reply, or raise one typed error."""
        return await self._client.execute(command, idempotency_key=idempotency_key)

    @asynccontextmanager
    async def follow(self, session_id: sc.SessionId) -> AsyncGenerator[ServiceFeed]:
        """Follow one session for the duration of the block."""
        go_on = format_command(self._home, "run", f"--session {session_id}")
        async with self._client.follow(session_id) as feed:
            yield ServiceFeed(feed, self._presence, go_on)


Client = sc.SessionService | sc.AttachedClient | ServiceClient


@attrs.frozen(kw_only=True)
class OpenedService:
    """A service that is ready for a turn.

    Attributes:
        client: The service, as our client.
        options: What is to be done, with the names that this service knows.
        unused: The extensions that do not run.
        meet: To be called with the session before anything happens in it.
    """

    client: Client
    options: RunOptions
    unused: Sequence[UnusedExtension] = ()
    meet: Callable[[sc.SessionState], Awaitable[None]] | None = None


@asynccontextmanager
async def open_running_service(
    options: RunOptions, known: ContinuedSession | None, streams: StandardStreams
) -> AsyncGenerator[OpenedService | None]:
    """Have a turn in the home's running service; yields None if none is running, or none is to be used.

    Raises:
        UsageError: Something in the settings or the options does not fit this service.
    """
    if options.home is None or not options.is_persistent or options.embedded:
        yield None
        return
    home, folder = options.home, options.find_folder(known)
    async with open_service(home, ui_kinds(streams)) as client:
        if client is None:
            yield None
            return
        _refuse_start_options(options, home)
        if options.interaction.is_narrated:
            await streams.err.write(work_lines.remark_lines(streams.err.style, await about_folder(home, folder)))
        try:
            async with explain_config_problems(home, folder):
                chosen = attrs.evolve(
                    options,
                    model=await resolve_model_name(home, folder, options.model),
                    cwd=folder if known is None else options.cwd,
                )
                meet = partial(_announce_demo_model, client, chosen, home, streams)
                yield OpenedService(client=client, options=chosen, meet=meet)
                return
        except sc.NotFound as refused:
            if refused.field != "model":
                raise
            end = format_command(home, "shutdown", "")
            raise UsageError(
                "the running service has the keys and settings it was started with (to use yours, end it: "
                f"{end}); {refused.message}"
            ) from refused


def _refuse_start_options(options: RunOptions, home: Path) -> None:
    """Reject options about how a service is started, which come too late for a running one."""
    option = "--no-extensions" if not options.extensions else "--flag" if options.flags else None
    if option is not None:
        end = format_command(home, "shutdown", "")
        raise UsageError(
            f"{option} works only when a service starts, and one is already running for this home; end it ({end}), "
            "or use --no-save"
        )


async def _announce_demo_model(
    client: ServiceClient, options: RunOptions, home: Path, streams: StandardStreams, state: sc.SessionState
) -> None:
    """Report that no real model answers, if the service has none for this session, and the likely reason."""
    if state.settings.model == sc.setup.DEMO and options.asks_model and not options.interaction.quiet:
        await streams.err.write(work_lines.demo_notice(streams.err.style, state.settings.model) + "\n")
        if options.model is None:
            lacking = await describe_lacking_keys(client, home, Path(state.settings.cwd))
            await streams.err.write(work_lines.remark_lines(streams.err.style, [lacking] if lacking else []))


@asynccontextmanager
async def open_service(home: Path, ui: frozenset[sc.extensions.UiKind]) -> AsyncGenerator[ServiceClient | None]:
    """Connect to the service of a home for the duration of the block; yields None if none is running."""
    presence = Presence(home)
    async with connect_if_running(home, name=NAME, ui=ui, on_state=presence.note) as client:
        if client is None:
            yield None
            return
        async with trio.open_nursery() as nursery:
            nursery.start_soon(presence.run)
            yield ServiceClient(client, presence, home)
            nursery.cancel_scope.cancel(reason="the turn is over")


@contextmanager
def explain_home_in_use(home: Path | None, *, embedded: bool) -> Generator[None]:
    """Add advice to the error about a home in use, if its user is the service that `--embedded` bypasses."""
    try:
        yield
    except (sc.StoreInUse, ExceptionGroup) as error:
        used = error.subgroup(sc.StoreInUse) if isinstance(error, ExceptionGroup) else error
        if used is None or home is None or not embedded or (holder := service_process(home)) is None:
            raise
        who = f"this home is in use by {holder}"
        raise sc.StoreInUse(f"{who}; leave out --embedded, or: {format_command(home, 'shutdown', '')}") from error


@asynccontextmanager
async def explain_config_problems(home: Path, folder: str) -> AsyncGenerator[None]:
    """Report everything wrong in a folder's settings when a service refuses something because of the first error.

    Raises:
        UsageError: The settings are wrong.
    """
    try:
        yield
        return
    except (sc.InvalidInput, ExceptionGroup) as error:
        if isinstance(error, ExceptionGroup) and error.subgroup(sc.InvalidInput) is None:
            raise
        refused = error
    problems = await trio.to_thread.run_sync(_problems, home, folder)
    if not problems:
        raise refused
    wrong = "a setting is wrong" if len(problems) == 1 else f"{len(problems)} settings are wrong"
    see = f"to check them again: {format_command(home, 'config check', '')}"
    raise UsageError(f"{wrong}, so nothing was started", details=(*problems, see)) from refused


def _problems(home: Path, folder: str) -> tuple[str, ...]:
    try:
        load_folder_config(home, Path(folder))
    except sc.setup.ConfigInvalid as invalid:
        return tuple(each.sentence for each in invalid.problems)
    except sc.SessionCoreError:
        pass
    return ()


async def resolve_model_name(home: Path, folder: str, model: str | None) -> str | None:
    """Return the name of a model, resolving an alias; only the service knows whether the model is usable."""

    def look(wanted: str) -> str:
        config = load_folder_config(home, Path(folder))
        try:
            return sc.setup.resolve_model(config, wanted, os.environ).name
        except sc.InvalidInput:
            return wanted

    return None if model is None else await trio.to_thread.run_sync(look, model)


async def about_folder(home: Path, folder: str) -> tuple[str, ...]:
    """Return remarks about the folder that people should see before a turn begins there."""

    def look() -> tuple[str, ...]:
        trusted = sc.setup.find_trusted_fingerprint(home, Path(folder)) is not None
        return tuple(sc.setup.list_trust_remarks(sc.setup.current_environment(home, folder), trusted=trusted))

    return await trio.to_thread.run_sync(look)
