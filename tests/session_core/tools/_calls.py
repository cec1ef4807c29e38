"""Contexts for calls of tools, and what tells whether a process is left."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, get_args

import pytest
import trio

from session_core.ids import CallId, SessionId
from session_core.tools.base import Tool, ToolContext, ToolFailed, ToolOutput
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.sessions import ExtraRight, SandboxPolicy

EVERY_RIGHT: Final[frozenset[ExtraRight]] = frozenset(get_args(ExtraRight))


def context_in(
    root: Path,
    *,
    sandbox: SandboxPolicy | None = None,
    report: Callable[[str], None] = lambda _: None,
    session: str = "s1",
    **more: Any,
) -> ToolContext:
    """The context of a call in this folder."""
    return ToolContext(
        call_id=CallId("call_1"),
        cwd=str(root),
        sandbox=sandbox or SandboxPolicy(),
        report=report,
        session_id=SessionId(session),
        **more,
    )


async def refusal(tool: Tool, context: ToolContext, **arguments: Any) -> str:
    """What the tool says when it will not do it."""
    with pytest.raises(ToolFailed) as caught, trio.fail_after(300):
        await tool.run(JsonObject(arguments), context)
    return str(caught.value)


async def run(tool: Tool, context: ToolContext, **arguments: Any) -> ToolOutput:
    """Run a tool, but not for ever."""
    with trio.fail_after(300):
        return await tool.run(JsonObject(arguments), context)


def assert_no_child() -> None:
    """Fail if this process has a child, be it running or a zombie."""
    with pytest.raises(ChildProcessError):
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)


def processes_with(mark: str) -> list[int]:
    """The living processes whose command line holds this mark, whatever namespace they are in."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                if mark.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found
