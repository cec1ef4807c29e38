"""What `stop` says about what it did."""

import attrs
import pytest

import session_core as sc
from frontends.commands.watch.stop import outcome_lines
from frontends.shared.style import Style

PLAIN = Style()
PARENT, CHILD = sc.SessionId("ses_parent"), sc.SessionId("ses_child")
OUTCOME = sc.StopOutcome(
    session_id=PARENT, scope="turn", result="stopped", cursor=sc.Cursor(epoch=sc.Epoch("run_1"), seq=1)
)


def work(kind: str, session_id: sc.SessionId = PARENT, number: int = 0) -> sc.StoppedWork:
    """Something that was running."""
    return sc.StoppedWork(kind=kind, session_id=session_id, id=f"{kind}{number}")  # type: ignore[arg-type]


def lines(**changes: object) -> list[str]:
    """What is printed about an outcome."""
    outcome = attrs.evolve(OUTCOME, **changes)  # type: ignore[arg-type]
    return outcome_lines(PLAIN, outcome, "the\x1b[2J name", {PARENT: "rent", CHILD: "hild"})


def test_the_truth_about_a_stop() -> None:
    """What ended and what goes on is counted by kind and session, with what became of messages that waited."""
    item = sc.QueueItem(
        item_id=sc.QueueItemId("q1"), parts=(sc.TextPart(text="later"),), deliver_as="follow_up", queued_at=0
    )
    said = lines(
        ended=(work("turn"), work("tool_call", number=1), work("tool_call", number=2), work("turn", CHILD)),
        survived=(work("job"), work("wakeup", CHILD)),
        kept=(item,),
        returned=(item, item),
        withheld=1,
    )
    assert [
        '■ rent "the name" was stopped',
        "  ended: the turn",
        "  ended: 2 tool calls",
        "  ended: the turn of hild",
        "  goes on: 1 background command",
        "  goes on: 1 wake-up of hild",
        "  1 message still in the queue",
        "  taken out of the queue: 2 messages",
        "  came too late to begin: 1 command",
    ] == said


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ("still_stopping", '■ rent "the name" is being stopped; some work has not ended yet'),
        ("nothing_running", 'rent "the name": nothing was running'),
    ],
)
def test_what_came_of_it(result: str, said: str) -> None:
    """A stop that has not taken full effect, or had nothing to stop, never looks like success."""
    assert [said] == lines(result=result)
