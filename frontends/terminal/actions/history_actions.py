"""Actions on the conversation so far: edit, go back, fork, compact, copy and export."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio.to_thread
import attrs

import session_core as sc
from frontends.shared.conversation.messages import parse_shell_line
from frontends.shared.figures import format_count, format_size
from frontends.terminal.actions.session_actions import SessionActions
from frontends.terminal.composer.drafts import PromptSubmission, read_parts
from frontends.terminal.context import TerminalContext
from frontends.terminal.destination import MessageTarget
from frontends.terminal.look.clock import now_ms
from frontends.terminal.look.sanitised_text import sanitise_line
from frontends.terminal.options import EditTarget
from frontends.terminal.screens import picker_choices
from frontends.terminal.screens.picker import LineInputScreen, Picker, PickerChoice

if TYPE_CHECKING:
    from frontends.commands.export.command import Format

_MOST_NAMED: Final = 20
"""The most files that a confirmation lists by name."""


@attrs.define(eq=False)
class HistoryActions:
    """The actions on the history of the viewed session."""

    _context: TerminalContext
    _sessions: SessionActions

    def _user_message_choices(self) -> list[PickerChoice[sc.Message]]:
        state = self._context.current.state
        choices = picker_choices.user_message_choices(state, now_ms()) if state is not None else []
        if not choices:
            self._context.tell("there are no messages yet", "warning")
        return choices

    def action_compact(self) -> None:
        """Compact the conversation."""
        compacting = self._context.client.compact_context(self._context.current.require())
        self._context.start(compacting, what="compacting")

    def action_clear(self) -> None:
        """Clear the conversation."""
        self._context.start(self._context.client.clear_context(self._context.current.require()))

    # --- edit and branches --------------------------------------------------------------------------------------------

    def action_edit(self) -> None:
        """Choose a message to edit."""
        if choices := self._user_message_choices():
            self._context.ask(Picker("Edit a message", choices), self.edit)

    def edit(self, message: sc.Message) -> None:
        """Put a message with all its attachments into the composer for editing."""
        if parse_shell_line(message) is not None:
            raise sc.InvalidInput("a shell line cannot be edited; type another after !", field="message_id")
        self._context.composer.edit_message(EditTarget(message_id=message.message_id), message.parts)
        self._context.redraw()

    def action_branches(self) -> None:
        """Choose a branch."""
        state = self._context.current.state
        choices = picker_choices.branch_choices(state, now_ms()) if state is not None else []
        session_id = self._context.current.require()

        def switch_branch(message_id: sc.MessageId) -> None:
            self._context.start(self._context.client.switch_branch(session_id, message_id))

        if len(choices) > 1:
            self._context.ask(Picker("Branches", choices), switch_branch)
        else:
            self._context.tell("this conversation has one branch; /edit begins another")

    def switch_branch_at(self, message_id: sc.MessageId) -> None:
        """Switch to what was sent on another branch in place of this message, in a cycle.

        Raises:
            NotFound: The message is too old.
            InvalidInput: There is no other branch here.
        """
        state = self._context.current.state
        message = None if state is None else state.find_message(message_id)
        if state is None or message is None:
            raise sc.NotFound("this message is too old to switch here; use /branches")
        siblings = [each.message_id for each in state.messages if _are_siblings(each, message)]
        if len(siblings) < 2:
            raise sc.InvalidInput("there is no other branch here; e edits this message", field="message_id")
        other = siblings[(siblings.index(message_id) + 1) % len(siblings)]
        self._context.start(self._context.client.switch_branch(self._context.current.require(), other))

    def action_fork(self, name: str = "") -> None:
        """Fork the session here."""
        current = self._context.current
        self._context.start(self._fork(current.target, current.require(), name.strip() or None))

    async def _fork(self, target: MessageTarget, session_id: sc.SessionId, name: str | None) -> None:
        created = await self._context.client.fork_session(session_id, name=name)
        if self._context.current.target.is_same(target):
            self._sessions.view(created.session_id)
        else:  # do not pull the user away from another session
            self._context.tell("the new session is in the list")

    # --- undo ---------------------------------------------------------------------------------------------------------

    def action_undo(self) -> None:
        """Choose a message to go back to."""
        target = self._context.current.target

        def undo(message: sc.Message) -> None:
            self._begin("going back", lambda force: self._undo(target, message, force=force))

        if choices := self._user_message_choices():
            self._context.ask(Picker("Go back to before", choices), undo)

    async def _undo(self, target: MessageTarget, message: sc.Message, *, force: bool) -> None:
        session_id = await self._sessions.ensure(target)
        reply = await self._context.client.restore_to_message(session_id, message.message_id, force=force)
        attached = read_parts(message.parts)[1]
        self._sessions.restore(PromptSubmission(text=reply.text, target=target, attached=attached))
        if self._context.current.target.is_same(target):
            self._context.composer.focus()
        self._context.tell(_describe_restore(reply), title="undone", seconds=10)

    def action_redo(self) -> None:
        """Revert the last undo."""
        session_id = self._context.current.require()
        self._begin("reverting the undo", lambda force: self._redo(session_id, force=force))

    async def _redo(self, session_id: sc.SessionId, *, force: bool) -> None:
        reply = await self._context.client.take_back_undo(session_id, force=force)
        self._context.tell(_describe_restore(reply), title="undo reverted", seconds=10)

    def _begin(self, what: str, restore: Callable[[bool], Awaitable[None]], *, force: bool = False) -> None:
        """Begin to restore files; if something has changed since, ask whether to overwrite that."""

        async def restore_or_ask() -> None:
            try:
                await restore(force)
            except sc.Conflict as conflict:
                if force or not (isinstance(conflict, sc.FilesChanged) or conflict.field == "force"):
                    raise
                again = partial(self._begin, what, restore, force=True)
                self._context.confirm(_overwrite_question(conflict), again, sudden=True)

        self._context.start(restore_or_ask(), what=what)

    # --- copy and export ----------------------------------------------------------------------------------------------

    def action_copy_answer(self) -> None:
        """Copy the last answer."""
        state = self._context.current.state
        transcript = state.transcript if state is not None else ()
        answers = [each.text for each in transcript if each.role == "assistant" and each.text]
        if answers:
            self._context.copy(answers[-1])
        else:
            self._context.tell("there is no answer yet", "warning")

    def action_export(self, file: str = "") -> None:
        """Export the conversation to a file."""
        session_id = self._context.current.require()

        def export_as(name: str) -> None:
            if name.strip():
                self._context.start(self._export(session_id, name.strip()), what="writing")

        if file:
            export_as(file)
        else:
            screen = LineInputScreen("Write to which file? (.md, .html or .jsonl)", "conversation.md")
            self._context.ask(screen, export_as)

    async def _export(self, session_id: sc.SessionId, name: str) -> None:
        path = await anyio.to_thread.run_sync(_resolve_path, self._context.options.cwd, name)
        if await anyio.to_thread.run_sync(path.exists):
            question = f"This file already exists. Overwrite it?\n\n{path}"
            self._context.confirm(
                question, lambda: self._context.start(self._write(session_id, path), what="writing"), sudden=True
            )
        else:
            await self._write(session_id, path)

    async def _write(self, session_id: sc.SessionId, path: Path) -> None:
        """Write a conversation to a file whose extension decides the format."""
        from frontends.commands.export.command import write_export

        kinds: dict[str, Format] = {".html": "html", ".htm": "html", ".jsonl": "jsonl", ".md": "markdown"}
        kind = kinds.get(path.suffix.lower())
        if kind is None:
            raise sc.InvalidInput(f"{path.name!r}: the name must end in .md, .html or .jsonl", field="path")
        written = await anyio.to_thread.run_sync(write_export, self._context.options.home, session_id, path, kind)
        self._context.tell(f"written to {path} ({format_size(written)})")


def _are_siblings(one: sc.Message, other: sc.Message) -> bool:
    return one.role == other.role == "user" and one.parent_id == other.parent_id


def _resolve_path(base: str, typed: str) -> Path:
    """Return the file that was typed."""
    try:
        return Path(base) / Path(typed).expanduser()
    except RuntimeError as error:  # there is no such user
        raise sc.InvalidInput(f"{typed!r}: {error}", field="path") from None


def _overwrite_question(changed: sc.Conflict) -> str:
    """Return the question whether to overwrite files that have changed since, or a conversation that has continued."""
    if not isinstance(changed, sc.FilesChanged):
        return "The conversation has continued since this undo. Revert the undo anyway?"
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
