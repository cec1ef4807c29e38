"""What people do with what was said: say it differently, go back, continue elsewhere, take it along."""

from pathlib import Path
from typing import Final

import anyio.to_thread

import session_core as sc
from frontends.console.style import counted
from frontends.terminal import pickers
from frontends.terminal.base import TerminalBase
from frontends.terminal.choosing import now_ms
from frontends.terminal.inert import inert_line
from frontends.terminal.picker import Asker, Choice, Picker

_MOST_NAMED: Final = 20
"""Files that a question names."""


class LookingBack(TerminalBase):
    """The actions about the past of the viewed session."""

    def _said(self) -> list[Choice[sc.Message]]:
        state = self.doing.state
        choices = pickers.said_choices(state, now_ms()) if state is not None else []
        if not choices:
            self.tell("nothing was said here yet", "warning")
        return choices

    # --- stopping and going on ----------------------------------------------------------------------------------------

    def action_stop(self) -> None:
        """Stop the viewed session's turn."""
        self.carry_out(self.doing.stop(self.doing.viewed_session(), "turn"))

    def action_stop_all(self) -> None:
        """Stop the viewed session with its helpers."""
        self.carry_out(self.doing.stop(self.doing.viewed_session(), "subtree"))

    def action_resume(self) -> None:
        """Go on where a turn was cut short."""
        self.carry_out(self.doing.resume())

    def action_compact(self) -> None:
        """Sum the conversation up."""
        self.carry_out(self.doing.client.compact_context(self.doing.viewed_session()))

    def action_clear(self) -> None:
        """Begin the conversation afresh."""
        self.carry_out(self.doing.client.clear_context(self.doing.viewed_session()))

    # --- saying it differently ----------------------------------------------------------------------------------------

    def action_edit(self) -> None:
        """Choose something to say differently."""

        if choices := self._said():
            picker = Picker("Say differently", choices)
            self.ask(picker, lambda message: self.edit_message(message.message_id, message.text))

    def action_branches(self) -> None:
        """Choose among the branches."""
        state = self.doing.state
        choices = pickers.branch_choices(state, now_ms()) if state is not None else []

        def chosen(message_id: sc.MessageId) -> None:
            self.carry_out(self.doing.client.switch_branch(self.doing.viewed_session(), message_id))

        if len(choices) > 1:
            self.ask(Picker("Branches", choices), chosen)
        else:
            self.tell("this conversation has one branch; /edit begins another")

    def action_fork(self, name: str = "") -> None:
        """Continue from here in a new session."""
        self.carry_out(self._fork(name.strip() or None))

    async def _fork(self, name: str | None) -> None:
        created = await self.doing.client.fork_session(self.doing.viewed_session(), name=name)
        self.view(created.session_id)

    # --- going back ---------------------------------------------------------------------------------------------------

    def action_undo(self) -> None:
        """Choose where to go back to."""

        if choices := self._said():
            picker = Picker("Go back to before", choices)
            self.ask(picker, lambda message: self.carry_out(self._undo(message, force=False)))

    async def _undo(self, message: sc.Message, *, force: bool) -> None:
        try:
            reply = await self.doing.undo(message.message_id, force=force)
        except sc.FilesChanged as changed:
            if force:
                raise
            self.confirm(_overwriting(changed), lambda: self.carry_out(self._undo(message, force=True)), sudden=True)
            return
        self.composer.restore(reply.text, (), ())
        self.composer.focus()
        self.tell(_restored(reply), title="gone back", seconds=10)

    def action_redo(self) -> None:
        """Take the last undo back."""
        self.carry_out(self._redo(force=False))

    async def _redo(self, *, force: bool) -> None:
        try:
            reply = await self.doing.client.take_back_undo(self.doing.viewed_session(), force=force)
        except sc.Conflict as conflict:
            if force or not (isinstance(conflict, sc.FilesChanged) or conflict.field == "force"):
                raise
            question = (
                _overwriting(conflict)
                if isinstance(conflict, sc.FilesChanged)
                else "The conversation has gone on since this undo. Take the undo back all the same?"
            )
            self.confirm(question, lambda: self.carry_out(self._redo(force=True)), sudden=True)
            return
        self.tell(_restored(reply), title="the undo is taken back", seconds=10)

    # --- taking it along ----------------------------------------------------------------------------------------------

    def action_copy_answer(self) -> None:
        """Copy the last answer."""
        state = self.doing.state
        transcript = state.transcript if state is not None else ()
        answers = [each.text for each in transcript if each.role == "assistant" and each.text]
        if answers:
            self.copy(answers[-1])
        else:
            self.tell("there is no answer yet", "warning")

    def action_export(self, file: str = "") -> None:
        """Write the conversation to a file."""
        session_id = self.doing.viewed_session()

        def named(name: str) -> None:
            if name.strip():
                self.carry_out(self._export(session_id, name.strip()))

        if file:
            named(file)
        else:
            self.ask(Asker("Write to which file? (.md, .html or .jsonl)", "conversation.md"), named)

    async def _export(self, session_id: sc.SessionId, name: str) -> None:
        path = await anyio.to_thread.run_sync(_place, self.options.cwd, name)
        if await anyio.to_thread.run_sync(path.exists):
            question = f"This file exists already. Write over it?\n\n{path}"
            self.confirm(question, lambda: self.carry_out(self._write(session_id, path)), sudden=True)
        else:
            await self._write(session_id, path)

    async def _write(self, session_id: sc.SessionId, path: Path) -> None:
        written = await self.doing.export(session_id, path)
        self.tell(f"written to {written}")

    def action_change_directory(self, directory: str = "") -> None:
        """Work in another directory."""

        def named(name: str) -> None:
            if name.strip():
                self.carry_out(self.doing.change_directory(name.strip()))

        state = self.doing.state
        current = state.settings.cwd if state is not None else self.doing.draft.cwd
        if directory:
            named(directory)
        else:
            self.ask(Asker("Work in which directory?", current), named)


def _place(base: str, typed: str) -> Path:
    """Return the file that somebody means."""
    try:
        return Path(base) / Path(typed).expanduser()
    except RuntimeError as error:  # nobody is called so
        raise sc.InvalidInput(f"{typed!r}: {error}", field="path") from None


def _overwriting(changed: sc.FilesChanged) -> str:
    """Ask whether files that were changed since are to be overwritten."""
    named = [f"  {inert_line(path)}: {inert_line(why)}" for path, why in changed.files[:_MOST_NAMED]]
    left = len(changed.files) - len(named)
    more = [f"  and {left} more"] if left else []
    told = ["Files are not as they were left:", "", *named, *more]
    return "\n".join([*told, "", "Overwrite them all the same? What is there now is saved first."])


def _restored(reply: sc.replies.RestoreReply) -> str:
    done = [each for each in reply.files if each.done != "skipped"]
    lines = [f"{counted(len(done), 'file')} brought back" if done else "no file was changed"]
    lines += [f"left alone: {inert_line(each.path)}: {each.why}" for each in reply.files if each.done == "skipped"]
    return "\n".join([*lines, *reply.remarks])
