"""The models, their abilities and their prices; the built-in ones are in `models.toml` beside this file.

A model's name is its provider and the provider's own name for it, "anthropic/claude-sonnet-5-5", or an alias. Money is
counted in whole millionths of a dollar, so sums are exact.
"""

import functools
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Literal

import attrs

from session_core.providers.secrets import Secret
from session_core.providers.timeouts import ProviderTimeouts
from session_core.vocabulary.messages import Usage

ProviderKind = Literal["anthropic", "openai_chat", "openai_responses"]
ThinkingAbility = Literal["none", "budget", "adaptive", "always"]

PER_MILLION: Final = 1_000_000
UNKNOWN_CONTEXT_TOKENS: Final = 32_768
"""The assumed context of an undescribed model: too small a value only means that conversations are compacted early."""
UNKNOWN_OUTPUT_TOKENS: Final = 8_192


@attrs.frozen(kw_only=True)
class Prices:
    """Millionths of a dollar per million tokens; without a price of its own, `cache_write` costs as much as input."""

    input: int
    output: int
    cache_read: int
    cache_write: int


@attrs.frozen(kw_only=True)
class LongPrompt:
    """The prices of a whole call whose prompt is longer than `above` tokens."""

    above: int
    prices: Prices


@attrs.frozen(kw_only=True)
class ModelInfo:
    """A model.

    Attributes:
        name: Its name in sessions: provider, slash, and the provider's own name.
        provider: The configured provider that offers it.
        api_id: The provider's own name for it.
        aliases: Shorter names for it.
        context_tokens: The most tokens it reads and writes in one call.
        max_output_tokens: The longest answer.
        prices: None if they are not known.
        long_prompt: Different prices for long prompts, if there are any.
        thinking: Whether it reasons: never, up to a budget of tokens, by effort, or always.
        retires: The day it is switched off, if that has been announced.
        described: Whether a catalogue describes it; otherwise these facts are a cautious guess.
    """

    name: str
    provider: str
    api_id: str
    aliases: tuple[str, ...] = ()
    context_tokens: int = UNKNOWN_CONTEXT_TOKENS
    max_output_tokens: int = UNKNOWN_OUTPUT_TOKENS
    prices: Prices | None = None
    long_prompt: LongPrompt | None = None
    images: bool = True
    thinking: ThinkingAbility = "none"
    tools: bool = True
    structured_output: bool = True
    retires: date | None = None
    described: bool = True


@attrs.frozen(kw_only=True)
class ProviderSettings:
    """How to reach a provider.

    Attributes:
        name: Its name in the configuration.
        kind: The API it speaks.
        base_url: Its address.
        key_env: The environment variable that holds its key.
        key: A key from the user's own file; it takes precedence over the variable.
        headers: Sent with every call; their values may be keys too, so they are treated as secrets.
        chosen_by_user: Whether the user's own file names the address; only then may keys be sent there.
        timeouts: How long each phase of a call may take.
    """

    name: str
    kind: ProviderKind
    base_url: str
    key_env: str | None = None
    key: Secret | None = None
    headers: tuple[tuple[str, Secret], ...] = ()
    chosen_by_user: bool = False
    timeouts: ProviderTimeouts = attrs.field(factory=ProviderTimeouts)


BUILT_IN_PROVIDERS: Final = (
    ProviderSettings(
        name="anthropic", kind="anthropic", base_url="https://api.anthropic.com", key_env="ANTHROPIC_API_KEY"
    ),
    ProviderSettings(
        name="openai", kind="openai_responses", base_url="https://api.openai.com/v1", key_env="OPENAI_API_KEY"
    ),
    ProviderSettings(
        name="openrouter", kind="openai_chat", base_url="https://openrouter.ai/api/v1", key_env="OPENROUTER_API_KEY"
    ),
    ProviderSettings(name="ollama", kind="openai_chat", base_url="http://127.0.0.1:11434/v1"),
)


def cost_micros(info: ModelInfo, usage: Usage) -> int:
    """Return what one model call costs, in millionths of a dollar, rounded up; 0 where the prices are not known.

    The four counts of `usage` do not overlap: `input_tokens` excludes tokens read from or written to a cache. Compute
    the cost of each call separately, because long prompts may have different prices.
    """
    prices = info.prices
    if prices is None:
        return 0
    prompt = usage.input_tokens + usage.cache_read_tokens + usage.cache_write_tokens
    if info.long_prompt is not None and prompt > info.long_prompt.above:
        prices = info.long_prompt.prices
    total = (
        usage.input_tokens * prices.input
        + usage.output_tokens * prices.output
        + usage.cache_read_tokens * prices.cache_read
        + usage.cache_write_tokens * prices.cache_write
    )
    return -(-total // PER_MILLION)


def find_model(models: Iterable[ModelInfo], name: str, providers: Iterable[str] = ()) -> ModelInfo | None:
    """Return the model of this name or alias; an undescribed model of a known provider gets guessed facts."""
    known = tuple(models)
    for each in known:
        if each.name == name:
            return each
    for each in known:
        if name in each.aliases or name == each.api_id:
            return each
    provider, slash, api_id = name.partition("/")
    if slash and api_id and provider in set(providers):
        return ModelInfo(name=name, provider=provider, api_id=api_id, structured_output=False, described=False)
    return None


def find_nearest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant."""
    # Wrong capitals are a common mistake, and difflib treats them as different letters.
    by_folded = {each.casefold(): each for each in known}
    import difflib  # only needed after a mistake

    close = difflib.get_close_matches(name[:200].casefold(), by_folded, n=1, cutoff=0.6)
    return by_folded[close[0]] if close else None


def list_model_names(models: Iterable[ModelInfo]) -> tuple[str, ...]:
    """Return every name and alias that a model can be chosen by."""
    return tuple(name for each in models for name in (each.name, *each.aliases))


@functools.cache
def built_in_models() -> tuple[ModelInfo, ...]:
    """Read the models that come with this program."""
    text = Path(__file__).with_name("models.toml").read_text("utf-8")
    return tuple(map(model_from, tomllib.loads(text, parse_float=Decimal)["models"]))


def merge_models(own: Sequence[ModelInfo], built_in: Sequence[ModelInfo]) -> tuple[ModelInfo, ...]:
    """Put the user's own models first; they replace built-in models of the same name, and take over aliases."""
    names = {each.name for each in own}
    taken = {alias for each in own for alias in each.aliases}
    remaining = [
        attrs.evolve(each, aliases=tuple(alias for alias in each.aliases if alias not in taken))
        for each in built_in
        if each.name not in names
    ]
    return (*own, *remaining)


def model_from(table: Mapping[str, Any]) -> ModelInfo:
    """Turn a table with the keys of `models.toml`, already checked, into a model."""
    facts = dict(table)
    provider, _, api_id = facts["name"].partition("/")
    facts["api_id"] = facts.pop("id", api_id)
    facts["aliases"] = tuple(facts.get("aliases", ()))
    if "prices" in facts:
        facts["prices"] = _read_prices(facts["prices"])
    if "long_prompt" in facts:
        facts["long_prompt"] = LongPrompt(
            above=facts["long_prompt"]["above"], prices=_read_prices(facts["long_prompt"])
        )
    return ModelInfo(provider=provider, **facts)


def _read_prices(table: Mapping[str, int | Decimal]) -> Prices:
    fresh = micros(table["input"])
    return Prices(
        input=fresh,
        output=micros(table["output"]),
        cache_read=micros(table["cache_read"]) if "cache_read" in table else fresh,
        cache_write=micros(table["cache_write"]) if "cache_write" in table else fresh,
    )


def micros(dollars: Decimal | int) -> int:
    """Return an amount of money in whole millionths of a dollar."""
    return int((Decimal(dollars) * PER_MILLION).to_integral_value())
