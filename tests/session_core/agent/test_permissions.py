"""Which calls run, which are asked for, which are refused: the table, and what comes before it."""

from itertools import combinations
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core.agent.permissions import CallFacts, PermissionVerdict, compute_fingerprint, decide
from session_core.config.rules import PermissionRule
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.sessions import PermissionMode
from session_core.vocabulary.tools import Effect
from tests.strategies import values_of

EFFECTS: tuple[Effect, ...] = ("read", "write", "execute", "network")
MODES: tuple[PermissionMode, ...] = ("read_only", "ask_all", "ask_writes", "auto_edit", "full")
CALL = CallFacts(tool="t", effects=frozenset({"write"}), grant="g", fingerprint="f", paths=("a/b.py",), command="rm x")
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
            assert strictest == decide(mode, attrs.evolve(CALL, effects=frozenset(effects))).decision


def test_reasons_are_in_words() -> None:
    """Whoever is asked or refused is told which effect it is about."""
    assert PermissionVerdict(decision="ask", reason="it changes files") == decide("ask_writes", CALL)
    both = attrs.evolve(CALL, effects=frozenset({"execute", "network"}))
    assert "it runs a program and uses the network" == decide("auto_edit", both).reason
    assert "this session is read-only, and the call changes files" == decide("read_only", CALL).reason


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
    call = attrs.evolve(CALL, always_ask=always_ask)
    assert expected == decide(mode, call, rules=rules, **given_before).decision


def test_what_must_be_asked_says_why() -> None:
    """The reason that a tool gives is what people read."""
    assert "because" == decide("full", attrs.evolve(CALL, always_ask="because")).reason


CALLS = st.builds(
    CallFacts,
    tool=st.sampled_from(["t", "u"]),
    effects=st.frozensets(st.sampled_from(EFFECTS)),
    grant=st.sampled_from(["g", "t"]),
    fingerprint=st.sampled_from(["f", "e"]),
    paths=st.sampled_from([(), ("a/b.py",), ("x",), ("../x", "a/b.py")]),
    command=st.sampled_from([None, "rm x", "cd a && rm x", "ls"]),
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


@given(values_of(PermissionMode), CALLS, st.lists(RULES, max_size=3), RULES, st.tuples(GIVEN, GIVEN))
def test_a_rule_that_denies_or_asks_never_allows_more(
    mode: PermissionMode,
    call: CallFacts,
    rules: list[PermissionRule],
    added: PermissionRule,
    yeses: tuple[list[str], list[str]],
) -> None:
    """One more rule that denies or asks holds back as much as before, or more; one that allows, no more than before."""
    grants, standing = yeses
    before = decide(mode, call, rules=rules, grants=grants, standing=standing)
    after = decide(mode, call, rules=[*rules, added], grants=grants, standing=standing)
    if added.decision == "allow":
        assert strictness(after) <= strictness(before)
    else:
        assert strictness(after) >= strictness(before)


@given(CALLS, st.lists(RULES, max_size=3), GIVEN, GIVEN)
def test_read_only_changes_nothing(
    call: CallFacts, rules: list[PermissionRule], grants: list[str], standing: list[str]
) -> None:
    """In a read-only session, nothing that changes anything is allowed or even asked for, whatever else was said."""
    verdict = decide("read_only", call, rules=rules, grants=grants, standing=standing)
    assert "deny" == verdict.decision or call.effects <= {"read"}


@given(values_of(PermissionMode), CALLS, st.lists(RULES, max_size=3), GIVEN, GIVEN)
def test_a_verdict_has_a_reason(
    mode: PermissionMode, call: CallFacts, rules: list[PermissionRule], grants: list[str], standing: list[str]
) -> None:
    """Whatever is asked or refused says why, and what runs needs no reason."""
    verdict = decide(mode, call, rules=rules, grants=grants, standing=standing)
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
