"""What people want, done: each wish is one or two commands to the service, and an error is a sentence.

Nothing here draws. What a command has changed comes back through the feeds, like what others do.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import anyio
import anyio.to_thread
import attrs
from textual.notifications import SeverityLevel

import session_core as sc
from frontends.arguments import UsageError
from frontends.console.sanitise import one_line
from frontends.stored.which import find, last_used
from frontends.terminal.options import Draft
from frontends.terminal.reading import Reading

if TYPE_CHECKING:
    from frontends.terminal.requests import RequestPanel

_NAME_CHARS: Final = 60


@attrs.frozen(kw_only=True)
class Said:
    """What somebody wants to say."""

    text: str
    images: tuple[sc.ImagePart, ...] = ()
    files: tuple[sc.FilePart, ...] = ()
    steer: bool = False


class Doing(Reading):
    """Carries wishes out."""

    def placeholder(self) -> str:
        """What the empty composer says."""
        state = self.state
        if self.editing is not None:
            return "say it differently; Esc leaves it as it was"
        if state is not None and not state.activity.at_rest:
            return "queue a message; Esc stops the turn"
        return "ask for something; / for commands, @ for files, ! for the shell"

    def parting_hint(self) -> str:
        """What leaving means, for somebody who is about to."""
        if self._app.options.embedded:
            return "Ctrl+C again closes the terminal and ends the work; everything said is kept"
        return "Ctrl+C again closes the terminal; the work goes on"

    # --- the beginning ------------------------------------------------------------------------------------------------

    def fleet_changed(self) -> None:
        """View the session that was asked for, once the list of all is there; notice when the viewed one is gone."""
        fleet = self._app.desk.fleet
        if fleet is None or self._begun:
            return
        self._begun = True
        options = self._app.options
        sessions = tuple(fleet.sessions.values())
        try:
            if options.session is not None:
                self.view(find(options.session, sessions, options.home).session_id)
            elif not options.new:
                self.view(last_used(sessions, options.cwd, options.home).session_id)
        except UsageError as error:
            if options.session is not None:
                self._app.tell(str(error), "error")
        self._app.refresh_commands()
        if options.prompt:
            self._app.carry_out(self.say(Said(text=options.prompt)))

    def view(self, session_id: sc.SessionId | None) -> None:
        """View another session, or the draft of a new one."""
        self.editing = None
        if session_id is None and self.state is not None:
            settings = self.state.settings
            self.draft = Draft(cwd=settings.cwd, model=settings.model, tier=settings.permission_tier)
        self._app.desk.view(session_id)

    # --- saying something ---------------------------------------------------------------------------------------------

    async def session(self, named_after: str = "") -> sc.SessionId:
        """Return the viewed session, made now if it was a draft."""
        client = await self._app.desk.connected()
        if self.session_id is not None:
            return self.session_id
        draft = self.draft
        created = await client.create_session(
            name=one_line(named_after, _NAME_CHARS) or None,
            cwd=draft.cwd,
            model=draft.model,
            permission_tier=draft.tier,
            thinking=draft.thinking,
        )
        self._app.desk.view(created.session_id)
        return created.session_id

    async def say(self, said: Said) -> None:
        """Send a message, or put it in the place of the one that is being edited."""
        session_id = await self.session(said.text)
        editing, self.editing = self.editing, None
        try:
            if editing is not None and editing.message_id is not None:
                await self.client.edit_message(
                    session_id, editing.message_id, said.text, images=said.images, files=said.files
                )
            elif editing is not None and editing.item_id is not None:
                await self.client.edit_queue_item(session_id, editing.item_id, said.text, images=said.images)
            else:
                await self.client.send_user_message(
                    session_id,
                    said.text,
                    images=said.images,
                    files=said.files,
                    deliver_as="steer" if said.steer else "follow_up",
                )
        except sc.SessionCoreError:
            self.editing = editing
            raise

    async def send_now(self, item: sc.QueueItem) -> None:
        """Have the agent read a message that waits within its turn, or at once if it rests."""
        session_id = self.viewed_session()
        taken = await self.client.take_queue(session_id, item.item_id)
        for each in taken.items:
            await self.client.send_user_message(
                session_id,
                "".join(part.text for part in each.parts if isinstance(part, sc.TextPart)),
                images=tuple(part for part in each.parts if isinstance(part, sc.ImagePart)),
                files=tuple(part for part in each.parts if isinstance(part, sc.FilePart)),
                deliver_as="steer",
            )

    async def run_line(self, line: str) -> None:
        """Run a line in the shell, as far as the permissions allow."""
        await self.client.run_shell_line(await self.session(line), line)

    async def run_command(self, name: str, arguments: str) -> None:
        """Have an extension do something."""
        extension, _, short = name.rpartition(".")
        reply = await self.client.run_command(await self.session(), short, arguments, extension=extension or None)
        if reply.content:
            self._app.tell(reply.content, title=f"/{name}", seconds=12)

    async def login(self, provider: str) -> None:
        """Log in to a provider of an extension."""
        await self.client.login_to_provider(await self.session(), provider)
        self._app.tell(f"logged in to {provider}")

    async def change_directory(self, typed: str) -> None:
        """Work in another directory, here or in the session that is to begin."""
        state = self.state
        base = state.settings.cwd if state is not None else self.draft.cwd
        path = str(await anyio.to_thread.run_sync(_folder, base, typed))
        if self.session_id is None:
            self.draft = attrs.evolve(self.draft, cwd=path)
            self._app.redraw()
        else:
            await self.client.change_working_directory(self.session_id, path)

    # --- stopping -----------------------------------------------------------------------------------------------------

    async def stop(self, session_id: sc.SessionId, scope: sc.StopScope) -> None:
        """Stop a session, and say what became of it."""
        outcome = await self.client.request_stop(session_id, scope=scope)
        self._app.tell(*_stopped(outcome))

    # --- answering ----------------------------------------------------------------------------------------------------

    async def approve(self, said: "RequestPanel.Approved") -> None:
        """Say yes or no to a tool call, and tell if somebody else was faster."""
        reply = await self.client.answer_approval(
            self.viewed_session(),
            said.approval.request_id,
            said.decision,
            fingerprint=said.approval.fingerprint,
            message=said.message,
        )
        if not reply.accepted:
            self._app.tell("this was answered already")

    async def answer(self, said: "RequestPanel.Answered") -> None:
        """Answer an extension, and tell if somebody else was faster."""
        reply = await self.client.answer_dialog(self.viewed_session(), said.dialog.request_id, said.value)
        if not reply.accepted:
            self._app.tell("this was answered already")

    # --- settings -----------------------------------------------------------------------------------------------------

    async def use_model(self, model: str) -> None:
        """Let another model answer, here or in the session that is to begin."""
        if self.session_id is None:
            self.draft = attrs.evolve(self.draft, model=model)
            self._app.redraw()
            return
        reply = await self.client.switch_model(self.session_id, model)
        if reply.effective != "now":
            self._app.tell(f"{model} answers from the next step on")

    async def think(self, thinking: sc.Thinking) -> None:
        """Have the model reason more or less."""
        if self.session_id is None or self.state is None:
            self.draft = attrs.evolve(self.draft, thinking=thinking)
            self._app.redraw()
            return
        await self.client.switch_model(self.session_id, self.state.settings.model, thinking=thinking)

    async def use_tier(self, tier: sc.PermissionTier) -> None:
        """Change what needs a yes."""
        if self.session_id is None:
            self.draft = attrs.evolve(self.draft, tier=tier)
            self._app.redraw()
            return
        await self.client.change_permission_tier(self.session_id, tier)

    # --- the past -----------------------------------------------------------------------------------------------------

    async def undo(self, message_id: sc.MessageId | None = None, *, force: bool = False) -> sc.replies.RestoreReply:
        """Go back to before a message, with the files."""
        return await self.client.restore_to_message(self.viewed_session(), message_id, force=force)

    async def resume(self) -> None:
        """Go on where a turn was cut short."""
        reply = await self.client.resume_session(self.viewed_session())
        if not reply.started:
            self._app.tell("the session is at work already")

    async def branch(self, message_id: sc.MessageId, step: int = 1) -> None:
        """Show what else was said in the place of a message."""
        state = self.state
        message = None if state is None else state.message(message_id)
        if state is None or message is None:
            raise sc.NotFound("this message is too old to switch here; use /branches")
        siblings = [each.message_id for each in state.messages if _same_place(each, message)]
        if len(siblings) < 2:
            raise sc.InvalidInput("nothing else was said here; e says it differently", field="message_id")
        at = (siblings.index(message_id) + step) % len(siblings)
        await self.client.switch_branch(self.viewed_session(), siblings[at])


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
