"""What a model sees of a long conversation: old tool results are shortened before anything else is dropped."""

from collections.abc import Sequence

import attrs

from session_core.providers.base import ModelRequest
from session_core.vocabulary.messages import (
    ImagePart,
    Message,
    Part,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    count_message_chars,
)
from session_core.wire.codec import encode

CHARS_PER_TOKEN = 3
"""A conservative estimate: code has fewer characters per token than prose."""
SHORT_RESULT = 2_000
"""How much of an old tool result is left: enough to tell what it was about."""
SHORTEST_RESULT = 200
_REMARK_CHARS = 200  # more than the remark about what was left out
_IMAGE_CHARS = 6_000  # the cost of an image for a model, whatever the length of its data


def message_cost(message: Message) -> int:
    """Return the cost of a message for a model in characters; images cost about the same whatever their size."""
    if not any(isinstance(part, ImagePart | ToolResultPart) for part in message.parts):
        return count_message_chars(message)  # most of them
    seen = attrs.evolve(message, parts=tuple(map(_countable_part, message.parts)))
    images = [part for part in _flatten_parts(message.parts) if isinstance(part, ImagePart)]
    return count_message_chars(seen) + _IMAGE_CHARS * len(images)


def request_chars(request: ModelRequest) -> int:
    """Return the cost of a whole request in characters: the system prompt, the tools, and the conversation."""
    tools = sum(len(tool.name) + len(tool.description) + len(encode(tool.parameters)) for tool in request.tools)
    return len(request.system) + tools + sum(map(message_cost, request.messages))


def _countable_part(part: Part) -> Part:
    """Leave out what is counted separately, or not sent to models at all."""
    match part:
        case ImagePart():
            return attrs.evolve(part, data="")
        case ToolResultPart() if part.images or part.details is not None:
            return attrs.evolve(part, images=(), details=None)
        case _:
            return part


def _flatten_parts(parts: Sequence[Part]) -> list[Part]:
    inner = [image for part in parts if isinstance(part, ToolResultPart) for image in part.images]
    return [*parts, *inner]


def shorten_to_fit(messages: tuple[Message, ...], max_chars: int) -> tuple[Message, ...]:
    """Shorten tool results, the oldest first, until the conversation fits; returns it unchanged if it already does.

    The newest results are shortened last: the model has not seen them yet. Nothing else is touched: a conversation of
    long messages may stay too long.
    """
    excess = sum(map(message_cost, messages)) - max_chars
    fitted = list(messages)
    *older, newest = [place for place, message in enumerate(messages) if message.role == "tool"] or [-1]
    for places in (older, [newest] if newest >= 0 else []):
        for longest in (SHORT_RESULT, SHORTEST_RESULT):
            for place in places:
                if excess <= 0:
                    return tuple(fitted)
                shorter = _shorten_message(fitted[place], longest)
                excess -= message_cost(fitted[place]) - message_cost(shorter)
                fitted[place] = shorter
    return tuple(fitted)


def _shorten_message(message: Message, longest: int) -> Message:
    return attrs.evolve(message, parts=tuple(_shorten_part(part, longest) for part in message.parts))


def _shorten_part(part: Part, longest: int) -> Part:
    too_long = isinstance(part, ToolResultPart) and len(part.text) > longest + _REMARK_CHARS
    if not isinstance(part, ToolResultPart) or not (too_long or part.images):
        return part
    text = part.text
    if too_long:
        half = longest // 2
        left_out = f"{len(text) - 2 * half:,} characters left out to save room; run the tool again to see them"
        text = f"{text[:half]}\n[... {left_out} ...]\n{text[-half:]}"
    if part.images:
        text += f"\n[{len(part.images)} images left out to save room]"
    return attrs.evolve(part, text=text, images=())


def replace_images(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Replace every image by a remark, for a model that cannot see images."""
    return tuple(_replace_message_images(message) for message in messages)


def _replace_message_images(message: Message) -> Message:
    if not any(isinstance(part, ImagePart) for part in _flatten_parts(message.parts)):
        return message
    return attrs.evolve(message, parts=tuple(map(_replace_part_images, message.parts)))


def _replace_part_images(part: Part) -> Part:
    match part:
        case ImagePart():
            return TextPart(text="[an image, which this model cannot see]")
        case ToolResultPart(images=images) if images:
            return attrs.evolve(
                part, text=f"{part.text}\n[{len(images)} images, which this model cannot see]", images=()
            )
        case _:
            return part


def render_without_tools(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Render tool calls, results and thinking as plain text, for a model that has no tools to call."""
    rendered: list[Message] = []
    for message in messages:
        parts = tuple(rendered_part for part in message.parts if (rendered_part := _render_part(part)) is not None)
        if parts:
            rendered.append(attrs.evolve(message, role="user" if message.role == "tool" else message.role, parts=parts))
    return tuple(rendered)


def _render_part(part: Part) -> Part | None:
    match part:
        case ThinkingPart():
            return None
        case ToolCallPart(name=name, arguments=arguments):
            return TextPart(text=f"[called the tool {name} with {encode(arguments).decode()}]\n")
        case ToolResultPart(name=name, status=status, text=text):
            return TextPart(text=f"[the tool {name} gave ({status})]\n{text}\n")
        case _:
            return part
