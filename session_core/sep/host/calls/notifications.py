"""What an extension tells us without waiting for an answer: progress, deltas, registrations, words on the bus, its log.

Nothing here raises for what an extension says; what is wrong with it is said in the extension's own log, where its
author looks.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Protocol, cast, get_args

import msgspec

from session_core import limits
from session_core.sep.host.catalogue.discovery import DiscoveredExtension
from session_core.sep.host.registrations import Registrations, RegistrationsInvalid, merge_update
from session_core.sep.protocol.fields import DocumentFields, InvalidDocumentField, frozen_object
from session_core.sep.protocol.manifest import Manifest
from session_core.sep.protocol.names import Capability
from session_core.wire.error_text import quote_text

LogLevel = Literal["trace", "debug", "info", "warn", "error"]
_BYTES_PER_CHARACTER: Final = 8  # some take six when they are escaped
_LEVELS: Final[tuple[LogLevel, ...]] = get_args(LogLevel)


class ExtensionSender(Protocol):
    """An extension, as far as it matters who speaks."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def found(self) -> DiscoveredExtension:
        """Whose it is, and where it lies."""
        ...

    def manifest_of(self, generation: int) -> Manifest:
        """What a process of it may do."""
        ...

    @property
    def generation(self) -> int:
        """The number of the process that speaks for it now."""
        ...

    @property
    def registrations(self) -> Registrations:
        """What it has registered so far."""
        ...


class HostView(Protocol):
    """What the host does with what extensions tell; nothing of it may wait.

    Everything comes with the name of the extension, so that nobody can speak for another one's calls.
    """

    def publish(self, extension: str, topic: str, payload: Mapping[str, Any]) -> None:
        """Tell all other extensions that listen to the bus."""
        ...

    def registry_updated(self, extension: str, registrations: Registrations) -> None:
        """Take over all that an extension has registered, old and new together."""
        ...

    def tool_update(
        self, extension: str, call_id: str, *, message: str | None, progress: float | None, details: Any
    ) -> None:
        """Take the progress of a tool call; one that is unknown or over is passed over."""
        ...

    def provider_delta(self, extension: str, request_id: str, event: Mapping[str, Any]) -> None:
        """Take a piece of a model's answer; one for an unknown request is passed over."""
        ...

    def log(self, extension: str, level: LogLevel, message: str, fields: Mapping[str, Any] | None) -> None:
        """Write into the log of an extension."""
        ...


def has_capability(extension: ExtensionSender, generation: int, capability: Capability) -> bool:
    """Tell whether the manifest of a process has a capability."""
    return capability in extension.manifest_of(generation).capabilities.enabled


def check_open_json(plain: object, path: str, *, most: int) -> None:
    """Check a JSON object of any shape; what is far too large is not looked through, as that would take long.

    Raises:
        WrongField: It is no object, nested too deeply, or larger than so many characters.
    """
    if isinstance(plain, dict) and len(msgspec.json.encode(plain)) > _BYTES_PER_CHARACTER * most:
        raise InvalidDocumentField(path, f"is larger than {most:,} characters")
    frozen_object(plain, path, most=most)


def dispatch_notification(
    host: HostView, extension: ExtensionSender, generation: int, method: str, params: Mapping[str, Any]
) -> None:
    """Take a notification; never raises for what it holds."""
    take = NOTES.get(method)
    if take is None:
        log_remark(host, extension, f"{quote_text(method)} is not known as a notification, and was passed over")
        return
    try:
        take(host, extension, generation, DocumentFields(params))
    except (InvalidDocumentField, RegistrationsInvalid) as wrong:
        log_remark(host, extension, f"{method} was passed over: {wrong}")


def log_remark(host: HostView, extension: ExtensionSender, text: str) -> None:
    """Tell the author of an extension something, in its log."""
    host.log(extension.name, "warn", text[: limits.EXTENSION_LOG_CHARS], None)


def update_registry(host: HostView, extension: ExtensionSender, generation: int, params: DocumentFields) -> None:
    """Add what a `registry/update` brings to what is registered.

    Raises:
        RegistrationsInvalid: Something in it is wrong; nothing has changed.
        WrongField: The process does not speak for the extension, or not yet.
    """
    if generation != extension.generation:
        raise InvalidDocumentField("", "only the running process of an extension registers anything")
    host.registry_updated(extension.name, merge_update(extension.registrations, params.plain))


def publish(host: HostView, extension: ExtensionSender, generation: int, params: DocumentFields) -> None:
    """Tell other extensions something.

    Raises:
        WrongField: It is no word for the bus, or this extension may not use it.
    """
    _require_capability(extension, generation, "bus")
    topic = params.text("topic")
    payload = params.plain.get("payload")
    if payload is None:
        payload = {}
    check_open_json(payload, "payload", most=limits.MAX_TEXT_CHARS)
    host.publish(extension.name, topic, payload)


def _tool_update(host: HostView, extension: ExtensionSender, generation: int, params: DocumentFields) -> None:
    _require_capability(extension, generation, "tools")
    details = params.plain.get("details")
    check_open_json({"details": details}, "", most=limits.MAX_SHOWN_CHARS)
    host.tool_update(
        extension.name,
        params.text("call_id"),
        message=params.text_or_none("message", most=limits.MAX_TOOL_OUTPUT_CHARS, empty=True),
        progress=params.number("progress", least=0, most=1),
        details=details,
    )


def _provider_delta(host: HostView, extension: ExtensionSender, generation: int, params: DocumentFields) -> None:
    _require_capability(extension, generation, "providers")
    request_id, event = params.text("request_id"), params.table("event")
    if event is None:
        raise InvalidDocumentField("event", "is missing")
    host.provider_delta(extension.name, request_id, event.plain)


def _log(host: HostView, extension: ExtensionSender, _: int, params: DocumentFields) -> None:
    level, message, fields = (params.plain.get(key) for key in ("level", "message", "fields"))
    if not isinstance(message, str):
        raise InvalidDocumentField("message", "must be text")
    host.log(
        extension.name,
        cast(LogLevel, level) if level in _LEVELS else "info",
        message[: limits.EXTENSION_LOG_CHARS],
        fields if isinstance(fields, dict) else None,
    )


def _require_capability(extension: ExtensionSender, generation: int, capability: Capability) -> None:
    if not has_capability(extension, generation, capability):
        raise InvalidDocumentField("", f"the manifest does not enable {capability}")


NOTES: Final[Mapping[str, Callable[[HostView, ExtensionSender, int, DocumentFields], None]]] = {
    "tool/update": _tool_update,
    "provider/delta": _provider_delta,
    "registry/update": update_registry,
    "bus/publish": publish,
    "log": _log,
}
"""What may come as a notification. All of it is taken as a request too, as peers differ in that."""
