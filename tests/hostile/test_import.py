"""A session file of a stranger tells a conversation: it may not act, nor decide what the session may do here."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
import trio

import session_core as sc
from session_core import limits
from session_core.errors import InvalidInput
from session_core.ids import MessageId, SessionId, TurnId, new_session_id
from session_core.service.service import SessionService, open_session_service
from session_core.session.restore import needs_memory
from session_core.session.state import SessionState
from session_core.storage.maintenance.export_import import ImportReport, import_session
from session_core.storage.maintenance.import_rules import FIELDS, MAX_OPEN
from session_core.storage.maintenance.verify import verify_store
from session_core.storage.sqlite import SqliteStore
from session_core.testing.scripted import ScriptedProvider, ScriptedTool, text, tool_call
from session_core.vocabulary import events as ev
from session_core.vocabulary.events import SessionEvent
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.sessions import Activity, PermissionMode, SandboxPolicy, Settings, TurnLimits
from session_core.vocabulary.snapshots import SessionSnapshot
from session_core.wire.codec import encode_event
from tests.frontends._program import ROOT, program
from tests.hostile._forged_export import (
    LONG_AGO,
    WIDE,
    created,
    everything,
    forge,
    granted,
    half_an_answer,
    message,
    open_approval,
    queued,
    seal,
    wakeup,
)
from tests.session_core.service._helpers import new_session, scripted, until
from tests.session_core.storage.maintenance._exports import kept_state
from tests.session_core.storage.maintenance._stores import change

OURS = Settings(model="m", cwd="/", limits=TurnLimits(steps=50))
"""The settings of a new session in the home that imports."""
GROWS_AT_THE_END = {"sseq", "updated_at", "messages", "head", "last_outcome"}
"""What changes when work is ended."""


@pytest.fixture
def store(tmp_path: Path) -> SqliteStore:
    """A home that nobody has used yet."""
    return SqliteStore(tmp_path / "store")


async def imported(store: SqliteStore, lines: Sequence[bytes], settings: Settings = OURS) -> ImportReport:
    """Import a file, and check that nothing of it can act: no service needs to have the session in memory."""
    report = await import_session(lines, store, settings=settings)
    async with store.open() as opened:
        (summary,) = [each for each in opened.summaries if each.session_id == report.session_id]
    assert not needs_memory(summary)
    assert () == verify_store(store.home).findings
    return report


async def state_of(store: SqliteStore, report: ImportReport) -> SessionSnapshot:
    """What a service would load."""
    async with store.open():
        return await kept_state(store, report.session_id)


# --- every field ------------------------------------------------------------------------------------------------------


async def test_each_field_comes_from_where_the_table_says(store: SqliteStore) -> None:
    """Of sessions with everything, the conversation comes along; what could act is gone, and settings are ours."""
    async with open_session_service(scripted(store=store)) as service:
        parent = await new_session(service)
    proven: set[str] = set()
    for lines in (everything(parent), half_an_answer()):
        whole = SqliteStore(store.home.with_name("whole"))
        before = await state_of(whole, await import_session(lines, whole, settings=None))
        report = await imported(store, lines)
        after, nothing = await state_of(store, report), SessionState(session_id=report.session_id)
        proven |= {field for field in FIELDS if getattr(before, field) != getattr(nothing, field)}
        for field, origin in FIELDS.items():
            there, here, none = (getattr(each, field) for each in (before, after, nothing))
            if origin == "dropped":
                assert none == here, field
            elif origin == "ended":
                assert (Activity(name="interrupted") if field == "activity" else none) == here, field
            elif field not in {"settings", "protocol", *GROWS_AT_THE_END}:
                assert there == here, field
        assert before.messages[0] == after.messages[0]
        assert attrs.evolve(before.protocol, options=JsonObject()) == after.protocol
        assert OURS == after.settings
    assert set() == {field for field, origin in FIELDS.items() if origin in {"dropped", "ended"}} - proven


async def test_the_report_names_what_was_left_out(store: SqliteStore) -> None:
    """There is one line for each thing that does not hold here."""
    parent = new_session_id()
    report = await imported(store, everything(parent))

    assert (
        "permission mode full: it is ask_writes here",
        "sandbox full_access with the network, /, /etc: it is workspace_write here",
        "folder /srv/another/project: it works in / here",
        "model elsewhere/spy: it is m here",
        "thinking high: it is off here",
        "turn limits: those of this home hold",
        "options of the protocol code: those of this home hold",
        f"its place below the session {parent}",
        f"its origin, the session {parent}",
        "running work: it is marked as interrupted",
        "1 wake-up",
        "1 queued message",
        "1 open approval",
        "1 open question",
        "1 grant",
        "1 display of an extension",
        "its plan",
    ) == report.left_out


async def test_stricter_settings_of_a_file_hold(store: SqliteStore) -> None:
    """Of permission mode and sandbox the stricter one holds, and of two that cannot be compared that of the home."""
    wide = SandboxPolicy(network=True, writable_roots=("/srv/a", "/srv/b"))
    strict = SandboxPolicy(mode="read_only", writable_roots=("/srv/b", "/"))
    cases: list[tuple[PermissionMode, PermissionMode]] = [("full", "ask_all"), ("ask_all", "read_only")]
    for own, asked in cases:
        home = attrs.evolve(OURS, permission_mode=own, sandbox=wide)
        file = attrs.evolve(WIDE, permission_mode=asked, sandbox=strict)
        settings = (await state_of(store, await imported(store, forge(created(file)), home))).settings
        assert "ask_all" == settings.permission_mode
        assert SandboxPolicy(mode="read_only", writable_roots=("/srv/b",)) == settings.sandbox


@pytest.mark.parametrize("mode", ["read_only", "ask_writes", "full"])
async def test_grants_end_whatever_the_mode(store: SqliteStore, mode: PermissionMode) -> None:
    """A grant of the file does not hold here, not even where the file has the permission mode of this home."""
    home = attrs.evolve(OURS, permission_mode=mode)
    report = await imported(store, forge(created(attrs.evolve(WIDE, permission_mode=mode)), granted()), home)
    assert "1 grant" in report.left_out
    assert () == (await state_of(store, report)).grants


# --- what a file could do ---------------------------------------------------------------------------------------------


def bash() -> ScriptedTool:
    """A tool that may run programs."""
    return ScriptedTool("bash", effects=("execute",))


async def test_keeping_the_settings_is_what_it_was(store: SqliteStore) -> None:
    """The control: with all that is in the file, the wake-up fires as soon as a service starts, and a tool runs."""
    tool = bash()
    await import_session(forge(created(attrs.evolve(WIDE, model="m")), wakeup()), store, settings=None)
    async with open_session_service(
        scripted(tool_call("bash", {"command": "touch PWNED"}), text("done"), store=store, tools=(tool,))
    ):
        await until(lambda: tool.calls)


async def test_a_wakeup_does_not_fire(store: SqliteStore) -> None:
    """When a service starts, nothing happens; a turn that a person starts has no more rights than any other."""
    tool, lines = bash(), forge(created(attrs.evolve(WIDE, model="m")), granted(), wakeup())
    report = await imported(store, lines)
    config = scripted(tool_call("bash", {"command": "touch PWNED"}), text("done"), store=store, tools=(tool,))
    async with open_session_service(config) as service:
        before = await service.load_session(report.session_id)
        assert ([], ()) == (list(before.messages), before.wakeups)
        await service.send_user_message(report.session_id, "go on")
        await _until_asked(service, report.session_id)
        assert [] == tool.calls
        messages = (await service.load_session(report.session_id)).messages
        assert ["go on"] == [each.text for each in messages if each.role == "user"]


async def _until_asked(service: SessionService, session_id: SessionId) -> None:
    """Wait for a question; a turn that ends without one fails the test."""
    async with service.follow(session_id) as feed:
        async for item in feed:
            match item:
                case SessionSnapshot(approvals=(_, *_)) | SessionEvent(event=ev.ApprovalRequested()):
                    return
                case SessionEvent(event=ev.TurnEnded()):
                    break
                case _:
                    pass
    raise AssertionError("nobody was asked")


async def test_an_open_approval_cannot_be_answered(store: SqliteStore) -> None:
    """A call that waited in the file for a yes is denied; an answer to it finds nothing and runs nothing."""
    tool = bash()
    report = await imported(store, forge(created(attrs.evolve(WIDE, model="m")), *open_approval()))
    async with open_session_service(scripted(text("done"), store=store, tools=(tool,))) as service:
        with suppress(sc.SessionCoreError):
            await service.answer_approval(report.session_id, sc.RequestId("req_1"), "allow_once", fingerprint="f")
        await service.send_user_message(report.session_id, "hello")
        assert "completed" == (await service.wait_for_turn(report.session_id)).outcome.status
    assert [] == tool.calls


async def test_a_queue_is_not_delivered(store: SqliteStore) -> None:
    """A message that waited in the file is in no request to the model."""
    model = ScriptedProvider(text("one"), text("two"))
    report = await imported(store, forge(created(), queued(), queued(1)))
    async with open_session_service(scripted(model, store=store)) as service:
        await service.send_user_message(report.session_id, "hello")
        await service.wait_for_turn(report.session_id)
        snapshot = await service.load_session(report.session_id)
    assert ["hello", "one"] == [each.text for each in snapshot.messages]


async def test_a_parent_of_this_home_gets_no_child(store: SqliteStore) -> None:
    """A file that names a session of this home as its parent or origin is beside it, not beneath it."""
    async with open_session_service(scripted(store=store)) as service:
        parent = await new_session(service)
    report = await imported(store, everything(parent))
    async with store.open() as opened:
        assert {None} == {each.parent_id for each in opened.summaries}
        lines = [line async for line in sc.maintenance.export_session(store, report.session_id)]
    assert parent.encode() not in b"".join(lines)


async def test_names_of_clients_do_not_come_along(store: SqliteStore) -> None:
    """No event of a file says that the owner of this home did it."""
    report = await imported(store, forge(created(), ev.SessionRenamed(name="x"), *open_approval()))
    async with store.open():
        found = [event async for events in store.journal(report.session_id) for event in events]
    assert {None} == {each.by for each in found}


async def test_nothing_brings_the_settings_back(store: SqliteStore) -> None:
    """After a branch switch, a fork from the beginning, an undo, and a rebuild of the store, the settings are ours."""
    lines = forge(
        created(attrs.evolve(WIDE, model="m")),
        ev.MessageAdded(message=message("msg_1")),
        ev.MessageAdded(message=message("msg_2", after="msg_1", role="assistant")),
        ev.PermissionModeChanged(mode="full"),
        ev.MessageAdded(message=message("msg_3")),
    )
    report = await imported(store, lines)
    sc.maintenance.rebuild_store(store.home)
    async with open_session_service(scripted(store=store)) as service:
        session_id = report.session_id
        await service.switch_branch(session_id, MessageId("msg_2"))
        fork = await new_fork(service, session_id)
        await service.restore_to_message(session_id, MessageId("msg_1"), files=False)
        for each in (session_id, fork):
            assert OURS == (await service.load_session(each)).settings


@pytest.mark.parametrize("left", [1, 2, "half", -1])
async def test_damage_does_not_bring_back_what_was_left_out(store: SqliteStore, left: int | str) -> None:
    """Wherever the records of an imported session are cut, what a rebuild keeps may do no more than a new session."""
    lines = everything(new_session_id())
    report = await imported(store, lines)
    async with store.open():
        count = sum([len(events) async for events in store.journal(report.session_id)])
    last = {"half": report.events, -1: count - 1}.get(left, left)
    change(store.home, "UPDATE event SET checksum = 0 WHERE n = ?", int(last) + 1)

    rebuilt = sc.maintenance.rebuild_store(store.home, settings=OURS)

    assert [report.session_id in each for each in rebuilt.settled] == [True]
    after = await state_of(store, report)
    nothing = SessionState(session_id=report.session_id)
    assert after.settings == OURS
    assert after.activity.is_at_rest
    for field, origin in FIELDS.items():
        if origin == "dropped" or (origin == "ended" and field != "activity"):
            assert getattr(after, field) == getattr(nothing, field), field
    assert () == verify_store(store.home).findings


async def new_fork(service: SessionService, session_id: SessionId) -> SessionId:
    """Fork a session before its last message."""
    return (await service.fork_session(session_id, at_message_id=MessageId("msg_1"))).session_id


async def test_a_tool_call_of_nobody_is_ended(store: SqliteStore) -> None:
    """A call that no message asked for does not run on for ever, whether or not it has a result."""
    started = ev.ToolCallStarted(call_id=sc.CallId("c"), name="bash", arguments=JsonObject())
    result = sc.ToolResultPart(call_id=sc.CallId("d"), name="bash", status="success", text="x")
    for events in ([started], [ev.ToolCallFinished(result=result)], [started, ev.ToolCallFinished(result=result)]):
        assert () == (await state_of(store, await imported(store, forge(created(), *events)))).tools


# --- files that no service has written --------------------------------------------------------------------------------


def _many(make: Callable[[int], ev.Event]) -> list[bytes]:
    return forge(created(), *(make(number) for number in range(MAX_OPEN + 1)))


def _sent(*events: tuple[ev.Event, dict[str, Any]]) -> list[bytes]:
    """Return a file whose events have other envelopes."""
    session_id = new_session_id()
    first = SessionEvent(seq=1, sseq=1, session_id=session_id, at=LONG_AGO, event=created())
    envelopes = [first]
    for place, (event, changes) in enumerate(events, 2):
        envelopes.append(attrs.evolve(first, **{"seq": place, "sseq": place, "event": event, **changes}))
    return seal(session_id, [encode_event(each) for each in envelopes])


_LAST: Final = limits.MAX_INTEGER
MADE_BY_HAND: Final[dict[str, Callable[[], list[bytes]]]] = {
    "more wake-ups than any service allows": lambda: _many(wakeup),
    "more messages than any service allows": lambda: _many(queued),
    "a number without a next one": lambda: _sent((wakeup(), {"sseq": _LAST})),
    "a place without a next one": lambda: _sent((wakeup(), {"seq": _LAST})),
    "an extension of the service": lambda: forge(created(), ev.ExtensionRemoved(name="guard")),
    "a client of the service": lambda: forge(created(), ev.ClientDetached(client_id=sc.ClientId("http-token"))),
    "a service that is read-only": lambda: forge(created(), ev.StorageStopped(reason="no")),
    "another configuration": lambda: forge(created(), ev.ConfigurationChanged(changed=("sandbox.mode",))),
}


@pytest.mark.parametrize("make", MADE_BY_HAND.values(), ids=MADE_BY_HAND)
async def test_what_no_service_writes_is_refused(store: SqliteStore, make: Callable[[], list[bytes]]) -> None:
    """A file that was made by hand to be more than a session is refused by its line, even with its own settings."""
    for settings in (OURS, None):
        with pytest.raises(InvalidInput, match="nothing was imported"):
            await import_session(make(), store, settings=settings)
    assert not await trio.Path(store.home).exists()


async def test_a_turn_of_all_times_is_refused(store: SqliteStore) -> None:
    """A turn that lasts longer than a number can say cannot be ended, so nothing is imported."""
    started, renamed = ev.TurnStarted(turn_id=TurnId("t")), ev.SessionRenamed(name="x")
    with pytest.raises(InvalidInput, match="its work cannot be brought to an end"):
        await import_session(_sent((started, {"at": -_LAST}), (renamed, {"at": _LAST})), store, settings=OURS)
    assert not await trio.Path(store.home).exists()


# --- the program ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
async def test_the_program_imports_nothing_that_acts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a fresh home, with a real service, a file with all rights and a wake-up is a conversation, and is said so."""
    monkeypatch.setenv("SESSION_CORE_HOME", str(tmp_path / "fresh"))
    monkeypatch.setenv("SESSION_CORE_MODEL", "demo")
    lines = forge(created(), granted(), wakeup(), ev.MessageAdded(message=message("hello\x1b[2J")))

    report = await program("import", "-", stdin=b"".join(lines))
    try:
        served = await program("serve")
        went_on = await program("run", "--quiet", "--session", report.out.strip(), "count to 3")
        shown = await program("show", report.out.strip(), "--json")
    finally:
        ended = await program("shutdown", "--force")  # noqa: ASYNC102 - the service must not outlive the test

    assert (0, 0, 0, 0) == (report.code, served.code, went_on.code, ended.code), [report, served, went_on, ended]
    assert "permission mode full: it is ask_writes here" in report.err
    assert "1 wake-up\n" in report.err
    assert f"folder /srv/another/project: it works in {ROOT} here" in report.err
    assert "1 2 3" in went_on.out
    assert '"ask_writes"' in shown.out
    assert "full_access" not in shown.out
    assert "[scheduled wake-up]" not in shown.out
