"""What is told of one folder among many: what its own files have changed, not what the user's files did for all."""

from collections.abc import Iterable, Sequence
from itertools import islice

from session_core.config.problems import MAX_PROBLEMS, ConfigProblem
from session_core.config.rules import PermissionRule
from session_core.config.settings import RULES
from session_core.config.values import Config
from session_core.config.watch import changed_settings
from session_core.limits import MAX_ERROR_CHARS
from session_core.vocabulary.work_events import ConfigurationChanged


def about_folder(
    folder: str,
    *,
    changed: Sequence[str] = (),
    problems: Iterable[ConfigProblem] = (),
    warnings: Iterable[str] = (),
) -> ConfigurationChanged:
    """Return what is told of a folder, within bounds."""
    return ConfigurationChanged(
        changed=tuple(changed),
        problems=_bounded(each.sentence for each in problems),
        warnings=_bounded(warnings),
        folder=folder,
    )


def own_changes(before: Config, after: Config) -> tuple[str, ...]:
    """Return the settings that a project has changed for its sessions, by their keys."""
    if before is after:
        return ()
    stated = [
        key
        for key in changed_settings(before, after)
        if key != RULES and "project" in (before.source(key).layer, after.source(key).layer)
    ]
    if _project_rules(before) != _project_rules(after):
        stated.append(RULES)
    return tuple(stated)


def _project_rules(config: Config) -> list[PermissionRule]:
    return [
        rule
        for number, rule in enumerate(config.permissions, start=1)
        if config.source(f"{RULES}[{number}]").layer == "project"
    ]


def _bounded(sentences: Iterable[str]) -> tuple[str, ...]:
    return tuple(each[:MAX_ERROR_CHARS] for each in islice(sentences, MAX_PROBLEMS))
