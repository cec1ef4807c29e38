"""A whole extension without any library: a command, a tool, and a hook that guards a file. See docs/extensions.md."""

import json
import sys
from typing import Any

REGISTRATIONS = {
    "commands": [{"name": "hi", "description": "Greet somebody, and tell the model about it"}],
    "tools": [
        {
            "name": "shout",
            "description": "Write a text in capital letters",
            "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        }
    ],
    "hooks": ["tool_call"],
}


def send(message: dict[str, Any]) -> None:
    """Write one message: one line, and nothing else ever goes to stdout."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Ask the host something and wait for its answer; what it asks meanwhile is answered."""
    send({"id": f"ask {method}", "method": method, "params": params})
    while True:
        message: dict[str, Any] = json.loads(sys.stdin.readline())
        if "method" not in message:
            return message
        handle(message)


def result_of(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Return the answer to one request."""
    match method:
        case "initialize":
            return {
                "protocol_version": 1,
                "extension": {"name": "hello", "version": "0.1.0"},
                "registrations": REGISTRATIONS,
            }
        case "command/execute":
            who = params["arguments"].get("text") or "world"
            # The context is the right to act in this session, for as long as this command runs.
            ask("session/send_message", {"context": params["context"], "text": f"Hello, {who}!"})
            return {"content": f"said hello to {who}"}
        case "tool/execute":
            return {"content": params["arguments"]["text"].upper()}
        case "hook":
            if "secrets.txt" in json.dumps(params["input"].get("arguments")):
                return {"action": "block", "reason": "secrets.txt is none of its business"}
            return {"action": "continue"}
        case _:
            return {}


def handle(message: dict[str, Any]) -> None:
    """Answer a request; events and other notifications have no id, and get no answer."""
    if "id" in message:
        send({"id": message["id"], "result": result_of(message["method"], message.get("params", {}))})
    if message["method"] == "shutdown":
        sys.exit()


if __name__ == "__main__":
    for line in sys.stdin:
        handle(json.loads(line))
