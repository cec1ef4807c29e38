"""What an extension's model has answered: pieces that it streams, then the whole result, as events of our own.

An extension may stream everything, nothing, or some of it, and repeats in its result what it likes. Whatever has been
told once is not told again: text and thinking that go on where the pieces ended are completed, and tool calls are
recognised by their ids, or else by their names and arguments.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from session_core import limits
from session_core.providers.base import ModelFailed, ModelFinished, ProviderEvent, StopReason
from session_core.providers.failures import build_failure
from session_core.providers.openai_common import (
    CALL_COST,
    AnswerPartQueue,
    TooManyWaitingParts,
    build_usage,
    count_at,
    objects_at,
    text_at,
    value_at,
)
from session_core.vocabulary.messages import Usage

_PART_COST: Final = 100
"""Characters that one more part of an answer counts for: thousands of tiny ones are a fault."""
_STOP_REASONS: Final[dict[str, StopReason]] = {
    "length": "max_tokens",
    "max_tokens": "max_tokens",
    "max_output_tokens": "max_tokens",
    "content_filter": "refused",
    "refusal": "refused",
    "refused": "refused",
    "safety": "refused",
}


@attrs.define(eq=False)
class _StreamedCall:
    """A tool call; `again` once the result has repeated what was streamed."""

    number: int
    id: str
    name: str
    pieces: list[str] = attrs.field(factory=list)
    is_repeated: bool = False
    _canonical: str | None = None

    def canonical(self) -> str:
        """Return the arguments in a form that can be compared, made once: an extension may repeat many calls."""
        if self._canonical is None:
            self._canonical = _sorted_json("".join(self.pieces))
        return self._canonical


class AnswerDecoder:
    """Reads one answer; `names` are our names of the tools by those that the extension was told."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.usage = Usage()
        """What the answer has used, as far as it has been told."""
        self.ended = False
        self._names = names
        self._parts = AnswerPartQueue()
        self._text: list[str] = []
        self._thoughts: list[str] = []
        self._calls: list[_StreamedCall] = []
        self._by_index: dict[object, _StreamedCall] = {}
        self._reason = ""
        self._last_kind = ""
        self._size = 0

    @property
    def done(self) -> bool:
        """Whether the extension has said that its model has stopped; the result may still follow."""
        return bool(self._reason)

    @property
    def has_content(self) -> bool:
        """Whether anything of the answer has come."""
        return bool(self._text or self._thoughts or self._calls)

    def take_delta(self, event: object) -> list[ProviderEvent]:
        """Take in one piece; one that nobody understands is passed over."""
        if self.ended or self.done:
            return []
        try:
            return self._take(event)
        except TooManyWaitingParts:
            return self.fail(build_endless_failure())

    def take_result(self, result: object) -> list[ProviderEvent]:
        """Take in the result, which ends the answer."""
        if self.ended:
            return []
        if not isinstance(result, dict):
            return self.fail(build_failure("malformed", "The extension answered with something that is no result"))
        try:
            events = self._complete_text("thinking", self._thoughts, text_at(result, "reasoning_content"))
            events += self._complete_text("text", self._text, text_at(result, "content"))
            streamed = list(self._calls)
            for tool_call in objects_at(result, "tool_calls"):
                events += self._take_whole(tool_call, streamed)
        except TooManyWaitingParts:
            return self.fail(build_endless_failure())
        self._count_usage(result.get("usage"))
        self._reason = text_at(result, "finish_reason") or self._reason
        return events + self.finish()

    def finish(self) -> list[ProviderEvent]:
        """End the answer with what has come of it."""
        if self.ended:
            return []
        if self._reason.lower() == "error":
            return self.fail(build_failure("overloaded", "The extension's model stopped because of an error"))
        self.ended = True
        usual: StopReason = "tool_calls" if self._parts.calls else "end"
        reason = _STOP_REASONS.get(self._reason.lower(), usual)
        return [*self._parts.finish(), ModelFinished(usage=self.usage, stop_reason=reason)]

    def fail(self, failure: ModelFailed) -> list[ProviderEvent]:
        """End the answer with a failure."""
        if self.ended:
            return []
        self.ended = True
        return [attrs.evolve(failure, usage=self.usage)]

    def _take(self, event: object) -> list[ProviderEvent]:
        match text_at(event, "type"):
            case "Delta":
                return self._add("text", self._text, text_at(event, "content"))
            case "Reasoning":
                return self._add("thinking", self._thoughts, text_at(event, "content"))
            case "ToolCallStart":
                return self._open(value_at(event, "index"), text_at(event, "id"), text_at(event, "name"))
            case "ToolCallArgumentsDelta":
                return self._add_arguments(value_at(event, "index"), value_at(event, "arguments_chunk"))
            case "Usage":
                self._count_usage(event)
            case "Done":
                self._reason = text_at(event, "finish_reason") or "stop"
            case _:
                pass
        return []

    def _add(self, kind: str, pieces: list[str], text: str) -> list[ProviderEvent]:
        if not text:
            return []
        self._count(kind, len(text))
        pieces.append(text)
        return self._parts.add_text(text) if kind == "text" else self._parts.add_thinking(text)

    def _complete_text(self, kind: str, pieces: list[str], whole: str) -> list[ProviderEvent]:
        """Complete what was streamed; where the result says something else, what people have read stays."""
        so_far = "".join(pieces)
        return self._add(kind, pieces, whole.removeprefix(so_far)) if whole.startswith(so_far) else []

    def _open(self, index: object, id: str, name: str) -> list[ProviderEvent]:
        known = self._by_index.get(_key(index))
        if known is not None and (known.id, known.name) == (id, name):
            return []
        self._count("call", CALL_COST + len(id) + len(name))
        call = _StreamedCall(number=len(self._calls), id=id, name=name)
        self._calls.append(call)
        self._by_index[_key(index)] = call
        return self._parts.open_call(call.number, self._names.get(name, name))

    def _add_arguments(self, index: object, chunk: object) -> list[ProviderEvent]:
        call = self._by_index.get(_key(index))
        text = arguments_text(chunk)
        if call is None or not text:
            return []
        self._count("call", len(text))
        call.pieces.append(text)
        return self._parts.add_call_text(call.number, text)

    def _take_whole(self, call_json: dict[str, Any], streamed: list[_StreamedCall]) -> list[ProviderEvent]:
        """Take a call of the result: all of it, or its arguments only, or nothing if it was streamed."""
        text = arguments_text(call_json.get("arguments"))
        call = _StreamedCall(
            number=len(self._calls), id=text_at(call_json, "id"), name=text_at(call_json, "name"), pieces=[text]
        )
        before = _same_call(call, streamed)
        if before is None:
            self._count("call", CALL_COST + len(call.id) + len(call.name) + len(text))
            self._calls.append(call)
            opened = self._parts.open_call(call.number, self._names.get(call.name, call.name))
            return opened + self._parts.add_call_text(call.number, text)
        before.is_repeated = True
        if before.pieces:
            return []
        self._count("call", len(text))
        return self._parts.add_call_text(before.number, text)

    def _count(self, kind: str, chars: int) -> None:
        self._size += chars if kind == self._last_kind else chars + _PART_COST
        self._last_kind = kind
        if self._size > limits.MAX_ANSWER_CHARS:
            raise TooManyWaitingParts

    def _count_usage(self, usage_json: object) -> None:
        prompt, output = count_at(usage_json, "prompt_tokens"), count_at(usage_json, "completion_tokens")
        found = build_usage(
            prompt=prompt or max(0, count_at(usage_json, "total_tokens") - output),
            cached=count_at(usage_json, "cached_tokens"),
            written=0,
            output=output,
        )
        # Each is a sum so far, and an empty one at the end takes nothing back.
        if found.tokens >= self.usage.tokens:
            self.usage = found


def build_endless_failure() -> ModelFailed:
    """Say that an answer is longer than any can be."""
    return build_failure("malformed", "The answer of the extension's model does not end")


def arguments_text(arguments: object) -> str:
    """Return arguments as JSON text; extensions send the text, or what it stands for."""
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _key(index: object) -> object:
    return index if isinstance(index, int) else None


def _same_call(call: _StreamedCall, streamed: Iterable[_StreamedCall]) -> _StreamedCall | None:
    """Find the call that the result repeats, which it may do with another id."""
    waiting = [each for each in streamed if not each.is_repeated]
    for each in waiting:
        if call.id and each.id == call.id:
            return each
    for each in waiting:
        if each.name == call.name and (not each.pieces or each.canonical() == call.canonical()):
            return each
    return None


def _sorted_json(text: str) -> str:
    try:
        return json.dumps(json.loads(text or "{}"), sort_keys=True)
    except (ValueError, RecursionError):
        return text
