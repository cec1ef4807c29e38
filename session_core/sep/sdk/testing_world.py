"""The surroundings of an extension in a test: requests get the answers that the test gives, and all are recorded.

The order of checks, the codes and the messages are those of a real host, because its own modules do the checking
(`sep.host.calls.requests`, `sep.host.calls.contexts`). Only the service is simulated.
"""

import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import attrs

from session_core.errors import SessionCoreError
from session_core.rpc.failures import INTERNAL_ERROR, RpcFailed
from session_core.sep.host.calls.notifications import LogLevel
from session_core.sep.host.catalogue.discovery import DiscoveredExtension
from session_core.sep.host.registrations import Registrations, filter_permitted
from session_core.sep.protocol import service_api
from session_core.sep.protocol.manifest import Manifest
from session_core.sep.protocol.names import NOT_TRUSTED, QUESTIONS, UI_KINDS, UiKind
from session_core.sep.protocol.service_api import DeliverAs, ExtensionCaller, Role
from session_core.sep.sdk.answers import ExecResult
from session_core.sep.sdk.signatures import describe_unknown

T = TypeVar("T")

Responder = Any
"""The answer of a person, an exception to raise, or a function, async or not, that returns one of these."""


@attrs.frozen
class SessionCall:
    """The extension acted in the session or read it: `send_message`, `append_entry`, `state` and so on."""

    method: str
    params: Mapping[str, Any] = attrs.field(factory=dict)


@attrs.frozen
class UiRequest:
    """The extension asked or showed something."""

    kind: str
    params: Mapping[str, Any]


@attrs.frozen
class BusMessage:
    """The extension published something on the bus."""

    topic: str
    payload: Mapping[str, Any]


@attrs.frozen(kw_only=True)
class Program:
    """The extension ran a program."""

    command: str
    args: tuple[str, ...] = ()
    cwd: str | None = None


@attrs.frozen(kw_only=True)
class ProgressReport:
    """A tool reported its progress."""

    tool: str
    value: float | None = None
    message: str | None = None
    details: Any = None
    call_id: str = attrs.field(default="", eq=False)


@attrs.frozen
class LogLine:
    """A line of the extension's log: its own, or a remark of the host for its author."""

    level: str
    message: str
    fields: Mapping[str, Any] | None = None


class ExtensionUnderTest:
    """The extension, as the modules of a host see it."""

    def __init__(self, found: DiscoveredExtension) -> None:
        self.found = found
        self.name = found.name
        self.generation = 1
        self.registrations = Registrations()

    def manifest_of(self, generation: int) -> Manifest:
        """Return the manifest, which says what the extension may do."""
        return self.found.manifest

    def register(self, registrations: Registrations) -> None:
        """Record what it registered, as far as its manifest permits."""
        self.registrations = filter_permitted(registrations, self.found.manifest)


@attrs.define(kw_only=True, eq=False)
class RecordingBackend:
    """A service and a host that record what reaches them.

    Attributes:
        ui: The answers of people, by kind; a missing kind cannot be handled.
        exec: How programs end: an `ExecResult`, a string as their output, or a function of command, args and folder.
        faults: Exceptions of the test's own functions and of observers, which fail the test.
    """

    subject: ExtensionUnderTest
    ui: dict[UiKind, Responder]
    exec: Responder
    kv: dict[str, Any]
    session_state: dict[str, Any]
    shown_tools: Collection[str] | None
    session_calls: list[SessionCall] = attrs.field(factory=list)
    ui_requests: list[UiRequest] = attrs.field(factory=list)
    programs: list[Program] = attrs.field(factory=list)
    bus: list[BusMessage] = attrs.field(factory=list)
    logs: list[LogLine] = attrs.field(factory=list)
    progress: list[ProgressReport] = attrs.field(factory=list)
    registry: list[Registrations] = attrs.field(factory=list)
    faults: list[Exception] = attrs.field(factory=list)
    tool_calls: dict[str, str] = attrs.field(factory=dict)
    answers: dict[str, list[Mapping[str, Any]]] = attrs.field(factory=dict)

    # --- the service --------------------------------------------------------------------------------------------------

    def ui_kinds(self) -> frozenset[UiKind]:
        """Return the kinds that can be handled."""
        return frozenset(self.ui)

    def tell_people(self, extension: str, message: str) -> None:
        """Do nothing: a test host has no people."""

    async def send_message(self, caller: ExtensionCaller, text: str, role: Role) -> None:
        """Record the call."""
        self.session_calls.append(SessionCall("send_message", {"text": text, "role": role}))

    async def send_user_message(self, caller: ExtensionCaller, text: str, deliver_as: DeliverAs) -> None:
        """Record the call."""
        self.session_calls.append(SessionCall("send_user_message", {"text": text, "deliver_as": deliver_as}))

    async def append_entry(self, caller: ExtensionCaller, entry: Mapping[str, Any]) -> None:
        """Record the call."""
        self.session_calls.append(SessionCall("append_entry", {"entry": dict(entry)}))

    async def set_model(self, caller: ExtensionCaller, model: str, provider: str | None, thinking: str | None) -> None:
        """Record the call."""
        self.session_calls.append(
            SessionCall("set_model", {"model": model, "provider": provider, "thinking": thinking})
        )

    async def state(self, caller: ExtensionCaller) -> Mapping[str, Any]:
        """Return the state that the test has set."""
        self.session_calls.append(SessionCall("state"))
        return dict(self.session_state)

    async def ask(self, caller: ExtensionCaller, kind: UiKind, params: Mapping[str, Any]) -> Mapping[str, Any]:
        """Give the answer of the test."""
        self.ui_requests.append(UiRequest(kind, dict(params)))
        options = params.get("options")
        return await self._run_responder(
            f"the ui request {kind}", self.ui[kind], lambda said: _ui_answer(kind, said, options), dict(params)
        )

    async def run_program(
        self, caller: ExtensionCaller, command: str, args: tuple[str, ...], cwd: str | None
    ) -> service_api.ProgramResult:
        """Return at once with the result that the test has set."""
        self.programs.append(Program(command=command, args=args, cwd=cwd))
        if self.exec is None:
            raise RpcFailed(NOT_TRUSTED, "the test host runs no programs: pass exec= to answer for them")
        return await self._run_responder("exec", self.exec, _to_program_result, command, args, cwd)

    def active_tools(self, caller: ExtensionCaller, wanted: tuple[str, ...]) -> tuple[str, ...]:
        """Record the call; returns only tools that exist."""
        self.session_calls.append(SessionCall("set_active", {"tools": list(wanted)}))
        known = self.shown_tools
        return wanted if known is None else tuple(each for each in wanted if each in known)

    async def kv_get(self, extension: str, key: str) -> Any:
        """Return the stored value."""
        return self.kv.get(key)

    async def kv_set(self, extension: str, key: str, value: Any) -> None:
        """Store the value."""
        self.kv[key] = value

    async def kv_delete(self, extension: str, key: str) -> None:
        """Delete the value."""
        self.kv.pop(key, None)

    async def kv_list(self, extension: str, prefix: str) -> tuple[str, ...]:
        """Return the keys that start with a prefix."""
        return tuple(sorted(key for key in self.kv if key.startswith(prefix)))

    async def _run_responder(self, what: str, responder: Responder, read: Callable[[Any], T], *args: Any) -> T:
        try:
            said = responder
            if callable(responder) and not isinstance(responder, type):
                said = responder(*args)
                if inspect.isawaitable(said):
                    said = await said
            if isinstance(said, Exception):
                raise said
            return read(said)
        except (RpcFailed, SessionCoreError):
            raise
        except Exception as error:
            self.faults.append(error)
            raise RpcFailed(INTERNAL_ERROR, f"the test's own answer to {what} failed: {error}") from error

    # --- the host -----------------------------------------------------------------------------------------------------

    def admits_to_bus(self, extension: str) -> bool:
        """Return True: a test host drops nothing."""
        return True

    def publish(self, extension: str, topic: str, payload: Mapping[str, Any]) -> None:
        """Record the message."""
        self.bus.append(BusMessage(topic, dict(payload)))

    def registry_updated(self, extension: str, registrations: Registrations) -> None:
        """Apply and record the registrations."""
        self.subject.register(registrations)
        self.registry.append(self.subject.registrations)

    def tool_update(
        self, extension: str, call_id: str, *, message: str | None, progress: float | None, details: Any
    ) -> None:
        """Record the progress, unless the call is unknown or over."""
        if (tool := self.tool_calls.get(call_id)) is not None:
            news = ProgressReport(tool=tool, value=progress, message=message, details=details, call_id=call_id)
            self.progress.append(news)

    def provider_delta(self, extension: str, request_id: str, event: Mapping[str, Any]) -> None:
        """Keep a piece of an answer, unless the request is unknown or over."""
        if (pieces := self.answers.get(request_id)) is not None:
            pieces.append(dict(event))

    def log(self, extension: str, level: LogLevel, message: str, fields: Mapping[str, Any] | None) -> None:
        """Record the line."""
        self.logs.append(LogLine(level, message, fields))


def check_kind(kind: str) -> None:
    """Refuse an unknown kind of dialog.

    Raises:
        ValueError: There is no such kind.
    """
    if kind not in UI_KINDS:
        raise ValueError(f"ui: {describe_unknown('kind', kind, UI_KINDS)}")


def _ui_answer(kind: UiKind, said: Any, options: Any) -> dict[str, Any]:
    if isinstance(said, Mapping):
        return dict(said)
    if kind not in QUESTIONS:
        return {}
    if said is None:
        return {"cancelled": True}
    key, type_ = {"confirm": ("confirmed", bool), "select": ("value", str), "input": ("text", str)}[kind]
    if not isinstance(said, type_):
        raise TypeError(f"the answer to {kind} must be a {type_.__name__}, None or a dict, not {said!r}")
    if kind == "select" and isinstance(options, list | tuple) and said not in options:
        raise ValueError(f"the answer to select must be one of {list(options)!r}, None or a dict, not {said!r}")
    return {key: said}


def _to_program_result(said: Any) -> service_api.ProgramResult:
    if isinstance(said, str):
        return service_api.ProgramResult(stdout=said, stderr="", exit_code=0)
    if isinstance(said, ExecResult | service_api.ProgramResult):
        return service_api.ProgramResult(stdout=said.stdout, stderr=said.stderr, exit_code=said.exit_code)
    raise TypeError(f"a program must end with an ExecResult or a string, not {said!r}")
