"""What the events of extensions do to a session's state; total, like all of `appliers`, which collects them."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import attrs

from session_core import limits
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.extensions import ExtensionDisplay
from session_core.vocabulary.messages import LiveTool, ToolProgress

if TYPE_CHECKING:
    from session_core.session.state import SessionState


def displayed(state: "SessionState", event: ev.ExtensionDisplayed, _: SessionEvent) -> None:
    """Show what the extension shows now, in its old place; what is empty is not shown at all."""
    shown = {each.extension: each for each in state.displays}
    before = shown.get(event.extension, ExtensionDisplay(extension=event.extension))
    if event.status is None and event.widget is None and event.title is None:
        before = ExtensionDisplay(extension=event.extension)
    now = ExtensionDisplay(
        extension=event.extension,
        status=(before.status if event.status is None else event.status) or None,
        widget=(before.widget if event.widget is None else event.widget) or None,
        title=(before.title if event.title is None else event.title) or None,
    )
    if now == ExtensionDisplay(extension=event.extension):
        shown.pop(event.extension, None)
    elif event.extension in shown or len(shown) < limits.MAX_DISPLAYS:
        shown[event.extension] = now
    state.displays = tuple(shown.values())


def entry_appended(state: "SessionState", event: ev.EntryAppended, _: SessionEvent) -> None:
    """Keep the newest entries."""
    state.entries = (*state.entries, event.entry)[-limits.MAX_ENTRIES :]


def tool_progressed(state: "SessionState", event: ev.ToolProgressed, _: SessionEvent) -> None:
    """Note how far a tool is that still runs."""

    def progressed(tool: LiveTool) -> LiveTool:
        if tool.call_id != event.call_id or tool.result is not None:
            return tool
        before = tool.progress or ToolProgress()
        now = ToolProgress(
            message=before.message if event.message is None else event.message,
            progress=before.progress if event.progress is None else event.progress,
            details=before.details if event.details is None else event.details,
        )
        return attrs.evolve(tool, progress=now)

    state.tools = tuple(map(progressed, state.tools))


EXTENSION_APPLIERS: dict[type, Callable[..., Any]] = {
    ev.ExtensionDisplayed: displayed,
    ev.EntryAppended: entry_appended,
    ev.ToolProgressed: tool_progressed,
}
