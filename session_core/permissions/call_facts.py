"""The facts about a tool call that permission depends on, taken from its preview, and its verdict."""

from collections.abc import Iterable
from hashlib import sha256

import attrs

from session_core.permissions.decision import (
    CallerKind,
    CallFacts,
    Grants,
    PermissionCall,
    PermissionVerdict,
    decide,
)
from session_core.permissions.rules import PermissionRule
from session_core.tools.base import CallPreview, Tool
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ToolCallPart
from session_core.vocabulary.sessions import Settings
from session_core.vocabulary.tools import all_names_of
from session_core.wire.codec import encode


@attrs.frozen(kw_only=True)
class CallJudgement:
    """A call, what it would do, and the verdict."""

    call: PermissionCall
    facts: CallFacts
    verdict: PermissionVerdict


def judge_call(
    tool: Tool,
    call: ToolCallPart,
    preview: CallPreview,
    settings: Settings,
    *,
    rules: Iterable[PermissionRule],
    grants: Grants,
    caller: CallerKind = "model",
) -> CallJudgement:
    """Judge a call by what it would do, in a session with these settings."""
    facts = CallFacts(
        effects=tool.effects if preview.effects is None else preview.effects & tool.effects,
        paths=preview.paths,
        command=preview.command,
        rights=frozenset(preview.rights),
        always_ask=preview.always_ask,
    )
    judged = PermissionCall(
        tool=call.name,
        grant=preview.grant or call.name,
        fingerprint=fingerprint_call(call, preview, settings.cwd),
        earlier_fingerprints=tuple(
            fingerprint_call(attrs.evolve(call, name=name), preview, settings.cwd)
            for name in all_names_of(call.name)[1:]
        ),
        caller=caller,
    )
    verdict = decide(judged, facts, rules, grants, settings.permission_mode)
    return CallJudgement(call=judged, facts=facts, verdict=verdict)


def fingerprint_call(call: ToolCallPart, preview: CallPreview, cwd: str) -> str:
    """Return the fingerprint of a call as it is shown: another preview gives another fingerprint."""
    facts = CallFacts(effects=frozenset(), rights=frozenset(preview.rights), always_ask=preview.always_ask)
    preview_text = preview.displayed_text if facts.must_ask is None else f"{facts.must_ask}\n{preview.displayed_text}"
    return compute_fingerprint(call.name, call.arguments, cwd, preview_text)


def compute_fingerprint(tool: str, arguments: JsonObject, cwd: str, preview_text: str) -> str:
    """Return the fingerprint of exactly this call: the answer to an approval is bound to it."""
    return sha256(encode((tool, arguments, cwd, preview_text))).hexdigest()
