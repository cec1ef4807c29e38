"""Messages of people, models and tools, and their parts, as pure values.

A message knows its parent, so the messages of a session form a tree; the session's `head` names the leaf being shown.
An assistant message that was cut short ends with an `InterruptedPart`, which both people and the model see.
"""

from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

import attrs

from session_core.ids import CallId, MessageId, QueueItemId, SessionId, TurnId
from session_core.vocabulary.frozen import JsonObject, JsonValue, Rope

Role = Literal["user", "assistant", "tool", "summary"]
PostedRole = Literal["user", "assistant"]
"""The possible roles of a message that no person typed and no model wrote."""
InterruptReason = Literal["stopped", "failed", "interrupted", "max_tokens"]
ToolStatus = Literal["success", "error", "denied", "cancelled", "interrupted"]
RefusedBy = Literal["rule", "mode", "extension", "person", "nobody"]
"""Who refused a call: a rule of the configuration, the permission mode, an extension, a person whom it was shown to, or
nobody, because nobody could be asked or answered in time."""


@attrs.frozen(kw_only=True)
class TextPart:
    """Text meant for the reader."""

    text: str


@attrs.frozen(kw_only=True)
class CodePart:
    """Model text that only its protocol reads, such as a cell of code with its delimiters."""

    text: str


@attrs.frozen(kw_only=True)
class ThinkingPart:
    """The model's reasoning; `signature` lets a provider check that it comes back unchanged."""

    text: str
    signature: str | None = None


ImageType: TypeAlias = Literal["image/png", "image/jpeg", "image/gif", "image/webp"]


@attrs.frozen(kw_only=True)
class ImagePart:
    """An image as base64 text."""

    media_type: ImageType
    data: str


def image_type(start: bytes) -> ImageType | None:
    """Recognise an image by its first bytes, whatever its name says."""
    if start.startswith(b"\x89PNG\r\n\x1a\n"):
        return "image/png"
    if start.startswith(b"\xff\xd8\xff"):
        return "image/jpeg"
    if start.startswith((b"GIF87a", b"GIF89a")):
        return "image/gif"
    return "image/webp" if start[:4] == b"RIFF" and start[8:12] == b"WEBP" else None


@attrs.frozen(kw_only=True)
class FilePart:
    """A text file attached to a message, with its content at that time."""

    name: str
    text: str


@attrs.frozen(kw_only=True)
class ToolCallPart:
    """The model asks for a tool to be run."""

    call_id: CallId
    name: str
    arguments: JsonObject


@attrs.frozen(kw_only=True)
class Refusal:
    """Why a call was denied: who refused it, and what they said, if anything; an extension names itself there."""

    by: RefusedBy
    reason: str = ""

    @property
    def explanation(self) -> str:
        """The reason as a sentence for people; empty if a person refused without a word."""
        match self.by:
            case "extension":
                return f"Blocked by an extension: {self.reason}"
            case "person":
                return f"The user says: {self.reason}" if self.reason else ""
            case "nobody":
                return self.reason or "Nobody has answered."
            case "rule" | "mode":
                return self.reason


@attrs.frozen(kw_only=True)
class ToolResultPart:
    """The result of a tool call; every call gets exactly one. `text` is for the model, `refusal` says why `denied`."""

    call_id: CallId
    name: str
    status: ToolStatus
    text: str
    images: tuple[ImagePart, ...] = ()
    details: JsonObject | None = None
    refusal: Refusal | None = None


@attrs.frozen(kw_only=True)
class InterruptedPart:
    """The message ends here although its author had more to say."""

    reason: InterruptReason


Part = TextPart | CodePart | ThinkingPart | ImagePart | FilePart | ToolCallPart | ToolResultPart | InterruptedPart


@attrs.frozen(kw_only=True)
class Usage:
    """Tokens used, and what they cost in millionths of a US dollar where the price is known.

    `estimated` means that some counts were estimated from text lengths because the provider reported none.
    """

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_micros: int = 0
    estimated: bool = False

    @property
    def tokens(self) -> int:
        """The sum of all tokens, read and written: what the model's context had to hold."""
        return self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_write_tokens

    def plus(self, other: "Usage") -> "Usage":
        """Return the sum of both."""
        return Usage(
            input_tokens=self.input_tokens + other.input_tokens,
            output_tokens=self.output_tokens + other.output_tokens,
            cache_read_tokens=self.cache_read_tokens + other.cache_read_tokens,
            cache_write_tokens=self.cache_write_tokens + other.cache_write_tokens,
            cost_micros=self.cost_micros + other.cost_micros,
            estimated=self.estimated or other.estimated,
        )


@attrs.frozen(kw_only=True)
class Message:
    """One finished entry of the conversation tree; `source` is the extension or protocol that added it.

    `queue_item_id` is its id in the queue, if it was queued, by which its sender can recognize it.
    """

    message_id: MessageId
    parent_id: MessageId | None
    role: Role
    parts: tuple[Part, ...]
    created_at: int
    turn_id: TurnId | None = None
    model: str | None = None
    usage: Usage | None = None
    source: str | None = None
    queue_item_id: QueueItemId | None = None

    @property
    def text(self) -> str:
        """The visible text of all text parts."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def written_text(self) -> str:
        """All text by its author, including parts that only a protocol reads."""
        return "".join(part.text for part in self.parts if isinstance(part, TextPart | CodePart))

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        """The tool calls in this message, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolCallPart))

    @property
    def is_interrupted(self) -> bool:
        """Whether the message was cut short."""
        return any(isinstance(part, InterruptedPart) for part in self.parts)


def count_message_chars(message: Message) -> int:
    """Return the total number of characters (code points) in the parts of a message; at least 1.

    In JSON, texts and keys count with their length, and every value counts one more for its punctuation. The digits of
    numbers do not count, because they depend on the writer.
    """
    return max(1, sum(map(_count_part_chars, message.parts)))


def _count_part_chars(part: Part) -> int:
    match part:
        case TextPart() | CodePart():
            return len(part.text)
        case ThinkingPart():
            return len(part.text) + len(part.signature or "")
        case ImagePart():
            return len(part.data)
        case FilePart():
            return len(part.name) + len(part.text)
        case ToolCallPart():
            return _count_json_chars(part.arguments)
        case ToolResultPart():
            details = 0 if part.details is None else _count_json_chars(part.details)
            return len(part.text) + sum(len(image.data) for image in part.images) + details
        case InterruptedPart():
            return 0


def _count_json_chars(item: JsonValue, *, per_value: int = 1) -> int:
    """Count without recursion, because JSON may be nested too deep for Python's stack."""
    size, waiting = 0, [item]
    while waiting:
        each = waiting.pop()
        size += per_value
        if isinstance(each, str):
            size += len(each)
        elif isinstance(each, JsonObject):
            size += sum(map(len, each))
            waiting.extend(each.values())
        elif isinstance(each, tuple):
            waiting.extend(each)
    return size


_CHAR_BYTES: Final = 6
_PART_BYTES: Final = 300
"""The names and the punctuation of a part, and of each image in it."""
_VALUE_CHARS: Final = 6
"""A value in open JSON takes at most as many bytes as six characters: the longest number, and punctuation."""


def count_max_bytes(parts: Iterable[Part]) -> int:
    """Return the most bytes that these parts can take as JSON: six for a character, one for a character of an image."""
    return sum(map(_count_max_bytes, parts))


def _count_max_bytes(part: Part) -> int:
    match part:
        case TextPart() | CodePart():
            return _CHAR_BYTES * len(part.text) + _PART_BYTES
        case ImagePart(data=data):
            return len(data) + _PART_BYTES
        case ToolCallPart(call_id=call_id, name=name, arguments=arguments):
            chars = len(call_id) + len(name) + _count_json_chars(arguments, per_value=_VALUE_CHARS)
        case ToolResultPart(details=details, refusal=refusal):
            chars = len(part.call_id) + len(part.name) + len(part.text) + len(refusal.reason if refusal else "")
            chars += 0 if details is None else _count_json_chars(details, per_value=_VALUE_CHARS)
            return _CHAR_BYTES * chars + _PART_BYTES + sum(map(_count_max_bytes, part.images))
        case _:
            chars = _count_part_chars(part)
    return _CHAR_BYTES * chars + _PART_BYTES


PartKind = Literal["text", "code", "thinking", "tool_call"]


@attrs.frozen(kw_only=True)
class PartialPart:
    """A part that is still being written; for a tool call `text` is the JSON of its arguments so far."""

    kind: PartKind
    text: Rope
    tool_name: str | None = None


@attrs.frozen(kw_only=True)
class PartialMessage:
    """The assistant message being written right now."""

    message_id: MessageId
    parent_id: MessageId | None
    turn_id: TurnId
    model: str
    started_at: int
    parts: tuple[PartialPart, ...] = ()


@attrs.frozen(kw_only=True)
class ToolProgress:
    """The progress of a running tool, from 0 to 1, as far as it reports any."""

    message: str | None = None
    progress: float | None = None
    details: JsonValue = None


@attrs.frozen(kw_only=True)
class LiveTool:
    """A tool call that has started and whose result is not yet part of the conversation.

    `child_id` is the child session that does the work, if the tool delegated it to one.
    """

    call_id: CallId
    name: str
    arguments: JsonObject
    started_at: int
    output: str = ""
    result: ToolResultPart | None = None
    child_id: SessionId | None = None
    progress: ToolProgress | None = None


UserPart = TextPart | ImagePart | FilePart
"""What a user message may hold."""
