"""A composer alone on a screen, for tests of what it does with keys, pastes and clicks."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
from textual import events
from textual.app import App, ComposeResult
from textual.keys import _character_to_key
from textual.pilot import Pilot
from textual.widgets import Static

from frontends.terminal.composer.attached_files import files_of, images_of
from frontends.terminal.composer.completion import Completer, ParsedInput, Suggestion, rank_suggestions
from frontends.terminal.composer.composer import Composer
from frontends.terminal.composer.drafts import PromptSubmission
from frontends.terminal.composer.mentions import MentionedFiles
from frontends.terminal.composer.paste import Prompt
from frontends.terminal.destination import MessageTarget
from frontends.terminal.options import NewSession
from tests.frontends.terminal._idle import idle, workers_done

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100)


class ComposerApp(App[None]):
    """Keeps what a composer tells."""

    ENABLE_COMMAND_PALETTE = False
    CSS = "#above { height: 1fr; }"

    def __init__(self, history: Path | None, folder: Path | None) -> None:
        super().__init__()
        target = MessageTarget(NewSession(cwd=str(folder or Path())))
        self.composer = Composer(self.submit, get_target=lambda: target, history=history)
        self.mentions = MentionedFiles(self.notify)
        self.told: list[tuple[Any, ...]] = []
        self.keys: list[str] = []
        self.said: list[PromptSubmission] = []

    def compose(self) -> ComposeResult:
        yield Static("", id="above")
        yield self.composer

    def on_mount(self) -> None:
        self.composer.show(busy=False, placeholder="Ask [b]anything")
        self.composer.focus()

    def submit(self, entered: ParsedInput, submission: PromptSubmission) -> None:
        if entered.kind == "shell":
            self.told.append(("shell", entered.text))
        elif entered.kind == "command":
            self.told.append(("slash", entered.text, entered.arguments))
        elif submission.text or submission.attached:
            self.run_worker(self._send(submission))

    async def _send(self, submission: PromptSubmission) -> None:
        said, why = await self.mentions.attach(submission)
        if why:
            self.told.append(("held", why))
            self.composer.restore(said)
            return
        self.said.append(said)
        names = tuple(file.name for file in files_of(said.attached))
        self.told.append(("steer" if said.steer else "sent", said.text, len(images_of(said.attached)), names))

    def on_key(self, event: events.Key) -> None:
        """A key that the composer has left to others."""
        self.keys.append(event.key)


def set_text(composer: Composer, text: str) -> None:
    """Replace the text of a draft."""
    composer.draft = attrs.evolve(composer.draft, prompt=Prompt(text=text))


def completer_of(suggestions: Callable[[], Sequence[Suggestion]]) -> Completer:
    """Make a completer of a list that is at hand."""

    async def complete(query: str) -> list[Suggestion]:
        return rank_suggestions(query, suggestions())

    return complete


@attrs.define
class Hands:
    """Somebody at the keyboard."""

    app: ComposerApp
    pilot: Pilot[None]

    @property
    def composer(self) -> Composer:
        return self.app.composer

    @property
    def written(self) -> str:
        """What the input holds, with labels for large pastes."""
        return self.composer.draft.prompt.text

    @property
    def screen(self) -> list[str]:
        """What is seen, without the empty lines above the composer."""
        lines = [strip.text.rstrip() for strip in self.app.screen._compositor.render_strips()]
        while lines and not lines[0]:
            del lines[0]
        return lines

    async def type(self, text: str) -> None:
        """Type characters, faster than they are worked on."""
        for character in text:
            name = character if character.isalnum() else _character_to_key(character)
            self.app.post_message(events.Key(name, character))
        await idle(self.app)

    async def press(self, keys: str) -> None:
        """Press keys one after the other, each as a terminal sends it."""
        for key in keys.split():
            letter = key.removeprefix("alt+")
            self.app.post_message(events.Key(key, letter if len(letter) == 1 else None))
        await idle(self.app)

    async def paste(self, text: str) -> None:
        self.app.post_message(events.Paste(text))
        await self.settle()

    async def settle(self) -> None:
        """Wait for everything that goes on beside the composer, and for the picture after it."""
        await workers_done(self.app)


@asynccontextmanager
async def composing(
    *, history: Path | None = None, folder: Path | None = None, size: tuple[int, int] = (60, 24)
) -> AsyncGenerator[Hands]:
    """Have a composer with the focus."""
    app = ComposerApp(history=history, folder=folder)
    async with app.run_test(size=size) as pilot:
        hands = Hands(app, pilot)
        await hands.settle()
        yield hands
