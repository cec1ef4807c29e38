"""Check whether telemetry is wanted and installed, without importing OpenTelemetry."""

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Final

import session_core as sc

ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PARTS: Final = ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http")
MISSING: Final = "telemetry needs packages that are not installed: pip install 'session-core[telemetry]'"


def is_wanted(environ: Mapping[str, str], *, asked: bool) -> bool:
    """Return whether to send spans: they were requested, or a target is set, and they are not switched off."""
    if environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return False
    if environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none":
        return False
    return asked or any(environ.get(name, "").strip() for name in ENDPOINTS)


def is_installed() -> bool:
    """Return whether the packages that send spans are installed."""
    try:
        return all(find_spec(part) is not None for part in _PARTS)
    except ModuleNotFoundError:  # a parent package is missing
        return False


def check_installed() -> None:
    """Check that telemetry is installed.

    Raises:
        Unavailable: The packages are missing.
    """
    if not is_installed():
        raise sc.Unavailable(MISSING, field="telemetry")
