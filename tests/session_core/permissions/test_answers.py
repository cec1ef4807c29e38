"""Which answers count: the table, and what it promises."""

from itertools import combinations
from typing import get_args

import pytest

from session_core.permissions.answers import ANSWERS, AnswerRole, explain_refused_decision, possible_decisions
from session_core.vocabulary.sessions import Decision, ExtraRight

DECISIONS: tuple[Decision, ...] = get_args(Decision)
RIGHTS: tuple[ExtraRight, ...] = get_args(ExtraRight)
ROLES: tuple[AnswerRole, ...] = get_args(AnswerRole)
SETS = [each for count in range(len(RIGHTS) + 1) for each in combinations(RIGHTS, count)]


def test_every_right_has_a_row() -> None:
    """A new right is in the table before anybody can be asked for it."""
    assert {None, *RIGHTS} == set(ANSWERS)
    assert all(set(ROLES) == set(row) for row in ANSWERS.values())


@pytest.mark.parametrize("role", ROLES)
def test_a_no_always_counts(role: AnswerRole) -> None:
    """Whoever is asked may say no, whatever it is about."""
    assert all("deny" in possible_decisions(rights, role) for rights in SETS)


@pytest.mark.parametrize("rights", SETS)
def test_one_more_right_leaves_no_more_answers(rights: tuple[ExtraRight, ...]) -> None:
    """More is never easier to get: each right takes answers away, a guest has no more than the owner, in any order."""
    for role in ROLES:
        for added in RIGHTS:
            wider: tuple[ExtraRight, ...] = (*rights, added)
            assert set(possible_decisions(wider, role)) <= set(possible_decisions(rights, role))
        assert possible_decisions(rights, role) == possible_decisions(rights[::-1], role)
    assert set(possible_decisions(rights, "guest")) <= set(possible_decisions(rights, "owner"))


@pytest.mark.parametrize("rights", [each for each in SETS if each])
def test_nothing_of_a_guest_lasts_beyond_a_call(rights: tuple[ExtraRight, ...]) -> None:
    """A guest allows nothing but the network beyond the sandbox, and that for one call only."""
    expected = ("allow_once", "deny") if rights == ("network",) else ("deny",)
    assert expected == possible_decisions(rights, "guest")


@pytest.mark.parametrize("rights", SETS)
def test_without_a_sandbox_once_only(rights: tuple[ExtraRight, ...]) -> None:
    """Not even the owner can allow calls without a sandbox for longer than one call; other calls, for as long."""
    expected = ("allow_once", "deny") if "unconfined" in rights else DECISIONS
    assert set(expected) == set(possible_decisions(rights))


def test_a_guest_allows_nothing_for_good() -> None:
    """What a guest allows ends with its session, even where a call wants nothing beyond the sandbox."""
    assert ("allow_once", "allow_session", "deny") == possible_decisions((), "guest")


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("rights", SETS)
def test_a_refused_answer_is_explained(role: AnswerRole, rights: tuple[ExtraRight, ...]) -> None:
    """An answer is refused exactly if the table leaves it out, with one sentence of why."""
    for decision in DECISIONS:
        refused = explain_refused_decision(decision, rights, role)
        assert (refused is None) == (decision in possible_decisions(rights, role))
        assert refused is None or len(refused) > 40
