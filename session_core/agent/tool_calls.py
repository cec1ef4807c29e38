"""What a call would do and whether it may run: the same for model calls, typed shell lines and extension programs."""

import logging
from collections.abc import Collection, Sequence

import attrs

from session_core import limits
from session_core.agent.permissions import CallFacts, PermissionVerdict, compute_fingerprint, decide
from session_core.agent.streamed_answer import replace_surrogates
from session_core.agent.tool_results import check_preview
from session_core.config.rules import PermissionRule
from session_core.foreign_faults import FOREIGN_FAULTS, must_propagate
from session_core.tools.base import CallPreview, PreviewingTool, Tool, ToolContext, ToolFailed
from session_core.vocabulary.messages import ToolCallPart
from session_core.vocabulary.sessions import Settings

log = logging.getLogger(__name__)


@attrs.frozen(kw_only=True)
class CallJudgement:
    """The facts about a call that permission depends on, and the verdict."""

    facts: CallFacts
    verdict: PermissionVerdict


async def build_preview(tool: Tool, call: ToolCallPart, context: ToolContext) -> CallPreview:
    """Return what a call would do; a tool without a preview is shown by its name and arguments.

    Raises:
        ToolFailed: The tool cannot tell. The call must not run, as rules about files or commands cannot be applied.
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
    return attrs.evolve(
        preview, summary=replace_surrogates(preview.summary), displayed_text=replace_surrogates(preview.displayed_text)
    )


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
    """Judge a call by what it would do, in a session with these settings; see `permissions.decide`."""
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
    """Return the fingerprint of a call as it is shown: another preview gives another fingerprint."""
    preview_text = (
        f"{preview.always_ask}\n{preview.displayed_text}" if preview.always_ask is not None else preview.displayed_text
    )
    return compute_fingerprint(call.name, call.arguments, cwd, preview_text)
