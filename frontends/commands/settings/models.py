"""`session-core models`: which models can be used here, what they cost, and what the others need."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs
import trio

import session_core as sc
from frontends.server.daemon.keys import describe_lacking_keys_at_home
from frontends.shared.config_problems import about_late_model
from frontends.shared.figures import format_tokens
from frontends.shared.folder_config import load_folder_config
from frontends.shared.sanitise import dump_json, one_line
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
    listed = trio.run(find_models, config, os.environ)
    if listed.picked is None and (late := about_late_model(home, cwd, config, os.environ)):
        listed = attrs.evolve(listed, remark=late[0])
    displayed_models = [each for each in listed.choices if everything or each.available]
    if as_json:
        for each in displayed_models:
            print(dump_json(as_object(each, listed.picked)))
        return 0
    style = stream_style(sys.stdout)
    if displayed_models:
        for line in model_lines(style, displayed_models, listed.picked, width=columns()):
            print(line)
    hidden = len(listed.choices) - len(displayed_models)
    lacking = trio.run(describe_lacking_keys_at_home, home, cwd)
    for remark in (listed.remark, _DEMO_LINE, f"{hidden} more with --all" if hidden else "", lacking):
        if remark:
            print(style.dim(one_line(remark, _LONGEST)))
    return 0


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
    style: Style, choices: Sequence[sc.setup.ModelChoice], picked: sc.setup.PickedModel | None, *, width: int
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
            one_line(note(each), _LONGEST),
        )
        for each in choices
    ]

    def paint(row: int, column: int, text: str) -> str:
        if row < 0 or not choices[row].available:
            return style.dim(text)
        return style.green(text) if column == 0 else style.cyan(text) if column == 1 else text

    return table(_HEADS, rows, width, paint, style.symbol("…"))


def note(choice: sc.setup.ModelChoice) -> str:
    """Describe why a model cannot be used, or that it will be switched off."""
    if choice.why_not is not None:
        return choice.why_not
    return f"until {choice.info.retires}" if choice.info.retires is not None else ""


def price(prices: sc.setup.Prices | None) -> str:
    """Format the prices of a million input and output tokens."""
    if prices is None:
        return "?"
    return f"{prices.input / _PER_MILLION:g} / {prices.output / _PER_MILLION:g}"


def as_object(choice: sc.setup.ModelChoice, picked: sc.setup.PickedModel | None) -> dict[str, object]:
    """Return a model as a JSON object; prices are in dollars per million tokens."""
    info = choice.info
    prices = None if info.prices is None else attrs.asdict(info.prices)
    return {
        "name": info.name,
        "aliases": list(info.aliases),
        "provider": info.provider,
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
