"""What messages carry besides text, what turns are bound to, and answers that fit what is asked."""

import pytest
from trio.testing import wait_all_tasks_blocked

from session_core import limits
from session_core.errors import Conflict, InvalidInput, NotFound
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import Hang, ScriptedProvider, ScriptedTool, text, tool_call
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import FilePart, ImagePart, TextPart, Usage
from session_core.vocabulary.sessions import PlanItem, TurnLimits, UsageLine
from tests.session_core.service._helpers import new_session, say, scripted

FILE = FilePart(name="notes.txt", text="remember the milk")
IMAGE = ImagePart(media_type="image/png", data="AAAA")


async def test_attachments_reach_the_model() -> None:
    """Files and pictures are parts of the message, after its text; a message may also have no text."""
    provider = ScriptedProvider(text("one"), text("two"))
    async with open_checked_service(scripted(provider)) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "look", files=(FILE,), images=(IMAGE,))
        await service.wait_for_turn(session_id)
        await service.send_user_message(session_id, "", files=(FILE,))
        await service.wait_for_turn(session_id)
        said = [message.parts for message in provider.requests[-1].messages if message.role == "user"]
        assert [(TextPart(text="look"), FILE, IMAGE), (FILE,)] == said


@pytest.mark.parametrize(
    ("attached", "field", "told"),
    [
        ({"files": (FilePart(name="", text="x"),)}, "files", "must not be empty"),
        ({"files": (FilePart(name="a", text="\ud800"),)}, "files", "surrogate"),
        ({"files": (FilePart(name="\udfff", text=""),)}, "files", "surrogate"),
        ({"files": (FilePart(name="a", text="x" * (limits.MAX_TEXT_CHARS + 1)),)}, "files", "characters together"),
        ({"files": (FILE,) * limits.MAX_PARTS_PER_MESSAGE}, "files", "per message"),
        ({"images": (IMAGE,) * limits.MAX_PARTS_PER_MESSAGE}, "images", "per message"),
        ({"images": (ImagePart(media_type="image/png", data="not base64!"),)}, "images", "base64"),
        ({"images": (ImagePart(media_type="image/png", data=""),)}, "images", "base64"),
    ],
)
async def test_attachments_have_bounds(attached: dict[str, object], field: str, told: str) -> None:
    """A message with attachments that are too many, too large or no text is refused, naming the field."""
    async with open_checked_service(scripted()) as service:
        session_id = await new_session(service)
        with pytest.raises(InvalidInput, match=told) as refused:
            await service.send_user_message(session_id, "look", **attached)  # type: ignore[arg-type]
        assert field == refused.value.field
        assert 0 == len((await service.load_session(session_id)).messages)


async def test_the_largest_picture_is_answered() -> None:
    """A picture of the allowed size, which is larger than the window, is an attachment like any other."""
    largest = ImagePart(media_type="image/png", data="QUJD" * (limits.MAX_IMAGE_BYTES // 3))
    async with open_checked_service(scripted(text("fine"), text("and again"))) as service:
        session_id = await new_session(service)
        for _ in range(2):
            await service.send_user_message(session_id, "look", images=(largest,))
            assert "completed" == (await service.wait_for_turn(session_id)).outcome.status


async def test_a_message_fits_into_a_frame() -> None:
    """A message whose text, files and images are too large together is refused, at six bytes for a character."""
    image = ImagePart(media_type="image/png", data="QUJD" * 1_500_000)
    file = FilePart(name="a", text="x" * limits.MAX_TEXT_CHARS)
    async with open_checked_service(scripted(text("fine"))) as service:
        session_id = await new_session(service)
        with pytest.raises(InvalidInput, match="the message may take") as refused:
            await service.send_user_message(session_id, "x" * 900_000, files=(file,), images=(image,))
        assert "images" == refused.value.field
        await service.send_user_message(session_id, "x" * 700_000, files=(file,), images=(image,))
        assert "completed" == (await service.wait_for_turn(session_id)).outcome.status


async def test_editing_a_waiting_message_keeps_its_files() -> None:
    """A message rewritten in the queue loses its text and pictures to the new ones, but no attached file."""
    async with open_checked_service(scripted(Hang())) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        queued = await service.send_user_message(session_id, "old", files=(FILE,), images=(IMAGE,))
        assert queued.queue_item_id is not None
        await service.edit_queue_item(session_id, queued.queue_item_id, "new")
        (item,) = (await service.load_session(session_id)).queue
        assert (TextPart(text="new"), FILE) == item.parts


# --- answers of a shape -----------------------------------------------------------------------------------------------

SCHEMA = JsonObject({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]})


async def test_an_answer_of_a_shape_comes_with_the_outcome() -> None:
    """A turn that was asked for JSON of a schema ends with the value in its outcome."""
    async with open_checked_service(scripted(text('{"n": 3}'))) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "count", output_schema=SCHEMA)
        outcome = (await service.wait_for_turn(session_id)).outcome
        assert ("completed", JsonObject({"n": 3})) == (outcome.status, outcome.output)


async def test_a_schema_that_cannot_be_used_is_refused() -> None:
    """A schema that is none is refused with the reason before anything is said."""
    async with open_checked_service(scripted()) as service:
        session_id = await new_session(service)
        with pytest.raises(InvalidInput, match="not a JSON schema that can be used") as refused:
            await service.send_user_message(session_id, "count", output_schema=JsonObject({"type": "number of cats"}))
        assert "output_schema" == refused.value.field
        assert 0 == len((await service.load_session(session_id)).messages)


async def test_a_schema_needs_a_turn_of_its_own() -> None:
    """While a turn runs, or for the next turn, a message with a schema is refused rather than queued without it."""
    async with open_checked_service(scripted(Hang())) as service:
        session_id = await new_session(service)
        with pytest.raises(Conflict, match="the session must be idle"):
            await service.send_user_message(session_id, "later", output_schema=SCHEMA, deliver_as="next_turn")
        await service.send_user_message(session_id, "go")
        with pytest.raises(Conflict, match="the session must be idle"):
            await service.send_user_message(session_id, "count", output_schema=SCHEMA)
        assert () == (await service.load_session(session_id)).queue


# --- settings of a session --------------------------------------------------------------------------------------------


async def test_thinking_and_limits_are_settings() -> None:
    """A session is made with its own thinking and limits, or those of the service; a switch may change one."""
    config = scripted(text("ok"), thinking="low", turn_limits=TurnLimits(steps=9))
    async with open_checked_service(config) as service:
        plain = (await service.load_session(await new_session(service))).settings
        assert ("low", TurnLimits(steps=9)) == (plain.thinking, plain.limits)
        session_id = await new_session(service, thinking="high", limits=TurnLimits(tokens=5))
        await service.switch_model(session_id, "m")
        own = (await service.load_session(session_id)).settings
        assert ("high", TurnLimits(tokens=5)) == (own.thinking, own.limits)
        await service.switch_model(session_id, "m", thinking="off")
        assert "off" == (await service.load_session(session_id)).settings.thinking


@pytest.mark.parametrize("bounds", [TurnLimits(steps=0), TurnLimits(tokens=-1), TurnLimits(time_ms=0)])
async def test_limits_of_nothing_are_refused(bounds: TurnLimits) -> None:
    """Limits must leave something to do."""
    async with open_checked_service(scripted()) as service:
        with pytest.raises(InvalidInput, match="at least 1") as refused:
            await service.create_session(limits=bounds)
        assert ("limits", 0) == (refused.value.field, service.statistics().sessions)


async def test_a_limit_ends_the_turn_and_is_named() -> None:
    """A turn over its limit ends as errored, with the limit in words."""
    use = Usage(input_tokens=50)
    answer = (*tool_call("look")[:-1], *text(usage=use))
    config = scripted(answer, text("never said"), tools=(ScriptedTool("look"),))
    async with open_checked_service(config) as service:
        session_id = await new_session(service, limits=TurnLimits(tokens=50))
        outcome = await say(service, session_id)
        assert ("limit_reached", "stopped after 50 tokens; the limit is 50") == (outcome.status, outcome.error)


# --- approvals --------------------------------------------------------------------------------------------------------


async def test_an_answer_to_something_else_is_refused() -> None:
    """An answer bound to another call than the one asked about is refused, and the approval stays open."""
    change = ScriptedTool("change", effects=("write",))
    async with open_checked_service(scripted(tool_call("change"), text("ok"), tools=(change,))) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        await wait_all_tasks_blocked()
        (approval,) = (await service.load_session(session_id)).approvals
        with pytest.raises(Conflict, match="read the approval again") as refused:
            await service.answer_approval(session_id, approval.request_id, "allow_once", fingerprint="0" * 64)
        assert "fingerprint" == refused.value.field
        assert (approval,) == (await service.load_session(session_id)).approvals
        with pytest.raises(NotFound):
            await service.answer_approval(session_id, "req_x", "allow_once")  # type: ignore[arg-type]
        answer = await service.answer_approval(
            session_id, approval.request_id, "allow_once", fingerprint=approval.fingerprint
        )
        assert answer.accepted
        assert "completed" == (await service.wait_for_turn(session_id)).outcome.status
        assert 1 == len(change.calls)


async def test_a_refusal_may_say_why() -> None:
    """What a person writes with a refusal reaches the model with the result of the call."""
    change = ScriptedTool("change", effects=("write",))
    provider = ScriptedProvider(tool_call("change"), text("ok"))
    async with open_checked_service(scripted(provider, tools=(change,))) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "go")
        await wait_all_tasks_blocked()
        (approval,) = (await service.load_session(session_id)).approvals
        await service.answer_approval(session_id, approval.request_id, "deny", message="use the other file")
        await service.wait_for_turn(session_id)
        assert "The user says: use the other file" in repr(provider.requests[1].messages[-1])
        assert [] == change.calls


# --- what a snapshot shows --------------------------------------------------------------------------------------------


async def test_a_snapshot_shows_plan_and_usage() -> None:
    """The plan, what was used by model and purpose, and how full the context is are part of the state."""
    use, more = Usage(input_tokens=10, output_tokens=2), Usage(input_tokens=20, output_tokens=3)
    plan = PlanItem(text="look around", status="in_progress")

    async def make_plan(_arguments: JsonObject, context: object) -> str:
        context.host.set_plan((plan,))  # type: ignore[attr-defined]
        return "planned"

    answer = (*tool_call("plan")[:-1], *text(usage=use))
    tools = (ScriptedTool("plan", run=make_plan),)
    async with open_checked_service(scripted(answer, text("ok", usage=more), tools=tools)) as service:
        session_id = await new_session(service)
        await say(service, session_id)
        state = await service.load_session(session_id)
        assert ((plan,), more.tokens, use.plus(more)) == (state.plan, state.context_tokens, state.usage)
        assert (UsageLine(model="m", source="turn", calls=2, usage=use.plus(more)),) == state.usage_by
