"""Commands about extensions: list them, have them do something, and what they themselves do in sessions.

`commands` collects them all.
"""

from typing import ClassVar

from session_core.ids import SessionId
from session_core.vocabulary import replies
from session_core.vocabulary.argument_checks import checked_value
from session_core.vocabulary.extensions import NoticeLevel
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import PostedRole
from session_core.vocabulary.session_commands import Command, Lane

# --- for people -------------------------------------------------------------------------------------------------------


@checked_value
class ListExtensions(Command[replies.ListExtensionsReply]):
    """List the extensions, with how they are and what they bring."""

    reads_only: ClassVar[bool] = True


@checked_value
class ListCommands(Command[replies.ListCommandsReply]):
    """List what people can have extensions do now: in a session or a folder, or, when none is named, everywhere.

    Extensions of the project in that folder are started before, if they may run.
    """

    reads_only: ClassVar[bool] = True
    session_id: SessionId | None = None
    cwd: str | None = None


@checked_value
class RunCommand(Command[replies.RunCommandReply]):
    """Have an extension do something in a session; replies when it is done.

    It runs beside turns: the session is not busy with it, so that it may send messages and start turns there. A stop of
    the session ends it. Of several extensions with a command of this name, the first one does it, or the named one.
    """

    session_id: SessionId
    name: str
    arguments: str = ""
    extension: str | None = None


@checked_value
class CompleteCommand(Command[replies.CompleteCommandReply]):
    """Ask how the arguments of a command could go on; an extension that fails to answer knows none."""

    reads_only: ClassVar[bool] = True
    session_id: SessionId
    name: str
    partial: str = ""
    extension: str | None = None


@checked_value
class ReloadExtension(Command[replies.Acknowledged]):
    """Let a new process of an extension take over from the old one; if it fails to start, the old one stays.

    `folder` tells which one is meant, where several folders have one of this name (see `ExtensionInfo`).
    """

    name: str
    folder: str | None = None


@checked_value
class EnableExtension(Command[replies.Acknowledged]):
    """Use an extension again that was disabled, from now on and after every restart; `folder` as in a reload."""

    name: str
    folder: str | None = None


@checked_value
class DisableExtension(Command[replies.Acknowledged]):
    """Use an extension no longer, from now on and after every restart; `folder` as in a reload."""

    name: str
    folder: str | None = None


@checked_value
class PressWidgetKey(Command[replies.Acknowledged]):
    """Tell an extension that a key was pressed in a widget it shows; a command may be waiting for just that."""

    lane: ClassVar[Lane] = "beside"
    session_id: SessionId
    extension: str
    widget_id: str
    key: str


# --- for extensions themselves ----------------------------------------------------------------------------------------


@checked_value
class PostMessage(Command[replies.PostMessageReply]):
    """Put a message into the conversation without asking the model for anything.

    While a turn runs it waits like a follow-up, and joins the conversation when the turn would end; unlike a follow-up
    it does not make the turn go on.
    """

    session_id: SessionId
    text: str
    role: PostedRole = "assistant"


@checked_value
class AppendEntry(Command[replies.Acknowledged]):
    """Keep something with the session that no model is ever shown."""

    session_id: SessionId
    entry: JsonObject


@checked_value
class ShowDisplay(Command[replies.Acknowledged]):
    """Show something beside the conversation, until something else is shown.

    What is left out stays as it was; an empty text or object takes it away. When all three are left out, nothing of
    the caller is shown any more.
    """

    session_id: SessionId
    status: str | None = None
    widget: JsonObject | None = None
    title: str | None = None


@checked_value
class ShowNotice(Command[replies.Acknowledged]):
    """Tell whoever watches the session something, once."""

    session_id: SessionId
    message: str
    level: NoticeLevel = "info"


@checked_value
class LoginToProvider(Command[replies.Acknowledged]):
    """Log in to a provider of models that an extension brings; its questions are asked in the session.

    Replies when it is done. A stop of the session ends it.
    """

    session_id: SessionId
    provider: str
