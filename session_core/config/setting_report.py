"""Each setting with its value and its source, safe to show: keys are masked."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import attrs

from session_core.config.settings import SETTINGS
from session_core.config.values import Config, SettingSource
from session_core.providers.catalogue import PER_MILLION, ProviderSettings
from session_core.providers.secrets import MASK

JsonLike = None | bool | int | float | str | list[Any] | dict[str, Any]


@attrs.frozen(kw_only=True)
class ShownSetting:
    """A setting that is safe to show to anyone; `value` is plain JSON."""

    key: str
    value: JsonLike
    source: SettingSource


def describe_settings(config: Config, environ: Mapping[str, str]) -> tuple[ShownSetting, ...]:
    """Return all settings, including defaults; of the models, only those that the user added."""
    return (
        *_describe_values(config),
        *_describe_rules(config),
        *(each for provider in config.providers for each in _describe_provider(provider, config, environ)),
        *_describe_models(config),
    )


def _describe_values(config: Config) -> list[ShownSetting]:
    limits = config.limits
    values: dict[str, Any] = {
        "model": config.model,
        "thinking": config.thinking,
        "protocol": config.protocol,
        "permission_mode": config.permission_mode,
        **{f"sandbox.{key}": value for key, value in attrs.asdict(config.sandbox).items()},
        "limits.steps": limits.steps,
        "limits.tokens": limits.tokens,
        "limits.cost": None if limits.cost_micros is None else dollars(limits.cost_micros),
        "limits.seconds": None if limits.time_ms is None else limits.time_ms // 1000,
        "tools.disabled": config.disabled_tools,
        "compaction.threshold": config.compaction_threshold,
        "mcp.file": config.mcp_file,
        "skills.paths": config.skill_paths,
        "extensions.use": config.extensions,
        "extensions.flags": config.extension_flags,
        "extensions.watch": config.watched_extensions,
        **{f"retention.{key}": value for key, value in attrs.asdict(config.retention).items()},
    }
    return [
        ShownSetting(
            key=each.key,
            value=list(value) if isinstance(value := values[each.key], tuple) else value,
            source=config.source(each.key),
        )
        for each in SETTINGS
    ]


def dollars(micros: int) -> int | float:
    """Return an amount of money as people write it."""
    whole, rest = divmod(micros, PER_MILLION)
    return whole if not rest else float(Decimal(micros) / PER_MILLION)


def _describe_rules(config: Config) -> list[ShownSetting]:
    return [
        ShownSetting(
            key=(key := f"permissions[{number}]"),
            value=attrs.asdict(rule, filter=lambda _, value: value is not None),
            source=config.source(key),
        )
        for number, rule in enumerate(config.permissions, start=1)
    ]


def _describe_provider(provider: ProviderSettings, config: Config, environ: Mapping[str, str]) -> list[ShownSetting]:
    base = f"providers.{provider.name}"
    values: dict[str, JsonLike] = {"kind": provider.kind, "base_url": provider.base_url}
    if provider.key_env is not None:
        values["key_env"] = provider.key_env
    if provider.headers:
        values["headers"] = {name: MASK for name, _ in provider.headers}
    if f"{base}.timeouts" in config.sources:
        values["timeouts"] = {key.removesuffix("_s"): each for key, each in attrs.asdict(provider.timeouts).items()}
    entries = [
        ShownSetting(key=f"{base}.{key}", value=value, source=config.source(f"{base}.{key}"))
        for key, value in values.items()
    ]
    if provider.key is not None:
        entries.append(ShownSetting(key=f"{base}.key", value=MASK, source=config.source(f"{base}.key")))
    elif provider.key_env is not None and environ.get(provider.key_env, "").strip():
        source = SettingSource(layer="environment", place=provider.key_env)
        entries.append(ShownSetting(key=f"{base}.key", value=MASK, source=source))
    return entries


def _describe_models(config: Config) -> list[ShownSetting]:
    return [
        ShownSetting(key=key, value=each.api_id, source=config.source(key))
        for each in config.models
        if (key := f"models.{each.name}") in config.sources
    ]
