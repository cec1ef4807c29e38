"""What people want, done: each wish is one or two commands to the service, and an error is a sentence.

Nothing here draws. What a command has changed comes back through the feeds, like what others do.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import anyio.to_thread
import attrs
from textual.notifications import SeverityLevel

import session_core as sc
from frontends.arguments import UsageError
from frontends.console.sanitise import one_line
from frontends.stored.which import find, last_used
from frontends.terminal.desk import NOT_YET
from frontends.terminal.drafts import Said, read_parts
from frontends.terminal.images import files_of, images_of
from frontends.terminal.notices import Notice
from frontends.terminal.options import NewSession
from frontends.terminal.reading import Reading
from frontends.terminal.target import Target

if TYPE_CHECKING:
    from frontends.terminal.requests import RequestPanel

_NAME_CHARS: Final = 60


class Doing(Reading):
    """Carries wishes out."""

    def placeholder(self) -> str:
        """What the empty composer says."""
        state, fleet = self.state, self._app.desk.fleet
        if fleet is not None and fleet.read_only is not None:
            return f"nothing can be changed any more: {fleet.read_only}"
        if self._app.composer.editing is not None:
            return "say it differently; Esc leaves it as it was"
        if state is not None and not state.activity.at_rest:
            return "queue a message; Esc stops the turn"
        if state is None:
            return "ask for something"  # the welcome says how
        return "ask for something; / for commands, @ for files, ! for the shell"

    def parting_hint(self, again: str) -> str:
        """What leaving means, for somebody who is about to; `again` is what they are to do once more."""
        if self._app.options.embedded:
            return f"{again} again closes the terminal and ends the work; everything said is kept"
        return f"{again} again closes the terminal; the work goes on"

    @property
    def work_would_end(self) -> bool:
        """Whether something runs that ends with the terminal."""
        fleet = self._app.desk.fleet
        busy = fleet is not None and any(not each.activity.at_rest for each in fleet.sessions.values())
        return busy and self._app.options.embedded

    # --- the beginning ------------------------------------------------------------------------------------------------

    def fleet_changed(self) -> None:
        """View the session that was asked for, once the list of all is there, and tell those who wait which it is."""
        fleet = self._app.desk.fleet
        if fleet is None or self._begun:
            return
        self._begun = True
        found, refused = self._asked_for(tuple(fleet.sessions.values()))
        first, is_viewed, start = self._first, self.target is self._first, self._first.new
        first.decide(found, refused)
        if self._new is first and (found is not None or refused is not None):
            self._new = Target(start)  # the next new session is another one
        if is_viewed and found is not None:
            self._app.desk.view(found.session_id)
        if refused is not None:
            self._app.tell(refused, "error")
        self._app.refresh_commands()
        if self._app.options.prompt:
            said = Said(text=self._app.options.prompt, target=first)
            self._app.carry_out(self.say(said), back=said)

    def _asked_for(self, sessions: tuple[sc.SessionSummary, ...]) -> tuple[sc.SessionSummary | None, str | None]:
        """Return the session to begin with, and why there is not the one that was named."""
        options = self._app.options
        try:
            if options.session is not None:
                return find(options.session, sessions, options.home), None
            return None if options.new else last_used(sessions, options.cwd, options.home), None
        except UsageError as error:
            return None, None if options.session is None else str(error)

    def view(self, session_id: sc.SessionId | None) -> None:
        """View another session, or the draft of a new one."""
        if session_id is None:
            self._new = Target(self._next_new())
        self._app.desk.view(session_id)

    def _next_new(self) -> NewSession:
        """Return what another session begins with: the same folder and model, and never the same permissions."""
        if self.session_id is None:
            return self.draft
        told = self.target.new
        return NewSession(cwd=told.cwd, model=told.model, tier=self._app.options.permissions)

    # --- saying something ---------------------------------------------------------------------------------------------

    async def session(self, target: Target, named_after: str = "") -> sc.SessionId:
        """Return the session that something goes to, made now if there is none yet."""
        client = await self._app.desk.connected()
        await target.decided()
        async with target.making:
            if target.session_id is None:
                new = target.new
                created = await client.create_session(
                    name=one_line(named_after, _NAME_CHARS) or None,
                    cwd=new.cwd,
                    model=new.model,
                    permission_tier=new.tier,
                    thinking=new.thinking,
                )
                is_viewed = self.target is target
                target.session_id = created.session_id
                if is_viewed:
                    self._app.desk.view(created.session_id)
            return target.session_id

    async def say(self, said: Said) -> None:
        """Send a message, or put it in the place of the one that is being edited."""
        session_id = await self.session(said.target, said.text)
        images, files = images_of(said.attached), files_of(said.attached)
        editing = said.editing
        if editing is not None and editing.message_id is not None:
            await self.client.edit_message(session_id, editing.message_id, said.text, images=images, files=files)
        elif editing is not None and editing.item_id is not None:
            await self.client.edit_queue_item(session_id, editing.item_id, said.text, images=images)
            if files:
                self._app.tell("a message that waits takes no more files; none was added", "warning")
        else:
            await self.client.send_user_message(
                session_id,
                said.text,
                images=images,
                files=files,
                deliver_as="steer" if said.steer else "follow_up",
            )

    async def send_now(self, item: sc.QueueItem, target: Target) -> None:
        """Have the agent read a message that waits within its turn, or at once if it rests."""
        session_id = await self.session(target)
        taken = await self.client.take_queue(session_id, item.item_id)
        for each in taken.items:
            text, attached = read_parts(each.parts)
            said = Said(text=text, target=target, attached=attached, steer=True)
            try:
                await self.say(said)
            except Exception:  # it waits no more, so it would be lost
                self._app.give_back(said)
                raise

    async def run_line(self, line: str, target: Target) -> None:
        """Run a line in the shell, as far as the permissions allow."""
        session_id = await self.session(target, line)
        await self.client.run_shell_line(session_id, line)

    async def run_command(self, name: str, arguments: str, target: Target) -> None:
        """Have an extension do something."""
        session_id = await self.session(target)
        extension, _, short = name.rpartition(".")
        reply = await self.client.run_command(session_id, short, arguments, extension=extension or None)
        if reply.content:
            self._app.pass_on(Notice(who=f"/{name}", text=reply.content, seconds=12, rows=12, chars=1_000))

    async def login(self, provider: str, target: Target) -> None:
        """Log in to a provider of an extension."""
        session_id = await self.session(target)
        await self.client.login_to_provider(session_id, provider)
        self._app.tell(f"logged in to {provider}")

    # --- stopping -----------------------------------------------------------------------------------------------------

    async def stop(self, session_id: sc.SessionId, scope: sc.StopScope) -> None:
        """Stop a session, and say what became of it."""
        outcome = await self.client.request_stop(session_id, scope=scope)
        self._app.tell(*_stopped(outcome))

    # --- answering ----------------------------------------------------------------------------------------------------

    async def approve(self, said: RequestPanel.Approved, session_id: sc.SessionId) -> None:
        """Say yes or no to a tool call, and tell if somebody else was faster."""
        reply = await self.client.answer_approval(
            session_id,
            said.approval.request_id,
            said.decision,
            fingerprint=said.approval.fingerprint,
            message=said.message,
        )
        if not reply.accepted:
            self._app.tell("this was answered already")

    async def answer(self, said: RequestPanel.Answered, session_id: sc.SessionId) -> None:
        """Answer an extension, and tell if somebody else was faster."""
        reply = await self.client.answer_dialog(session_id, said.dialog.request_id, said.value)
        if not reply.accepted:
            self._app.tell("this was answered already")

    # --- settings -----------------------------------------------------------------------------------------------------

    async def use_model(self, model: str, target: Target) -> None:
        """Let another model answer, in a session or in the one that is to begin."""
        await target.decided()
        async with target.making:
            if target.session_id is None:
                self._begin_with(target, model=model)
                return
        reply = await self.client.switch_model(target.session_id, model)
        if reply.effective != "now":
            self._app.tell(f"{model} answers from the next step on")

    async def think(self, thinking: sc.Thinking, target: Target) -> None:
        """Have the model reason more or less."""
        await target.decided()
        async with target.making:
            if target.session_id is None:
                self._begin_with(target, thinking=thinking)
                return
        if target.new.model is None:  # it was made a moment ago, and has not told us yet what it begins with
            raise sc.Disconnected(NOT_YET)
        await self.client.switch_model(target.session_id, target.new.model, thinking=thinking)

    async def use_tier(self, tier: sc.PermissionTier, target: Target) -> None:
        """Change what needs a yes."""
        await target.decided()
        async with target.making:
            if target.session_id is None:
                self._begin_with(target, tier=tier)
                return
        await self.client.change_permission_tier(target.session_id, tier)

    async def change_directory(self, typed: str, target: Target) -> None:
        """Work in another directory, in a session or in the one that is to begin."""
        await target.decided()
        path = str(await anyio.to_thread.run_sync(_folder, target.new.cwd, typed))
        async with target.making:
            if target.session_id is None:
                self._begin_with(target, cwd=path)
                return
        await self.client.change_working_directory(target.session_id, path)

    def _begin_with(self, target: Target, **changes: Any) -> None:
        target.new = attrs.evolve(target.new, **changes)
        self._app.redraw()

    # --- the past -----------------------------------------------------------------------------------------------------

    async def resume(self, session_id: sc.SessionId) -> None:
        """Go on where a turn was cut short."""
        reply = await self.client.resume_session(session_id)
        if not reply.started:
            self._app.tell("the session is at work already")

    def other_branch(self, message_id: sc.MessageId) -> sc.MessageId:
        """Return what else was said in the place of a message, one after the other."""
        state = self.state
        message = None if state is None else state.message(message_id)
        if state is None or message is None:
            raise sc.NotFound("this message is too old to switch here; use /branches")
        siblings = [each.message_id for each in state.messages if _same_place(each, message)]
        if len(siblings) < 2:
            raise sc.InvalidInput("nothing else was said here; e says it differently", field="message_id")
        return siblings[(siblings.index(message_id) + 1) % len(siblings)]


def _folder(base: str, typed: str) -> Path:
    """Return the folder that somebody means."""
    path = Path(base, Path(typed).expanduser()).resolve()
    if not path.is_dir():
        raise sc.InvalidInput(f"{str(path)!r} is not a directory", field="cwd")
    return path


def _same_place(one: sc.Message, other: sc.Message) -> bool:
    return one.role == other.role == "user" and one.parent_id == other.parent_id


def _stopped(outcome: sc.StopOutcome) -> tuple[str, SeverityLevel]:
    match outcome.result:
        case "nothing_running":
            return "nothing was running", "information"
        case "still_stopping":
            return "stopping; something has not let go yet", "warning"
        case "stopped":
            more = [f"{len(outcome.kept)} queued kept"] if outcome.kept else []
            more += [f"{len(outcome.survived)} left running"] if outcome.survived else []
            return "; ".join(["stopped", *more]), "information"
