"""The history of prompts: shared by terminals, bounded, private, and walked without losing a draft."""

import fcntl
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from frontends.terminal.composer import prompt_history
from frontends.terminal.composer.paste import Prompt
from frontends.terminal.composer.prompt_history import HistoryWalk, PromptHistory, search_prompts

PASTE = ("[pasted 11 lines #1]", "x\n" * 11)


def prompts(*texts: str) -> tuple[Prompt, ...]:
    return tuple(Prompt(text=text) for text in texts)


def written(file: Path, *texts: str) -> PromptHistory:
    history = PromptHistory(file)
    for prompt in prompts(*texts):
        history.add(prompt)
        history.write(prompt)
    return history


def read(file: Path) -> tuple[Prompt, ...]:
    history = PromptHistory(file)
    history.merge_read(history.read())
    return history.prompts


def test_prompts_come_back(tmp_path: Path) -> None:
    """Another terminal reads what one has written, pastes too, from a file that only its owner can read."""
    file = tmp_path / "prompts.jsonl"
    history = written(file, "first", "second\nwith two lines ü")
    history.write(Prompt(text=f"see {PASTE[0]}", pastes=(PASTE,)))

    assert (*prompts("first", "second\nwith two lines ü"), Prompt(text=f"see {PASTE[0]}", pastes=(PASTE,))) == read(
        file
    )
    assert {0o600} == {each.stat().st_mode & 0o777 for each in tmp_path.iterdir()}


def test_repeats_and_nothing_are_not_kept() -> None:
    """What was said twice in a row is there once, and blanks are no prompt."""
    history = PromptHistory()
    for text in ("a", "a", "  ", "b", "a"):
        history.add(Prompt(text=text))

    assert prompts("a", "b", "a") == history.prompts


def test_broken_lines_are_passed_over(tmp_path: Path) -> None:
    """Lines that are no prompts are skipped, and a torn last line does not spoil the next one."""
    file = tmp_path / "prompts.jsonl"
    file.write_bytes(
        b'{"text": "good"}\nnot json\n{"text": 3}\n\xff\xfe\n{"text":"x","pastes":[]}\n'
        + b"[" * 5000
        + b'\n{"text": "to'
    )
    written(file, "after")

    assert prompts("good", "after") == read(file)


@pytest.mark.parametrize("kind", ["folder", "link", "missing folder", "pipe"])
def test_a_file_that_cannot_be_used(tmp_path: Path, kind: str) -> None:
    """Without a usable file the history lives in memory, and nothing is said or overwritten."""
    file = tmp_path / "prompts.jsonl"
    target = tmp_path / "target"
    target.write_text("precious")
    match kind:
        case "folder":
            file.mkdir()
        case "link":
            file.symlink_to(target)
        case "pipe":
            os.mkfifo(file)
        case _:
            file = tmp_path / "missing" / "prompts.jsonl"
    history = written(file, "remembered")
    history.merge_read(history.read())

    assert prompts("remembered") == history.prompts
    assert "precious" == target.read_text()


def test_many_writers_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Terminals that write at the same time, while the file is being shortened, keep each other's newest prompts."""
    monkeypatch.setattr(prompt_history, "_SHORTEN_BYTES", 20_000)
    monkeypatch.setattr(prompt_history, "_TRIES", 1_000)
    file = tmp_path / "prompts.jsonl"
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda name: written(file, *(f"{name}-{n} {'x' * 80}" for n in range(40))), range(8)))
    kept = [prompt.text.split()[0] for prompt in read(file)]

    assert 80 < len(kept) < 320
    for name in range(8):
        mine = [int(text.split("-")[1]) for text in kept if text.startswith(f"{name}-")]
        assert mine == list(range(40))[40 - len(mine) :]


def test_a_lock_that_is_held_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal that holds the lock and never lets go costs the others a moment, and no crash."""
    monkeypatch.setattr(prompt_history, "_PAUSE_S", 0)
    file = tmp_path / "prompts.jsonl"
    written(file, "before")
    with (tmp_path / "prompts.lock").open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        history = written(file, "meanwhile")
        history.merge_read(history.read())

        assert prompts("before", "meanwhile") == history.prompts
    assert prompts("before") == read(file)


def test_prompts_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many prompts are kept, and one that is too long only in memory."""
    monkeypatch.setattr(prompt_history, "MAX_PROMPTS", 3)
    monkeypatch.setattr(prompt_history, "MAX_PROMPT_CHARS", 10)
    file = tmp_path / "prompts.jsonl"
    history = written(file, *"abcd", "e" * 11)
    history.merge_read(history.read())

    assert prompts("c", "d", "e" * 11) == history.prompts
    assert prompts("b", "c", "d") == read(file)


def test_a_walk_keeps_what_is_typed() -> None:
    """Going up and down again brings back the draft, and what was changed on the way."""
    a, b, draft, changed = prompts("a", "b", "draft", "b, but better")
    walk = HistoryWalk((a, b))

    assert None is walk.go(1, draft)
    assert [b, a, None] == [walk.go(-1, draft), walk.go(-1, changed), walk.go(-1, a)]
    assert [changed, draft, None] == [walk.go(1, a), walk.go(1, changed), walk.go(1, draft)]


def test_a_walk_from_a_find() -> None:
    """After a search the draft is still there, below all."""
    a, b, draft = prompts("a", "b", "draft")
    walk = HistoryWalk.from_search((a, b), 0, draft)

    assert [b, draft] == [walk.go(1, a), walk.go(1, b)]


@pytest.mark.parametrize(
    ("query", "found"),
    [("", [3, 2, 1]), ("FIX", [3, 1]), ("parser fix", [1]), ("zzz", [])],
)
def test_search(query: str, found: list[int]) -> None:
    """A search finds prompts with all words, newest first, each text once."""
    past = prompts("Fix the parser", "fix the parser", "write docs", "fix typos")

    assert [index for index in search_prompts((*past, past[3])[:4], query, most=9) if index != 0] == found


def test_search_shows_a_repeated_prompt_once() -> None:
    """A prompt that was sent again later is found at its last place, and so many at most are found."""
    past = prompts("a", "b", "a")

    assert [2, 1] == search_prompts(past, "", most=9)
    assert [2] == search_prompts(past, "", most=1)
