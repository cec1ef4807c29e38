"""Notice changes of the configuration by polling its files.

Polling once a second costs next to nothing, works on every file system, and works however an editor saves files.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Self

import attrs
import trio

from session_core.config.problems import ConfigInvalid, ConfigProblem
from session_core.config.setting_report import describe_settings
from session_core.config.settings import MODELS, PROVIDERS, RULES, SETTINGS
from session_core.config.values import Config

LOOK_EVERY_S: Final = 1.0

_Mark = tuple[int, int, int, int] | None


@attrs.frozen(kw_only=True)
class ConfigChange:
    """A change of the configuration.

    Attributes:
        config: The new configuration, or None if it is invalid; then the previous one stays in force.
        problems: The problems of an invalid configuration.
        warnings: The settings in it that are ignored.
        changed: The settings that differ from before, by their keys.
        needs_restart: The changed settings that take effect only after a restart.
    """

    config: Config | None
    problems: tuple[ConfigProblem, ...] = ()
    warnings: tuple[ConfigProblem, ...] = ()
    changed: tuple[str, ...] = ()
    needs_restart: tuple[str, ...] = ()


class ConfigWatcher:
    """Yields each change of the configuration, by `async for` or `next_change`. One task may wait at a time.

    Args:
        load: Reads the configuration again; it is called in a thread and may raise `ConfigInvalid`.
        files: The files to poll, whether they exist or not.
        current: The configuration in force.
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

        Cancellation: nothing is lost; the next call returns the change.
        """
        while True:
            change = await self.poll()
            if change is not None:
                return change
            await trio.sleep(self._every_s)

    async def poll(self) -> ConfigChange | None:
        """Poll once and return the change, if any.

        Cancellation: nothing is lost; the next call returns the change.
        """
        # Take the marks before reading: a file that changes during the read then differs again at the next poll.
        marks = await trio.to_thread.run_sync(lambda: tuple(map(_take_mark, self._files)))
        if marks == self._seen:
            return None
        try:
            config = await trio.to_thread.run_sync(self._load)
        except ConfigInvalid as invalid:
            self._seen = marks
            return self._report_problems(invalid.problems)
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

    def _report_problems(self, problems: tuple[ConfigProblem, ...]) -> ConfigChange | None:
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
    """Return those of these settings that a running program cannot apply."""
    settled = {PROVIDERS, MODELS, *(each.key for each in SETTINGS if not each.live)}
    return tuple(key for key in changed if key in settled)


def _take_mark(path: Path) -> _Mark:
    try:
        status = os.stat(path)  # noqa: PTH116 - accepts any path
    except (OSError, ValueError):
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_mode
