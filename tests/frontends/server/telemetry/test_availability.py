"""When telemetry is wanted, and what is said when it cannot be had."""

import subprocess
import sys

import pytest
import trio

import session_core as sc
from frontends.server.telemetry import availability

PLACE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318"}


@pytest.mark.parametrize(
    ("environ", "asked", "wanted"),
    [
        ({}, False, False),
        ({}, True, True),
        (PLACE, False, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1"}, False, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, False, False),
        ({**PLACE, "OTEL_SDK_DISABLED": "true"}, True, False),
        ({**PLACE, "OTEL_SDK_DISABLED": "false"}, False, True),
        ({**PLACE, "OTEL_TRACES_EXPORTER": "none"}, False, False),
    ],
)
def test_who_asks_gets_it(environ: dict[str, str], asked: bool, wanted: bool) -> None:  # noqa: FBT001
    """The option or an address asks for telemetry, and the standard switch turns it off."""
    assert wanted == availability.is_wanted(environ, asked=asked)


def test_what_is_not_installed_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its packages telemetry is refused with the words that install them."""
    monkeypatch.setattr(availability, "_PARTS", ("nobody_has_this.at_all",))
    with pytest.raises(sc.Unavailable, match=r"session-core\[telemetry\]"):
        availability.check_installed()


@pytest.mark.slow
async def test_nothing_of_it_is_imported_unless_wanted() -> None:
    """The service of a home is imported without the SDK."""
    code = "import frontends.server.daemon.foreground, frontends.server.telemetry.availability, sys; "
    code += "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    done = await trio.run_process([sys.executable, "-c", code], capture_stdout=True, stderr=subprocess.DEVNULL)
    assert b"[]" == done.stdout.strip()
