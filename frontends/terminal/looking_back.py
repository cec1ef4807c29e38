"""What people do with what was said: say it differently, go back, continue elsewhere, take it along."""

from __future__ import annotations

from collections.abc import Awaitable
from pathlib import Path
from time import monotonic
from typing import Final

import anyio.to_thread

import session_core as sc
from frontends.console.style import counted
from frontends.terminal import pickers
from frontends.terminal.base import TerminalBase
from frontends.terminal.clock import now_ms
from frontends.terminal.drafts import Said, read_parts
from frontends.terminal.inert import inert_line
from frontends.terminal.picker import Asker, Choice, Picker
from frontends.terminal.target import Target

LONG_S: Final = 1.0
"""From when on people are told that something goes on."""
AGAIN_S: Final = 10.0
"""How often they are told so again."""
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

    async def _taking_time(self, what: str, wish: Awaitable[object]) -> None:
        """Do something, and say that it goes on while it takes long."""
        began = monotonic()

        def still() -> None:
            self.tell(f"{what}… {round(monotonic() - began)} s", seconds=AGAIN_S)

        first = self.set_timer(LONG_S, still)
        again = self.set_interval(AGAIN_S, still)
        try:
            await wish
        finally:
            first.stop()
            again.stop()

    # --- stopping and going on ----------------------------------------------------------------------------------------

    def action_stop(self) -> None:
        """Stop the viewed session's turn."""
        self.carry_out(self.doing.stop(self.doing.viewed_session(), "turn"))

    def action_stop_all(self) -> None:
        """Stop the viewed session with its helpers."""
        self.carry_out(self.doing.stop(self.doing.viewed_session(), "subtree"))

    def action_resume(self) -> None:
        """Go on where a turn was cut short."""
        self.carry_out(self.doing.resume(self.doing.viewed_session()))

    def action_compact(self) -> None:
        """Sum the conversation up."""
        compacting = self.doing.client.compact_context(self.doing.viewed_session())
        self.carry_out(self._taking_time("summing up", compacting))

    def action_clear(self) -> None:
        """Begin the conversation afresh."""
        self.carry_out(self.doing.client.clear_context(self.doing.viewed_session()))

    # --- saying it differently ----------------------------------------------------------------------------------------

    def action_edit(self) -> None:
        """Choose something to say differently."""

        if choices := self._said():
            self.ask(Picker("Say differently", choices), self.edit_message)

    def action_branches(self) -> None:
        """Choose among the branches."""
        state = self.doing.state
        choices = pickers.branch_choices(state, now_ms()) if state is not None else []
        session_id = self.doing.viewed_session()

        def chosen(message_id: sc.MessageId) -> None:
            self.carry_out(self.doing.client.switch_branch(session_id, message_id))

        if len(choices) > 1:
            self.ask(Picker("Branches", choices), chosen)
        else:
            self.tell("this conversation has one branch; /edit begins another")

    def action_fork(self, name: str = "") -> None:
        """Continue from here in a new session."""
        self.carry_out(self._fork(self.doing.target, self.doing.viewed_session(), name.strip() or None))

    async def _fork(self, target: Target, session_id: sc.SessionId, name: str | None) -> None:
        created = await self.doing.client.fork_session(session_id, name=name)
        if self.doing.target.is_same(target):
            self.view(created.session_id)
        else:  # who looks at something else by now is not taken away from it
            self.tell("the new session is in the list")

    # --- going back ---------------------------------------------------------------------------------------------------

    def action_undo(self) -> None:
        """Choose where to go back to."""

        if choices := self._said():
            target = self.doing.target
            self.ask(Picker("Go back to before", choices), lambda message: self._begin_undo(target, message))

    def _begin_undo(self, target: Target, message: sc.Message, *, force: bool = False) -> None:
        self.carry_out(self._taking_time("going back", self._undo(target, message, force=force)))

    async def _undo(self, target: Target, message: sc.Message, *, force: bool) -> None:
        session_id = await self.doing.session(target)
        try:
            reply = await self.doing.client.restore_to_message(session_id, message.message_id, force=force)
        except sc.FilesChanged as changed:
            if force:
                raise
            self.confirm(_overwriting(changed), lambda: self._begin_undo(target, message, force=True), sudden=True)
            return
        self.give_back(Said(text=reply.text, target=target, attached=read_parts(message.parts)[1]))
        if self.doing.target.is_same(target):
            self.composer.focus()
        self.tell(_restored(reply), title="gone back", seconds=10)

    def action_redo(self) -> None:
        """Take the last undo back."""
        self._begin_redo(self.doing.viewed_session())

    def _begin_redo(self, session_id: sc.SessionId, *, force: bool = False) -> None:
        self.carry_out(self._taking_time("taking the undo back", self._redo(session_id, force=force)))

    async def _redo(self, session_id: sc.SessionId, *, force: bool) -> None:
        try:
            reply = await self.doing.client.take_back_undo(session_id, force=force)
        except sc.Conflict as conflict:
            if force or not (isinstance(conflict, sc.FilesChanged) or conflict.field == "force"):
                raise
            question = (
                _overwriting(conflict)
                if isinstance(conflict, sc.FilesChanged)
                else "The conversation has gone on since this undo. Take the undo back all the same?"
            )
            self.confirm(question, lambda: self._begin_redo(session_id, force=True), sudden=True)
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
                self.carry_out(self._taking_time("writing", self._export(session_id, name.strip())))

        if file:
            named(file)
        else:
            self.ask(Asker("Write to which file? (.md, .html or .jsonl)", "conversation.md"), named)

    async def _export(self, session_id: sc.SessionId, name: str) -> None:
        path = await anyio.to_thread.run_sync(_place, self.options.cwd, name)
        if await anyio.to_thread.run_sync(path.exists):
            question = f"This file exists already. Write over it?\n\n{path}"
            self.confirm(question, lambda: self._begin_write(session_id, path), sudden=True)
        else:
            await self._write(session_id, path)

    def _begin_write(self, session_id: sc.SessionId, path: Path) -> None:
        self.carry_out(self._taking_time("writing", self._write(session_id, path)))

    async def _write(self, session_id: sc.SessionId, path: Path) -> None:
        written = await self.doing.export(session_id, path)
        self.tell(f"written to {written}")

    def action_change_directory(self, directory: str = "") -> None:
        """Work in another directory."""
        target = self.doing.target

        def named(name: str) -> None:
            if name.strip():
                self.carry_out(self.doing.change_directory(name.strip(), target))

        if directory:
            named(directory)
        else:
            self.ask(Asker("Work in which directory?", target.new.cwd), named)


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
