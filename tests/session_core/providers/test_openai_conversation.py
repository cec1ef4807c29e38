"""A conversation made fit for the interfaces of models."""

import re
from itertools import pairwise

import attrs
import pytest
from hypothesis import given

from session_core.ids import CallId
from session_core.providers.conversation import (
    MAX_ID_CHARS,
    ModelStep,
    UserStep,
    own_signature,
    prepare_conversation,
    result_text,
)
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import (
    FilePart,
    ImagePart,
    InterruptedPart,
    InterruptReason,
    Message,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    ToolStatus,
)
from tests.session_core.providers._contract import fewer_examples, message
from tests.session_core.providers._openai import conversations

IMAGE = ImagePart(media_type="image/png", data="aGk=")


def call(id: str = "call_1", name: str = "read_file") -> ToolCallPart:
    return ToolCallPart(call_id=CallId(id), name=name, arguments=JsonObject())


def answer(id: str = "call_1", text: str = "done", status: ToolStatus = "success") -> ToolResultPart:
    return ToolResultPart(call_id=CallId(id), name="read_file", status=status, text=text)


def posted(text: str) -> Message:
    """What an extension said in the model's name."""
    return attrs.evolve(message("assistant", text), source="git")


def texts(step: UserStep | ModelStep) -> list[str]:
    return [part.text for part in step.parts if isinstance(part, TextPart)]


def user(*parts: str | ImagePart) -> UserStep:
    return UserStep(parts=tuple(TextPart(text=part) if isinstance(part, str) else part for part in parts))


@fewer_examples
@given(messages=conversations)
def test_any_conversation_keeps_the_rules(messages: tuple[Message, ...]) -> None:
    """Whatever the messages are, roles are in order, nothing is blank, and each call has exactly one result."""
    steps = prepare_conversation(messages)
    assert isinstance(steps[0], UserStep)
    assert isinstance(steps[-1], UserStep) or steps[-1].results
    for before, after in pairwise(steps):
        assert not (isinstance(before, UserStep) and isinstance(after, UserStep))
        if isinstance(before, ModelStep) and isinstance(after, ModelStep):
            assert before.results
    asked = [part.call_id for step in steps for part in step.parts if isinstance(part, ToolCallPart)]
    assert len(asked) == len(set(asked))
    for step in steps:
        assert step.parts
        assert all(text.strip() for text in texts(step))
        if isinstance(step, ModelStep):
            called = [part for part in step.parts if isinstance(part, ToolCallPart)]
            assert [part.call_id for part in called] == [result.call_id for result in step.results]
            assert all(re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", part.name) for part in called)
            assert all(re.fullmatch(rf"[a-zA-Z0-9_-]{{1,{MAX_ID_CHARS}}}", part.call_id) for part in called)
            assert not isinstance(step.parts[-1], ThinkingPart)


@fewer_examples
@given(messages=conversations)
def test_nothing_that_was_said_is_lost(messages: tuple[Message, ...]) -> None:
    """Every text that is not blank and every call of a conversation is in its prepared form."""
    steps = prepare_conversation(messages)
    told = "\0".join(text for step in steps for text in texts(step))
    for each in (part for one in messages for part in one.parts):
        if isinstance(each, TextPart) and each.text.strip():
            assert each.text in told
    wanted = sum(len(each.tool_calls) for each in messages if each.role == "assistant")
    assert wanted == sum(len(step.results) for step in steps if isinstance(step, ModelStep))


def test_an_ordinary_conversation_stays_as_it_is() -> None:
    """Questions, thoughts, calls and results come out in the order they were in."""
    steps = prepare_conversation(
        [
            message("user", "hi", IMAGE),
            message("assistant", ThinkingPart(text="hm"), "let me see", call("call_1"), call("call_2")),
            message("tool", answer("call_2", "two")),
            message("tool", answer("call_1", "one")),
            message("assistant", "there"),
            message("user", "thanks"),
        ]
    )
    assert steps == (
        user("hi", IMAGE),
        ModelStep(
            parts=(ThinkingPart(text="hm"), TextPart(text="let me see"), call("call_1"), call("call_2")),
            results=(answer("call_1", "one"), answer("call_2", "two")),
        ),
        ModelStep(parts=(TextPart(text="there"),)),
        user("thanks"),
    )


def test_a_call_without_a_result_gets_one_that_says_so() -> None:
    """A crash between a call and its result leaves no hole."""
    (_, said, _) = prepare_conversation([message("user", "go"), message("assistant", call()), message("user", "and?")])
    assert isinstance(said, ModelStep)
    assert [(result.status, "no result" in result.text) for result in said.results] == [("interrupted", True)]


def test_a_message_sent_while_tools_ran_comes_after_their_results() -> None:
    """What a user says between a call and its result does not part them."""
    steps = prepare_conversation(
        [message("user", "go"), message("assistant", call()), message("user", "faster"), message("tool", answer())]
    )
    assert steps == (user("go"), ModelStep(parts=(call(),), results=(answer(),)), user("faster"))


def test_the_first_result_of_a_call_counts() -> None:
    """A second result of the same call is left out."""
    steps = prepare_conversation(
        [message("user", "go"), message("assistant", call()), message("tool", answer(), answer(text="2"))]
    )
    assert steps[1:] == (ModelStep(parts=(call(),), results=(answer(),)),)


def test_a_result_whose_call_is_gone_becomes_text() -> None:
    """After a summary has swallowed the call, the result is still told."""
    (step,) = prepare_conversation([message("summary", "we read files"), message("tool", answer(text="42"))])
    assert texts(step) == [
        "Summary of the conversation up to here:\n\nwe read files",
        "[Result of an earlier call of read_file]\n42",
    ]


def test_two_calls_of_the_same_id_are_kept_apart() -> None:
    """An imported conversation may use an id twice; each call keeps its own result."""
    steps = prepare_conversation(
        [
            message("user", "go"),
            message("assistant", call()),
            message("tool", answer(text="1")),
            message("assistant", call()),
            message("tool", answer(text="2")),
        ]
    )
    assert [
        (result.call_id, result.text) for step in steps[1:] if isinstance(step, ModelStep) for result in step.results
    ] == [
        ("call_1", "1"),
        ("call_1_2", "2"),
    ]


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("stopped", "the user stopped it"),
        ("failed", "by a failure"),
        ("interrupted", "the program ended"),
        ("max_tokens", "the longest length"),
    ],
)
def test_an_answer_that_was_cut_short_says_so(reason: InterruptReason, words: str) -> None:
    """The model learns from the user's side that and why its answer is not whole."""
    steps = prepare_conversation(
        [message("user", "go"), message("assistant", "one two", InterruptedPart(reason=reason))]
    )
    assert steps[1] == ModelStep(parts=(TextPart(text="one two"),))
    assert [words in text for text in texts(steps[2])] == [True]


def test_thinking_that_led_to_nothing_is_left_out() -> None:
    """Interfaces refuse thinking that nothing follows, so a stop in the midst of it leaves only the remark."""
    cut = message("assistant", ThinkingPart(text="hm", signature="openai:[]"), " ", InterruptedPart(reason="stopped"))
    (step,) = prepare_conversation([message("user", "go"), cut])
    assert texts(step) == ["go", "[The answer before this was cut short: the user stopped it.]"]


def test_the_model_is_the_next_to_speak() -> None:
    """A conversation that is empty or ends with an answer asks the model to go on."""
    assert prepare_conversation([]) == (user("Please go on."),)
    assert prepare_conversation([message("user", "go"), message("assistant", "ok")])[2:] == (user("Please go on."),)


def test_a_conversation_that_begins_with_an_answer_gets_a_beginning() -> None:
    """Interfaces want the user to speak first."""
    first, second, *_ = prepare_conversation([message("assistant", "ok"), message("user", "go")])
    assert isinstance(first, UserStep)
    assert second == ModelStep(parts=(TextPart(text="ok"),))


def test_attached_files_are_told_with_their_names() -> None:
    """A file is text between marks that name it."""
    (step,) = prepare_conversation([message("user", "see", FilePart(name="a.txt", text="one\ntwo"))])
    assert texts(step) == ["see", "[Attached file: a.txt]\none\ntwo\n[End of the attached file]"]


def test_failed_results_are_put_into_words() -> None:
    """Where a result cannot be marked as failed, its text says so; no output is said as well."""
    assert result_text(answer(text="x")) == "x"
    assert result_text(answer(text=" ")) == "(no output)"
    assert result_text(answer(text="no such file", status="error")) == "Error: no such file"
    assert result_text(answer(text="the user said no", status="denied")) == "Not allowed: the user said no"


def test_only_own_signatures_are_found() -> None:
    """A provider sees the signatures of its own kind, and no others."""
    assert own_signature(ThinkingPart(text="", signature="openai:abc:d"), "openai") == "abc:d"
    assert own_signature(ThinkingPart(text="", signature="anthropic:abc"), "openai") is None
    assert own_signature(ThinkingPart(text=""), "openai") is None


def test_what_an_extension_says_in_the_models_name() -> None:
    """It belongs to the model's side wherever it stands, and the model's own answer to it begins a step of its own."""
    thinking = ThinkingPart(text="hm", signature="x:1")
    steps = prepare_conversation(
        [
            posted("first"),
            message("user", "go"),
            message("assistant", call()),
            message("tool", answer()),
            posted("one"),
            posted("two"),
            message("assistant", thinking, call("call_2")),
            message("tool", answer("call_2")),
            message("assistant", "done"),
            posted("by the way"),
        ]
    )

    assert [
        ["[What was said before this is no longer part of the conversation.]"],
        ["first"],
        ["go"],
        [],
        ["one", "two"],
        ["Please go on."],
        [],
        ["done", "by the way"],
        ["Please go on."],
    ] == [texts(step) for step in steps]
    assert thinking == steps[6].parts[0]
    assert [False, True, False, True, True, False, True, True, False] == [isinstance(step, ModelStep) for step in steps]
