"""A small extension that behaves. Its first argument is a folder in which it leaves notes for the test."""

import json
import os
import sys
from pathlib import Path
from typing import Any

notes = Path(sys.argv[1])


def send(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def answer(method: str, params: dict[str, Any]) -> Any:
    if method == "initialize":
        return {
            "protocol_version": min(params["protocol_version"], 1),
            "extension": {"name": "another", "version": "1"},
            "registrations": {
                "tools": [{"name": "echo", "description": "say it again", "parameters": {"type": "object"}}],
                "subscriptions": ["turn_start", "turn_end"],
                "hooks": ["tool_call"],
            },
        }
    if method == "tool/execute":
        return {"content": params["arguments"]["text"]}
    if method == "environment":
        return dict(os.environ)
    if method == "descriptors":
        return sorted(int(entry.name) for entry in Path("/proc/self/fd").iterdir())
    if method == "pid":
        return os.getpid()
    if method == "write":
        try:
            Path(params["path"]).write_text("written")
        except OSError as error:
            return type(error).__name__
    return {}


for line in sys.stdin:
    message = json.loads(line)
    method = message.get("method")
    if method == "event":
        with (notes / "events").open("a") as file:
            file.write(message["params"]["event"] + "\n")
    elif "id" in message and method is not None:
        send(id=message["id"], result=answer(method, message["params"]))
        if method == "initialize":
            send(method="registry/update", params={"subscriptions": ["model_select"]})
        if method == "shutdown":
            break
(notes / "tidied").write_text("yes")
