"""Which of its tools a session's model is shown, when somebody has narrowed that."""

from collections.abc import Collection, Mapping

from session_core.ids import SessionId
from session_core.tools.base import Tool

_MOST_SESSIONS = 4_096  # the longest unchanged are forgotten first, and are shown all their tools again


class ActiveTools:
    """A choice per session; it can only leave tools out, and lasts as long as the service."""

    def __init__(self) -> None:
        self._chosen: dict[SessionId, frozenset[str]] = {}

    def choose(self, session_id: SessionId, names: Collection[str]) -> None:
        """Show a session's model no other tools than these, from its next call on."""
        self._chosen.pop(session_id, None)
        self._chosen[session_id] = frozenset(names)
        if len(self._chosen) > _MOST_SESSIONS:
            del self._chosen[next(iter(self._chosen))]

    def forget(self, session_id: SessionId) -> None:
        """Show all tools again."""
        self._chosen.pop(session_id, None)

    def among(self, session_id: SessionId, tools: Mapping[str, Tool]) -> dict[str, Tool]:
        """Return those of a session's tools that its model is shown."""
        chosen = self._chosen.get(session_id)
        return dict(tools) if chosen is None else {name: tool for name, tool in tools.items() if name in chosen}
