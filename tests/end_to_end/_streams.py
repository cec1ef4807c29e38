"""Answers of models as their servers stream them, in the three formats, each as the list of its events."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import attrs

PROMPT_TOKENS, ANSWER_TOKENS = 120, 7
Call = tuple[str, dict[str, Any]]


@attrs.frozen(kw_only=True)
class Dialect:
    """One interface: what the configuration calls it, and how its answers and errors look."""

    kind: str
    path: str
    answer: Callable[..., list[bytes]]
    too_long: dict[str, Any]

    def __str__(self) -> str:
        return self.kind


def _pieces(text: str, size: int = 6) -> list[str]:
    return [text[place : place + size] for place in range(0, len(text), size)]


def _sse(data: dict[str, Any], *, named: bool) -> bytes:
    head = f"event: {data['type']}\n" if named else ""
    return f"{head}data: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


# --- Anthropic --------------------------------------------------------------------------------------------------------


def anthropic(text: str = "", calls: Sequence[Call] = ()) -> list[bytes]:
    """An answer of the Messages interface."""
    usage = {"input_tokens": PROMPT_TOKENS, "output_tokens": 1, "cache_read_input_tokens": 0}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "usage": usage}
    events: list[dict[str, Any]] = [{"type": "message_start", "message": message}, {"type": "ping"}]
    if text:
        deltas = [{"type": "text_delta", "text": each} for each in _pieces(text)]
        events += _block(0, {"type": "text", "text": ""}, deltas)
    for index, (name, arguments) in enumerate(calls, start=1 if text else 0):
        pieces = [{"type": "input_json_delta", "partial_json": each} for each in ("", *_pieces(json.dumps(arguments)))]
        events += _block(index, {"type": "tool_use", "id": f"toolu_{index}", "name": name, "input": {}}, pieces)
    end = {"stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None}
    events += [{"type": "message_delta", "delta": end, "usage": {"output_tokens": ANSWER_TOKENS}}]
    return [_sse(event, named=True) for event in [*events, {"type": "message_stop"}]]


def _block(index: int, start: dict[str, Any], deltas: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


# --- Chat Completions -------------------------------------------------------------------------------------------------


def chat(text: str = "", calls: Sequence[Call] = ()) -> list[bytes]:
    """An answer of the Chat Completions interface, its calls whole as Ollama sends them."""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": each} for each in _pieces(text)]
    for index, (name, arguments) in enumerate(calls):
        function = {"name": name, "arguments": json.dumps(arguments)}
        deltas += [{"tool_calls": [{"index": index, "id": f"call_{index}", "type": "function", "function": function}]}]
    chunks = [_chunk([{"index": 0, "delta": delta, "finish_reason": None}]) for delta in deltas]
    chunks += [_chunk([{"index": 0, "delta": {}, "finish_reason": "tool_calls" if calls else "stop"}])]
    usage = {"prompt_tokens": PROMPT_TOKENS, "completion_tokens": ANSWER_TOKENS}
    return [_sse(chunk, named=False) for chunk in [*chunks, {**_chunk([]), "usage": usage}]] + [b"data: [DONE]\n\n"]


def _chunk(choices: list[dict[str, Any]]) -> dict[str, Any]:
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": choices}


# --- Responses --------------------------------------------------------------------------------------------------------


def responses(text: str = "", calls: Sequence[Call] = ()) -> list[bytes]:
    """An answer of the Responses interface."""
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {"id": "resp_1", "status": "in_progress"}}]
    output: list[dict[str, Any]] = []
    if text:
        item: dict[str, Any] = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
        whole = {**item, "content": [{"type": "output_text", "text": text, "annotations": []}]}
        deltas = [{"type": "response.output_text.delta", "output_index": 0, "delta": each} for each in _pieces(text)]
        events += _item(0, item, deltas, whole)
        output.append(whole)
    for index, (name, arguments) in enumerate(calls, start=len(output)):
        call = {"id": f"fc_{index}", "type": "function_call", "call_id": f"call_{index}", "name": name, "arguments": ""}
        pieces = _pieces(json.dumps(arguments))
        kind = "response.function_call_arguments.delta"
        deltas = [{"type": kind, "output_index": index, "delta": each} for each in pieces]
        whole = {**call, "arguments": json.dumps(arguments)}
        events += _item(index, call, deltas, whole)
        output.append(whole)
    usage = {"input_tokens": PROMPT_TOKENS, "output_tokens": ANSWER_TOKENS}
    ended = {"id": "resp_1", "status": "completed", "output": output, "usage": usage}
    return [_sse(event, named=True) for event in [*events, {"type": "response.completed", "response": ended}]]


def _item(
    index: int, item: dict[str, Any], deltas: list[dict[str, Any]], whole: dict[str, Any]
) -> list[dict[str, Any]]:
    return [
        {"type": "response.output_item.added", "output_index": index, "item": item},
        *deltas,
        {"type": "response.output_item.done", "output_index": index, "item": whole},
    ]


_OPENAI_TOO_LONG = {
    "error": {"message": "This model's maximum context length is 4096 tokens.", "code": "context_length_exceeded"}
}
ANTHROPIC = Dialect(
    kind="anthropic",
    path="/v1/messages",
    answer=anthropic,
    too_long={"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 > 8"}},
)
CHAT = Dialect(kind="openai_chat", path="/v1/chat/completions", answer=chat, too_long=_OPENAI_TOO_LONG)
RESPONSES = Dialect(kind="openai_responses", path="/v1/responses", answer=responses, too_long=_OPENAI_TOO_LONG)
DIALECTS = (ANTHROPIC, CHAT, RESPONSES)
