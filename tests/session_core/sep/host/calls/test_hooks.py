"""Hooks: what answers mean, who is asked, and what failures do."""

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from session_core import limits
from session_core.ids import SessionId
from session_core.rpc.failures import METHOD_NOT_FOUND, RpcFailed
from session_core.rpc.messages import Request
from session_core.sep.host.calls.contexts import Contexts
from session_core.sep.host.calls.hooks import (
    GO_ON,
    BlockOutcome,
    FailureOutcome,
    HookBlocked,
    HookOutcome,
    ModifyOutcome,
    apply_outcome,
    has_participant,
    read_outcome,
    restrict_outcome,
    run_hook,
)
from session_core.sep.protocol.names import FAIL_CLOSED, HOOKS, HookName
from session_core.vocabulary.frozen import JsonObject
from tests.session_core.sep._gathered import Member, gathered

SESSION = SessionId("ses_1")
CALL = {"tool": "gate.look", "call_id": "c1", "arguments": {"path": "a"}}
FAILED = FailureOutcome(why="fell over")


def fold(
    hook: HookName, value: Mapping[str, Any], outcomes: Iterable[tuple[str, HookOutcome]]
) -> Mapping[str, Any] | HookBlocked:
    """Return the value as several extensions leave it, given pairs of name and outcome, as `run_hook` goes about it."""
    for extension, outcome in outcomes:
        result = apply_outcome(hook, value, extension, restrict_outcome(extension, hook, value, outcome))
        if isinstance(result, HookBlocked):
            return result
        value = result
    return value


async def ask(
    extensions: Any, hook: HookName = "tool_call", value: Any = CALL, contexts: Contexts | None = None
) -> dict[str, Any] | HookBlocked:
    return await run_hook(extensions, hook, SESSION, value, contexts=contexts or Contexts())


# --- pure -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ({"action": "continue", "more": 1}, GO_ON),
        ({"action": "block"}, BlockOutcome()),
        ({"action": "block", "reason": "no rm"}, BlockOutcome(reason="no rm")),
        ({"action": "block", "reason": ["?"]}, BlockOutcome()),
        ({"action": "block", "reason": " "}, BlockOutcome()),
        ({"action": "block", "reason": "x" * 9_999}, BlockOutcome(reason="x" * limits.MAX_ERROR_CHARS)),
        ({"action": "modify", "patch": {"a": 1}}, ModifyOutcome(patch={"a": 1})),
    ],
)
def test_outcomes_are_read(answer: object, outcome: object) -> None:
    """Each kind of answer means what the protocol says; a no stays one, whatever stands beside it."""
    assert read_outcome(answer) == outcome


DEEP: Any = {}
for _ in range(limits.MAX_OPEN_JSON_DEPTH + 1):
    DEEP = {"x": DEEP}


@pytest.mark.parametrize(
    "answer",
    [
        None,
        [],
        "continue",
        {},
        {"action": "allow"},
        {"action": 1},
        {"action": "modify"},
        {"action": "modify", "patch": None},
        {"action": "modify", "patch": []},
        {"action": "modify", "patch": DEEP},
    ],
)
def test_answers_that_cannot_be_read_are_failures(answer: object) -> None:
    """An unknown action, a missing or unusable patch and anything that is no object are a failure."""
    assert isinstance(read_outcome(answer), FailureOutcome)


def test_patches_are_laid_over_the_value_one_after_the_other() -> None:
    """Each extension's patch changes single keys; what it leaves out stays for the next one."""
    outcomes: list[tuple[str, HookOutcome]] = [
        ("a", ModifyOutcome(patch={"x": 2})),
        ("b", GO_ON),
        ("c", ModifyOutcome(patch={"y": [3], "z": None})),
    ]
    assert fold("context", {"x": 1, "k": "v"}, outcomes) == {"x": 2, "k": "v", "y": [3], "z": None}
    assert fold("context", {"x": 1}, []) == {"x": 1}


def test_the_first_no_ends_it() -> None:
    """A block counts at every hook, has a reason even if none was given, and nothing behind it does."""
    outcomes: list[tuple[str, HookOutcome]] = [
        ("a", GO_ON),
        ("b", BlockOutcome()),
        ("c", BlockOutcome(reason="late")),
        ("d", ModifyOutcome(patch={"x": 2})),
    ]
    for hook in HOOKS:
        assert fold(hook, {"x": 1}, outcomes) == HookBlocked(reason=f"blocked by {hook} hook", extension="b")
    assert fold("input", {}, [("c", BlockOutcome(reason="why"))]) == HookBlocked(reason="why", extension="c")


def test_a_failure_blocks_what_a_hook_protects_and_nothing_else() -> None:
    """Where failing means no it blocks and says who failed; elsewhere what was patched before is kept."""
    for hook in HOOKS:
        left = fold(
            hook, {"x": 1}, [("a", ModifyOutcome(patch={"x": 2}) if hook != "tool_call" else GO_ON), ("b", FAILED)]
        )
        if hook in FAIL_CLOSED:
            reason = f"{hook} hook failed (fail-closed): the extension b fell over"
            assert left == HookBlocked(reason=reason, extension="b")
        else:
            assert left == {"x": 2}


def test_only_the_owner_changes_the_arguments_of_a_call() -> None:
    """A patch of a tool call counts if the tool is the extension's own and stays the same; a block always does."""
    patch = {"arguments": {"path": "b"}}
    own = ModifyOutcome(patch=patch)
    assert restrict_outcome("gate", "tool_call", CALL, own) == own
    assert (
        restrict_outcome("gate", "tool_call", CALL, ModifyOutcome(patch={**CALL, **patch})) == own
    )  # as the SDK sends it
    for extension, value in (
        ("other", CALL),
        ("ga", CALL),
        ("gate", {**CALL, "tool": "bash"}),
        ("gate", {**CALL, "tool": "gate"}),
        ("gate", {**CALL, "tool": "gate2.look"}),
    ):
        assert restrict_outcome(extension, "tool_call", value, own) is GO_ON
        assert restrict_outcome(extension, "tool_call", value, BlockOutcome()) == BlockOutcome()
    assert restrict_outcome("gate", "tool_call", CALL, ModifyOutcome(patch={"tool": "gate.other", **patch})) is GO_ON
    assert restrict_outcome("other", "tool_result", CALL, ModifyOutcome(patch={"content": "x"})) == ModifyOutcome(
        patch={"content": "x"}
    )


def test_what_a_value_is_about_cannot_be_changed() -> None:
    """No patch makes others believe that it is about another tool, call, message or session."""
    value = {"tool": "bash", "call_id": "c1", "arguments": {"command": "ls"}, "content": "x", "is_error": False}
    lie = {"tool": "read", "call_id": "c2", "session_id": "s", "arguments": {}, "content": "y", "details": {"n": 1}}
    assert fold("tool_result", value, [("a", ModifyOutcome(patch=lie))]) == {
        **value,
        "content": "y",
        "details": {"n": 1},
    }


@pytest.mark.parametrize("patch", [{"arguments": "ls"}, {"arguments": None}, {"arguments": []}])
def test_a_patch_keeps_the_kind_of_what_it_changes(patch: dict[str, Any]) -> None:
    """Arguments stay an object, or the next one asked would judge something else than what runs."""
    assert isinstance(fold("tool_call", CALL, [("gate", ModifyOutcome(patch=patch))]), HookBlocked)
    assert fold("input", {"text": "x", "n": 1, "no": None}, [("a", ModifyOutcome(patch={"n": 1.5, "no": "y"}))]) == {
        "text": "x",
        "n": 1.5,
        "no": "y",
    }


_json = st.recursive(st.none() | st.booleans() | st.integers() | st.text(max_size=3), st.lists, max_leaves=4)
_keys = st.sampled_from(["tool", "call_id", "arguments", "content", "session_id", "x"])
_answers = st.one_of(
    _json,
    st.fixed_dictionaries(
        {"action": st.sampled_from(["continue", "block", "modify", "?"])},
        optional={"patch": st.dictionaries(_keys, _json, max_size=3) | _json, "reason": _json},
    ),
)


@given(st.sampled_from(HOOKS), st.lists(st.tuples(st.sampled_from(["gate", "b"]), _answers), max_size=5))
def test_whatever_is_answered_something_sensible_is_left(hook: HookName, answers: list[tuple[str, Any]]) -> None:
    """The fold never raises, keeps every key there was with its kind, and what the value is about."""
    left = fold(hook, CALL, [(extension, read_outcome(answer)) for extension, answer in answers])
    if isinstance(left, HookBlocked):
        assert left.reason
        return
    assert (left["tool"], left["call_id"]) == (CALL["tool"], CALL["call_id"])
    assert isinstance(left["arguments"], dict)


# --- asking -----------------------------------------------------------------------------------------------------------


async def test_those_who_handle_a_hook_are_asked_in_order(autojump_clock: MockClock) -> None:
    """Each gets the value as the one before left it, with the session; those who do not handle it hear nothing."""
    first = Member({"hooks": ["input"]}, {"action": "modify", "patch": {"text": "one"}})
    silent = Member({"hooks": ["context"]}, {"action": "block"})
    unsaid = Member({}, {"action": "modify", "patch": {"more": [1]}})
    async with gathered(first=first, silent=silent, unsaid=unsaid) as extensions:
        assert [has_participant(extensions[1:2], hook) for hook in ("input", "context")] == [False, True]
        left = await ask(extensions, "input", JsonObject({"text": "none", "deep": {"list": (1, 2)}}))
    assert not isinstance(left, HookBlocked)
    assert JsonObject(left) == JsonObject({"text": "one", "deep": {"list": [1, 2]}, "more": [1]})
    assert [request.params["hook"] for request in (*first.asked, *unsaid.asked)] == ["input", "input"]
    assert first.asked[0].params["input"] == {"text": "none", "deep": {"list": [1, 2]}, "session_id": SESSION}
    assert unsaid.asked[0].params["input"]["text"] == "one"
    assert silent.asked == []


async def test_objects_and_lists_of_a_frozen_value_can_be_changed(autojump_clock: MockClock) -> None:
    """A patch with an object and a list takes the place of a frozen object and a frozen list."""
    patch = {"deep": {"b": [2]}, "list": [3]}
    changing = Member({"hooks": ["input"]}, {"action": "modify", "patch": patch})
    async with gathered(changing=changing) as extensions:
        left = await ask(extensions, "input", JsonObject({"text": "t", "deep": {"a": 1}, "list": [1]}))
    assert left == {"text": "t", **patch}


async def test_an_extension_may_act_in_the_session_while_it_is_asked(autojump_clock: MockClock) -> None:
    """The context of a hook is of the command tier, for this session, and dead when the answer is there."""
    contexts, seen = Contexts(), []

    async def look(request: Request) -> Any:
        await trio.lowlevel.checkpoint()
        context = contexts.require_dispatch("gate", 1, request.params["context"])
        seen.append((context.session_id, context.tier, request.params["context"]["tier"]))
        return {"action": "continue"}

    gate = Member({"hooks": ["tool_call"]}, look)
    async with gathered(gate=gate) as extensions:
        assert await ask(extensions, contexts=contexts) == CALL
    assert seen == [(SESSION, "command", "command")]
    assert contexts.find("gate", 1, gate.asked[0].params["context"]) is None


async def test_nobody_is_asked_after_a_no(autojump_clock: MockClock) -> None:
    """The first block ends it, and says whose it is."""
    first, second = Member({}, {"action": "block", "reason": "never"}), Member({}, {"action": "continue"})
    async with gathered(first=first, second=second) as extensions:
        assert await ask(extensions) == HookBlocked(reason="never", extension="first")
    assert second.asked == []


@pytest.mark.parametrize(
    ("hook", "own", "seconds"), [("tool_call", None, 60), ("input", None, 5), ("input", 250, 0.25)]
)
async def test_silence_has_an_end(hook: HookName, own: int | None, seconds: float, autojump_clock: MockClock) -> None:
    """An extension that does not answer is waited for as long as the hook allows, or as its manifest says."""

    async def hang(_: Request) -> Any:
        await trio.sleep_forever()

    hanging, second = Member({"hooks": [hook]}, hang, hook_timeout_ms=own), Member({}, {"action": "continue"})
    async with gathered(hanging=hanging, second=second) as extensions:
        began = trio.current_time()
        left = await ask(extensions, hook)
        assert trio.current_time() - began == pytest.approx(seconds)
        assert isinstance(left, HookBlocked) == (hook == "tool_call")
        assert len(second.asked) == (hook != "tool_call")
        assert f"no answer to hook within {seconds:g} s" in hanging.notes[-1]
        assert extensions[0].running


@pytest.mark.parametrize("way", ["error", "malformed", "crash", "too_large"])
async def test_failures_mean_no_only_where_something_is_protected(way: str, autojump_clock: MockClock) -> None:
    """An error, an answer that cannot be read and a crash block a tool call, and are passed over elsewhere."""
    value = {**CALL, "arguments": {"text": "x" * limits.MAX_RPC_LINE}} if way == "too_large" else CALL

    async def answer(_: Request) -> Any:
        await trio.lowlevel.checkpoint()
        if way == "error":
            raise RpcFailed(-32000, "so\x1b sorry\n")
        if way == "crash":
            failing.crash()
        return ["?"]

    for hook in ("tool_call", "context"):
        failing = Member({"hooks": ["tool_call", "context"]}, answer)
        async with gathered(failing=failing) as extensions:
            left = await ask(extensions, hook, value)
        assert isinstance(left, HookBlocked) == (hook == "tool_call")
        if isinstance(left, HookBlocked):
            assert left.reason.startswith("tool_call hook failed (fail-closed): the extension failing ")
            assert left.reason.isprintable()
        else:
            assert left == value


async def test_one_that_knows_no_hooks_at_all_stands_in_nobodys_way(autojump_clock: MockClock) -> None:
    """A plain program that never spoke of hooks may say that it knows none; one that declared them may not."""

    async def unknown(_: Request) -> Any:
        await trio.lowlevel.checkpoint()
        raise RpcFailed(METHOD_NOT_FOUND, "what?")

    plain, gate = Member({}, unknown), Member({"hooks": ["tool_call"]}, unknown)
    async with gathered(plain=plain) as extensions:
        assert await ask(extensions) == CALL
    async with gathered(gate=gate) as extensions:
        assert isinstance(await ask(extensions), HookBlocked)


@pytest.mark.parametrize(
    ("registrations", "answer", "closed"),
    [
        ({"hooks": ["tool_call"]}, {"action": "continue"}, True),
        ({"hooks": ["context"]}, {"action": "continue"}, False),
        ({}, {"action": "continue"}, False),
        ({}, {"action": "block"}, True),
        ({}, {"action": "modify", "patch": {}}, True),
    ],
)
async def test_a_dead_one_means_no_only_if_it_guards_something(
    registrations: Any, answer: Any, closed: Any, autojump_clock: MockClock
) -> None:
    """After a crash tool calls are blocked if it had said that it guards them, or has answered with more than a nod."""
    member = Member(registrations, answer)
    async with gathered(member=member) as extensions:
        await ask(extensions)
        member.crash()
        await wait_all_tasks_blocked()
        assert extensions[0].state == "failed"
        asked = len(member.asked)
        assert has_participant(extensions, "tool_call") == closed
        assert isinstance(await ask(extensions), HookBlocked) == closed
        assert not has_participant(extensions, "input")
        assert await ask(extensions, "input", {"text": "x"}) == {"text": "x"}
        assert len(member.asked) == asked


async def test_whoever_gives_up_tells_the_extension(autojump_clock: MockClock) -> None:
    """Cancelling a hook cancels it in the extension, which is as usable as before; its token is dead."""
    contexts, cancelled = Contexts(), []

    async def hang(_: Request) -> Any:
        try:
            await trio.sleep_forever()
        finally:
            cancelled.append(True)

    gate = Member({"hooks": ["tool_call"]}, hang)
    async with gathered(gate=gate) as extensions:
        with trio.move_on_after(1):
            await ask(extensions, contexts=contexts)
        await wait_all_tasks_blocked()
        assert cancelled == [True]
        gate.answer = {"action": "block", "reason": "still here"}
        assert await ask(extensions, contexts=contexts) == HookBlocked(reason="still here", extension="gate")
    assert contexts.find("gate", 1, gate.asked[0].params["context"]) is None


async def test_a_change_of_anothers_call_is_told_to_its_author(autojump_clock: MockClock) -> None:
    """A patch that does not count leaves the call as it was, and a line in the log of who sent it."""
    meddler = Member({}, {"action": "modify", "patch": {"arguments": {"path": "/"}}})
    async with gathered(meddler=meddler) as extensions:
        assert await ask(extensions) == CALL
        assert "ignored" in meddler.notes[-1]
