"""What holds for all tests; HYPOTHESIS_PROFILE (quick, default, thorough) says how much work property tests do.

The quick and the default profile try the same examples every time, so that `make test` never fails by chance. New
examples are found by `make test-all`, with the thorough profile.
"""

import gc
import logging
import os
import signal
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

from session_core.processes import child
from tests._needs import NO_SANDBOX, summarize_skips

_COMMON = settings(
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

settings.register_profile("quick", _COMMON, max_examples=5, derandomize=True)
settings.register_profile("default", _COMMON, max_examples=10, derandomize=True)
settings.register_profile("thorough", _COMMON, max_examples=20_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

# Collecting makes several hundred thousand objects that live until the end: looking through them again and again was
# half of its time.
gc.disable()

# A shell ignores interrupts for what it runs in the background, and programs started from here would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """From here on the garbage collector looks at what the tests make, and no longer at the tests themselves."""
    gc.freeze()
    gc.enable()


@pytest.fixture(autouse=True, scope="session")
def home_of_the_tests(tmp_path_factory: pytest.TempPathFactory) -> Generator[None]:
    """Keep tests, and the programs they start, away from the sessions of whoever runs them."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("SESSION_CORE_HOME", str(tmp_path_factory.mktemp("home")))
        yield


@pytest.fixture(autouse=True, scope="session")
def patience_with_the_kernel() -> Generator[None]:
    """Give killed processes time to be gone: on busy cores they must wait for their turn to end."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(child, "_KILL_WAIT", 60.0)
        yield


@pytest.fixture
def require_sandbox() -> None:
    """Skip the test where programs cannot be confined."""
    if NO_SANDBOX is not None:
        pytest.skip(NO_SANDBOX)


@pytest.fixture
def quiet_log(caplog: pytest.LogCaptureFixture) -> None:
    """Keep what the product logs out of the report: texts that cannot be encoded would break the report itself."""
    caplog.set_level(logging.CRITICAL + 1, logger="session_core")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly at the end what could not be tested on this machine, and why."""
    skipped = (report for report in terminalreporter.stats.get("skipped", ()) if isinstance(report.longrepr, tuple))
    if line := summarize_skips(str(report.longrepr[2]).removeprefix("Skipped: ") for report in skipped):
        terminalreporter.write_sep("=", line, yellow=True, bold=True)
