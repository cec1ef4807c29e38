"""Which tool calls run, which need approval, and which are refused: a table, rules, and a pure function.

Order, first match wins: a rule that denies; the read-only mode; a standing grant for exactly this call, as it was
shown; what must always be asked; a rule that asks; a rule that allows; a grant for the session; the mode's table.

People are asked elsewhere: `ToolRunner` calls `TurnHandle.ask_approval` (`session/turn_handle`).
"""

from collections.abc import Collection, Sequence
from hashlib import sha256
from typing import Literal

import attrs

from session_core.config.rules import PermissionRule
from session_core.config.rules import decide as rules_decide
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.sessions import PermissionMode
from session_core.vocabulary.tools import Effect
from session_core.wire.codec import encode

_CHANGES: frozenset[Effect] = frozenset({"write", "execute", "network"})

ASKS: dict[PermissionMode, frozenset[Effect]] = {
    "read_only": frozenset(),  # calls that change anything are refused earlier
    "ask_all": frozenset({"read", "write", "execute", "network"}),
    "ask_writes": _CHANGES,
    "auto_edit": frozenset({"execute", "network"}),
    "full": frozenset(),
}
_WHAT: dict[Effect, str] = {
    "read": "reads",
    "write": "changes files",
    "execute": "runs a program",
    "network": "uses the network",
}


@attrs.frozen(kw_only=True)
class CallFacts:
    """A tool call, as far as permission depends on it.

    Attributes:
        tool: The tool's name.
        effects: What the call can do.
        paths: The files it touches.
        command: The command it would run, if any.
        grant: What a grant for the whole session covers.
        always_ask: Why a person must be asked in any case.
        fingerprint: Identifies exactly this call.
    """

    tool: str
    effects: frozenset[Effect]
    grant: str
    fingerprint: str
    paths: tuple[str, ...] = ()
    command: str | None = None
    always_ask: str | None = None


@attrs.frozen(kw_only=True)
class PermissionVerdict:
    """What to do with a call, and why."""

    decision: Literal["allow", "ask", "deny"]
    reason: str = ""


ALLOWED = PermissionVerdict(decision="allow")


def decide(
    mode: PermissionMode,
    call: CallFacts,
    *,
    rules: Sequence[PermissionRule] = (),
    grants: Collection[str] = (),
    standing: Collection[str] = (),
    by_person: bool = False,
) -> PermissionVerdict:
    """Decide about one call.

    Args:
        mode: The session's permission mode.
        call: The known facts about the call.
        rules: The rules of the configuration.
        grants: Grants for this session.
        standing: Fingerprints of calls that may always run.
        by_person: A person made the call themselves, which is the approval that a rule or the mode would ask for.
    """
    by_rule = rules_decide(rules, tool=call.tool, paths=call.paths, command=call.command)
    if by_rule == "deny":
        return PermissionVerdict(decision="deny", reason="a rule in the configuration forbids it")
    if mode == "read_only" and call.effects & _CHANGES:
        return PermissionVerdict(
            decision="deny", reason=f"this session is read-only, and the call {_describe_effects(call)}"
        )
    if call.fingerprint in standing:
        return ALLOWED
    if call.always_ask is not None:
        return PermissionVerdict(decision="ask", reason=call.always_ask)
    if by_person:
        return ALLOWED
    if by_rule == "ask":
        return PermissionVerdict(decision="ask", reason="a rule in the configuration requires approval")
    if by_rule == "allow" or call.grant in grants:
        return ALLOWED
    if ASKS[mode] & call.effects:
        return PermissionVerdict(decision="ask", reason=f"it {_describe_effects(call)}")
    return ALLOWED


def _describe_effects(call: CallFacts) -> str:
    return " and ".join(_WHAT[effect] for effect in ("write", "execute", "network", "read") if effect in call.effects)


def compute_fingerprint(tool: str, arguments: JsonObject, cwd: str, preview_text: str) -> str:
    """Return the fingerprint of exactly this call: the answer to an approval is bound to it."""
    return sha256(encode((tool, arguments, cwd, preview_text))).hexdigest()
