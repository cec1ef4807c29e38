"""Commands about sessions as a whole (create, list, load, read, search, rename, archive, delete, fork), and `!line`.

`Command`, the base of all commands, is here too. `commands` collects them all.
"""

from typing import ClassVar, Generic, Literal, TypeVar

import attrs

from session_core.ids import MessageId, SessionId
from session_core.vocabulary import replies
from session_core.vocabulary.argument_checks import checked_value
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.sessions import PermissionTier, SandboxPolicy, Thinking, TurnLimits
from session_core.vocabulary.snapshots import ServiceSnapshot, SessionSnapshot

R_co = TypeVar("R_co", covariant=True)
Lane = Literal["mailbox", "beside"]


@attrs.frozen(slots=True)
class Command(Generic[R_co]):
    """Base of all commands; the type argument is the reply."""

    lane: ClassVar[Lane] = "mailbox"
    reads_only: ClassVar[bool] = False


# --- sessions ---------------------------------------------------------------------------------------------------------


@checked_value
class CreateSession(Command[replies.CreateSessionReply]):
    """Make a session; what is left out comes from the service's defaults, or from the session it works for.

    `protocol` is how its model acts in a turn, for all of its life. `options` are those of the protocol, by its name:
    `{"code": {"cell_seconds": 60}}`.
    """

    name: str | None = None
    cwd: str | None = None
    model: str | None = None
    permission_tier: PermissionTier | None = None
    sandbox: SandboxPolicy | None = None
    thinking: Thinking | None = None
    limits: TurnLimits | None = None
    parent_id: SessionId | None = None
    protocol: str | None = None
    options: JsonObject | None = None


@checked_value
class ListSessions(Command[replies.ListSessionsReply]):
    """List sessions, newest first."""

    reads_only: ClassVar[bool] = True
    limit: int = 50
    page: str | None = None
    search: str | None = None
    archived: bool | None = False
    running: bool | None = None


@checked_value
class LoadService(Command[ServiceSnapshot]):
    """Take a snapshot of all sessions and their activity."""

    reads_only: ClassVar[bool] = True


@checked_value
class LoadSession(Command[SessionSnapshot]):
    """Take a snapshot of one session; takes nothing away from anybody."""

    reads_only: ClassVar[bool] = True
    session_id: SessionId


@checked_value
class LoadMessages(Command[replies.MessagesReply]):
    """Read older messages: up to `limit` that came right before message number `before` of the session.

    A snapshot holds the newest messages and says with `earlier` how many came before those; ask with that number to go
    on backwards. Left out, `before` is the end of the conversation.
    """

    reads_only: ClassVar[bool] = True
    session_id: SessionId
    before: int | None = None
    limit: int = 100


@checked_value
class SearchMessages(Command[replies.SearchReply]):
    """Find messages of all sessions that hold all these words."""

    reads_only: ClassVar[bool] = True
    text: str
    limit: int = 20


@checked_value
class ListModels(Command[replies.ListModelsReply]):
    """List the models: those that `SwitchModel` takes now, and those that something keeps away.

    Ask for a session or for a folder, or for neither; nobody is asked over the network.
    """

    reads_only: ClassVar[bool] = True
    session_id: SessionId | None = None
    cwd: str | None = None


@checked_value
class FindFiles(Command[replies.FindFilesReply]):
    """Find files and folders beneath a session's working directory whose paths hold these letters in this order.

    Ask for a session, or for the folder of one that is yet to begin; for neither, it is the service's own. What the
    project ignores is left out, and so are places that tools do not touch by themselves. A query with capitals is about
    capitals too. Names are a few seconds old at the most.
    """

    reads_only: ClassVar[bool] = True
    query: str
    session_id: SessionId | None = None
    cwd: str | None = None
    limit: int = 50


@checked_value
class RenameSession(Command[replies.Acknowledged]):
    """Give a session another name."""

    session_id: SessionId
    name: str


@checked_value
class ArchiveSession(Command[replies.Acknowledged]):
    """Put a session away; it must be at rest."""

    session_id: SessionId


@checked_value
class RestoreSession(Command[replies.Acknowledged]):
    """Bring an archived session back."""

    session_id: SessionId


@checked_value
class DeleteSession(Command[replies.Acknowledged]):
    """Stop whatever runs in a session and its child sessions, and remove it for good; the children stay."""

    session_id: SessionId


@checked_value
class ForkSession(Command[replies.CreateSessionReply]):
    """Make a new session that continues from a message of this one (its head if none is named).

    It has the same protocol, with the same options but for those that `options` names.
    """

    session_id: SessionId
    at_message_id: MessageId | None = None
    name: str | None = None
    options: JsonObject | None = None


@checked_value
class RunShellLine(Command[replies.ShellLineReply]):
    """Run a command that a person has typed (`!line`), in a session at rest; the next turn's model sees what it did.

    It runs as the shell tool runs commands: in the sandbox, kept for an undo, shown while it runs, ended by a stop.
    That a person typed it is the yes that a tier would ask for. Rules that deny it count, a read-only session refuses
    it, and what must always be asked for is.
    """

    session_id: SessionId
    line: str
