"""What a call would do and whether it may: the same for calls of a model, lines of a person, programs of extensions."""

import logging
from collections.abc import Collection, Sequence

import attrs

from session_core import limits
from session_core.agent.permissions import CallFacts, PermissionVerdict, compute_fingerprint, decide
from session_core.agent.streamed_answer import clean_text
from session_core.agent.tool_results import check_preview
from session_core.config.rules import PermissionRule
from session_core.foreign_faults import FOREIGN_FAULTS, must_propagate
from session_core.tools.base import CallPreview, PreviewingTool, Tool, ToolContext, ToolFailed
from session_core.vocabulary.messages import ToolCallPart
from session_core.vocabulary.sessions import Settings

log = logging.getLogger(__name__)


@attrs.frozen(kw_only=True)
class CallJudgement:
    """A call, as far as permission depends on it, and what is to be done with it."""

    facts: CallFacts
    verdict: PermissionVerdict


async def build_preview(tool: Tool, call: ToolCallPart, context: ToolContext) -> CallPreview:
    """Find out what a call would do; a tool that has no preview is shown by its name and arguments.

    Raises:
        ToolFailed: It cannot be told. Then the call must not run: no rule about files or commands could be held
            against it.
    """
    if not isinstance(tool, PreviewingTool):
        return CallPreview(summary=f"{call.name} ({', '.join(sorted(tool.effects))})")
    try:
        preview = await tool.preview(call.arguments, context)
        check_preview(preview)
    except ToolFailed:
        raise
    except FOREIGN_FAULTS as bug:
        if must_propagate(bug):
            raise
        log.exception("tool %s could not say what a call would do", call.name)
        raise ToolFailed(f"The tool could not say what it would do: {type(bug).__name__}: {bug}") from bug
    if len(preview.displayed_text) > limits.MAX_SHOWN_CHARS:
        raise ToolFailed("This call is too large for a person to judge; do it in smaller steps.")
    return attrs.evolve(preview, summary=clean_text(preview.summary), displayed_text=clean_text(preview.displayed_text))


def judge_call(
    tool: Tool,
    call: ToolCallPart,
    preview: CallPreview,
    settings: Settings,
    *,
    rules: Sequence[PermissionRule],
    grants: Collection[str],
    standing: Collection[str],
    by_person: bool = False,
) -> CallJudgement:
    """Decide about a call by what it would do, in a session with these settings; see `permissions.decide`."""
    facts = CallFacts(
        tool=call.name,
        effects=tool.effects if preview.effects is None else preview.effects & tool.effects,
        paths=preview.paths,
        command=preview.command,
        grant=preview.grant or call.name,
        always_ask=preview.always_ask,
        fingerprint=fingerprint_call(call, preview, settings.cwd),
    )
    verdict = decide(
        settings.permission_mode, facts, rules=rules, grants=grants, standing=standing, by_person=by_person
    )
    return CallJudgement(facts=facts, verdict=verdict)


def fingerprint_call(call: ToolCallPart, preview: CallPreview, cwd: str) -> str:
    """Return what stands for a call as people are shown it: another preview, another fingerprint."""
    preview_text = (
        f"{preview.always_ask}\n{preview.displayed_text}" if preview.always_ask is not None else preview.displayed_text
    )
    return compute_fingerprint(call.name, call.arguments, cwd, preview_text)
