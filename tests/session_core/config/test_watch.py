"""Noticing changes: the new configuration, the problems, and what needs a restart. Real files, real threads."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

from session_core.config.load import load_config
from session_core.config.values import Config
from session_core.config.watch import ConfigChange, ConfigWatcher, changed_settings, settings_needing_restart
from tests.session_core.config._documents import load, write_project, write_user

OFTEN_S = 0.001


def watcher_of(tmp_path: Path) -> tuple[ConfigWatcher, Callable[[], Config]]:
    def load_again() -> Config:
        return load_config(tmp_path / "home", tmp_path / "project", {}, trust=True)

    files = [tmp_path / "home" / "config.toml", tmp_path / "project" / ".session-core" / "config.toml"]
    return ConfigWatcher(load_again, files, load_again(), every_s=OFTEN_S), load_again


async def test_a_change_is_told(tmp_path: Path) -> None:
    """Another value in the file is told with the whole new configuration and the names of what changed."""
    write_user(tmp_path / "home", "thinking = 'low'\n")
    watcher, load_again = watcher_of(tmp_path)

    write_user(tmp_path / "home", "thinking = 'high'\n[retention]\narchive_after_days = 1\n")
    with trio.fail_after(300):
        change = await watcher.next_change()

    changed = ("thinking", "retention.archive_after_days")
    assert change == ConfigChange(config=load_again(), changed=changed, needs_restart=changed[1:])
    assert watcher.current == change.config


async def test_files_that_come_and_go(tmp_path: Path) -> None:
    """A file that appears is a change, so is one that is removed, and so is a new one moved into its place."""
    watcher, _ = watcher_of(tmp_path)
    path = write_project(tmp_path / "project", "[limits]\nsteps = 5\n")
    with trio.fail_after(300):
        appeared = await anext(watcher)
        other = path.with_name("new")
        other.write_text("[limits]\nsteps = 6\n", encoding="utf-8")
        os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
        other.replace(path)
        moved = await anext(watcher)
        path.unlink()
        removed = await anext(watcher)

    steps = [each.config.limits.steps for each in (appeared, moved, removed) if each.config is not None]
    assert [5, 6, 200] == steps


async def test_problems_are_told_once_and_then_their_end(tmp_path: Path) -> None:
    """A file that cannot be used is told with its problems, the old configuration stays, and its repair is told too."""
    write_user(tmp_path / "home", "thinking = 'low'\n")
    watcher, _ = watcher_of(tmp_path)
    before = watcher.current

    write_user(tmp_path / "home", "thinking = 'hgih'\n")
    with trio.fail_after(300):
        broken = await watcher.next_change()
        assert watcher.current == before
        write_user(tmp_path / "home", "thinking = 'low'\n# put right\n")
        mended = await watcher.next_change()

    assert (None, ["thinking"]) == (broken.config, [each.key for each in broken.problems])
    assert mended == ConfigChange(config=before)


async def test_what_changes_nothing_is_not_told(tmp_path: Path) -> None:
    """A comment in the file is no change: the next thing told is the next real one."""
    write_user(tmp_path / "home", "thinking = 'low'\n")
    looks = 0
    commented = trio.Event()

    def load_again() -> Config:
        nonlocal looks
        looks += 1
        if looks == 2:
            trio.from_thread.run_sync(commented.set)
        return load_config(tmp_path / "home", None, {})

    watcher = ConfigWatcher(load_again, [tmp_path / "home" / "config.toml"], load_again(), every_s=OFTEN_S)
    told: list[ConfigChange] = []

    async def listen() -> None:
        told.append(await watcher.next_change())

    with trio.fail_after(300):
        async with trio.open_nursery() as nursery:
            write_user(tmp_path / "home", "thinking = 'low' # a comment\n")
            nursery.start_soon(listen)
            await commented.wait()
            write_user(tmp_path / "home", "thinking = 'medium'\n")

    assert ["medium"] == [each.config.thinking for each in told if each.config is not None]


async def test_cancelling_loses_nothing(tmp_path: Path) -> None:
    """A change that came while nobody waited, or while waiting was cancelled, is told by the next call."""
    watcher, _ = watcher_of(tmp_path)
    with trio.CancelScope() as scope:
        scope.cancel()
        await watcher.next_change()
    write_user(tmp_path / "home", "thinking = 'low'\n")

    with trio.fail_after(300):
        change = await watcher.next_change()

    assert ("thinking",) == change.changed


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("permissions = [{tool = 'x', decision = 'ask'}]", ("permissions",)),
        ("[providers.openai]\nkey = 'another'", ("providers",)),
        ("[[models]]\nname = 'ollama/x'", ("models",)),
        ("[sandbox]\nnetwork = true", ("sandbox.network",)),
        ("# nothing", ()),
    ],
)
def test_what_changed(tmp_path: Path, text: str, changed: tuple[str, ...]) -> None:
    """Rules, providers, also their keys, and models count as one each, and single settings by their names."""
    assert changed == changed_settings(load(tmp_path), load(tmp_path, user=text))


def test_what_needs_a_restart() -> None:
    """What is set up once, when the program starts, is named; the rest is taken over as it is."""
    assert (
        "mcp.file",
        "skills.paths",
        "retention.archive_after_days",
        "providers",
        "models",
    ) == settings_needing_restart(
        ("model", "mcp.file", "skills.paths", "permissions", "retention.archive_after_days", "providers", "models")
    )
