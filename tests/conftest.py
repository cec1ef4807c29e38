"""How much work property tests do: set HYPOTHESIS_PROFILE to quick, default or thorough."""

import logging
import os

import pytest
from hypothesis import HealthCheck, settings

_COMMON = settings(
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

settings.register_profile("quick", _COMMON, max_examples=30)
settings.register_profile("default", _COMMON, max_examples=300)
settings.register_profile("thorough", _COMMON, max_examples=20_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture
def quiet_log(caplog: pytest.LogCaptureFixture) -> None:
    """Keep what the product logs out of the report: texts that cannot be encoded would break the report itself."""
    caplog.set_level(logging.CRITICAL + 1, logger="session_core")
