"""The preview of a call, checked and cleaned, as tools are foreign code; `permissions` judges the call by it."""

import logging

import attrs

from session_core import limits
from session_core.agent.streamed_answer import replace_surrogates
from session_core.foreign_faults import FOREIGN_FAULTS, must_propagate
from session_core.tools.base import CallPreview, PreviewingTool, Tool, ToolContext, ToolFailed
from session_core.vocabulary.argument_checks import build_check
from session_core.vocabulary.messages import ToolCallPart

log = logging.getLogger(__name__)


async def build_preview(tool: Tool, call: ToolCallPart, context: ToolContext) -> CallPreview:
    """Return what a call would do; a tool without a preview is shown by its name and arguments.

    Raises:
        ToolFailed: The tool cannot tell. The call must not run, as rules about files or commands cannot be applied.
    """
    if not isinstance(tool, PreviewingTool):
        return CallPreview(summary=f"{call.name} ({', '.join(sorted(tool.effects))})")
    try:
        preview = await tool.preview(call.arguments, context)
        if not build_check(CallPreview)(preview):
            raise TypeError("it did not return a CallPreview")
    except ToolFailed:
        raise
    except FOREIGN_FAULTS as bug:
        if must_propagate(bug):
            raise
        log.exception("tool %s could not say what a call would do", call.name)
        raise ToolFailed(f"The tool could not say what it would do: {type(bug).__name__}: {bug}") from bug
    if len(preview.displayed_text) > limits.MAX_SHOWN_CHARS:
        raise ToolFailed("This call is too large for a person to judge; do it in smaller steps.")
    return attrs.evolve(
        preview, summary=replace_surrogates(preview.summary), displayed_text=replace_surrogates(preview.displayed_text)
    )
