"""What tests of MCP servers share."""

import pytest

from tests.session_core.mcp._harness import PATIENCE


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for processes: on a busy machine, much may come between the end of their pipes and their own."""
    monkeypatch.setattr("session_core.mcp.stdio._GRACE", PATIENCE)
    monkeypatch.setattr("session_core.processes.child._GRACE", PATIENCE)
