"""A decoder without I/O for the answers of Chat Completions servers in all their dialects.

Servers differ in how they send tool calls (in pieces, whole, without index or id), where they put thinking, how they
report errors, and whether they send the end mark. None of that needs configuration.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from session_core import limits
from session_core.providers.base import ModelFailed, ModelFinished, ProviderEvent, StopReason
from session_core.providers.openai_common import (
    CALL_COST,
    AnswerPartQueue,
    TooManyWaitingParts,
    build_usage,
    call_arguments,
    count_at,
    cut_off_failure,
    failure_from_error,
    objects_at,
    text_at,
    unreadable_failure,
    value_at,
)
from session_core.providers.secrets import Secret
from session_core.providers.sse import SseEvent
from session_core.vocabulary.messages import Usage

_STOP_REASONS: Final[dict[str, StopReason]] = {"length": "max_tokens", "content_filter": "refused"}
_FAILED_REASONS: Final = frozenset({"error", "insufficient_system_resource"})


@attrs.define
class _IncomingCall:
    """A tool call being received; pieces wait in `held` until its name has come."""

    index: int | None
    id: str
    name: str = ""
    whole: bool = False
    held: list[str] = attrs.field(factory=list)


class ChatDecoder:
    """Decodes the answers of all servers with this API; `names` maps their tool names to ours."""

    def __init__(self, secrets: Iterable[Secret] = (), *, names: Mapping[str, str] | None = None) -> None:
        self._secrets = tuple(secrets)
        self._names = names or {}
        self._parts = AnswerPartQueue()
        self._calls: list[_IncomingCall] = []
        self._chars_of_calls = 0
        self.usage = Usage()
        """The usage of the answer, as far as the server has reported it."""
        self._reason = ""
        self._refused = False
        self.ended = False

    @property
    def complete(self) -> bool:
        """Whether the model has reported why it stopped; the usage may still follow."""
        return bool(self._reason)

    def decode(self, event: SseEvent) -> list[ProviderEvent]:
        """Decode the next event."""
        if self.ended or not event.data.strip():
            return []
        if event.data.strip() == "[DONE]":
            return self._finish()
        chunk = event.json_object()
        if chunk is None:
            return self._fail(unreadable_failure("an event that is not a JSON object"))
        try:
            return self._take_chunk(chunk, is_error=event.event == "error")
        except TooManyWaitingParts:
            return self._fail(unreadable_failure("more tool calls than an answer can have"))

    def finish(self) -> list[ProviderEvent]:
        """Handle the end of the stream: the end of the answer if the model had stopped, else a failure."""
        if self.ended:
            return []
        return self._finish() if self.complete else self._fail(cut_off_failure())

    def _take_chunk(self, chunk: dict[str, Any], *, is_error: bool) -> list[ProviderEvent]:
        if is_error or chunk.get("error") or chunk.get("object") == "error":
            return self._fail(failure_from_error(chunk, self._secrets))
        choice = next((each for each in objects_at(chunk, "choices") if not each.get("index")), {})
        for reported_usage in (chunk.get("usage"), choice.get("usage"), value_at(chunk, "x_groq", "usage")):
            # Each report is a running total, and some servers end with an empty one.
            if isinstance(reported_usage, dict) and (found := _read_usage(reported_usage)).tokens >= self.usage.tokens:
                self.usage = found
        if choice.get("error"):
            return self._fail(failure_from_error(choice, self._secrets))
        delta = choice.get("delta") or choice.get("message")
        events = self._parts.add_thinking(text_at(delta, "reasoning_content") or text_at(delta, "reasoning"))
        events += self._take_content(value_at(delta, "content"))
        if refusal := text_at(delta, "refusal"):
            self._refused = True
            events += self._parts.add_text(refusal)
        for call in objects_at(delta, "tool_calls"):
            events += self._take_call(call)
        if isinstance(only := value_at(delta, "function_call"), dict):  # the older format, which allows only one call
            events += self._take_call({"index": 0, "function": only})
        self._reason = text_at(choice, "finish_reason") or self._reason
        if self._reason in _FAILED_REASONS:
            return [*events, *self._fail(failure_from_error({"message": f"stopped by {self._reason}"}, self._secrets))]
        return events

    def _take_content(self, content: object) -> list[ProviderEvent]:
        """Take text, or the list of text and thinking items that some servers send instead."""
        if isinstance(content, str):
            return self._parts.add_text(content)
        events: list[ProviderEvent] = []
        for each in objects_at({"content": content}, "content"):
            for thought in objects_at(each, "thinking"):
                events += self._parts.add_thinking(text_at(thought, "text"))
            events += self._parts.add_text(text_at(each, "text"))
        return events

    def _take_call(self, delta: dict[str, Any]) -> list[ProviderEvent]:
        name = text_at(delta, "function", "name")
        text = call_arguments(value_at(delta, "function", "arguments"))
        events: list[ProviderEvent] = []
        number = self._number_of_call(delta, name, text)
        call = self._calls[number]
        if name and not call.name:
            call.name = name
            call.whole = _is_object(text)
            events += self._parts.open_call(number, self._names.get(name, name))
            text = "".join(call.held) + text
            call.held.clear()
        if call.name:
            return events + self._parts.add_call_text(number, text)
        call.held.append(text)
        self._count(len(text) + 1)
        return events

    def _number_of_call(self, delta: dict[str, Any], name: str, text: str) -> int:
        """Return the number of the call that a piece belongs to, by its index, by its id, or as the newest call."""
        index, call_id = delta.get("index"), text_at(delta, "id")
        for number, call in reversed(list(enumerate(self._calls))):
            if isinstance(index, int):
                fits = call.index == index
            else:
                fits = call.id == call_id if call_id else not name
            if fits:
                # Servers that send whole calls may give all of them the same index, with ids or even without.
                other = bool(call_id) and call_id != call.id if call.id else call.whole and bool(text)
                if name and call.name and other:
                    break
                return number
        self._count(CALL_COST)
        self._calls.append(_IncomingCall(index=index if isinstance(index, int) else None, id=call_id))
        return len(self._calls) - 1

    def _count(self, chars: int) -> None:
        self._chars_of_calls += chars
        if self._chars_of_calls > limits.MAX_ANSWER_CHARS:
            raise TooManyWaitingParts

    def _finish(self) -> list[ProviderEvent]:
        self.ended = True
        events: list[ProviderEvent] = []
        for number, call in enumerate(self._calls):
            if any(call.held):
                events += self._parts.open_call(number, "") + self._parts.add_call_text(number, "".join(call.held))
        events += self._parts.finish()
        reason: StopReason = "tool_calls" if self._parts.calls else "end"
        reason = "refused" if self._refused else _STOP_REASONS.get(self._reason, reason)
        return [*events, ModelFinished(usage=self.usage, stop_reason=reason)]

    def _fail(self, failure: ModelFailed) -> list[ProviderEvent]:
        self.ended = True
        return [attrs.evolve(failure, usage=self.usage)]


def _is_object(text: str) -> bool:
    return SseEvent(data=text).json_object() is not None


def _read_usage(usage: dict[str, Any]) -> Usage:
    prompt, output = count_at(usage, "prompt_tokens"), count_at(usage, "completion_tokens")
    thought = count_at(usage, "completion_tokens_details", "reasoning_tokens")
    if thought and count_at(usage, "total_tokens") == prompt + output + thought:
        output += thought  # most servers already include it
    return build_usage(
        prompt=prompt,
        cached=count_at(usage, "prompt_tokens_details", "cached_tokens") or count_at(usage, "prompt_cache_hit_tokens"),
        written=count_at(usage, "prompt_tokens_details", "cache_write_tokens"),
        output=output,
    )
