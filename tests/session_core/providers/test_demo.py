"""The demo model: what it understands, how it fails, and that it can be left at any moment."""

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock

from session_core.ids import CallId
from session_core.providers.base import ModelFailed, ModelFinished, TextChunk, ThinkingChunk, ToolCallChunk
from session_core.providers.demo import MAX_COUNT, RETRY_AFTER_MS, DemoProvider
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import (
    ImagePart,
    InterruptedPart,
    Message,
    ThinkingPart,
    ToolCallPart,
    ToolStatus,
    Usage,
)
from tests.session_core.providers._contract import (
    ALL_TOOLS,
    calls,
    check_abandoning,
    check_cancelling,
    check_order,
    collect,
    fewer_examples,
    message,
    request,
    result,
    said,
    thought,
)

CUT_SHORT = message("assistant", "one two", InterruptedPart(reason="stopped"))


def quick() -> DemoProvider:
    return DemoProvider(pace_ms=0)


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("list the files", [("list_files", {"path": "."})]),
        ("Please LIST THE FILES.", [("list_files", {"path": "."})]),
        ("show me all files in src/app", [("list_files", {"path": "src/app"})]),
        ("list the files in this folder", [("list_files", {"path": "."})]),
        ("list the files in ..", [("list_files", {"path": ".."})]),
        ("read README.md", [("read_file", {"path": "README.md"})]),
        ("could you read the file docs/a.txt?", [("read_file", {"path": "docs/a.txt"})]),
        ('read "my notes.txt" now', [("read_file", {"path": "my notes.txt"})]),
        ("Read README.md.", [("read_file", {"path": "README.md"})]),
        ("how many words in README.md", [("count_words", {"path": "README.md"})]),
        ("How many lines are there in Makefile?", [("count_words", {"path": "Makefile"})]),
        ("how many words and lines in a.txt", [("count_words", {"path": "a.txt"})]),
        (
            "read README.md and list the files, then read b.txt",
            [
                ("read_file", {"path": "README.md"}),
                ("list_files", {"path": "."}),
                ("read_file", {"path": "b.txt"}),
            ],
        ),
        ("I read about cats. They are nice", []),
        ("list the filesystems", []),
    ],
)
async def test_plain_requests_become_tool_calls(prompt: str, expected: list[tuple[str, dict[str, str]]]) -> None:
    """Each plain request makes the calls it speaks of, in its order, and nothing else does."""
    assert expected == calls(await collect(quick(), request(prompt)))


async def test_arguments_come_in_pieces() -> None:
    """The arguments of a call are streamed in two or three pieces."""
    events = await collect(quick(), request("list the files"))

    assert 2 <= sum(isinstance(event, ToolCallChunk) for event in events) <= 3


async def test_a_missing_tool_is_explained() -> None:
    """A tool the session does not offer is never called; the model says so instead."""
    events = await collect(quick(), request("list the files and read README.md", tools=["read_file"]))

    assert [("read_file", {"path": "README.md"})] == calls(events)
    assert "list_files" in said(events)


async def test_it_thinks_first_and_streams_word_by_word(autojump_clock: MockClock) -> None:
    """Thinking comes before text, in chunks of one word, at the pace that was asked for."""
    start = trio.current_time()
    events = await collect(DemoProvider(pace_ms=40), request("hello"))
    kinds = [type(event) for event in events[:-1]]

    assert sorted(kinds, key=[ThinkingChunk, TextChunk].index) == kinds
    assert all(len(event.text.split()) == 1 for event in events if isinstance(event, TextChunk | ThinkingChunk))
    assert 0.04 * (len(events) - 1) == pytest.approx(trio.current_time() - start)


async def test_it_counts_one_by_one(autojump_clock: MockClock) -> None:
    """Counting streams one number per chunk, and slowly means slower."""
    times = {}
    for prompt in ("count to 12", "count to 12 slowly", "slowly count to 12"):
        start = trio.current_time()
        events = await collect(DemoProvider(), request(prompt))
        times[prompt] = trio.current_time() - start
        chunks = [event.text.strip() for event in events if isinstance(event, TextChunk)]
        assert [str(number) for number in range(1, 13)] == chunks[:12]

    assert times["count to 12 slowly"] == pytest.approx(times["slowly count to 12"])
    assert times["count to 12 slowly"] > 10 * times["count to 12"]


@pytest.mark.parametrize("number", ["1001", "1" + "0" * 5000])
async def test_it_does_not_count_forever(number: str) -> None:
    """Counting ends at the limit, however large the number."""
    text = said(await collect(quick(), request(f"count to {number}")))

    assert str(MAX_COUNT) in text.split()
    assert str(MAX_COUNT + 1) not in text.split()
    assert "as far as I go" in text


async def test_counting_to_nothing() -> None:
    """Counting to zero is done at once."""
    assert "Done." == said(await collect(quick(), request("count to 000")))


async def test_it_thinks_longer_when_asked() -> None:
    """Asked to think about something, it thinks longer than usual and about that."""
    usual = thought(await collect(quick(), request("hello")))
    longer = thought(await collect(quick(), request("think about the sea.")))

    assert len(longer) > 4 * len(usual)
    assert "the sea" in longer


@pytest.mark.parametrize("prompt", ["hello", "Help!", "what can you do?"])
async def test_it_says_what_it_is(prompt: str) -> None:
    """A greeting is answered with what it can do, and that it is an offline demo model."""
    text = said(await collect(quick(), request(prompt)))

    for words in ("offline", "demo model", "configured provider", "list the files"):
        assert words in text


async def test_anything_else_gets_a_friendly_answer() -> None:
    """A request it does not understand is quoted shortly, with a hint how to try tools."""
    text = said(await collect(quick(), request("colourless green ideas " * 20)))

    assert '"colourless green ideas colourless' in text
    assert "list the files" in text
    assert len(text) < 300


@pytest.mark.parametrize(
    "messages",
    [
        (),
        (message("assistant", "hello"),),
        (message("tool"),),
        (message("user", ImagePart(media_type="image/png", data="")),),
        (message("summary", "hello"),),
    ],
)
async def test_a_request_without_words_is_answered(messages: tuple[Message, ...]) -> None:
    """A conversation that ends without words from the user still gets an answer."""
    assert "no words" in said(await collect(quick(), request(*messages)))


@pytest.mark.parametrize(
    ("status", "text", "expected"),
    [
        ("success", "a\nb/\nc", "list_files found 3 lines:\na\nb/\nc"),
        ("success", "nothing {here}", "list_files says: nothing {here}"),
        ("error", "no {such} folder", "Sorry, list_files could not do it: no {such} folder"),
        ("denied", "", "I was not allowed to use list_files, and that is fine: I leave it alone."),
        ("cancelled", "", "list_files was stopped before it was done."),
        ("interrupted", "", "list_files was interrupted before it was done."),
    ],
)
async def test_it_tells_about_results(status: ToolStatus, text: str, expected: str) -> None:
    """After a tool has run, the model tells what came of it, bad news kindly, and calls no more tools."""
    events = await collect(quick(), request("list the files", result(text, status=status)))

    assert expected == said(events)
    assert [] == calls(events)


async def test_long_results_are_told_in_short() -> None:
    """Of a long result only the start is repeated."""
    events = await collect(quick(), request(result("\n".join("x" * 500 for _ in range(300)))))

    assert "300 lines" in said(events)
    assert "290 more" in said(events)
    assert len(said(events)) < 1500


async def test_all_results_are_told() -> None:
    """Results that came as several messages are all told, in their order."""
    text = said(await collect(quick(), request(result("a"), result("b", name="read_file"))))

    assert "list_files says: a\n\nread_file says: b" == text


@pytest.mark.parametrize(
    ("earlier", "expected"),
    [
        ((CUT_SHORT,), True),
        ((message("assistant", "done"), result("", status="cancelled"), result("fine")), True),
        ((CUT_SHORT, message("assistant", "done")), False),
        ((message("assistant", "done"), result("fine")), False),
        ((), False),
    ],
)
async def test_it_knows_that_it_was_interrupted(earlier: tuple[Message, ...], expected: bool) -> None:  # noqa: FBT001
    """After an interruption the next answer begins by picking up, and otherwise it does not."""
    events = await collect(quick(), request("count to 9", *earlier, "list the files"))

    assert expected == said(events).startswith("I was interrupted before")
    assert [("list_files", {"path": "."})] == calls(events)


async def test_a_torn_answer_is_given_again() -> None:
    """A conversation that ends with an answer cut short is answered from what had been asked, or from the results."""
    asked = await collect(quick(), request("count to 3", CUT_SHORT, CUT_SHORT))
    looked = await collect(quick(), request("list the files", message("assistant"), result("a.txt"), CUT_SHORT))

    assert "I was interrupted before, so I pick up from there.\n\n1 2 3 Done." == said(asked)
    assert "list_files says: a.txt" == said(looked)


async def test_messages_of_one_turn_are_answered_together() -> None:
    """Two messages of one turn are both answered, and one from an earlier turn that got no answer is not."""
    together = request(message("user", "list the files"), message("user", "read a.txt"))
    apart = request(message("user", "fail for good", turn="turn_0"), message("user", "read a.txt"))
    loose = request(message("user", "list the files", turn=None), message("user", "read a.txt", turn=None))

    assert ["list_files", "read_file"] == [name for name, _ in calls(await collect(quick(), together))]
    assert ["read_file"] == [name for name, _ in calls(await collect(quick(), apart))]
    assert ["read_file"] == [name for name, _ in calls(await collect(quick(), loose))]


@pytest.mark.parametrize("prompt", ["fail once", "please rate limit me"])
async def test_it_fails_once(prompt: str) -> None:
    """Asked to fail once, it is rate limited the first time and works the second, separately for every message."""
    provider = quick()
    for name in ("msg_1", "msg_2"):
        asked = request(message("user", prompt, id=name))
        [failed] = await collect(provider, asked)
        assert isinstance(failed, ModelFailed)
        assert ("rate_limited", RETRY_AFTER_MS) == (failed.kind, failed.retry_after_ms)
        assert "This one worked" in said(await collect(provider, asked))


async def test_after_failing_once_it_does_the_rest() -> None:
    """The second attempt does what else was asked for."""
    provider = quick()
    await collect(provider, request("fail once, then list the files"))

    assert [("list_files", {"path": "."})] == calls(await collect(provider, request("fail once, then list the files")))


async def test_it_fails_for_good() -> None:
    """Asked to fail for good, it refuses every time."""
    provider = quick()
    for _ in range(2):
        [failed] = await collect(provider, request("fail for good"))
        assert isinstance(failed, ModelFailed)
        assert "refused" == failed.kind


async def test_usage_is_a_rough_measure() -> None:
    """Usage counts four characters as one token, of everything in the request and in the answer."""
    call = ToolCallPart(call_id=CallId("call_1"), name="x", arguments=JsonObject({"a": 1}))
    assistant = message("assistant", ThinkingPart(text="t" * 40), call, InterruptedPart(reason="stopped"))

    events = await collect(quick(), request("u" * 100, assistant, result("r" * 60)))

    spoken = len(said(events)) + len(thought(events))
    assert ModelFinished(usage=Usage(input_tokens=52, output_tokens=-(-spoken // 4))) == events[-1]


PROMPTS = st.lists(
    st.sampled_from(
        [
            "list the files",
            "read README.md",
            "how many words in x.txt",
            "count to 30",
            "think about it",
            "hello",
            "fail once",
            "fail for good",
            " and ",
            "\n",
            "read ",
        ]
    )
    | st.text(max_size=30),
    max_size=5,
).map("".join)
STATUSES = st.sampled_from(["success", "error", "denied", "cancelled", "interrupted"])
MESSAGES = st.one_of(
    PROMPTS.map(lambda prompt: message("user", prompt)),
    st.builds(lambda text, status: result(text, status=status), st.text(max_size=50), STATUSES),
    st.sampled_from([CUT_SHORT, message("assistant", "fine"), message("summary", "so far")]),
)


@fewer_examples
@given(
    messages=st.lists(MESSAGES, max_size=5),
    tools=st.sets(st.sampled_from(ALL_TOOLS)),
    random=st.random_module(),
)
async def test_every_conversation_gets_one_proper_answer(
    messages: list[Message], tools: set[str], random: object
) -> None:
    """Whatever the conversation, the answer has one end, sound arguments, and calls only the tools on offer."""
    provider = quick()
    asked = request(*messages, tools=tools)
    for _ in range(2):
        events = await collect(provider, asked)
        check_order(events)
        assert {name for name, _ in calls(events)} <= tools
        if isinstance(events[-1], ModelFinished):
            assert isinstance(events[0], ThinkingChunk)


@pytest.mark.parametrize("prompt", ["hello", "list the files and count to 5", "fail for good"])
async def test_it_can_be_abandoned_after_every_event(prompt: str) -> None:
    """Leaving after any number of events ends the call and leaves the provider fit for the next."""
    await check_abandoning(quick, request(prompt))


@pytest.mark.parametrize("prompt", ["hello", "list the files and count to 5", "fail once"])
async def test_it_can_be_cancelled_at_every_step(prompt: str, autojump_clock: MockClock) -> None:
    """Cancelling at any checkpoint ends the call at once, and what came before it is a part of the whole answer."""
    events = await collect(DemoProvider(), request(prompt))

    assert len(events) == await check_cancelling(DemoProvider, request(prompt))
