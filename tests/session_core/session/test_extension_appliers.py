"""What extensions show and keep, as part of a session's state."""

from session_core import limits
from session_core.ids import CallId, Cursor, Epoch, SessionId
from session_core.session.session_list import SessionListState
from session_core.session.state import SessionState
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import Event, SessionEvent
from session_core.vocabulary.extensions import ExtensionDisplay, ExtensionEntry, ExtensionInfo
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ToolProgress, ToolResultPart

WIDGET = JsonObject({"kind": "widget", "widget_id": "w"})
CALL = CallId("call_1")


def after(*events: Event) -> SessionState:
    state = SessionState(session_id=SessionId("s"))
    for number, event in enumerate(events, start=1):
        state.apply(SessionEvent(number, number, state.session_id, number, event))
    return state


def shows(extension: str, **what: object) -> ev.ExtensionDisplayed:
    return ev.ExtensionDisplayed(extension=extension, **what)  # type: ignore[arg-type]


def test_a_display_changes_in_its_parts() -> None:
    """Each extension has one display; what an event leaves out stays, and its place among the others too."""
    state = after(
        shows("git", status="main", widget=WIDGET),
        shows("todo", status="3 open"),
        shows("git", status="topic", title="x"),
    )

    git = ExtensionDisplay(extension="git", status="topic", widget=WIDGET, title="x")
    assert (git, ExtensionDisplay(extension="todo", status="3 open")) == state.displays


def test_a_display_goes() -> None:
    """An empty text or object takes one part away, leaving everything out takes all of it, and others stay."""
    both = (shows("git", status="main", widget=WIDGET), shows("todo", title="t"))
    todo = ExtensionDisplay(extension="todo", title="t")

    assert (ExtensionDisplay(extension="git", widget=WIDGET), todo) == after(*both, shows("git", status="")).displays
    assert (todo,) == after(*both, shows("git", status="", widget=JsonObject())).displays
    assert (todo,) == after(*both, shows("git")).displays
    assert () == after(shows("git")).displays


def test_displays_are_bounded() -> None:
    """One display too many changes nothing, and those that are there can still change."""
    many = [shows(f"e{number}", status="s") for number in range(limits.MAX_DISPLAYS + 1)]

    state = after(*many, shows("e0", status="new"))

    assert limits.MAX_DISPLAYS == len(state.displays)
    assert "new" == state.displays[0].status


def test_the_newest_entries_are_kept() -> None:
    """The state holds the newest entries in order, and no more than the limit."""
    entries = [
        ExtensionEntry(extension="git", entry=JsonObject({"n": number}), at=number)
        for number in range(limits.MAX_ENTRIES + 3)
    ]

    state = after(*(ev.EntryAppended(entry=entry) for entry in entries))

    assert tuple(entries[3:]) == state.entries


def test_progress_of_a_tool() -> None:
    """How far a tool is shows while it runs; what is left out stays, and its result ends it."""
    started = ev.ToolCallStarted(call_id=CALL, name="t", arguments=JsonObject())
    first = ev.ToolProgressed(call_id=CALL, message="half", progress=0.5, details=("a",))
    second = ev.ToolProgressed(call_id=CALL, progress=0.75)
    result = ToolResultPart(call_id=CALL, name="t", status="success", text="")
    finished = ev.ToolCallFinished(result=result)

    (live,) = after(started, first, second, ev.ToolProgressed(call_id=CallId("other"), progress=1.0)).tools
    (ended,) = after(started, first, finished, second).tools

    assert ToolProgress(message="half", progress=0.75, details=("a",)) == live.progress
    assert (None, result) == (ended.progress, ended.result)
    assert 1 == after(started, first).updated_at, "passing events are no change that is kept"


def test_extensions_in_the_list() -> None:
    """Whoever follows the list of sessions knows the extensions as they are now, in the order in which they came."""
    session_list = SessionListState()
    git, todo = (ExtensionInfo(name=name, version="1", scope="user", state="starting") for name in ("git", "todo"))
    ready = ExtensionInfo(name="git", version="2", scope="user", state="ready")
    events: list[Event] = [ev.ExtensionChanged(extension=each) for each in (git, todo, ready)]
    for event in (*events, ev.ExtensionRemoved(name="nobody")):
        session_list.apply(SessionEvent(1, 0, None, 1, event))
    cursor = Cursor(epoch=Epoch("e"), seq=1)

    assert (ready, todo) == session_list.snapshot(cursor).extensions
    again = SessionListState.from_snapshot(session_list.snapshot(cursor))
    again.apply(SessionEvent(2, 0, None, 2, ev.ExtensionRemoved(name="git")))
    assert (todo,) == again.snapshot(cursor).extensions
