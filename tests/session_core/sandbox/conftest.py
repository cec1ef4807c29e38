"""Every test of files runs twice: with the kernel's `openat2`, and with the walk by hand for systems without it."""

import pytest

from session_core.sandbox import openat


@pytest.fixture(params=["kernel", "by hand"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """How paths are opened in this run."""
    if request.param == "by hand":
        monkeypatch.setattr(openat, "has_openat2", lambda: False)
    elif not openat.has_openat2():
        pytest.skip("this kernel has no openat2")
    return str(request.param)
