"""Which calls run, which are asked for, which are refused: the table, and what comes before it."""

from itertools import combinations
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core.permissions.call_facts import compute_fingerprint
from session_core.permissions.decision import (
    DECIDERS,
    CallerKind,
    CallFacts,
    Grants,
    PermissionCall,
    PermissionVerdict,
    decide,
    is_ever_allowed,
)
from session_core.permissions.rules import PermissionRule
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.sessions import ExtraRight, PermissionMode
from session_core.vocabulary.tools import Effect
from tests.strategies import values_of

EFFECTS: tuple[Effect, ...] = ("read", "write", "execute", "network")
MODES: tuple[PermissionMode, ...] = ("read_only", "ask_all", "ask_writes", "auto_edit", "full")
CALL = PermissionCall(tool="t", grant="g", fingerprint="f")
FACTS = CallFacts(effects=frozenset({"write"}), paths=("a/b.py",), command="rm x")
NONE = Grants()
DENY, ASK, ALLOW = (PermissionRule(decision=decision, tool="t") for decision in ("deny", "ask", "allow"))

TABLE: dict[tuple[PermissionMode, Effect], str] = {
    ("read_only", "read"): "allow",
    ("read_only", "write"): "deny",
    ("read_only", "execute"): "deny",
    ("read_only", "network"): "deny",
    ("ask_all", "read"): "ask",
    ("ask_all", "write"): "ask",
    ("ask_all", "execute"): "ask",
    ("ask_all", "network"): "ask",
    ("ask_writes", "read"): "allow",
    ("ask_writes", "write"): "ask",
    ("ask_writes", "execute"): "ask",
    ("ask_writes", "network"): "ask",
    ("auto_edit", "read"): "allow",
    ("auto_edit", "write"): "allow",
    ("auto_edit", "execute"): "ask",
    ("auto_edit", "network"): "ask",
    ("full", "read"): "allow",
    ("full", "write"): "allow",
    ("full", "execute"): "allow",
    ("full", "network"): "allow",
}
STRICTNESS = {"allow": 0, "ask": 1, "deny": 2}


def strictness(verdict: PermissionVerdict) -> int:
    """How much a verdict holds back."""
    return STRICTNESS[verdict.decision]


@pytest.mark.parametrize("mode", MODES)
def test_the_table(mode: PermissionMode) -> None:
    """A call is treated by the strictest of its effects, in each mode; without any effect it runs unasked."""
    for count in range(len(EFFECTS) + 1):
        for effects in combinations(EFFECTS, count):
            strictest = max((TABLE[mode, effect] for effect in effects), key=STRICTNESS.__getitem__, default="allow")
            assert strictest == decide(CALL, attrs.evolve(FACTS, effects=frozenset(effects)), (), NONE, mode).decision


def test_reasons_are_in_words() -> None:
    """Whoever is asked or refused is told which effect it is about."""
    assert PermissionVerdict(decision="ask", reason="it changes files") == decide(CALL, FACTS, (), NONE, "ask_writes")
    both = attrs.evolve(FACTS, effects=frozenset({"execute", "network"}))
    assert "it runs a program and uses the network" == decide(CALL, both, (), NONE, "auto_edit").reason
    assert "this session is read-only, and the call changes files" == decide(CALL, FACTS, (), NONE, "read_only").reason


@pytest.mark.parametrize(
    ("mode", "rules", "given_before", "always_ask", "expected"),
    [
        ("full", (DENY, ALLOW), {"grants": ["g"], "standing": ["f"]}, None, "deny"),
        ("read_only", (ALLOW,), {"grants": ["g"], "standing": ["f"]}, None, "deny"),
        ("ask_all", (ASK,), {"standing": ["f"]}, "a protected file", "allow"),
        ("full", (ALLOW,), {"grants": ["g"]}, "a protected file", "ask"),
        ("full", (ASK, ALLOW), {"grants": ["g"]}, None, "ask"),
        ("ask_all", (ALLOW,), {}, None, "allow"),
        ("ask_all", (), {"grants": ["g"]}, None, "allow"),
        ("ask_all", (), {"grants": ["t", "f"], "standing": ["g"]}, None, "ask"),
        ("full", (), {}, None, "allow"),
    ],
)
def test_what_comes_before_what(
    mode: PermissionMode,
    rules: tuple[PermissionRule, ...],
    given_before: dict[str, Any],
    always_ask: str | None,
    expected: str,
) -> None:
    """A no comes first, then a standing yes for this very call, then what must be asked, then yeses, then the mode."""
    facts = attrs.evolve(FACTS, always_ask=always_ask)
    given = Grants(session=given_before.get("grants", ()), standing=given_before.get("standing", ()))
    assert expected == decide(CALL, facts, rules, given, mode).decision


def test_what_must_be_asked_says_why() -> None:
    """The reason that a tool gives is what people read; without one, the rights that it wants are named."""
    assert "because" == decide(CALL, attrs.evolve(FACTS, always_ask="because"), (), NONE, "full").reason
    wants = attrs.evolve(FACTS, rights=frozenset({"network", "sockets"}))
    assert "it wants to use the network and use unix sockets" == decide(CALL, wants, (), NONE, "full").reason


@pytest.mark.parametrize(
    ("caller", "rules", "rights", "expected"),
    [
        ("person", (ASK,), (), "allow"),
        ("person", (), ("network",), "ask"),
        ("person", (DENY,), (), "deny"),
        ("protocol", (), (), "allow"),
        ("protocol", (ASK,), (), "ask"),
        ("protocol", (DENY,), (), "deny"),
        ("protocol", (), ("unconfined",), "ask"),
        ("extension", (), (), "ask"),
        ("extension", (ALLOW,), (), "allow"),
        ("model", (ALLOW,), ("protected",), "ask"),
    ],
)
def test_who_calls(
    caller: CallerKind, rules: tuple[PermissionRule, ...], rights: tuple[ExtraRight, ...], expected: str
) -> None:
    """What a person types needs no further yes, a protocol's program none of the mode's; nobody gets more than that."""
    call, facts = attrs.evolve(CALL, caller=caller), attrs.evolve(FACTS, rights=frozenset(rights))
    assert expected == decide(call, facts, rules, NONE, "ask_writes").decision


def test_the_table_of_deciders_is_for_people() -> None:
    """Each decider says when it applies, with an example, and the last one always has an opinion."""
    assert all(each.when and each.example for each in DECIDERS)
    assert len(DECIDERS) == len({each.when for each in DECIDERS})


CALLS = st.builds(
    PermissionCall,
    tool=st.sampled_from(["t", "u"]),
    grant=st.sampled_from(["g", "t"]),
    fingerprint=st.sampled_from(["f", "e"]),
    caller=values_of(CallerKind),
)
FACTS_OF_CALLS = st.builds(
    CallFacts,
    effects=st.frozensets(st.sampled_from(EFFECTS)),
    paths=st.sampled_from([(), ("a/b.py",), ("x",), ("../x", "a/b.py")]),
    command=st.sampled_from([None, "rm x", "cd a && rm x", "ls"]),
    rights=st.frozensets(values_of(ExtraRight)),
    always_ask=st.none() | st.just("because"),
)
RULES = st.builds(
    PermissionRule,
    decision=st.sampled_from(["allow", "ask", "deny"]),
    tool=st.sampled_from([None, "t", "*", "v"]),
    path=st.sampled_from([None, "a/**", "*.py", "x"]),
    command=st.sampled_from([None, "rm *", "ls"]),
)
GIVEN = st.lists(st.sampled_from(["g", "t", "f", "e"]), max_size=2)
GRANTS = st.builds(Grants, session=GIVEN, standing=GIVEN)
SITUATIONS = st.tuples(CALLS, FACTS_OF_CALLS, st.lists(RULES, max_size=3), GRANTS, values_of(PermissionMode))
Situation = tuple[PermissionCall, CallFacts, list[PermissionRule], Grants, PermissionMode]


@given(SITUATIONS, RULES)
def test_a_rule_that_denies_or_asks_never_allows_more(situation: Situation, added: PermissionRule) -> None:
    """One more rule that denies or asks holds back as much as before, or more; one that allows, no more than before."""
    call, facts, rules, grants, mode = situation
    before = decide(*situation)
    after = decide(call, facts, [*rules, added], grants, mode)
    if added.decision == "allow":
        assert strictness(after) <= strictness(before)
    else:
        assert strictness(after) >= strictness(before)


@given(SITUATIONS, values_of(ExtraRight))
def test_one_more_right_never_allows_more(situation: Situation, added: ExtraRight) -> None:
    """Whoever wants one right more is held back as much as before, or more."""
    call, facts, rules, grants, mode = situation
    wider = attrs.evolve(facts, rights=facts.rights | {added})
    assert strictness(decide(call, wider, rules, grants, mode)) >= strictness(decide(*situation))


@given(SITUATIONS, values_of(PermissionMode))
def test_a_stricter_mode_never_allows_more(situation: Situation, other: PermissionMode) -> None:
    """A mode that is at least as strict about each effect of a call holds back as much, or more."""
    call, facts, rules, grants, mode = situation
    if all(STRICTNESS[TABLE[other, each]] >= STRICTNESS[TABLE[mode, each]] for each in facts.effects):
        assert strictness(decide(call, facts, rules, grants, other)) >= strictness(decide(*situation))


@given(SITUATIONS)
def test_one_more_grant_never_holds_back_more(situation: Situation) -> None:
    """What people have agreed to before lets through as much as without it, or more."""
    call, facts, rules, _, mode = situation
    assert strictness(decide(*situation)) <= strictness(decide(call, facts, rules, NONE, mode))


@given(SITUATIONS)
def test_nothing_runs_unconfined_without_a_question(situation: Situation) -> None:
    """A call without a sandbox is asked about or refused, whatever was said before, whoever makes it, in any mode."""
    call, facts, rules, grants, mode = situation
    unconfined = attrs.evolve(facts, rights=facts.rights | {"unconfined"})
    assert "allow" != decide(call, unconfined, rules, grants, mode).decision


@given(SITUATIONS, values_of(ExtraRight))
def test_nothing_reaches_beyond_the_sandbox_unasked(situation: Situation, right: ExtraRight) -> None:
    """A call that wants more than its sandbox gives asks in any mode, unless this very call is allowed for good."""
    call, facts, rules, grants, mode = situation
    wider = attrs.evolve(facts, rights=facts.rights | {right})
    assert "allow" != decide(call, wider, rules, attrs.evolve(grants, standing=()), mode).decision


@given(SITUATIONS)
def test_read_only_changes_nothing(situation: Situation) -> None:
    """In a read-only session, nothing that changes anything is allowed or even asked for, whatever else was said."""
    call, facts, rules, grants, _ = situation
    verdict = decide(call, facts, rules, grants, "read_only")
    assert "deny" == verdict.decision or facts.effects <= {"read"}
    assert is_ever_allowed("read_only", facts.effects) == (facts.effects <= {"read"})


@given(SITUATIONS)
def test_a_verdict_has_a_reason(situation: Situation) -> None:
    """Whatever is asked or refused says why, and what runs needs no reason."""
    verdict = decide(*situation)
    assert ("allow" == verdict.decision) == (not verdict.reason)


def test_fingerprints() -> None:
    """A fingerprint changes with the tool, each argument, the folder and what was shown, and with nothing else."""
    given_call = ("t", JsonObject({"a": 1, "b": 2}), "/x", "shown")
    others = [
        ("u", JsonObject({"a": 1, "b": 2}), "/x", "shown"),
        ("t", JsonObject({"a": 1, "b": 3}), "/x", "shown"),
        ("t", JsonObject({"a": 1, "b": True}), "/x", "shown"),
        ("t", JsonObject({"a": 1}), "/x", "shown"),
        ("t", JsonObject({"a": 1, "b": 2}), "/y", "shown"),
        ("t", JsonObject({"a": 1, "b": 2}), "/x", "other"),
        ("t", JsonObject({"a": 1, "b": 2}), "/xs", "hown"),
    ]
    assert compute_fingerprint(*given_call) == compute_fingerprint(*given_call)
    assert len({compute_fingerprint(*each) for each in [given_call, *others]}) == 1 + len(others)
