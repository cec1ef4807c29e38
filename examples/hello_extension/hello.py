"""A whole extension without any library: a command, a tool, and a hook that guards a file. See docs/extensions.md."""

import json
import sys
from itertools import count
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
IDS = count(1)
ANSWERS: dict[Any, dict[str, Any]] = {}


def send(message: dict[str, Any]) -> None:
    """Write one message: one line, and nothing else ever goes to stdout."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
    """Send a request to the host and wait for its answer; requests of the host are answered meanwhile."""
    number = f"ask {next(IDS)}"
    send({"id": number, "method": method, "params": params})
    while number not in ANSWERS and (line := sys.stdin.readline()):
        take(read(line))
    return ANSWERS.pop(number, None) or sys.exit()


def result_of(method: str, params: dict[str, Any]) -> dict[str, Any] | None:
    """Return the answer to one request, or nothing if there is no such method."""
    match method:
        case "initialize":
            return {
                "protocol_version": 1,
                "extension": {"name": "hello", "version": "0.1.0"},
                "registrations": REGISTRATIONS,
            }
        case "command/execute" if params["command"] != "hi":
            return {"content": f"unknown command: {params['command']}"}
        case "command/execute":
            who = params.get("arguments", {}).get("text") or "world"
            # The context is the right to act in this session, for as long as this command runs.
            ask("session/send_message", {"context": params["context"], "text": f"Hello, {who}!"})
            return {"content": f"said hello to {who}"}
        case "command/complete":
            return {"completions": []}
        case "tool/execute":
            text = params["arguments"].get("text")
            if params["tool"] != "shout" or not isinstance(text, str):
                return {"content": "shout needs a text", "is_error": True}
            return {"content": text.upper()}
        case "hook":
            if "secrets.txt" in json.dumps(params["input"].get("arguments")):
                return {"action": "block", "reason": "secrets.txt is none of its business"}
            return {"action": "continue"}
        case "ping" | "shutdown":
            return {}
        case _:
            return None


def take(message: dict[str, Any]) -> None:
    """Process a message: a request, a notification, or an answer to one of our requests."""
    if "method" in message:
        handle(message)
    elif str(message.get("id")).startswith("ask "):
        ANSWERS[message["id"]] = message


def handle(message: dict[str, Any]) -> None:
    """Answer a request; notifications, such as events, have no id and get no answer."""
    if "id" in message:
        result = result_of(message["method"], message.get("params", {}))
        unknown = {"error": {"code": -32601, "message": "there is no such method"}}
        send({"id": message["id"], **(unknown if result is None else {"result": result})})
    if message["method"] == "shutdown":
        sys.exit()


def read(line: str) -> dict[str, Any]:
    """Read one message; invalid lines are ignored."""
    try:
        message = json.loads(line)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


if __name__ == "__main__":
    while received := sys.stdin.readline():
        take(read(received))
