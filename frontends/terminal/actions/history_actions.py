"""Actions on the conversation so far: edit, go back, fork, copy and export."""

from __future__ import annotations

from collections.abc import Awaitable
from pathlib import Path
from time import monotonic
from typing import Final

import anyio.to_thread

import session_core as sc
from frontends.shared.figures import format_count
from frontends.terminal.base import TerminalBase
from frontends.terminal.composer.drafts import PromptSubmission, read_parts
from frontends.terminal.destination import MessageTarget
from frontends.terminal.look.clock import now_ms
from frontends.terminal.look.sanitised_text import sanitise_line
from frontends.terminal.screens import picker_choices
from frontends.terminal.screens.picker import LineInputScreen, Picker, PickerChoice

LONG_S: Final = 1.0
"""Seconds after which a running operation is mentioned."""
AGAIN_S: Final = 10.0
"""Seconds between two such mentions."""
_MOST_NAMED: Final = 20
"""The most files that a confirmation lists by name."""


class HistoryActions(TerminalBase):
    """The actions on the history of the viewed session."""

    def _user_message_choices(self) -> list[PickerChoice[sc.Message]]:
        state = self.service_actions.state
        choices = picker_choices.user_message_choices(state, now_ms()) if state is not None else []
        if not choices:
            self.tell("there are no messages yet", "warning")
        return choices

    async def _run_with_progress(self, what: str, work: Awaitable[object]) -> None:
        """Await `work`, and show that it is still running if it takes long."""
        began = monotonic()

        def report_progress() -> None:
            self.tell(f"{what}… {round(monotonic() - began)} s", seconds=AGAIN_S)

        first = self.set_timer(LONG_S, report_progress)
        again = self.set_interval(AGAIN_S, report_progress)
        try:
            await work
        finally:
            first.stop()
            again.stop()

    # --- stop and resume ----------------------------------------------------------------------------------------------

    def action_stop(self) -> None:
        """Stop the viewed session's turn."""
        self.run_in_background(self.service_actions.stop(self.service_actions.viewed_session(), "turn"))

    def action_stop_all(self) -> None:
        """Stop the viewed session and its subagents."""
        self.run_in_background(self.service_actions.stop(self.service_actions.viewed_session(), "subtree"))

    def action_resume(self) -> None:
        """Resume an interrupted turn."""
        self.run_in_background(self.service_actions.resume(self.service_actions.viewed_session()))

    def action_compact(self) -> None:
        """Compact the conversation."""
        compacting = self.service_actions.client.compact_context(self.service_actions.viewed_session())
        self.run_in_background(self._run_with_progress("compacting", compacting))

    def action_clear(self) -> None:
        """Clear the conversation."""
        self.run_in_background(self.service_actions.client.clear_context(self.service_actions.viewed_session()))

    # --- edit and branches --------------------------------------------------------------------------------------------

    def action_edit(self) -> None:
        """Choose a message to edit."""

        if choices := self._user_message_choices():
            self.ask(Picker("Edit a message", choices), self.edit_message)

    def action_branches(self) -> None:
        """Choose a branch."""
        state = self.service_actions.state
        choices = picker_choices.branch_choices(state, now_ms()) if state is not None else []
        session_id = self.service_actions.viewed_session()

        def switch_branch(message_id: sc.MessageId) -> None:
            self.run_in_background(self.service_actions.client.switch_branch(session_id, message_id))

        if len(choices) > 1:
            self.ask(Picker("Branches", choices), switch_branch)
        else:
            self.tell("this conversation has one branch; /edit begins another")

    def action_fork(self, name: str = "") -> None:
        """Fork the session here."""
        self.run_in_background(
            self._fork(self.service_actions.target, self.service_actions.viewed_session(), name.strip() or None)
        )

    async def _fork(self, target: MessageTarget, session_id: sc.SessionId, name: str | None) -> None:
        created = await self.service_actions.client.fork_session(session_id, name=name)
        if self.service_actions.target.is_same(target):
            self.view(created.session_id)
        else:  # do not pull the user away from another session
            self.tell("the new session is in the list")

    # --- undo ---------------------------------------------------------------------------------------------------------

    def action_undo(self) -> None:
        """Choose a message to go back to."""

        if choices := self._user_message_choices():
            target = self.service_actions.target
            self.ask(Picker("Go back to before", choices), lambda message: self._begin_undo(target, message))

    def _begin_undo(self, target: MessageTarget, message: sc.Message, *, force: bool = False) -> None:
        self.run_in_background(self._run_with_progress("going back", self._undo(target, message, force=force)))

    async def _undo(self, target: MessageTarget, message: sc.Message, *, force: bool) -> None:
        session_id = await self.service_actions.ensure_session(target)
        try:
            reply = await self.service_actions.client.restore_to_message(session_id, message.message_id, force=force)
        except sc.FilesChanged as changed:
            if force:
                raise
            self.confirm(
                _overwrite_question(changed), lambda: self._begin_undo(target, message, force=True), sudden=True
            )
            return
        self.restore_unsent(PromptSubmission(text=reply.text, target=target, attached=read_parts(message.parts)[1]))
        if self.service_actions.target.is_same(target):
            self.composer.focus()
        self.tell(_describe_restore(reply), title="undone", seconds=10)

    def action_redo(self) -> None:
        """Revert the last undo."""
        self._begin_redo(self.service_actions.viewed_session())

    def _begin_redo(self, session_id: sc.SessionId, *, force: bool = False) -> None:
        self.run_in_background(self._run_with_progress("reverting the undo", self._redo(session_id, force=force)))

    async def _redo(self, session_id: sc.SessionId, *, force: bool) -> None:
        try:
            reply = await self.service_actions.client.take_back_undo(session_id, force=force)
        except sc.Conflict as conflict:
            if force or not (isinstance(conflict, sc.FilesChanged) or conflict.field == "force"):
                raise
            question = (
                _overwrite_question(conflict)
                if isinstance(conflict, sc.FilesChanged)
                else "The conversation has continued since this undo. Revert the undo anyway?"
            )
            self.confirm(question, lambda: self._begin_redo(session_id, force=True), sudden=True)
            return
        self.tell(_describe_restore(reply), title="undo reverted", seconds=10)

    # --- copy and export ----------------------------------------------------------------------------------------------

    def action_copy_answer(self) -> None:
        """Copy the last answer."""
        state = self.service_actions.state
        transcript = state.transcript if state is not None else ()
        answers = [each.text for each in transcript if each.role == "assistant" and each.text]
        if answers:
            self.copy(answers[-1])
        else:
            self.tell("there is no answer yet", "warning")

    def action_export(self, file: str = "") -> None:
        """Export the conversation to a file."""
        session_id = self.service_actions.viewed_session()

        def export_as(name: str) -> None:
            if name.strip():
                self.run_in_background(self._run_with_progress("writing", self._export(session_id, name.strip())))

        if file:
            export_as(file)
        else:
            self.ask(LineInputScreen("Write to which file? (.md, .html or .jsonl)", "conversation.md"), export_as)

    async def _export(self, session_id: sc.SessionId, name: str) -> None:
        path = await anyio.to_thread.run_sync(_resolve_path, self.options.cwd, name)
        if await anyio.to_thread.run_sync(path.exists):
            question = f"This file already exists. Overwrite it?\n\n{path}"
            self.confirm(question, lambda: self._begin_write(session_id, path), sudden=True)
        else:
            await self._write(session_id, path)

    def _begin_write(self, session_id: sc.SessionId, path: Path) -> None:
        self.run_in_background(self._run_with_progress("writing", self._write(session_id, path)))

    async def _write(self, session_id: sc.SessionId, path: Path) -> None:
        written = await self.service_actions.export(session_id, path)
        self.tell(f"written to {written}")

    def action_change_directory(self, directory: str = "") -> None:
        """Change the working directory."""
        target = self.service_actions.target

        def change_to(name: str) -> None:
            if name.strip():
                self.run_in_background(self.service_actions.change_directory(name.strip(), target))

        if directory:
            change_to(directory)
        else:
            self.ask(LineInputScreen("Work in which folder?", target.new.cwd), change_to)


def _resolve_path(base: str, typed: str) -> Path:
    """Return the file that was typed."""
    try:
        return Path(base) / Path(typed).expanduser()
    except RuntimeError as error:  # there is no such user
        raise sc.InvalidInput(f"{typed!r}: {error}", field="path") from None


def _overwrite_question(changed: sc.FilesChanged) -> str:
    """Return the question whether to overwrite files that have changed since."""
    named = [f"  {sanitise_line(path)}: {sanitise_line(why)}" for path, why in changed.files[:_MOST_NAMED]]
    remaining = len(changed.files) - len(named)
    more = [f"  and {remaining} more"] if remaining else []
    lines = ["These files have changed since:", "", *named, *more]
    return "\n".join([*lines, "", "Overwrite them anyway? Their current content is saved first."])


def _describe_restore(reply: sc.replies.RestoreReply) -> str:
    done = [each for each in reply.files if each.done != "skipped"]
    lines = [f"{format_count(len(done), 'file')} restored" if done else "no file was changed"]
    lines += [f"left alone: {sanitise_line(each.path)}: {each.why}" for each in reply.files if each.done == "skipped"]
    return "\n".join([*lines, *reply.remarks])
