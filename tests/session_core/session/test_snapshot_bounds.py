"""A snapshot fits into a line: the bounds of everything that the state of a session holds add up to less."""

from collections.abc import Callable
from typing import Any

import attrs

from session_core import limits
from session_core.ids import CallId, ClientId, MessageId, QueueItemId, RequestId, SessionId, TurnId, WakeupId
from session_core.session.message_window import count_window_bytes
from session_core.tools.plan import MAX_PLAN_ITEM_CHARS, MAX_PLAN_ITEMS
from session_core.vocabulary.added_messages import shorten_result
from session_core.vocabulary.extensions import ExtensionDisplay, ExtensionEntry
from session_core.vocabulary.frozen import JsonObject, Rope, Vector
from session_core.vocabulary.messages import (
    FilePart,
    LiveTool,
    Message,
    PartialMessage,
    PartialPart,
    Refusal,
    TextPart,
    ToolProgress,
    ToolResultPart,
    Usage,
    count_max_bytes,
)
from session_core.vocabulary.protocols import ExecutorPoint, ExecutorState, Frame, ProtocolRecord, StateLeaf
from session_core.vocabulary.session_fields import SessionFields
from session_core.vocabulary.sessions import (
    Activity,
    Approval,
    Dialog,
    ForkOrigin,
    PlanItem,
    QueueItem,
    RunningTurn,
    SandboxPolicy,
    Settings,
    StopRequest,
    TurnLimits,
    TurnOutcome,
    UsageLine,
    Wakeup,
)
from session_core.wire.codec import encode

WORST = "\x01"
"""No character takes more in JSON."""
ID = "x" * 40
NAME = WORST * limits.MAX_NAME_CHARS
ERROR = WORST * limits.MAX_ERROR_CHARS
MOST = limits.MAX_INTEGER
MOST_USED: dict[str, Any] = {each.name: MOST for each in attrs.fields(Usage) if each.type is int}
USED = Usage(**MOST_USED)
CALLS = limits.MAX_ANSWER_CHARS // 1_000
"""What an answer has room for: each call counts a thousand characters."""
RUNNING = limits.MAX_TOOLS_AT_ONCE + 2
"""Calls that show output: those of a cell, the cell, and a person's command."""


def json_of(size: int) -> JsonObject:
    """Open JSON that takes exactly so many bytes."""
    return JsonObject({"a": "x" * (size - len('{"a":""}'))})


def message(*parts: Any) -> Message:
    return Message(
        message_id=MessageId(ID),
        parent_id=MessageId(ID),
        role="user",
        parts=parts,
        created_at=MOST,
        turn_id=TurnId(ID),
        model=NAME,
        usage=USED,
        source=NAME,
        queue_item_id=QueueItemId(ID),
    )


def worst_window() -> Vector[Message]:
    """As many messages as the window takes, full of the worst character."""
    room = limits.WINDOW_BYTES // limits.WINDOW_MESSAGES - count_window_bytes([message(TextPart(text=""))])
    messages = Vector([message(TextPart(text=WORST * (room // 6)))] * limits.WINDOW_MESSAGES)
    assert limits.WINDOW_BYTES - 6 * limits.WINDOW_MESSAGES < count_window_bytes(messages) <= limits.WINDOW_BYTES
    return messages


def worst_queue() -> tuple[QueueItem, ...]:
    parts = (TextPart(text=WORST * 1_000_000), FilePart(name="f", text=WORST * 1_000_000))
    room = (limits.MAX_MESSAGE_BYTES - count_max_bytes(parts)) // (limits.MAX_QUEUE_ITEMS - 1)
    small = (TextPart(text=WORST * ((room - 300) // 6)),)
    items = tuple(
        QueueItem(
            item_id=QueueItemId(ID),
            parts=each,
            deliver_as="follow_up",
            queued_at=MOST,
            client_id=ClientId(NAME),
            role="assistant",
            source=NAME,
        )
        for each in (parts, *[small] * (limits.MAX_QUEUE_ITEMS - 1))
    )
    assert 0 <= limits.MAX_MESSAGE_BYTES - sum(count_max_bytes(each.parts) for each in items) < 1_000
    return items


def live_tool(arguments: JsonObject, **more: Any) -> LiveTool:
    return LiveTool(call_id=CallId(ID), name=NAME, arguments=arguments, started_at=MOST, **more)


def worst_tools() -> tuple[LiveTool, ...]:
    """Arguments and results at their bounds, a call of each kind, and as many short results as there can be calls."""
    result = ToolResultPart(
        call_id=CallId(ID),
        name=NAME,
        status="denied",
        text="",
        details=JsonObject({}),
        refusal=Refusal(by="person", reason=ERROR),
    )
    full = limits.MAX_STEP_RESULTS_BYTES - len(encode(result))
    progress = ToolProgress(message=ERROR, progress=0.1234567890123456, details=json_of(limits.MAX_ENTRY_BYTES))
    shown = {"output": WORST * limits.MAX_LIVE_OUTPUT_CHARS, "progress": progress, "child_id": SessionId(ID)}
    return (
        live_tool(json_of(limits.MAX_STEP_ARGUMENTS_BYTES), result=attrs.evolve(result, details=json_of(full))),
        live_tool(JsonObject({"code": WORST * limits.MAX_TEXT_CHARS}), **shown),
        *[live_tool(JsonObject(), **shown)] * (RUNNING - 1),
        *[live_tool(JsonObject(), result=shorten_result(result, 0))] * (CALLS + limits.MAX_CELL_CALLS),
    )


def worst_executor() -> ExecutorState:
    name = WORST * (limits.MAX_EXECUTOR_NAME_CHARS // limits.MAX_EXECUTOR_LEAVES)
    leaves = [StateLeaf(name=name, digest="0" * 64, size=MOST)] * limits.MAX_EXECUTOR_LEAVES
    return ExecutorState(engine=NAME, version=MOST, root=json_of(limits.MAX_EXECUTOR_ROOT_BYTES), leaves=tuple(leaves))


def worst_points() -> tuple[ExecutorPoint, ...]:
    earlier = ExecutorState(engine="", version=1, root=json_of(limits.MAX_EARLIER_STATES_BYTES // 7))
    points = [*[earlier] * (limits.MAX_EXECUTOR_POINTS - 1), worst_executor()]
    return tuple(ExecutorPoint(message_id=MessageId(ID), turn_id=TurnId(ID), state=each) for each in points)


def worst_approval(size: int) -> Approval:
    """One approval takes more than many of the same size together, or as much."""
    return Approval(
        request_id=RequestId(ID),
        call_id=CallId(ID),
        tool_name="",
        summary="",
        arguments=json_of(size - 1_000),
        requested_at=MOST,
        expires_at=MOST,
    )


def worst_dialog(size: int) -> Dialog:
    return Dialog(
        request_id=RequestId(ID), kind="input", title="", message="x" * (size - 500), opened_at=MOST, expires_at=MOST
    )


FRAME = Frame(
    frame_id=ID,
    key=NAME,
    reason=NAME,
    opened_at=MOST,
    first_message_id=MessageId(ID),
    last_message_id=MessageId(ID),
)
PATHS = (WORST * (limits.MAX_SANDBOX_CHARS // 128),) * 64
WORST_FIELDS: dict[str, Callable[[], Any]] = {
    "session_id": lambda: ID,
    "sseq": lambda: MOST,
    "name": lambda: NAME,
    "created_at": lambda: MOST,
    "updated_at": lambda: MOST,
    "archived": lambda: False,
    "deleted": lambda: False,
    "parent_id": lambda: ID,
    "forked_from": lambda: ForkOrigin(session_id=SessionId(ID), message_id=MessageId(ID)),
    "settings": lambda: Settings(
        model=NAME,
        cwd=WORST * limits.MAX_PATH_CHARS,
        sandbox=SandboxPolicy(writable_roots=PATHS, readable=PATHS),
        limits=TurnLimits(steps=MOST, tokens=MOST, cost_micros=MOST, time_ms=MOST),
    ),
    "activity": lambda: Activity(name="awaiting_permission", retry_at=MOST, message=ERROR),
    "messages": worst_window,
    "earlier": lambda: MOST,
    "head": lambda: ID,
    "partial": lambda: PartialMessage(
        message_id=MessageId(ID),
        parent_id=MessageId(ID),
        turn_id=TurnId(ID),
        model=NAME,
        started_at=MOST,
        parts=(PartialPart(kind="text", text=Rope(WORST * limits.MAX_ANSWER_CHARS), tool_name=NAME),),
    ),
    "tools": worst_tools,
    "turn": lambda: RunningTurn(
        turn_id=TurnId(ID),
        started_at=MOST,
        steps=MOST,
        tool_calls=MOST,
        usage=USED,
        output_schema=json_of(limits.MAX_TURN_JSON_BYTES),
        extension=json_of(limits.MAX_TURN_JSON_BYTES),
    ),
    "last_outcome": lambda: TurnOutcome(
        turn_id=TurnId(ID),
        status="completed",
        error=ERROR,
        final_message_id=MessageId(ID),
        final_text=WORST * limits.MAX_FINAL_TEXT_CHARS,
        steps=MOST,
        tool_calls=MOST,
        usage=USED,
        duration_ms=MOST,
        output=json_of(limits.MAX_OUTPUT_BYTES),
    ),
    "stop": lambda: StopRequest(scope="session", by=ClientId(NAME), requested_at=MOST),
    "queue": worst_queue,
    "approvals": lambda: (worst_approval(limits.MAX_APPROVAL_BYTES),),
    "dialogs": lambda: (worst_dialog(limits.MAX_DIALOG_BYTES),),
    "grants": lambda: (WORST * (limits.MAX_GRANT_CHARS // limits.MAX_GRANTS),) * limits.MAX_GRANTS,
    "wakeups": lambda: (
        *[Wakeup(wakeup_id=WakeupId(ID), text="", due_at=MOST)] * (limits.MAX_WAKEUPS - 1),
        Wakeup(wakeup_id=WakeupId(ID), text=WORST * limits.MAX_WAKEUP_CHARS, due_at=MOST),
    ),
    "usage": lambda: USED,
    "usage_by": lambda: (UsageLine(model=NAME, source=NAME, calls=MOST, usage=USED),) * limits.MAX_USAGE_LINES,
    "context_tokens": lambda: MOST,
    "plan": lambda: (PlanItem(text=WORST * (limits.MAX_PLAN_BYTES // 6)),),
    "displays": lambda: (
        (
            ExtensionDisplay(
                extension=NAME,
                status=WORST * limits.MAX_SUMMARY_CHARS,
                widget=json_of(limits.MAX_WIDGET_BYTES),
                title=WORST * limits.MAX_SUMMARY_CHARS,
            ),
        )
        * limits.MAX_DISPLAYS
    ),
    "entries": lambda: (
        (ExtensionEntry(extension=NAME, entry=json_of(limits.MAX_ENTRY_BYTES), at=MOST),) * limits.MAX_ENTRIES
    ),
    "protocol": lambda: ProtocolRecord(name=NAME, version=MOST, options=json_of(limits.MAX_PROTOCOL_OPTIONS_BYTES)),
    "frames": lambda: (
        attrs.evolve(FRAME, options=json_of(limits.MAX_PROTOCOL_OPTIONS_BYTES)),
        *(FRAME,) * (limits.MAX_FRAMES - 1),
    ),
    "frame_id": lambda: ID,
    "executor": worst_executor,
    "executor_points": worst_points,
    "executor_lost": lambda: False,
    "driver_memory": lambda: json_of(limits.MAX_DRIVER_MEMORY_BYTES),
}


def test_the_worst_snapshot_fits() -> None:
    """With every field at its bound at once, at six bytes for a character, the snapshot is no longer than a line."""
    assert [each.name for each in attrs.fields(SessionFields)] == list(WORST_FIELDS)
    sizes = {name: len(encode(build())) for name, build in WORST_FIELDS.items()}
    around = sum(len(name) + len('"":,') for name in sizes) + 1_000

    assert sum(sizes.values()) + around <= limits.MAX_SNAPSHOT_BYTES, sizes
    assert sum(sizes.values()) > limits.MAX_SNAPSHOT_BYTES * 7 // 8, "the bound may be lower"


def test_the_usual_plan_fits() -> None:
    """The longest plan that the tool accepts is within the bound of all plans."""
    plan = (PlanItem(text=WORST * MAX_PLAN_ITEM_CHARS, status="in_progress"),) * MAX_PLAN_ITEMS

    assert len(encode(plan)) <= limits.MAX_PLAN_BYTES


def test_the_longest_arguments_of_an_answer_can_be_asked_about() -> None:
    """One approval has room for all that a model writes, at four bytes for a character, and for what is shown."""
    approval = attrs.evolve(
        worst_approval(4 * limits.MAX_ANSWER_CHARS),
        shown=WORST * limits.MAX_SHOWN_CHARS,
        summary=WORST * limits.MAX_SUMMARY_CHARS,
        reason=ERROR,
        grant=WORST * limits.MAX_SHOWN_CHARS,
    )

    assert len(encode((approval,))) <= limits.MAX_APPROVAL_BYTES
