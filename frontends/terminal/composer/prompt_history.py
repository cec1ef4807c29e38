"""Earlier prompts: a private file of the home that all terminals share, and the walk through it.

Rules:
1. One JSON object per line. Adding and shortening hold the lock, so terminals lose none of each other's prompts.
2. Unreadable lines are skipped; a history that cannot be written stays in memory, without an error.
3. The file is bounded, and so is each prompt in it.
4. `read` and `write` block: call them in a thread. Everything else is quick and never waits.
"""

from __future__ import annotations

import fcntl
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import session_core as sc
from frontends.terminal.composer.paste import Prompt

FILE_NAME: Final = "prompts.jsonl"
MAX_PROMPTS: Final = 1_000
MAX_PROMPT_CHARS: Final = 100_000
"""Longer prompts are remembered only by this terminal."""
MAX_FILE_BYTES: Final = 8_000_000
_SHORTEN_BYTES: Final = MAX_FILE_BYTES // 2
"""A file beyond this size is shortened to its newest prompts."""
_TRIES: Final = 50
_PAUSE_S: Final = 0.02


class PromptHistory:
    """The earlier prompts, oldest first.

    Attributes:
        prompts: The prompts known here; `merge_read` adds those of other terminals.
    """

    def __init__(self, file: Path | None = None) -> None:
        self.prompts: tuple[Prompt, ...] = ()
        self._file = file
        self._own: list[Prompt] = []

    def add(self, prompt: Prompt) -> bool:
        """Remember a prompt, and return whether to write it; one that repeats the last is not written."""
        if not prompt.text.strip() or (self.prompts and self.prompts[-1] == prompt):
            return False
        self.prompts = (*self.prompts, prompt)[-MAX_PROMPTS:]
        self._own = [*self._own, prompt][-MAX_PROMPTS:]
        return self._file is not None and prompt.chars <= MAX_PROMPT_CHARS

    def read(self) -> Sequence[Prompt]:
        """Read the prompts of all terminals; blocks. An unreadable file counts as empty."""
        if self._file is None:
            return ()
        try:
            return _read(self._file)
        except (sc.StoreUnusable, OSError):
            return ()

    def merge_read(self, read: Sequence[Prompt]) -> None:
        """Take over the prompts read from the file; those not in it, or not yet, come last."""
        known = set(read)
        self._own = [each for each in self._own if each not in known]
        self.prompts = _without_repeats([*read, *self._own])[-MAX_PROMPTS:]

    def write(self, prompt: Prompt) -> None:
        """Append a prompt to the file; blocks. If that fails, the prompt stays in memory."""
        if self._file is None or prompt.chars > MAX_PROMPT_CHARS:
            return
        try:
            with _hold_lock(self._file) as mine:
                if mine:
                    _append(self._file, prompt)
        except (sc.StoreUnusable, OSError):
            return


class HistoryWalk:
    """A walk through the earlier prompts, with the draft as the newest.

    Prompts changed on the way keep their changes for the rest of the walk.
    """

    def __init__(self, past: Sequence[Prompt], position: int | None = None) -> None:
        self._past = past
        self._position = len(past) if position is None else position
        self._changed: dict[int, Prompt] = {}

    @classmethod
    def from_search(cls, past: Sequence[Prompt], found: int, draft: Prompt) -> HistoryWalk:
        """Start at a prompt found by a search; the draft waits at the end."""
        walk = cls(past, found)
        walk._changed[len(past)] = draft
        return walk

    def go(self, step: int, present: Prompt) -> Prompt | None:
        """Go to the previous (-1) or next (1) prompt, keeping the current input; None at both ends."""
        to = self._position + step
        if not 0 <= to <= len(self._past):
            return None
        self._changed[self._position] = present
        self._position = to
        return self._changed[to] if to in self._changed else self._past[to]

    @property
    def draft(self) -> Prompt | None:
        """The draft from the start of the walk; None while it is the current one."""
        return self._changed.get(len(self._past)) if self._position < len(self._past) else None


def search_prompts(past: Sequence[Prompt], query: str, *, most: int) -> list[int]:
    """Return the indexes of prompts with all words of a query, newest first, each text once; no words match all."""
    words = query.casefold().split()
    found: dict[str, int] = {}
    for index in range(len(past) - 1, -1, -1):
        text = past[index].text
        if text in found:
            continue
        folded = text.casefold()
        if all(word in folded for word in words):
            found[text] = index
            if len(found) == most:
                break
    return list(found.values())


# --- the file ---------------------------------------------------------------------------------------------------------


def _read(file: Path) -> list[Prompt]:
    with os.fdopen(sc.setup.private_open(file, os.O_RDONLY), "rb") as opened:
        size = opened.seek(0, os.SEEK_END)
        opened.seek(max(0, size - MAX_FILE_BYTES))
        data = opened.read(MAX_FILE_BYTES)
    return [prompt for line in data.split(b"\n") if line and (prompt := _parse_line(line)) is not None]


def _parse_line(line: bytes) -> Prompt | None:
    try:
        value = sc.wire.decode(line, sc.JsonObject)
    except sc.ProtocolError:
        return None
    text, pastes = value.get("text"), value.get("pastes")
    if not isinstance(text, str) or not isinstance(pastes, Mapping | None):
        return None
    pairs = tuple((label, content) for label, content in (pastes or {}).items() if isinstance(content, str))
    prompt = Prompt(text=text, pastes=pairs)
    return prompt if prompt.chars <= MAX_PROMPT_CHARS and text.strip() else None


def _line(prompt: Prompt) -> bytes:
    return sc.wire.encode({"text": prompt.text, "pastes": dict(prompt.pastes)}) + b"\n"


def _append(file: Path, prompt: Prompt) -> None:
    with os.fdopen(sc.setup.private_open(file, os.O_RDWR | os.O_CREAT), "r+b") as opened:
        size = opened.seek(0, os.SEEK_END)
        torn = False
        if size:
            opened.seek(size - 1)
            torn = opened.read(1) != b"\n"
        opened.write(b"\n" * torn + _line(prompt))
    if size > _SHORTEN_BYTES:
        _shorten(file)


def _shorten(file: Path) -> None:
    retained_lines: list[bytes] = []
    room = _SHORTEN_BYTES // 2
    for prompt in reversed(_without_repeats(_read(file))[-MAX_PROMPTS:]):
        line = _line(prompt)
        room -= len(line)
        if room < 0:
            break
        retained_lines.append(line)
    sc.setup.replace_private(file, b"".join(reversed(retained_lines)))


def _without_repeats(prompts: Sequence[Prompt]) -> tuple[Prompt, ...]:
    return tuple(each for index, each in enumerate(prompts) if index == 0 or prompts[index - 1] != each)


@contextmanager
def _hold_lock(file: Path) -> Iterator[bool]:
    """Hold the lock beside a file; yields False if another process holds it too long, as a suspended one does."""
    descriptor = sc.setup.private_open(file.with_suffix(".lock"), os.O_RDWR | os.O_CREAT)
    try:
        yield _acquire_lock(descriptor)
    finally:
        os.close(descriptor)


def _acquire_lock(descriptor: int) -> bool:
    pause = threading.Event()
    for _ in range(_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            pause.wait(_PAUSE_S)
        else:
            return True
    return False
