"""Where prompts are written: the input with its suggestions, attachments and history.

It tells wishes and waits for nothing; what takes time (files, the clipboard) goes on beside it.

Rules:
1. What a person wrote is never lost: not by walking the history, not by a send that fails, not by a search.
2. What is sent is what was in the input when the key was pressed, however fast the next keys come; it goes to the
   session that was viewed then, and replaces what was being edited then.
3. What is edited is part of the draft: it ends with the message that was sent, or when the draft is cleared.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any, Final

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
from frontends.console.sanitise import one_line
from frontends.terminal.attaching import Attaching
from frontends.terminal.completion import Completer, read_entered
from frontends.terminal.composer_keys import KEYS as KEYS
from frontends.terminal.composer_keys import Wish
from frontends.terminal.drafts import NOTHING, Draft, Said
from frontends.terminal.editing import Editor
from frontends.terminal.options import Editing, NewSession
from frontends.terminal.pasting import MAX_PASTED_CHARS, Prompt, clean, is_large
from frontends.terminal.popup import Chips, Popup
from frontends.terminal.recalling import Recalling
from frontends.terminal.sending import Sending
from frontends.terminal.suggesting import Suggesting
from frontends.terminal.target import Target

log = logging.getLogger(__name__)

_SHOWN_CHARS: Final = 400
_WHILE_BUSY: Final = {
    "message": "Enter queues, Alt+S steers",
    "shell": "runs only when the turn has ended",
    "command": "",
}
"""What the line above says of each kind of thing while a turn runs."""
Work = Callable[[], Awaitable[None]]


class Composer(Widget):
    """The input at the bottom of the screen.

    Attributes:
        where: Tells where what is sent now goes, and so in which folder paths begin.
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

    class _Entered(Message):
        def __init__(self, said: Said) -> None:
            self.said = said
            super().__init__()

    class Sent(_Entered):
        """A message is to be sent; if that fails, give it back by `restore`."""

    class Nothing(Message):
        """Enter was pressed, and there is nothing to send."""

    class Held(_Entered):
        """A message was sent that must not go yet: give it back, and tell why."""

        def __init__(self, said: Said, why: str) -> None:
            self.why = why
            super().__init__(said)

    class ShellLine(_Entered):
        """A line for the shell, without its mark; `said` is what was typed."""

        def __init__(self, line: str, said: Said) -> None:
            self.line = line
            super().__init__(said)

    class Slash(_Entered):
        """A command, without its slash; `said` is what was typed."""

        def __init__(self, name: str, arguments: str, said: Said) -> None:
            self.name = name
            self.arguments = arguments
            super().__init__(said)

    def __init__(self, *, history: Path | None = None, folder: Path | None = None, id: str | None = None) -> None:
        super().__init__(id=id)
        target = Target(NewSession(cwd=str(folder or Path())))
        self.where: Callable[[], Target] = lambda: target
        self._editor = Editor(self._wish, self._paste)
        self._popup = Popup()
        self._chips = Chips()
        self._mark = Static(Content("> "), id="mark")
        self._recalling = Recalling(self._editor, history, self._start)
        self._suggesting = Suggesting(self._editor, self._popup, self._ask)
        self._attaching = Attaching(self._chips, self._start, self._put_in, self._tell, self._retitle)
        self._sending = Sending(self._start, self._send, self._hold, self._tell)
        self._rest = Draft()  # of the draft, what is neither in the input nor among the chips
        self._busy = False
        self._shown: tuple[bool, str] | None = None

    def compose(self) -> ComposeResult:
        """Put suggestions and attachments above the input."""
        yield self._popup
        yield self._chips
        with Horizontal():
            yield self._mark
            yield self._editor

    def on_mount(self) -> None:
        """Read the history, beside everything else."""
        self._recalling.learn()

    # --- for the app --------------------------------------------------------------------------------------------------

    def show(self, *, busy: bool, placeholder: str) -> None:
        """Tell what is going on: whether a turn runs, and what an empty input says."""
        if (busy, placeholder) != self._shown:
            self._shown = busy, placeholder
            self._busy = busy
            self._editor.placeholder = Content(one_line(placeholder, _SHOWN_CHARS))
            self._retitle()

    def set_completers(self, completers: dict[str, Completer]) -> None:
        """Say who completes what follows `/` and `@`; see `completion`."""
        self._suggesting.completers = dict(completers)

    def use_history(self, file: Path) -> None:
        """Keep the history in this file, which all terminals of a home share."""
        self._recalling.use(file)
        if self.is_mounted:
            self._recalling.learn()

    @property
    def text(self) -> str:
        """What would be sent now."""
        return self._editor.prompt.whole

    @text.setter
    def text(self, text: str) -> None:
        self._suggesting.close()
        self._put(Prompt(text=text))

    @property
    def selected_text(self) -> str:
        """What is selected in the input, as it would be sent."""
        return self._editor.selected_whole

    def unselect(self) -> None:
        """Select nothing; the cursor stays."""
        self._editor.selection = Selection.cursor(self._editor.cursor_location)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to send."""
        return not self._editor.text and not self._attaching.all

    @property
    def editing(self) -> Editing | None:
        """What the next message replaces."""
        return self._rest.editing

    @property
    def draft(self) -> Draft:
        """What is in it, with pastes and attachments, and what is being edited."""
        prompt = self._suggesting.searched_from or self._editor.prompt
        return attrs.evolve(self._rest, prompt=prompt, attached=self._attaching.all)

    @draft.setter
    def draft(self, draft: Draft) -> None:
        self._suggesting.close()
        self._take_up(draft)

    def _take_up(self, draft: Draft) -> None:
        self._rest = attrs.evolve(draft, prompt=NOTHING, attached=())
        self._put(draft.prompt)
        self._attaching.show(draft.attached)

    def clear(self) -> None:
        """Take everything out; what is edited is left as it was, and the draft from before comes back."""
        self.draft = self._rest.aside or Draft()

    def edit_message(self, editing: Editing, parts: Iterable[sc.Part]) -> None:
        """Let something be said differently; the draft waits until that is sent or cleared."""
        self.draft = self.draft.edit(editing, parts)

    def restore(self, said: Said) -> None:
        """Put back what could not be sent, before what was written since."""
        self.draft = self.draft.restored(said)

    def focus(self, scroll_visible: bool = True) -> Composer:  # noqa: FBT001, FBT002
        """Let the keys go to the input."""
        # At once: Textual would do it later, and keys that come in a burst would go elsewhere until then.
        self.screen.set_focus(self._editor, scroll_visible)
        return self

    # --- what keys wish for -------------------------------------------------------------------------------------------

    def _wish(self, wish: Wish) -> bool:
        match wish:
            case "changed":
                self._suggesting.changed()
                return True
            case "send" | "steer":
                return self._enter(steer=wish == "steer")
            case "older":
                return self._suggesting.move(-1) or self._go(older=True)
            case "newer":
                return self._suggesting.move(1) or self._go(older=False)
            case "take":
                return self._take() is not None
            case "close":
                return self._suggesting.close()
            case "search":
                return self._search()
            case "clipboard":
                self._attaching.paste_clipboard(self.app.clipboard, self.where)
                return True
            case "drop":
                return not self._editor.text and self._attaching.drop(-1)

    def _enter(self, *, steer: bool) -> bool:
        if self._suggesting.chosen_by_enter and self._take() != "send":
            return True
        draft, waiting = attrs.evolve(self._rest, attached=self._attaching.all), self._recalling.draft
        prompt = self._editor.prompt
        text = prompt.whole.strip()
        if not text and not draft.attached:
            self.post_message(self.Nothing())
            return True
        said = Said(text=text, target=self.where(), prompt=prompt, steer=steer, editing=draft.editing)
        entered = read_entered(text)
        self._recalling.remember(prompt)
        if entered.kind == "message":
            done = Draft(prompt=waiting or NOTHING) if draft.aside is None else draft.aside
            self._take_up(done)
            self._sending.send(attrs.evolve(said, text=entered.text, attached=draft.attached, offered=draft.offered))
        else:  # what is being edited waits, with what goes along
            self._put(waiting or NOTHING)
            if entered.kind == "shell":
                self.post_message(self.ShellLine(entered.text, said))
            else:
                self.post_message(self.Slash(entered.text, entered.arguments, said))
        return True

    def _send(self, said: Said) -> None:
        self.post_message(self.Sent(said))

    def _hold(self, said: Said, why: str) -> None:
        self.post_message(self.Held(said, one_line(why, _SHOWN_CHARS)))

    # --- what was sent before -----------------------------------------------------------------------------------------

    def _go(self, *, older: bool) -> bool:
        editor = self._editor
        if not (editor.at_top if older else editor.at_bottom):
            return False
        there = self._recalling.older() if older else self._recalling.newer()
        if there is not None:
            self._put(there, walking=True)
        return there is not None or older

    def _search(self) -> bool:
        self._suggesting.search(self._recalling.prompts)
        self._recalling.learn()
        return True

    def _take(self) -> str | None:
        """Take the suggestion; tells what comes next: it is to be sent, edited, or there was none."""
        found = self._suggesting.take()
        if found is None:
            return None
        if found.prompt is not None:
            self._recalling.stand_at(self._suggesting.past, found.index, found.draft)
            self._put(found.prompt, walking=True)
        return "send" if found.complete else "edit"

    # --- pasting ------------------------------------------------------------------------------------------------------

    def _paste(self, pasted: str) -> None:
        self._attaching.paste(pasted, self.where)

    def _put_in(self, pasted: str) -> None:
        text = clean(pasted)
        if len(text) > MAX_PASTED_CHARS:
            self._tell(f"The paste has {len(text):,} characters; a message takes {MAX_PASTED_CHARS:,}.")
        elif is_large(text):
            self._editor.put_in(self._editor.pastes.fold(text, self._editor.text))
        else:
            self._editor.put_in(text)

    # --- what is seen -------------------------------------------------------------------------------------------------

    def _put(self, prompt: Prompt, *, walking: bool = False) -> None:
        """Replace the text; no suggestions are made for what nobody has typed."""
        if not walking:
            self._recalling.leave()
        self._suggesting.quiet = True
        self._editor.put(prompt)
        self._suggesting.quiet = False

    @on(TextArea.Changed)
    def _text_changed(self, event: TextArea.Changed) -> None:
        event.stop()
        self._retitle()

    @on(TextArea.SelectionChanged)
    def _cursor_moved(self, event: TextArea.SelectionChanged) -> None:
        event.stop()
        self._suggesting.moved()

    @on(Popup.Taken)
    def _clicked(self, event: Popup.Taken) -> None:
        event.stop()
        if event.suggestion is self._popup.chosen:
            self._take()
        self.focus()

    @on(Chips.Removed)
    def _chip_clicked(self, event: Chips.Removed) -> None:
        event.stop()
        self._attaching.drop(event.index)
        self.focus()

    def _retitle(self) -> None:
        """Say in the line above what kind of thing is written, and how much."""
        text = self._editor.text
        shell = text.startswith("!") and not text.startswith("!!")
        self.set_class(shell, "shell")
        searching = self._suggesting.searched_from is not None
        self._mark.update(Content("? " if searching else "$ " if shell else "> "))
        words = ["search earlier prompts" if searching else "shell line" if shell else ""]
        words.append("said differently" if self.editing is not None else "")
        lines = self._editor.document.line_count
        words.append(f"{lines} lines" if lines > 1 else "")
        attached = len(self._attaching.all)
        words.append(f"{attached} attachments" if attached > 1 else "")
        if self._busy and text and self.editing is None and not searching:
            words.append(_WHILE_BUSY[read_entered(text).kind])
        self.border_title = Content(" - ".join(word for word in words if word))

    def _tell(self, message: str) -> None:
        self.notify(one_line(message, _SHOWN_CHARS), severity="warning", markup=False)

    def _start(self, work: Work) -> None:
        self.run_worker(self._guarded(work), group="composer", exit_on_error=False)

    def _ask(self, work: Work) -> None:
        self.run_worker(self._guarded(work), group="composer suggestions", exclusive=True, exit_on_error=False)

    def _guarded(self, work: Work) -> Callable[[], Coroutine[None, None, Any]]:
        """Return something to do beside the input of which people are told if it fails, and go on writing."""

        async def guarded() -> None:
            try:
                await work()
            except Exception as error:
                log.exception("something beside the input failed")
                self._tell(f"unexpected error: {type(error).__name__}: {error}")

        return guarded
