"""Follows the configuration while a service runs: applies what it can and reports the rest.

Permission rules count from the next tool call on, in every session. The model, permission mode, sandbox, thinking and
limits apply to sessions created from then on. An unusable file changes nothing. This is about the user's own file;
`folders` follows those of each folder.
"""

import logging
from collections.abc import Callable, Collection
from functools import partial

import attrs

from session_core.assembly.extension_models import resolve_configured_model
from session_core.assembly.folders.files import read_user_settings, rules_of
from session_core.assembly.folders.folder import adopt_settings
from session_core.assembly.setup import Setup
from session_core.config.problems import ConfigProblem
from session_core.config.toml_files import CONFIG_FILE
from session_core.config.values import Config
from session_core.config.watch import LOOK_EVERY_S, ConfigChange, ConfigWatcher
from session_core.errors import InvalidInput
from session_core.limits import MAX_ERROR_CHARS
from session_core.permissions.rules import LiveRules
from session_core.service.config import ServiceConfig
from session_core.service.service import SessionService
from session_core.vocabulary.events import ConfigurationChanged

log = logging.getLogger(__name__)


def log_change(change: ConfigChange) -> None:
    """Write a change into the log."""
    for problem in change.problems:
        log.warning("the changed configuration is not used: %s", problem.sentence)
    for problem in change.warnings:
        log.warning("%s", problem.sentence)
    if change.changed:
        log.info("the configuration was changed: %s", ", ".join(change.changed))
    if change.needs_restart:
        log.warning("this takes effect only after a restart: %s", ", ".join(change.needs_restart))


async def follow_config(
    setup: Setup,
    service: SessionService,
    *,
    every_s: float = LOOK_EVERY_S,
    tell: Callable[[ConfigChange], None] = log_change,
) -> None:
    """Apply configuration changes until cancelled.

    Args:
        setup: The setup that the service was opened with.
        service: The service.
        every_s: How often to check.
        tell: Gets each change after it was applied, and the problems of those that were not. Followers of the session
            list get it too, as `ConfigurationChanged`.
    """
    read = partial(read_user_settings, setup.place, setup.flags)
    files = (setup.place.home / CONFIG_FILE,)
    async for change in ConfigWatcher(read, files, setup.settings, every_s=every_s):
        taken = change if change.config is None else await _apply_change(setup, service, change, change.config)
        service.tell(_as_event(taken))
        tell(taken)


def _as_event(change: ConfigChange) -> ConfigurationChanged:
    return ConfigurationChanged(
        changed=change.changed,
        needs_restart=change.needs_restart,
        problems=tuple(each.sentence[:MAX_ERROR_CHARS] for each in change.problems),
        warnings=tuple(each.sentence[:MAX_ERROR_CHARS] for each in change.warnings),
    )


async def _apply_change(setup: Setup, service: SessionService, change: ConfigChange, config: Config) -> ConfigChange:
    rules = setup.service.rules
    assert isinstance(rules, LiveRules)  # `open_setup` made it
    rules.replace(rules_of(config))
    model: str | None = None
    if "model" in change.changed:
        try:
            model = await resolve_configured_model(service.core.config.models, config, setup.place)
        except InvalidInput as refused:
            problem = ConfigProblem(place=str(config.source("model")), key="model", what=refused.message)
            change = attrs.evolve(change, problems=(*change.problems, problem))
        if model not in service.core.config.models:
            model = None
            change = attrs.evolve(change, needs_restart=("model", *change.needs_restart))

    service.change_defaults(lambda now: _update_defaults(now, config, change.changed, model))
    return change


def _update_defaults(now: ServiceConfig, config: Config, changed: Collection[str], model: str | None) -> ServiceConfig:
    defaults = adopt_settings(now.session_defaults, config, changed)
    return attrs.evolve(
        now,
        default_model=model if model in now.models else now.default_model,
        permission_mode=defaults.permission_mode,
        sandbox=defaults.sandbox,
        thinking=defaults.thinking,
        turn_limits=defaults.limits,
    )
