"""The prompts of the past: a private file of the home that all terminals share, and the walk through it.

Rules:
1. One JSON object per line. Who adds or shortens holds the lock, so several terminals lose nothing of each other.
2. What cannot be read is passed over; a history that cannot be written is kept in memory, and no one is disturbed.
3. The file is bounded, and so is one prompt in it.
4. `read` and `write` block: call them in a thread. Everything else is quick and waits for nothing.
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
"""A longer one is remembered by this terminal only."""
MAX_FILE_BYTES: Final = 8_000_000
_SHORTEN_BYTES: Final = MAX_FILE_BYTES // 2
"""From here on the file is shortened to its newest prompts."""
_TRIES: Final = 50
_PAUSE_S: Final = 0.02


class PromptHistory:
    """What was sent before, oldest first.

    Attributes:
        prompts: As far as they are known here; `learn` brings what other terminals have added.
    """

    def __init__(self, file: Path | None = None) -> None:
        self.prompts: tuple[Prompt, ...] = ()
        self._file = file
        self._own: list[Prompt] = []

    def add(self, prompt: Prompt) -> bool:
        """Remember a prompt, and tell whether it is to be written; one that repeats the last is not."""
        if not prompt.text.strip() or (self.prompts and self.prompts[-1] == prompt):
            return False
        self.prompts = (*self.prompts, prompt)[-MAX_PROMPTS:]
        self._own = [*self._own, prompt][-MAX_PROMPTS:]
        return self._file is not None and prompt.chars <= MAX_PROMPT_CHARS

    def read(self) -> Sequence[Prompt]:
        """Read what all terminals have written; blocks. A file that cannot be read is an empty one."""
        if self._file is None:
            return ()
        try:
            return _read(self._file)
        except (sc.StoreUnusable, OSError):
            return ()

    def merge_read(self, read: Sequence[Prompt]) -> None:
        """Take over what was read; what is not in the file, or not yet, comes last."""
        known = set(read)
        self._own = [each for each in self._own if each not in known]
        self.prompts = _without_repeats([*read, *self._own])[-MAX_PROMPTS:]

    def write(self, prompt: Prompt) -> None:
        """Add a prompt to the file; blocks. It stays in memory if that cannot be done."""
        if self._file is None or prompt.chars > MAX_PROMPT_CHARS:
            return
        try:
            with _hold_lock(self._file) as mine:
                if mine:
                    _append(self._file, prompt)
        except (sc.StoreUnusable, OSError):
            return


class HistoryWalk:
    """Going up and down through the past, where what is not sent yet is the newest of all.

    Whatever was changed on the way is kept for the rest of the walk.
    """

    def __init__(self, past: Sequence[Prompt], position: int | None = None) -> None:
        self._past = past
        self._position = len(past) if position is None else position
        self._changed: dict[int, Prompt] = {}

    @classmethod
    def from_search(cls, past: Sequence[Prompt], found: int, draft: Prompt) -> HistoryWalk:
        """Stand at a prompt that was searched for; the draft waits at the end."""
        walk = cls(past, found)
        walk._changed[len(past)] = draft
        return walk

    def go_older(self, present: Prompt) -> Prompt | None:
        """Go to the one before, leaving what is in the input now; None at the oldest."""
        return self._go(self._position - 1, present)

    def go_newer(self, present: Prompt) -> Prompt | None:
        """Go to the one after; None at the end."""
        return self._go(self._position + 1, present)

    @property
    def draft(self) -> Prompt | None:
        """What was not sent yet when the walk began; None while standing there."""
        return self._changed.get(len(self._past)) if self._position < len(self._past) else None

    def _go(self, to: int, present: Prompt) -> Prompt | None:
        if not 0 <= to <= len(self._past):
            return None
        self._changed[self._position] = present
        self._position = to
        return self._changed[to] if to in self._changed else self._past[to]


def search_prompts(past: Sequence[Prompt], query: str, *, most: int) -> list[int]:
    """Return where all words of a query are, newest first, each text once; every prompt has the empty query."""
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
    if not file.exists():
        return []
    with os.fdopen(sc.private_open(file, os.O_RDONLY), "rb") as opened:
        size = opened.seek(0, os.SEEK_END)
        opened.seek(max(0, size - MAX_FILE_BYTES))
        data = opened.read(MAX_FILE_BYTES)
    return [prompt for line in data.split(b"\n") if line and (prompt := _parse_line(line)) is not None]


def _parse_line(line: bytes) -> Prompt | None:
    try:
        value = sc.decode(line, sc.JsonObject)
    except sc.ProtocolError:
        return None
    text, pastes = value.get("text"), value.get("pastes")
    if not isinstance(text, str) or not isinstance(pastes, Mapping | None):
        return None
    pairs = tuple((label, content) for label, content in (pastes or {}).items() if isinstance(content, str))
    prompt = Prompt(text=text, pastes=pairs)
    return prompt if prompt.chars <= MAX_PROMPT_CHARS and text.strip() else None


def _line(prompt: Prompt) -> bytes:
    return sc.encode({"text": prompt.text, "pastes": dict(prompt.pastes)}) + b"\n"


def _append(file: Path, prompt: Prompt) -> None:
    with os.fdopen(sc.private_open(file, os.O_RDWR | os.O_CREAT), "r+b") as opened:
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
    beside = file.with_suffix(".tmp")
    with os.fdopen(sc.private_open(beside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as opened:
        opened.writelines(reversed(retained_lines))
    beside.replace(file)


def _without_repeats(prompts: Sequence[Prompt]) -> tuple[Prompt, ...]:
    return tuple(each for index, each in enumerate(prompts) if index == 0 or prompts[index - 1] != each)


@contextmanager
def _hold_lock(file: Path) -> Iterator[bool]:
    """Hold the lock beside a file, or tell that somebody else holds it for too long, as one that is suspended does."""
    descriptor = sc.private_open(file.with_suffix(".lock"), os.O_RDWR | os.O_CREAT)
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
