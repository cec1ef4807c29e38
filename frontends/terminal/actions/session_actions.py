"""User actions: each sends one or two commands to the service, and an error is one sentence.

Nothing here draws. The effects of a command come back through the feeds, like those of other clients.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio.to_thread
import attrs
from textual.notifications import SeverityLevel

import session_core as sc
from frontends.shared.parser import UsageError
from frontends.shared.sanitise import one_line
from frontends.shared.session_lookup import find_session, last_used
from frontends.terminal.actions.session_queries import ServiceQueries
from frontends.terminal.composer.attached_files import files_of, images_of
from frontends.terminal.composer.drafts import PromptSubmission, read_parts
from frontends.terminal.destination import MessageTarget
from frontends.terminal.feeds import NOT_YET
from frontends.terminal.options import NewSession
from frontends.terminal.panels.notices import Notice

if TYPE_CHECKING:
    from frontends.terminal.questions.panel import RequestPanel

_NAME_CHARS: Final = 60
_LINE_NOT_RUN: Final = (
    "this line was not run: there is no connection to the service at the moment; once there is, Enter runs it"
)


class ServiceActions(ServiceQueries):
    """Carries out user actions."""

    def placeholder(self) -> str:
        """Return the text of the empty composer."""
        state, session_list = self.state, self._app.terminal_state.session_list
        if self._app.failure is not None:
            return "there is no service; Enter tries again"
        if session_list is not None and session_list.read_only is not None:
            return f"the service is read-only: {session_list.read_only}"
        if self._app.composer.editing is not None:
            return "edit your message; Esc cancels the edit"
        if state is not None and not state.activity.is_at_rest:
            return "queue a message; Esc stops the turn"
        if state is None:
            return "ask for something"  # the welcome text explains how
        return "ask for something; / for commands, @ for files, ! for the shell"

    def parting_hint(self, again: str) -> str:
        """Describe what leaving would do; `again` is the key or command to repeat."""
        if self._app.options.embedded:
            return f"{again} again closes the terminal and ends the work; the conversation is kept"
        return f"{again} again closes the terminal; work continues"

    @property
    def work_would_end(self) -> bool:
        """Whether something is running that ends with the terminal."""
        session_list = self._app.terminal_state.session_list
        busy = session_list is not None and any(not each.activity.is_at_rest for each in session_list.sessions.values())
        return busy and self._app.options.embedded

    # --- the first session --------------------------------------------------------------------------------------------

    def session_list_changed(self) -> None:
        """Once the list of sessions has loaded, view the requested one and decide the target that messages wait for."""
        session_list = self._app.terminal_state.session_list
        if session_list is None or self._begun:
            return
        self._begun = True
        found, refused = self._find_first_session(tuple(session_list.sessions.values()))
        first, is_viewed, start = self._first, self.target is self._first, self._first.new
        first.decide(found, refused)
        if self._new is first and (found is not None or refused is not None):
            self._new = MessageTarget(start)  # a later new session needs its own target
        if is_viewed and found is not None:
            self._app.terminal_state.view(found.session_id)
        if refused is not None:
            self._app.tell(refused, "error")
        self._app.refresh_commands()
        if self._app.options.prompt:
            submission = PromptSubmission(text=self._app.options.prompt, target=first)
            self._app.run_in_background(self.send_submission(submission), unsent=submission)

    def _find_first_session(
        self, sessions: tuple[sc.SessionSummary, ...]
    ) -> tuple[sc.SessionSummary | None, str | None]:
        """Return the session to begin with, and why the named one was not found."""
        options = self._app.options
        try:
            if options.session is not None:
                return find_session(options.session, sessions, options.home), None
            return None if options.new else last_used(sessions, options.cwd, options.home), None
        except UsageError as error:
            return None, None if options.session is None else str(error)

    def view(self, session_id: sc.SessionId | None) -> None:
        """View another session or the draft of a new one."""
        if session_id is None:
            self._new = MessageTarget(self._copy_new_session())
        self._app.terminal_state.view(session_id)

    def _copy_new_session(self) -> NewSession:
        """Return settings for another new session: the same folder and model, but never the same permissions."""
        if self.session_id is None:
            return self.draft
        current = self.target.new
        options = self._app.options
        return NewSession(cwd=current.cwd, model=current.model, mode=options.permissions, sandbox=options.sandbox)

    # --- sending ------------------------------------------------------------------------------------------------------

    async def ensure_session(self, target: MessageTarget, named_after: str = "") -> sc.SessionId:
        """Return the session of a target, creating it if necessary."""
        client = await self._app.terminal_state.wait_connected()
        await target.wait_decided()
        async with target.creation_lock:
            if target.session_id is None:
                new = target.new
                created = await client.create_session(
                    name=one_line(named_after, _NAME_CHARS) or None,
                    cwd=new.cwd,
                    model=new.model,
                    permission_mode=new.mode,
                    thinking=new.thinking,
                )
                if new.sandbox is not None:
                    policy = (await client.load_session(created.session_id)).settings.sandbox
                    await client.change_sandbox_policy(created.session_id, attrs.evolve(policy, mode=new.sandbox))
                is_viewed = self.target is target
                target.session_id = created.session_id
                if is_viewed:
                    self._app.terminal_state.view(created.session_id)
            return target.session_id

    async def send_submission(self, submission: PromptSubmission) -> None:
        """Send a message, or replace the one being edited; messages leave in the order in which they were typed."""
        if submission.prompt is not None:
            submission, why = await self._mentions.attach(submission)
            if why:
                self._app.restore_unsent(submission)
                self._app.tell(why, "warning", seconds=12)
                return
        session_id = await self.ensure_session(submission.target, submission.text)
        images, files = images_of(submission.attached), files_of(submission.attached)
        editing = submission.editing
        if editing is not None and editing.message_id is not None:
            await self.client.edit_message(session_id, editing.message_id, submission.text, images=images, files=files)
        elif editing is not None and editing.item_id is not None:
            await self.client.edit_queue_item(session_id, editing.item_id, submission.text, images=images)
            if files:
                self._app.tell("no files can be added to a queued message; none was added", "warning")
        else:
            await self.client.send_user_message(
                session_id,
                submission.text,
                images=images,
                files=files,
                deliver_as="steer" if submission.steer else "follow_up",
            )

    async def send_now(self, item: sc.QueueItem, target: MessageTarget) -> None:
        """Steer the running turn with a queued message, or send it at once if the session is idle."""
        session_id = await self.ensure_session(target)
        taken = await self.client.take_queue(session_id, item.item_id)
        for each in taken.items:
            text, attached = read_parts(each.parts)
            submission = PromptSubmission(text=text, target=target, attached=attached, steer=True)
            try:
                await self.send_submission(submission)
            except Exception:  # it has left the queue and would be lost
                self._app.restore_unsent(submission)
                raise

    async def run_line(self, line: str, target: MessageTarget) -> None:
        """Run a shell line now, as far as the permissions allow, or not at all: later it would come as a surprise.

        Raises:
            Disconnected: There is no connection to the service.
        """
        client = self._app.terminal_state.client
        link = None if client is None else client.link
        if client is None or link is None:
            raise sc.Disconnected(_LINE_NOT_RUN)
        session_id = await self.ensure_session(target, line)
        if client.link is not link:
            raise sc.Disconnected(_LINE_NOT_RUN)
        await client.execute_now(sc.commands.RunShellLine(session_id=session_id, line=line))

    async def run_command(self, name: str, arguments: str, target: MessageTarget) -> None:
        """Run a command of an extension."""
        session_id = await self.ensure_session(target)
        extension, _, short = name.rpartition(".")
        reply = await self.client.run_command(session_id, short, arguments, extension=extension or None)
        if reply.content:
            self._app.queue_notice(Notice(who=f"/{name}", text=reply.content, seconds=12, rows=12, chars=1_000))

    async def login(self, provider: str, target: MessageTarget) -> None:
        """Log in to a provider of an extension."""
        session_id = await self.ensure_session(target)
        await self.client.login_to_provider(session_id, provider)
        self._app.tell(f"logged in to {provider}")

    # --- stopping -----------------------------------------------------------------------------------------------------

    async def stop(self, session_id: sc.SessionId, scope: sc.StopScope) -> None:
        """Stop a session and report the outcome."""
        outcome = await self.client.request_stop(session_id, scope=scope)
        self._app.tell(*_describe_stop(outcome))

    # --- answering ----------------------------------------------------------------------------------------------------

    async def approve(self, answer_message: RequestPanel.ApprovalDecided, session_id: sc.SessionId) -> None:
        """Approve or deny a tool call, and report if another client was faster."""
        reply = await self.client.answer_approval(
            session_id,
            answer_message.approval.request_id,
            answer_message.decision,
            fingerprint=answer_message.approval.fingerprint,
            message=answer_message.message,
        )
        if not reply.accepted:
            self._app.tell("this was answered already")

    async def answer(self, answer_message: RequestPanel.DialogValueGiven, session_id: sc.SessionId) -> None:
        """Answer a dialog, and report if another client was faster."""
        reply = await self.client.answer_dialog(session_id, answer_message.dialog.request_id, answer_message.value)
        if not reply.accepted:
            self._app.tell("this was answered already")

    # --- settings -----------------------------------------------------------------------------------------------------

    async def use_model(self, model: str, target: MessageTarget) -> None:
        """Switch the model of a session, existing or new."""
        await target.wait_decided()
        async with target.creation_lock:
            if target.session_id is None:
                self._change_new_session(target, model=model)
                return
        reply = await self.client.switch_model(target.session_id, model)
        if reply.effective != "now":
            self._app.tell(f"{model} answers from the next step on")

    async def set_thinking(self, thinking: sc.Thinking, target: MessageTarget) -> None:
        """Set how much the model reasons."""
        await target.wait_decided()
        async with target.creation_lock:
            if target.session_id is None:
                self._change_new_session(target, thinking=thinking)
                return
        if target.new.model is None:  # just created; its model is not known yet
            raise sc.Disconnected(NOT_YET)
        await self.client.switch_model(target.session_id, target.new.model, thinking=thinking)

    async def use_mode(self, mode: sc.PermissionMode, target: MessageTarget) -> None:
        """Change the permission mode."""
        await target.wait_decided()
        async with target.creation_lock:
            if target.session_id is None:
                self._change_new_session(target, mode=mode)
                return
        await self.client.change_permission_mode(target.session_id, mode)

    async def change_directory(self, typed: str, target: MessageTarget) -> None:
        """Change the working folder of a session, existing or new."""
        await target.wait_decided()
        path = str(await anyio.to_thread.run_sync(_folder, target.new.cwd, typed))
        async with target.creation_lock:
            if target.session_id is None:
                self._change_new_session(target, cwd=path)
                return
        await self.client.change_working_directory(target.session_id, path)

    def _change_new_session(self, target: MessageTarget, **changes: Any) -> None:
        target.new = attrs.evolve(target.new, **changes)
        self._app.redraw()

    # --- history ------------------------------------------------------------------------------------------------------

    async def resume(self, session_id: sc.SessionId) -> None:
        """Resume an interrupted turn."""
        reply = await self.client.resume_session(session_id)
        if not reply.started:
            self._app.tell("the session is already running a turn")

    def other_branch(self, message_id: sc.MessageId) -> sc.MessageId:
        """Return the next sibling of a message, in a cycle: what was sent there on another branch."""
        state = self.state
        message = None if state is None else state.find_message(message_id)
        if state is None or message is None:
            raise sc.NotFound("this message is too old to switch here; use /branches")
        siblings = [each.message_id for each in state.messages if _are_siblings(each, message)]
        if len(siblings) < 2:
            raise sc.InvalidInput("there is no other branch here; e edits this message", field="message_id")
        return siblings[(siblings.index(message_id) + 1) % len(siblings)]


def _folder(base: str, typed: str) -> Path:
    """Return the folder that was typed."""
    path = Path(base, Path(typed).expanduser()).resolve()
    if not path.is_dir():
        raise sc.InvalidInput(f"{str(path)!r} is not a folder", field="cwd")
    return path


def _are_siblings(one: sc.Message, other: sc.Message) -> bool:
    return one.role == other.role == "user" and one.parent_id == other.parent_id


def _describe_stop(outcome: sc.StopOutcome) -> tuple[str, SeverityLevel]:
    match outcome.result:
        case "nothing_running":
            return "nothing was running", "information"
        case "still_stopping":
            return "stopping; something is still running", "warning"
        case "stopped":
            more = [f"{len(outcome.kept)} queued kept"] if outcome.kept else []
            more += [f"{len(outcome.survived)} left running"] if outcome.survived else []
            return "; ".join(["stopped", *more]), "information"
