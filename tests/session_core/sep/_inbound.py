"""An extension that asks, and a service and a host that write down what reaches them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs

from session_core.ids import SessionId
from session_core.rpc.failures import RpcFailed
from session_core.rpc.messages import Notification, Request
from session_core.sep.host.calls.contexts import Contexts
from session_core.sep.host.calls.requests import InboundRequests, LogLevel
from session_core.sep.host.catalogue.discovery import DiscoveredExtension
from session_core.sep.host.registrations import Registrations
from session_core.sep.protocol.manifest import Capabilities, Manifest, RunSpec
from session_core.sep.protocol.names import CAPABILITIES, UI_KINDS, Capability, UiKind
from session_core.sep.protocol.service_api import DeliverAs, ExtensionCaller, ProgramResult, Role
from session_core.storage.memory import MemoryStore

SESSION = SessionId("ses_here")
OTHER_SESSION = SessionId("ses_other")


@attrs.define
class Speaking:
    """An extension, as `InboundRequests` sees it."""

    name: str
    manifest: Manifest
    generation: int = 1
    registrations: Registrations = attrs.field(factory=Registrations)

    @property
    def found(self) -> DiscoveredExtension:
        return DiscoveredExtension(name=self.name, folder=Path("/x"), scope="user", manifest=self.manifest, digest="")

    def manifest_of(self, generation: int) -> Manifest:
        return self.manifest


def speaking(
    name: str = "ext", *, without: tuple[Capability, ...] = (), registrations: Registrations | None = None
) -> Speaking:
    enabled = frozenset(CAPABILITIES).difference(without)
    manifest = Manifest(name=name, version="1", run=RunSpec(command="run"), capabilities=Capabilities(enabled=enabled))
    return Speaking(name, manifest, registrations=registrations or Registrations())


class Service:
    """A delegate that writes down what it is asked; values are kept in a real store."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.kinds: frozenset[UiKind] = frozenset(UI_KINDS)
        self.answer: Mapping[str, Any] = {"confirmed": True}
        self.error: Exception | None = None
        self.store = MemoryStore()
        self.callers: list[ExtensionCaller] = []

    def _called(self, what: str, caller: ExtensionCaller | None, *arguments: Any) -> None:
        if caller is not None:
            self.callers.append(caller)
        self.calls.append((what, caller and caller.session_id, *arguments))
        if self.error is not None:
            raise self.error

    def ui_kinds(self) -> frozenset[UiKind]:
        return self.kinds

    def tell_people(self, extension: str, message: str) -> None:
        self._called("tell_people", None, extension, message)

    async def send_message(self, caller: ExtensionCaller, text: str, role: Role) -> None:
        self._called("send_message", caller, text, role)

    async def send_user_message(self, caller: ExtensionCaller, text: str, deliver_as: DeliverAs) -> None:
        self._called("send_user_message", caller, text, deliver_as)

    async def append_entry(self, caller: ExtensionCaller, entry: Mapping[str, Any]) -> None:
        self._called("append_entry", caller, entry)

    async def set_model(self, caller: ExtensionCaller, model: str, provider: str | None, thinking: str | None) -> None:
        self._called("set_model", caller, model, provider, thinking)

    async def state(self, caller: ExtensionCaller) -> Mapping[str, Any]:
        self._called("state", caller)
        return {"name": "a session"}

    async def ask(self, caller: ExtensionCaller, kind: UiKind, params: Mapping[str, Any]) -> Mapping[str, Any]:
        self._called("ask", caller, kind, params)
        return self.answer

    async def run_program(
        self, caller: ExtensionCaller, command: str, args: tuple[str, ...], cwd: str | None
    ) -> ProgramResult:
        self._called("run_program", caller, command, args, cwd)
        return ProgramResult(stdout="out", stderr="err", exit_code=3)

    def active_tools(self, caller: ExtensionCaller, wanted: tuple[str, ...]) -> tuple[str, ...]:
        self._called("active_tools", caller, wanted)
        return wanted[:1]

    async def kv_get(self, extension: str, key: str) -> Any:
        self._called("kv_get", None, extension, key)
        return await self.store.kv_get(extension, key)

    async def kv_set(self, extension: str, key: str, value: Any) -> None:
        self._called("kv_set", None, extension, key, value)
        await self.store.kv_set(extension, key, value)

    async def kv_delete(self, extension: str, key: str) -> None:
        self._called("kv_delete", None, extension, key)
        await self.store.kv_delete(extension, key)

    async def kv_list(self, extension: str, prefix: str) -> tuple[str, ...]:
        self._called("kv_list", None, extension, prefix)
        return await self.store.kv_list(extension, prefix)


class Host:
    """Writes down what extensions tell."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.logged: list[tuple[str, str, str, Any]] = []

    def admits_to_bus(self, extension: str) -> bool:
        return True

    def publish(self, extension: str, topic: str, payload: Mapping[str, Any]) -> None:
        self.told.append(("publish", extension, topic, payload))

    def registry_updated(self, extension: str, registrations: Registrations) -> None:
        self.told.append(("registry", extension, registrations))

    def tool_update(
        self, extension: str, call_id: str, *, message: str | None, progress: float | None, details: Any
    ) -> None:
        self.told.append(("tool", extension, call_id, message, progress, details))

    def provider_delta(self, extension: str, request_id: str, event: Mapping[str, Any]) -> None:
        self.told.append(("delta", extension, request_id, event))

    def log(self, extension: str, level: LogLevel, message: str, fields: Mapping[str, Any] | None) -> None:
        self.logged.append((extension, level, message, fields))


class World:
    """Everything that stands around an extension that asks."""

    def __init__(self, host: Host | None = None) -> None:
        self.contexts = Contexts()
        self.service = Service()
        self.host = host or Host()
        self.inbound = InboundRequests(self.contexts, self.service, self.host)
        self._ids = 0

    async def ask(self, extension: Speaking, method: str, params: dict[str, Any] | None = None, **more: Any) -> Any:
        """Let an extension ask; each request has an id of its own unless one is given."""
        self._ids += 1
        request = Request(id=more.pop("id", self._ids), method=method, params=params or {})
        return await self.inbound.handle_request(extension, more.pop("generation", extension.generation), request)

    async def refusal(self, extension: Speaking, method: str, params: dict[str, Any] | None = None) -> RpcFailed:
        """Let an extension ask for what it must not get, and return what it is told."""
        before = len(self.service.calls)
        try:
            answer = await self.ask(extension, method, params)
        except RpcFailed as failed:
            assert len(self.service.calls) == before, "the service must not see what is refused"
            return failed
        raise AssertionError(f"{method} was answered: {answer}")

    def tell(self, extension: Speaking, method: str, params: dict[str, Any] | None = None) -> None:
        """Let an extension tell something."""
        notification = Notification(method=method, params=params or {})
        self.inbound.handle_notification(extension, extension.generation, notification)
