"""Every test of the client runs on both loops."""

import pytest


@pytest.fixture(params=["trio", "asyncio"])
def backend(request: pytest.FixtureRequest) -> str:
    """The loop that the test runs on."""
    return str(request.param)
