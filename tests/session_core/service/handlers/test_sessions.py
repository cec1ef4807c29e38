"""Sessions: create, list, rename, archive, restore, delete, fork."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from session_core.errors import Conflict, InvalidInput, NotFound
from session_core.ids import MessageId, SessionId
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import Forever, Hang, ScriptedProvider, ScriptedTool, text, tool_call
from session_core.tools.base import ToolContext
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ToolResultPart
from session_core.vocabulary.sessions import ForkOrigin, SandboxPolicy, Settings
from tests.session_core.service._helpers import new_session, of_type, recorded, said, say, scripted, trace, transcript


async def test_create_uses_what_is_given_and_defaults_for_the_rest() -> None:
    """A new session has the given settings, the service's defaults for the others, and its creation is an event."""
    async with open_checked_service(scripted()) as service:
        policy = SandboxPolicy(mode="read_only")
        created = await service.create_session(name=" mine ", cwd="/tmp", permission_mode="full", sandbox=policy)
        plain = await service.create_session()

        snapshot = await service.load_session(created.session_id)
        settings = Settings(model="m", cwd="/tmp", permission_mode="full", sandbox=policy)
        assert ("mine", settings) == (snapshot.name, snapshot.settings)
        assert Settings(model="m", cwd="/") == (await service.load_session(plain.session_id)).settings
        (event,) = recorded(service, created.session_id)
        assert (ev.SessionCreated(name="mine", settings=settings), created.cursor.seq) == (event.event, event.seq)


@pytest.mark.parametrize(
    ("field", "given", "error"),
    [
        ("model", "gone", NotFound),
        ("cwd", "relative", InvalidInput),
        ("cwd", "/a\0b", InvalidInput),
        ("parent_id", "ses_x", NotFound),
    ],
)
async def test_create_refuses_what_cannot_be(field: str, given: str, error: type[Exception]) -> None:
    """A session is not created with a model, folder or parent that cannot be, and the error names which."""
    async with open_checked_service(scripted()) as service:
        with pytest.raises(error) as caught:
            await service.create_session(**{field: given})  # type: ignore[arg-type]
        assert field == getattr(caught.value, "field", None)
        assert [] == recorded(service)


async def test_list_pages_filters_and_searches() -> None:
    """The list goes from new to old in pages that fit together, and can be filtered and searched."""
    async with open_checked_service(scripted(Hang())) as service:
        ids = [await new_session(service, name=f"Session {number}", cwd=f"/p{number}") for number in range(5)]
        await service.archive_session(ids[1])
        await service.send_user_message(ids[3], "go")

        first = await service.list_sessions(limit=2)
        second = await service.list_sessions(limit=2, page=first.next_page)
        assert [ids[4], ids[3], ids[2], ids[0]] == [each.session_id for each in (*first.sessions, *second.sessions)]
        assert (4, None) == (first.total, second.next_page)

        async def found(**wanted: object) -> list[SessionId]:
            return [each.session_id for each in (await service.list_sessions(**wanted)).sessions]  # type: ignore[arg-type]

        assert [ids[1]] == await found(archived=True)
        assert 5 == len(await found(archived=None))
        assert [ids[3]] == await found(running=True)
        assert ids[3] not in await found(running=False)
        assert [ids[2]] == await found(search="sESSION 2")
        assert [ids[4]] == await found(search="/p4")
        assert [] == await found(search="nothing like it")


@pytest.mark.parametrize("limit", [0, -1, 501])
async def test_pages_have_a_size(limit: int) -> None:
    """A page of no or too many lines is refused."""
    async with open_checked_service(scripted()) as service:
        with pytest.raises(InvalidInput) as caught:
            await service.list_sessions(limit=limit)
        assert "limit" == caught.value.field


async def test_rename_archive_restore() -> None:
    """Each of them changes the session, publishes its event every time, and replies with that event's cursor."""
    async with open_checked_service(scripted()) as service:
        session_id = await new_session(service)
        replies = [
            await service.rename_session(session_id, "b"),
            await service.rename_session(session_id, "b"),
            await service.archive_session(session_id),
            await service.restore_session(session_id),
        ]
        events = recorded(service, session_id)[1:]
        assert [
            ev.SessionRenamed(name="b"),
            ev.SessionRenamed(name="b"),
            ev.SessionArchived(),
            ev.SessionRestored(),
        ] == [event.event for event in events]
        assert [event.seq for event in events] == [reply.cursor.seq for reply in replies]
        assert not (await service.load_session(session_id)).archived


async def test_busy_sessions_are_not_put_away() -> None:
    """A running session cannot be archived."""
    async with open_checked_service(scripted(Hang())) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        with pytest.raises(Conflict) as caught:
            await service.archive_session(session_id)
        assert "session_id" == caught.value.field
        assert not (await service.load_session(session_id)).archived


async def test_delete_while_running() -> None:
    """Deleting stops the turn first, the last event is the deletion, feeds end after it, and the session is gone."""
    async with open_checked_service(scripted(Forever("x"))) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        async with service.subscribe(session_id) as events:
            await service.delete_session(session_id)
            shown = [event.event async for event in events]

        assert isinstance(shown[-1], ev.SessionDeleted)
        outcomes = [event.outcome.status for event in shown if isinstance(event, ev.TurnEnded)]
        assert ["stopped"] == outcomes
        assert trace(service, session_id)[-len(shown) :] == shown
        with pytest.raises(NotFound):
            await service.load_session(session_id)
        assert () == (await service.list_sessions()).sessions
        assert None is await service._core.store.load(session_id)


async def test_a_session_being_deleted_is_gone_for_others() -> None:
    """While a deletion waits for a stubborn tool, no other command finds the session."""
    release = trio.Event()

    async def stubborn(arguments: JsonObject, context: ToolContext) -> str:
        with trio.CancelScope(shield=True):
            await release.wait()
        return "done"

    tools = (ScriptedTool("t", run=stubborn),)
    async with open_checked_service(scripted(tool_call("t"), tools=tools)) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        await wait_all_tasks_blocked()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(service.delete_session, session_id)
            await wait_all_tasks_blocked()
            for attempt in (service.load_session, service.delete_session, service.request_stop):
                with pytest.raises(NotFound):
                    await attempt(session_id)
            release.set()
        assert isinstance(trace(service, session_id)[-1], ev.SessionDeleted)


async def test_deleting_a_parent_stops_its_children() -> None:
    """The turns of all descendants stop with the deleted session, and the descendants themselves stay usable."""
    provider = ScriptedProvider(Hang(), Hang(), Hang(), Hang(), text("still here"))
    async with open_checked_service(scripted(provider)) as service:
        parent = await new_session(service)
        child = await new_session(service, parent_id=parent)
        grandchild = await new_session(service, parent_id=child)
        stranger = await new_session(service)
        for session_id in (parent, child, grandchild, stranger):
            await service.send_user_message(session_id, "go")
        await wait_all_tasks_blocked()

        await service.delete_session(parent)
        await wait_all_tasks_blocked()

        activities = {each.session_id: each.activity.name for each in (await service.list_sessions()).sessions}
        assert {child: "stopped", grandchild: "stopped", stranger: "waiting_for_model"} == activities
        assert parent == (await service.load_session(child)).parent_id
        await service.send_user_message(child, "and now?")
        assert "still here" == (await service.wait_for_turn(child)).outcome.final_text


async def test_no_children_for_a_session_being_deleted() -> None:
    """A session that is on its way out cannot become anybody's parent, nor can one that is gone."""
    release = trio.Event()

    async def stubborn(arguments: JsonObject, context: ToolContext) -> str:
        with trio.CancelScope(shield=True):
            await release.wait()
        return "done"

    tools = (ScriptedTool("t", run=stubborn),)
    async with open_checked_service(scripted(tool_call("t"), tools=tools)) as service:
        parent = await new_session(service)
        await service.send_user_message(parent, "go")
        await wait_all_tasks_blocked()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(service.delete_session, parent)
            await wait_all_tasks_blocked()
            try:
                with pytest.raises(NotFound) as caught:
                    await service.create_session(parent_id=parent)
                assert "parent_id" == caught.value.field
            finally:
                release.set()
        with pytest.raises(NotFound):
            await service.create_session(parent_id=parent)
        assert () == (await service.list_sessions()).sessions


async def test_a_turn_brings_an_archived_session_back() -> None:
    """A turn in an archived session restores it first, with an event, so that nothing runs out of sight."""
    async with open_checked_service(scripted(Hang())) as service:
        session_id = await new_session(service)
        await service.archive_session(session_id)
        before = len(trace(service, session_id))
        await service.send_user_message(session_id, "go")
        events = trace(service, session_id)[before:]
        assert (ev.SessionRestored(), ev.TurnStarted) == (events[0], type(events[1]))
        assert not (await service.load_session(session_id)).archived
        running = (await service.list_sessions(running=True, archived=False)).sessions
        assert [session_id] == [summary.session_id for summary in running]


async def test_fork_at_any_message() -> None:
    """A fork has the conversation up to the chosen message, the settings of its origin, and a life of its own."""
    provider = ScriptedProvider(text("one"), text("two"), text("three"))
    async with open_checked_service(scripted(provider)) as service:
        origin = await new_session(service, name="origin", cwd="/tmp")
        await say(service, origin, "a")
        await say(service, origin, "b")
        before = await service.load_session(origin)
        for place, message in enumerate(before.transcript):
            fork = (await service.fork_session(origin, at_message_id=message.message_id)).session_id
            snapshot = await service.load_session(fork)
            assert before.transcript[: place + 1] == snapshot.transcript
            assert ForkOrigin(session_id=origin, message_id=message.message_id) == snapshot.forked_from
            assert before.settings == snapshot.settings
        whole = (await service.fork_session(origin, name="mine")).session_id
        await say(service, whole, "c")
        assert [*said(before.transcript), ("user", "c"), ("assistant", "three")] == await transcript(service, whole)
        assert before.transcript == (await service.load_session(origin)).transcript
        with pytest.raises(NotFound) as caught:
            await service.fork_session(origin, at_message_id=MessageId("msg_x"))
        assert "at_message_id" == caught.value.field


async def test_fork_after_unanswered_tool_calls() -> None:
    """A fork in the middle of a step gives its tool calls results, and the origin's turn goes on untouched."""
    release = trio.Event()

    async def wait(arguments: JsonObject, context: ToolContext) -> str:
        await release.wait()
        return "real"

    provider = ScriptedProvider(tool_call("t"), text("forked"), text("original"))
    async with open_checked_service(scripted(provider, tools=(ScriptedTool("t", run=wait),))) as service:
        origin = await new_session(service)
        await service.send_user_message(origin, "go")
        await wait_all_tasks_blocked()

        fork = (await service.fork_session(origin)).session_id

        (repaired,) = (await service.load_session(fork)).transcript[-1].parts
        assert isinstance(repaired, ToolResultPart)
        assert "cancelled" == repaired.status
        assert "completed" == (await say(service, fork)).status
        release.set()
        assert "completed" == (await service.wait_for_turn(origin)).outcome.status
        (result,) = of_type(service, origin, ev.ToolCallFinished)
        assert ("success", "real") == (result.result.status, result.result.text)
