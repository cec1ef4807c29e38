"""Running a tool in a folder, as the tests of the file tools do it."""

from pathlib import Path
from typing import Any

import attrs
import pytest

from session_core.ids import CallId
from session_core.tools.base import CallPreview, NoHost, PreviewingTool, Tool, ToolContext, ToolFailed, ToolOutput
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.sessions import SandboxPolicy


@attrs.define
class NotingHost(NoHost):
    """Notes which files are about to be changed, and what they hold at that moment."""

    folder: Path
    noted: list[tuple[str, bytes | None]] = attrs.field(factory=list)

    async def before_write(self, path: str) -> None:
        file = self.folder / path
        self.noted.append((path, file.read_bytes() if file.exists() else None))


def context(root: Path, **changes: Any) -> ToolContext:
    """What a tool gets to run with, in this folder."""
    plain = ToolContext(call_id=CallId("call_1"), cwd=str(root), sandbox=SandboxPolicy(), report=lambda _: None)
    return attrs.evolve(plain, **changes)


async def run(tool: Tool, root: Path, **arguments: Any) -> ToolOutput:
    """Run a tool to its end."""
    return await tool.run(JsonObject(arguments), context(root))


async def answer(tool: Tool, root: Path, **arguments: Any) -> str:
    """What the model would read."""
    return (await run(tool, root, **arguments)).text


async def refusal(tool: Tool, root: Path, **arguments: Any) -> str:
    """The sentence with which a tool refuses."""
    with pytest.raises(ToolFailed) as caught:
        await run(tool, root, **arguments)
    return str(caught.value)


async def preview(tool: Tool, root: Path, **arguments: Any) -> CallPreview:
    """What people would be shown before the call."""
    assert isinstance(tool, PreviewingTool)
    return await tool.preview(JsonObject(arguments), context(root))


def names(folder: Path) -> list[str]:
    """What is in a folder."""
    return sorted(entry.name for entry in folder.iterdir())
