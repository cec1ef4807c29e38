"""The parts of a file that are more than single values: permission rules, providers, models."""

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any, Final, get_args

import attrs

from session_core.config import setting_kinds
from session_core.config.setting_kinds import (
    BooleanKind,
    ChoiceKind,
    DateKind,
    IntegerKind,
    ListKind,
    NumberKind,
    SettingKind,
    TextKind,
)
from session_core.config.settings import MODELS, PROVIDERS, RULES
from session_core.config.toml_key_lines import KeyPath
from session_core.config.values import SettingSource
from session_core.permissions.rules import PermissionRule, RuleDecision
from session_core.providers.catalogue import ModelInfo, ProviderKind, ThinkingAbility, model_from
from session_core.providers.secrets import Secret

if TYPE_CHECKING:
    from session_core.config.layers import FileReader

MAX_RULES: Final = 500
MAX_PROVIDERS: Final = 64
MAX_MODELS: Final = 500
MAX_HEADERS: Final = 32

_PROVIDER: Final = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_PATTERN: Final = TextKind(expected="a pattern", longest=1_000)
_RULE: Final[Mapping[str, SettingKind]] = {
    "decision": ChoiceKind(get_args(RuleDecision)),
    "tool": TextKind(expected="a pattern", longest=1_000),
    "path": _PATTERN,
    "command": _PATTERN,
}
_PROVIDER_KEYS: Final = ("kind", "base_url", "key_env", "key", "headers", "timeouts")
_TIMEOUTS: Final[Mapping[str, SettingKind]] = {
    "connect": NumberKind(Decimal(1), Decimal(300)),
    "read": NumberKind(Decimal(1), Decimal(3_600)),
    "progress": NumberKind(Decimal(1), Decimal(6 * 3_600)),
    "total": NumberKind(Decimal(1), Decimal(24 * 3_600)),
}
"""In seconds. Less than one would mistake a short delay for a failure; the maximum is that of `ProviderTimeouts`."""
_KIND: Final = ChoiceKind(get_args(ProviderKind))
_VARIABLE: Final = TextKind(
    expected="the name of an environment variable", longest=100, pattern=re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
)
_PRICE: Final = NumberKind(Decimal(0), Decimal(1_000_000))
_PRICES: Final[Mapping[str, SettingKind]] = dict.fromkeys(("input", "output", "cache_read", "cache_write"), _PRICE)
_NAME: Final = TextKind(
    expected='a provider, a slash and the model\'s name there, such as "ollama/qwen3"',
    pattern=re.compile(r"[a-z0-9][a-z0-9_-]{0,63}/\S+"),
)
_MODEL: Final[Mapping[str, SettingKind]] = {
    "name": _NAME,
    "id": TextKind(expected="the provider's name of the model"),
    "aliases": ListKind(TextKind(expected="a short name without a slash or blanks", pattern=re.compile(r"[^\s/]+"))),
    "context_tokens": IntegerKind(1_000, 100_000_000),
    "max_output_tokens": IntegerKind(1, 100_000_000),
    "images": BooleanKind(),
    "thinking": ChoiceKind(get_args(ThinkingAbility)),
    "tools": BooleanKind(),
    "structured_output": BooleanKind(),
    "retires": DateKind(),
}
_NESTED: Final = ("prices", "long_prompt")


@attrs.frozen(kw_only=True)
class GivenRule:
    """A rule and its source."""

    rule: PermissionRule
    source: SettingSource


@attrs.frozen(kw_only=True)
class GivenProvider:
    """The settings of a provider in a file; `values` holds only the keys that it sets."""

    values: Mapping[str, Any]
    source: SettingSource
    sources: Mapping[str, SettingSource]


@attrs.frozen(kw_only=True)
class GivenModel:
    """A model and its source."""

    info: ModelInfo
    source: SettingSource


def read_rules(value: object, reader: "FileReader") -> list[GivenRule]:
    """Read `[[permissions]]`."""
    rules: list[GivenRule] = []
    if isinstance(value, str):
        reader.report_wrong((RULES,), "expected rules, each under [[permissions]]; did you mean permission_mode?")
        return rules
    for path, table in _read_tables(value, RULES, MAX_RULES, reader):
        fields = _read_fields(table, _RULE, path, reader)
        if fields is None:
            continue
        if "decision" not in fields:
            reader.report_wrong(path, "a rule needs a decision: allow, ask or deny")
        elif not fields.keys() & {"tool", "path", "command"}:
            reader.report_wrong(path, "a rule needs at least one of tool, path and command")
        else:
            rules.append(GivenRule(rule=PermissionRule(**fields), source=reader.source(path)))
    return rules


def read_providers(value: object, reader: "FileReader") -> dict[str, GivenProvider]:
    """Read `[providers.<name>]`."""
    if not isinstance(value, dict):
        reader.report_wrong((PROVIDERS,), "expected tables, one for each provider, such as [providers.anthropic]")
        return {}
    if len(value) > MAX_PROVIDERS:
        reader.report_wrong((PROVIDERS,), f"expected at most {MAX_PROVIDERS} providers")
        return {}
    return {name: read for name, table in value.items() if (read := _read_provider(name, table, reader)) is not None}


def _read_provider(name: str, table: object, reader: "FileReader") -> GivenProvider | None:
    path: KeyPath = (PROVIDERS, name)
    if not _PROVIDER.fullmatch(name):
        reader.report_wrong(path, "expected a provider's name of small letters, digits, - and _")
        return None
    if not isinstance(table, dict):
        reader.report_wrong(path, "expected a table for this provider (its present value is not repeated here)")
        return None
    readers: dict[str, Callable[[object], Any]] = {
        "kind": _KIND.read,
        "base_url": setting_kinds.parse_base_url,
        "key_env": _read_variable,
        "key": setting_kinds.parse_key,
    }
    values: dict[str, Any] = {}
    for key, each in table.items():
        if key == "headers":
            values[key] = _read_headers((*path, key), each, reader)
        elif key == "timeouts":
            values[key] = _read_timeouts((*path, key), each, reader)
        elif key not in readers:
            reader.report_unknown((*path, key), _PROVIDER_KEYS)
        else:
            known, read = reader.attempt((*path, key), partial(readers[key], each))
            if known:
                values[key] = read
    if "key" in values and "key_env" in values:
        reader.report_wrong((*path, "key"), "set either key or key_env, not both")
    return GivenProvider(
        values=values, source=reader.source(path), sources={key: reader.source((*path, key)) for key in values}
    )


def _read_timeouts(path: KeyPath, value: object, reader: "FileReader") -> dict[str, float]:
    if not isinstance(value, dict):
        reader.report_wrong(path, f"expected a table with seconds: {', '.join(_TIMEOUTS)}")
        return {}
    fields = _read_fields(value, _TIMEOUTS, path, reader) or {}
    return {f"{key}_s": float(seconds) for key, seconds in fields.items()}


def _read_variable(value: object) -> str:
    try:
        return _VARIABLE.read(value)
    except setting_kinds.InvalidValue:
        if not isinstance(value, str):
            raise
    raise setting_kinds.InvalidValue(f"expected {_VARIABLE.expected}, not a key itself (it is not repeated here)")


def _read_headers(path: KeyPath, value: object, reader: "FileReader") -> tuple[tuple[str, Secret], ...]:
    if not isinstance(value, dict) or len(value) > MAX_HEADERS:
        reader.report_wrong(path, f"expected a table of at most {MAX_HEADERS} headers")
        return ()
    headers: list[tuple[str, Secret]] = []
    for name, each in value.items():
        known, read = reader.attempt((*path, name), partial(setting_kinds.parse_header, name, each))
        if known:
            headers.append((name, read))
    return tuple(headers)


def has_keys(value: object) -> bool:
    """Return whether `[providers]` contains a key, even if the rest is invalid."""
    if not isinstance(value, dict):
        return False
    return any(isinstance(table, dict) and ("key" in table or "headers" in table) for table in value.values())


def read_models(value: object, reader: "FileReader") -> list[GivenModel]:
    """Read `[[models]]`, which has the same keys as the built-in catalogue."""
    models: list[GivenModel] = []
    taken: set[str] = set()
    for path, table in _read_tables(value, MODELS, MAX_MODELS, reader):
        nested = {key: each for key, each in table.items() if key in _NESTED}
        fields = _read_fields(
            {key: each for key, each in table.items() if key not in nested}, _MODEL, path, reader, _NESTED
        )
        prices = _read_prices(nested, path, reader)
        if fields is None or prices is None:
            continue
        if "name" not in fields:
            reader.report_wrong(path, f"a model needs a name: {_NAME.expected}")
            continue
        names = {fields["name"], *fields.get("aliases", ())}
        if twice := sorted(names & taken):
            reader.report_wrong(path, f"two models are called {setting_kinds.format_value(twice[0])}")
            continue
        taken |= names
        models.append(GivenModel(info=model_from({**fields, **prices}), source=reader.source(path)))
    return models


def _read_prices(nested: Mapping[str, object], path: KeyPath, reader: "FileReader") -> dict[str, Any] | None:
    read: dict[str, Any] = {}
    for key, table in nested.items():
        known = _PRICES if key == "prices" else {"above": IntegerKind(1), **_PRICES}
        if not isinstance(table, dict):
            reader.report_wrong((*path, key), "expected a table with input and output, in dollars per million tokens")
            return None
        fields = _read_fields(table, known, (*path, key), reader)
        if fields is None:
            return None
        if missing := [each for each in known if not each.startswith("cache") and each not in fields]:
            reader.report_wrong((*path, key), f"{' and '.join(missing)} must be set too")
            return None
        read[key] = fields
    if "long_prompt" in read and "prices" not in read:
        reader.report_wrong((*path, "long_prompt"), "long_prompt needs prices too")
        return None
    return read


def _read_tables(value: object, name: str, limit: int, reader: "FileReader") -> list[tuple[KeyPath, dict[str, Any]]]:
    if not isinstance(value, list):
        reader.report_wrong((name,), f"expected a list of tables, each headed [[{name}]]")
        return []
    if len(value) > limit:
        reader.report_wrong((name,), f"expected at most {limit} of them, not {len(value)}")
        return []
    found: list[tuple[KeyPath, dict[str, Any]]] = []
    for number, table in enumerate(value):
        if isinstance(table, dict):
            found.append(((name, number), table))
        else:
            reader.report_wrong((name, number), f"expected a table, headed [[{name}]]")
    return found


def _read_fields(
    table: Mapping[str, object],
    known: Mapping[str, SettingKind],
    path: KeyPath,
    reader: "FileReader",
    others: tuple[str, ...] = (),
) -> dict[str, Any] | None:
    """Read the keys of a table; None if one of them is wrong. `others` are valid keys that are read elsewhere."""
    fields: dict[str, Any] = {}
    sound = True
    for key, value in table.items():
        if key not in known:
            reader.report_unknown((*path, key), (*known, *others))
            sound = False
            continue
        fine, read = reader.attempt((*path, key), partial(known[key].read, value))
        sound = sound and fine
        fields[key] = read
    return fields if sound else None
