"""Noticing that somebody changed the configuration, by looking at its files now and then.

Looking once a second costs next to nothing, works on every file system, and misses no editor's way of saving.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Self

import attrs
import trio

from session_core.config.origins import describe_settings
from session_core.config.problems import ConfigInvalid, ConfigProblem
from session_core.config.settings import MODELS, PROVIDERS, RULES, SETTINGS
from session_core.config.values import Config

LOOK_EVERY_S: Final = 1.0

_Mark = tuple[int, int, int, int] | None


@attrs.frozen(kw_only=True)
class ConfigChange:
    """Something was changed.

    Attributes:
        config: The new configuration, or None when it cannot be used: the one before stays in force.
        problems: What is wrong with it.
        warnings: What is passed over in it.
        changed: The settings that differ from before, by their keys.
        needs_restart: Those of them that take effect only when the program starts again.
    """

    config: Config | None
    problems: tuple[ConfigProblem, ...] = ()
    warnings: tuple[ConfigProblem, ...] = ()
    changed: tuple[str, ...] = ()
    needs_restart: tuple[str, ...] = ()


class ConfigWatcher:
    """Gives each change of the configuration, by `async for` or `next_change`. One task may wait at a time.

    Args:
        load: Reads the configuration again; it is called in a thread and may raise `ConfigInvalid`.
        files: The files to look at, whether they are there or not.
        current: The configuration that is in force.
    """

    def __init__(
        self, load: Callable[[], Config], files: Sequence[Path], current: Config, *, every_s: float = LOOK_EVERY_S
    ) -> None:
        self.current = current
        self._load = load
        self._files = tuple(files)
        self._every_s = every_s
        self._seen: tuple[_Mark, ...] | None = None
        self._problems: tuple[ConfigProblem, ...] = ()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ConfigChange:
        return await self.next_change()

    async def next_change(self) -> ConfigChange:
        """Wait for a change that matters: other values, other problems, or problems that are gone.

        Cancellation: nothing is lost; the change is told by the next call.
        """
        while True:
            change = await self.look()
            if change is not None:
                return change
            await trio.sleep(self._every_s)

    async def look(self) -> ConfigChange | None:
        """Look once, and return the change there is, if any.

        Cancellation: nothing is lost; the change is told by the next call.
        """
        # The marks come first: a file that changes while it is read looks different again the next time.
        marks = await trio.to_thread.run_sync(_marks, self._files)
        if marks == self._seen:
            return None
        try:
            config = await trio.to_thread.run_sync(self._load)
        except ConfigInvalid as invalid:
            self._seen = marks
            return self._refused(invalid.problems)
        self._seen = marks
        recovered, self._problems = bool(self._problems), ()
        changed = changed_settings(self.current, config)
        warned = config.ignored if config.ignored != self.current.ignored else ()
        if not changed and not recovered and not warned:
            return None
        self.current = config
        return ConfigChange(
            config=config, warnings=warned, changed=changed, needs_restart=settings_needing_restart(changed)
        )

    def _refused(self, problems: tuple[ConfigProblem, ...]) -> ConfigChange | None:
        if problems == self._problems:
            return None
        self._problems = problems
        return ConfigChange(config=None, problems=problems)


def changed_settings(before: Config, after: Config) -> tuple[str, ...]:
    """Return the settings that differ, by their keys; rules, providers and models count as one each."""
    old, new = ({each.key: each.value for each in describe_settings(config, {})} for config in (before, after))
    single = [each.key for each in SETTINGS if old[each.key] != new[each.key]]
    parts = {
        RULES: before.permissions != after.permissions,
        PROVIDERS: before.providers != after.providers,
        MODELS: before.models != after.models,
    }
    return (*single, *(name for name, differs in parts.items() if differs))


def settings_needing_restart(changed: Sequence[str]) -> tuple[str, ...]:
    """Return which of these settings a running program cannot take over."""
    settled = {PROVIDERS, MODELS, *(each.key for each in SETTINGS if not each.live)}
    return tuple(key for key in changed if key in settled)


def _marks(files: Sequence[Path]) -> tuple[_Mark, ...]:
    return tuple(map(_mark, files))


def _mark(path: Path) -> _Mark:
    try:
        status = os.stat(path)  # noqa: PTH116 - as plain as it gets; the path may be anything
    except (OSError, ValueError):
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_mode
