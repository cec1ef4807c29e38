"""The Responses API of OpenAI and compatible servers.

The server stores nothing: every call carries the whole conversation, including the reasoning items of earlier answers,
encrypted by the provider. Such items are kept as the signature of their thinking and are sent back unchanged; without
them a reasoning model starts thinking from scratch after each tool call.
"""

import json
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import attrs

from session_core.providers.base import ModelFailed, ModelFinished, ModelRequest, ProviderEvent, StopReason
from session_core.providers.conversation import (
    IMAGE_LEFT_OUT,
    ModelStep,
    UserContent,
    UserStep,
    own_signature,
    prepare_conversation,
    result_text,
)
from session_core.providers.endpoint import Endpoint
from session_core.providers.http import stream_answer
from session_core.providers.openai_common import (
    MAX_CACHE_KEY_CHARS,
    SCHEMA_NAME,
    AnswerPartQueue,
    TooManyWaitingParts,
    arguments_text,
    build_usage,
    call_arguments,
    count_at,
    cut_off_failure,
    encode_body,
    failure_from_error,
    image_address,
    is_strict,
    objects_at,
    text_at,
    tool_parameters,
    unreadable_failure,
    value_at,
)
from session_core.providers.secrets import Secret
from session_core.providers.sse import SseEvent
from session_core.providers.tool_names import ToolNames
from session_core.vocabulary.frozen import thaw_json
from session_core.vocabulary.messages import ImagePart, TextPart, ThinkingPart, ToolCallPart, ToolResultPart, Usage
from session_core.vocabulary.tools import ToolSpec

PATH: Final = "/responses"
SIGNATURE_KIND: Final = "openai"
_FEWEST_OUTPUT_TOKENS: Final = 16  # asking for fewer is an error
_SIGNED_REASONING_FIELDS: Final = ("type", "id", "summary", "content", "encrypted_content")


@attrs.frozen(kw_only=True)
class ResponsesOptions:
    """The abilities of a model with this API.

    Attributes:
        can_see: Whether the model accepts images; if not, it is told that there was one.
        can_think: Whether it is a reasoning model; others refuse the parameter.
        effort_when_off: The effort to request when thinking is off; by default the model decides.
        summaries: Whether to ask for a readable summary of the thinking; some accounts may not.
    """

    can_see: bool = True
    can_think: bool = True
    effort_when_off: str | None = None
    summaries: bool = True


class ResponsesProvider:
    """Answers from a server with this API; `endpoint` is its address up to `/responses`."""

    def __init__(self, endpoint: Endpoint, model_id: str, *, options: ResponsesOptions | None = None) -> None:
        self._endpoint = endpoint
        self._model_id = model_id
        self._options = options or ResponsesOptions()

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[ProviderEvent]]:
        """Call the model; leaving the context at any moment closes the connection."""
        body = encode_body(build_request(request, self._model_id, self._options))
        names = ToolNames(tool.name for tool in request.tools)
        decoder = ResponsesDecoder(self._endpoint.secrets, names=names.ours)
        async with stream_answer(self._endpoint, PATH, body, decoder) as events:
            yield events


def build_request(request: ModelRequest, model_id: str, options: ResponsesOptions) -> dict[str, Any]:
    """Return the JSON body of a call."""
    names = ToolNames(tool.name for tool in request.tools)
    body: dict[str, Any] = {
        "model": model_id,
        "input": list(_build_input(request, options, names)),
        "stream": True,
        "store": False,
    }
    if request.system.strip():
        body["instructions"] = request.system
    if request.tools:
        body["tools"] = [_build_tool(spec, names) for spec in request.tools]
    if request.max_output_tokens is not None:
        body["max_output_tokens"] = max(_FEWEST_OUTPUT_TOKENS, request.max_output_tokens)
    if options.can_think:
        body["include"] = ["reasoning.encrypted_content"]
        effort = request.thinking if request.thinking != "off" else options.effort_when_off
        reasoning = {"effort": effort} if effort is not None else {}
        if options.summaries and request.thinking != "off":
            reasoning["summary"] = "auto"
        if reasoning:
            body["reasoning"] = reasoning
    if request.output_schema is not None:
        schema = thaw_json(request.output_schema)
        form = {"type": "json_schema", "name": SCHEMA_NAME, "schema": schema, "strict": is_strict(schema)}
        body["text"] = {"format": form}
    if request.cache_key:
        body["prompt_cache_key"] = request.cache_key[:MAX_CACHE_KEY_CHARS]
    return body


def _build_tool(spec: ToolSpec, names: ToolNames) -> dict[str, Any]:
    parameters = tool_parameters(spec.parameters)
    return {
        "type": "function",
        "name": names.fit(spec.name),
        "description": spec.description,
        "parameters": parameters,
        "strict": False,
    }


def _build_input(request: ModelRequest, options: ResponsesOptions, names: ToolNames) -> Iterable[dict[str, Any]]:
    for step in prepare_conversation(request.messages, names.fit):
        match step:
            case UserStep():
                yield {"type": "message", "role": "user", "content": _build_contents(step.parts, options)}
            case ModelStep():
                for part in step.parts:
                    match part:
                        case TextPart():
                            yield {"type": "message", "role": "assistant", "content": part.text}
                        case ThinkingPart():
                            yield from _signed_reasoning_items(part) if options.can_think else ()
                        case ToolCallPart():
                            yield _build_call(part)
                for result in step.results:
                    yield _build_result(result, options)


def _build_call(call: ToolCallPart) -> dict[str, Any]:
    arguments = arguments_text(call.arguments)
    return {"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": arguments}


def _build_result(result: ToolResultPart, options: ResponsesOptions) -> dict[str, Any]:
    output: str | list[dict[str, Any]] = result_text(result)
    if result.images:
        output = _build_contents((TextPart(text=result_text(result)), *result.images), options)
    return {"type": "function_call_output", "call_id": result.call_id, "output": output}


def _build_contents(parts: Iterable[UserContent], options: ResponsesOptions) -> list[dict[str, Any]]:
    contents: list[dict[str, Any]] = []
    for part in parts:
        if isinstance(part, ImagePart) and options.can_see:
            contents.append({"type": "input_image", "image_url": image_address(part), "detail": "auto"})
        else:
            contents.append({"type": "input_text", "text": part.text if isinstance(part, TextPart) else IMAGE_LEFT_OUT})
    return contents


def _signed_reasoning_items(part: ThinkingPart) -> Iterable[dict[str, Any]]:
    """Yield the reasoning items kept in a signature; none if another provider made it."""
    signature = own_signature(part, SIGNATURE_KIND)
    if signature is None:
        return
    for item in objects_at(SseEvent(data=f'{{"items":{signature}}}').json_object(), "items"):
        if item.get("type") == "reasoning" and item.get("id") and isinstance(item.get("summary"), list):
            yield item


def _build_signature(items: list[dict[str, Any]]) -> str:
    """Return the signature that keeps reasoning items unchanged; several items of one thinking share it."""
    saved_items = [{key: item[key] for key in _SIGNED_REASONING_FIELDS if item.get(key) is not None} for item in items]
    return f"{SIGNATURE_KIND}:{json.dumps(saved_items, separators=(',', ':'))}"


class ResponsesDecoder:
    """Decodes the events of one answer; ignores events about things we never request.

    `names` maps the API's tool names to ours.
    """

    complete: Final = False  # an answer without its final event is never complete

    def __init__(self, secrets: Iterable[Secret] = (), *, names: Mapping[str, str] | None = None) -> None:
        self._secrets = tuple(secrets)
        self._names = names or {}
        self._parts = AnswerPartQueue()
        self._reasoning: list[dict[str, Any]] = []
        self._with_text: set[int] = set()
        self._with_call: set[int] = set()
        self._with_arguments: set[int] = set()
        self._refused = False
        self.usage = Usage()
        """The usage of the answer, as far as the server has reported it."""
        self.ended = False

    def decode(self, event: SseEvent) -> list[ProviderEvent]:
        """Decode the next event."""
        if self.ended or not event.data.strip() or event.data.strip() == "[DONE]":
            return []
        body = event.json_object()
        if body is None:
            return self._fail(unreadable_failure("an event that is not a JSON object"))
        try:
            return self._take(text_at(body, "type") or event.event, body)
        except TooManyWaitingParts:
            return self._fail(unreadable_failure("more tool calls at once than an answer can have"))

    def finish(self) -> list[ProviderEvent]:
        """Handle the end of the stream: without its final event, the answer is incomplete."""
        return [] if self.ended else self._fail(cut_off_failure())

    def _take(self, kind: str, body: dict[str, Any]) -> list[ProviderEvent]:
        place = count_at(body, "output_index")
        if isinstance(used := value_at(body, "response", "usage"), dict):
            self.usage = _read_usage(used)
        match kind:
            case "response.output_text.delta":
                return self._take_text(place, text_at(body, "delta"))
            case "response.refusal.delta":
                self._refused = True
                return self._take_text(place, text_at(body, "delta"))
            case "response.reasoning_summary_part.added" if count_at(body, "summary_index"):
                return self._parts.add_thinking("\n\n")
            case "response.reasoning_summary_text.delta" | "response.reasoning_text.delta":
                return self._parts.add_thinking(text_at(body, "delta"))
            case "response.function_call_arguments.delta":
                return self._take_arguments(place, text_at(body, "delta"))
            case "response.function_call_arguments.done" if place not in self._with_arguments:
                return self._take_arguments(place, call_arguments(body.get("arguments")))
            case "response.output_item.added":
                return self._open_item(place, value_at(body, "item"))
            case "response.output_item.done":
                return self._close_item(place, value_at(body, "item"))
            case "response.completed" | "response.incomplete" | "response.failed" | "response.cancelled":
                return self._end(kind, value_at(body, "response"))
            case "response.done":  # some compatible servers send this for any of these
                return self._end(f"response.{text_at(body, 'response', 'status')}", value_at(body, "response"))
            case "error" | "response.error":
                return self._fail(failure_from_error(body, self._secrets))
            case _ if body.get("error"):
                return self._fail(failure_from_error(body, self._secrets))
            case _:
                return []

    def _take_text(self, place: int, text: str) -> list[ProviderEvent]:
        self._with_text.add(place)
        if text:
            self._reasoning.clear()
        return self._parts.add_text(text)

    def _take_arguments(self, place: int, text: str) -> list[ProviderEvent]:
        if text:
            self._with_arguments.add(place)
        return self._parts.add_call_text(place, text)

    def _open_item(self, place: int, item: object) -> list[ProviderEvent]:
        if text_at(item, "type") != "function_call":
            return []
        self._with_call.add(place)
        self._reasoning.clear()
        name = text_at(item, "name")
        return self._parts.open_call(place, self._names.get(name, name))

    def _close_item(self, place: int, item: object) -> list[ProviderEvent]:
        """Take the content of the whole item that its deltas lacked: some servers send no deltas."""
        match text_at(item, "type"):
            case "function_call":
                events = [] if place in self._with_call else self._open_item(place, item)
                if place not in self._with_arguments:
                    events += self._take_arguments(place, call_arguments(value_at(item, "arguments")))
                return events + self._parts.end_call(place)
            case "message" if place not in self._with_text:
                events = []
                for content in objects_at(item, "content"):
                    self._refused = self._refused or bool(text_at(content, "refusal"))
                    events += self._take_text(place, text_at(content, "text") or text_at(content, "refusal"))
                return events
            case "reasoning" if isinstance(item, dict) and text_at(item, "id") and text_at(item, "encrypted_content"):
                self._reasoning.append({"summary": []} | item)
                return self._parts.add_thinking("", _build_signature(self._reasoning))
            case _:
                return []

    def _end(self, kind: str, response: object) -> list[ProviderEvent]:
        if kind == "response.failed":
            return self._fail(failure_from_error({"error": value_at(response, "error")}, self._secrets))
        if kind == "response.cancelled":
            return self._fail(failure_from_error({"message": "the server cancelled the answer"}, self._secrets))
        events: list[ProviderEvent] = []
        if not self._with_text and not self._with_call:  # some servers send everything only at the end
            for place, item in enumerate(objects_at(response, "output")):
                events += [] if text_at(item, "type") == "reasoning" else self._close_item(place, item)
        self.ended = True
        events += self._parts.finish()
        reason: StopReason = "refused" if self._refused else "tool_calls" if self._parts.calls else "end"
        if kind == "response.incomplete":
            filtered = text_at(response, "incomplete_details", "reason") == "content_filter"
            reason = "refused" if filtered else "max_tokens"
        return [*events, ModelFinished(usage=self.usage, stop_reason=reason)]

    def _fail(self, failure: ModelFailed) -> list[ProviderEvent]:
        self.ended = True
        return [attrs.evolve(failure, usage=self.usage)]


def _read_usage(usage: object) -> Usage:
    return build_usage(
        prompt=count_at(usage, "input_tokens"),
        cached=count_at(usage, "input_tokens_details", "cached_tokens"),
        written=count_at(usage, "input_tokens_details", "cache_write_tokens"),
        output=count_at(usage, "output_tokens"),
    )
