"""Tokens of dispatches: who may act in which session, and for how long."""

import pytest

from session_core.ids import TurnId
from session_core.rpc.failures import RpcFailed
from session_core.sep.host.calls.contexts import Contexts
from session_core.tools.base import current_turn_id
from tests.session_core.sep._inbound import OTHER_SESSION, SESSION


def test_a_dispatch_may_act_until_it_is_over() -> None:
    """A token stands for its session while the dispatch is open, and for nothing afterwards."""
    contexts = Contexts()
    with contexts.dispatch("ext", 1, SESSION) as context:
        assert context == contexts.require_dispatch("ext", 1, context.wire)
        assert SESSION == context.session_id
    with pytest.raises(RpcFailed, match="stale or unknown context"):
        contexts.require_dispatch("ext", 1, context.wire)


@pytest.mark.parametrize(("extension", "generation"), [("other", 1), ("ext", 2)])
def test_a_token_is_good_for_the_process_that_got_it_only(extension: str, generation: int) -> None:
    """A token that another extension or another process of the same one shows is unknown."""
    contexts = Contexts()
    with contexts.dispatch("ext", 1, SESSION) as context, pytest.raises(RpcFailed, match="stale or unknown"):
        contexts.require_dispatch(extension, generation, context.wire)


def test_an_event_is_known_but_never_acts() -> None:
    """The token of an event names its session, and claiming another tier for it changes nothing."""
    contexts = Contexts()
    context = contexts.for_event("ext", 1, SESSION)
    assert context == contexts.find("ext", 1, context.wire)
    with pytest.raises(RpcFailed, match="command-tier"):
        contexts.require_dispatch("ext", 1, {"token": context.token, "tier": "command"})


def test_old_events_are_forgotten() -> None:
    """Tokens of events have no end of their own, so only the newest are kept."""
    contexts = Contexts()
    first = contexts.for_event("ext", 1, SESSION)
    later = [contexts.for_event("ext", 1, SESSION) for _ in range(1_024)]
    assert contexts.find("ext", 1, first.wire) is None
    assert later[0] == contexts.find("ext", 1, later[0].wire)


def test_the_tokens_of_a_process_go_with_it() -> None:
    """When a process is gone its tokens are, and those of the next one stay."""
    contexts = Contexts()
    old = contexts.for_event("ext", 1, SESSION)
    with contexts.dispatch("ext", 1, SESSION) as open_one, contexts.dispatch("ext", 2, SESSION) as new:
        contexts.forget_before("ext", 2)
        assert [None, None, new] == [contexts.find("ext", g, c.wire) for g, c in ((1, old), (1, open_one), (2, new))]


def test_what_a_process_is_busy_with() -> None:
    """Open dispatches tell which sessions a process may speak of, the newest first; without any, its newest event."""
    contexts = Contexts()
    assert () == contexts.sessions_of("ext", 1)
    contexts.for_event("ext", 1, OTHER_SESSION)
    contexts.for_event("ext", 1, SESSION)
    contexts.for_event("other", 1, OTHER_SESSION)
    assert (SESSION,) == contexts.sessions_of("ext", 1)
    with contexts.dispatch("ext", 1, OTHER_SESSION):
        assert (OTHER_SESSION,) == contexts.sessions_of("ext", 1)
        with contexts.dispatch("ext", 1, SESSION), contexts.dispatch("ext", 1, None):
            assert (SESSION, OTHER_SESSION) == contexts.sessions_of("ext", 1)
    assert () == contexts.sessions_of("ext", 2)


def test_no_two_tokens_are_alike() -> None:
    """However many dispatches and events there are, of however many hosts, each has a token of its own."""
    tokens = []
    for contexts in (Contexts(), Contexts()):
        for _ in range(200):
            tokens.append(contexts.for_event("ext", 1, SESSION).token)
            with contexts.dispatch("ext", 1, SESSION) as context:
                tokens.append(context.token)
    assert len(set(tokens)) == len(tokens)
    assert {24} == {len(token) for token in tokens}
    assert all(len({token[place] for token in tokens}) > 40 for place in range(24))  # chance everywhere


def test_actions_are_not_remembered_past_their_dispatch() -> None:
    """An action is remembered within its dispatch only; one that ends later than that leaves nothing behind."""
    contexts = Contexts()
    with contexts.dispatch("ext", 1, SESSION) as context:
        contexts.note_done(context.token, b"a")
        assert contexts.is_done(context.token, b"a")
    contexts.note_done(context.token, b"b")
    assert not contexts.is_done(context.token, b"a")
    assert not contexts.is_done(context.token, b"b")
    assert not contexts.done_actions


def test_which_turn_waits_for_a_process() -> None:
    """A turn waits for what is dispatched in its task; a process that is busy with more than that has to name it."""
    contexts, turn_id = Contexts(), TurnId("turn_1")
    before = current_turn_id.set(turn_id)
    within = contexts.dispatch("ext", 1, SESSION)
    current_turn_id.reset(before)
    event = contexts.for_event("ext", 1, SESSION)
    with within:
        alone = [contexts.turn_of("ext", 1, SESSION, each) for each in (None, within.wire, event.wire)]
        with contexts.dispatch("ext", 1, SESSION) as beside:
            both = [contexts.turn_of("ext", 1, SESSION, each) for each in (None, within.wire, beside.wire)]
    after = contexts.turn_of("ext", 1, SESSION, None)

    assert ([turn_id, turn_id, None], [None, turn_id, None], None) == (alone, both, after)
