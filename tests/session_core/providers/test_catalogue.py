"""The models that are known by themselves, their names and their prices."""

import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core.providers.catalogue import (
    BUILT_IN_PROVIDERS,
    LongPrompt,
    ModelInfo,
    Prices,
    built_in_models,
    cost_micros,
    find_model,
    find_nearest_name,
    list_model_names,
    merge_models,
    micros,
)
from session_core.vocabulary.messages import Usage

PLAIN = Prices(input=3_000_000, output=15_000_000, cache_read=300_000, cache_write=3_750_000)
MODEL = ModelInfo(name="a/b", provider="a", api_id="b", prices=PLAIN)
counts = st.integers(0, 2_000_000)
usages = st.builds(
    Usage, input_tokens=counts, output_tokens=counts, cache_read_tokens=counts, cache_write_tokens=counts
)


def test_the_catalogue_makes_sense() -> None:
    """Every built-in model belongs to a built-in provider, has a name of its own and prices that fit each other."""
    providers = {each.name for each in BUILT_IN_PROVIDERS}
    models = built_in_models()
    names = list_model_names(models)

    assert len(names) == len(set(names))
    for each in models:
        assert each.provider in providers
        assert re.fullmatch(r"[a-z]+/[a-z0-9.-]+", each.name)
        assert 0 < each.max_output_tokens < each.context_tokens
        for prices in (each.prices, each.prices if each.long_prompt is None else each.long_prompt.prices):
            assert prices is not None
            assert 0 < prices.cache_read < prices.input <= prices.cache_write < prices.output
        if each.long_prompt is not None and each.prices is not None:
            assert each.long_prompt.prices.input > each.prices.input
            assert 0 < each.long_prompt.above < each.context_tokens


@pytest.mark.parametrize(
    ("name", "prices"),
    [
        ("anthropic/claude-sonnet-4-5", (3, 15, 0.3, 3.75)),
        ("anthropic/claude-opus-4-5", (5, 25, 0.5, 6.25)),
        ("anthropic/claude-haiku-4-5", (1, 5, 0.1, 1.25)),
        ("openai/gpt-5", (1.25, 10, 0.125, 1.25)),
        ("openai/gpt-4.1", (2, 8, 0.5, 2)),
    ],
)
def test_well_known_prices(name: str, prices: tuple[float, ...]) -> None:
    """Prices of well-known models are what their makers have published."""
    info = find_model(built_in_models(), name)
    assert info is not None
    assert info.prices is not None

    assert prices == tuple(
        each / 1e6 for each in (info.prices.input, info.prices.output, info.prices.cache_read, info.prices.cache_write)
    )


def test_aliases() -> None:
    """A model is found by its name, an alias, or what its provider calls it."""
    for name in ("anthropic/claude-sonnet-5-5", "sonnet", "claude-sonnet-5-5"):
        info = find_model(built_in_models(), name)
        assert info is not None
        assert "anthropic/claude-sonnet-5-5" == info.name


def test_a_model_nobody_described() -> None:
    """A model of a known provider can be used by its name alone, with careful guesses about it."""
    info = find_model((), "openrouter/some/model:free", ["openrouter"])

    assert info is not None
    assert ("openrouter", "some/model:free", None, False) == (
        info.provider,
        info.api_id,
        info.prices,
        info.described,
    )
    assert find_model((), "nobody/x", ["openrouter"]) is None
    assert find_model((), "openrouter/", ["openrouter"]) is None


def test_own_models_go_first() -> None:
    """A model of one's own takes the place of a built-in one and of its aliases."""
    own = ModelInfo(name="a/own", provider="a", api_id="own", aliases=("short",))
    old = ModelInfo(name="a/old", provider="a", api_id="old", aliases=("short", "other"))

    first, second = merge_models([own], [old, ModelInfo(name="a/own", provider="a", api_id="x")])

    assert (own, ("other",)) == (first, second.aliases)


def test_what_a_call_costs() -> None:
    """Each kind of token has its price, and the sum is rounded up to a millionth of a dollar."""
    million = Usage(input_tokens=1_000_000, output_tokens=1_000_000)
    cached = Usage(cache_read_tokens=1_000_000, cache_write_tokens=1_000_000)

    assert (18_000_000, 4_050_000) == (cost_micros(MODEL, million), cost_micros(MODEL, cached))
    assert (3, 1, 0) == tuple(
        cost_micros(MODEL, each) for each in (Usage(input_tokens=1), Usage(cache_read_tokens=1), Usage())
    )
    assert 0 == cost_micros(ModelInfo(name="a/b", provider="a", api_id="b"), million)


def test_long_prompts_cost_more() -> None:
    """From one token beyond the bound on, the whole call has the other prices; the cached part of a prompt counts."""
    double = Prices(input=6_000_000, output=30_000_000, cache_read=600_000, cache_write=7_500_000)
    model = ModelInfo(
        name="a/b", provider="a", api_id="b", prices=PLAIN, long_prompt=LongPrompt(above=1000, prices=double)
    )

    assert 3_000 == cost_micros(model, Usage(input_tokens=1000))
    assert 6_006 == cost_micros(model, Usage(input_tokens=1001))
    assert 6_001 == cost_micros(model, Usage(input_tokens=1000, cache_read_tokens=1))


@given(one=usages, other=usages)
def test_costs_add_up(one: Usage, other: Usage) -> None:
    """The cost of a sum is the sum of the costs, but for the rounding, and never negative."""
    apart = cost_micros(MODEL, one) + cost_micros(MODEL, other)

    assert 0 <= apart - cost_micros(MODEL, one.plus(other)) <= 1


@pytest.mark.parametrize(
    ("name", "expected"), [("sonet", "sonnet"), ("OPUS", "opus"), ("zzz", None), ("", None), ("x" * 10_000, None)]
)
def test_what_was_probably_meant(name: str, expected: str | None) -> None:
    """A slip finds its name, whatever its capitals, and nonsense finds none."""
    assert expected == find_nearest_name(name, ("sonnet", "opus", "haiku"))


def test_money_is_exact() -> None:
    """Dollars become whole millionths without going through binary fractions."""
    assert (100_000, 1, 2_000_000) == (micros(Decimal("0.1")), micros(Decimal("0.000001")), micros(2))
