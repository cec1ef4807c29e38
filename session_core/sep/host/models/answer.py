"""The answer of an extension's model: streamed pieces, then the complete result, as our own events.

An extension may stream everything, nothing or a part, and repeat any of it in its result. Nothing is emitted twice:
text and thinking that continue where the pieces ended are completed, and tool calls are recognized by their ids, or
else by their names and arguments.
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
"""Characters that each further part of an answer counts as: thousands of tiny parts are an error."""
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
    """A tool call; `is_repeated` is set once the result has repeated it."""

    number: int
    id: str
    name: str
    pieces: list[str] = attrs.field(factory=list)
    is_repeated: bool = False
    _canonical: str | None = None

    def canonical(self) -> str:
        """Return the arguments in a comparable form, computed once: an extension may repeat many calls."""
        if self._canonical is None:
            self._canonical = _sorted_json("".join(self.pieces))
        return self._canonical


class AnswerDecoder:
    """Reads one answer; `names` maps the tool names that the extension knows to ours."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self.usage = Usage()
        """The tokens used, as far as reported."""
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
        """Whether the extension has reported that its model stopped; the result may still follow."""
        return bool(self._reason)

    @property
    def has_content(self) -> bool:
        """Whether any part of the answer has arrived."""
        return bool(self._text or self._thoughts or self._calls)

    def take_delta(self, event: object) -> list[ProviderEvent]:
        """Handle one piece; ignores pieces it does not understand."""
        if self.ended or self.done:
            return []
        try:
            return self._take(event)
        except TooManyWaitingParts:
            return self.fail(build_endless_failure())

    def take_result(self, result: object) -> list[ProviderEvent]:
        """Handle the result, which ends the answer."""
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
        """End the answer with what has arrived."""
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
        """Complete the streamed text; if the result differs, what people have read stays."""
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
        """Handle a call in the result: emit all of it, or only its arguments, or nothing if it was streamed."""
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
        # Each is a running total, and an empty one at the end takes nothing back.
        if found.tokens >= self.usage.tokens:
            self.usage = found


def build_endless_failure() -> ModelFailed:
    """Build the failure of an answer that exceeds the limit."""
    return build_failure("malformed", "The answer of the extension's model does not end")


def arguments_text(arguments: object) -> str:
    """Return arguments as JSON text; extensions send the text, or the value itself."""
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)


def _key(index: object) -> object:
    return index if isinstance(index, int) else None


def _same_call(call: _StreamedCall, streamed: Iterable[_StreamedCall]) -> _StreamedCall | None:
    """Find the streamed call that the result repeats, possibly under another id."""
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
