"""How long a provider may take, and how that reaches its calls."""

from typing import Any

import attrs
import pytest

from session_core.errors import InvalidInput
from session_core.providers.catalogue import BUILT_IN_PROVIDERS, ProviderSettings
from session_core.providers.model_choice import make_endpoint
from session_core.providers.timeouts import ProviderTimeouts


@pytest.mark.parametrize("seconds", [0, -1, float("nan"), float("inf"), 86_401, True, "5", None])
@pytest.mark.parametrize("name", ["connect_s", "read_s", "progress_s", "total_s"])
def test_times_that_cannot_be(name: str, seconds: Any) -> None:
    """A time that is no number of seconds, none at all or more than a day is refused by its name."""
    with pytest.raises(InvalidInput) as refused:
        ProviderTimeouts(**{name: seconds})
    assert name == refused.value.field


def test_settings_reach_the_endpoint() -> None:
    """The times of a provider's settings hold for its calls, and people are asked about the server they know."""
    patient = ProviderTimeouts(connect_s=1, read_s=900, progress_s=1_800, total_s=86_400)
    found = make_endpoint(attrs.evolve(BUILT_IN_PROVIDERS[-1], timeouts=patient), {})
    assert (patient, "is Ollama running? (to start it: ollama serve)") == (found.timeouts, found.absent_hint)
    other = make_endpoint(ProviderSettings(name="mine", kind="openai_chat", base_url="http://localhost:1/v1"), {})
    assert (ProviderTimeouts(), "is the server of providers.mine running?") == (other.timeouts, other.absent_hint)
