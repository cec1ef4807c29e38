"""The model's answer as it streams in: chunks become part events, and finally one complete message.

All provider output is cleaned here, at the boundary: text that cannot be encoded is replaced, tool calls get our own
ids, and arguments that are not a JSON object are marked rather than trusted.
"""

import json
from collections.abc import Iterable, Iterator

import attrs

from session_core import limits
from session_core.ids import CallId, MessageId, TurnId, new_id
from session_core.protocols.prose import ProseStream, Span
from session_core.providers.base import ProviderEvent, TextChunk, ThinkingChunk, ToolCallChunk, ToolCallOpened
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import (
    CodePart,
    Message,
    Part,
    PartKind,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    Usage,
)
from session_core.wire.strict_json import find_fault

TOOL_CALL_COST = 1_000  # the size of a tool call in characters: a thousand calls in one answer are a fault
PART_COST = 200  # what any further part adds to the size of the answer: very many parts must fit into a frame too


@attrs.define
class _OpenPart:
    kind: PartKind
    tool_name: str | None = None
    pieces: list[str] = attrs.field(factory=list)
    signature: str | None = None
    cut: bool = False


@attrs.define(eq=False, kw_only=True)
class AnswerInProgress:
    """Collects one answer: `size` counts its characters, `malformed` names tool calls with unreadable arguments."""

    message_id: MessageId
    _parent_id: MessageId | None
    _turn_id: TurnId
    model: str
    _prose: ProseStream | None = None
    malformed: set[CallId] = attrs.field(factory=set, init=False)
    size: int = attrs.field(default=0, init=False)
    _parts: list[_OpenPart] = attrs.field(factory=list, init=False)

    def has_room_for(self, chunk: ProviderEvent) -> bool:
        """Count a chunk and return whether the answer still has a sensible length."""
        match chunk:
            case TextChunk(text=text) | ToolCallChunk(text=text):
                self.size += len(text) or 1  # an endless stream of empty chunks ends too
            case ThinkingChunk(text=text, signature=signature):
                self.size += len(text) + len(signature or "") or 1
            case ToolCallOpened(name=name):
                self.size += TOOL_CALL_COST + len(name)
            case _:
                pass
        more_parts = max(0, len(self._parts) - 1)
        return self.size + PART_COST * more_parts <= limits.MAX_ANSWER_CHARS

    def add_chunk(self, chunk: ProviderEvent) -> Iterator[ev.Event]:
        """Add one chunk; yields the events that report it to readers."""
        match chunk:
            case TextChunk(text=text):
                yield from self._write((("text", text),) if self._prose is None else self._prose.feed(text))
            case ThinkingChunk(text=text, signature=signature):
                yield from self._open("thinking")
                yield from self._append_text(text)
                if signature:
                    self._parts[-1].signature = replace_surrogates(signature)
            case ToolCallOpened(name=name):
                yield from self._begin("tool_call", name)
            case ToolCallChunk(text=text) if self._parts and self._parts[-1].kind == "tool_call":
                yield from self._append_text(text)

    def flush_prose(self) -> Iterator[ev.Event]:
        """Yield the events for text that was held back, as no more chunks come."""
        if self._prose is not None:
            yield from self._write(self._prose.close())
            self._prose = None

    def _write(self, spans: Iterable[Span]) -> Iterator[ev.Event]:
        for kind, text in spans:
            yield from self._open(kind)
            yield from self._append_text(text)

    def _open(self, kind: PartKind) -> Iterator[ev.Event]:
        """Continue the last part, or begin one; a signed part is finished, so more thinking is another part."""
        if not self._parts or self._parts[-1].kind != kind or self._parts[-1].signature is not None:
            yield from self._begin(kind)

    def _begin(self, kind: PartKind, tool_name: str | None = None) -> Iterator[ev.Event]:
        name = replace_surrogates(tool_name)[: limits.MAX_NAME_CHARS] if tool_name is not None else None
        self._parts.append(_OpenPart(kind=kind, tool_name=name))
        yield ev.PartStarted(message_id=self.message_id, kind=kind, tool_name=name)

    def _append_text(self, text: str) -> Iterator[ev.Event]:
        if text:
            text = replace_surrogates(text)
            self._parts[-1].pieces.append(text)
            yield ev.PartDelta(message_id=self.message_id, text=text)

    def build_message(self, *, usage: Usage, now: int, cut: bool = False) -> Message:
        """Return the complete answer; one that was `cut` may end with a tool call whose arguments never came."""
        if cut and self._parts and self._parts[-1].kind == "tool_call":
            self._parts[-1].cut = True
        return Message(
            message_id=self.message_id,
            parent_id=self._parent_id,
            role="assistant",
            parts=tuple(part for part in map(self._build_part, self._parts) if part is not None),
            created_at=now,
            turn_id=self._turn_id,
            model=self.model,
            usage=usage,
        )

    def _build_part(self, part: _OpenPart) -> Part | None:
        text = "".join(part.pieces)
        if part.kind == "text":
            return TextPart(text=text) if text else None
        if part.kind == "code":
            return CodePart(text=text) if text else None
        if part.kind == "thinking":
            return ThinkingPart(text=text, signature=part.signature) if text or part.signature else None
        call_id = CallId(new_id("call"))
        arguments = None if part.cut and not text.strip() else read_arguments(text)
        if arguments is None:
            self.malformed.add(call_id)
        return ToolCallPart(call_id=call_id, name=part.tool_name or "", arguments=arguments or JsonObject())


def replace_surrogates(text: str) -> str:
    """Replace what cannot be encoded, such as an unpaired surrogate."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def read_arguments(text: str) -> JsonObject | None:
    """Read the arguments of a tool call; None when they are not a JSON object."""
    if not text.strip():
        return JsonObject()
    try:
        arguments = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    # Refuse what could not be sent to readers either: half characters, infinite numbers, excessive nesting.
    if not isinstance(arguments, dict) or find_fault(arguments, limits.MAX_OPEN_JSON_DEPTH) is not None:
        return None
    return JsonObject(arguments)


def _refuse(constant: str) -> object:
    raise ValueError(constant)
