"""What a handler can use of the host: the session, people, stored values, other extensions, the log."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import attrs

from session_core.sep.protocol.names import UiKind
from session_core.sep.protocol.service_api import DeliverAs, Role
from session_core.sep.sdk.answers import drop_none
from session_core.sep.sdk.link import HostLink
from session_core.sep.sdk.render import RenderBlock

Level = Literal["trace", "debug", "info", "warn", "error"]
Wire = Mapping[str, Any]
"""The context of a dispatch, as received: it entitles the handler to act while the dispatch is open."""


@attrs.frozen
class ExtensionSession:
    """The session that a handler was called for.

    Every method raises `ContextExpired` in the handler of an event, and after the handler has answered.
    """

    _link: HostLink
    _context: Wire

    async def send_message(self, text: str, *, role: Role = "assistant") -> None:
        """Add a message to the conversation without starting a turn."""
        await self._ask("session/send_message", text=text, role=role)

    async def send_user_message(self, text: str, *, deliver_as: DeliverAs = "follow_up") -> None:
        """Send a message as if the user had typed it: into the running turn, after it, or with the next one."""
        await self._ask("session/send_user_message", text=text, deliver_as=deliver_as)

    async def append_entry(self, entry: Mapping[str, Any]) -> None:
        """Store an entry with the session; models never see it."""
        await self._ask("session/append_entry", entry=dict(entry))

    async def set_model(self, model: str, *, provider: str | None = None, thinking: str | None = None) -> None:
        """Choose the model that answers from now on."""
        more = {"provider": provider, "thinking": thinking}
        await self._ask("session/set_model", model=model, **{name: each for name, each in more.items() if each})

    async def state(self) -> dict[str, Any]:
        """Return the state of the session."""
        answer = await self._ask("session/state")
        state = answer.get("state") if isinstance(answer, dict) else None
        return state if isinstance(state, dict) else {}

    async def _ask(self, method: str, **params: Any) -> Any:
        return await self._link.ask(method, {"context": dict(self._context), **params})


@attrs.frozen
class Ui:
    """The people who are watching. Every method raises `NoUi` if no attached client can show or answer it."""

    _link: HostLink
    _context: Wire

    async def confirm(self, prompt: str) -> bool:
        """Ask a yes-or-no question; a dismissed dialog counts as no."""
        return (await self._ask("confirm", prompt=prompt)).get("confirmed") is True

    async def select(self, prompt: str, options: Sequence[str]) -> str | None:
        """Let a person choose one of several options; returns None if the dialog was dismissed."""
        return _text(await self._ask("select", prompt=prompt, options=list(options)), "value")

    async def input(self, prompt: str, *, default: str | None = None) -> str | None:
        """Ask for a line of text; returns None if the dialog was dismissed."""
        return _text(await self._ask("input", prompt=prompt, **drop_none(default=default)), "text")

    async def notify(self, message: str, *, level: Literal["info", "warn", "error"] = "info") -> None:
        """Show people a message."""
        await self._ask("notify", message=message, level=level)

    async def set_status(self, status: str) -> None:
        """Set this extension's part of the status line; an empty text removes it."""
        await self._ask("set_status", status=status)

    async def set_widget(self, widget: RenderBlock) -> None:
        """Show a widget, or replace it if it is shown already; see `render.widget`."""
        await self._ask("set_widget", widget=widget)

    async def set_title(self, title: str) -> None:
        """Set the title of the window."""
        await self._ask("set_title", title=title)

    async def _ask(self, kind: UiKind, **params: Any) -> dict[str, Any]:
        params = {"kind": kind, **params}
        if self._context:
            params["context"] = dict(self._context)
        answer = await self._link.ask("ui/request", params)
        return answer if isinstance(answer, dict) else {}


def _text(answer: Mapping[str, Any], key: str) -> str | None:
    found = answer.get(key)
    return found if isinstance(found, str) and answer.get("cancelled") is not True else None


@attrs.frozen
class Kv:
    """Values that the host stores for this extension across all sessions; they are on disk before `set` returns."""

    _link: HostLink

    async def get(self, key: str, default: Any = None) -> Any:
        """Return the value of a key, or the default."""
        answer = await self._link.ask("kv/get", {"key": key})
        found = answer.get("value") if isinstance(answer, dict) else None
        return default if found is None else found

    async def set(self, key: str, value: Any) -> None:
        """Store any JSON value under a key."""
        await self._link.ask("kv/set", {"key": key, "value": value})

    async def delete(self, key: str) -> None:
        """Delete a key; a missing key is not an error."""
        await self._link.ask("kv/delete", {"key": key})

    async def list(self, prefix: str = "") -> list[str]:
        """Return the keys that start with a prefix."""
        answer = await self._link.ask("kv/list", {"prefix": prefix})
        keys = answer.get("keys") if isinstance(answer, dict) else None
        return [key for key in keys if isinstance(key, str)] if isinstance(keys, list) else []


@attrs.frozen
class Bus:
    """The other extensions. They receive what is published on topics they listen to (`Extension.on_topic`)."""

    _link: HostLink

    async def publish(self, topic: str, payload: Mapping[str, Any] | None = None) -> None:
        """Publish a message to all other extensions; there is no answer."""
        await self._link.tell("bus/publish", {"topic": topic, "payload": dict(payload or {})})


@attrs.frozen
class Log:
    """The log of this extension at the host (`session-core ext logs NAME`). Works from any thread and never blocks."""

    _link: HostLink

    def debug(self, message: str, /, **fields: Any) -> None:
        """Log details for debugging."""
        self.write("debug", message, fields)

    def info(self, message: str, /, **fields: Any) -> None:
        """Log what happened."""
        self.write("info", message, fields)

    def warning(self, message: str, /, **fields: Any) -> None:
        """Log a possible problem."""
        self.write("warn", message, fields)

    warn = warning
    """An alias that matches the protocol's name for this level."""

    def error(self, message: str, /, **fields: Any) -> None:
        """Log an error."""
        self.write("error", message, fields)

    def write(self, level: Level, message: str, fields: Mapping[str, Any] | None = None) -> None:
        """Log a line of any level, with optional JSON fields."""
        fields_param = {"fields": dict(fields)} if fields else {}
        self._link.tell_now("log", {"level": level, "message": message, **fields_param})
