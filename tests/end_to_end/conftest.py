"""Endpoints that lose their patience soon, and retries that come at once: these tests wait in real time."""

from collections.abc import Mapping
from typing import Any

import attrs
import pytest

from session_core.assembly import setup
from session_core.providers.catalogue import ProviderSettings
from session_core.providers.endpoint import Endpoint
from session_core.providers.timeouts import ProviderTimeouts
from tests.end_to_end._world import SILENT_S


@pytest.fixture
def quick_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry a failed call after a millisecond, unless the server asks for something else."""
    monkeypatch.setattr("session_core.agent.model_call.FIRST_RETRY_MS", 1)


def _change_endpoints(monkeypatch: pytest.MonkeyPatch, **changes: Any) -> None:
    as_before = setup.__dict__["make_endpoint"]  # which another fixture may have changed already

    def make_endpoint(provider: ProviderSettings, environ: Mapping[str, str] | None = None) -> Endpoint:
        endpoint: Endpoint = as_before(provider, environ)
        return attrs.evolve(endpoint, **changes)

    monkeypatch.setattr(setup, "make_endpoint", make_endpoint)


@pytest.fixture
def little_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up an answer that is silent for a moment; only where all of them are, as slow machines are silent too."""
    _change_endpoints(monkeypatch, timeouts=ProviderTimeouts(read_s=0.15))


@pytest.fixture
def some_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up an answer that is silent for `SILENT_S`, for tests whose clock jumps by that."""
    _change_endpoints(monkeypatch, timeouts=ProviderTimeouts(read_s=SILENT_S))


@pytest.fixture
def short_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up an answer that is longer than a small one."""
    _change_endpoints(monkeypatch, max_events=2_000)
