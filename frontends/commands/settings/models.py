"""`session-core models`: which models can be used here, what they cost, and what the others need."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import attrs
import trio

import session_core as sc
from frontends.commands.settings.extension_models import ExtensionModels, find_extension_models
from frontends.server.daemon.keys import describe_lacking_keys_at_home
from frontends.shared.config_problems import about_late_model
from frontends.shared.figures import format_tokens
from frontends.shared.folder_config import load_folder_config
from frontends.shared.sanitise import dump_json, one_line
from frontends.shared.signals import end_on_signal
from frontends.shared.style import Style, stream_style
from frontends.shared.text_width import Column, columns, table

_LONGEST = 400
_PER_MILLION = 1_000_000
_HEADS = (
    Column(title=""),
    Column(title="MODEL", share=3, least=16),
    Column(title="ALSO"),
    Column(title="CONTEXT"),
    Column(title="$ IN / OUT"),
    Column(title="NOTE", share=2, least=8),
)
_DEMO_LINE = "demo answers offline and without a key"


@attrs.frozen(kw_only=True)
class Listed:
    """The models to list."""

    choices: tuple[sc.setup.ModelChoice, ...]
    picked: sc.setup.PickedModel | None
    remark: str = ""


def list_models(home: Path, cwd: Path, *, everything: bool, as_json: bool) -> int:
    """Run `models` and return the exit code."""
    config = load_folder_config(home, cwd)
    interrupted, listed, brought = trio.run(_find_all, home, cwd.resolve(), config)
    if interrupted is not None:
        return interrupted
    if listed.picked is None and (late := about_late_model(home, cwd, config, os.environ)):
        listed = attrs.evolve(listed, remark=late[0])
    displayed_models = [each for each in listed.choices if everything or each.available]
    if as_json:
        for each in displayed_models:
            print(dump_json(as_object(each, listed.picked, brought.extensions.get(each.info.name))))
        return 0
    style = stream_style(sys.stdout)
    if displayed_models:
        for line in model_lines(style, displayed_models, listed.picked, brought.extensions, width=columns()):
            print(line)
    hidden = len(listed.choices) - len(displayed_models)
    lacking = trio.run(describe_lacking_keys_at_home, home, cwd)
    more = f"{hidden} more with --all" if hidden else ""
    for remark in (listed.remark, *brought.remarks, _DEMO_LINE, more, lacking):
        if remark:
            print(style.dim(one_line(remark, _LONGEST)))
    return 0


async def _find_all(home: Path, folder: Path, config: sc.setup.Config) -> tuple[int | None, Listed, ExtensionModels]:
    """Find the models, also those of extensions; the first value is the exit code if that was interrupted."""
    listed, brought = Listed(choices=(), picked=None), ExtensionModels()
    async with end_on_signal() as start:  # it may start extensions, and none must be left
        listed = await find_models(config, os.environ)
        try:
            brought = await find_extension_models(home, folder, config)
        except sc.SessionCoreError as error:
            brought = ExtensionModels(remarks=(f"the models of extensions are not known: {error.message}",))
        listed = attrs.evolve(listed, choices=(*listed.choices, *brought.choices))
        chosen = next((each for each in brought.choices if each.info.name == config.model), None)
        if listed.picked is None and chosen is not None:
            picked = sc.setup.PickedModel(name=chosen.info.name, info=chosen.info)
            listed = attrs.evolve(listed, picked=picked, remark="")
    return start.exit_code, listed, brought


async def find_models(config: sc.setup.Config, environ: Mapping[str, str]) -> Listed:
    """Find the models, including those of a server on this machine, and the one that would answer."""
    known = sc.setup.available_models(config, environ)
    local = next((each for each in config.providers if each.name == "ollama"), None)
    found = await sc.setup.probe_ollama(local.base_url) if local is not None else []
    names = {each.info.name for each in known}
    for api_id in found:
        info = sc.setup.find_model(config.models, f"ollama/{api_id}", ["ollama"])
        if info is not None and info.name not in names:
            known.append(sc.setup.ModelChoice(info=info))

    async def probed(_base_url: str) -> list[str]:
        await trio.lowlevel.checkpoint()
        return found

    try:
        picked = await sc.setup.default_model(config, environ, probe=probed)
    except sc.InvalidInput as refused:
        return Listed(choices=tuple(known), picked=None, remark=refused.message)
    return Listed(choices=tuple(known), picked=picked, remark=picked.remark if picked.info is None else "")


def model_lines(
    style: Style,
    choices: Sequence[sc.setup.ModelChoice],
    picked: sc.setup.PickedModel | None,
    extensions: Mapping[str, str] = MappingProxyType({}),
    *,
    width: int,
) -> list[str]:
    """Return a table with one line per model; the default model is marked."""
    mark = style.symbol("●")
    rows = [
        (
            mark if picked is not None and each.info.name == picked.name else " ",
            one_line(each.info.name, _LONGEST),
            one_line(", ".join(each.info.aliases), _LONGEST),
            format_tokens(each.info.context_tokens) if each.info.described else "?",
            price(each.info.prices),
            one_line(note(each, extensions.get(each.info.name)), _LONGEST),
        )
        for each in choices
    ]

    def paint(row: int, column: int, text: str) -> str:
        if row < 0 or not choices[row].available:
            return style.dim(text)
        return style.green(text) if column == 0 else style.cyan(text) if column == 1 else text

    return table(_HEADS, rows, width, paint, style.symbol("…"))


def note(choice: sc.setup.ModelChoice, extension: str | None = None) -> str:
    """Describe why a model cannot be used, which extension provides it, or that it will be switched off."""
    if choice.why_not is not None:
        return choice.why_not
    if extension is not None:
        return f"of the extension {extension}"
    return f"until {choice.info.retires}" if choice.info.retires is not None else ""


def price(prices: sc.setup.Prices | None) -> str:
    """Format the prices of a million input and output tokens."""
    if prices is None:
        return "?"
    return f"{prices.input / _PER_MILLION:g} / {prices.output / _PER_MILLION:g}"


def as_object(
    choice: sc.setup.ModelChoice, picked: sc.setup.PickedModel | None, extension: str | None
) -> dict[str, object]:
    """Return a model as a JSON object; prices are in dollars per million tokens."""
    info = choice.info
    prices = None if info.prices is None else attrs.asdict(info.prices)
    return {
        "name": info.name,
        "aliases": list(info.aliases),
        "provider": info.provider,
        "extension": extension,
        "id": info.api_id,
        "available": choice.available,
        "why_not": choice.why_not,
        "default": picked is not None and picked.name == info.name,
        "context_tokens": info.context_tokens,
        "max_output_tokens": info.max_output_tokens,
        "prices": prices and {key: value / _PER_MILLION for key, value in prices.items()},
        "images": info.images,
        "thinking": info.thinking,
        "tools": info.tools,
        "structured_output": info.structured_output,
        "retires": None if info.retires is None else str(info.retires),
        "described": info.described,
    }
