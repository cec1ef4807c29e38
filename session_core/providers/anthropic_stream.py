"""Decode the answers of Anthropic's Messages API, event by event and without I/O."""

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal

import attrs

from session_core import limits
from session_core.providers.base import (
    ModelFailed,
    ModelFinished,
    ProviderEvent,
    StopReason,
    TextChunk,
    ThinkingChunk,
    ToolCallChunk,
    ToolCallOpened,
)
from session_core.providers.failures import build_failure, failure_from_event, repair_surrogates
from session_core.providers.secrets import Secret
from session_core.providers.sse import SseEvent
from session_core.vocabulary.messages import Usage

SIGNED: Final = "anthropic"
REDACTED: Final = "anthropic-redacted"
_END_MARK: Final = "[DONE]"
"""Not part of this API, but some compatible servers end with this instead of the last event."""

_STOP_REASONS: Final[Mapping[str, StopReason]] = {
    "tool_use": "tool_calls",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "refused",
}
_USAGE_FIELDS: Final = {
    "input_tokens": "input_tokens",
    "output_tokens": "output_tokens",
    "cache_read_input_tokens": "cache_read_tokens",
    "cache_creation_input_tokens": "cache_write_tokens",
}
_TEXT_OF_DELTA: Final = {
    "text_delta": ("text", "text"),
    "thinking_delta": ("thinking", "thinking"),
    "signature_delta": ("thinking", "signature"),
    "input_json_delta": ("tool_use", "partial_json"),
}
"""The kind of block that each delta belongs to, and the field that holds its text."""

_CHUNKS: Final = {"text": TextChunk, "thinking": ThinkingChunk, "tool_use": ToolCallChunk}

BlockKind = Literal["text", "thinking", "redacted_thinking", "tool_use", "other"]


class _MalformedEvent(Exception):
    """An event is invalid, or invalid at this position."""


@attrs.define
class _Block:
    """The part of the answer being received; `whole_input` holds the arguments of a call that came in one piece."""

    index: int
    kind: BlockKind
    signature: str = ""
    redacted: str = ""
    whole_input: str = "{}"
    has_input: bool = False


class AnthropicDecoder:
    """Turns the API's events of one answer into ours; `names` maps the API's tool names to ours."""

    complete: Final = False  # an answer without its last event is never complete

    def __init__(self, *, names: Mapping[str, str] | None = None, secrets: Iterable[Secret] = ()) -> None:
        self._names = names or {}
        self._secrets = tuple(secrets)
        self._block: _Block | None = None
        self._usage: dict[str, Any] = {}
        self._stop_reason: StopReason | None = None
        self._called = False
        self._ended = False

    def decode(self, event: SseEvent) -> list[ProviderEvent]:
        """Decode an event; events after the end of the answer are ignored."""
        if self._ended:
            return []
        found: list[ProviderEvent]
        try:
            found = self._read(event)
        except (_MalformedEvent, RecursionError) as error:
            found = [build_failure("malformed", detail=str(error), secrets=self._secrets)]
        self._ended = any(isinstance(each, ModelFinished | ModelFailed) for each in found)
        return [attrs.evolve(each, usage=self.usage) if isinstance(each, ModelFailed) else each for each in found]

    @property
    def usage(self) -> Usage:
        """The usage of the answer, as far as the server has reported it."""
        return Usage(**self._usage)

    def finish(self) -> list[ProviderEvent]:
        """Handle the end of the stream: a success if the model has reported why it stopped, else a failure."""
        if self._ended:
            return []
        self._ended = True
        if self._stop_reason is not None:
            return [*self._close_block(), self._finished()]
        cut = build_failure("network", "The connection to the provider ended before the answer did")
        return [attrs.evolve(cut, usage=self.usage)]

    def _read(self, event: SseEvent) -> list[ProviderEvent]:
        data = event.json_object()
        if data is None:
            if event.event == "error":
                return [failure_from_event(event.data, secrets=self._secrets)]
            if event.event == "ping":
                return []
            if event.data.strip() == _END_MARK and self._stop_reason is not None:
                return [*self._close_block(), self._finished()]
            raise _MalformedEvent("an event is not a JSON object")
        match data.get("type") or event.event:
            case "message_start":
                self._count(_as_object(data.get("message")).get("usage"))
            case "content_block_start":
                return [
                    *self._close_block(),
                    *self._open_block(_read_index(data), _as_object(data.get("content_block"))),
                ]
            case "content_block_delta":
                return self._grow_block(_read_index(data), _as_object(data.get("delta")))
            case "content_block_stop":
                # Some servers open the next block before they close this one; it was then closed already.
                known = self._block is not None and (data.get("index") is None or data["index"] == self._block.index)
                return self._close_block() if known else []
            case "message_delta":
                self._count(data.get("usage"))
                self._note_stop(_as_object(data.get("delta")).get("stop_reason"))
            case "message_stop":
                return [*self._close_block(), self._finished()]
            case "error":
                return [failure_from_event(data, secrets=self._secrets)]
            case _ if data.get("error"):
                return [failure_from_event(data, secrets=self._secrets)]
            case _:
                # The API may gain events; unknown ones are not errors.
                pass
        return []

    def _open_block(self, index: int, content: Mapping[str, Any]) -> list[ProviderEvent]:
        match content.get("type"):
            case "text":
                self._block = _Block(index, "text")
                return _build_chunk("text", _read_text(content, "text"))
            case "thinking":
                self._block = _Block(index, "thinking", signature=_read_text(content, "signature"))
                return _build_chunk("thinking", _read_text(content, "thinking"))
            case "redacted_thinking":
                self._block = _Block(index, "redacted_thinking", redacted=_read_text(content, "data"))
                return []
            case "tool_use":
                name = _read_text(content, "name")
                if not name:
                    raise _MalformedEvent("a tool call has no name")
                self._called = True
                self._block = _Block(index, "tool_use", whole_input=json.dumps(_as_object(content.get("input"))))
                return [ToolCallOpened(name=self._names.get(name, name))]
            case _:
                self._block = _Block(index, "other")
                return []

    def _grow_block(self, index: int, delta: Mapping[str, Any]) -> list[ProviderEvent]:
        block = self._block
        if block is None or block.index != index:
            raise _MalformedEvent("a delta belongs to no block of the answer")
        kind, field = _TEXT_OF_DELTA.get(str(delta.get("type")), ("", ""))
        if not kind or block.kind == "other":
            return []
        if block.kind != kind:
            raise _MalformedEvent("a delta does not fit its block")
        if field == "partial_json" and isinstance(delta.get(field), dict):
            delta = {field: json.dumps(delta[field])}
        text = _read_text(delta, field)
        if field == "signature":
            block.signature = text
            return []
        block.has_input = block.has_input or bool(text)
        return _build_chunk(kind, text)

    def _close_block(self) -> list[ProviderEvent]:
        block, self._block = self._block, None
        if block is None:
            return []
        if block.signature:
            return [ThinkingChunk(text="", signature=f"{SIGNED}:{block.signature}")]
        if block.redacted:
            return [ThinkingChunk(text="", signature=f"{REDACTED}:{block.redacted}")]
        if block.kind == "tool_use" and not block.has_input:
            return [ToolCallChunk(text=block.whole_input)]
        return []

    def _note_stop(self, reason: object) -> None:
        if isinstance(reason, str):
            self._stop_reason = _STOP_REASONS.get(reason, "end")

    def _count(self, usage: object) -> None:
        """Keep the highest figures: each is a running total, and some servers end with zeros."""
        for theirs, ours in _USAGE_FIELDS.items():
            count = _as_object(usage).get(theirs)
            if isinstance(count, int) and not isinstance(count, bool) and 0 <= count <= limits.MAX_INTEGER:
                self._usage[ours] = max(count, self._usage.get(ours, 0))

    def _finished(self) -> ModelFinished:
        reason = self._stop_reason or ("tool_calls" if self._called else "end")
        return ModelFinished(usage=self.usage, stop_reason=reason)


def _build_chunk(kind: str, text: str) -> list[ProviderEvent]:
    return [_CHUNKS[kind](text=text)] if text else []


def _as_object(item: object) -> Mapping[str, Any]:
    return item if isinstance(item, dict) else {}


def _read_text(item: Mapping[str, Any], field: str) -> str:
    text = item.get(field)
    if text is None:
        return ""
    if not isinstance(text, str):
        raise _MalformedEvent(f"{field} is not text")
    return repair_surrogates(text)


def _read_index(data: Mapping[str, Any]) -> int:
    index = data.get("index")
    if not isinstance(index, int):
        raise _MalformedEvent("a block of the answer has no index")
    return index
