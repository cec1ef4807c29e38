"""The worked example of the resync protocol is played by the real codec and the real follower."""

import json

import pytest

import session_core as sc
from session_core.vocabulary.snapshots import Bookmark
from session_core.wire.catalogue import wire_classes, wire_tag
from tests.docs._documents import ROOT, blocks

PAGE = (ROOT / "docs" / "resync.md").read_text(encoding="utf-8")
LINES = [line for block in blocks(PAGE) if block.language == "json" for line in block.text.splitlines()]
CLASSES = {wire_tag(cls): cls for cls in wire_classes()}


def read(line: str) -> object:
    value: object = sc.wire.decode(line, CLASSES[json.loads(line)["type"]])
    return value


@pytest.mark.parametrize("line", LINES, ids=lambda line: line[:60])
def test_example_lines_are_real(line: str) -> None:
    """Every JSON line of the example is byte by byte what the codec writes."""
    assert sc.wire.encode(read(line)).decode() == line


def test_the_story_of_the_example() -> None:
    """A follower that gets the lines of the example does at each of them what the text says."""
    follower = sc.Follower(sc.SessionId("ses_7"))
    story: list[tuple[str, int | None, str | None]] = []
    text = ""
    for value in map(read, LINES):
        passed: list[sc.FeedItem] = []
        match value:
            case sc.SessionSnapshot():
                passed = follower.on_snapshot(value)
            case sc.SessionEvent():
                passed = [*follower.on_events([value], sc.Epoch("run_a"))]
            case Bookmark():
                follower.on_bookmark(value)
            case sc.replies.ErrorReply(code="lagged", message=message):
                follower = sc.Follower(sc.SessionId("ses_7"), after=follower.cursor)
                follower.on_lagged(int("".join(filter(str.isdigit, message))))
            case sc.replies.ErrorReply(code="cursor_refused"):
                follower = sc.Follower(sc.SessionId("ses_7"), after=sc.Cursor(epoch=sc.Epoch("run_a"), seq=75))
                follower.on_refused("foreign_epoch")
            case _:
                pytest.fail(f"the example has an unexpected line: {value}")
        for item in passed:
            if isinstance(item, sc.SessionSnapshot):
                assert item.partial is not None
                text = str(item.partial.parts[-1].text)
            elif isinstance(item, sc.SessionEvent) and isinstance(item.event, sc.events.PartDelta):
                text += item.event.text
        place = follower.cursor.seq if follower.cursor is not None else None
        story.append((text, place, follower.needed_resync.reason if follower.needed_resync else None))

    king = "Once upon a time there was an old king. He"
    assert story == [
        ("Once upon", 40, None),
        ("Once upon a", 41, None),
        ("Once upon a time there was", 45, None),
        ("Once upon a time there was", None, "gap"),
        (king, 60, None),
        (king, 75, None),
        (king, None, "lagged"),
        (king, None, "foreign_epoch"),
    ]
