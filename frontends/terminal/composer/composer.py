"""The composer: the input for prompts with its suggestions, attachments and history.

It never waits: slow work (files, the clipboard) runs in the background.

Rules:
1. What the user wrote is never lost: not by walking the history, not by a failed send, not by a search.
2. A message is the input at the key press, however fast the next keys come; it goes to the session viewed at that
   moment, and replaces the message being edited at that moment.
3. An edit is part of the draft: it ends when its message is sent or the draft is cleared.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from functools import partial
from pathlib import Path
from typing import Any, Final

import anyio.to_thread
import attrs
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.document._document import Selection
from textual.widget import Widget
from textual.widgets import Static, TextArea

import session_core as sc
from frontends.shared.sanitise import one_line
from frontends.terminal.composer.attached_files import (
    Attachment,
    NotAttached,
    clipboard_image,
    clipboard_text,
    find_image_paths,
    join_attachments,
    read_image,
)
from frontends.terminal.composer.completion import Completer, ParsedInput, parse_input
from frontends.terminal.composer.drafts import Draft, PromptSubmission
from frontends.terminal.composer.editor import Editor
from frontends.terminal.composer.paste import MAX_PASTED_CHARS, Prompt, is_large, sanitise_paste
from frontends.terminal.composer.popup import Chips, Popup
from frontends.terminal.composer.prompt_history import HistoryWalk, PromptHistory
from frontends.terminal.composer.suggestions import SuggestionController
from frontends.terminal.destination import MessageTarget
from frontends.terminal.options import EditTarget

log = logging.getLogger(__name__)

_SHOWN_CHARS: Final = 400
_WHILE_BUSY: Final = {
    "message": "Enter queues, Alt+S steers",
    "shell": "runs only after the turn has ended",
    "command": "",
}
"""The title above the input for each kind of text while a turn runs."""
_UNREACHABLE: Final = "The clipboard is empty or cannot be reached from here; paste with your terminal's own key."
_ELSEWHERE: Final = "You have switched to another session, so nothing was pasted; paste again where it belongs."
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

    def __init__(
        self,
        submit: Callable[[ParsedInput, PromptSubmission], object],
        *,
        get_target: Callable[[], MessageTarget],
        history: Path | None = None,
        id: str | None = None,
    ) -> None:
        super().__init__(id=id)
        self.get_target = get_target
        self._submit = submit
        self._popup = Popup(self._accept_clicked)
        self._editor = Editor(self._paste)
        self._suggesting = SuggestionController(
            self._editor, self._popup, partial(self._start, group="composer suggestions", exclusive=True)
        )
        self._editor.changed = self._suggesting.handle_text_change
        self._editor.intents = {
            "send": self._submit_prompt,
            "steer": partial(self._submit_prompt, steer=True),
            "older": lambda: self._suggesting.move(-1) or self._recall_prompt(-1),
            "newer": lambda: self._suggesting.move(1) or self._recall_prompt(1),
            "take": lambda: self._accept_suggestion() is not None,
            "close": self._suggesting.close,
            "search": self._search,
            "clipboard": self._paste_clipboard,
            "drop": lambda: not self._editor.text and self._drop(-1),
        }
        self._chips = Chips(self._drop_clicked)
        self._mark = Static(Content("> "), id="mark")
        self._history = PromptHistory(history)
        self._walk: HistoryWalk | None = None  # through the history; None while the draft is in the input
        self._attached: tuple[Attachment, ...] = ()
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
        self._start(self._load_history)

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
        return not self._editor.text and not self._attached

    @property
    def editing(self) -> EditTarget | None:
        """The message that the next one replaces."""
        return self._rest.editing

    @property
    def draft(self) -> Draft:
        """The current draft, with pastes, attachments and the edit target."""
        prompt = self._suggesting.searched_from or self._editor.prompt
        return attrs.evolve(self._rest, prompt=prompt, attached=self._attached)

    @draft.setter
    def draft(self, draft: Draft) -> None:
        self._suggesting.close()
        self._load_draft(draft)

    def _load_draft(self, draft: Draft) -> None:
        self._rest = attrs.evolve(draft, prompt=Prompt(), attached=())
        self._replace_text(draft.prompt)
        self._show_attached(draft.attached)

    def clear(self) -> None:
        """Clear everything; an edit is cancelled, and the earlier draft comes back."""
        self.draft = self._rest.aside or Draft()

    def edit_message(self, editing: EditTarget, parts: Iterable[sc.Part]) -> None:
        """Start editing a message; the draft waits until the edit is sent or cleared."""
        self.draft = self.draft.edit(editing, parts)
        self.focus()

    def restore(self, submission: PromptSubmission) -> None:
        """Put back a message that could not be sent, before anything written since."""
        self.draft = self.draft.with_restored(submission)

    def focus(self, scroll_visible: bool = True) -> Composer:  # noqa: FBT001, FBT002
        """Focus the input."""
        # At once: Textual would do it later, and keys of a burst would go elsewhere until then.
        self.screen.set_focus(self._editor, scroll_visible)
        return self

    def _submit_prompt(self, *, steer: bool = False) -> bool:
        if self._suggesting.is_taken_by_enter and self._accept_suggestion() != "send":
            return True
        draft, waiting = self._rest, self._walk.draft if self._walk is not None else None
        prompt = self._editor.prompt
        text = prompt.whole.strip()
        entered = parse_input(text)
        submission = PromptSubmission(
            text=text, target=self.get_target(), prompt=prompt, steer=steer, editing=draft.editing
        )
        if entered.kind == "message":
            submission = attrs.evolve(submission, text=entered.text, attached=self._attached, offered=draft.offered)
        if text or submission.attached:
            self._remember(prompt)
            if entered.kind == "message":
                self._load_draft(Draft(prompt=waiting or Prompt()) if draft.aside is None else draft.aside)
            else:  # the edit waits, with its attachments
                self._replace_text(waiting or Prompt())
        self._submit(entered, submission)
        return True

    # --- history ------------------------------------------------------------------------------------------------------

    async def _load_history(self) -> None:
        history = self._history
        history.merge_read(await anyio.to_thread.run_sync(history.read))

    def _remember(self, prompt: Prompt) -> None:
        self._walk = None
        if self._history.add(prompt):
            self._start(partial(anyio.to_thread.run_sync, self._history.write, prompt))

    def _recall_prompt(self, step: int) -> bool:
        editor, older = self._editor, step < 0
        if not (editor.at_top if older else editor.at_bottom):
            return False
        if self._walk is None and older:
            self._walk = HistoryWalk(self._history.prompts)
        there = self._walk.go(step, editor.prompt) if self._walk is not None else None
        if there is not None:
            self._replace_text(there, walking=True)
        return there is not None or older

    def _search(self) -> bool:
        self._suggesting.search(self._history.prompts)
        self._start(self._load_history)
        return True

    def _accept_suggestion(self) -> str | None:
        """Accept the suggestion; return whether it is to be sent or edited next, or None if there was none."""
        found = self._suggesting.take()
        if found is None:
            return None
        if found.prompt is not None:
            self._walk = found.walk
            self._replace_text(found.prompt, walking=True)
        return "send" if found.complete else "edit"

    # --- pasting and attachments --------------------------------------------------------------------------------------

    def _show_attached(self, attached: tuple[Attachment, ...]) -> None:
        """Replace all attachments by these."""
        self._attached = attached
        self._chips.show(tuple(each.label for each in attached))
        self._retitle()

    def _drop(self, index: int) -> bool:
        """Remove one attachment; False if the index is out of range."""
        if not -len(self._attached) <= index < len(self._attached):
            return False
        remaining = list(self._attached)
        del remaining[index]
        self._show_attached(tuple(remaining))
        return True

    def _paste(self, pasted: str) -> None:
        """Attach the images whose paths were pasted or dropped; insert any other text."""
        paths = find_image_paths(pasted)
        if paths:
            self._start(partial(self._attach_images, paths, pasted, self.get_target()))
        else:
            self._insert_paste(pasted)

    async def _attach_images(self, paths: list[str], pasted: str, target: MessageTarget) -> None:
        folder = Path(target.new.cwd)
        try:
            found = [await anyio.to_thread.run_sync(read_image, path, folder) for path in paths]
            if self._is_here(target):
                self._show_attached(join_attachments(self._attached, found))
        except NotAttached as error:
            self._tell(str(error))
            if self.get_target().is_same(target):
                self._insert_paste(pasted)

    def _paste_clipboard(self) -> bool:
        """Attach the image in the clipboard, or insert its text, or else the text this terminal last copied."""
        self._start(partial(self._read_clipboard, self.app.clipboard, self.get_target()))
        return True

    async def _read_clipboard(self, own: str, target: MessageTarget) -> None:
        try:
            image = await clipboard_image()
            if image is not None:
                if self._is_here(target):
                    self._show_attached(join_attachments(self._attached, [image]))
                return
        except NotAttached as error:
            self._tell(str(error))
            return
        text = await clipboard_text() or own
        if not text:
            self._tell(_UNREACHABLE)
        elif self._is_here(target):
            self._paste(text)

    def _is_here(self, target: MessageTarget) -> bool:
        """Return whether the result of a slow read is still wanted: it belongs to the session viewed at the start."""
        here = self.get_target().is_same(target)
        if not here:
            self._tell(_ELSEWHERE)
        return here

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
        if not walking:
            self._walk = None
        self._suggesting.replace_text(prompt)

    @on(TextArea.Changed)
    def _text_changed(self, event: TextArea.Changed) -> None:
        event.stop()
        self._retitle()

    @on(TextArea.SelectionChanged)
    def _cursor_moved(self, event: TextArea.SelectionChanged) -> None:
        event.stop()
        self._suggesting.handle_cursor_move()

    def _accept_clicked(self) -> None:
        self._accept_suggestion()
        self.focus()

    def _drop_clicked(self, index: int) -> None:
        self._drop(index)
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
        attached = len(self._attached)
        words.append(f"{attached} attachments" if attached > 1 else "")
        if self._busy and text and self.editing is None and not searching:
            words.append(_WHILE_BUSY[parse_input(text).kind])
        self.border_title = Content(" - ".join(word for word in words if word))

    def _tell(self, message: str) -> None:
        self.notify(one_line(message, _SHOWN_CHARS), severity="warning", markup=False)

    def _start(self, work: Work, *, group: str = "composer", exclusive: bool = False) -> None:
        """Do something in the background; a failure is reported and lets the user go on writing."""

        async def report_failure() -> None:
            try:
                await work()
            except Exception as error:
                log.exception("background work of the composer failed")
                self._tell(f"unexpected error: {type(error).__name__}: {error}")

        guarded: Callable[[], Coroutine[None, None, Any]] = report_failure
        self.run_worker(guarded, group=group, exclusive=exclusive, exit_on_error=False)
