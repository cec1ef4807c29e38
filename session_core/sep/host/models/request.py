"""The request to an extension's model: `provider/complete`, as plain JSON.

Messages are flat: `role` and `content`, plus `tool_calls`, `tool_call_id`, `tool_name`, `reasoning_content` and
`images` where they apply. The instructions come first, as a message with the role `system`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from session_core.providers.base import ModelRequest
from session_core.providers.conversation import ModelStep, UserContent, UserStep, prepare_conversation, result_text
from session_core.providers.openai_common import SCHEMA_NAME, image_address, is_strict, tool_parameters
from session_core.providers.tool_names import ToolNames
from session_core.vocabulary.frozen import thaw_json
from session_core.vocabulary.messages import ImagePart, TextPart, ThinkingPart, ToolCallPart, ToolResultPart

_IMAGES_OF_RESULTS: Final = "[Images from the results above]"


def complete_params(
    request: ModelRequest, *, request_id: str, provider: str, model: str, context: Mapping[str, str]
) -> dict[str, Any]:
    """Return the params of one call; unset options of the request are left out."""
    names = ToolNames(spec.name for spec in request.tools)
    params: dict[str, Any] = {
        "request_id": request_id,
        "provider": provider,
        "model": model,
        "messages": _messages(request, names),
        "stream": True,
        "context": dict(context),
    }
    if request.tools:
        params["tools"] = [
            {
                "name": names.fit(spec.name),
                "description": spec.description,
                "parameters": tool_parameters(spec.parameters),
            }
            for spec in request.tools
        ]
    if request.thinking != "off":
        params["thinking"] = request.thinking
    if request.output_schema is not None:
        schema = thaw_json(request.output_schema)
        form = {"name": SCHEMA_NAME, "schema": schema, "strict": is_strict(schema)}
        params["response_format"] = {"type": "json_schema", "json_schema": form}
    if request.max_output_tokens is not None:
        params["max_tokens"] = request.max_output_tokens
    return params


def tool_names(request: ModelRequest) -> Mapping[str, str]:
    """Return a map from the tool names that the extension knows to ours."""
    return ToolNames(spec.name for spec in request.tools).ours


def _messages(request: ModelRequest, names: ToolNames) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = []
    if request.system.strip():
        messages.append({"role": "system", "content": request.system})
    tool_images: list[UserContent] = []  # from tools: only user messages can carry images
    for step in prepare_conversation(request.messages, names.fit):
        match step:
            case UserStep():
                messages.append(_user_message([*tool_images, *step.parts]))
                tool_images = []
            case ModelStep():
                if tool_images:
                    messages.append(_user_message(tool_images))
                messages.append(_assistant_message(step))
                messages.extend(map(_tool_message, step.results))
                tool_images = _images_of(step.results)
    if tool_images:
        messages.append(_user_message(tool_images))
    return messages


def _user_message(parts: Iterable[UserContent]) -> dict[str, Any]:
    content_parts = tuple(parts)
    message: dict[str, Any] = {
        "role": "user",
        "content": "\n\n".join(part.text for part in content_parts if isinstance(part, TextPart)),
    }
    if images := [{"url": image_address(part)} for part in content_parts if isinstance(part, ImagePart)]:
        message["images"] = images
    return message


def _assistant_message(step: ModelStep) -> dict[str, Any]:
    message: dict[str, Any] = {
        "role": "assistant",
        "content": "\n\n".join(part.text for part in step.parts if isinstance(part, TextPart)),
    }
    # Signed thinking belongs to the provider that signed it.
    thoughts = [part.text for part in step.parts if isinstance(part, ThinkingPart) and part.signature is None]
    if any(thoughts):
        message["reasoning_content"] = "\n\n".join(thoughts)
    calls = [part for part in step.parts if isinstance(part, ToolCallPart)]
    if calls:
        message["tool_calls"] = [
            {"id": call.call_id, "name": call.name, "arguments": thaw_json(call.arguments)} for call in calls
        ]
    return message


def _tool_message(result: ToolResultPart) -> dict[str, Any]:
    return {
        "role": "tool",
        "tool_call_id": result.call_id,
        "tool_name": result.name,
        "content": result_text(result),
    }


def _images_of(results: Iterable[ToolResultPart]) -> list[UserContent]:
    images = [image for result in results for image in result.images]
    return [TextPart(text=_IMAGES_OF_RESULTS), *images] if images else []
