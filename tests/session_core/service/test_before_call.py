"""The word that a protocol has before each model call."""

from collections.abc import Callable
from typing import Any

import attrs
import pytest

from session_core import limits
from session_core.ids import MessageId
from session_core.protocols.contexts import (
    BeforeCallContext,
    FinishNow,
    RefuseTurn,
    ReplaceRequest,
    SwitchTo,
)
from session_core.protocols.faults import CallbackContextExpired
from session_core.protocols.frames import first_frame
from session_core.providers.base import ModelRequest
from session_core.providers.catalogue import ModelInfo
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import Pause, ScriptedProvider, ScriptedTool, failure, text, tool_call
from session_core.vocabulary import commands as c
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ImagePart, Message, TextPart, Usage
from session_core.vocabulary.sessions import TurnLimits
from tests.session_core.service._helpers import new_session, say, scripted, transcript
from tests.session_core.service._protocols import Watched, texts

Decide = Callable[[BeforeCallContext, ModelRequest], Any]


def deciding(decide: Decide) -> dict[str, Any]:
    """Settings of a service whose protocol decides so."""
    return Watched(before_model_call=decide).settings()


async def test_what_a_protocol_sees() -> None:
    """Before each call a protocol is shown the turn as it is then, and the request as it would be sent."""
    seen: list[tuple[BeforeCallContext, ModelRequest]] = []

    def look(context: BeforeCallContext, request: ModelRequest) -> None:
        seen.append((context, request))

    used = Usage(input_tokens=5, output_tokens=1)
    tool = ScriptedTool("t")
    provider = ScriptedProvider((*tool_call("t")[:-1], *text(usage=used)), text("done"))
    async with open_checked_service(scripted(provider, tools=(tool,), **deciding(look))) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id)
        state = service._core.sessions[session_id].state
        for (context, request), step, usage in zip(seen, (0, 1), (Usage(), used), strict=True):
            assert (context.session_id, context.turn_id) == (session_id, outcome.turn_id)
            assert context.frame == first_frame(session_id, state.created_at)
            assert (context.step, context.usage, context.context_tokens) == (step, usage, usage.tokens)
            assert (context.cwd, context.sandbox) == (state.settings.cwd, state.settings.sandbox)
            assert context.tools == request.tools == (tool.spec,)
        assert [request for _, request in seen] == provider.requests
        with pytest.raises(CallbackContextExpired):
            _ = seen[0][0].processes


async def test_going_on() -> None:
    """A protocol that has nothing to say changes nothing."""
    async with open_checked_service(scripted(text("done"), **deciding(lambda *_: None))) as service:
        outcome = await say(service, await new_session(service))
        assert (outcome.status, outcome.final_text, outcome.steps) == ("completed", "done", 1)


async def test_what_a_shorter_request_needs() -> None:
    """A request that a protocol has made shorter is not taken to need what the whole conversation had needed."""

    def shorten(_: BeforeCallContext, request: ModelRequest) -> ReplaceRequest:
        return ReplaceRequest(request=attrs.evolve(request, messages=request.messages[:1]))

    limits = TurnLimits(tokens=1_000)
    for decide, status in ((lambda *_: None, "limit_reached"), (shorten, "completed")):
        provider = ScriptedProvider((*tool_call("t")[:-1], *text(usage=Usage(input_tokens=900))), text("done"))
        config = scripted(provider, tools=(ScriptedTool("t"),), turn_limits=limits, **deciding(decide))
        async with open_checked_service(config) as service:
            assert (await say(service, await new_session(service))).status == status


async def test_switching_never_asks() -> None:
    """A switch takes the place of the call: the model is not asked about what was before, only about the task."""

    def decide(context: BeforeCallContext, _: ModelRequest) -> SwitchTo | None:
        return SwitchTo(key="next", task="the task", reason="full") if context.frame.key == "initial" else None

    provider = ScriptedProvider(text("done"))
    async with open_checked_service(scripted(provider, **deciding(decide))) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id, "hello")
        assert (outcome.status, outcome.steps, len(provider.requests)) == ("completed", 1, 1)
        assert texts(provider.requests[0].messages) == ("the task",)
        assert await transcript(service, session_id) == [
            ("user", "hello"),
            ("summary", "the task"),
            ("assistant", "done"),
        ]


async def test_finishing() -> None:
    """A protocol can end the turn with an answer of its own, or without one; no model is asked."""
    answers = iter(("It is 4.", ""))
    provider = ScriptedProvider()
    async with open_checked_service(
        scripted(provider, **deciding(lambda *_: FinishNow(text=next(answers))))
    ) as service:
        session_id = await new_session(service)
        first, second = await say(service, session_id), await say(service, session_id)
        assert [(each.status, each.error, each.steps) for each in (first, second)] == [("completed", None, 0)] * 2
        assert (first.final_text, second.final_text, provider.requests) == ("It is 4.", "", [])
        assert await transcript(service, session_id) == [
            ("user", "hello"),
            ("assistant", "It is 4."),
            ("user", "hello"),
        ]


async def test_finishing_with_more_than_a_turn_may_put_out() -> None:
    """An answer of a protocol that is too long as the JSON that was asked for is no output, and the turn fails."""
    schema, answer = JsonObject({"type": "string"}), f'"{"x" * limits.MAX_OUTPUT_BYTES}"'
    async with open_checked_service(scripted(**deciding(lambda *_: FinishNow(text=answer)))) as service:
        session_id = await new_session(service)
        await service.execute(c.SendUserMessage(session_id=session_id, text="go", output_schema=schema))
        outcome = (await service.wait_for_turn(session_id)).outcome
        assert ("failed", None) == (outcome.status, outcome.output)
        assert "It has 4,194,306 bytes, and 4,194,304 are allowed." in (outcome.error or "")


async def test_what_came_meanwhile_is_answered() -> None:
    """A turn that a protocol ends goes on all the same if a message has come meanwhile."""
    provider = ScriptedProvider((Pause("here"), *tool_call("t")), text("done"))

    def decide(context: BeforeCallContext, request: ModelRequest) -> FinishNow | None:
        return FinishNow(text="enough") if request.messages[-1].role == "tool" else None

    config = scripted(provider, tools=(ScriptedTool("t"),), **deciding(decide))
    async with open_checked_service(config) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        await provider.wait_for_pause("here")
        await service.send_user_message(session_id, "and then?")
        provider.release("here")
        outcome = (await service.wait_for_turn(session_id)).outcome
        assert (outcome.status, outcome.final_text) == ("completed", "done")
        assert (await transcript(service, session_id))[-3:] == [
            ("assistant", "enough"),
            ("user", "and then?"),
            ("assistant", "done"),
        ]


@pytest.mark.parametrize(("reason", "told"), [("no money", "no money"), ("", "the protocol refuses this turn")])
async def test_refusing(reason: str, told: str) -> None:
    """A protocol can refuse the turn, which fails for that reason; no model is asked."""
    provider = ScriptedProvider()
    async with open_checked_service(scripted(provider, **deciding(lambda *_: RefuseTurn(reason=reason)))) as service:
        outcome = await say(service, await new_session(service))
        assert (outcome.status, outcome.error, provider.requests) == ("failed", told, [])


NONSENSE: tuple[Any, ...] = (
    "go on",
    SwitchTo(key="", task="x"),
    FinishNow(text=3),  # type: ignore[arg-type]
    ReplaceRequest(request=2),  # type: ignore[arg-type]
)


@pytest.mark.parametrize("nonsense", NONSENSE)
async def test_deciding_nonsense(nonsense: object) -> None:
    """What cannot be done fails the turn, naming the protocol; the next turn runs."""
    given = [nonsense, None]
    async with open_checked_service(scripted(text("ok"), **deciding(lambda *_: given.pop(0)))) as service:
        session_id = await new_session(service)
        outcome = await say(service, session_id)
        kind = type(nonsense).__name__
        reason = f"it returned {kind}, but must return None, or a ReplaceRequest, SwitchTo, FinishNow or RefuseTurn "
        reason += "with fields of the right types"
        assert (outcome.status, outcome.error) == (
            "failed",
            f"the protocol watched failed in before_model_call: {reason}",
        )
        assert (await say(service, session_id)).status == "completed"


# --- asking something else --------------------------------------------------------------------------------------------


async def test_another_request() -> None:
    """A protocol can have another model asked about something else; session and later calls know nothing of it."""
    mine, other = ScriptedProvider(text("after")), ScriptedProvider(text("from the other"))
    given = [True, False]

    def decide(_: BeforeCallContext, request: ModelRequest) -> ReplaceRequest | None:
        shorter = attrs.evolve(request, model="other", messages=request.messages[-1:], system="Else.", cache_key="x")
        return ReplaceRequest(request=shorter) if given.pop(0) else None

    config = scripted(mine, models={"m": mine, "other": other}, **deciding(decide))
    async with open_checked_service(config) as service:
        session_id = await new_session(service)
        first, second = await say(service, session_id, "one"), await say(service, session_id, "two")
        (asked,) = other.requests
        assert (asked.model, texts(asked.messages), asked.system, asked.cache_key) == (
            "other",
            ("one",),
            "Else.",
            session_id,
        )
        assert (first.final_text, second.final_text) == ("from the other", "after")
        snapshot = await service.load_session(session_id)
        assert snapshot.settings.model == "m"
        assert [message.model for message in snapshot.transcript] == [None, "other", None, "m"]
        assert texts(mine.requests[0].messages) == ("one", "from the other", "two")
        assert [(line.model, line.source, line.calls) for line in snapshot.usage_by] == [
            ("other", "turn", 1),
            ("m", "turn", 1),
        ]


async def test_a_model_that_there_is_not() -> None:
    """A protocol can have no model asked that the service does not have."""

    def decide(_: BeforeCallContext, request: ModelRequest) -> ReplaceRequest:
        return ReplaceRequest(request=attrs.evolve(request, model="gone"))

    async with open_checked_service(scripted(**deciding(decide))) as service:
        outcome = await say(service, await new_session(service))
        assert outcome.error == (
            "the protocol watched failed in before_model_call: there is no model called 'gone' here"
        )


async def test_tools_cannot_be_widened() -> None:
    """A request may have fewer tools than the session, never others."""
    one, two, foreign = ScriptedTool("one"), ScriptedTool("two"), ScriptedTool("foreign")
    provider = ScriptedProvider(text("ok"))

    def decide(_: BeforeCallContext, request: ModelRequest) -> ReplaceRequest:
        return ReplaceRequest(request=attrs.evolve(request, tools=(two.spec, foreign.spec)))

    async with open_checked_service(scripted(provider, tools=(one, two), **deciding(decide))) as service:
        await say(service, await new_session(service))
        assert provider.requests[0].tools == (two.spec,)


async def test_a_model_that_can_do_less() -> None:
    """A model that has no tools and sees no images is given none, whatever the protocol asks it."""
    other = ScriptedProvider(text("ok"))
    image = Message(
        message_id=MessageId("msg_i"),
        parent_id=None,
        role="user",
        parts=(ImagePart(media_type="image/png", data="aGk="),),
        created_at=0,
    )

    def decide(_: BeforeCallContext, request: ModelRequest) -> ReplaceRequest:
        return ReplaceRequest(request=attrs.evolve(request, model="other", messages=(image,)))

    infos = {"other": ModelInfo(name="other", provider="p", api_id="o", tools=False, images=False)}
    models = {"m": ScriptedProvider(), "other": other}
    config = scripted(models=models, model_infos=infos, tools=(ScriptedTool("t"),), **deciding(decide))
    async with open_checked_service(config) as service:
        await say(service, await new_session(service))
        (asked,) = other.requests
        assert asked.tools == ()
        assert asked.messages[0].parts == (TextPart(text="[an image, which this model cannot see]"),)


async def test_each_attempt_is_asked_about(autojump_clock: object) -> None:
    """A call that is tried again is asked about again, as things may have changed."""
    factory = Watched()
    async with open_checked_service(scripted(failure("overloaded"), text("ok"), **factory.settings())) as service:
        session_id = await new_session(service)
        assert (await say(service, session_id)).status == "completed"
        assert factory.names() == ["build", "initialize", "restore", "before_model_call", "before_model_call"]
