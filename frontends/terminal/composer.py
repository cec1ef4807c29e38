"""Where prompts are written: the input with its suggestions, attachments and history.

It tells wishes and waits for nothing; what takes time (files, the clipboard) goes on beside it.

Rules:
1. What a person wrote is never lost: not by walking the history, not by a send that fails, not by a search.
2. What is sent is what was in the input when the key was pressed, however fast the next keys come.
3. Messages leave in the order in which they were sent, also if files have to be read for one of them.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread
import attrs
from textual import on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static, TextArea

import session_core as sc
from frontends.console.sanitise import one_line
from frontends.terminal.attaching import Attaching
from frontends.terminal.completion import Completer, as_message, mentioned, read_entered
from frontends.terminal.composer_keys import KEYS as KEYS
from frontends.terminal.composer_keys import Wish
from frontends.terminal.editing import Editor
from frontends.terminal.images import Attachment, NotAttached, attachments, files_of, images_of, joined, read_mentions
from frontends.terminal.pasting import MAX_PASTED_CHARS, Prompt, clean, is_large
from frontends.terminal.popup import Chips, Popup
from frontends.terminal.recalling import Recalling
from frontends.terminal.suggesting import Suggesting

_NOTHING: Final = Prompt(text="")
_SHOWN_CHARS: Final = 400


@attrs.frozen(kw_only=True)
class Draft:
    """What is in a composer, to be put aside while another session is viewed."""

    prompt: Prompt = _NOTHING
    attached: tuple[Attachment, ...] = ()


class Composer(Widget):
    """The input at the bottom of the screen.

    Attributes:
        folder: Where paths that are mentioned begin.
    """

    DEFAULT_CSS = """
    Composer { height: auto; border-top: solid $border-blurred; border-title-color: $text-muted; }
    Composer:focus-within { border-top: solid $accent; }
    Composer.shell { border-top: solid $warning; border-title-color: $warning; }
    Composer > Horizontal { height: auto; max-height: 34vh; }
    Composer #mark { width: 2; height: 1; color: $accent; }
    Composer.shell #mark { color: $warning; }
    """
    can_focus = False

    class Sent(Message):
        """A message is to be sent; if that fails, give it back by `restore`."""

        def __init__(
            self, text: str, images: tuple[sc.ImagePart, ...], files: tuple[sc.FilePart, ...], *, steer: bool
        ) -> None:
            self.text = text
            self.images = images
            self.files = files
            self.steer = steer
            super().__init__()

    class ShellLine(Message):
        """A line for the shell, without its mark."""

        def __init__(self, line: str) -> None:
            self.line = line
            super().__init__()

    class Slash(Message):
        """A command, without its slash."""

        def __init__(self, name: str, arguments: str) -> None:
            self.name = name
            self.arguments = arguments
            super().__init__()

    class Edited(Message):
        """The text has changed."""

    def __init__(self, *, history: Path | None = None, folder: Path | None = None, id: str | None = None) -> None:
        super().__init__(id=id)
        self.folder = folder or Path()
        self._editor = Editor(self._wish, self._paste)
        self._popup = Popup()
        self._chips = Chips()
        self._mark = Static(Content("> "), id="mark")
        self._recalling = Recalling(self._editor, history, self._start)
        self._suggesting = Suggesting(self._editor, self._popup, self._ask)
        self._attaching = Attaching(self._chips, self._start, self._put_in, self._tell, self._retitle)
        self._last_sent = (Draft(), "")
        self._aside: Draft | None = None
        self._sending = anyio.Lock()
        self._pending = 0
        self._busy = False
        self._enabled = True
        self._shown: tuple[bool, str, bool] | None = None

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

    def show(self, *, busy: bool, placeholder: str, enabled: bool) -> None:
        """Tell what is going on: whether a turn runs, what an empty input says, and whether anything may be sent."""
        given = (busy, placeholder, enabled)
        if given == self._shown:
            return
        self._shown = given
        self._busy, self._enabled = busy, enabled
        self._editor.placeholder = Content(one_line(placeholder, _SHOWN_CHARS))
        self._editor.read_only = not enabled
        if not enabled:
            self._suggesting.close()
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

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to send."""
        return not self._editor.text and not self._attaching.all

    @property
    def draft(self) -> Draft:
        """What is in it, with pastes and attachments."""
        prompt = self._suggesting.searched_from or self._editor.prompt
        return Draft(prompt=prompt, attached=self._attaching.all)

    @draft.setter
    def draft(self, draft: Draft) -> None:
        self._suggesting.close()
        self._put(draft.prompt)
        self._attaching.show(draft.attached)

    def clear(self) -> None:
        """Take everything out; after a message that is said differently, the draft from before comes back."""
        self.draft, self._aside = self._aside or Draft(), None

    def edit_message(
        self, text: str, images: tuple[sc.ImagePart, ...] = (), files: tuple[sc.FilePart, ...] = ()
    ) -> None:
        """Let a message be said differently; the draft waits until that is sent or cleared."""
        aside = self._aside or self.draft
        self.draft = Draft(prompt=Prompt(text=as_message(text)), attached=attachments(images, files))
        self._aside = aside

    def restore(self, text: str, images: tuple[sc.ImagePart, ...] = (), files: tuple[sc.FilePart, ...] = ()) -> None:
        """Put back what could not be sent, before what was written since."""
        last, last_text = self._last_sent
        prompt = last.prompt if last_text == text else Prompt(text=text)
        known = {id(each.part): each for each in last.attached}
        back = tuple(known.get(id(each.part), each) for each in attachments(images, files))
        now = self.draft
        if now.prompt.text.strip():
            both = dict((*prompt.pastes, *now.prompt.pastes))
            if len(both) < len(prompt.pastes) + len(now.prompt.pastes):  # the same label twice: write one out
                prompt, both = Prompt(text=prompt.whole), dict(now.prompt.pastes)
            prompt = Prompt(text=f"{prompt.text}\n\n{now.prompt.text}", pastes=tuple(both.items()))
        self._suggesting.close()
        self._put(prompt)
        parts = {id(each.part) for each in back}
        self._attaching.show((*back, *(each for each in now.attached if id(each.part) not in parts)))

    def focus(self, scroll_visible: bool = True) -> "Composer":  # noqa: FBT001, FBT002
        """Let the keys go to the input."""
        self._editor.focus(scroll_visible)
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
                if self._enabled:
                    self._attaching.paste_clipboard(self.app.clipboard, self.folder)
                return self._enabled
            case "drop":
                return self._enabled and not self._editor.text and self._attaching.drop(-1)

    def _enter(self, *, steer: bool) -> bool:
        if not self._enabled:
            return True
        if self._suggesting.chosen_by_enter and self._take() != "send":
            return True
        prompt, attached = self._editor.prompt, self._attaching.all
        text = prompt.whole.strip()
        if not text and not attached:
            return True
        entered = read_entered(text)
        if entered.kind == "message":
            self._last_sent = (Draft(prompt=prompt, attached=attached), entered.text)
            self._attaching.show(())
            self._send(entered.text, attached, steer=steer)
        elif entered.kind == "shell":
            self.post_message(self.ShellLine(entered.text))
        else:
            self.post_message(self.Slash(entered.text, entered.arguments))
        waiting = self._recalling.draft
        self._recalling.remember(prompt)
        self._put(waiting or _NOTHING)
        if self._aside is not None:
            self.clear()
        return True

    def _send(self, text: str, attached: tuple[Attachment, ...], *, steer: bool) -> None:
        paths = [path for path in mentioned(text) if not any(each.name == path for each in attached)]
        if paths or self._pending:
            self._pending += 1
            self._start(partial(self._send_with_files, text, attached, paths, steer=steer))
        else:
            self.post_message(self.Sent(text, images_of(attached), files_of(attached), steer=steer))

    async def _send_with_files(
        self, text: str, attached: tuple[Attachment, ...], paths: list[str], *, steer: bool
    ) -> None:
        folder = self.folder
        async with self._sending:
            try:
                found = await anyio.to_thread.run_sync(read_mentions, paths, folder)
                attached = joined(attached, found)
            except NotAttached as error:
                self._tell(f"{error} The files were not attached.")
            finally:
                self._pending -= 1
            self.post_message(self.Sent(text, images_of(attached), files_of(attached), steer=steer))

    # --- what was sent before -----------------------------------------------------------------------------------------

    def _go(self, *, older: bool) -> bool:
        editor = self._editor
        if not self._enabled or not (editor.at_top if older else editor.at_bottom):
            return False
        there = self._recalling.older() if older else self._recalling.newer()
        if there is not None:
            self._put(there, walking=True)
        return there is not None or older

    def _search(self) -> bool:
        if self._enabled:
            self._suggesting.search(self._recalling.prompts)
            self._recalling.learn()
        return self._enabled

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
        self._attaching.paste(pasted, self.folder)

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
        self.post_message(self.Edited())

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
        if self._enabled:
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
        if not self._enabled:
            words.append("view only")
        lines = self._editor.document.line_count
        words.append(f"{lines} lines" if lines > 1 else "")
        attached = len(self._attaching.all)
        words.append(f"{attached} attachments" if attached > 1 else "")
        if self._busy and text and self._enabled and not searching:
            words.append("Enter queues, Alt+S steers")
        self.border_title = Content(" - ".join(word for word in words if word))

    def _tell(self, message: str) -> None:
        self.notify(one_line(message, _SHOWN_CHARS), severity="warning", markup=False)

    def _start(self, work: Callable[[], Awaitable[None]]) -> None:
        self.run_worker(work, group="composer")

    def _ask(self, work: Callable[[], Awaitable[None]]) -> None:
        self.run_worker(work, group="composer suggestions", exclusive=True)
