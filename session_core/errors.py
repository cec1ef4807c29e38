"""The errors a caller can get: one small tree, each with a stable `code` for the wire and a sentence for people.

Failures of models, tools and extensions are not here: those are events (law 10). These errors mean that a caller asked
for something that cannot be done, or that a reader must resync.
"""

from typing import TYPE_CHECKING, ClassVar, Literal, Self

if TYPE_CHECKING:
    from session_core.ids import Cursor

CursorProblem = Literal["expired", "foreign_epoch", "future"]


class SessionCoreError(Exception):
    """Base of every error this library raises on purpose.

    Attributes:
        code: Stable, machine-readable name of the error.
        message: One sentence a person understands.
        field: The command field or JSON path that is wrong, when there is one.
    """

    code: ClassVar[str] = "error"

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.field = field

    def fresh_copy(self) -> Self:
        """Return a copy for each of several waiting tasks, because raising an exception modifies the object."""
        fresh = type(self).__new__(type(self), *self.args)
        fresh.__dict__.update(self.__dict__)
        return fresh


class InvalidInput(SessionCoreError):
    """A value given by the caller has the wrong type, size or content; `field` names it."""

    code = "invalid_input"


class ProtocolError(SessionCoreError):
    """Bytes from outside are not a valid message; `field` is the JSON path, such as `$.command.text`."""

    code = "protocol_error"

    def __init__(self, message: str, *, field: str = "$") -> None:
        super().__init__(f"{message} (at {field})", field=field)
        self.reason = message


class NotFound(SessionCoreError):
    """The given session, message, queue item or request does not exist."""

    code = "not_found"


class Conflict(SessionCoreError):
    """The request is well formed but does not fit the current state, for instance a branch switch during a turn."""

    code = "conflict"


class FilesChanged(Conflict):
    """An undo was not started because of these files: their paths, each with the reason."""

    code = "files_changed"

    def __init__(self, message: str, *, files: tuple[tuple[str, str], ...] = (), field: str | None = "force") -> None:
        super().__init__(message, field=field)
        self.files = files


class ChainTooLong(Conflict):
    """Extensions have sent as many messages as may follow from one act of a person; the next one waits for a person."""

    code = "chain_too_long"


class Unavailable(SessionCoreError):
    """The service was set up without the part that the command needs."""

    code = "unavailable"


class ExtensionFailed(SessionCoreError):
    """An extension failed or refused a request; the message is the extension's own if it gave one.

    `number` is the extension's own error code, such as -32001 when there was nobody to ask.
    """

    code = "extension_failed"

    def __init__(self, message: str, *, field: str | None = None, number: int | None = None) -> None:
        super().__init__(message, field=field)
        self.number = number


class Forbidden(SessionCoreError):
    """The client may watch but not act."""

    code = "forbidden"


class Overloaded(SessionCoreError):
    """The mailbox is full; nothing was done and the command may be sent again later."""

    code = "overloaded"


class ServiceClosed(SessionCoreError):
    """The service, stream or subscription is closed."""

    code = "closed"


class Disconnected(SessionCoreError):
    """The connection to the service was lost and could not be restored in time.

    The command may or may not have run; sending it again with the same idempotency key is safe.
    """

    code = "disconnected"


class AccessDenied(SessionCoreError):
    """The server does not let this client in, or not to this session."""

    code = "access_denied"


class InternalError(SessionCoreError):
    """A bug inside the service failed this one command; the service goes on."""

    code = "internal"


class StorageFailed(SessionCoreError):
    """A change could not be saved and may be lost when the service restarts. The service accepts no more changes."""

    code = "storage_failed"


class ReadOnly(SessionCoreError):
    """The service is read-only: the disk has failed, or the store was opened for reading."""

    code = "read_only"


class StoreInUse(SessionCoreError):
    """Another process writes to this home; the message names it."""

    code = "store_in_use"


class StoreDamaged(SessionCoreError):
    """Stored data cannot be read back as it was written; the message says which, and what to do."""

    code = "store_damaged"


class StoreUnusable(SessionCoreError):
    """The store cannot be opened: wrong place, wrong owner, or written by a newer version."""

    code = "store_unusable"


class NoStore(StoreUnusable):
    """No sessions are stored here yet."""

    code = "no_store"


class Lagged(SessionCoreError):
    """The reader fell behind and lost exactly `missed` events; the subscription continues after them."""

    code = "lagged"

    def __init__(self, missed: int) -> None:
        super().__init__(f"the reader fell behind and missed {missed} events; take a new snapshot")
        self.missed = missed


class CursorRefused(SessionCoreError):
    """The stream cannot be resumed at this cursor; take a snapshot instead."""

    code = "cursor_refused"

    _SENTENCES: ClassVar[dict[str, str]] = {
        "expired": "events after this cursor are no longer kept",
        "foreign_epoch": "this cursor belongs to another run of the service",
        "future": "this cursor is ahead of the stream",
    }

    def __init__(self, problem: CursorProblem, cursor: "Cursor") -> None:
        super().__init__(f"{self._SENTENCES[problem]}; take a new snapshot", field="after")
        self.problem: CursorProblem = problem
        self.cursor = cursor
