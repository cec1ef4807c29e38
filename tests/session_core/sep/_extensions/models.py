"""An extension with a model that says again what it was asked, and calls a tool; it streams and repeats itself."""

import json
import sys
from typing import Any


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def complete(params: dict[str, Any]) -> Any:
    def delta(**event: Any) -> None:
        send(method="provider/delta", params={"request_id": params["request_id"], "event": event})

    words = params["messages"][-1]["content"].split()
    for word in words:
        delta(type="Delta", content=word + " ")
    delta(type="ToolCallStart", index=0, id="c1", name="count")
    delta(type="ToolCallArgumentsDelta", index=0, arguments_chunk=json.dumps({"words": len(words)}))
    delta(type="Done", finish_reason="tool_calls")
    return {
        "content": "".join(word + " " for word in words),
        "tool_calls": [{"id": "c1", "name": "count", "arguments": {"words": len(words)}}],
        "finish_reason": "tool_calls",
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    result: Any = {}
    if message["method"] == "initialize":
        registrations = {"providers": [{"name": "words", "models": [{"id": "echo"}]}], "hooks": ["input"]}
        result = {
            "protocol_version": 1,
            "extension": {"name": "models", "version": "1"},
            "registrations": registrations,
        }
    elif message["method"] == "provider/complete":
        result = complete(message["params"])
    send(id=message["id"], result=result)
    if message["method"] == "shutdown":
        break
