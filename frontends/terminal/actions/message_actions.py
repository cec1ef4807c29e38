"""What the user sends to a session: messages, shell lines, commands of extensions, answers, keys of widgets.

Nothing here draws. The effects of a command come back through the feeds, like those of other clients.
"""

from __future__ import annotations

from typing import Final

import session_core as sc
from frontends.commands.run.approval_answers import TypedApprovalAnswer
from frontends.commands.run.dialogs import Reply
from frontends.terminal.actions.session_actions import SessionActions
from frontends.terminal.composer.attached_files import files_of, images_of
from frontends.terminal.composer.drafts import PromptSubmission, read_parts
from frontends.terminal.composer.mentions import MentionedFiles
from frontends.terminal.context import TerminalContext
from frontends.terminal.destination import MessageTarget
from frontends.terminal.options import EditTarget
from frontends.terminal.panels.message_queue import QueueAction
from frontends.terminal.panels.notices import Notice
from frontends.terminal.questions.question_order import Request

_LINE_NOT_RUN: Final = (
    "this line was not run: there is no connection to the service at the moment; once there is, Enter runs it"
)


class MessageActions:
    """Sends what the user has typed; an error is one sentence."""

    def __init__(self, context: TerminalContext, sessions: SessionActions) -> None:
        self._context = context
        self._sessions = sessions
        self._mentions = MentionedFiles(lambda text: context.tell(text, "warning"))
        self._has_begun = False

    def begin(self) -> None:
        """Once the list of sessions has loaded, view the requested one, and send the first message."""
        if self._has_begun:
            return
        self._has_begun = True
        first = self._sessions.begin()
        if self._context.options.prompt:
            submission = PromptSubmission(text=self._context.options.prompt, target=first)
            self._context.start(self.send(submission), undo=lambda: self._sessions.restore(submission))

    async def send(self, submission: PromptSubmission) -> None:
        """Send a message, or replace the one being edited; messages leave in the order in which they were typed."""
        if submission.prompt is not None:
            submission, why = await self._mentions.attach(submission)
            if why:
                self._sessions.restore(submission)
                self._context.tell(why, "warning", seconds=12)
                return
        session_id = await self._sessions.ensure(submission.target, submission.text)
        client, text, editing = self._context.client, submission.text, submission.editing
        images, files = images_of(submission.attached), files_of(submission.attached)
        if editing is not None and editing.message_id is not None:
            await client.edit_message(session_id, editing.message_id, text, images=images, files=files)
        elif editing is not None and editing.item_id is not None:
            await client.edit_queue_item(session_id, editing.item_id, text, images=images)
            if files:
                self._context.tell("no files can be added to a queued message; none was added", "warning")
        else:
            how: sc.DeliverAs = "steer" if submission.steer else "follow_up"
            await client.send_user_message(session_id, text, images=images, files=files, deliver_as=how)

    async def run_line(self, line: str, target: MessageTarget) -> None:
        """Run a shell line now, as far as the permissions allow, or not at all: later it would come as a surprise.

        Raises:
            Disconnected: There is no connection to the service.
        """
        client = self._context.feeds.client
        link = None if client is None else client.link
        if client is None or link is None:
            raise sc.Disconnected(_LINE_NOT_RUN)
        session_id = await self._sessions.ensure(target, line)
        if client.link is not link:
            raise sc.Disconnected(_LINE_NOT_RUN)
        await client.execute_now(sc.commands.RunShellLine(session_id=session_id, line=line))

    async def run_command(self, name: str, arguments: str, target: MessageTarget) -> None:
        """Run a command of an extension."""
        session_id = await self._sessions.ensure(target)
        extension, _, short = name.rpartition(".")
        reply = await self._context.client.run_command(session_id, short, arguments, extension=extension or None)
        if reply.content:
            self._context.notices.add(Notice(who=f"/{name}", text=reply.content, seconds=12, rows=12, chars=1_000))
            self._context.redraw("session")

    # --- the queue ----------------------------------------------------------------------------------------------------

    def act_on_queued(self, action: QueueAction, item: sc.QueueItem) -> None:
        """Edit a queued message, remove it, or steer the running turn with it."""
        session_id = self._context.current.require_drawn()
        match action:
            case "edit":
                self._edit_queued(item)
            case "remove":
                self._context.start(self._context.client.remove_queue_item(session_id, item.item_id))
            case "send":
                self._context.start(self._send_now(item, self._context.current.target_of(session_id)))

    def _edit_queued(self, item: sc.QueueItem) -> None:
        state = self._context.current.state
        if state is None or all(each.item_id != item.item_id for each in state.queue):
            raise sc.NotFound("this message is no longer in the queue of the viewed session", field="item_id")
        files = tuple(part.name for part in item.parts if isinstance(part, sc.FilePart))
        parts = (part for part in item.parts if not isinstance(part, sc.FilePart))
        self._context.composer.edit_message(EditTarget(item_id=item.item_id, files=files), parts)
        self._context.redraw()

    async def _send_now(self, item: sc.QueueItem, target: MessageTarget) -> None:
        session_id = await self._sessions.ensure(target)
        taken = await self._context.client.take_queue(session_id, item.item_id)
        for each in taken.items:
            text, attached = read_parts(each.parts)
            submission = PromptSubmission(text=text, target=target, attached=attached, steer=True)
            try:
                await self.send(submission)
            except Exception:  # it has left the queue and would be lost
                self._sessions.restore(submission)
                raise

    # --- answers ------------------------------------------------------------------------------------------------------

    async def answer(self, session_id: sc.SessionId, request: Request, answer: TypedApprovalAnswer | Reply) -> None:
        """Approve or deny a tool call or answer a dialog, and report if another client was faster."""
        client, request_id = self._context.client, request.request_id
        if isinstance(answer, Reply):
            reply = await client.answer_dialog(session_id, request_id, answer.value)
        else:
            assert isinstance(request, sc.Approval)
            reply = await client.answer_approval(
                session_id, request_id, answer.decision, fingerprint=request.fingerprint, message=answer.message
            )
        if not reply.accepted:
            self._context.tell("this was answered already")
