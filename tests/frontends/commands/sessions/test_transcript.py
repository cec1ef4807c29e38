"""A conversation as a terminal shows it."""

import attrs
import pytest

import session_core as sc
from frontends.commands.sessions.transcript import TranscriptFormat, head_lines, message_lines, tail_lines
from frontends.shared.figures import clock_time
from frontends.shared.style import Style
from session_core.vocabulary.frozen import Rope
from tests.frontends._kept import NOW

SETTING = TranscriptFormat(style=Style(), now=NOW, width=80)
TURN = sc.TurnId("turn_1")
CALL = sc.CallId("call_1")
CLOCK = clock_time(NOW, NOW)
ARGUMENTS = sc.JsonObject({"path": "."})


def message(number: int, role: str, *parts: sc.Part, turn: sc.TurnId | None = TURN) -> sc.Message:
    return sc.Message(
        message_id=sc.MessageId(f"msg_{number}"),
        parent_id=sc.MessageId(f"msg_{number - 1}") if number > 1 else None,
        role=role,  # type: ignore[arg-type]
        parts=parts,
        created_at=NOW,
        turn_id=turn,
        model="demo" if role == "assistant" else None,
    )


def result(status: str = "success") -> sc.ToolResultPart:
    return sc.ToolResultPart(call_id=CALL, name="look", status=status, text="a\nb")  # type: ignore[arg-type]


def snapshot(*messages: sc.Message, **changes: object) -> sc.SessionSnapshot:
    state = sc.SessionState(session_id=sc.SessionId("ses_1"), name="fix it", updated_at=NOW - 180_000)
    state.settings = sc.Settings(model="demo", cwd="/srv/project")
    state.messages = sc.Vector(messages)
    state.head = messages[-1].message_id if messages else None
    made = state.snapshot(sc.Cursor(epoch=sc.Epoch("e"), seq=0))
    return attrs.evolve(made, **changes)  # type: ignore[arg-type]


def test_the_head() -> None:
    """A conversation begins with its name and a line of facts."""
    one = message(1, "user", sc.TextPart(text="hello"))

    assert ["fix it", "7k2f · idle · 1 message · 3 min ago · demo · /srv/project"] == head_lines(
        SETTING, snapshot(one), "7k2f", abandoned=False
    )


def test_the_head_of_one_that_was_left_running() -> None:
    """What runs nowhere although it never ended is interrupted; archived ones say so."""
    running = snapshot(activity=sc.Activity(name="streaming"), archived=True)

    assert "7k2f · interrupted · archived · 0 messages" in head_lines(SETTING, running, "7k2f", abandoned=True)[1]
    assert "7k2f · answering · archived · 0 messages" in head_lines(SETTING, running, "7k2f", abandoned=False)[1]


def test_a_turn_is_one_answer() -> None:
    """Who speaks is said once per turn; thoughts, tool calls and texts stand in their order."""
    call = sc.ToolCallPart(call_id=CALL, name="look", arguments=ARGUMENTS)
    messages = [
        message(1, "user", sc.TextPart(text="look around")),
        message(2, "assistant", sc.ThinkingPart(text="hm\nwell"), call),
        message(3, "tool", result()),
        message(4, "assistant", sc.TextPart(text="Two things.\n\n- a\n- b\n")),
        message(5, "user", sc.TextPart(text="thanks"), turn=sc.TurnId("turn_2")),
    ]

    assert [
        "",
        f"you {CLOCK}",
        "look around",
        "",
        f"demo {CLOCK}",
        "✻ hm",
        "well",
        "✓ look . · 2 lines",
        "Two things.",
        "",
        "- a",
        "- b",
        "",
        f"you {CLOCK}",
        "thanks",
    ] == message_lines(SETTING, messages, snapshot())


def test_what_was_said_in_your_place() -> None:
    """Messages that the protocol, or an extension, has put in the user's place are not said to be the user's."""
    messages = [
        attrs.evolve(message(number, "user", sc.TextPart(text="Sure?")), source=source)
        for number, source in enumerate((None, "review", "gate"))
    ]
    lines = message_lines(attrs.evolve(SETTING, protocol="review"), messages, snapshot())
    assert [f"you {CLOCK}", f"protocol review says {CLOCK}", f"gate asks for you {CLOCK}"] == lines[1::3]


def test_the_newest_messages_may_begin_with_a_tool() -> None:
    """Results whose call is left out still know what they were called with."""
    assert ["", "✓ look . · 2 lines"] == message_lines(
        SETTING,
        [message(3, "tool", result())],
        snapshot(message(2, "assistant", sc.ToolCallPart(call_id=CALL, name="look", arguments=ARGUMENTS))),
    )


def test_summaries_images_and_cut_answers() -> None:
    """A summary says what it is, an image that it is one, and an answer that was cut short why."""
    lines = message_lines(
        SETTING,
        [
            message(1, "summary", sc.TextPart(text="They met."), turn=None),
            message(2, "user", sc.ImagePart(media_type="image/png", data="aGk=")),
            message(3, "assistant", sc.TextPart(text="It sh"), sc.InterruptedPart(reason="stopped")),
        ],
        snapshot(),
    )

    assert f"summary of the conversation so far {CLOCK}" in lines
    assert "(PNG image, 3 bytes)" in lines
    assert ["It sh", "■ stopped here"] == lines[-2:]


def test_nothing_foreign_steers_the_terminal() -> None:
    """Texts, thoughts, names and results lose their escape codes, but keep their lines."""
    evil = "a\x1b[2J\x1b]0;t\x07\r\nb\u202e"
    lines = message_lines(
        SETTING,
        [
            message(1, "user", sc.TextPart(text=evil)),
            message(2, "assistant", sc.ThinkingPart(text=evil), sc.TextPart(text=evil)),
        ],
        snapshot(),
    )
    named = head_lines(SETTING, snapshot(name=evil), "7k2f", abandoned=False)

    assert ["a", "b<U+202E>"] == lines[2:4]
    assert not any("\x1b" in line or "\r" in line for line in [*lines, *named])


def test_an_answer_being_written() -> None:
    """While another process runs the session, the unfinished answer and its tools are shown as far as they are."""
    partial = sc.PartialMessage(
        message_id=sc.MessageId("msg_9"),
        parent_id=None,
        turn_id=TURN,
        model="demo",
        started_at=NOW,
        parts=(
            sc.PartialPart(kind="thinking", text=Rope("hm")),
            sc.PartialPart(kind="text", text=Rope("1 2 ")),
            sc.PartialPart(kind="tool_call", text=Rope('{"pa')),
        ),
    )
    tool = sc.LiveTool(call_id=CALL, name="look", arguments=ARGUMENTS, started_at=NOW)
    running = snapshot(partial=partial, tools=(tool,), activity=sc.Activity(name="streaming"))
    assert ["", "demo, cut short", "✻ hm", "1 2"] == tail_lines(SETTING, running, abandoned=True)[:4]

    assert ["", "demo is writing", "✻ hm", "1 2", "● look . has begun"] == tail_lines(SETTING, running, abandoned=False)
    assert tail_lines(SETTING, running, abandoned=True)[-1].startswith("✗ interrupted: the program that ran it")


def test_what_waits() -> None:
    """Open approvals and queued messages are part of the picture."""
    approval = sc.Approval(
        request_id=sc.RequestId("req_1"),
        call_id=CALL,
        tool_name="write",
        summary="",
        arguments=ARGUMENTS,
        requested_at=NOW,
        expires_at=NOW,
    )
    item = sc.QueueItem(
        item_id=sc.QueueItemId("q_1"), parts=(sc.TextPart(text="and then"),), deliver_as="follow_up", queued_at=NOW
    )
    waiting = snapshot(approvals=(approval,), queue=(item,), activity=sc.Activity(name="awaiting_permission"))

    assert ['? write(path=".") waits for approval', "(queued: and then)"] == tail_lines(
        SETTING, waiting, abandoned=False
    )


@pytest.mark.parametrize(
    ("activity", "status", "lines"),
    [
        ("idle", "completed", []),
        ("stopped", "stopped", ["", "■ stopped after 1.0 s: there was no answer yet · 0 steps"]),
        ("interrupted", "interrupted", ["", "✗ interrupted after 1.0 s: the service ended · 0 steps"]),
    ],
)
def test_the_outcome_if_it_matters(activity: str, status: str, lines: list[str]) -> None:
    """A turn that did not end well is told at the end, and one that did needs no words."""
    outcome = sc.TurnOutcome(turn_id=TURN, status=status, duration_ms=1_000)  # type: ignore[arg-type]
    ended = snapshot(activity=sc.Activity(name=activity), last_outcome=outcome)  # type: ignore[arg-type]

    assert lines == tail_lines(SETTING, ended, abandoned=True)


def test_attached_files_and_answers_cut_short() -> None:
    """Files that went along with a message are named, and an answer that was too long says so."""
    said = message(1, "user", sc.TextPart(text="look"), sc.FilePart(name="a\x1b[31m.log", text="x\ny\n"))
    cut = message(2, "assistant", sc.TextPart(text="It"), sc.InterruptedPart(reason="max_tokens"))
    lines = message_lines(SETTING, [said, cut], snapshot())

    assert "(a file: a.log, 2 lines)" in lines
    assert "■ the answer reached its length limit" in lines


def test_cost_and_plan() -> None:
    """The head tells what a session has cost, and its end what is left of the plan."""
    plan = (sc.PlanItem(text="look", status="done"), sc.PlanItem(text="fix"))
    costly = snapshot(usage=sc.Usage(input_tokens=1, cost_micros=250_000), plan=plan)

    assert " · demo · $0.25 · /srv" in head_lines(SETTING, costly, "7k2f", abandoned=False)[1]
    assert ["", "Plan: 1 of 2 done", "  ✓ look", "  · fix"] == tail_lines(SETTING, costly, abandoned=False)
    assert [] == tail_lines(SETTING, snapshot(plan=plan[:1]), abandoned=False), "nothing is left of this one"
