"""Whether a call runs, needs approval, or is refused: `decide`, a pure function, and its table.

The first of `DECIDERS` that has an opinion decides; the last always has one, the mode's (`MODE_ANSWERS`).
`docs/permissions.md` shows the table.
People are asked elsewhere: `TurnHandle.ask_approval` (`session/turn_handle`), and for programs of extensions in a
dialog. Which of their answers count is in `answers`.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Final, Literal

import attrs

from session_core.permissions.rules import PermissionRule, RuleDecision
from session_core.permissions.rules import decide as decide_by_rules
from session_core.vocabulary.messages import RefusedBy
from session_core.vocabulary.sessions import ExtraRight, PermissionMode
from session_core.vocabulary.strictness import MODE_ANSWERS, ModeAnswer
from session_core.vocabulary.tools import Effect

CallerKind = Literal["model", "person", "extension", "protocol"]
"""Who makes a call; code that a model has written counts as the model."""

_EFFECT_WORDS: Final[dict[Effect, str]] = {
    "write": "changes files",
    "execute": "runs a program",
    "network": "uses the network",
    "read": "reads",
}
RIGHT_WORDS: Final[dict[ExtraRight, str]] = {
    "unconfined": "run without a sandbox",
    "network": "use the network",
    "protected": "change protected files",
    "sockets": "use unix sockets",
}


@attrs.frozen(kw_only=True)
class PermissionCall:
    """Which call it is, and who makes it.

    Attributes:
        tool: The tool's name.
        caller: Who makes it.
        grant: What a grant for the whole session covers.
        fingerprint: Identifies exactly this call.
        earlier_fingerprints: Those it had when its tool had other names; standing grants may hold them.
    """

    tool: str
    grant: str
    fingerprint: str
    caller: CallerKind = "model"
    earlier_fingerprints: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class CallFacts:
    """What a call would do, as far as permission depends on it.

    Attributes:
        effects: What it can do.
        paths: The files it touches.
        command: The command it would run, if any.
        rights: What it wants beyond the session's sandbox.
        always_ask: Why a person must be asked in any case, in the tool's words.
    """

    effects: frozenset[Effect]
    paths: tuple[str, ...] = ()
    command: str | None = None
    rights: frozenset[ExtraRight] = frozenset()
    always_ask: str | None = None

    @property
    def must_ask(self) -> str | None:
        """Why a person must be asked in every mode; None if that depends on the mode."""
        if self.always_ask is not None or not self.rights:
            return self.always_ask
        return f"it wants to {' and '.join(words for right, words in RIGHT_WORDS.items() if right in self.rights)}"


@attrs.frozen(kw_only=True)
class Grants:
    """What people have agreed to before: what is allowed in this session, and the fingerprints of standing grants."""

    session: Collection[str] = ()
    standing: Collection[str] = ()


@attrs.frozen(kw_only=True)
class PermissionVerdict:
    """What to do with a call, and why; `by` says what denies it."""

    decision: RuleDecision
    reason: str = ""
    by: RefusedBy = "mode"


@attrs.frozen(kw_only=True)
class _Case:
    """Everything that a decider may look at."""

    call: PermissionCall
    facts: CallFacts
    by_rule: RuleDecision | None
    grants: Grants
    mode: PermissionMode


_Judge = Callable[[_Case], PermissionVerdict | None]


@attrs.frozen
class Decider:
    """A row of the table: when it applies, an example for people, and its opinion, if it has one."""

    when: str
    example: str
    judge: _Judge


ALLOWED: Final = PermissionVerdict(decision="allow")


def _deny_by_rule(case: _Case) -> PermissionVerdict | None:
    if case.by_rule != "deny":
        return None
    return PermissionVerdict(decision="deny", reason="a rule in the configuration forbids it", by="rule")


def _deny_changes(case: _Case) -> PermissionVerdict | None:
    if is_ever_allowed(case.mode, case.facts.effects):
        return None
    reason = f"this session is read-only, and the call {_describe_effects(case.facts)}"
    return PermissionVerdict(decision="deny", reason=reason, by="mode")


def _ask_without_sandbox(case: _Case) -> PermissionVerdict | None:
    return _ask(case.facts.must_ask or "") if "unconfined" in case.facts.rights else None


def _allow_standing(case: _Case) -> PermissionVerdict | None:
    fingerprints = (case.call.fingerprint, *case.call.earlier_fingerprints)
    return ALLOWED if any(each in case.grants.standing for each in fingerprints) else None


def _ask_always(case: _Case) -> PermissionVerdict | None:
    return None if case.facts.must_ask is None else _ask(case.facts.must_ask)


def _allow_person(case: _Case) -> PermissionVerdict | None:
    return ALLOWED if case.call.caller == "person" else None


def _ask_by_rule(case: _Case) -> PermissionVerdict | None:
    return _ask("a rule in the configuration requires approval") if case.by_rule == "ask" else None


def _allow_by_rule_or_grant(case: _Case) -> PermissionVerdict | None:
    return ALLOWED if case.by_rule == "allow" or case.call.grant in case.grants.session else None


def _allow_protocol(case: _Case) -> PermissionVerdict | None:
    return ALLOWED if case.call.caller == "protocol" else None


def _judge_by_mode(case: _Case) -> PermissionVerdict:
    return _ask(f"it {_describe_effects(case.facts)}") if "ask" in _answers(case.mode, case.facts.effects) else ALLOWED


DECIDERS: Final = (
    Decider("a rule that **denies**", "`rm *` is denied, and the call is `cd x && rm -r y`", _deny_by_rule),
    Decider("the permission mode `read_only` **refuses** every change", "the model calls `write`", _deny_changes),
    Decider(
        "a call that would run **without a sandbox** is asked about, whatever was allowed before",
        "a command on a machine without bubblewrap",
        _ask_without_sandbox,
    ),
    Decider("a standing grant for exactly this call **allows** it", "answered with `allow_always`", _allow_standing),
    Decider(
        "what always needs approval is **asked** about: the network, sockets, protected files",
        "`git commit`, which changes `.git`",
        _ask_always,
    ),
    Decider("a command that you type yourself **runs**", "`!make`", _allow_person),
    Decider("a rule that **asks**", "`git push *` is to be asked about", _ask_by_rule),
    Decider(
        "a rule that **allows**, or a grant for the session, lets it run",
        "`pytest *` is allowed; answered with `allow_session`",
        _allow_by_rule_or_grant,
    ),
    Decider("a program of the session's protocol **runs**", "a protocol starts a linter", _allow_protocol),
    Decider("the permission mode, by the table above", "`ask_writes` asks before `write`", _judge_by_mode),
)
"""Who decides, in this order; the first with an opinion."""


def decide(
    call: PermissionCall, facts: CallFacts, rules: Iterable[PermissionRule], grants: Grants, mode: PermissionMode
) -> PermissionVerdict:
    """Decide about one call.

    Args:
        call: Which call it is, and who makes it.
        facts: What it would do.
        rules: The rules of the configuration, in any order.
        grants: What was agreed to before.
        mode: The session's permission mode.
    """
    by_rule = decide_by_rules(rules, tool=call.tool, paths=facts.paths, command=facts.command)
    case = _Case(call=call, facts=facts, by_rule=by_rule, grants=grants, mode=mode)
    for decider in DECIDERS:
        verdict = decider.judge(case)
        if verdict is not None:
            return verdict
    raise AssertionError


def is_ever_allowed(mode: PermissionMode, effects: Collection[Effect]) -> bool:
    """Return whether a call with these effects could run at all in this mode; a model is not offered other tools."""
    return "deny" not in _answers(mode, effects)


def may_read_unasked(mode: PermissionMode, rules: Sequence[PermissionRule]) -> bool:
    """Return whether code may open files directly: reading needs no approval, and no rule is about single files."""
    return MODE_ANSWERS[mode]["read"] == "allow" and not any(
        rule.path is not None and rule.decision != "allow" for rule in rules
    )


def _answers(mode: PermissionMode, effects: Collection[Effect]) -> set[ModeAnswer]:
    return {MODE_ANSWERS[mode][effect] for effect in effects}


def _ask(reason: str) -> PermissionVerdict:
    return PermissionVerdict(decision="ask", reason=reason)


def _describe_effects(facts: CallFacts) -> str:
    return " and ".join(words for effect, words in _EFFECT_WORDS.items() if effect in facts.effects)
