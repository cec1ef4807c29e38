"""Earlier prompts in the input: kept as they are sent, and gone through by keys. Files are read and written beside."""

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path

import anyio.to_thread

from frontends.terminal.editing import Editor
from frontends.terminal.pasting import Prompt
from frontends.terminal.prompt_history import PromptHistory, Walk


class Recalling:
    """Keeps a history for an input, and where in it somebody stands."""

    def __init__(
        self, editor: Editor, file: Path | None, start: Callable[[Callable[[], Awaitable[None]]], object]
    ) -> None:
        self._editor = editor
        self._history = PromptHistory(file)
        self._start = start
        self._walk: Walk | None = None

    @property
    def prompts(self) -> Sequence[Prompt]:
        """What was sent before, as far as it is known."""
        return self._history.prompts

    @property
    def draft(self) -> Prompt | None:
        """What waits below all earlier prompts, while one of them is in the input."""
        return self._walk.draft if self._walk is not None else None

    def use(self, file: Path) -> None:
        """Keep the history in this file from now on."""
        self._history = PromptHistory(file)
        self._walk = None

    def learn(self) -> None:
        """Read what all terminals have written."""
        self._start(self._learn)

    async def _learn(self) -> None:
        history = self._history
        history.learn(await anyio.to_thread.run_sync(history.read))

    def remember(self, prompt: Prompt) -> None:
        """Keep a prompt that was sent."""
        self._walk = None
        if self._history.add(prompt):
            self._start(partial(_write, self._history, prompt))

    def leave(self) -> None:
        """Begin at the end again: what is in the input now is the draft."""
        self._walk = None

    def stand_at(self, past: Sequence[Prompt], index: int, draft: Prompt) -> None:
        """Stand at a prompt that was found, with the draft waiting."""
        self._walk = Walk.from_search(past, index, draft)

    def older(self) -> Prompt | None:
        """Go to the prompt before; None at the oldest."""
        if self._walk is None:
            self._walk = Walk(self._history.prompts)
        return self._walk.older(self._editor.prompt)

    def newer(self) -> Prompt | None:
        """Go to the prompt after, and last to the draft; None at the end."""
        return None if self._walk is None else self._walk.newer(self._editor.prompt)


async def _write(history: PromptHistory, prompt: Prompt) -> None:
    await anyio.to_thread.run_sync(history.write, prompt)
