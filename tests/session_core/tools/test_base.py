"""The values tools speak in."""

import pytest
from attrs.exceptions import FrozenInstanceError

from session_core.ids import CallId
from session_core.tools.base import ToolContext, ToolFailed, ToolOutput
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.sessions import SandboxPolicy


def test_output_is_a_frozen_value() -> None:
    """Output compares by what it says and cannot be changed."""
    output = ToolOutput(text="a", details=JsonObject({"n": 1}))

    assert {output} == {ToolOutput(text="a", details=JsonObject({"n": 1}))}
    with pytest.raises(FrozenInstanceError):
        output.text = "b"  # type: ignore[misc]


def test_a_context_reports() -> None:
    """What a tool reports reaches whoever made its context."""
    heard: list[str] = []
    context = ToolContext(call_id=CallId("call_1"), cwd="/", sandbox=SandboxPolicy(), report=heard.append)

    context.report("half way")

    assert ["half way"] == heard


def test_a_failure_says_what_happened() -> None:
    """The sentence of a failure is what the model gets to read."""
    assert "no such file" == str(ToolFailed("no such file"))
