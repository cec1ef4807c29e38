"""An extension with models for tests: a real connection in memory, at whose other end a function answers."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from session_core.rpc.connection import RpcConnection
from session_core.rpc.deadlines import ExtendableTimeout
from session_core.rpc.memory import memory_connection_pair
from session_core.rpc.messages import Notification, Request
from session_core.sep.host.calls.contexts import Contexts
from session_core.sep.host.catalogue.discovery import DiscoveredExtension
from session_core.sep.host.extension import HostedExtension
from session_core.sep.host.models.logins import ProviderLogins
from session_core.sep.host.models.providers import ExtensionProviders
from session_core.sep.host.models.stream import AnswerTimeouts
from session_core.sep.host.process.extension_log import ExtensionLog
from session_core.sep.host.registrations import Registrations, read_registrations
from session_core.sep.protocol.manifest import Manifest, RunSpec
from tests.session_core.sep._children import Host

Answer = Callable[["Peer", dict[str, Any]], Awaitable[Any]]
ACME = {"name": "acme", "oauth": True, "models": [{"id": "large"}, {"id": "small", "display_name": "A small one"}]}


class Peer:
    """The process: keeps what it is asked, and answers by the name of the method."""

    def __init__(self, **answers: Answer) -> None:
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.cancelled: list[str] = []
        self.connection: RpcConnection
        self.hang_up: Callable[[], None]
        self.answers = answers

    async def answer(self, request: Request) -> Any:
        self.asked.append((request.method, request.params))
        finished = False
        try:
            result = await self.answers[request.method.partition("/")[2]](self, request.params)
            finished = True
        except Exception:
            finished = True
            raise
        finally:
            if not finished:
                self.cancelled.append(request.method)
        return result

    async def say(self, params: dict[str, Any], *events: dict[str, Any]) -> None:
        """Stream pieces of the answer to a question."""
        for event in events:
            message = {"request_id": params["request_id"], "event": event}
            await self.connection.notify("provider/delta", message)


class PlayedExtension(HostedExtension):
    """An extension with a process at the other end of a connection, or without one."""

    def __init__(self, name: str, connection: RpcConnection | None, registrations: Registrations) -> None:
        super().__init__(found(name), Host(), ExtensionLog())
        self.generation = 1
        self.state = "ready"
        self.registrations = registrations
        self._connection = connection

    async def request(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        timeout: float | ExtendableTimeout | None,  # noqa: ASYNC109 - as that of an extension
    ) -> Any:
        assert self._connection is not None
        return await self._connection.request(method, params, timeout=timeout)


def found(name: str) -> DiscoveredExtension:
    manifest = Manifest(name=name, version="1", run=RunSpec(command="true"))
    return DiscoveredExtension(
        name=name, folder=Path("/extensions") / name, scope="user", manifest=manifest, digest="0"
    )


def registering(*providers: dict[str, Any]) -> Registrations:
    return read_registrations({"providers": list(providers)})


class Shop:
    """A host with one extension that has models."""

    def __init__(self, extension: PlayedExtension, providers: ExtensionProviders, contexts: Contexts) -> None:
        self.extension = extension
        self.providers = providers
        self.contexts = contexts
        providers.update([extension])


@asynccontextmanager
async def open_shop(
    peer: Peer, *, patience: AnswerTimeouts | None = None, logins: Callable[[Contexts], ProviderLogins] | None = None
) -> AsyncGenerator[Shop]:
    """Have an extension called acme, with a provider called acme, for the length of the block."""
    contexts = Contexts()
    providers = ExtensionProviders(contexts, patience=patience, logins=None if logins is None else logins(contexts))

    def note(notification: Notification) -> None:
        params = notification.params
        providers.streams.delta("acme", params["request_id"], params["event"])

    async with memory_connection_pair(right_requests=peer.answer, left_notifications=note) as (ours, theirs):
        peer.connection, peer.hang_up = theirs, ours.close
        yield Shop(PlayedExtension("acme", ours, registering(ACME)), providers, contexts)
