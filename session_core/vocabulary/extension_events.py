"""Events of extensions: that they come, change and go, and what they show and keep in sessions.

`events` collects them all.
"""

import attrs

from session_core.ids import CallId
from session_core.vocabulary.extensions import ExtensionEntry, ExtensionInfo, NoticeLevel
from session_core.vocabulary.frozen import JsonObject, JsonValue

# --- the service as a whole (no session) ------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class ExtensionChanged:
    """An extension came, or is in another state, or brings something else."""

    extension: ExtensionInfo


@attrs.frozen(kw_only=True)
class ExtensionRemoved:
    """An extension is gone, with everything it brought; `folder` is that of `ExtensionInfo`."""

    name: str
    folder: str | None = None


# --- in a session -----------------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class ExtensionDisplayed:
    """An extension shows something else from now on.

    What is left out stays as it was; an empty text or object takes it away. When all three are left out, nothing of
    this extension is shown any more.
    """

    extension: str
    status: str | None = None
    widget: JsonObject | None = None
    title: str | None = None


@attrs.frozen(kw_only=True)
class EntryAppended:
    """An extension keeps something with the session."""

    entry: ExtensionEntry


@attrs.frozen(kw_only=True)
class NoticeShown:
    """An extension tells people something, once."""

    extension: str
    message: str
    level: NoticeLevel = "info"


@attrs.frozen(kw_only=True)
class ToolProgressed:
    """A running tool tells how far it is, from 0 to 1; what is left out stays as it was."""

    call_id: CallId
    message: str | None = None
    progress: float | None = None
    details: JsonValue = None
