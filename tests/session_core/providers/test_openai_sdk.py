"""The official SDK and our providers understand the same recorded streams in the same way."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest
import trio

from session_core.providers.base import ModelFailed, ModelFinished, ThinkingChunk
from session_core.providers.endpoint import Endpoint
from session_core.providers.openai_chat import ChatCompletionsProvider
from session_core.providers.openai_responses import ResponsesProvider
from tests.session_core.providers._contract import collect, request
from tests.session_core.providers._openai import heard
from tests.session_core.providers._recordings import recording
from tests.session_core.providers._replay_server import Reply, open_replay_server

if TYPE_CHECKING:
    from openai import APIError

ASKED = request("hello")
STOP_REASONS = {"stop": "end", "tool_calls": "tool_calls", "length": "max_tokens", "content_filter": "refused"}
QUESTION: Any = [{"role": "user", "content": "hello"}]


@asynccontextmanager
async def served(kind: str, name: str) -> AsyncIterator[tuple[str, Endpoint]]:
    async with open_replay_server(Reply(body=(recording(kind, name),))) as server:
        endpoint = Endpoint(base_url=server.base_url)
        yield server.base_url, endpoint
        await endpoint.aclose()
        assert len(server.requests) == 2, "one of us, one of the SDK"


async def sdk_events(kind: str, base_url: str) -> "tuple[list[Any], APIError | None]":
    """What the SDK gives out, and what it raises in the end; in a thread, as its async streams leave things open."""
    return await trio.to_thread.run_sync(_sdk_events, kind, base_url)


def _sdk_events(kind: str, base_url: str) -> "tuple[list[Any], APIError | None]":
    found: list[Any] = []
    from openai import APIError, DefaultHttpxClient, OpenAI

    http = DefaultHttpxClient(verify=False)  # there is no TLS here, and reading certificates takes long
    with OpenAI(base_url=base_url, api_key="none", max_retries=0, http_client=http) as client:
        stream: Any
        if kind == "openai_chat":
            stream = client.chat.completions.create(model="gpt-x", messages=QUESTION, stream=True)
        else:
            stream = client.responses.create(model="gpt-x", input="hello", stream=True)
        with stream:
            try:
                found.extend(stream)
            except APIError as error:
                return found, error
    return found, None


@pytest.mark.parametrize(
    "name",
    [
        "text",
        "tools_parallel",
        "tools_interleaved",
        "length",
        "content_filter",
        "refusal",
        "no_done",
        "ollama_thinking",
        "ollama_tools",
        "vllm_tools",
        "llamacpp_thinking",
        "llamacpp_tools",
        "openrouter_text",
        "deepseek_thinking",
    ],
)
async def test_chats_are_understood_as_by_the_sdk(name: str) -> None:
    """Text, refusal, thinking, calls, the reason of the end and the usage agree."""
    text = thinking = reason = ""
    called: dict[int, list[str]] = {}
    usage = None
    async with served("openai_chat", name) as (base_url, endpoint):
        ours = heard(await collect(ChatCompletionsProvider(endpoint, "gpt-x"), ASKED))
        theirs, error = await sdk_events("openai_chat", base_url)
    assert error is None
    for chunk in theirs:
        usage = chunk.usage or usage
        for choice in chunk.choices:
            extra = choice.delta.model_extra or {}
            thinking += extra.get("reasoning_content") or extra.get("reasoning") or ""
            text += (choice.delta.content or "") + (choice.delta.refusal or "")
            reason = choice.finish_reason or reason
            for call in choice.delta.tool_calls or []:
                parts = called.setdefault(call.index, ["", ""])
                parts[0] += call.function.name or ""
                parts[1] += call.function.arguments or ""
    assert (ours.text, ours.thinking) == (text, thinking)
    assert ours.calls == tuple((found, json.loads(arguments)) for found, arguments in called.values())
    assert isinstance(ours.end, ModelFinished)
    assert ours.end.stop_reason == ("refused" if name == "refusal" else STOP_REASONS[reason])
    if usage is None:
        assert ours.end.usage.tokens == 0
        return
    cached = usage.prompt_tokens_details.cached_tokens or 0 if usage.prompt_tokens_details is not None else 0
    assert ours.end.usage.tokens == usage.total_tokens
    assert ours.end.usage.output_tokens == usage.completion_tokens
    assert ours.end.usage.cache_read_tokens == cached


@pytest.mark.parametrize("name", ["error", "vllm_error", "llamacpp_error", "openrouter_error"])
async def test_errors_in_a_chat_are_errors_to_the_sdk(name: str) -> None:
    """Where the SDK raises, our answer fails, with the same words."""
    async with served("openai_chat", name) as (base_url, endpoint):
        ours = await collect(ChatCompletionsProvider(endpoint, "gpt-x"), ASKED)
        _, error = await sdk_events("openai_chat", base_url)
    assert error is not None
    assert isinstance(ours[-1], ModelFailed)
    assert error.message in ours[-1].message


@pytest.mark.parametrize(
    "name",
    [
        "text",
        "reasoning_tools",
        "reasoning_twice",
        "tools_interleaved",
        "refusal",
        "incomplete",
        "filtered",
        "vllm_reasoning",
    ],
)
async def test_responses_are_understood_as_by_the_sdk(name: str) -> None:
    """The whole answer at the end, as the SDK reads it, is what our events add up to; so are the reasoning items."""
    async with served("openai_responses", name) as (base_url, endpoint):
        events = await collect(ResponsesProvider(endpoint, "gpt-x"), ASKED)
        theirs, error = await sdk_events("openai_responses", base_url)
    assert error is None
    spoken = {"response.output_text.delta", "response.refusal.delta"}
    deltas = "".join(event.delta for event in theirs if event.type in spoken)
    assert theirs[-1].type in {"response.completed", "response.incomplete"}
    whole = theirs[-1].response
    ours = heard(events)
    contents = [part for item in whole.output if item.type == "message" for part in item.content]
    assert (
        ours.text == deltas == "".join(part.text if part.type == "output_text" else part.refusal for part in contents)
    )
    assert ours.calls == tuple(
        (item.name, json.loads(item.arguments)) for item in whole.output if item.type == "function_call"
    )
    assert isinstance(ours.end, ModelFinished)
    assert ours.end.usage.tokens == whole.usage.total_tokens
    assert ours.end.usage.cache_read_tokens == whole.usage.input_tokens_details.cached_tokens
    kept = [event.signature for event in events if isinstance(event, ThinkingChunk) and event.signature is not None]
    reasoning = [item.to_dict() for item in whole.output if item.type == "reasoning"]
    assert (json.loads(kept[-1].removeprefix("openai:")) if kept else []) == reasoning


@pytest.mark.parametrize("name", ["error", "error_flat", "failed"])
async def test_failed_responses_are_failures_to_the_sdk(name: str) -> None:
    """Where the SDK raises or tells of a failure, our answer fails, with the same words."""
    async with served("openai_responses", name) as (base_url, endpoint):
        ours = await collect(ResponsesProvider(endpoint, "gpt-x"), ASKED)
        theirs, error = await sdk_events("openai_responses", base_url)
    if error is not None:
        said = error.message
    else:
        said = theirs[-1].response.error.message if theirs[-1].type == "response.failed" else theirs[-1].message
    assert said
    assert isinstance(ours[-1], ModelFailed)
    assert said in ours[-1].message
