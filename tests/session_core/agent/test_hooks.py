"""The places where extensions take part: each is called, and what comes back is taken in as far as it makes sense."""

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from session_core.agent.hooks import NO_HOOKS, Blocked, HookName, ask_before_user_command, run_context_hook
from session_core.errors import Forbidden
from session_core.ids import CallId, MessageId, SessionId, new_session_id
from session_core.service.config import ServiceConfig
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import ScriptedProvider, ScriptedTool, text, tool_call
from session_core.vocabulary.frozen import JsonObject, thaw_json
from session_core.vocabulary.messages import Message, Refusal, TextPart, ToolCallPart, ToolResultPart
from tests.session_core.service._helpers import new_session, said, say, scripted

Answer = Callable[[dict[str, Any]], dict[str, Any] | Blocked]


class RecordingHooks:
    """Notes what it is asked, and answers as it was told to, else with the value as it came."""

    def __init__(self, **answers: Answer) -> None:
        self.calls: list[tuple[HookName, dict[str, Any]]] = []
        self._answers = answers

    def handles(self, hook: HookName) -> bool:
        return True

    async def run(self, hook: HookName, session_id: SessionId, value: JsonObject) -> JsonObject | Blocked:
        plain: dict[str, Any] = thaw_json(value)
        self.calls.append((hook, plain))
        answer = self._answers[hook](plain) if hook in self._answers else plain
        return answer if isinstance(answer, Blocked) else JsonObject(answer)

    def of(self, hook: HookName) -> list[dict[str, Any]]:
        """What it was asked at one place."""
        return [value for name, value in self.calls if name == hook]


def hooked(hooks: RecordingHooks, *answers: Any, **settings: Any) -> tuple[ScriptedProvider, ServiceConfig]:
    """A service with hooks and one tool."""
    provider = ScriptedProvider(*(answers or (tool_call("t", {"a": 1}), text("done"))))
    tools = (ScriptedTool("t", run="found"), ScriptedTool("u"))
    return provider, scripted(provider, hooks=hooks, **{"tools": tools, "system_prompt": "be kind", **settings})


async def test_every_place_is_called() -> None:
    """In a turn with a tool and a summary after it, each place is asked at its moment with what it is about."""
    hooks = RecordingHooks()
    _, config = hooked(hooks, tool_call("t", {"a": 1}), text("done"), text("in short"))
    async with open_checked_service(config) as service:
        session_id = await new_session(service)
        await say(service, session_id, "hi")
        first, called, *_, last = (await service.load_session(session_id)).transcript
        await service.compact_context(session_id)
        await wait_all_tasks_blocked()
        turn = [name for name, _ in hooks.calls]
        assert [
            "input",
            "before_agent_start",
            "context",
            "before_provider_request",
            "message_end",
            "tool_call",
            "tool_result",
            "context",
            "before_provider_request",
            "message_end",
        ] == turn[:10]
        assert ["session_before_compact"] == turn[10:]
        call_id = called.tool_calls[0].call_id
    assert [{"text": "hi"}] == hooks.of("input")
    assert [{"system_prompt": "be kind"}] == hooks.of("before_agent_start")
    assert [{"id": first.message_id, "role": "user", "content": "hi"}] == hooks.of("context")[0]["messages"]
    assert {"model": "m", "thinking": "off", "max_output_tokens": None, "tools": ["t", "u"]} == hooks.of(
        "before_provider_request"
    )[0]
    assert [{"tool": "t", "call_id": call_id, "arguments": {"a": 1}}] == hooks.of("tool_call")
    result = {"tool": "t", "call_id": call_id, "arguments": {"a": 1}, "content": "found", "is_error": False}
    assert [result] == hooks.of("tool_result")
    assert {"message_id": last.message_id, "role": "assistant", "content": "done"} == hooks.of("message_end")[1]


async def test_another_branch() -> None:
    """A change of branch is asked about, and can be forbidden."""
    hooks = RecordingHooks(session_before_tree=lambda _: Blocked(reason="stay here"))
    _, config = hooked(hooks, text("one"), text("two"))
    async with open_checked_service(config) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        first = (await service.load_session(session_id)).transcript[0]
        with pytest.raises(Forbidden, match="stay here"):
            await service.edit_message(session_id, first.message_id, "other words")
        assert [{"action": "EditMessage", "message_id": first.message_id}] == hooks.of("session_before_tree")
        assert 1 == len(hooks.of("input"))


async def test_input_is_changed_or_refused() -> None:
    """What a user says may be rewritten, or not let in at all."""
    hooks = RecordingHooks(
        input=lambda value: Blocked(reason="rude") if value["text"] == "bad" else {"text": f"<{value['text']}>"}
    )
    provider, config = hooked(hooks, text("one"))
    async with open_checked_service(config) as service:
        session_id = await new_session(service)
        with pytest.raises(Forbidden, match="rude"):
            await service.send_user_message(session_id, "bad")
        await say(service, session_id, "hi")
    assert [("user", "<hi>")] == said(provider.requests[0].messages)


async def test_the_prompt_is_changed() -> None:
    """The system prompt can be changed, once per turn."""
    hooks = RecordingHooks(before_agent_start=lambda value: {"system_prompt": f"{value['system_prompt']} and short"})
    provider, config = hooked(hooks)
    async with open_checked_service(config) as service:
        await say(service, await new_session(service))
    assert ["be kind and short"] * 2 == [request.system for request in provider.requests]


@pytest.mark.parametrize("nonsense", [{}, {"system_prompt": 5}, {"system_prompt": None}])
async def test_nonsense_changes_nothing(nonsense: dict[str, Any]) -> None:
    """Whatever comes back that makes no sense leaves things as they were; so does a no where none can be said."""
    provider, config = hooked(
        RecordingHooks(
            before_agent_start=lambda _: nonsense,
            context=lambda _: {"messages": nonsense},
            before_provider_request=lambda _: {"max_output_tokens": True, "thinking": "a lot", "tools": 5},
            tool_call=lambda _: {"arguments": "none"},
            tool_result=lambda _: {"content": 5, "is_error": "no"},
            message_end=lambda _: Blocked(reason="too late"),
        )
    )
    plain, plain_config = hooked(RecordingHooks(context=lambda _: Blocked(reason="no")))
    for each in (config, plain_config):
        async with open_checked_service(each) as service:
            assert "completed" == (await say(service, await new_session(service))).status
    for changed, unchanged in zip(provider.requests, plain.requests, strict=True):
        assert (changed.system, changed.tools, changed.thinking, changed.max_output_tokens) == (
            unchanged.system,
            unchanged.tools,
            unchanged.thinking,
            unchanged.max_output_tokens,
        )
        assert [[type(part) for part in message.parts] for message in changed.messages] == [
            [type(part) for part in message.parts] for message in unchanged.messages
        ]


async def test_the_request_is_changed() -> None:
    """How long and how thoroughly a model answers, and which tools it gets, can be changed; none can be added."""
    hooks = RecordingHooks(
        before_provider_request=lambda _: {"max_output_tokens": 50, "thinking": "low", "tools": ["u", "made_up"]}
    )
    provider, config = hooked(hooks, text("done"))
    async with open_checked_service(config) as service:
        await say(service, await new_session(service))
    request = provider.requests[0]
    assert (50, "low", ["u"]) == (request.max_output_tokens, request.thinking, [tool.name for tool in request.tools])


async def test_tools_are_kept_by_earlier_names() -> None:
    """A hook that keeps a tool by the name it had before keeps the tool."""
    hooks = RecordingHooks(before_provider_request=lambda _: {"tools": ["shell"]})
    provider, config = hooked(hooks, text("done"), tools=(ScriptedTool("bash"), ScriptedTool("u")))
    async with open_checked_service(config) as service:
        await say(service, await new_session(service))
    assert ["bash"] == [tool.name for tool in provider.requests[0].tools]


async def test_a_call_is_blocked_or_changed() -> None:
    """A tool call can be forbidden with a reason, and run with other arguments, which are checked like any."""
    tool = ScriptedTool("t", run="found")
    for answer, status, ran in (
        (lambda _: Blocked(reason="not today"), "denied", []),
        (lambda _: {"arguments": {"a": 2}}, "success", [JsonObject({"a": 2})]),
    ):
        tool.calls.clear()
        provider, config = hooked(RecordingHooks(tool_call=answer), tools=(tool,))
        async with open_checked_service(config) as service:
            await say(service, await new_session(service))
        (result,) = provider.requests[1].messages[-1].parts
        assert isinstance(result, ToolResultPart)
        assert (status, ran) == (result.status, tool.calls)
        if status == "denied":
            assert "Blocked by an extension: not today" == result.text
            assert Refusal(by="extension", reason="not today") == result.refusal


async def test_a_result_is_changed() -> None:
    """What a model sees of a result can be changed, and whether it counts as a failure; it is cleaned like any."""
    hooks = RecordingHooks(tool_result=lambda _: {"content": "hidden \ud800", "is_error": True, "details": {"a": 1}})
    provider, config = hooked(hooks)
    async with open_checked_service(config) as service:
        await say(service, await new_session(service))
    (result,) = provider.requests[1].messages[-1].parts
    assert isinstance(result, ToolResultPart)
    assert ("error", "hidden ?", JsonObject({"a": 1})) == (result.status, result.text, result.details)


# --- what a model is shown --------------------------------------------------------------------------------------------


def conversation() -> tuple[Message, ...]:
    """A question, a tool call, its result, an answer, another question."""
    call = ToolCallPart(call_id=CallId("c"), name="t", arguments=JsonObject())
    result = ToolResultPart(call_id=CallId("c"), name="t", status="success", text="found")
    spoken: tuple[tuple[Any, tuple[Any, ...]], ...] = (
        ("user", (TextPart(text="one"),)),
        ("assistant", (TextPart(text="let me see"), call)),
        ("tool", (result,)),
        ("assistant", (TextPart(text="two"),)),
        ("user", (TextPart(text="three"),)),
    )
    return tuple(
        Message(message_id=MessageId(f"m{number}"), parent_id=None, role=role, parts=parts, created_at=number)
        for number, (role, parts) in enumerate(spoken)
    )


async def shown(answer: Any) -> tuple[Message, ...]:
    """What is left of the conversation after a hook has answered with these messages."""
    hooks = RecordingHooks(context=lambda value: {"messages": answer(value["messages"])})
    return await run_context_hook(hooks, new_session_id(), conversation())


async def test_messages_are_left_out_changed_and_added() -> None:
    """An entry that is gone is left out; other words are put in place; a new entry is a message of the user."""
    assert conversation()[3:] == await shown(lambda messages: messages[3:])
    changed = await shown(lambda messages: [{**messages[0], "content": "uno"}, *messages[1:]])
    assert ("uno", conversation()[1:]) == (changed[0].text, changed[1:])
    emptied = await shown(lambda messages: [*messages[:3], {**messages[3], "content": ""}, messages[4]])
    assert [0, 1, 2, 4] == [message.created_at for message in emptied]
    added = await shown(lambda messages: [*messages, {"role": "system", "content": "by the way"}])
    assert (*said(conversation()), ("user", "by the way")) == tuple(said(added))
    assert conversation() == await shown(lambda messages: [*messages, {"role": "user", "content": ""}])


@pytest.mark.parametrize(
    "answer",
    [
        lambda _: [],
        lambda _: [5, "x", {"id": "m0"}],
        lambda messages: [messages[0], messages[1]],
        lambda messages: [messages[0], messages[2]],
        lambda messages: [messages[2], messages[1]],
        lambda messages: [messages[1], {"role": "user", "content": "in between"}, messages[2]],
    ],
    ids=["nothing", "no messages", "a call alone", "a result alone", "turned round", "torn apart"],
)
async def test_a_conversation_that_no_model_takes(answer: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A conversation that is empty, or whose calls and results do not belong together, is sent as it was."""
    assert conversation() == await shown(answer)
    assert "no model accepts; the original is sent" in caplog.text


@given(kept=st.lists(st.integers(0, 4)), schedule=st.random_module())
async def test_calls_keep_their_results(kept: list[int], schedule: object) -> None:
    """Whatever a hook keeps, in whatever order and however often, each call a model is sent has its result."""
    messages = await shown(lambda given: [given[place] for place in kept])
    assert messages
    for before, after in zip((None, *messages), (*messages, None), strict=True):
        calls = [call.call_id for call in before.tool_calls] if before is not None else []
        parts = after.parts if after is not None else ()
        assert calls == [part.call_id for part in parts if isinstance(part, ToolResultPart)]


async def test_nobody_takes_part() -> None:
    """Without hooks nothing is asked and nothing changes."""
    session_id = new_session_id()
    assert conversation() == await run_context_hook(NO_HOOKS, session_id, conversation())
    assert JsonObject({"a": 1}) == await NO_HOOKS.run("tool_call", session_id, JsonObject({"a": 1}))
    assert None is await ask_before_user_command(NO_HOOKS, session_id, "ls")


async def test_a_command_of_the_user() -> None:
    """A command that the user typed can be forbidden."""
    hooks = RecordingHooks(user_bash=lambda value: Blocked(reason=f"not {value['command']}"))
    assert Blocked(reason="not rm") == await ask_before_user_command(hooks, new_session_id(), "rm")
