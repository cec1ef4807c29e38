"""What a model gets to see of a long conversation: old tool results are shortened before anything else has to go."""

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
    size_of,
)
from session_core.wire.codec import encode

CHARS_PER_TOKEN = 3
"""A careful guess, on the short side: code has fewer characters per token than prose."""
SHORT_RESULT = 2_000
"""What is left of an old tool result: enough to tell what it was about."""
SHORTEST_RESULT = 200
_REMARK_CHARS = 200  # more than what is said about that which is left out
_IMAGE_CHARS = 6_000  # what an image costs a model, whatever the length of its data


def cost_of(message: Message) -> int:
    """Return how many characters a message is worth to a model; images cost about the same whatever their size."""
    if not any(isinstance(part, ImagePart | ToolResultPart) for part in message.parts):
        return size_of(message)  # most of them
    seen = attrs.evolve(message, parts=tuple(map(_as_seen, message.parts)))
    images = [part for part in _with_inner(message.parts) if isinstance(part, ImagePart)]
    return size_of(seen) + _IMAGE_CHARS * len(images)


def chars_of(request: ModelRequest) -> int:
    """Return how many characters a whole request is worth: what is told first, the tools, and the conversation."""
    tools = sum(len(tool.name) + len(tool.description) + len(encode(tool.parameters)) for tool in request.tools)
    return len(request.system) + tools + sum(map(cost_of, request.messages))


def _as_seen(part: Part) -> Part:
    """Leave out what is counted otherwise, or not sent to models at all."""
    match part:
        case ImagePart():
            return attrs.evolve(part, data="")
        case ToolResultPart() if part.images or part.details is not None:
            return attrs.evolve(part, images=(), details=None)
        case _:
            return part


def _with_inner(parts: Sequence[Part]) -> list[Part]:
    inner = [image for part in parts if isinstance(part, ToolResultPart) for image in part.images]
    return [*parts, *inner]


def fit(messages: tuple[Message, ...], max_chars: int) -> tuple[Message, ...]:
    """Shorten tool results, the oldest first, until the conversation fits; returns it as it is when it does.

    The newest results are shortened last: the model has not seen them yet. Nothing else is touched: a conversation of
    long texts may stay too long.
    """
    excess = sum(map(cost_of, messages)) - max_chars
    fitted = list(messages)
    *older, newest = [place for place, message in enumerate(messages) if message.role == "tool"] or [-1]
    for places in (older, [newest] if newest >= 0 else []):
        for longest in (SHORT_RESULT, SHORTEST_RESULT):
            for place in places:
                if excess <= 0:
                    return tuple(fitted)
                shorter = _shortened(fitted[place], longest)
                excess -= cost_of(fitted[place]) - cost_of(shorter)
                fitted[place] = shorter
    return tuple(fitted)


def _shortened(message: Message, longest: int) -> Message:
    return attrs.evolve(message, parts=tuple(_shortened_part(part, longest) for part in message.parts))


def _shortened_part(part: Part, longest: int) -> Part:
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


def without_images(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Put a remark in the place of every image, for a model that cannot see them."""
    return tuple(_without_images(message) for message in messages)


def _without_images(message: Message) -> Message:
    if not any(isinstance(part, ImagePart) for part in _with_inner(message.parts)):
        return message
    return attrs.evolve(message, parts=tuple(map(_without_image, message.parts)))


def _without_image(part: Part) -> Part:
    match part:
        case ImagePart():
            return TextPart(text="[an image, which this model cannot see]")
        case ToolResultPart(images=images) if images:
            return attrs.evolve(
                part, text=f"{part.text}\n[{len(images)} images, which this model cannot see]", images=()
            )
        case _:
            return part


def in_words(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Tell a conversation without tool calls, results and thinking as such, for a model that has no tools to call."""
    told: list[Message] = []
    for message in messages:
        parts = tuple(said for part in message.parts if (said := _in_words(part)) is not None)
        if parts:
            told.append(attrs.evolve(message, role="user" if message.role == "tool" else message.role, parts=parts))
    return tuple(told)


def _in_words(part: Part) -> Part | None:
    match part:
        case ThinkingPart():
            return None
        case ToolCallPart(name=name, arguments=arguments):
            return TextPart(text=f"[called the tool {name} with {encode(arguments).decode()}]\n")
        case ToolResultPart(name=name, status=status, text=text):
            return TextPart(text=f"[the tool {name} gave ({status})]\n{text}\n")
        case _:
            return part
