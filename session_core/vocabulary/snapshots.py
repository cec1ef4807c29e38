"""Snapshots: the whole state at a cursor. A snapshot never changes, and taking one affects no other reader."""

import attrs

from session_core.ids import Cursor, SessionId
from session_core.vocabulary.extensions import ExtensionInfo
from session_core.vocabulary.session_fields import SessionFields, require_early_fields
from session_core.vocabulary.session_fields import path_to as path_to
from session_core.vocabulary.sessions import Activity, ClientPresence


@attrs.frozen(kw_only=True, field_transformer=require_early_fields)
class SessionSnapshot(SessionFields):
    """Everything a frontend needs to show one session, including the half-finished message.

    `messages` are the newest messages of the tree in order of creation (a parent always precedes its children);
    `load_messages` reads the `earlier` older ones. `head` is the leaf being shown, which may be an older message after
    a switch to an old branch; `transcript` follows it towards the root. `usage_by` splits `usage` by model and purpose;
    `context_tokens` is the size of the model's context at its newest answer. `displays` is what extensions display, one
    each; `entries` are the newest ones they store with the session. `frames` are those that the protocol has opened,
    and `frame_id` is the open one; None is the frame that every session begins with. `executor` is the state that code
    has left behind, `executor_points` its state at earlier points, as far as retained; `executor_lost` means that code
    has run here whose results are not retained. `driver_memory` is what the protocol's driver remembers about the turn
    that runs, or that may be resumed.
    """

    cursor: Cursor


@attrs.frozen(kw_only=True)
class SessionSummary:
    """One line of the session list."""

    session_id: SessionId
    name: str
    created_at: int
    updated_at: int
    archived: bool
    parent_id: SessionId | None
    cwd: str
    model: str
    activity: Activity
    queued: int = 0
    open_requests: int = 0
    wakeups: int = 0


@attrs.frozen(kw_only=True)
class ServiceSnapshot:
    """All sessions with their activity, oldest first, the clients that are attached, and the extensions.

    `read_only` says why nothing can be changed any more, when the disk has failed. `earlier` counts the sessions that
    are not listed because there are too many: the least recently used ones, those at rest first. `ListSessions`
    includes them; what happens in them changes nothing here, except that `earlier` goes down when one is deleted.
    """

    cursor: Cursor
    sessions: tuple[SessionSummary, ...]
    clients: tuple[ClientPresence, ...] = ()
    read_only: str | None = None
    extensions: tuple[ExtensionInfo, ...] = ()
    earlier: int = 0


@attrs.frozen(kw_only=True)
class Bookmark:
    """Nothing happened for this reader, but the stream advanced: it may resume after this cursor."""

    cursor: Cursor
