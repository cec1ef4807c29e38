"""What a session and the list of sessions hold has a bound; what goes beyond it is refused, and says why."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from session_core import limits
from session_core.agent.tool_runner import ToolRunner
from session_core.errors import Conflict, InvalidInput
from session_core.ids import RequestId
from session_core.session.turn_handle import ApprovalPrompt
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import ScriptedTool, text, tool_call
from session_core.tools.base import ToolContext, ToolFailed, ToolOutput
from session_core.vocabulary import commands as c
from session_core.vocabulary import events as ev
from session_core.vocabulary.extensions import ExtensionCommand, ExtensionInfo
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import Refusal, ToolCallPart, ToolResultPart
from session_core.vocabulary.sessions import Decision, PlanItem, SandboxPolicy
from session_core.wire.codec import encode
from tests.session_core.service._helpers import new_session, of_type, scripted
from tests.session_core.session._helpers import answer, call, started
from tests.session_core.session._helpers import new_session as bare_session


async def test_dialogs_have_room_together() -> None:
    """A dialog for which the open ones leave no room is refused; when one is answered, there is room again."""
    async with open_checked_service(scripted()) as service, trio.open_nursery() as nursery:
        session_id = await new_session(service)
        large = c.OpenDialog(session_id=session_id, kind="input", title="t", message="\x01" * 400_000)
        nursery.start_soon(service.execute, large)
        await wait_all_tasks_blocked()
        with pytest.raises(Conflict, match="the open dialogs of a session take at most 4,194,304 bytes together"):
            await service.execute(large)
        (dialog,) = (await service.load_session(session_id)).dialogs
        await service.answer_dialog(session_id, dialog.request_id, "x")
        nursery.start_soon(service.execute, large)
        await wait_all_tasks_blocked()
        (dialog,) = (await service.load_session(session_id)).dialogs
        await service.answer_dialog(session_id, dialog.request_id, "x")
        assert 2 == len(of_type(service, session_id, ev.DialogOpened))


async def test_wakeups_have_room_together() -> None:
    """The texts of all wake-ups together are as long as one may be."""
    async with open_checked_service(scripted()) as service:
        session_id = await new_session(service)
        armed = await service.schedule_wakeup(session_id, 90_000, "x" * 900_000)
        with pytest.raises(Conflict, match="the wake-ups of a session hold at most 1,000,000 characters together"):
            await service.schedule_wakeup(session_id, 90_000, "x" * 100_001)
        await service.cancel_wakeup(session_id, armed.wakeup_id)
        await service.schedule_wakeup(session_id, 90_000, "x" * 1_000_000)


async def test_approvals_have_room_together() -> None:
    """Nobody is asked about a call for which the open approvals leave no room; it is refused at once."""
    session, handle, _ = started()
    large = ToolCallPart(call_id=call("rm").call_id, name="rm", arguments=JsonObject({"a": "x" * 5_000_000}))
    asked = ApprovalPrompt(call=large, summary="", displayed_text="", fingerprint="f", reason="r", grant="rm")
    decisions: list[Decision | Refusal] = []

    async def ask() -> None:
        decisions.append(await handle.ask_approval(asked))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask)
        await wait_all_tasks_blocked()
        await ask()
        session.resolve_approval(session.state.approvals[0].request_id, "allow_once", "answered")
    refusal = Refusal(by="nobody", reason="The calls that wait for an answer are too large together.")
    assert [refusal, "allow_once"] == decisions


async def test_the_service_does_not_speak_for_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model whose call nobody could be asked about reads why, and not as the words of a person."""
    monkeypatch.setattr(limits, "MAX_APPROVAL_BYTES", 10)
    session, handle, _ = started()
    message = answer(call("rm"))
    session.record(ev.MessageCompleted(message=message))
    await ToolRunner(handle, {"rm": ScriptedTool("rm", effects=("write",))}).run(message, ())
    (result,) = (part for part in session.state.transcript[-1].parts if isinstance(part, ToolResultPart))
    why = "The calls that wait for an answer are too large together."
    assert f"This call was not allowed. Do not try it again unless asked to. {why}" == result.text
    assert Refusal(by="nobody", reason=why) == result.refusal


async def test_what_a_turn_is_given_has_a_bound() -> None:
    """A schema and data for the protocol come with a message up to a megabyte each; nothing else of it is recorded."""
    large = JsonObject({"description": "x" * limits.MAX_TURN_JSON_BYTES})
    async with open_checked_service(scripted(text("ok"))) as service:
        session_id = await new_session(service)
        for field in ("output_schema", "extension"):
            with pytest.raises(InvalidInput, match=f"{field} has 1,048,594 bytes; the limit is 1,048,576") as caught:
                await service.execute(c.SendUserMessage(session_id=session_id, text="go", **{field: large}))  # type: ignore[arg-type]
            assert field == caught.value.field
        assert [] == of_type(service, session_id, ev.TurnStarted)


async def test_the_paths_of_a_sandbox_have_room_together() -> None:
    """Many long paths are refused, where a few of them are not."""
    paths = tuple(f"/{number}" + "x" * 4_000 for number in range(10))
    async with open_checked_service(scripted()) as service:
        session_id = await new_session(service)
        await service.change_sandbox_policy(session_id, SandboxPolicy(writable_roots=paths))
        with pytest.raises(InvalidInput, match="at most 65,536 characters together"):
            await service.change_sandbox_policy(session_id, SandboxPolicy(writable_roots=paths, readable=paths))


def test_grants_have_room_together() -> None:
    """A grant for which there is no room is not remembered, so that the next call asks again; a known one stays."""
    session, _ = bare_session()
    for letter in "abca":
        session.record(
            ev.ApprovalResolved(
                request_id=RequestId("req_1"),
                tool_name="t",
                decision="allow_session",
                because="answered",
                grant=letter * 100_000,
            )
        )
    assert ("a" * 100_000, "b" * 100_000) == session.state.grants


async def test_a_plan_has_a_bound() -> None:
    """A tool of somebody else can set no plan that nobody could read."""
    said: list[str] = []

    async def set_plan(_arguments: JsonObject, context: ToolContext) -> str:
        with pytest.raises(ToolFailed) as caught:
            context.host.set_plan((PlanItem(text="x" * limits.MAX_PLAN_BYTES),))
        said.append(str(caught.value))
        return ""

    config = scripted(tool_call("t", {}), text("ok"), tools=(ScriptedTool("t", run=set_plan),))
    async with open_checked_service(config) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        await service.wait_for_turn(session_id)
        assert [] == of_type(service, session_id, ev.PlanChanged)
        assert ["the plan is too long: it may take 131,072 bytes"] == said


@pytest.mark.parametrize("chars", [100, 900_000])
async def test_results_of_a_step_have_room_together(chars: int) -> None:
    """Results that are too large together are shortened as they come, so the state holds no more than one message."""
    image_like = JsonObject({"a": "x" * (limits.MAX_STEP_RESULTS_BYTES // 3)})

    async def work(_arguments: JsonObject, _context: object) -> ToolOutput:
        return ToolOutput(text="y" * chars, details=image_like)

    session, handle, _ = started()
    message = answer(*(call("t", number) for number in range(4)))
    session.record(ev.MessageCompleted(message=message))
    runner, live = ToolRunner(handle, {"t": ScriptedTool("t", run=work)}), list[ToolResultPart]()
    record = session.record

    def noting(event: ev.Event, *more: object) -> object:
        if isinstance(event, ev.ToolCallFinished):
            live.append(event.result)
        return record(event, *more)  # type: ignore[arg-type]

    session.record = noting  # type: ignore[method-assign, assignment]
    await runner.run(message, ())
    assert 4 == len(live)
    assert sum(len(encode(each)) for each in live) <= limits.MAX_STEP_RESULTS_BYTES + 4_096
    assert [image_like, image_like, None, None] == [each.details for each in live]
    assert "left out: the results of one step are too large together" in live[-1].text


async def test_a_short_result_is_never_replaced_by_a_longer_remark(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where others have left no room at all, a result that takes less than the remark stays as it is."""
    monkeypatch.setattr(limits, "MAX_STEP_RESULTS_BYTES", 100)
    session, handle, seen = started()
    message = answer(call("look", 1), call("read", 2), call("look", 3))
    session.record(ev.MessageCompleted(message=message))
    tools = {"look": ScriptedTool("look", run="fine"), "read": ScriptedTool("read", run="x" * 1_000)}
    await ToolRunner(handle, tools).run(message, ())
    found = {each.result.call_id: each.result.text for each in seen if isinstance(each, ev.ToolCallFinished)}
    assert ["fine", "fine"] == [found[call("look", number).call_id] for number in (1, 3)]
    assert found[call("read", 2).call_id].startswith("\n[... 1000 characters")


async def test_arguments_of_a_step_have_room_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call whose arguments find no room beside those of the others is not made and takes none; the model is told."""
    monkeypatch.setattr(limits, "MAX_STEP_ARGUMENTS_BYTES", 2 * len(encode(call("t", 0).arguments)))
    session, handle, _ = started()
    message = answer(*(call("t", number) for number in (0, 1_000_000_000, 1, 2)))
    session.record(ev.MessageCompleted(message=message))
    await ToolRunner(handle, {"t": ScriptedTool("t", run="fine")}).run(message, ())
    results = [part for part in session.state.transcript[-1].parts if isinstance(part, ToolResultPart)]
    assert ["success", "error", "success", "error"] == [each.status for each in results]
    assert "too large together" in results[1].text
    assert "too large together" in results[-1].text


async def test_what_is_listed_about_extensions_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """An extension for which there is no room is listed without what it provides; the others stay as they are."""
    monkeypatch.setattr(limits, "MAX_LISTED_EXTENSIONS_BYTES", 2_000)
    many = tuple(ExtensionCommand(extension="a", name=f"c{number}") for number in range(8))
    first = ExtensionInfo(name="a", version="1", scope="user", state="ready", commands=many)
    second = ExtensionInfo(name="b", version="1", scope="user", state="ready", commands=many * 2)
    async with open_checked_service(scripted()) as service:
        for info in (first, second, first):
            service.tell(ev.ExtensionChanged(extension=info))
        assert (first, ExtensionInfo(name="b", version="1", scope="user", state="ready")) == (
            await service.load_service()
        ).extensions


async def test_a_page_of_sessions_ends_where_a_message_would(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages of sessions with long names end earlier than asked for, and all of them together are the whole list."""
    async with open_checked_service(scripted()) as service:
        ids = [(await service.create_session(name="x" * 200)).session_id for _ in range(5)]
        monkeypatch.setattr(limits, "MAX_MESSAGE_BYTES", 5_000)
        pages = [await service.list_sessions(limit=3)]
        while pages[-1].next_page is not None:
            pages.append(await service.list_sessions(limit=3, page=pages[-1].next_page))
        assert [2, 2, 1] == [len(page.sessions) for page in pages]
        assert ids[::-1] == [each.session_id for page in pages for each in page.sessions]
        assert {5} == {page.total for page in pages}


async def test_a_service_goes_on_knowing_what_it_does_not_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that the snapshot no longer lists can be found, loaded, changed and deleted like any other."""
    monkeypatch.setattr(limits, "MAX_LIST_BYTES", 20_000)
    async with open_checked_service(scripted()) as service:
        ids = [(await service.create_session(name=f"x{number}")).session_id for number in range(20)]
        found = await service.load_service()
        listed = {each.session_id for each in found.sessions}
        assert 0 < len(listed) < 20
        assert 20 == len(listed) + found.earlier == len(service.list_all_sessions())
        gone = next(each for each in ids if each not in listed)
        await service.rename_session(gone, "still here")
        assert "still here" == (await service.load_session(gone)).name
        (summary,) = (await service.list_sessions(search="still here")).sessions
        assert gone == summary.session_id
        assert listed == {each.session_id for each in (await service.load_service()).sessions}
        await service.delete_session(gone)
        assert found.earlier - 1 == (await service.load_service()).earlier
