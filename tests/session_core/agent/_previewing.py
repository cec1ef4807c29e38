"""A tool that shows what it would do: it puts a text into a place that stands for a file."""

from collections.abc import Awaitable, Callable
from typing import Any

import attrs

from session_core.testing.scripted import ScriptedTool, ToolRun
from session_core.tools.base import CallPreview, ToolContext, ToolFailed
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.sessions import ExtraRight
from session_core.vocabulary.tools import Effect, ToolSpec

SCHEMA = {
    "type": "object",
    "properties": {"text": {"type": "string"}, "times": {"type": "integer"}},
    "required": ["text"],
    "additionalProperties": False,
}

MakePreview = Callable[[JsonObject, ToolContext], Awaitable[CallPreview]]


class PutTool(ScriptedTool):
    """Puts `text` into `self.file`; its preview shows the change as of now."""

    def __init__(self, *, effects: tuple[Effect, ...] = ("write",), run: ToolRun | None = None, **preview: Any) -> None:
        super().__init__("put", effects=effects, run=run or self._put)
        self.spec = ToolSpec(name="put", description="Put a text.", parameters=JsonObject(SCHEMA))
        self.file = "old"
        self.rights: list[frozenset[ExtraRight]] = []
        self._preview = preview
        self.preview_fault: BaseException | None = None

    async def preview(self, arguments: JsonObject, context: ToolContext) -> CallPreview:
        """Show the difference."""
        if self.preview_fault is not None:
            raise self.preview_fault
        if arguments["text"] == "impossible":
            raise ToolFailed("that cannot be put")
        usual = CallPreview(
            summary=f"put {arguments['text']}",
            displayed_text=f"-{self.file}\n+{arguments['text']}",
            paths=("f",),
            grant="put f",
        )
        return attrs.evolve(usual, **self._preview)

    async def _put(self, arguments: JsonObject, context: ToolContext) -> str:
        self.rights.append(context.rights)
        self.file = str(arguments["text"])
        return f"put {self.file}"
