"""The methods of the commands about extensions; `methods.SessionMethods` has them all."""

from abc import ABC, abstractmethod
from typing import TypeVar

from session_core.ids import SessionId
from session_core.vocabulary import extension_commands as c
from session_core.vocabulary import replies as r
from session_core.vocabulary.extensions import NoticeLevel
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import PostedRole
from session_core.vocabulary.session_commands import Command

R = TypeVar("R")


class ExtensionMethods(ABC):
    """What a client can ask of the extensions of a service; each method's contract is that of its command."""

    @abstractmethod
    async def execute(self, command: Command[R], *, idempotency_key: str | None = None) -> R:
        """Run a command and return its reply, or raise one typed error."""

    async def list_extensions(self) -> r.ListExtensionsReply:
        """List the extensions."""
        return await self.execute(c.ListExtensions())

    async def list_commands(
        self, session_id: SessionId | None = None, *, cwd: str | None = None
    ) -> r.ListCommandsReply:
        """List what people can have extensions do now, in a session, in a folder, or everywhere."""
        return await self.execute(c.ListCommands(session_id=session_id, cwd=cwd))

    async def run_command(
        self, session_id: SessionId, name: str, arguments: str = "", *, extension: str | None = None
    ) -> r.RunCommandReply:
        """Have an extension do something in a session, and wait until it is done."""
        return await self.execute(
            c.RunCommand(session_id=session_id, name=name, arguments=arguments, extension=extension)
        )

    async def complete_command(
        self, session_id: SessionId, name: str, partial: str = "", *, extension: str | None = None
    ) -> r.CompleteCommandReply:
        """Ask how the arguments of a command could go on."""
        return await self.execute(
            c.CompleteCommand(session_id=session_id, name=name, partial=partial, extension=extension)
        )

    async def reload_extension(self, name: str, *, folder: str | None = None) -> r.Acknowledged:
        """Let a new process of an extension take over."""
        return await self.execute(c.ReloadExtension(name=name, folder=folder))

    async def enable_extension(self, name: str, *, folder: str | None = None) -> r.Acknowledged:
        """Use an extension again."""
        return await self.execute(c.EnableExtension(name=name, folder=folder))

    async def disable_extension(self, name: str, *, folder: str | None = None) -> r.Acknowledged:
        """Use an extension no longer."""
        return await self.execute(c.DisableExtension(name=name, folder=folder))

    async def press_widget_key(self, session_id: SessionId, extension: str, widget_id: str, key: str) -> r.Acknowledged:
        """Tell an extension that a key was pressed in a widget it shows."""
        return await self.execute(
            c.PressWidgetKey(session_id=session_id, extension=extension, widget_id=widget_id, key=key)
        )

    async def post_message(
        self,
        session_id: SessionId,
        text: str,
        *,
        role: PostedRole = "assistant",
        idempotency_key: str | None = None,
    ) -> r.PostMessageReply:
        """Put a message into the conversation without asking the model for anything."""
        command = c.PostMessage(session_id=session_id, text=text, role=role)
        return await self.execute(command, idempotency_key=idempotency_key)

    async def append_entry(
        self, session_id: SessionId, entry: JsonObject, *, idempotency_key: str | None = None
    ) -> r.Acknowledged:
        """Keep something with the session that no model is ever shown."""
        command = c.AppendEntry(session_id=session_id, entry=entry)
        return await self.execute(command, idempotency_key=idempotency_key)

    async def show_display(
        self,
        session_id: SessionId,
        *,
        status: str | None = None,
        widget: JsonObject | None = None,
        title: str | None = None,
    ) -> r.Acknowledged:
        """Show something beside the conversation."""
        return await self.execute(c.ShowDisplay(session_id=session_id, status=status, widget=widget, title=title))

    async def show_notice(self, session_id: SessionId, message: str, *, level: NoticeLevel = "info") -> r.Acknowledged:
        """Tell whoever watches the session something, once."""
        return await self.execute(c.ShowNotice(session_id=session_id, message=message, level=level))

    async def login_to_provider(self, session_id: SessionId, provider: str) -> r.Acknowledged:
        """Log in to a provider of models that an extension brings."""
        return await self.execute(c.LoginToProvider(session_id=session_id, provider=provider))
