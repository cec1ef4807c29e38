"""A model that replays recorded answers: for demonstrations, and for trying frontends without a key.

The first answer of a conversation is the first of the recording, and so on; a tool call counts as an answer.
"""

import json
import re
from collections.abc import AsyncGenerator
from typing import Any

import trio

from session_core.sep.sdk import CompletionRequest, Extension, ProviderContext, Reasoning, TokenUsage, ToolCall

OVER = "The recording is over."

Piece = str | Reasoning | ToolCall | TokenUsage

ext = Extension("replay-provider", "0.1.0")
ext.flag("recording", default="recording.json")
ext.flag("replay-pause", default=0.03)  # seconds between two words


@ext.provider("replay", models=["recording"])
async def replay(
    ctx: ProviderContext, request: CompletionRequest
) -> AsyncGenerator[str | Reasoning | ToolCall | TokenUsage]:
    # Relative paths start in this extension's own folder, its working directory.
    recording = json.loads(await trio.Path(ctx.flag("recording")).read_text(encoding="utf-8"))
    number = sum(message.get("role") == "assistant" for message in request.messages)
    answer: dict[str, Any] = recording[number] if number < len(recording) else {"text": OVER}
    if thought := answer.get("reasoning"):
        yield Reasoning(thought)
    for word in re.findall(r"\S+\s*|\s+", answer.get("text", "")):
        yield word
        await trio.sleep(ctx.flag("replay-pause"))
    for index, call in enumerate(answer.get("tool_calls", ())):
        yield ToolCall(id=f"replay-{number}-{index}", name=call["name"], arguments=call.get("arguments", {}))
    if "usage" in answer:
        yield TokenUsage(**answer["usage"])


if __name__ == "__main__":
    ext.serve()
