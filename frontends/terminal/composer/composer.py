"""The composer: the input for prompts with its suggestions, attachments and history.

It posts messages and never waits; slow work (files, the clipboard) runs in the background.

Rules:
1. What the user wrote is never lost: not by walking the history, not by a failed send, not by a search.
2. A message is the input at the key press, however fast the next keys come; it goes to the session viewed at that
   moment, and replaces the message being edited at that moment.
3. An edit is part of the draft: it ends when its message is sent or the draft is cleared.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread
import attrs
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.document._document import Selection
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static, TextArea

import session_core as sc
from frontends.shared.sanitise import one_line
from frontends.terminal.composer.attached_files import NotAttached, join_attachments, read_mentions
from frontends.terminal.composer.attachments import AttachmentList
from frontends.terminal.composer.completion import Completer, find_mentions, parse_input
from frontends.terminal.composer.drafts import NOTHING, Draft, PromptSubmission
from frontends.terminal.composer.editor import Editor
from frontends.terminal.composer.keys import KEYS as KEYS
from frontends.terminal.composer.keys import KeyIntent
from frontends.terminal.composer.paste import MAX_PASTED_CHARS, Prompt, is_large, sanitise_paste
from frontends.terminal.composer.popup import Chips, Popup
from frontends.terminal.composer.prompt_history import HistoryWalk, PromptHistory
from frontends.terminal.composer.suggestions import SuggestionController
from frontends.terminal.destination import MessageTarget
from frontends.terminal.options import EditTarget, NewSession

# --- sending messages, with the files they mention --------------------------------------------------------------------
# Rules:
# 1. Messages leave in the order in which they were sent, even if files have to be read for one of them.
# 2. Only mentions visible in the input count: a folded paste mentions nothing.
# 3. Files inside the session's folder are attached silently. A file from elsewhere is shown first: the message comes
# back with it, and leaves when it is sent again. A file removed then is not offered again.
log = logging.getLogger(__name__)


class MessageSender:
    """Sends messages, or holds them back with the reason."""

    def __init__(
        self,
        start: Callable[[Callable[[], Awaitable[None]]], object],
        send: Callable[[PromptSubmission], object],
        hold: Callable[[PromptSubmission, str], object],
        tell: Callable[[str], object],
    ) -> None:
        self._start = start
        self._send = send
        self._hold = hold
        self._tell = tell
        self._order = anyio.Lock()
        self._pending = 0

    def send(self, submission: PromptSubmission) -> None:
        """Send a message, after those before it."""
        there = {each.name for each in submission.attached}.union(
            submission.editing.files if submission.editing is not None else ()
        )
        paths = [path for path in find_mentions(submission.as_prompt.text) if path not in there]
        if paths or self._pending:
            self._pending += 1
            self._start(partial(self._send_in_turn, submission, paths))
        else:
            self._send(submission)

    async def _send_in_turn(self, submission: PromptSubmission, paths: list[str]) -> None:
        async with self._order:
            why = ""
            try:
                if paths:
                    submission, why = await self._attach_mentions(submission, paths)
            except Exception as error:
                log.exception("mentioned files could not be read")
                why = f"unexpected error: {type(error).__name__}: {error}"
            finally:
                self._pending -= 1
            if why:
                self._hold(submission, why)
            else:
                self._send(submission)

    async def _attach_mentions(self, submission: PromptSubmission, paths: list[str]) -> tuple[PromptSubmission, str]:
        """Return a message with its mentioned files, and the reason to hold it back, if any."""
        try:
            await submission.target.wait_decided()  # its folder is known only then
        except sc.SessionCoreError:
            return submission, ""  # sending reports the error
        found = await anyio.to_thread.run_sync(read_mentions, paths, Path(submission.target.new.cwd))
        asked = [each for each in found.outside if each.name not in submission.offered]
        try:
            attached = join_attachments(submission.attached, (*found.inside, *asked))
        except NotAttached as error:
            self._tell(f"{error} The files were not attached.")
            return submission, ""
        names = [each.name for each in asked]
        submission = attrs.evolve(submission, attached=attached, offered=submission.offered | set(names))
        return submission, _describe_outside_files(names) if names else ""


def _describe_outside_files(names: list[str]) -> str:
    lies, it, chip = ("lies", "it", "its chip") if len(names) == 1 else ("lie", "them", "a chip")
    return (
        f"{', '.join(names)} {lies} outside the session's folder. Nothing was sent yet: "
        f"Enter sends {it} along, a click on {chip} leaves it out."
    )


# Earlier prompts in the input: recorded when sent, and walked by keys. File access runs in the background.
class HistoryNavigator:
    """Keeps the history of an input, and the position in it."""

    def __init__(
        self, editor: Editor, file: Path | None, start: Callable[[Callable[[], Awaitable[None]]], object]
    ) -> None:
        self._editor = editor
        self._history = PromptHistory(file)
        self._start = start
        self._walk: HistoryWalk | None = None

    @property
    def prompts(self) -> Sequence[Prompt]:
        """The earlier prompts, as far as they are loaded."""
        return self._history.prompts

    @property
    def draft(self) -> Prompt | None:
        """The draft, while an earlier prompt is in the input."""
        return self._walk.draft if self._walk is not None else None

    def use(self, file: Path) -> None:
        """Use this file for the history from now on."""
        self._history = PromptHistory(file)
        self._walk = None

    def learn(self) -> None:
        """Load the prompts of all terminals."""
        self._start(self._learn)

    async def _learn(self) -> None:
        history = self._history
        history.merge_read(await anyio.to_thread.run_sync(history.read))

    def remember(self, prompt: Prompt) -> None:
        """Record a prompt that was sent."""
        self._walk = None
        if self._history.add(prompt):
            self._start(partial(_write, self._history, prompt))

    def reset_walk(self) -> None:
        """Return to the end: the current input is the draft."""
        self._walk = None

    def resume_walk_at(self, past: Sequence[Prompt], index: int, draft: Prompt) -> None:
        """Continue at a prompt that was found, keeping the draft."""
        self._walk = HistoryWalk.from_search(past, index, draft)

    def go_older(self) -> Prompt | None:
        """Go to the previous prompt; None at the oldest."""
        if self._walk is None:
            self._walk = HistoryWalk(self._history.prompts)
        return self._walk.go_older(self._editor.prompt)

    def go_newer(self) -> Prompt | None:
        """Go to the next prompt, and finally to the draft; None at the end."""
        return None if self._walk is None else self._walk.go_newer(self._editor.prompt)


async def _write(history: PromptHistory, prompt: Prompt) -> None:
    await anyio.to_thread.run_sync(history.write, prompt)


# --- composer ---------------------------------------------------------------------------------------------------------


_SHOWN_CHARS: Final = 400
_WHILE_BUSY: Final = {
    "message": "Enter queues, Alt+S steers",
    "shell": "runs only after the turn has ended",
    "command": "",
}
"""The title above the input for each kind of text while a turn runs."""
Work = Callable[[], Awaitable[None]]


class Composer(Widget):
    """The input at the bottom of the screen.

    Attributes:
        get_target: Returns the target of a message sent now, whose folder is also the base of relative paths.
    """

    DEFAULT_CSS = """
    Composer { height: auto; border-top: solid $border-blurred; border-title-color: $text-muted; }
    Composer:focus-within { border-top: solid $accent; }
    Composer.shell { border-top: solid $warning; border-title-color: $warning; }
    Composer > Horizontal { height: auto; max-height: 34vh; }
    Composer #mark { width: 2; height: 1; color: $text-muted; }
    Composer:focus-within #mark { color: $accent; }
    Composer.shell:focus-within #mark { color: $warning; }
    """
    can_focus = False

    class _SubmissionMessage(Message):
        def __init__(self, submission: PromptSubmission) -> None:
            self.submission = submission
            super().__init__()

    class MessageSubmitted(_SubmissionMessage):
        """A message is to be sent; if that fails, give it back with `restore`."""

    class EmptySubmitted(Message):
        """Enter was pressed with nothing to send."""

    class MessageHeld(_SubmissionMessage):
        """A message must not be sent yet: give it back, and show why."""

        def __init__(self, submission: PromptSubmission, why: str) -> None:
            self.why = why
            super().__init__(submission)

    class ShellLineSubmitted(_SubmissionMessage):
        """A shell line, without its mark; `submission` is the input as typed."""

        def __init__(self, line: str, submission: PromptSubmission) -> None:
            self.line = line
            super().__init__(submission)

    class SlashSubmitted(_SubmissionMessage):
        """A command, without its slash; `submission` is the input as typed."""

        def __init__(self, name: str, arguments: str, submission: PromptSubmission) -> None:
            self.name = name
            self.arguments = arguments
            super().__init__(submission)

    def __init__(self, *, history: Path | None = None, folder: Path | None = None, id: str | None = None) -> None:
        super().__init__(id=id)
        target = MessageTarget(NewSession(cwd=str(folder or Path())))
        self.get_target: Callable[[], MessageTarget] = lambda: target
        self._editor = Editor(self._handle_intent, self._paste)
        self._popup = Popup()
        self._chips = Chips()
        self._mark = Static(Content("> "), id="mark")
        self._recalling = HistoryNavigator(self._editor, history, self._start)
        self._suggesting = SuggestionController(self._editor, self._popup, self._ask)
        self._attaching = AttachmentList(self._chips, self._start, self._insert_paste, self._tell, self._retitle)
        self._sending = MessageSender(self._start, self._send, self._hold, self._tell)
        self._rest = Draft()  # the parts of the draft outside the input and the chips
        self._busy = False
        self._last_status: tuple[bool, str] | None = None

    def compose(self) -> ComposeResult:
        """Put suggestions and attachments above the input."""
        yield self._popup
        yield self._chips
        with Horizontal():
            yield self._mark
            yield self._editor

    def on_mount(self) -> None:
        """Read the history in the background."""
        self._recalling.learn()

    # --- for the app --------------------------------------------------------------------------------------------------

    def show(self, *, busy: bool, placeholder: str) -> None:
        """Update the display: whether a turn runs, and the placeholder of an empty input."""
        if (busy, placeholder) != self._last_status:
            self._last_status = busy, placeholder
            self._busy = busy
            self._editor.placeholder = Content(one_line(placeholder, _SHOWN_CHARS))
            self._retitle()

    def set_completers(self, completers: dict[str, Completer]) -> None:
        """Set the completers for `/` and `@`; see `completion`."""
        self._suggesting.completers = dict(completers)

    def use_history(self, file: Path) -> None:
        """Use this history file, which all terminals of a home share."""
        self._recalling.use(file)
        if self.is_mounted:
            self._recalling.learn()

    @property
    def text(self) -> str:
        """The text that would be sent now."""
        return self._editor.prompt.whole

    @text.setter
    def text(self, text: str) -> None:
        self._suggesting.close()
        self._replace_text(Prompt(text=text))

    @property
    def selected_text(self) -> str:
        """The selected text, as it would be sent."""
        return self._editor.selected_whole

    def unselect(self) -> None:
        """Clear the selection; the cursor stays."""
        self._editor.selection = Selection.cursor(self._editor.cursor_location)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to send."""
        return not self._editor.text and not self._attaching.attachments

    @property
    def editing(self) -> EditTarget | None:
        """The message that the next one replaces."""
        return self._rest.editing

    @property
    def draft(self) -> Draft:
        """The current draft, with pastes, attachments and the edit target."""
        prompt = self._suggesting.searched_from or self._editor.prompt
        return attrs.evolve(self._rest, prompt=prompt, attached=self._attaching.attachments)

    @draft.setter
    def draft(self, draft: Draft) -> None:
        self._suggesting.close()
        self._load_draft(draft)

    def _load_draft(self, draft: Draft) -> None:
        self._rest = attrs.evolve(draft, prompt=NOTHING, attached=())
        self._replace_text(draft.prompt)
        self._attaching.show(draft.attached)

    def clear(self) -> None:
        """Clear everything; an edit is cancelled, and the earlier draft comes back."""
        self.draft = self._rest.aside or Draft()

    def edit_message(self, editing: EditTarget, parts: Iterable[sc.Part]) -> None:
        """Start editing a message; the draft waits until the edit is sent or cleared."""
        self.draft = self.draft.edit(editing, parts)

    def restore(self, submission: PromptSubmission) -> None:
        """Put back a message that could not be sent, before anything written since."""
        self.draft = self.draft.with_restored(submission)

    def focus(self, scroll_visible: bool = True) -> Composer:  # noqa: FBT001, FBT002
        """Focus the input."""
        # At once: Textual would do it later, and keys of a burst would go elsewhere until then.
        self.screen.set_focus(self._editor, scroll_visible)
        return self

    # --- requests of keys ---------------------------------------------------------------------------------------------

    def _handle_intent(self, intent: KeyIntent) -> bool:
        match intent:
            case "changed":
                self._suggesting.handle_text_change()
                return True
            case "send" | "steer":
                return self._submit_prompt(steer=intent == "steer")
            case "older":
                return self._suggesting.move(-1) or self._recall_prompt(older=True)
            case "newer":
                return self._suggesting.move(1) or self._recall_prompt(older=False)
            case "take":
                return self._accept_suggestion() is not None
            case "close":
                return self._suggesting.close()
            case "search":
                return self._search()
            case "clipboard":
                self._attaching.paste_clipboard(self.app.clipboard, self.get_target)
                return True
            case "drop":
                return not self._editor.text and self._attaching.drop(-1)

    def _submit_prompt(self, *, steer: bool) -> bool:
        if self._suggesting.is_taken_by_enter and self._accept_suggestion() != "send":
            return True
        draft, waiting = attrs.evolve(self._rest, attached=self._attaching.attachments), self._recalling.draft
        prompt = self._editor.prompt
        text = prompt.whole.strip()
        if not text and not draft.attached:
            self.post_message(self.EmptySubmitted())
            return True
        submission = PromptSubmission(
            text=text, target=self.get_target(), prompt=prompt, steer=steer, editing=draft.editing
        )
        entered = parse_input(text)
        self._recalling.remember(prompt)
        if entered.kind == "message":
            done = Draft(prompt=waiting or NOTHING) if draft.aside is None else draft.aside
            self._load_draft(done)
            self._sending.send(
                attrs.evolve(submission, text=entered.text, attached=draft.attached, offered=draft.offered)
            )
        else:  # the edit waits, with its attachments
            self._replace_text(waiting or NOTHING)
            if entered.kind == "shell":
                self.post_message(self.ShellLineSubmitted(entered.text, submission))
            else:
                self.post_message(self.SlashSubmitted(entered.text, entered.arguments, submission))
        return True

    def _send(self, submission: PromptSubmission) -> None:
        self.post_message(self.MessageSubmitted(submission))

    def _hold(self, submission: PromptSubmission, why: str) -> None:
        self.post_message(self.MessageHeld(submission, one_line(why, _SHOWN_CHARS)))

    # --- history ------------------------------------------------------------------------------------------------------

    def _recall_prompt(self, *, older: bool) -> bool:
        editor = self._editor
        if not (editor.at_top if older else editor.at_bottom):
            return False
        there = self._recalling.go_older() if older else self._recalling.go_newer()
        if there is not None:
            self._replace_text(there, walking=True)
        return there is not None or older

    def _search(self) -> bool:
        self._suggesting.search(self._recalling.prompts)
        self._recalling.learn()
        return True

    def _accept_suggestion(self) -> str | None:
        """Accept the suggestion; return whether it is to be sent or edited next, or None if there was none."""
        found = self._suggesting.take()
        if found is None:
            return None
        if found.prompt is not None:
            self._recalling.resume_walk_at(self._suggesting.past, found.index, found.draft)
            self._replace_text(found.prompt, walking=True)
        return "send" if found.complete else "edit"

    # --- pasting ------------------------------------------------------------------------------------------------------

    def _paste(self, pasted: str) -> None:
        self._attaching.paste(pasted, self.get_target)

    def _insert_paste(self, pasted: str) -> None:
        text = sanitise_paste(pasted)
        if len(text) > MAX_PASTED_CHARS:
            self._tell(f"The paste has {len(text):,} characters; a message takes {MAX_PASTED_CHARS:,}.")
        elif is_large(text):
            self._editor.insert_text(self._editor.pastes.fold(text, self._editor.text))
        else:
            self._editor.insert_text(text)

    # --- display ------------------------------------------------------------------------------------------------------

    def _replace_text(self, prompt: Prompt, *, walking: bool = False) -> None:
        """Replace the text; text that was not typed gets no suggestions."""
        if not walking:
            self._recalling.reset_walk()
        self._suggesting.quiet = True
        self._editor.set_prompt(prompt)
        self._suggesting.quiet = False

    @on(TextArea.Changed)
    def _text_changed(self, event: TextArea.Changed) -> None:
        event.stop()
        self._retitle()

    @on(TextArea.SelectionChanged)
    def _cursor_moved(self, event: TextArea.SelectionChanged) -> None:
        event.stop()
        self._suggesting.handle_cursor_move()

    @on(Popup.SuggestionClicked)
    def _accept_clicked(self, event: Popup.SuggestionClicked) -> None:
        event.stop()
        if event.suggestion is self._popup.chosen:
            self._accept_suggestion()
        self.focus()

    @on(Chips.Removed)
    def _chip_clicked(self, event: Chips.Removed) -> None:
        event.stop()
        self._attaching.drop(event.index)
        self.focus()

    def _retitle(self) -> None:
        """Update the title above the input: the kind of text, and its length."""
        text = self._editor.text
        shell = text.startswith("!") and not text.startswith("!!")
        self.set_class(shell, "shell")
        searching = self._suggesting.searched_from is not None
        self._mark.update(Content("? " if searching else "$ " if shell else "> "))
        words = ["search earlier prompts" if searching else "shell line" if shell else ""]
        words.append("edit" if self.editing is not None else "")
        lines = self._editor.document.line_count
        words.append(f"{lines} lines" if lines > 1 else "")
        attached = len(self._attaching.attachments)
        words.append(f"{attached} attachments" if attached > 1 else "")
        if self._busy and text and self.editing is None and not searching:
            words.append(_WHILE_BUSY[parse_input(text).kind])
        self.border_title = Content(" - ".join(word for word in words if word))

    def _tell(self, message: str) -> None:
        self.notify(one_line(message, _SHOWN_CHARS), severity="warning", markup=False)

    def _start(self, work: Work) -> None:
        self.run_worker(self._guarded(work), group="composer", exit_on_error=False)

    def _ask(self, work: Work) -> None:
        self.run_worker(self._guarded(work), group="composer suggestions", exclusive=True, exit_on_error=False)

    def _guarded(self, work: Work) -> Callable[[], Coroutine[None, None, Any]]:
        """Return background work that reports a failure and lets the user go on writing."""

        async def guarded() -> None:
            try:
                await work()
            except Exception as error:
                log.exception("background work of the composer failed")
                self._tell(f"unexpected error: {type(error).__name__}: {error}")

        return guarded
