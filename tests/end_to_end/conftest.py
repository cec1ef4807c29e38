"""Endpoints that lose their patience soon, and retries that come at once: these tests wait in real time."""

from collections.abc import Mapping

import attrs
import pytest

from session_core.providers import choose
from session_core.providers.catalogue import ProviderSettings
from session_core.providers.endpoint import Endpoint
from session_core.providers.timeouts import ProviderTimeouts


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry a failed call after a millisecond, unless the server asks for something else."""
    monkeypatch.setattr("session_core.agent.model_call.FIRST_RETRY_MS", 1)


@pytest.fixture
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up an answer that is silent for a moment, or longer than a small one."""

    def make_endpoint(provider: ProviderSettings, environ: Mapping[str, str] | None = None) -> Endpoint:
        endpoint = choose.make_endpoint(provider, environ)
        return attrs.evolve(endpoint, timeouts=ProviderTimeouts(read_s=0.15), max_events=2_000)

    monkeypatch.setattr("session_core.service.setup.make_endpoint", make_endpoint)
