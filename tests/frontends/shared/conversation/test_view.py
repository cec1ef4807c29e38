"""What `session-core run` shows: each character once, in the right stream, in lines that do not collide."""

from collections.abc import Iterator
from itertools import count

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

import session_core as sc
from frontends.shared.conversation import work_lines
from frontends.shared.conversation.view import Piece, View
from frontends.shared.figures import usage_figures
from frontends.shared.style import Style

PLAIN = Style()
SESSION = sc.SessionId("ses_test")
ANSWER = sc.MessageId("msg_answer")
TURN = sc.TurnId("turn_test")
CALL = sc.CallId("call_test")
ev = sc.events


def view(*, shared: bool = False, live: bool = False) -> View:
    return View(PLAIN, PLAIN, shared=shared, live=live)


def envelopes(*events: sc.Event) -> Iterator[sc.SessionEvent]:
    numbers = count(1)
    for event in events:
        number = next(numbers)
        yield sc.SessionEvent(number, number, SESSION, 1_000, event)


def shown(screen: View, *events: sc.Event) -> list[Piece]:
    for envelope in envelopes(*events):
        screen.event(envelope)
    return screen.take_pieces()


def texts(pieces: list[Piece]) -> dict[str, str]:
    return {target: "".join(text for to, text in pieces if to == target) for target in ("out", "err")}


def part(kind: str, *chunks: str) -> list[sc.Event]:
    assert kind in {"text", "thinking", "tool_call"}
    started = ev.PartStarted(message_id=ANSWER, kind=kind)  # type: ignore[arg-type]
    return [started, *(ev.PartDelta(message_id=ANSWER, text=chunk) for chunk in chunks)]


def result(status: str = "success", text: str = "one\ntwo") -> sc.ToolResultPart:
    return sc.ToolResultPart(call_id=CALL, name="look", status=status, text=text)  # type: ignore[arg-type]


def answer(*parts: sc.Part, message_id: sc.MessageId = ANSWER) -> sc.Message:
    return sc.Message(message_id=message_id, parent_id=None, role="assistant", parts=parts, created_at=0, turn_id=TURN)


def snapshot_of(*events: sc.Event) -> sc.SessionSnapshot:
    state = sc.SessionState(session_id=SESSION)
    for envelope in envelopes(ev.TurnStarted(turn_id=TURN), *events):
        state.apply(envelope)
    return state.snapshot(sc.Cursor(epoch=sc.Epoch("run_test"), seq=state.sseq))


def test_answer_and_thoughts_go_apart() -> None:
    """The answer goes to stdout and the thoughts to stderr, each as it comes."""
    pieces = shown(view(), *part("thinking", "Let ", "me see."), *part("text", "It ", "is so."))

    assert [
        ("err", "✻ "),
        ("err", "Let "),
        ("err", "me see."),
        ("out", "It "),
        ("out", "is so."),
    ] == pieces


def test_streams_that_meet_do_not_collide() -> None:
    """In one terminal whoever speaks next begins a new line."""
    screen = view(shared=True)
    pieces = shown(screen, *part("thinking", "hm"), *part("text", "yes"), ev.ToolCallFinished(result=result()))
    screen.finish()

    assert "✻ hm\nyes\n✓ look · 2 lines\n" == "".join(text for _, text in [*pieces, *screen.take_pieces()])


def test_the_answer_ends_its_line() -> None:
    """At the end stdout ends with a newline, and an answer that brought one gets no second."""
    first, second = view(), view()
    shown(first, *part("text", "yes"))
    first.finish()
    shown(second, *part("text", "yes\n"))
    second.finish()

    assert [("out", "\n")] == first.take_pieces()
    assert [] == second.take_pieces()


def test_tool_calls_are_one_line_with_arguments() -> None:
    """A finished tool call is one line with its subject and its gist, and is shown once."""
    call = sc.ToolCallPart(
        call_id=CALL, name="look", arguments=sc.JsonObject({"path": "a b", "deep": [1, {"x": None}]})
    )
    pieces = shown(
        view(),
        ev.MessageCompleted(message=answer(call)),
        ev.ToolCallFinished(result=result()),
        ev.ToolCallFinished(result=result()),
    )

    assert [("err", "✓ look a b · 2 lines\n")] == pieces


def test_tool_arguments_are_not_streamed() -> None:
    """The JSON of a tool call's arguments never reaches the screen as it is written."""
    assert [] == shown(view(), *part("tool_call", '{"path"', ': "x"}'))


def test_a_withdrawn_answer_is_said_to_be_withdrawn() -> None:
    """An answer that was shown and then withdrawn is marked, and one nobody saw is not."""
    gone = ev.MessageDiscarded(message_id=ANSWER, reason="overloaded")

    assert "withdrawn" in texts(shown(view(), *part("text", "half"), gone))["err"]
    assert [] == shown(view(), gone)


def test_a_retry_says_when() -> None:
    """A model call that is tried again says why and in how long."""
    failed = ev.ModelCallFailed(kind="rate_limited", message="Slow down.", attempt=1, retry_at=2_500)

    assert [("err", "↻ Slow down (rate_limited); trying again in 1.5 s\n")] == shown(view(), failed)


def test_the_status_line_gives_way() -> None:
    """On a live terminal the activity is shown and erased before anything else is written."""
    waiting = ev.ActivityChanged(activity=sc.Activity(name="waiting_for_model"))
    pieces = shown(view(shared=True, live=True), waiting, *part("text", "hi"))

    assert [("err", "waiting for the model…"), ("err", "\r\x1b[K"), ("out", "hi")] == pieces
    assert [] == shown(view(), waiting)


def test_hostile_chunks_are_harmless() -> None:
    """An escape sequence that is cut into chunks does not reach the terminal."""
    pieces = shown(view(), *part("text", "a\x1b", "[31", "mb\x1b]0;x", "y\x07c"))

    assert "abc" == texts(pieces)["out"]


@given(st.lists(st.text("ab ", min_size=1, max_size=4), min_size=1, max_size=12), st.data())
def test_a_lag_repeats_nothing_and_loses_nothing(chunks: list[str], data: st.DataObject) -> None:
    """However much was missed, the snapshot brings exactly the rest of the answer to stdout."""
    before, after = sorted(data.draw(st.tuples(st.integers(0, len(chunks)), st.integers(0, len(chunks)))))
    started = ev.MessageStarted(message_id=ANSWER, parent_id=None, turn_id=TURN, model="m")
    screen = view()
    pieces = shown(screen, started, *part("thinking", "hm"), *part("text", *chunks[:before]))
    screen.catch_up(snapshot_of(started, *part("thinking", "hm"), *part("text", *chunks[:after])), 7)
    pieces += screen.take_pieces()
    pieces += shown(screen, *(ev.PartDelta(message_id=ANSWER, text=chunk) for chunk in chunks[after:]))

    said = texts(pieces)
    assert "".join(chunks) == said["out"].replace("\n", "")
    assert said["err"].startswith("✻ hm")
    assert 1 == said["err"].count("hm")
    assert "fell behind by 7 events" in said["err"]


def test_a_lag_over_finished_messages_and_tools() -> None:
    """Whatever was finished during a lag is shown: the rest of the answer, tool calls with results, the next answer."""
    call = sc.ToolCallPart(call_id=CALL, name="look", arguments=sc.JsonObject({"path": "."}))
    later = sc.MessageId("msg_later")
    committed = ev.ToolResultsCommitted(
        message_id=sc.MessageId("msg_tool"), parent_id=ANSWER, turn_id=TURN, call_ids=(CALL,)
    )
    screen = view()
    before = shown(screen, *part("text", "I lo"))
    screen.catch_up(
        snapshot_of(
            ev.MessageCompleted(message=answer(sc.TextPart(text="I look."), call)),
            ev.ToolCallStarted(call_id=CALL, name="look", arguments=call.arguments),
            ev.ToolCallFinished(result=result()),
            committed,
            ev.MessageCompleted(
                message=sc.Message(
                    message_id=later,
                    parent_id=sc.MessageId("msg_tool"),
                    role="assistant",
                    parts=(sc.TextPart(text="Found."),),
                    created_at=0,
                )
            ),
        ),
        None,
    )
    said = texts([*before, *screen.take_pieces()])

    assert "I look.\nFound." == said["out"]
    assert 1 == said["err"].count("✓ look . · 2 lines\n")


def test_a_lag_over_a_withdrawal() -> None:
    """An answer that is gone after a lag is said to be withdrawn."""
    screen = view()
    shown(screen, *part("text", "half"))
    screen.catch_up(snapshot_of(), 3)

    assert "withdrawn" in texts(screen.take_pieces())["err"]


def test_a_lag_in_an_old_session_repeats_nothing_old() -> None:
    """What a session held before the turn is not shown again after a lag, and not called withdrawn when it leaves."""
    old = [
        ev.MessageCompleted(message=answer(sc.TextPart(text="Old."), message_id=sc.MessageId("msg_old"))),
        ev.MessageCompleted(message=answer(sc.TextPart(text="Gone."), message_id=sc.MessageId("msg_gone"))),
    ]
    screen = view()
    screen.begin_after(snapshot_of(*old))
    shown(screen, *part("text", "Ne"))
    screen.catch_up(snapshot_of(old[0], ev.MessageCompleted(message=answer(sc.TextPart(text="New.")))), 5)
    said = texts(screen.take_pieces())

    assert ("w.", False) == (said["out"], "withdrawn" in said["err"])


@pytest.mark.parametrize(
    ("status", "error", "interrupted", "line"),
    [
        ("completed", None, False, "✓ completed in 1.2 s · 2 steps · 1 tool call · 1,000 tokens in, 5 out"),
        ("stopped", None, True, "■ stopped after 1.2 s: the partial answer was kept (2 words) · "),
        ("failed", "no\nway", False, "✗ failed after 1.2 s: no way · "),
        ("interrupted", None, False, "✗ interrupted after 1.2 s: the service ended · "),
        ("limit_reached", "too many steps", False, "✗ ended after 1.2 s: too many steps · "),
    ],
)
def test_outcomes_in_one_line(status: str, error: str | None, interrupted: bool, line: str) -> None:  # noqa: FBT001
    """Each way a turn can end has its own truthful line with figures."""
    outcome = sc.TurnOutcome(
        turn_id=TURN,
        status=status,  # type: ignore[arg-type]
        error=error,
        steps=2,
        tool_calls=1,
        usage=sc.Usage(input_tokens=1_000, output_tokens=5),
        duration_ms=1_200,
    )
    said = answer(sc.TextPart(text="one two"), *([sc.InterruptedPart(reason="stopped")] if interrupted else []))

    assert work_lines.outcome_line(PLAIN, outcome, said).startswith(line)


def test_a_stop_before_the_first_word() -> None:
    """A stop that kept nothing does not claim to have kept something."""
    outcome = sc.TurnOutcome(turn_id=TURN, status="stopped", steps=1, duration_ms=20)

    assert "■ stopped after 20 ms: there was no answer yet · 1 step" == work_lines.outcome_line(PLAIN, outcome, None)


@pytest.mark.parametrize(
    ("status", "text", "line"),
    [
        ("error", "no such\x1b[31m file", "✗ look · failed: no such file"),
        ("denied", "Do not try it again.", "■ look · not allowed"),
        ("success", "", "✓ look · no output"),
        ("success", "x" * 100, f"✓ look · {'x' * 59}…"),
    ],
)
def test_tool_results_in_one_line(status: str, text: str, line: str) -> None:
    """Failures, denials, empty and long results each fit one safe line."""
    assert line == work_lines.tool_line(PLAIN, result(status, text), None)


def test_a_denial_says_why() -> None:
    """The line about a denied call has the reason, if anybody gave one."""
    for refusal, line in (
        (sc.Refusal(by="rule", reason="it is late"), "■ look · not allowed: it is late"),
        (sc.Refusal(by="extension", reason="no\x1b[2J"), "■ look · not allowed: Blocked by an extension: no"),
        (sc.Refusal(by="person"), "■ look · not allowed"),
    ):
        assert line == work_lines.tool_line(PLAIN, attrs.evolve(result("denied"), refusal=refusal), None)


@pytest.mark.parametrize(
    ("text", "details", "ending"),
    [
        ("ok\n[exit code 0]", {"exit_code": 0}, "✓ look · 2 lines"),
        ("a\nError 1\x1b[2J\n[exit code 2]", {"exit_code": 2, "timed_out": False}, "✗ look · exit code 2: Error 1"),
        ("(no output)\n[exit code 1]", {"exit_code": 1}, "✗ look · exit code 1"),
        ("ok\n[exit code 0]", {"exit_code": 0, "unconfined": True}, "✓ look · 2 lines [no sandbox]"),
        ("x\n[lost; kept]\n[ended]", {"exit_code": -9, "timed_out": True}, "✗ look · ended at its time limit: x"),
    ],
)
def test_a_command_says_how_it_ran(text: str, details: dict[str, sc.JsonValue], ending: str) -> None:
    """A failed command has a cross, its exit code and its last line; one that had no sandbox says so."""
    part = sc.ToolResultPart(call_id=CALL, name="look", status="success", text=text, details=sc.JsonObject(details))

    assert ending == work_lines.tool_line(PLAIN, part, None)


STEPS = (sc.PlanItem(text="look", status="done"), sc.PlanItem(text="fix\x1b[31m it", status="in_progress"))
CHILD = sc.SessionId("ses_0123456789abcdef")


def test_a_plan_is_a_checklist() -> None:
    """A change of the plan shows what is done, what is being done and what is left; the tool's own line is left out."""
    done = sc.ToolResultPart(call_id=CALL, name="plan", status="success", text="the plan has 3 steps")
    plan = (*STEPS, sc.PlanItem(text="tell"))
    pieces = shown(view(), ev.PlanChanged(plan=plan), ev.ToolCallFinished(result=done), ev.PlanChanged(plan=plan))

    assert {"out": "", "err": "Plan: 1 of 3 done\n  ✓ look\n  ● fix it\n  · tell\n"} == texts(pieces)


def test_a_long_plan_is_cut() -> None:
    """Of a long plan the part around what is next is shown, and how much is not."""
    plan = [sc.PlanItem(text=f"step {number}", status="done" if number < 20 else "pending") for number in range(50)]
    lines = work_lines.plan_lines(PLAIN, plan)

    assert ("Plan: 20 of 50 done", "  (19 steps before)", "  ✓ step 19", "  · step 20") == tuple(lines[:4])
    assert "  (and 19 more steps)" == lines[-1]


def test_a_helper_from_its_beginning_to_its_end() -> None:
    """A child session is named by its title and id when it begins, and again with what became of it."""
    arguments = sc.JsonObject({"title": "count\x1b[31m words", "prompt": "..."})
    ended = sc.ToolResultPart(call_id=CALL, name="task", status="success", text="There are 7.")
    pieces = shown(
        view(),
        ev.ToolCallStarted(call_id=CALL, name="task", arguments=arguments),
        ev.TaskStarted(call_id=CALL, child_id=CHILD),
        ev.ToolCallFinished(result=ended),
    )

    called = 'subagent 89abcdef "count words"'
    assert {"out": "", "err": f"● {called} has begun\n✓ {called} · There are 7.\n"} == texts(pieces)


def test_a_helper_and_a_plan_after_a_lag() -> None:
    """What a lag has swallowed of helpers and plans is made up for once."""
    arguments = sc.JsonObject({"title": "count", "prompt": "..."})
    events = (
        ev.ToolCallStarted(call_id=CALL, name="task", arguments=arguments),
        ev.TaskStarted(call_id=CALL, child_id=CHILD),
        ev.PlanChanged(plan=STEPS),
    )
    screen = view()
    for _ in range(2):
        screen.catch_up(snapshot_of(*events), 3)
    said = texts(screen.take_pieces())["err"]

    assert (1, 1) == (said.count('● subagent 89abcdef "count" has begun'), said.count("Plan: 1 of 2 done"))


def test_summaries_and_restored_files_are_told() -> None:
    """A summary that took the place of a conversation, one that failed, and files that came back are a line each."""
    pieces = shown(
        view(),
        ev.CompactionFinished(status="completed"),
        ev.CompactionFinished(status="failed", error="too\x1b[31m long"),
        ev.FilesRestored(turn_ids=(TURN,), restored=("a", "b"), removed=("c",), kept=()),
    )

    assert [
        "The conversation was long and was replaced by a summary.",
        "● The conversation could not be compacted: too long",
        "Files were restored: 2 files restored, 1 file removed.",
    ] == texts(pieces)["err"].splitlines()


def test_an_answer_that_was_too_long() -> None:
    """An answer that ends because the model may not say more is said to be cut short, once."""
    cut = answer(sc.TextPart(text="and so"), sc.InterruptedPart(reason="max_tokens"))
    screen = view()
    pieces = shown(screen, ev.MessageCompleted(message=cut))
    screen.catch_up(snapshot_of(ev.MessageAdded(message=cut)), 1)

    assert "■ the answer reached its length limit\n" == texts(pieces)["err"]
    assert "length limit" not in texts(screen.take_pieces())["err"]


def test_an_answer_beside_stdout() -> None:
    """Where stdout is for something else, the answer goes to stderr too."""
    screen = View(PLAIN, PLAIN, shared=False, live=False, answer="err")

    assert {"out": "", "err": "It is so."} == texts(shown(screen, *part("text", "It is so.")))


@pytest.mark.parametrize(
    ("usage", "said"),
    [
        (sc.Usage(), []),
        (sc.Usage(input_tokens=1_200, output_tokens=30), ["1,200 tokens in, 30 out"]),
        (
            sc.Usage(input_tokens=200, cache_read_tokens=1_000, output_tokens=3, cost_micros=4_200),
            ["1,200 tokens in (1,000 cached), 3 out", "$0.0042"],
        ),
    ],
)
def test_what_a_turn_has_used(usage: sc.Usage, said: list[str]) -> None:
    """Tokens and cost are told where they are known."""
    assert said == usage_figures(usage)
