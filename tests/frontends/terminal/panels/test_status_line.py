"""The last line of the screen."""

import attrs
from hypothesis import given
from hypothesis import strategies as st

import session_core as sc
from frontends.client import ConnectionState
from frontends.terminal.feeds import Lag
from frontends.terminal.look.text_width import width_of
from frontends.terminal.options import NewSession
from frontends.terminal.panels.status_line import (
    StatusItem,
    connection_items,
    fit_items,
    other_items,
    session_items,
    setting_items,
)
from tests.frontends.terminal.panels.test_session_order import summary

SESSION = sc.SessionId("ses_1")


def texts(items: list[StatusItem]) -> list[str]:
    """What they say."""
    return [item.text for item in items]


def test_a_connection_is_told_by_word() -> None:
    """Every state of the connection reads differently, without colours too."""
    lost = ConnectionState(phase="lost", reason="x", attempt=3)
    assert texts(connection_items(None, None)) == ["◐ connecting"]
    assert texts(connection_items(ConnectionState(phase="connected"), None)) == ["◆"]
    assert texts(connection_items(lost, None)) == ["✗ connection lost, attempt 3"]
    assert texts(connection_items(ConnectionState(phase="ended"), None)) == ["✗ the service has ended"]
    assert texts(connection_items(lost, "it cannot start")) == ["✗ no service"]


def test_what_the_session_does() -> None:
    """The activity is told with the time the turn has taken, what waits, and what extensions say."""
    item = sc.QueueItem(item_id=sc.QueueItemId("q"), parts=(), deliver_as="follow_up", queued_at=0)
    state = sc.SessionState(
        session_id=SESSION,
        activity=sc.Activity(name="running_tools"),
        turn=sc.RunningTurn(turn_id=sc.TurnId("t"), started_at=1_000),
        queue=(item, item),
        displays=(sc.extensions.ExtensionDisplay(extension="x", status="3\nleft"),),
    )
    assert texts(session_items(state, 66_000)) == ["▶ running tools 1 min 5 s", "2 queued", "3 left"]
    assert texts(session_items(None, 0)) == ["new session"]


def test_nothing_goes_on_that_nobody_sees() -> None:
    """Without a connection the line claims no work and counts no time: it says what was seen last."""
    turn = sc.RunningTurn(turn_id=sc.TurnId("t"), started_at=1_000)
    busy = sc.SessionState(session_id=SESSION, activity=sc.Activity(name="running_tools"), turn=turn)
    rests = sc.SessionState(session_id=SESSION, activity=sc.Activity(name="stopped"))
    assert texts(session_items(busy, 66_000, connected=False)) == ["last seen running tools"]
    assert texts(session_items(rests, 66_000, connected=False)) == texts(session_items(rests, 66_000))


def test_settings_of_a_session_and_of_one_to_come() -> None:
    """The model and the permissions are told, also of a session that its first message will make."""
    settings = sc.Settings(model="big", cwd="/", permission_mode="full", thinking="high")
    usage = sc.Usage(input_tokens=10, cost_micros=1_230_000, estimated=True)
    state = sc.SessionState(session_id=SESSION, settings=settings, usage=usage)
    assert texts(setting_items(state, None)) == ["big thinks high", "rarely asks", "~$1.23"]
    assert texts(setting_items(None, NewSession(cwd="/", model="small", mode="read_only"))) == ["small", "reads only"]
    assert texts(setting_items(None, NewSession(cwd="/", sandbox="full_access"))) == ["no sandbox"]
    unconfined = attrs.evolve(settings, sandbox=sc.SandboxPolicy(mode="full_access"))
    assert "no sandbox" in texts(setting_items(sc.SessionState(session_id=SESSION, settings=unconfined), None))


def test_what_goes_on_elsewhere() -> None:
    """Other sessions that ask come apart from those at work; helpers and the viewed session are not counted."""
    session_list = sc.SessionListState()
    ask, work = sc.Activity(name="awaiting_permission"), sc.Activity(name="streaming")
    sessions = [
        attrs.evolve(summary("ses_1"), activity=ask),
        attrs.evolve(summary("two"), activity=ask),
        attrs.evolve(summary("three"), activity=work),
        attrs.evolve(summary("four", parent="three"), activity=work),
    ]
    session_list.sessions = {each.session_id: each for each in sessions}
    state = sc.SessionState(session_id=SESSION)
    told = texts(other_items(state, session_list, None, following=True))
    assert told == ["? 1 other asks you", "1 other at work"]
    assert texts(other_items(state, None, None, following=False)) == ["↓ more below"]


def test_a_picture_that_was_behind_says_so() -> None:
    """How many events were skipped is told, that some were if nobody knows how many, and that the service waits."""
    told = [Lag(noticed_at=0, missed=7_000), Lag(noticed_at=0, missed=None), Lag(noticed_at=0, waited=True)]
    said = [texts(other_items(None, None, each, following=True)) for each in told]
    assert said == [["resynced after 7,000 missed"], ["resynced"], ["behind, catching up"]]


@given(
    st.lists(st.tuples(st.text("ab c", max_size=30), st.integers(0, 9)), min_size=1, max_size=12), st.integers(1, 120)
)
def test_the_least_important_goes_first(parts: list[tuple[str, int]], width: int) -> None:
    """What is left fits or is one item alone, and nothing that was left out ranks before what was kept."""
    items = [StatusItem(text=text, rank=rank) for text, rank in parts]
    kept = fit_items(items, width)
    assert len(kept) == 1 or sum(width_of(each.text) for each in kept) + 2 * (len(kept) - 1) <= width
    lost = list(items)
    for each in kept:
        lost.remove(each)
    assert max((each.rank for each in kept), default=0) <= min((each.rank for each in lost), default=9)
