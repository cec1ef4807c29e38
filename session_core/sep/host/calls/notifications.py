"""Notifications of an extension: progress, deltas, registrations, bus messages, its log.

Nothing here raises for what an extension sends; mistakes are reported in the extension's own log, where its author
looks.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, Protocol, cast, get_args

from session_core import limits
from session_core.sep.host.catalogue.discovery import DiscoveredExtension
from session_core.sep.host.registrations import Registrations
from session_core.sep.protocol.fields import DocumentFields, InvalidDocumentField, check_object
from session_core.sep.protocol.manifest import Manifest
from session_core.sep.protocol.names import Capability
from session_core.wire.error_text import quote_text
from session_core.wire.strict_json import find_excess

LogLevel = Literal["trace", "debug", "info", "warn", "error"]
_LEVELS: Final[tuple[LogLevel, ...]] = get_args(LogLevel)


class ExtensionSender(Protocol):
    """What notifications need of the extension that sends them."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def found(self) -> DiscoveredExtension:
        """Its scope and its folder."""
        ...

    def manifest_of(self, generation: int) -> Manifest:
        """Return what one of its processes may do."""
        ...

    @property
    def generation(self) -> int:
        """The number of the process that currently speaks for it."""
        ...

    @property
    def registrations(self) -> Registrations:
        """What it has registered so far."""
        ...


class HostView(Protocol):
    """What the host does with notifications; nothing here may block.

    Every call names the extension, so none can speak for another one's calls.
    """

    def admits_to_bus(self, extension: str) -> bool:
        """Count a message to the bus; return False if it must be dropped, because the extension sends too many."""
        ...

    def publish(self, extension: str, topic: str, payload: Mapping[str, Any]) -> None:
        """Send a message to all other extensions that listen to the bus."""
        ...

    def registry_updated(self, extension: str, registrations: Registrations) -> None:
        """Replace an extension's registrations with these, old and new together."""
        ...

    def tool_update(
        self, extension: str, call_id: str, *, message: str | None, progress: float | None, details: Any
    ) -> None:
        """Handle the progress of a tool call; ignore a call that is unknown or over."""
        ...

    def provider_delta(self, extension: str, request_id: str, event: Mapping[str, Any]) -> None:
        """Handle a piece of a model's answer; ignore one for an unknown request."""
        ...

    def log(self, extension: str, level: LogLevel, message: str, fields: Mapping[str, Any] | None) -> None:
        """Write to the log of an extension."""
        ...


def has_capability(extension: ExtensionSender, generation: int, capability: Capability) -> bool:
    """Return whether the manifest of a process has a capability."""
    return capability in extension.manifest_of(generation).capabilities.enabled


def dispatch_notification(
    host: HostView, extension: ExtensionSender, generation: int, method: str, params: Mapping[str, Any]
) -> None:
    """Handle a notification; never raises for its contents."""
    take = NOTES.get(method)
    if take is None:
        log_remark(host, extension, f"{quote_text(method)} is not a known notification, and was ignored")
        return
    try:
        take(host, extension, generation, DocumentFields(params))
    except InvalidDocumentField as wrong:
        log_remark(host, extension, f"{method} was ignored: {wrong}")


def log_remark(host: HostView, extension: ExtensionSender, text: str) -> None:
    """Write a remark for the author of an extension to its log."""
    host.log(extension.name, "warn", text[: limits.EXTENSION_LOG_CHARS], None)


def publish(host: HostView, extension: ExtensionSender, generation: int, params: DocumentFields) -> None:
    """Publish a message of an extension to the others, or drop it unread if it sends too many.

    Raises:
        InvalidDocumentField: It is not a valid bus message, or this extension may not use the bus.
    """
    _require_capability(extension, generation, "bus")
    if not host.admits_to_bus(extension.name):
        return
    topic = params.text("topic")
    payload = params.plain.get("payload")
    if payload is None:
        payload = {}
    check_object(payload, "payload", most=limits.MAX_TEXT_CHARS)
    host.publish(extension.name, topic, payload)


def _tool_update(host: HostView, extension: ExtensionSender, generation: int, params: DocumentFields) -> None:
    _require_capability(extension, generation, "tools")
    details = params.plain.get("details")
    check_object({"details": details}, "", most=limits.MAX_SHOWN_CHARS, values=limits.MAX_PROGRESS_VALUES)
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
        fields if isinstance(fields, dict) and not find_excess(fields, chars=limits.EXTENSION_LOG_CHARS) else None,
    )


def _require_capability(extension: ExtensionSender, generation: int, capability: Capability) -> None:
    if not has_capability(extension, generation, capability):
        raise InvalidDocumentField("", f"the manifest does not enable {capability}")


NOTES: Final[Mapping[str, Callable[[HostView, ExtensionSender, int, DocumentFields], None]]] = {
    "tool/update": _tool_update,
    "provider/delta": _provider_delta,
    "bus/publish": publish,
    "log": _log,
}
"""The methods that may come as notifications, besides `registry/update`: see `registry_updates`.

All are accepted as requests too, because peers differ in that."""
