"""Models of extensions: each is a `Provider` like any other, with answers from the extension's process.

A model's name is `<provider>/<model>`. A provider belongs to the first extension that registers it; names of built-in
and configured providers are reserved. The offer follows what extensions register, so `providers` and `infos` are views
that change. Models that a provider did not list can be used as well.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeVar

import attrs

from session_core import limits
from session_core.errors import NotFound
from session_core.ids import SessionId
from session_core.providers.base import Provider
from session_core.providers.catalogue import BUILT_IN_PROVIDERS, ModelInfo, built_in_models, find_model
from session_core.providers.model_choice import DEMO
from session_core.sep.host.calls.contexts import Contexts
from session_core.sep.host.extension import HostedExtension
from session_core.sep.host.models.credentials import CredentialFile
from session_core.sep.host.models.logins import LoginFailed, ProviderLogins
from session_core.sep.host.models.stream import AnswerStreams, AnswerTimeouts, ExtensionProvider
from session_core.sep.host.registrations import ModelRegistration, ProviderRegistration

RESERVED: Final = frozenset({DEMO, *(each.name for each in BUILT_IN_PROVIDERS)})
"""Names of providers that no extension can take."""

T = TypeVar("T")


@attrs.frozen(kw_only=True, eq=False)
class ProviderOffer:
    """A provider that an extension has registered."""

    extension: HostedExtension
    registration: ProviderRegistration


class ExtensionProviders:
    """All providers of a host.

    Args:
        contexts: The tokens of the host.
        credentials: Where logins are stored.
        reserved: Further names that no extension can take: those of configured providers.
        patience: How long answers may take.
        logins: Makes logins and keeps them valid.
    """

    def __init__(
        self,
        contexts: Contexts,
        credentials: CredentialFile | None = None,
        *,
        reserved: Iterable[str] = (),
        patience: AnswerTimeouts | None = None,
        logins: ProviderLogins | None = None,
    ) -> None:
        self.logins = logins or ProviderLogins(contexts, credentials or CredentialFile())
        self.streams = AnswerStreams()
        """The answers in progress."""
        self.remarks: tuple[str, ...] = ()
        """What cannot be offered, and why, for people."""
        self.providers: Mapping[str, Provider] = _OfferView(self._provider, self._names)
        """The providers, by the names of their models."""
        self.infos: Mapping[str, ModelInfo] = _OfferView(self._info, self._names)
        """What is known about the models."""
        self._reserved = frozenset(name.casefold() for name in (*RESERVED, *reserved))
        self._contexts = contexts
        self._patience = patience or AnswerTimeouts()
        self._offers: dict[str, ProviderOffer] = {}
        self._listed: dict[str, ModelInfo] = {}

    def update(self, extensions: Iterable[HostedExtension]) -> None:
        """Apply the current registrations of all extensions, in load order."""
        offers: dict[str, ProviderOffer] = {}
        listed: dict[str, ModelInfo] = {}
        remarks: list[str] = []
        for extension in extensions:
            for each in extension.registrations.providers:
                why_not = self._why_not(each, offers.get(each.name))
                if why_not is not None:
                    remarks.append(f"the extension {extension.name} cannot have a provider {each.name!r}: {why_not}")
                    continue
                offers[each.name] = ProviderOffer(extension=extension, registration=each)
                for model in each.models:
                    info = model_info(each.name, model)
                    if len(info.name) > limits.MAX_NAME_CHARS:
                        remarks.append(f"a model of the provider {each.name!r} has too long a name: {model.id[:40]}...")
                    else:
                        listed[info.name] = info
        self._offers, self._listed, self.remarks = offers, listed, tuple(remarks)

    def find_offer(self, provider: str) -> ProviderOffer | None:
        """Return the offer of a provider, if any."""
        return self._offers.get(provider)

    async def log_in(self, provider: str, session_id: SessionId | None = None) -> None:
        """Log the user in to a provider; the extension's dialogs appear in that session.

        Raises:
            NotFound: No extension has such a provider.
            LoginFailed: The provider has no login, or the login failed.
        """
        offer = self.find_offer(provider)
        if offer is None:
            raise NotFound(
                f"no extension has a provider called {provider[: limits.MAX_NAME_CHARS]!r}", field="provider"
            )
        if not offer.registration.oauth:
            raise LoginFailed(f"the provider {provider} of the extension {offer.extension.name} has no login")
        await self.logins.log_in(offer.extension, provider, session_id)

    async def why_not_usable(self, provider: str) -> str:
        """Describe what people have to do before a provider can be used, if anything: it may need a login."""
        offer = self.find_offer(provider)
        if offer is None or not offer.registration.oauth:
            return ""
        if await self.logins.find(offer.extension, provider) is not None:
            return ""
        return f"nobody is logged in to {provider}: session-core ext login {offer.extension.name}/{provider}"

    def title_of(self, model: str) -> str:
        """Return the display name that an extension gives one of its models, if any."""
        provider, _, model_id = model.partition("/")
        offer = self.find_offer(provider)
        models = offer.registration.models if offer is not None else ()
        return next((each.display_name or "" for each in models if each.id == model_id), "")

    def _why_not(self, registration: ProviderRegistration, taken: ProviderOffer | None) -> str | None:
        if registration.name.casefold() in self._reserved:
            return "there is one of that name already"
        if taken is not None:
            return f"the extension {taken.extension.name} has one of that name"
        if "/" in registration.name:
            return "the name of a provider cannot contain a slash"
        return None

    def _names(self) -> Iterable[str]:
        return self._listed

    def _provider(self, name: str) -> Provider | None:
        provider, _, model = name.partition("/")
        offer = self._offers.get(provider)
        if offer is None or not _is_model(model) or len(name) > limits.MAX_NAME_CHARS:
            return None
        return ExtensionProvider(
            extension=offer.extension,
            registration=offer.registration,
            model_id=model,
            contexts=self._contexts,
            logins=self.logins,
            streams=self.streams,
            patience=self._patience,
        )

    def _info(self, name: str) -> ModelInfo | None:
        provider, _, model = name.partition("/")
        if name in self._listed or self._provider(name) is None:
            return self._listed.get(name)
        return model_info(provider, ModelRegistration(id=model))


def model_info(provider: str, model: ModelRegistration) -> ModelInfo:
    """Return what is known about a model: its input kinds, if it is a well-known one, but never its price here."""
    guess = ModelInfo(
        name=f"{provider}/{model.id}", provider=provider, api_id=model.id, structured_output=False, described=False
    )
    known = find_model(built_in_models(), model.id)
    if known is None:
        return guess
    return attrs.evolve(
        guess, context_tokens=known.context_tokens, max_output_tokens=known.max_output_tokens, images=known.images
    )


def _is_model(model: str) -> bool:
    return bool(model) and model.isprintable() and " " not in model


class _OfferView(Mapping[str, T]):
    """A view of the current offer; it lists fewer names than it can look up."""

    def __init__(self, find: Callable[[str], T | None], names: Callable[[], Iterable[str]]) -> None:
        self._find = find
        self._names = names

    def __getitem__(self, name: str) -> T:
        found = self._find(name)
        if found is None:
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return iter(tuple(self._names()))

    def __len__(self) -> int:
        return sum(1 for _ in self._names())
