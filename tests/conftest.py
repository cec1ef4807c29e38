"""How much work property tests do: set HYPOTHESIS_PROFILE to quick, default or thorough."""

import logging
import os
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

_COMMON = settings(
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

settings.register_profile("quick", _COMMON, max_examples=10)
settings.register_profile("default", _COMMON, max_examples=15)
settings.register_profile("thorough", _COMMON, max_examples=20_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))


@pytest.fixture(autouse=True, scope="session")
def home_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """Keep tests, and the programs they start, away from the sessions of whoever runs them."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SESSION_CORE_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture
def quiet_log(caplog: pytest.LogCaptureFixture) -> None:
    """Keep what the product logs out of the report: texts that cannot be encoded would break the report itself."""
    caplog.set_level(logging.CRITICAL + 1, logger="session_core")
