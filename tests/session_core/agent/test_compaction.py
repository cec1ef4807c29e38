"""Summaries that are made by themselves when a conversation fills its model's context, and those people ask for."""

from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from session_core import limits
from session_core.agent.compaction import INSTRUCTION, MAX_REPEATED_CHARS
from session_core.agent.hooks import Blocked, HookName
from session_core.ids import SessionId
from session_core.providers.base import ModelFailed, TextChunk
from session_core.service.config import ServiceConfig
from session_core.service.service import SessionService
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import Hang, Pause, ScriptedAnswer, ScriptedProvider, ScriptedTool, failure, text
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import Message, ToolCallPart, ToolResultPart
from session_core.vocabulary.sessions import TurnLimits
from tests.session_core.agent._models import PRICES, calling, info, used
from tests.session_core.service._helpers import new_session, of_type, said, say, scripted, trace, transcript

FULL = 900
"""Tokens that are beyond the threshold of the model in these tests; `LITTLE` are not."""
LITTLE = 100


def config(provider: ScriptedProvider, **settings: Any) -> ServiceConfig:
    """A service whose model holds a thousand tokens."""
    return scripted(provider, model_infos=info(context_tokens=1_000, prices=PRICES), **settings)


def asks_for_summary(messages: tuple[Message, ...]) -> bool:
    """Whether a model was asked for a summary."""
    return INSTRUCTION == messages[-1].text


def check_pairs(service: SessionService, session_id: SessionId) -> list[str]:
    """Each compaction that began has ended, before the next and before its turn; returns how."""
    ends: list[str] = []
    running = False
    for event in trace(service, session_id):
        match event:
            case ev.CompactionStarted():
                assert not running
                running = True
            case ev.CompactionFinished(status=status):
                assert running
                running = False
                ends.append(status)
            case ev.TurnEnded():
                assert not running
            case _:
                pass
    assert not running
    return ends


async def test_at_the_threshold() -> None:
    """A conversation that has filled its context is summarised before the next answer; one below is left alone."""
    provider = ScriptedProvider(
        text("one", usage=used(799)), text("two", usage=used(800)), text("in short", usage=used(50)), text("three")
    )
    async with open_checked_service(config(provider)) as service:
        session_id = await new_session(service)
        await say(service, session_id, "a")
        await say(service, session_id, "b")
        assert [] == check_pairs(service, session_id)
        assert "completed" == (await say(service, session_id, "c")).status
        assert ["completed"] == check_pairs(service, session_id)
        summary = "in short\n\nThe newest message of the user, word for word:\nc"
        assert [("summary", summary)] == said(provider.requests[3].messages)
        assert asks_for_summary(provider.requests[2].messages)
        roles = [role for role, _ in await transcript(service, session_id)]
        assert ["user", "assistant", "user", "assistant", "user", "summary", "assistant"] == roles


async def test_a_model_that_tells_no_usage() -> None:
    """A conversation is summarised in time also when the provider never says how long it is."""
    provider = ScriptedProvider(text("a" * 2_400), text("in short"), text("two"))
    async with open_checked_service(config(provider)) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        assert (await service.load_session(session_id)).context_tokens > 800
        assert "two" == (await say(service, session_id)).final_text
        assert ["completed"] == check_pairs(service, session_id)
        usage = (await service.load_session(session_id)).usage_by
        assert [("turn", True), ("compaction", True)] == [(line.source, line.usage.estimated) for line in usage]


async def test_a_summary_that_says_nothing_is_counted_too() -> None:
    """What a summary has used that came to nothing is counted like that of any other."""
    refused = ModelFailed(kind="refused", message="no", usage=used(9))
    provider = ScriptedProvider(text("one", usage=used(5)), text(usage=used(7)), (refused,))
    async with open_checked_service(config(provider)) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        for _ in range(2):
            await service.compact_context(session_id)
            await wait_all_tasks_blocked()
        assert ["failed", "failed"] == check_pairs(service, session_id)
        snapshot = await service.load_session(session_id)
        lines = {line.source: (line.calls, line.usage.tokens, line.usage.cost_micros) for line in snapshot.usage_by}
        assert {"turn": (1, 5, 5), "compaction": (2, 16, 16)} == lines


@pytest.mark.parametrize("stopped", [False, True])
async def test_a_summary_that_broke_off_is_guessed(stopped: bool) -> None:  # noqa: FBT001
    """A summary that ended half-way, also by a stop, counts as guessed when the provider tells nothing."""
    end = Hang() if stopped else ModelFailed(kind="refused", message="no")
    provider = ScriptedProvider(text("one", usage=used(5)), (TextChunk(text="x" * 300), end))
    async with open_checked_service(config(provider)) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        await service.compact_context(session_id)
        await wait_all_tasks_blocked()
        if stopped:
            await service.request_stop(session_id)
            await wait_all_tasks_blocked()
        (line,) = [each for each in (await service.load_session(session_id)).usage_by if each.source == "compaction"]
        assert (1, 100, True) == (line.calls, line.usage.output_tokens, line.usage.estimated)


async def test_a_summary_that_the_turn_cannot_pay_for() -> None:
    """A turn whose limit would not hold a summary makes none, and ends with the limit as its reason."""
    provider = ScriptedProvider(calling("t", FULL), text("never"))
    settings = {"tools": (ScriptedTool("t"),), "turn_limits": TurnLimits(tokens=FULL + 50)}
    async with open_checked_service(config(provider, **settings)) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id)
        assert ("limit_reached", ["failed"]) == (outcome.status, check_pairs(service, session_id))
        assert 1 == len(provider.requests)


async def test_the_threshold_is_a_setting() -> None:
    """People can have summaries made earlier."""
    provider = ScriptedProvider(text("one", usage=used(500)), text("in short"), text("two"))
    async with open_checked_service(config(provider, compact_at=0.5)) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        await say(service, session_id)
        assert ["completed"] == check_pairs(service, session_id)


async def test_in_the_middle_of_a_turn() -> None:
    """A turn that fills the context with its tools goes on from a summary, as often as it takes."""
    provider = ScriptedProvider(
        calling("t", FULL),
        text("summary one"),
        calling("t", LITTLE),
        calling("t", FULL),
        text("summary two"),
        text("done", usage=used(LITTLE)),
    )
    tool = ScriptedTool("t", run="found")
    async with open_checked_service(config(provider, tools=(tool,))) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id, "go")
        assert ("completed", "done", 3) == (outcome.status, outcome.final_text, outcome.tool_calls)
        assert ["completed", "completed"] == check_pairs(service, session_id)
        assert [4, 2] == [outcome.steps, len(of_type(service, session_id, ev.UsageRecorded))]
    asked = [request for request in provider.requests if asks_for_summary(request.messages)]
    assert [(), ()] == [request.tools for request in asked]
    parts = [part for request in asked for message in request.messages for part in message.parts]
    assert not any(isinstance(part, ToolCallPart | ToolResultPart) for part in parts)
    assert any("[the tool t gave (success)]\nfound" in message.text for message in asked[0].messages)


async def test_a_summary_that_does_not_help() -> None:
    """If the context is full again right after a summary, another one would not help, and none is made."""
    provider = ScriptedProvider(
        calling("t", FULL), text("long"), calling("t", FULL), calling("t", FULL), text("done", usage=used(FULL))
    )
    async with open_checked_service(config(provider, tools=(ScriptedTool("t"),))) as service:
        session_id = await new_session(service)
        assert "completed" == (await say(service, session_id)).status
        assert ["completed"] == check_pairs(service, session_id)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (failure("auth", "no key"), "auth: no key"),
        (text(" \n"), "the summary is empty"),
        (text("half")[:1], "ended early"),
    ],
)
async def test_a_summary_that_fails(answer: ScriptedAnswer, why: str) -> None:
    """Without a summary the turn goes on with the conversation as it is, and readers are told why there is none."""
    provider = ScriptedProvider(text("one", usage=used(FULL)), answer, text("two"))
    async with open_checked_service(config(provider)) as service:
        session_id = await new_session(service)
        await say(service, session_id, "a")
        assert "completed" == (await say(service, session_id, "b")).status
        (finished,) = of_type(service, session_id, ev.CompactionFinished)
        assert ("failed", None) == (finished.status, finished.summary)
        assert why in (finished.error or "")
        expected = [("user", "a"), ("assistant", "one"), ("user", "b"), ("assistant", "two")]
        assert expected == await transcript(service, session_id)
        assert expected[:3] == said(provider.requests[2].messages)


async def test_a_summary_before_which_the_thinking_does_not_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that thinks without end instead of summarising is given up, and the turn goes on."""
    monkeypatch.setattr(limits, "MAX_ANSWER_CHARS", 100)
    endless = text("in short", thinking="hm" * 100)
    async with open_checked_service(
        config(ScriptedProvider(text("1", usage=used(FULL)), endless, text("2")))
    ) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        assert "completed" == (await say(service, session_id)).status
        (finished,) = of_type(service, session_id, ev.CompactionFinished)
        assert "failed" == finished.status
        assert "exceeds the length limit" in (finished.error or "")


@pytest.mark.usefixtures("quiet_log")
async def test_a_compactor_with_a_bug() -> None:
    """What a compactor raises in the middle of a turn does not end the turn."""

    async def broken(messages: tuple[Message, ...]) -> str:
        await trio.lowlevel.checkpoint()
        raise ExceptionGroup("many", [ValueError("no \ud800 idea")])

    provider = ScriptedProvider(text("one", usage=used(FULL)), text("two"))
    async with open_checked_service(config(provider, compactor=broken)) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        assert "completed" == (await say(service, session_id)).status
        assert ["failed"] == check_pairs(service, session_id)


async def test_a_summary_that_is_itself_too_long() -> None:
    """A model that finds the conversation too long even for a summary is given less of it."""
    provider = ScriptedProvider(
        calling("t", LITTLE), text("one", usage=used(FULL)), failure("context_too_long"), text("in short"), text("two")
    )
    config_ = config(provider, tools=(ScriptedTool("t", run="x" * 3_000),))
    async with open_checked_service(config_) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        assert "completed" == (await say(service, session_id)).status
        assert ["completed"] == check_pairs(service, session_id)
    first, second = [sum(len(message.text) for message in request.messages) for request in provider.requests[2:4]]
    assert second < first


@pytest.mark.parametrize("again", [False, True])
async def test_stopped_in_the_middle(again: bool) -> None:  # noqa: FBT001
    """A stop ends a summary that is being made: it has an end, the turn was stopped, the conversation is as before."""
    provider = ScriptedProvider(text("one", usage=used(FULL)), Hang(), text("in short"), text("two"))
    async with open_checked_service(config(provider)) as service:
        session_id = await new_session(service)
        await say(service, session_id, "a")
        await service.send_user_message(session_id, "b")
        await wait_all_tasks_blocked()
        assert "compacting" == (await service.load_session(session_id)).activity.name
        await service.request_stop(session_id)
        assert "stopped" == (await service.wait_for_turn(session_id)).outcome.status
        assert ["stopped"] == check_pairs(service, session_id)
        assert [("user", "a"), ("assistant", "one"), ("user", "b")] == await transcript(service, session_id)
        if again:
            assert "completed" == (await say(service, session_id, "c")).status
            assert ["stopped", "completed"] == check_pairs(service, session_id)


async def test_ended_with_the_service() -> None:
    """A service that ends in the middle of a summary leaves nothing open."""
    provider = ScriptedProvider(text("one", usage=used(FULL)), Hang())
    async with open_checked_service(config(provider)) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        await service.send_user_message(session_id, "b")
        await wait_all_tasks_blocked()
    assert 1 == len(check_pairs(service, session_id))


async def test_steering_meanwhile() -> None:
    """What people say while a summary is being made is answered after it."""
    provider = ScriptedProvider(
        calling("t", FULL), (Pause("summary"), *text("in short")), calling("t", LITTLE), text("done")
    )
    async with open_checked_service(config(provider, tools=(ScriptedTool("t"),))) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        await provider.wait_for_pause("summary")
        await service.send_user_message(session_id, "left!", deliver_as="steer")
        provider.release("summary")
        assert "completed" == (await service.wait_for_turn(session_id)).outcome.status
        roles = [role for role, _ in await transcript(service, session_id)]
        assert ["user", "assistant", "tool", "summary", "assistant", "tool", "user", "assistant"] == roles


async def test_usage_is_counted_by_its_source() -> None:
    """What a summary uses is counted for the turn and the session, and told apart from answers."""
    provider = ScriptedProvider(
        text("one", usage=used(FULL)), text("in short", usage=used(7)), text("two", usage=used(5))
    )
    async with open_checked_service(config(provider)) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        assert (12, 12) == ((outcome := await say(service, session_id)).usage.tokens, outcome.usage.cost_micros)
        snapshot = await service.load_session(session_id)
        lines = {line.source: (line.calls, line.usage.tokens) for line in snapshot.usage_by}
        assert {"turn": (2, FULL + 5), "compaction": (1, 7)} == lines
        assert 5 == snapshot.context_tokens


async def test_history_stays() -> None:
    """People still see the whole conversation; its beginning is only left out of what the model gets."""
    provider = ScriptedProvider(text("one", usage=used(FULL)), text("in short"), text("two"))
    async with open_checked_service(config(provider)) as service:
        session_id = await new_session(service)
        await say(service, session_id, "a" * (MAX_REPEATED_CHARS + 5))
        await say(service, session_id, "b" * (MAX_REPEATED_CHARS + 5))
        whole = await transcript(service, session_id)
        assert [MAX_REPEATED_CHARS + 5, 3, MAX_REPEATED_CHARS + 5] == [len(words) for _, words in whole[:3]]
        role, words = whole[3]
        assert ("summary", "b" * MAX_REPEATED_CHARS) == (role, words[-MAX_REPEATED_CHARS:])
        assert "a" * 10 not in words


class NoSummaries:
    """Hooks that do not want summaries."""

    def __init__(self) -> None:
        self.asked: list[JsonObject] = []

    def handles(self, hook: HookName) -> bool:
        return hook == "session_before_compact"

    async def run(self, hook: HookName, session_id: SessionId, value: JsonObject) -> JsonObject | Blocked:
        self.asked.append(value)
        return Blocked(reason="not now")


async def test_an_extension_says_no() -> None:
    """An extension can keep a conversation from being summarised; it is told whether anybody asked for it."""
    hooks = NoSummaries()
    provider = ScriptedProvider(text("one", usage=used(FULL)), text("two", usage=used(LITTLE)))
    async with open_checked_service(config(provider, hooks=hooks)) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        assert "completed" == (await say(service, session_id)).status
        await service.compact_context(session_id)
        await wait_all_tasks_blocked()
        errors = [event.error for event in of_type(service, session_id, ev.CompactionFinished)]
        assert ["the summary could not be made: an extension refused it: not now"] * 2 == errors
        assert 2 == len(provider.requests)
    assert [JsonObject({"automatic": True}), JsonObject({"automatic": False})] == hooks.asked


async def test_asked_for_by_people() -> None:
    """A summary that people ask for repeats nothing: everything has been answered."""
    provider = ScriptedProvider(text("one"), text("in short", usage=used(7)), text("two"))
    async with open_checked_service(config(provider)) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        await service.compact_context(session_id)
        await wait_all_tasks_blocked()
        assert ("summary", "in short") == (await transcript(service, session_id))[-1]
        await say(service, session_id, "b")
        assert [("summary", "in short"), ("user", "b")] == said(provider.requests[2].messages)
        assert ["completed"] == check_pairs(service, session_id)
