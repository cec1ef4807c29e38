"""The models of extensions: from the running service, which runs them; else each is started for a moment and asked."""

from collections.abc import Iterable
from pathlib import Path

import attrs
import trio

import session_core as sc
from frontends.server.daemon.attached_client import talk_if_running
from frontends.shared.extension_lookup import (
    ExtensionListEntry,
    as_discovered,
    find_extensions,
    list_logged_in_providers,
)
from frontends.shared.home import format_command
from frontends.shared.progress import ProgressLine
from frontends.shared.sanitise import one_line
from frontends.shared.trial_run import start_briefly

_CAPABILITY = "providers"


@attrs.frozen(kw_only=True)
class ExtensionModels:
    """The models, the extension of each by its name, and remarks about extensions that cannot tell theirs."""

    choices: tuple[sc.setup.ModelChoice, ...] = ()
    extensions: dict[str, str] = attrs.field(factory=dict)
    remarks: tuple[str, ...] = ()


async def find_extension_models(home: Path, folder: Path, config: sc.setup.Config) -> ExtensionModels:
    """Find the models of the extensions that may run in a folder, whose path is real.

    Cancellation: no process that was started for it is left.
    """
    taken = {sc.setup.DEMO, *(each.name for each in config.providers)}
    async with talk_if_running(home, name="models", role="observer") as talk:
        if talk is not None:
            models = (await talk.list_models(cwd=str(folder))).models
            infos = (await talk.list_extensions()).extensions
            return _read_service(models, infos, str(folder), taken)
    if not config.extensions:
        return ExtensionModels()
    looked = await trio.to_thread.run_sync(find_extensions, home, folder)
    entries = [each for each in looked.entries if each.state == "ready" and _may_bring_models(each)]
    with ProgressLine.on_stderr() as doing:
        if entries:
            doing(f"asking {', '.join(one_line(each.name) for each in entries)}")
        return await _ask(entries, home, folder, taken, trusted=looked.places.trusted)


def _read_service(
    models: Iterable[sc.ListedModel], infos: Iterable[sc.extensions.ExtensionInfo], folder: str, taken: set[str]
) -> ExtensionModels:
    """Pick those models of a service that extensions provide in a folder."""
    owners: dict[str, str] = {}
    for each in infos:
        if each.folder is None or each.folder == folder:
            owners |= {name: each.name for name in each.providers if name not in taken and name not in owners}
    brought = [each for each in models if each.provider in owners]
    return ExtensionModels(
        choices=tuple(
            sc.setup.ModelChoice(info=_info(each.name, each.provider), why_not=each.why_not or None) for each in brought
        ),
        extensions={each.name: owners[each.provider] for each in brought},
    )


def _may_bring_models(entry: ExtensionListEntry) -> bool:
    return entry.manifest is not None and _CAPABILITY in entry.manifest.capabilities.enabled


async def _ask(
    entries: list[ExtensionListEntry], home: Path, cwd: Path, taken: set[str], *, trusted: bool
) -> ExtensionModels:
    """Start extensions side by side, and read what they register; of two providers of a name the first counts."""
    answers: dict[str, tuple[sc.extensions.HostedExtension, str | None]] = {}

    async def ask_one(entry: ExtensionListEntry) -> None:
        answers[entry.name] = await start_briefly(as_discovered(entry), home, cwd, trusted=trusted)

    async with trio.open_nursery() as nursery:
        for entry in entries:
            nursery.start_soon(ask_one, entry)
    choices: list[sc.setup.ModelChoice] = []
    owners: dict[str, str] = {}
    remarks: list[str] = []
    for entry in entries:
        (extension, problem), logged_in = answers[entry.name], list_logged_in_providers(home, entry)
        if problem is not None:
            remarks.append(f"the models of {entry.name} are not known, because it did not start: {problem}")
        for provider in extension.registrations.providers:
            if provider.name in taken:
                continue
            taken.add(provider.name)
            login = format_command(home, "ext login", f"{entry.name}/{provider.name}")
            why_not = f"nobody is logged in to {provider.name}: {login}"
            lacks_login = provider.oauth and provider.name not in logged_in
            for model in provider.models:
                name = f"{provider.name}/{model.id}"
                info = _info(name, provider.name)
                choices.append(sc.setup.ModelChoice(info=info, why_not=why_not if lacks_login else None))
                owners[name] = entry.name
    return ExtensionModels(choices=tuple(choices), extensions=owners, remarks=tuple(remarks))


def _info(name: str, provider: str) -> sc.ModelInfo:
    """Describe a model of which an extension tells no more than its name."""
    return sc.ModelInfo(name=name, provider=provider, api_id=name.removeprefix(f"{provider}/"), described=False)
