"""One async method per command: what the service, its clients and remote clients all offer.

A method only builds the command and passes it to `execute`, so all entry points share one catalogue and one contract.
Call `execute` directly to add an idempotency key, which makes it safe to send a command twice.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import TypeVar

from session_core.ids import ClientId, MessageId, QueueItemId, RequestId, SessionId, TurnId, WakeupId
from session_core.vocabulary import commands as c
from session_core.vocabulary import replies as r
from session_core.vocabulary.extensions import NoticeLevel
from session_core.vocabulary.frozen import JsonObject, JsonValue
from session_core.vocabulary.messages import FilePart, ImagePart, PostedRole
from session_core.vocabulary.protocols import NewMessage
from session_core.vocabulary.sessions import (
    Decision,
    DeliverAs,
    DialogKind,
    ExtraRight,
    PermissionMode,
    QueueOnStop,
    SandboxPolicy,
    StopScope,
    Thinking,
    TurnLimits,
)
from session_core.vocabulary.snapshots import ServiceSnapshot, SessionSnapshot

R = TypeVar("R")
Images = tuple[ImagePart, ...]
Files = tuple[FilePart, ...]


class SessionMethods(ABC):
    """Everything a client can ask of a session service; each method's contract is that of its command."""

    @abstractmethod
    async def execute(self, command: c.Command[R], *, idempotency_key: str | None = None) -> R:
        """Run a command and return its reply, or raise one typed error."""

    # --- sessions -----------------------------------------------------------------------------------------------------

    async def create_session(
        self,
        *,
        name: str | None = None,
        cwd: str | None = None,
        model: str | None = None,
        permission_mode: PermissionMode | None = None,
        sandbox: SandboxPolicy | None = None,
        thinking: Thinking | None = None,
        limits: TurnLimits | None = None,
        parent_id: SessionId | None = None,
        protocol: str | None = None,
        options: JsonObject | None = None,
        idempotency_key: str | None = None,
    ) -> r.CreateSessionReply:
        """Create a session; omitted fields come from the service's defaults."""
        command = c.CreateSession(
            name=name,
            cwd=cwd,
            model=model,
            permission_mode=permission_mode,
            sandbox=sandbox,
            thinking=thinking,
            limits=limits,
            parent_id=parent_id,
            protocol=protocol,
            options=options,
        )
        return await self.execute(command, idempotency_key=idempotency_key)

    async def list_sessions(
        self,
        *,
        limit: int = 50,
        page: str | None = None,
        search: str | None = None,
        archived: bool | None = False,
        running: bool | None = None,
    ) -> r.ListSessionsReply:
        """List sessions, newest first; ask again with the reply's `next_page` for more."""
        return await self.execute(
            c.ListSessions(limit=limit, page=page, search=search, archived=archived, running=running)
        )

    async def load_service(self) -> ServiceSnapshot:
        """Take a snapshot of all sessions and their activity."""
        return await self.execute(c.LoadService())

    async def load_session(self, session_id: SessionId, *, options: JsonObject | None = None) -> SessionSnapshot:
        """Take a snapshot of one session; with `options`, only if its protocol has them."""
        return await self.execute(c.LoadSession(session_id=session_id, options=options))

    async def load_messages(
        self, session_id: SessionId, *, before: int | None = None, limit: int = 100
    ) -> r.MessagesReply:
        """Read messages older than those in a snapshot."""
        return await self.execute(c.LoadMessages(session_id=session_id, before=before, limit=limit))

    async def search_messages(self, text: str, *, limit: int = 20) -> r.SearchReply:
        """Search the messages of all sessions."""
        return await self.execute(c.SearchMessages(text=text, limit=limit))

    async def list_models(self, *, session_id: SessionId | None = None, cwd: str | None = None) -> r.ListModelsReply:
        """List the models that a session can switch to, and why the others are unavailable."""
        return await self.execute(c.ListModels(session_id=session_id, cwd=cwd))

    async def find_files(
        self, query: str, *, session_id: SessionId | None = None, cwd: str | None = None, limit: int = 50
    ) -> r.FindFilesReply:
        """Find files and folders by some letters of their paths."""
        return await self.execute(c.FindFiles(query=query, session_id=session_id, cwd=cwd, limit=limit))

    async def rename_session(self, session_id: SessionId, name: str) -> r.Acknowledged:
        """Rename a session."""
        return await self.execute(c.RenameSession(session_id=session_id, name=name))

    async def archive_session(self, session_id: SessionId) -> r.Acknowledged:
        """Archive a session."""
        return await self.execute(c.ArchiveSession(session_id=session_id))

    async def restore_session(self, session_id: SessionId) -> r.Acknowledged:
        """Restore an archived session."""
        return await self.execute(c.RestoreSession(session_id=session_id))

    async def delete_session(self, session_id: SessionId) -> r.Acknowledged:
        """Stop all work in a session and delete it for good."""
        return await self.execute(c.DeleteSession(session_id=session_id))

    async def fork_session(
        self,
        session_id: SessionId,
        *,
        at_message_id: MessageId | None = None,
        name: str | None = None,
        options: JsonObject | None = None,
    ) -> r.CreateSessionReply:
        """Create a session that continues from a message of this one."""
        return await self.execute(
            c.ForkSession(session_id=session_id, at_message_id=at_message_id, name=name, options=options)
        )

    # --- messages -----------------------------------------------------------------------------------------------------

    async def send_user_message(
        self,
        session_id: SessionId,
        text: str,
        *,
        images: Images = (),
        files: Files = (),
        deliver_as: DeliverAs = "follow_up",
        output_schema: JsonObject | None = None,
        extension: JsonObject | None = None,
        idempotency_key: str | None = None,
    ) -> r.SendUserMessageReply:
        """Send a message to the agent."""
        command = c.SendUserMessage(
            session_id=session_id,
            text=text,
            images=images,
            files=files,
            deliver_as=deliver_as,
            output_schema=output_schema,
            extension=extension,
        )
        return await self.execute(command, idempotency_key=idempotency_key)

    async def start_turn_if_idle(
        self, session_id: SessionId, text: str, *, images: Images = (), files: Files = ()
    ) -> r.StartTurnReply:
        """Start a turn if the session is at rest; otherwise do nothing and report that."""
        return await self.execute(c.StartTurnIfIdle(session_id=session_id, text=text, images=images, files=files))

    async def run_shell_line(self, session_id: SessionId, line: str) -> r.ShellLineReply:
        """Run a command that a person has typed; the model of the next turn sees the result."""
        return await self.execute(c.RunShellLine(session_id=session_id, line=line))

    async def edit_message(
        self, session_id: SessionId, message_id: MessageId, text: str, *, images: Images = (), files: Files = ()
    ) -> r.SendUserMessageReply:
        """Edit an earlier message, on a new branch."""
        return await self.execute(
            c.EditMessage(session_id=session_id, message_id=message_id, text=text, images=images, files=files)
        )

    async def switch_branch(self, session_id: SessionId, message_id: MessageId) -> r.Acknowledged:
        """Show and continue the branch through this message."""
        return await self.execute(c.SwitchBranch(session_id=session_id, message_id=message_id))

    async def resume_session(self, session_id: SessionId) -> r.StartTurnReply:
        """Resume where a stopped, failed or interrupted turn left off."""
        return await self.execute(c.ResumeSession(session_id=session_id))

    async def dismiss_outcome(self, session_id: SessionId) -> r.Acknowledged:
        """Clear a failed, stopped or interrupted mark."""
        return await self.execute(c.DismissOutcome(session_id=session_id))

    async def wait_for_turn(self, session_id: SessionId, turn_id: TurnId | None = None) -> r.WaitForTurnReply:
        """Wait until a turn has ended and return its outcome."""
        return await self.execute(c.WaitForTurn(session_id=session_id, turn_id=turn_id))

    async def clear_context(self, session_id: SessionId) -> r.Acknowledged:
        """Start a new conversation."""
        return await self.execute(c.ClearContext(session_id=session_id))

    async def compact_context(self, session_id: SessionId) -> r.Acknowledged:
        """Compact the conversation into a summary."""
        return await self.execute(c.CompactContext(session_id=session_id))

    async def restore_to_message(
        self,
        session_id: SessionId,
        message_id: MessageId | None = None,
        *,
        files: bool = True,
        conversation: bool = True,
        force: bool = False,
    ) -> r.RestoreReply:
        """Restore the conversation and the files to the moment before a user message."""
        return await self.execute(
            c.RestoreToMessage(
                session_id=session_id, message_id=message_id, files=files, conversation=conversation, force=force
            )
        )

    async def take_back_undo(
        self, session_id: SessionId, undo_turn_id: TurnId | None = None, *, force: bool = False
    ) -> r.RestoreReply:
        """Revert a `restore_to_message`."""
        return await self.execute(c.TakeBackUndo(session_id=session_id, undo_turn_id=undo_turn_id, force=force))

    # --- the queue ----------------------------------------------------------------------------------------------------

    async def list_queue(self, session_id: SessionId) -> r.QueueReply:
        """List the queued messages."""
        return await self.execute(c.ListQueue(session_id=session_id))

    async def edit_queue_item(
        self, session_id: SessionId, item_id: QueueItemId, text: str, *, images: Images = ()
    ) -> r.Acknowledged:
        """Edit a queued message."""
        return await self.execute(c.EditQueueItem(session_id=session_id, item_id=item_id, text=text, images=images))

    async def reorder_queue(self, session_id: SessionId, item_ids: tuple[QueueItemId, ...]) -> r.Acknowledged:
        """Reorder the queued messages."""
        return await self.execute(c.ReorderQueue(session_id=session_id, item_ids=item_ids))

    async def remove_queue_item(self, session_id: SessionId, item_id: QueueItemId) -> r.Acknowledged:
        """Remove a queued message."""
        return await self.execute(c.RemoveQueueItem(session_id=session_id, item_id=item_id))

    async def take_queue(self, session_id: SessionId, item_id: QueueItemId | None = None) -> r.QueueReply:
        """Take queued messages out to edit them again."""
        return await self.execute(c.TakeQueue(session_id=session_id, item_id=item_id))

    # --- settings -----------------------------------------------------------------------------------------------------

    async def switch_model(
        self, session_id: SessionId, model: str, *, thinking: Thinking | None = None
    ) -> r.SwitchModelReply:
        """Switch to another model, or change how much it reasons."""
        return await self.execute(c.SwitchModel(session_id=session_id, model=model, thinking=thinking))

    async def change_permission_mode(self, session_id: SessionId, mode: PermissionMode) -> r.Acknowledged:
        """Change which tools need a person's approval."""
        return await self.execute(c.ChangePermissionMode(session_id=session_id, mode=mode))

    async def change_sandbox_policy(self, session_id: SessionId, policy: SandboxPolicy) -> r.Acknowledged:
        """Change the confinement of tools."""
        return await self.execute(c.ChangeSandboxPolicy(session_id=session_id, policy=policy))

    async def change_working_directory(self, session_id: SessionId, cwd: str) -> r.Acknowledged:
        """Change the directory in which tools work."""
        return await self.execute(c.ChangeWorkingDirectory(session_id=session_id, cwd=cwd))

    async def change_turn_limits(self, session_id: SessionId, limits: TurnLimits) -> r.Acknowledged:
        """Change what one turn may use."""
        return await self.execute(c.ChangeTurnLimits(session_id=session_id, limits=limits))

    # --- requests to people, wake-ups, stop ---------------------------------------------------------------------------

    async def open_dialog(
        self,
        session_id: SessionId,
        kind: DialogKind,
        title: str,
        *,
        message: str = "",
        choices: tuple[str, ...] = (),
        timeout_ms: int | None = None,
        default: str = "",
        extension: str | None = None,
        to: ClientId | None = None,
        turn_id: TurnId | None = None,
        rights: tuple[ExtraRight, ...] = (),
    ) -> r.DialogReply:
        """Ask the people who watch the session, or one client, and wait for the answer."""
        return await self.execute(
            c.OpenDialog(
                session_id=session_id,
                kind=kind,
                title=title,
                message=message,
                choices=choices,
                timeout_ms=timeout_ms,
                default=default,
                extension=extension,
                to=to,
                turn_id=turn_id,
                rights=rights,
            )
        )

    async def answer_dialog(
        self, session_id: SessionId, request_id: RequestId, value: JsonValue = None
    ) -> r.AnswerReply:
        """Answer a dialog; the first answer wins."""
        return await self.execute(c.AnswerDialog(session_id=session_id, request_id=request_id, value=value))

    async def answer_approval(
        self,
        session_id: SessionId,
        request_id: RequestId,
        decision: Decision,
        *,
        fingerprint: str | None = None,
        message: str = "",
    ) -> r.AnswerReply:
        """Allow or deny a tool call; the first answer wins."""
        return await self.execute(
            c.AnswerApproval(
                session_id=session_id,
                request_id=request_id,
                decision=decision,
                fingerprint=fingerprint,
                message=message,
            )
        )

    async def schedule_wakeup(self, session_id: SessionId, delay_ms: int, text: str) -> r.ScheduleWakeupReply:
        """Schedule a message to be delivered after a delay."""
        return await self.execute(c.ScheduleWakeup(session_id=session_id, delay_ms=delay_ms, text=text))

    async def cancel_wakeup(self, session_id: SessionId, wakeup_id: WakeupId) -> r.Acknowledged:
        """Cancel a scheduled message."""
        return await self.execute(c.CancelWakeup(session_id=session_id, wakeup_id=wakeup_id))

    async def request_stop(
        self, session_id: SessionId, *, scope: StopScope = "turn", queue: QueueOnStop = "keep"
    ) -> r.StopOutcome:
        """Stop a session's work now, ahead of all waiting commands, and return what became of it."""
        return await self.execute(c.RequestStop(session_id=session_id, scope=scope, queue=queue))

    # --- extensions ---------------------------------------------------------------------------------------------------

    async def list_extensions(self) -> r.ListExtensionsReply:
        """List the extensions."""
        return await self.execute(c.ListExtensions())

    async def list_commands(
        self, session_id: SessionId | None = None, *, cwd: str | None = None
    ) -> r.ListCommandsReply:
        """List the extension commands available now, in a session, in a folder, or everywhere."""
        return await self.execute(c.ListCommands(session_id=session_id, cwd=cwd))

    async def run_command(
        self, session_id: SessionId, name: str, arguments: str = "", *, extension: str | None = None
    ) -> r.RunCommandReply:
        """Run an extension command in a session and wait until it is done."""
        return await self.execute(
            c.RunCommand(session_id=session_id, name=name, arguments=arguments, extension=extension)
        )

    async def complete_command(
        self, session_id: SessionId, name: str, partial: str = "", *, extension: str | None = None
    ) -> r.CompleteCommandReply:
        """Complete the arguments of an extension command."""
        return await self.execute(
            c.CompleteCommand(session_id=session_id, name=name, partial=partial, extension=extension)
        )

    async def reload_extension(self, name: str, *, folder: str | None = None) -> r.Acknowledged:
        """Replace the process of an extension by a new one."""
        return await self.execute(c.ReloadExtension(name=name, folder=folder))

    async def enable_extension(self, name: str, *, folder: str | None = None) -> r.Acknowledged:
        """Enable an extension."""
        return await self.execute(c.EnableExtension(name=name, folder=folder))

    async def disable_extension(self, name: str, *, folder: str | None = None) -> r.Acknowledged:
        """Disable an extension."""
        return await self.execute(c.DisableExtension(name=name, folder=folder))

    async def press_widget_key(self, session_id: SessionId, extension: str, widget_id: str, key: str) -> r.Acknowledged:
        """Tell an extension that a key was pressed in its widget."""
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
        """Store an entry with the session that is never shown to a model."""
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
        """Display something beside the conversation."""
        return await self.execute(c.ShowDisplay(session_id=session_id, status=status, widget=widget, title=title))

    async def show_notice(self, session_id: SessionId, message: str, *, level: NoticeLevel = "info") -> r.Acknowledged:
        """Show a one-time notice to everyone who watches the session."""
        return await self.execute(c.ShowNotice(session_id=session_id, message=message, level=level))

    async def login_to_provider(self, session_id: SessionId, provider: str) -> r.Acknowledged:
        """Log in to a model provider of an extension."""
        return await self.execute(c.LoginToProvider(session_id=session_id, provider=provider))

    # --- protocols ----------------------------------------------------------------------------------------------------

    async def list_protocols(self) -> r.ListProtocolsReply:
        """List the protocols, the ways a model can act in a turn."""
        return await self.execute(c.ListProtocols())

    async def append_messages(
        self,
        session_id: SessionId,
        operation_id: str,
        messages: Iterable[NewMessage],
        *,
        after: MessageId | None = None,
    ) -> r.AppendReply:
        """Append messages to a conversation at rest without asking a model."""
        return await self.execute(
            c.AppendMessages(session_id=session_id, operation_id=operation_id, messages=tuple(messages), after=after)
        )

    async def apply_extension(self, session_id: SessionId, extension: JsonObject) -> r.Acknowledged:
        """Pass data to the protocol of a session, outside the conversation."""
        return await self.execute(c.ApplyExtension(session_id=session_id, extension=extension))
