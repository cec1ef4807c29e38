"""What happens to a tool call before it runs: its arguments, its preview, an answer, and what that is bound to."""

from pathlib import Path
from typing import Any

import pytest

from session_core import limits
from session_core.errors import Conflict
from session_core.permissions.rules import PermissionRule
from session_core.permissions.standing_grants import StandingGrants
from session_core.testing.scripted import ScriptedTool, tool_call, tool_calls
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import Refusal, ToolResultPart
from tests.session_core.agent._previewing import PutTool
from tests.session_core.agent._talk import Talk, talk
from tests.session_core.service._helpers import of_type, say

PUT = tool_call("put", {"text": "new"})


# --- arguments --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({}, "'text' is missing"),
        ({"text": 5}, "must be text, not 5"),
        ({"text": "a", "tex": "b"}, "no argument 'tex'"),
        ("[1]", "not a JSON object"),
        ('{"text": ', "not a JSON object"),
        ("", "'text' is missing"),
        ('{"text": NaN}', "not a JSON object"),
    ],
)
async def test_wrong_arguments_go_back(arguments: Any, why: str) -> None:
    """Arguments that do not fit go back to the model with what is wrong; nobody is asked and nothing runs."""
    tool = PutTool()
    async with talk(tool_call("put", arguments), tools=(tool,)) as turn:
        (result,) = await turn.results()
        assert "error" == result.status
        assert why in result.text
        assert [] == of_type(turn.service, turn.session_id, ev.ApprovalRequested)
    assert ("old", []) == (tool.file, tool.calls)


async def test_a_tool_with_a_broken_schema() -> None:
    """A tool whose own schema is nonsense is not run, and the model is told that it cannot be used."""
    tool = PutTool()
    object.__setattr__(tool.spec, "parameters", JsonObject({"type": "nonsense"}))
    async with talk(PUT, tools=(tool,), permission_mode="full") as turn:
        (result,) = await turn.results()
        assert "not a valid JSON schema" in result.text
    assert [] == tool.calls


# --- what people are shown --------------------------------------------------------------------------------------------


async def test_a_preview_is_shown() -> None:
    """People see what a call would do, why they are asked and what a yes would cover; then exactly that is done."""
    tool = PutTool()
    async with talk(PUT, tools=(tool,)) as turn:
        approval = await turn.answer("allow_once")
        shown = (approval.summary, approval.shown, approval.reason, approval.grant, dict(approval.arguments))
        assert ("put new", "-old\n+new", "it changes files", "put f", {"text": "new"}) == shown
        (result,) = await turn.results()
        assert ("success", "put new") == (result.status, result.text)
    assert [frozenset()] == tool.rights, "a plain yes opens nothing that must always be asked for"


async def test_a_call_nobody_was_asked_about() -> None:
    """A tool can tell what a person has agreed to."""
    tool = PutTool()
    async with talk(PUT, tools=(tool,), permission_mode="auto_edit") as turn:
        await turn.results()
    assert [frozenset()] == tool.rights


async def test_a_preview_that_says_it_cannot_work() -> None:
    """A call that could not work is not asked about; the model is told why."""
    tool = PutTool()
    async with talk(tool_call("put", {"text": "impossible"}), tools=(tool,)) as turn:
        (result,) = await turn.results()
        assert ("error", "that cannot be put") == (result.status, result.text)


@pytest.mark.usefixtures("quiet_log")
@pytest.mark.parametrize("fault", [ZeroDivisionError("x"), ExceptionGroup("many", [ValueError("x")]), SystemExit(1)])
async def test_a_preview_with_a_bug(fault: BaseException) -> None:
    """A call that no rule could be held against does not run, even where nobody needs to be asked."""
    tool = PutTool()
    tool.preview_fault = fault
    rules = (PermissionRule(decision="deny", path="f"),)
    async with talk(PUT, tools=(tool,), permission_mode="full", rules=rules) as turn:
        (result,) = await turn.results()
        assert "error" == result.status
        assert "could not say what it would do" in result.text
    assert [] == tool.calls


@pytest.mark.usefixtures("quiet_log")
async def test_a_preview_that_is_none() -> None:
    """A tool that returns something else than a preview does not run."""
    tool = PutTool(summary=None)
    async with talk(PUT, tools=(tool,), permission_mode="full") as turn:
        (result,) = await turn.results()
        assert "did not return a CallPreview" in result.text
    assert [] == tool.calls


async def test_too_much_to_be_judged() -> None:
    """What is too long for anybody to read is refused, not asked for; a cut version would hide what is done."""
    tool = PutTool(displayed_text="x" * (limits.MAX_SHOWN_CHARS + 1))
    async with talk(PUT, tools=(tool,)) as turn:
        (result,) = await turn.results()
        assert "too large for a person to judge" in result.text
        assert [] == of_type(turn.service, turn.session_id, ev.ApprovalRequested)
    assert [] == tool.calls


async def test_rules_decide_by_what_a_preview_says() -> None:
    """A rule about files or commands holds for a call whose preview names them."""
    for rule in (
        PermissionRule(decision="deny", path="f"),
        PermissionRule(decision="deny", command="rm *"),
        PermissionRule(decision="deny", tool="put"),
    ):
        tool = PutTool(command="cd x && rm y")
        async with talk(PUT, tools=(tool,), permission_mode="full", rules=(rule,)) as turn:
            (result,) = await turn.results()
            assert "denied" == result.status
            assert "a rule in the configuration forbids it" in result.text
            assert Refusal(by="rule", reason="a rule in the configuration forbids it") == result.refusal
        assert [] == tool.calls


async def test_a_preview_can_only_lessen_effects() -> None:
    """A call that would only read is not asked for; one that claims more than its tool can do gains nothing."""
    reading = PutTool(effects=("write", "read"))
    reading._preview = {"effects": frozenset({"read"})}
    async with talk(PUT, tools=(reading,)) as turn:
        assert ["success"] == [result.status for result in await turn.results()]
    claiming = PutTool(effects=("read",))
    claiming._preview = {"effects": frozenset({"execute"})}
    async with talk(PUT, tools=(claiming,)) as turn:
        assert ["success"] == [result.status for result in await turn.results()]


# --- what an answer is bound to ---------------------------------------------------------------------------------------


async def test_an_answer_to_something_else() -> None:
    """An answer that names another fingerprint is refused, and the question stays open."""
    async with talk(PUT, tools=(PutTool(),)) as turn:
        approval = await turn.approval()
        with pytest.raises(Conflict) as caught:
            await turn.service.answer_approval(
                turn.session_id, approval.request_id, "allow_once", fingerprint="another"
            )
        assert "fingerprint" == caught.value.field
        assert approval == await turn.approval()
        await turn.answer("deny")
        await turn.results()


async def test_a_change_between_yes_and_run() -> None:
    """What was allowed is what runs: if the file has changed since, the call is refused, and the model is told."""
    tool = PutTool()
    async with talk(PUT, tools=(tool,)) as turn:
        approval = await turn.approval()
        tool.file = "changed by somebody"
        await turn.service.answer_approval(turn.session_id, approval.request_id, "allow_once")
        (result,) = await turn.results()
        assert "error" == result.status
        assert "Something has changed since this call was allowed" in result.text
    assert ("changed by somebody", []) == (tool.file, tool.calls)


async def test_a_tool_without_a_preview_in_another_folder() -> None:
    """A yes is for the folder it was given in, also for tools that show nothing."""
    tool = ScriptedTool("t", effects=("execute",))
    async with talk(tool_call("t"), tools=(tool,)) as turn:
        approval = await turn.approval()
        assert "t (execute)" == approval.summary
        turn.service._core.sessions[turn.session_id].record(ev.WorkingDirectoryChanged(cwd="/elsewhere"))
        await turn.service.answer_approval(turn.session_id, approval.request_id, "allow_once")
        (result,) = await turn.results()
        assert "Something has changed" in result.text
    assert [] == tool.calls


async def test_two_changes_of_one_file() -> None:
    """A call is shown as it will be after those before it: two changes of one file in one step both work."""
    tool = PutTool()
    both = tool_calls(("put", {"text": "one"}), ("put", {"text": "two"}))
    async with talk(both, tools=(tool,)) as turn:
        assert "-old\n+one" == (await turn.answer("allow_once")).shown
        assert "-one\n+two" == (await turn.answer("allow_once")).shown
        assert ["put one", "put two"] == [result.text for result in await turn.results()]


async def test_a_denial_with_words() -> None:
    """What a person says with a no reaches the model with the result, in the order of the calls."""
    tool, reading = PutTool(), ScriptedTool("look", run="seen")
    calls = tool_calls(("look", {}), ("put", {"text": "new"}), ("look", {}))
    async with talk(calls, tools=(tool, reading)) as turn:
        await turn.answer("deny", "use the other file")
        await turn.results()
        results = [part for part in turn.provider.requests[1].messages[-1].parts if isinstance(part, ToolResultPart)]
    assert ["success", "denied", "success"] == [result.status for result in results]
    assert results[1].text.endswith("The user says: use the other file")
    assert Refusal(by="person", reason="use the other file") == results[1].refusal
    assert [] == tool.calls


# --- how far a yes reaches --------------------------------------------------------------------------------------------


async def test_a_yes_for_the_session_covers_its_grant_only() -> None:
    """The same grant is not asked for again; another one is."""
    one, other = PutTool(), PutTool(grant="put elsewhere")
    object.__setattr__(other.spec, "name", "put_other")
    elsewhere = tool_call("put_other", {"text": "new"})
    async with talk(PUT, PUT, elsewhere, tools=(one, other)) as turn:
        assert "put f" == (await turn.answer("allow_session")).grant
        assert "put elsewhere" == (await turn.answer("deny")).grant
        assert ["success", "success", "denied"] == [result.status for result in await turn.results()]
        assert ("put f",) == (await turn.service.load_session(turn.session_id)).grants


async def test_what_must_always_be_asked() -> None:
    """A yes for the session does not cover a call that has to be asked for each time, in any mode."""
    tool = PutTool(always_ask="f is a protected file")
    async with talk(PUT, PUT, tools=(tool,), permission_mode="full") as turn:
        assert "f is a protected file" == (await turn.answer("allow_session")).reason
        await turn.answer("allow_session")
        assert ["success", "success"] == [result.status for result in await turn.results()]


async def test_a_yes_for_good(tmp_path: Path) -> None:
    """A call allowed for good is not asked about any more, not in another service either, unless anything differs."""
    file = tmp_path / "standing.json"
    again = tool_call("put", {"text": "old"})
    tool = PutTool(rights=("protected",), always_ask="f is a protected file")
    async with talk(PUT, again, tools=(tool,), standing=StandingGrants(file)) as turn:
        await turn.answer("allow_always")
        await answered_in_a_thread(turn)
        await turn.answer("allow_once")
        await turn.results()
    assert "old" == tool.file

    tool = PutTool(rights=("protected",), always_ask="f is a protected file")
    async with talk(PUT, tools=(tool,), standing=StandingGrants(file)) as turn:
        (result,) = await turn.results()
        assert "success" == result.status
    assert [frozenset({"protected"})] == tool.rights  # a person has agreed to this very call, if long ago

    tool = PutTool()
    tool.file = "other"
    async with talk(PUT, tools=(tool,), standing=StandingGrants(file)) as turn:
        await turn.answer("deny")
        assert ["denied"] == [result.status for result in await turn.results()]


async def answered_in_a_thread(turn: Talk) -> None:
    """Wait until the first call has its result: writing the grant down takes a thread, which no idle test waits for."""
    async with turn.service.follow(turn.session_id) as feed:
        async for _ in feed:
            if turn.results_so_far():
                return


async def test_nothing_is_asked_after_a_stop() -> None:
    """A stop between two calls asks nobody about the second one."""
    tool = PutTool()
    async with talk(tool_calls(("put", {"text": "a"}), ("put", {"text": "b"})), tools=(tool,)) as turn:
        await turn.approval()
        await turn.service.request_stop(turn.session_id)
        assert ["cancelled", "cancelled"] == [result.status for result in await turn.results()]
        assert 1 == len(of_type(turn.service, turn.session_id, ev.ApprovalRequested))
        assert "completed" == (await say(turn.service, turn.session_id)).status
    assert [] == tool.calls
