"""What a model gets to see of a long conversation."""

from collections.abc import Iterator

import attrs
from hypothesis import given
from hypothesis import strategies as st

from session_core.agent.context import (
    SHORT_RESULT,
    SHORTEST_RESULT,
    message_cost,
    render_without_tools,
    replace_images,
    shorten_to_fit,
)
from session_core.ids import CallId, MessageId
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import (
    ImagePart,
    Message,
    Part,
    Role,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)

IMAGE = ImagePart(media_type="image/png", data="iVBORw==" * 2_000)


def message(role: Role, *parts: Part, number: int = 0) -> Message:
    """Make a message."""
    return Message(message_id=MessageId(f"m{number}"), parent_id=None, role=role, parts=parts, created_at=number)


def result(text: str, number: int = 0, *, images: tuple[ImagePart, ...] = ()) -> ToolResultPart:
    """Make a tool result."""
    details = JsonObject({"kept": "x" * 50})
    return ToolResultPart(
        call_id=CallId(f"c{number}"), name="t", status="success", text=text, images=images, details=details
    )


LENGTHS = st.sampled_from([0, 1, 150, 199, 200, 201, 260, 300, 1_999, 2_000, 2_001, 2_050, 2_200, 9_000])
RESULTS = st.builds(
    lambda length, number, images: result("ab" * (length // 2), number, images=(IMAGE,) * images),
    LENGTHS,
    st.integers(0, 9),
    st.integers(0, 2),
)
MESSAGES = st.one_of(
    LENGTHS.map(lambda length: message("user", TextPart(text="u" * length))),
    LENGTHS.map(lambda length: message("assistant", TextPart(text="a" * length))),
    st.lists(RESULTS, min_size=1, max_size=3).map(lambda results: message("tool", *results)),
    st.just(message("user", IMAGE)),
)
CONVERSATIONS = st.lists(MESSAGES, max_size=6).map(tuple)


def cost(messages: tuple[Message, ...]) -> int:
    """What a conversation costs."""
    return sum(map(message_cost, messages))


@given(CONVERSATIONS, st.integers(0, 60_000))
def test_fit(messages: tuple[Message, ...], room: int) -> None:
    """Fitting never makes anything longer, touches tool results only, and answers every call as before, in order."""
    fitted = shorten_to_fit(messages, room)
    assert len(messages) == len(fitted)
    for before, after in zip(messages, fitted, strict=True):
        assert message_cost(after) <= message_cost(before)
        assert before == after or "tool" == before.role
        assert [answered(part) for part in before.parts] == [answered(part) for part in after.parts]
    if cost(messages) <= room:
        assert messages == fitted
    assert fitted == shorten_to_fit(fitted, room)


def answered(part: Part) -> object:
    """What of a part must stay as it is."""
    return attrs.evolve(part, text="", images=()) if isinstance(part, ToolResultPart) else part


@given(CONVERSATIONS, st.integers(0, 60_000))
def test_fit_does_what_it_can(messages: tuple[Message, ...], room: int) -> None:
    """What still does not fit has no tool result left that could be shorter."""
    fitted = shorten_to_fit(messages, room)
    if cost(fitted) > room:
        assert fitted == shorten_to_fit(messages, 0)
        assert all(len(part.text) <= SHORTEST_RESULT + 250 and not part.images for part in results_in(fitted))


def results_in(messages: tuple[Message, ...]) -> Iterator[ToolResultPart]:
    """All tool results."""
    return (part for each in messages for part in each.parts if isinstance(part, ToolResultPart))


def test_the_oldest_first_and_the_newest_last() -> None:
    """Old results are cut, at last to a stub, before the newest one, which the model has not read yet, is touched."""
    messages = tuple(message("tool", result(str(number) * 10_000, number), number=number) for number in range(3))
    seen: list[list[bool]] = []
    for room in range(30_000, 0, -100):
        untouched = [after == before for before, after in zip(messages, shorten_to_fit(messages, room), strict=True)]
        if not seen or seen[-1] != untouched:
            seen.append(untouched)
    assert [[True, True, True], [False, True, True], [False, False, True], [False, False, False]] == seen
    *older, newest = shorten_to_fit(messages, 10_700 + 2 * SHORTEST_RESULT)
    assert messages[-1] == newest
    assert all(len(part.text) < SHORT_RESULT for part in results_in(tuple(older)))


def test_what_is_left_says_what_is_missing() -> None:
    """A cut result keeps its beginning and its end, says how much is gone, and how to get it back."""
    (only,) = shorten_to_fit((message("tool", result("a" * 3_000 + "z" * 3_000, images=(IMAGE,))),), 3_000)
    (part,) = results_in((only,))
    assert part.text.startswith("a" * 1_000)
    assert "z" * 1_000 + "\n[1 images left out to save room]" == part.text[-1_033:].lstrip("\n")
    assert "4,000 characters left out to save room; run the tool again" in part.text


def test_costs() -> None:
    """Pictures cost the same whatever their size, and what models are not sent costs nothing."""
    assert message_cost(message("user", IMAGE)) == message_cost(message("user", attrs.evolve(IMAGE, data="iVBORw==")))
    assert 10 == message_cost(message("tool", result("x" * 10)))
    assert message_cost(message("tool", result("x", images=(IMAGE, IMAGE)))) > 2 * 5_000


def test_without_images() -> None:
    """A model that cannot see is told that there was a picture; messages without one stay the same objects."""
    plain = message("user", TextPart(text="hi"))
    shown = (plain, message("user", TextPart(text="look"), IMAGE), message("tool", result("x", images=(IMAGE,))))
    blind = replace_images(shown)
    assert blind[0] is plain
    assert (TextPart(text="look"), TextPart(text="[an image, which this model cannot see]")) == blind[1].parts
    (part,) = results_in(blind)
    assert ("x\n[1 images, which this model cannot see]", ()) == (part.text, part.images)


def test_in_words() -> None:
    """Told in words, calls and results are text, thinking is gone, and nobody speaks for a tool."""
    call = ToolCallPart(call_id=CallId("c0"), name="t", arguments=JsonObject({"a": "ü"}))
    told = render_without_tools(
        (
            message("user", TextPart(text="hi")),
            message("assistant", ThinkingPart(text="hm"), TextPart(text="let me see. "), call),
            message("tool", result("found")),
            message("assistant", ThinkingPart(text="hm")),
        )
    )
    expected = [
        ("user", "hi"),
        ("assistant", 'let me see. [called the tool t with {"a":"ü"}]\n'),
        ("user", "[the tool t gave (success)]\nfound\n"),
    ]
    assert expected == [(each.role, each.text) for each in told]
