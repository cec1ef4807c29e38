"""The available choices: models, and files by a few letters of their paths."""

from collections.abc import Iterator
from contextlib import suppress

import attrs

from session_core import limits
from session_core.agent.folder_settings import FolderUnusable
from session_core.errors import InvalidInput
from session_core.providers.catalogue import ModelInfo
from session_core.service.core import ServiceCore
from session_core.service.handler_api import Caller, Handlers, PendingReply
from session_core.service.validation import check_encodable, check_limit, checked_path
from session_core.vocabulary import commands as c
from session_core.vocabulary import replies as r
from session_core.vocabulary.models import ListedModel, ModelPrices


def list_models(core: ServiceCore, command: c.ListModels, _: Caller) -> PendingReply:
    cwd = _resolve_folder(core, command)

    async def load_and_list() -> r.ListModelsReply:
        with suppress(FolderUnusable):  # use what is known of it anyway
            await core.config.folders.load(cwd)
        unusable_providers = await _why_not_usable(core, cwd)
        models = tuple(_list_all_models(core, cwd, unusable_providers))
        return r.ListModelsReply(models=models, default=core.config.model, cursor=core.stream.cursor)

    return PendingReply(load_and_list)


def _resolve_folder(core: ServiceCore, command: c.ListModels | c.FindFiles) -> str:
    """Return the folder that a command is about."""
    if command.session_id is not None and command.cwd is not None:
        raise InvalidInput("ask for a session or for a folder, not for both", field="cwd")
    if command.session_id is not None:
        return core.session(command.session_id).state.settings.cwd
    return core.config.cwd if command.cwd is None else checked_path(command.cwd)


async def _why_not_usable(core: ServiceCore, cwd: str) -> dict[str, str]:
    """Ask about every provider of an extension there; the answer may require reading who is logged in."""
    extensions = core.config.extensions
    if extensions is None:
        return {}
    providers = sorted({name for each in extensions.list_in(cwd) for name in each.providers})
    return {name: why for name in providers if (why := await extensions.why_not_usable(name, cwd))}


def _list_all_models(core: ServiceCore, cwd: str, unusable_providers: dict[str, str]) -> Iterator[ListedModel]:
    models = core.agent.models.with_folder_models(cwd)
    known = {choice.info.name: choice for choice in core.config.catalogue}
    for name, choice in known.items():
        if name in models.providers:
            yield _build_listed_model(core, cwd, name, choice.info, unusable_providers)
        else:
            reason = choice.why_not or "it was not available when the service started"
            yield _build_description(
                choice.info, why_not=f"{reason}; this counts from the next start of the service on"
            )
    for name in models.providers:
        if name not in known:
            yield _build_listed_model(core, cwd, name, models.infos.get(name), unusable_providers)


def _build_listed_model(
    core: ServiceCore, cwd: str, name: str, info: ModelInfo | None, unusable_providers: dict[str, str]
) -> ListedModel:
    extensions = core.config.extensions
    provider = name.partition("/")[0] if info is None else info.provider
    why_not = unusable_providers.get(provider, "")
    title = extensions.title_of(name, cwd) if extensions is not None else ""
    if info is None:
        return ListedModel(name=name, provider=provider, usable=not why_not, why_not=why_not, title=title)
    return _build_description(info, why_not=why_not, title=title)


def _build_description(info: ModelInfo, *, why_not: str, title: str = "") -> ListedModel:
    return ListedModel(
        name=info.name,
        provider=info.provider,
        usable=not why_not,
        why_not=why_not,
        title=title,
        aliases=info.aliases,
        context_tokens=info.context_tokens if info.described else None,
        max_output_tokens=info.max_output_tokens if info.described else None,
        can_think=info.thinking != "none",
        can_see=info.images,
        prices=None if info.prices is None else ModelPrices(**attrs.asdict(info.prices)),
        retires=None if info.retires is None else info.retires.isoformat(),
    )


def find_files(core: ServiceCore, command: c.FindFiles, _: Caller) -> PendingReply:
    check_limit(command.limit)
    query = command.query.strip()
    if len(query) > limits.MAX_NAME_CHARS:
        raise InvalidInput(f"query may have {limits.MAX_NAME_CHARS} characters", field="query")
    check_encodable(query, "query")
    cwd = _resolve_folder(core, command)

    async def search_files() -> r.FindFilesReply:
        paths, truncated = await core.files.find(cwd, query, command.limit)
        return r.FindFilesReply(paths=paths, truncated=truncated, cursor=core.stream.cursor)

    return PendingReply(search_files)


HANDLERS: Handlers = {
    c.ListModels: list_models,
    c.FindFiles: find_files,
}
