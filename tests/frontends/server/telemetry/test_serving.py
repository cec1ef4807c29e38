"""`serve` and telemetry: it is off unless asked for, and refused or told of when it cannot be had."""

import logging
from pathlib import Path

import pytest
import trio

import session_core as sc
from frontends.server.daemon import command
from frontends.server.daemon.command import ServeRequest, serve
from frontends.server.daemon.foreground import _telemetry
from frontends.server.telemetry import availability
from session_core.testing.checked import open_checked_service
from tests.session_core.service._helpers import scripted


@pytest.fixture
def no_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave nothing that could send spans."""
    monkeypatch.setattr(availability, "_PARTS", ("nobody_has_this",))


def test_a_service_in_the_background_is_asked_the_same(tmp_path: Path) -> None:
    """The option goes on to the process that becomes the service, and only if it was given."""
    assert "--telemetry" in ServeRequest(home=tmp_path, telemetry=True).arguments()
    assert "--telemetry" not in ServeRequest(home=tmp_path).arguments()


def test_what_cannot_be_had_is_refused_before_anything_starts(tmp_path: Path, no_packages: None) -> None:
    """`serve --telemetry` without the packages is refused at once, in the words that install them."""
    with pytest.raises(sc.Unavailable, match=r"session-core\[telemetry\]"):
        serve(ServeRequest(home=tmp_path / "home", telemetry=True))
    assert not (tmp_path / "home").exists()


def test_what_is_switched_off_needs_no_packages(
    tmp_path: Path, no_packages: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`serve --telemetry` where a variable switches all telemetry off starts without the packages."""
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    begun: list[ServeRequest] = []

    async def starts(wanted: ServeRequest, _streams: object) -> int:
        await trio.lowlevel.checkpoint()
        begun.append(wanted)
        return 0

    monkeypatch.setattr(command, "_serve", starts)
    wanted = ServeRequest(home=tmp_path / "home", telemetry=True, foreground=True)
    assert (0, [wanted]) == (serve(wanted), begun)


async def test_a_variable_alone_refuses_nothing(
    no_packages: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """An address that is there for other programs starts the service all the same, and the log tells."""
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
    with caplog.at_level(logging.WARNING, logger="frontends"):
        async with open_checked_service(scripted()) as service, _telemetry(service, asked=False):
            pass
    assert [availability.MISSING] == [each.getMessage() for each in caplog.records]


async def test_variables_that_are_wrong_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings that the SDK does not take are one typed error, if telemetry was asked for."""
    pytest.importorskip("opentelemetry.sdk.trace", reason="the extra `telemetry` is not installed")
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "-4")
    async with open_checked_service(scripted()) as service:
        with pytest.raises(sc.InvalidInput, match="OTEL_"):
            async with _telemetry(service, asked=True):
                pass


async def test_headers_with_a_key_do_not_reach_the_log(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Headers that are written wrongly may hold a key, so nobody quotes them."""
    pytest.importorskip("opentelemetry.sdk.trace", reason="the extra `telemetry` is not installed")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "sk-secret")
    with caplog.at_level(logging.DEBUG):
        async with open_checked_service(scripted()) as service, _telemetry(service, asked=True):
            pass
    assert "sk-secret" not in caplog.text
    assert "telemetry spans are sent" in caplog.text
