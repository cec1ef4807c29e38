"""A whole extension without any library, that keeps to the protocol; tests break it in one place each."""

import json
import sys
import threading
from itertools import count
from queue import Queue
from typing import Any

NAME = "subject"
REGISTRATIONS = {
    "tools": [
        {
            "name": "echo",
            "description": "say it again",
            "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        }
    ],
    "commands": [{"name": "greet", "description": "say hello"}],
    "subscriptions": ["turn_end"],
    "hooks": ["tool_call"],
    "providers": [{"name": "parrot", "models": [{"id": "parrot-1"}]}],
}

writing = threading.Lock()
numbers = count(1)
waiting: dict[Any, Queue[dict[str, Any]]] = {}
cancelled: set[Any] = set()


class Refused(Exception):
    """A request is answered with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def send(message: dict[str, Any]) -> None:
    with writing:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
    number = f"q{next(numbers)}"
    answers: Queue[dict[str, Any]] = Queue()
    waiting[number] = answers
    send({"id": number, "method": method, "params": params})
    return answers.get()


def tell(method: str, params: dict[str, Any]) -> None:
    send({"method": method, "params": params})


def run_tool(number: Any, params: dict[str, Any]) -> dict[str, Any]:
    if params["tool"] != "echo":
        return {"content": "there is no such tool", "is_error": True}
    text = params["arguments"].get("text")
    if not isinstance(text, str):
        return {"content": "text must be a text", "is_error": True}
    tell("tool/update", {"call_id": params["call_id"], "message": "half", "progress": 0.5})
    ask("kv/set", {"key": "last", "value": text})
    if number in cancelled:
        raise Refused(-32800, "cancelled")
    return {"content": text}


def run_command(params: dict[str, Any]) -> dict[str, Any]:
    if params["command"] != "greet":
        raise Refused(-32602, "there is no such command")
    who = params.get("arguments", {}).get("text", "world")
    answer = ask("ui/request", {"kind": "confirm", "prompt": f"Greet {who}?"})
    if answer.get("result", {}).get("confirmed"):
        ask("session/send_message", {"context": params["context"], "text": f"Hello, {who}!"})
    return {"content": f"greeted {who}"}


def decide(params: dict[str, Any]) -> dict[str, Any]:
    return {"action": "continue"}


def complete(params: dict[str, Any]) -> dict[str, Any]:
    return {"completions": [{"value": "somebody", "description": "anybody"}]}


def answer_as_model(params: dict[str, Any]) -> dict[str, Any]:
    tell("provider/delta", {"request_id": params["request_id"], "event": {"type": "Delta", "content": "Hel"}})
    return {"content": "Hello.", "finish_reason": "stop"}


def result_of(number: Any, method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        version = min(params["protocol_version"], 1)
        who = {"name": NAME, "version": "1.0"}
        return {"protocol_version": version, "extension": who, "registrations": REGISTRATIONS}
    if method == "tool/execute":
        return run_tool(number, params)
    if method == "command/execute":
        return run_command(params)
    if method == "command/complete":
        return complete(params)
    if method == "hook":
        return decide(params)
    if method == "provider/complete":
        return answer_as_model(params)
    if method in {"ping", "shutdown"}:
        return {}
    raise Refused(-32601, "there is no such method")


def answer(number: Any, method: str, params: dict[str, Any]) -> None:
    try:
        reply: dict[str, Any] = {"result": result_of(number, method, params)}
    except Refused as error:
        reply = {"error": {"code": error.code, "message": str(error)}}
    send({"id": number, **reply})


def hear_event(params: dict[str, Any]) -> None:
    tell("log", {"level": "debug", "message": f"heard {params['event']}"})


def read(line: bytes) -> dict[str, Any]:
    try:
        message = json.loads(line)
    except ValueError:
        return {}
    return message if isinstance(message, dict) else {}


def take(message: dict[str, Any]) -> None:
    method, number, params = message.get("method"), message.get("id"), message.get("params") or {}
    if method is None:
        if number in waiting:
            waiting.pop(number).put(message)
    elif method == "$/cancel":
        cancelled.add(params["id"])
    elif method == "event":
        hear_event(params)
    elif method in {"tool/execute", "command/execute"}:
        threading.Thread(target=answer, args=(number, method, params), daemon=True).start()
    elif "id" in message:
        answer(number, method, params)
        if method == "shutdown":
            sys.exit(0)


for received in sys.stdin.buffer:
    take(read(received))
