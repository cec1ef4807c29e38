"""An offline model that shows what a session can do: it streams, thinks, calls harmless tools and can fail on demand.

It understands a few plain requests, listed in `_RULES`: each rule is a pattern and a behaviour. A request may
match several of them. Everything is deterministic; it remembers only which messages have already failed once.
"""

import json
import re
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing, asynccontextmanager
from functools import partial
from itertools import takewhile
from typing import Final

import attrs
import trio

from session_core.ids import MessageId
from session_core.providers.base import (
    ModelFailed,
    ModelFinished,
    ModelRequest,
    ProviderEvent,
    TextChunk,
    ThinkingChunk,
    ToolCallChunk,
    ToolCallOpened,
)
from session_core.vocabulary.frozen import JsonObject, thaw_json
from session_core.vocabulary.messages import Message, Part, TextPart, ThinkingPart, ToolCallPart, ToolResultPart, Usage

MAX_COUNT: Final = 1_000
"""The highest number it counts to; more would be boring."""
RETRY_AFTER_MS: Final = 1_500
"""Long enough to see the session wait, short enough not to bore."""

_SLOWLY: Final = 20
_MAX_PARTS: Final = 8
_REMEMBERED_FAILURES: Final = 256
_CHARS_PER_TOKEN: Final = 4

_INTRODUCTION: Final = (
    "Hello! I am the demo model. I run offline and follow a handful of rules; real models come with a configured "
    'provider. Try "list the files", "read README.md", "how many words in README.md", "count to 50 slowly", '
    '"think about the sea", or, to see failures handled, "fail once" and "fail for good". '
    "You can interrupt me at any moment."
)
_HINT: Final = (
    'I am only a demo model. To see me use tools, say "list the files" or "read README.md"; "help" tells more.'
)


@attrs.frozen(kw_only=True)
class _DemoAnswerPart:
    """The part of the answer that one rule adds: thinking, then text, then a tool call."""

    thinking: str = ""
    text: str = ""
    slowly: bool = False
    call: tuple[str, JsonObject] | None = None


Behaviour = Callable[[re.Match[str]], _DemoAnswerPart]


def _call(tool: str) -> Behaviour:
    def behaviour(match: re.Match[str]) -> _DemoAnswerPart:
        path = _path(match["path"] or ".")
        return _DemoAnswerPart(thinking=f"For this I need {tool}.", call=(tool, JsonObject({"path": path})))

    return behaviour


def _path(word: str) -> str:
    """Return the path without its quotes, or without the punctuation of the sentence around it."""
    if word[0] in "\"'`":
        return word[1:-1]
    return word if set(word) <= set("./") else word.rstrip(".")


def _count(match: re.Match[str]) -> _DemoAnswerPart:
    digits = match["number"].lstrip("0")
    last = int(digits or "0") if len(digits) <= len(str(MAX_COUNT)) else MAX_COUNT + 1
    numbers = "".join(f"{number} " for number in range(1, min(last, MAX_COUNT) + 1))
    end = f"That is as far as I go: {MAX_COUNT} is enough." if last > MAX_COUNT else "Done."
    return _DemoAnswerPart(thinking="Numbers, one by one.", text=numbers + end, slowly="slow" in match.string.lower())


def _think(match: re.Match[str]) -> _DemoAnswerPart:
    topic = _short(match["topic"].rstrip(".!?"))
    steps = ("What is it really about?", "What is known?", "What would speak against it?", "What follows?")
    thinking = " ".join(f"{number}. {step} I turn {topic} around once more." for number, step in enumerate(steps, 1))
    return _DemoAnswerPart(
        thinking=thinking, text=f"I have thought about {topic}. A real model would now have an opinion."
    )


_rule = partial(re.compile, flags=re.IGNORECASE)

_WORD: Final = r"""(?P<path>"[^"\n]+"|'[^'\n]+'|`[^`\n]+`|[\w.~/-]+)"""
_FILE: Final = r"""(?:["'`]|\S*[./]\w|readme|makefile|license)"""
_UNITS: Final = r"(?:words|lines|characters)"
_IN_FOLDER: Final = rf"(?: (?:in|of|under) (?!(?:the|this|my|here)\b){_WORD})?"
_HOW_MANY: Final = rf"\bhow many {_UNITS}(?:(?: and| or) {_UNITS})?(?: are)?(?: there)? in(?: the file)?"

_RULES: Final[tuple[tuple[re.Pattern[str], Behaviour], ...]] = (
    (_rule(rf"\b(?:list|show)(?: me)?(?: all)?(?: the| my)? files\b{_IN_FOLDER}"), _call("list_files")),
    (_rule(rf"\bread(?: me)?(?: the)?(?: file)? (?={_FILE}){_WORD}"), _call("read_file")),
    (_rule(rf"{_HOW_MANY} {_WORD}"), _call("count_words")),
    (_rule(r"\bcount(?: slowly)?(?: up)? to (?P<number>[0-9]+)"), _count),
    (_rule(r"\bthink (?:hard )?about (?P<topic>[^\n]+)"), _think),
)
_GREETING: Final = _rule(r"\b(?:hello|hi|hey|help|what can you do)\b")
_FAIL_ONCE: Final = _rule(r"\b(?:fail once|rate limit me)\b")
_FAIL_FOR_GOOD: Final = _rule(r"\bfail for good\b")

_VERDICTS: Final = {
    "error": "Sorry, {name} could not do it: {text}",
    "denied": "I was not allowed to use {name}, and that is fine: I leave it alone.",
    "cancelled": "{name} was stopped before it was done.",
    "interrupted": "{name} was interrupted before it was done.",
}


class DemoProvider:
    """The demo model; `pace_ms` is the time between two words.

    Its usage figures are rough: four characters count as one token.
    """

    def __init__(self, pace_ms: int = 25) -> None:
        self._pace = pace_ms / 1000
        self._failed_once: deque[MessageId] = deque(maxlen=_REMEMBERED_FAILURES)

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[ProviderEvent]]:
        """Answer the request; leaving at any moment is fine, nothing runs in the background."""
        failure = self._failure(request)
        async with aclosing(self._fail(failure) if failure else self._play(request)) as events:
            yield events

    def _failure(self, request: ModelRequest) -> ModelFailed | None:
        asked = _unanswered_messages(request)
        text = _text_of(asked)
        if _FAIL_FOR_GOOD.search(text):
            return ModelFailed(kind="refused", message="The demo model was asked to fail for good, and it does.")
        if _FAIL_ONCE.search(text) and asked[-1].message_id not in self._failed_once:
            self._failed_once.append(asked[-1].message_id)
            message = "The demo model was asked to fail once; the next attempt will work."
            return ModelFailed(kind="rate_limited", message=message, retry_after_ms=RETRY_AFTER_MS)
        return None

    async def _fail(self, failure: ModelFailed) -> AsyncGenerator[ProviderEvent, None]:
        await trio.sleep(self._pace)
        yield failure

    async def _play(self, request: ModelRequest) -> AsyncGenerator[ProviderEvent, None]:
        sent = 0
        for slowness, event in _events(_answer(request)):
            await trio.sleep(self._pace * slowness)
            sent += len(event.name if isinstance(event, ToolCallOpened) else event.text)
            yield event
        await trio.lowlevel.checkpoint()
        yield ModelFinished(usage=Usage(input_tokens=_tokens(_size(request)), output_tokens=_tokens(sent)))


def _answer(request: ModelRequest) -> list[_DemoAnswerPart]:
    """Decide what to say and do: a pure function of the conversation."""
    if results := _results(request):
        reply_text = "\n\n".join(_describe_result(result) for result in results)
        return [_DemoAnswerPart(thinking="Let me see what came back.", text=reply_text)]
    asked = _text_of(_unanswered_messages(request))
    parts = [_without_missing_tool(part, request) for part in _matches(asked)] or [_small_talk(asked)]
    if _is_interrupted(request):
        parts.insert(0, _DemoAnswerPart(text="I was interrupted before, so I pick up from there."))
    return parts


def _matches(asked: str) -> list[_DemoAnswerPart]:
    """Return the answers of the matching rules, in the order of the request."""
    found = [(match.start(), behave(match)) for pattern, behave in _RULES for match in pattern.finditer(asked)]
    return [part for _, part in sorted(found, key=lambda each: each[0])][:_MAX_PARTS]


def _small_talk(asked: str) -> _DemoAnswerPart:
    if _FAIL_ONCE.search(asked):
        return _DemoAnswerPart(
            thinking="Second attempt.", text="The first attempt failed, as you asked. This one worked."
        )
    if _GREETING.search(asked):
        return _DemoAnswerPart(thinking="Someone says hello.", text=_INTRODUCTION)
    if not asked.strip():
        return _DemoAnswerPart(thinking="There are no words here.", text=f"You sent me no words. {_HINT}")
    return _DemoAnswerPart(
        thinking="No rule of mine fits.", text=f'You said "{_short(asked)}". A fine thing to say! {_HINT}'
    )


def _without_missing_tool(part: _DemoAnswerPart, request: ModelRequest) -> _DemoAnswerPart:
    if part.call is None or any(tool.name == part.call[0] for tool in request.tools):
        return part
    sentence = f"I would call {part.call[0]} for this, but this session does not offer me that tool."
    return _DemoAnswerPart(thinking=part.thinking, text=sentence)


def _describe_result(result: ToolResultPart) -> str:
    if sentence := _VERDICTS.get(result.status):
        return sentence.format(name=result.name, text=_short(result.text, 300))
    lines = result.text.splitlines()
    if len(lines) <= 1:
        return f"{result.name} says: {_short(result.text, 300)}"
    preview = "\n".join(_short(line, 100) for line in lines[:10])
    more = f"\n... and {len(lines) - 10} more lines." if len(lines) > 10 else ""
    return f"{result.name} found {len(lines)} lines:\n{preview}{more}"


def _events(
    parts: list[_DemoAnswerPart],
) -> Iterator[tuple[int, TextChunk | ThinkingChunk | ToolCallOpened | ToolCallChunk]]:
    """Yield each event with the number of paces to wait before it."""
    for word in _words(" ".join(part.thinking for part in parts if part.thinking)):
        yield 1, ThinkingChunk(text=word)
    gap = ""
    for part in (part for part in parts if part.text):
        for word in _words(gap + part.text):
            yield _SLOWLY if part.slowly else 1, TextChunk(text=word)
        gap = "\n\n"
    for call in (part.call for part in parts if part.call):
        yield 1, ToolCallOpened(name=call[0])
        arguments = json.dumps(thaw_json(call[1]))
        size = -(-len(arguments) // 3)
        for start in range(0, len(arguments), size):
            yield 1, ToolCallChunk(text=arguments[start : start + size])


def _unanswered_messages(request: ModelRequest) -> tuple[Message, ...]:
    """Return the unanswered user messages: the last one, and those before it in the same turn."""
    messages = _without_torn_answer(request)
    last = messages[-1:]
    if not last or last[0].role != "user" or last[0].turn_id is None:
        return tuple(message for message in last if message.role == "user")
    turn = last[0].turn_id
    together = takewhile(lambda each: each.role == "user" and each.turn_id == turn, reversed(messages))
    return tuple(together)[::-1]


def _without_torn_answer(request: ModelRequest) -> tuple[Message, ...]:
    """Return the conversation without an answer that was cut short at its end, which does not count as an answer."""
    torn = takewhile(lambda each: each.role == "assistant" and each.is_interrupted, reversed(request.messages))
    return request.messages[: len(request.messages) - sum(1 for _ in torn)]


def _results(request: ModelRequest) -> list[ToolResultPart]:
    """Return the tool results at the end of the conversation."""
    messages = tuple(takewhile(lambda message: message.role == "tool", reversed(_without_torn_answer(request))))[::-1]
    return [part for message in messages for part in message.parts if isinstance(part, ToolResultPart)]


def _is_interrupted(request: ModelRequest) -> bool:
    """Return whether the last answer, or a tool it called, was cut short."""
    for message in reversed(request.messages):
        if message.role == "tool" and any(_is_cut_short(part) for part in message.parts):
            return True
        if message.role == "assistant":
            return message.is_interrupted
    return False


def _is_cut_short(part: Part) -> bool:
    return isinstance(part, ToolResultPart) and part.status in {"cancelled", "interrupted"}


def _text_of(messages: Iterable[Message]) -> str:
    return "\n".join(message.text for message in messages)


def _words(text: str) -> list[str]:
    return re.findall(r"\s*\S+|\s+", text)


def _short(text: str, limit: int = 60) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 3]}..."


def _size(request: ModelRequest) -> int:
    sizes = [len(request.system)]
    for part in (part for message in request.messages for part in message.parts):
        match part:
            case TextPart(text=text) | ThinkingPart(text=text) | ToolResultPart(text=text):
                sizes.append(len(text))
            case ToolCallPart(arguments=arguments):
                sizes.append(len(json.dumps(thaw_json(arguments))))
            case _:
                pass
    return sum(sizes)


def _tokens(characters: int) -> int:
    return -(-characters // _CHARS_PER_TOKEN)
