"""Shared parts of the two OpenAI APIs: ordering the parts of an answer, tolerant JSON access, errors, schemas.

Both APIs may stream several tool calls at once, while a `Provider` yields one part after the other: `AnswerPartQueue`
puts them in order. Nothing that a server sends is trusted: values of a wrong type count as absent.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final

import attrs

from session_core import limits
from session_core.providers.base import (
    ModelFailed,
    ProviderEvent,
    TextChunk,
    ThinkingChunk,
    ToolCallChunk,
    ToolCallOpened,
)
from session_core.providers.failures import failure_from_event, failure_from_status
from session_core.providers.secrets import Secret
from session_core.vocabulary.frozen import JsonObject, thaw_json
from session_core.vocabulary.messages import ImagePart, Usage

SCHEMA_NAME: Final = "answer"
MAX_CACHE_KEY_CHARS: Final = 64
"""The longest cache key that the APIs accept."""

CALL_COST: Final = 1_000
"""Characters that each further part counts as, so that endless empty calls hit the bound too."""


class TooManyWaitingParts(Exception):
    """More parts of an answer are waiting than any sensible answer has."""


@attrs.define
class _StreamedPart:
    """A part of the answer; `key` identifies a call within the answer and is None for text and thinking."""

    kind: type[TextChunk | ThinkingChunk | ToolCallChunk]
    key: object = None
    name: str = ""
    done: bool = False
    opened: bool = False
    waiting: list[ProviderEvent] = attrs.field(factory=list)


class AnswerPartQueue:
    """Yields the parts of an answer one after the other: the first open one at once, later ones when it is done.

    Text and thinking are done as soon as another part begins; a tool call is done at `end_call` or `finish`.

    Raises:
        TooManyWaitingParts: From any method that adds something.
    """

    def __init__(self) -> None:
        self._parts: list[_StreamedPart] = []
        self._waiting_chars = 0
        self.calls = 0

    def add_text(self, text: str) -> list[ProviderEvent]:
        """Add a piece of text."""
        return self._add_loose(TextChunk(text=text), len(text)) if text else []

    def add_thinking(self, text: str, signature: str | None = None) -> list[ProviderEvent]:
        """Add a piece of thinking."""
        if not text and not signature:
            return []
        return self._add_loose(ThinkingChunk(text=text, signature=signature), len(text) + len(signature or ""))

    def open_call(self, key: object, name: str) -> list[ProviderEvent]:
        """Begin a tool call; a key that is already in use begins another call with the same key."""
        self.calls += 1
        return self._append(_StreamedPart(kind=ToolCallChunk, key=key, name=name))

    def add_call_text(self, key: object, text: str) -> list[ProviderEvent]:
        """Add a piece of the arguments of the newest call with that key."""
        part = self._find_newest_call(key)
        if part is None or not text:
            return []
        part.waiting.append(ToolCallChunk(text=text))
        return self._release(len(text))

    def end_call(self, key: object) -> list[ProviderEvent]:
        """Mark a call as complete."""
        part = self._find_newest_call(key)
        if part is not None:
            part.done = True
        return self._release(0)

    def finish(self) -> list[ProviderEvent]:
        """Release everything that is waiting."""
        for part in self._parts:
            part.done = True
        return self._release(0)

    def _find_newest_call(self, key: object) -> _StreamedPart | None:
        return next((part for part in reversed(self._parts) if part.kind is ToolCallChunk and part.key == key), None)

    def _add_loose(self, chunk: TextChunk | ThinkingChunk, chars: int) -> list[ProviderEvent]:
        if self._parts and self._parts[-1].kind is type(chunk):
            self._parts[-1].waiting.append(chunk)
            return self._release(chars)
        return self._append(_StreamedPart(kind=type(chunk), opened=True, waiting=[chunk]), chars)

    def _append(self, part: _StreamedPart, chars: int = 0) -> list[ProviderEvent]:
        for before in self._parts:
            if before.kind is not ToolCallChunk:
                before.done = True
        self._parts.append(part)
        return self._release(CALL_COST + chars)

    def _release(self, chars: int) -> list[ProviderEvent]:
        out: list[ProviderEvent] = []
        while self._parts:
            part = self._parts[0]
            if not part.opened:
                part.opened = True
                out.append(ToolCallOpened(name=part.name))
            out.extend(part.waiting)
            part.waiting.clear()
            if not part.done:
                break
            self._parts.pop(0)
        self._waiting_chars = self._waiting_chars + chars if len(self._parts) > 1 else 0
        if self._waiting_chars > limits.MAX_ANSWER_CHARS:
            raise TooManyWaitingParts
        return out


def text_at(source: object, *path: str) -> str:
    """Return the text found by following these keys, or an empty text."""
    found = value_at(source, *path)
    return found if isinstance(found, str) else ""


def count_at(source: object, *path: str) -> int:
    """Return the count found by following these keys, or 0."""
    found = value_at(source, *path)
    if isinstance(found, bool) or not isinstance(found, int):
        return 0
    return min(max(0, found), limits.MAX_INTEGER)


def value_at(source: object, *path: str) -> Any:
    """Return the value found by following these keys, or None."""
    for key in path:
        source = source.get(key) if isinstance(source, dict) else None
    return source


def objects_at(source: object, *path: str) -> Iterator[dict[str, Any]]:
    """Yield the objects in the list found by following these keys."""
    found = value_at(source, *path)
    return (each for each in found if isinstance(each, dict)) if isinstance(found, list) else iter(())


def call_arguments(arguments: object) -> str:
    """Return the arguments of a call as text; some servers send the object itself."""
    return json.dumps(arguments) if isinstance(arguments, dict) else arguments if isinstance(arguments, str) else ""


def build_usage(*, prompt: int, cached: int, written: int, output: int) -> Usage:
    """Return the usage as reported by an API that counts cached tokens as part of the prompt."""
    cached = min(cached, prompt)
    written = min(written, prompt - cached)
    return Usage(
        input_tokens=prompt - cached - written,
        output_tokens=output,
        cache_read_tokens=cached,
        cache_write_tokens=written,
    )


def encode_body(body: dict[str, Any]) -> bytes:
    """Return a request as bytes; characters that cannot be encoded, such as lone surrogates, are replaced."""
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def arguments_text(arguments: JsonObject) -> str:
    """Return the arguments of a call as JSON text, as the APIs require."""
    return json.dumps(thaw_json(arguments), ensure_ascii=False)


def image_address(image: ImagePart) -> str:
    """Return an image as a data URL."""
    return f"data:{image.media_type};base64,{image.data}"


def tool_parameters(parameters: JsonObject) -> dict[str, Any]:
    """Return a tool's schema with the keys that the APIs require even for tools without parameters."""
    plain: dict[str, Any] = thaw_json(parameters)
    return {"type": "object", "properties": {}} | plain


def is_strict(schema: object) -> bool:
    """Return whether a schema follows the rules of strict output: every object closed, every property required.

    Requesting strictness with any other schema is an error; without it models still usually follow the schema.
    """
    waiting: list[object] = [schema]
    while waiting:
        each = waiting.pop()
        if isinstance(each, dict):
            if each.get("type") == "object" or "properties" in each:
                properties, required = each.get("properties", {}), each.get("required", [])
                if each.get("additionalProperties") is not False or not isinstance(properties, dict):
                    return False
                if not isinstance(required, list) or set(map(str, required)) != set(properties):
                    return False
            waiting.extend(each.values())
        elif isinstance(each, list):
            waiting.extend(each)
    return True


def cut_off_failure() -> ModelFailed:
    """Return the failure of a stream that ended before the answer did."""
    return ModelFailed(kind="network", message="The connection ended before the answer was complete.")


def unreadable_failure(what: str) -> ModelFailed:
    """Return the failure of a server that sent something that is not part of an answer."""
    return ModelFailed(kind="malformed", message=f"The model's server sent {what}.")


def failure_from_error(error: dict[str, Any], secrets: Iterable[Secret]) -> ModelFailed:
    """Classify an error in the middle of an answer; some servers give an HTTP status, others a type."""
    inner = error.get("error")
    code = value_at(inner if isinstance(inner, dict) else error, "code")
    status = int(code) if isinstance(code, str) and code.isdecimal() and len(code) == 3 else code
    if isinstance(status, int) and 400 <= status <= 599:
        return failure_from_status(status, {}, encode_body(error), secrets=secrets)
    return failure_from_event(error, secrets=secrets)
