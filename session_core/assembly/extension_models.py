"""Models that do not exist yet: an extension may provide them once it runs.

Such a model can be chosen earlier, also in `config.toml`. Whether it exists is known when every extension has started.
"""

from collections.abc import Mapping
from pathlib import Path

from session_core.assembly.surroundings import AgentEnvironment
from session_core.config.problems import ConfigInvalid, ConfigProblem
from session_core.config.values import Config
from session_core.errors import InvalidInput
from session_core.providers.model_choice import PickedModel, default_model
from session_core.sep.host.catalogue.search_paths import build_search_paths, has_extensions


def extension_may_bring(model: str, config: Config, home: Path, folder: Path, environ: Mapping[str, str]) -> bool:
    """Return whether a model could come from an extension: its provider is unknown otherwise, and extensions exist.

    Blocks, and starts nothing.
    """
    provider, slash, name = model.partition("/")
    if not (slash and provider and name and config.extensions) or provider in {each.name for each in config.providers}:
        return False
    return has_extensions(build_search_paths(home, folder, environ, trusted=False))


def pick_extension_model(config: Config, place: AgentEnvironment, refused: InvalidInput) -> PickedModel:
    """Return the chosen model if an extension may provide it; blocks.

    Raises:
        InvalidInput: Nothing can provide it; the error says where it was chosen.
    """
    model = config.model
    if model is None or not extension_may_bring(model, config, place.home, Path(place.folder), place.environ):
        raise build_choice_error(config, refused)
    return PickedModel(name=model, info=None)


def build_choice_error(config: Config, refused: InvalidInput) -> InvalidInput:
    """Return an error that says where an unusable model was chosen."""
    source = config.source("model")
    if not source.place:
        return refused
    return ConfigInvalid([ConfigProblem(place=source.place, line=source.line, key="model", what=refused.message)])


async def resolve_configured_model(known: Mapping[str, object], config: Config, place: AgentEnvironment) -> str:
    """Return the currently configured model, which may be provided by an extension.

    Raises:
        InvalidInput: It is not known, or cannot be used.
    """
    if config.model is not None and config.model in known:
        return config.model
    return (await default_model(config, place.environ)).name
