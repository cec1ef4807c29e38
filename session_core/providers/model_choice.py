"""The models that can be used here, the default model, and the provider of a model.

A key is sent only to the address it was made for: the key of a well-known variable such as ANTHROPIC_API_KEY is sent to
another host only if the user's own file names that host.
"""

import importlib
import json
import os
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlsplit

import attrs
import trio

from session_core.errors import InvalidInput
from session_core.providers.base import Provider
from session_core.providers.catalogue import (
    BUILT_IN_PROVIDERS,
    ModelInfo,
    ProviderSettings,
    ThinkingAbility,
    find_model,
    find_nearest_name,
    list_model_names,
)
from session_core.providers.secrets import Secret

if TYPE_CHECKING:
    from session_core.providers.endpoint import Endpoint

DEMO: Final = "demo"
OLLAMA: Final = "ollama"
PROBE_TIMEOUT_S: Final = 0.5
"""A server on this machine answers at once or does not run."""
MAX_PROBE_BYTES: Final = 1_000_000
MAX_PROBED_MODELS: Final = 200
_LONGEST_NAME: Final = 200

_LEAST_EFFORT: Final[Mapping[ThinkingAbility, str]] = {"adaptive": "none", "always": "low"}
_KEY_HOSTS: Final = {each.key_env: urlsplit(each.base_url).hostname for each in BUILT_IN_PROVIDERS if each.key_env}


class ModelConfig(Protocol):
    """The part of the configuration that is about models."""

    @property
    def model(self) -> str | None:
        """The chosen model, if any."""
        ...

    @property
    def models(self) -> tuple[ModelInfo, ...]:
        """All known models."""
        ...

    @property
    def providers(self) -> tuple[ProviderSettings, ...]:
        """The providers of the models, and how to reach them."""
        ...


@attrs.frozen(kw_only=True)
class ModelChoice:
    """A model; if it cannot be used, `why_not` gives the reason and the remedy."""

    info: ModelInfo
    why_not: str | None = None

    @property
    def available(self) -> bool:
        """Whether it can be used."""
        return self.why_not is None


@attrs.frozen(kw_only=True)
class PickedModel:
    """The model of sessions that name none; `info` is None for the demo, and `remark` gives the reason."""

    name: str
    info: ModelInfo | None
    remark: str = ""


Probe = Callable[[str], Awaitable[list[str]]]


def available_models(config: ModelConfig, environ: Mapping[str, str] | None = None) -> list[ModelChoice]:
    """Return every known model in catalogue order, with the reason if it is not available."""
    reasons = {each.name: find_key(each, environ)[1] for each in config.providers}
    return [
        ModelChoice(info=each, why_not=reasons.get(each.provider, f"there is no provider called {each.provider}"))
        for each in config.models
    ]


def find_key(provider: ProviderSettings, environ: Mapping[str, str] | None) -> tuple[Secret | None, str | None]:
    """Return the key for a provider, and if it cannot be used without one, a sentence that says what to do."""
    if provider.key is not None:
        return provider.key, None
    variable = provider.key_env
    if variable is None:
        return None, None
    key = (os.environ if environ is None else environ).get(variable, "").strip()
    if not key:
        return None, f"set {variable}"
    if not (key.isascii() and key.isprintable()) or " " in key:
        return None, f"{variable} does not hold a valid key: it contains blanks or odd characters"
    host = urlsplit(provider.base_url).hostname
    if variable in _KEY_HOSTS and host != _KEY_HOSTS[variable] and not provider.chosen_by_user:
        return None, f"{variable} is for {_KEY_HOSTS[variable]} and is not sent to {host}"
    return Secret(key), None


async def default_model(
    config: ModelConfig, environ: Mapping[str, str] | None = None, *, probe: Probe | None = None
) -> PickedModel:
    """Pick a model: the configured one, else the first that has a key, else one of Ollama, else the demo.

    Raises:
        InvalidInput: The configured model is unknown or cannot be used; the message says what to do.
    """
    await trio.lowlevel.checkpoint()
    if config.model == DEMO:
        return PickedModel(name=DEMO, info=None)
    if config.model is not None:
        info = resolve_model(config, config.model, environ)
        return PickedModel(name=info.name, info=info)
    for choice in available_models(config, environ):
        provider = _find_provider(config, choice.info)
        if choice.available and (provider.key_env is not None or provider.key is not None):
            return PickedModel(name=choice.info.name, info=choice.info, remark=f"there is a key for {provider.name}")
    local = next((each for each in config.providers if each.name == OLLAMA), None)
    found = await (probe or probe_ollama)(local.base_url) if local is not None else []
    if found:
        name = f"{OLLAMA}/{found[0]}"
        local_info = find_model(config.models, name, [OLLAMA])
        return PickedModel(
            name=name, info=local_info, remark="Ollama runs on this machine, and no other model has a key"
        )
    variables_to_set = " or ".join(each.key_env for each in config.providers[:2] if each.key_env is not None)
    remark = f"no API key is configured, so the offline demo model is used: set {variables_to_set}, or start Ollama"
    return PickedModel(name=DEMO, info=None, remark=remark)


def resolve_model(config: ModelConfig, name: str, environ: Mapping[str, str] | None = None) -> ModelInfo:
    """Return the model with this name or alias.

    Raises:
        InvalidInput: It is unknown or cannot be used; the message says what to do.
    """
    info = find_model(config.models, name, [each.name for each in config.providers])
    if info is None:
        probably = find_nearest_name(name, (DEMO, *list_model_names(config.models)))
        suggestion = f"did you mean {probably}?" if probably is not None else "see: session-core models --all"
        raise InvalidInput(f"there is no model called {name[:_LONGEST_NAME]!r}; {suggestion}", field="model")
    _, why_not = find_key(_find_provider(config, info), environ)
    if why_not is not None:
        raise InvalidInput(f"{info.name} cannot be used: {why_not}", field="model")
    return info


def _find_provider(config: ModelConfig, info: ModelInfo) -> ProviderSettings:
    for each in config.providers:
        if each.name == info.provider:
            return each
    raise InvalidInput(f"there is no provider called {info.provider!r}", field="model")


# --- a server on this machine -----------------------------------------------------------------------------------------


async def probe_ollama(base_url: str, *, timeout_s: float = PROBE_TIMEOUT_S) -> list[str]:
    """Return the models of a server on this machine, such as Ollama; none if it does not answer at once.

    Other machines are never asked.
    """
    from session_core.providers.endpoint import is_loopback

    address = urlsplit(base_url)
    if address.hostname is None or not is_loopback(address.hostname):
        await trio.lowlevel.checkpoint()
        return []
    answers = False
    try:
        with trio.move_on_after(timeout_s):
            # Usually no server runs. Find that out before importing the HTTP library, which is slow.
            port = address.port or (443 if address.scheme == "https" else 80)
            await (await trio.open_tcp_stream(address.hostname, port)).aclose()
            answers = True
    except OSError:
        return []
    return _parse_model_names(await _fetch_body(f"{base_url.rstrip('/')}/models", timeout_s)) if answers else []


async def _fetch_body(url: str, timeout_s: float) -> bytes:
    """Return the body at an address of this machine; empty on any failure."""
    httpx2 = await trio.to_thread.run_sync(importlib.import_module, "httpx2")
    body = b""
    with trio.move_on_after(timeout_s) as patience:
        try:
            # Proxies from the environment are for remote hosts, and a local server has no reason to redirect us.
            async with (
                httpx2.AsyncClient(timeout=timeout_s, trust_env=False, follow_redirects=False) as client,
                client.stream("GET", url) as response,
            ):
                async for piece in response.aiter_bytes():
                    body += piece
                    if len(body) > MAX_PROBE_BYTES:
                        patience.cancel()  # a plain `break` would leave the generators open
                if response.status_code != HTTPStatus.OK:
                    return b""
        except (httpx2.HTTPError, httpx2.InvalidURL):
            return b""
    return b"" if patience.cancelled_caught else body


def _parse_model_names(body: bytes) -> list[str]:
    """Parse a model list in OpenAI's format; skip odd names."""
    try:
        entries = json.loads(body)["data"]
        names = [entry["id"] for entry in entries if isinstance(entry, dict) and isinstance(entry.get("id"), str)]
    except (ValueError, TypeError, KeyError, RecursionError):
        return []
    usable = [name for name in names if name.isprintable() and " " not in name and 0 < len(name) <= _LONGEST_NAME]
    return usable[:MAX_PROBED_MODELS]


# --- providers --------------------------------------------------------------------------------------------------------


def make_provider(
    info: ModelInfo,
    config: ModelConfig,
    environ: Mapping[str, str] | None = None,
    *,
    endpoint: "Endpoint | None" = None,
) -> Provider:
    """Return the provider of a model; several models may share an `endpoint` and its connections.

    Raises:
        InvalidInput: There is no key for it, or its address cannot be used.
    """
    settings = _find_provider(config, info)
    reached = endpoint if endpoint is not None else make_endpoint(settings, environ)
    match settings.kind:
        case "anthropic":
            from session_core.providers.anthropic import AnthropicOptions, AnthropicProvider

            options = AnthropicOptions(
                max_output_tokens=info.max_output_tokens,
                thinking=info.thinking,
                structured_output=info.structured_output,
                can_see=info.images,
            )
            return AnthropicProvider(reached, info.api_id, options=options)
        case "openai_responses":
            from session_core.providers.openai_responses import ResponsesOptions, ResponsesProvider

            thinks = info.thinking != "none"
            return ResponsesProvider(
                reached,
                info.api_id,
                options=ResponsesOptions(
                    can_see=info.images, can_think=thinks, effort_when_off=_LEAST_EFFORT.get(info.thinking)
                ),
            )
        case "openai_chat":
            from session_core.providers.openai_chat import DIALECTS, ChatCompletionsProvider

            dialect = DIALECTS[settings.name if settings.name in DIALECTS else "vllm"]
            thinks = dialect.can_think or info.thinking != "none"
            return ChatCompletionsProvider(
                reached, info.api_id, options=attrs.evolve(dialect, can_see=info.images, can_think=thinks)
            )


def make_endpoint(provider: ProviderSettings, environ: Mapping[str, str] | None = None) -> "Endpoint":
    """Return the endpoint of a provider, with its key.

    Raises:
        InvalidInput: There is no key for it, or its address cannot be used.
    """
    from session_core.providers.endpoint import Endpoint

    key, why_not = find_key(provider, environ)
    if why_not is not None:
        raise InvalidInput(f"{provider.name} cannot be used: {why_not}", field=f"providers.{provider.name}")
    return Endpoint(
        base_url=provider.base_url,
        key=key,
        headers=dict(provider.headers),
        key_hint=_build_key_hint(provider, key),
        absent_hint=_build_absent_hint(provider),
        timeouts=provider.timeouts,
    )


def _build_absent_hint(provider: ProviderSettings) -> str:
    """Return a hint about what is probably missing, in terms of the configuration."""
    if provider.name == OLLAMA:
        return "is Ollama running? (to start it: ollama serve)"
    return f"is the server of providers.{provider.name} running?"


def _build_key_hint(provider: ProviderSettings, key: Secret | None) -> str:
    """Describe where the key came from, so people know which one to change."""
    if key is None:
        return f"no key was sent: name its variable in providers.{provider.name}.key_env in the settings"
    if provider.key is not None:
        return f"it comes from providers.{provider.name}.key in the settings"
    return f"set {provider.key_env} to one that it accepts"
