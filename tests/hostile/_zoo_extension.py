"""An extension that does what none should: at one kind of message, or when it is told to by a command.

Arguments: when it misbehaves, how, and a folder for notes. It needs nothing but Python.
"""

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

when, how, notes = sys.argv[1], sys.argv[2], Path(sys.argv[3])
contexts: list[dict[str, Any]] = []
"""Every context it was given, the newest last."""
answers: dict[Any, dict[str, Any]] = {}
numbers = iter(range(1_000_000, 100_000_000))


# --- talking ----------------------------------------------------------------------------------------------------------


def write(data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]


def send(**message: Any) -> None:
    write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def note(name: str, text: str = "") -> None:
    (notes / f"{name}.part").write_text(text or str(os.getpid()))
    (notes / f"{name}.part").rename(notes / name)


def stay() -> NoReturn:
    while True:
        signal.pause()


def read() -> dict[str, Any]:
    if not (line := sys.stdin.readline()):
        sys.exit(0)
    message: dict[str, Any] = json.loads(line)
    return message


def ask(method: str, params: Any) -> dict[str, Any]:
    """Ask the host, and go on with other messages until the answer is there."""
    number = next(numbers)
    send(id=number, method=method, params=params)
    return wait_for(number)


def wait_for(number: int) -> dict[str, Any]:
    while number not in answers:
        take(read())
    return answers.pop(number)


# --- misbehaving at one message ---------------------------------------------------------------------------------------


def wrong_id(message: dict[str, Any]) -> None:
    others: tuple[Any, ...] = (message["id"] + 1_000, "1", -1, None, 1.5, True, [1], {})
    for other in others:
        send(id=other, result={"content": "for somebody else"})


def unreadable(message: dict[str, Any]) -> None:
    number = b'{"jsonrpc": "2.0", "id": %d, ' % message["id"]
    write(b'{"jsonrpc": "2.0", "method": "log", "params": {"message": "\xff\xfe\xed\xa0\x80"}}\n')
    write(b'{"jsonrpc": "2.0", "method": "' + b"m" * 10_000 + b'"}\n')
    write(b'{"id": {}, "method": []}\n{"id": 1, "method": "ping", "params": 7}\n{"error": 1}\n{}\n')
    write(number + b'"result": {"content": "\xff\xfe", "action": "\x80"}}\n')


def deep(message: dict[str, Any]) -> None:
    for nothing in (b"[" * 100_000, b'{"a":' * 100_000):
        write(nothing + b"\n")
    write(b'{"jsonrpc": "2.0", "method": "log", "params": {"fields": ' + b"[" * 60_000 + b"]" * 60_000 + b"}}\n")
    write(b'{"jsonrpc": "2.0", "id": %d, "result": ' % message["id"] + b"[" * 90_000 + b"]" * 90_000 + b"}\n")


def long_line(message: dict[str, Any]) -> None:
    write(b'{"jsonrpc": "2.0", "id": %d, "result": {"content": "' % message["id"])
    for _ in range(int(os.environ.get("MEGABYTES", "20"))):
        write(b"x" * 1_000_000)
    write(b'"}}\n')


def twice(message: dict[str, Any]) -> None:
    for text in ("first", "second", "third"):
        send(id=message["id"], result={"content": text, "action": "continue", "protocol_version": 1})
    send(id=message["id"], error={"code": 1, "message": "changed my mind"})


def for_others(message: dict[str, Any]) -> None:
    for number in range(1, 2_000):
        send(id=number, result={"content": "stolen", "action": "block"})


def half_a_line(message: dict[str, Any]) -> None:
    write(b'{"jsonrpc": "2.0", "id": %d, "resu' % message["id"])
    os._exit(7)


def garbage(message: dict[str, Any]) -> None:
    for result in (b"7", b'"text"', b"[]", b"null", b"{}", b'{"action": "modify", "content": 7}'):
        write(b'{"jsonrpc": "2.0", "id": %d, "result": %s}\n' % (message["id"], result))


def wrong_patch(message: dict[str, Any]) -> None:
    patches = {
        "tool_call": {"tool": "healthy.echo", "arguments": [1], "extra": {"a": [None] * 100}},
        "context": {"messages": [{"role": 7}, 5, None]},
        "tool_result": {"content": {"a": 1}, "is_error": "no"},
    }
    hook = message.get("params", {}).get("hook", "")
    patch = patches.get(hook, {"system_prompt": 7, "text": [], "messages": "none", "session_id": "other"})
    send(id=message["id"], result={"action": "modify", "patch": patch, "content": "x", "is_error": "y"})


def error_of_any_kind(message: dict[str, Any]) -> None:
    strange = (b"7", b"{}", b'{"code": "x"}', b'{"code": 1e999, "message": 5}')
    for error in (*strange, b'{"code": 5, "message": "\\u0000\\u001b[2J"}'):
        write(b'{"jsonrpc": "2.0", "id": %d, "error": %s}\n' % (message["id"], error))


def no_stdin(message: dict[str, Any]) -> None:
    os.close(0)
    stay()


def no_stdout(message: dict[str, Any]) -> None:
    os.close(1)
    stay()


def no_pipes(message: dict[str, Any]) -> None:
    for number in range(3):
        os.close(number)
    stay()


def grandchild(message: dict[str, Any]) -> None:
    if os.fork() == 0:
        stay()
    os._exit(0)


def daemon(message: dict[str, Any]) -> None:
    if os.fork() == 0:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if os.fork() == 0:
            stay()
        os._exit(0)
    os.wait()
    os._exit(0)


def deaf_to_signals(message: dict[str, Any]) -> None:
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    stay()


DEEDS: dict[str, Callable[[dict[str, Any]], None]] = {
    "exit": lambda _: os._exit(3),
    "kill": lambda _: os.kill(os.getpid(), signal.SIGKILL),
    "hang": lambda _: stay(),
    "ignore": lambda _: None,
} | {
    each.__name__: each
    for each in (
        wrong_id, unreadable, deep, long_line, twice, for_others, half_a_line, garbage, wrong_patch,
        error_of_any_kind, no_stdin, no_stdout, no_pipes, grandchild, daemon, deaf_to_signals,
    )
}  # fmt: skip


# --- misbehaving on command -------------------------------------------------------------------------------------------


def many(count: int, **message: Any) -> None:
    """Send the same thing many times, in large pieces."""
    line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
    piece = min(count, max(1, 1_000_000 // len(line)))
    for _ in range(0, count, piece):
        write(line * piece)


def take_many(count: int) -> None:
    for _ in range(count):
        take(read())


def storm(arguments: dict[str, Any], context: dict[str, Any]) -> str:
    """Make many requests at once, and count how they are answered."""
    params = json.dumps(arguments["params"]).replace('"$own"', json.dumps(context))
    ids = [next(numbers) for _ in range(arguments["count"])]
    reader = threading.Thread(target=take_many, args=(len(ids),))  # or both sides would wait for a full pipe
    reader.start()
    for number in ids:
        send(id=number, method=arguments["method"], params=json.loads(params.replace("$n", str(number))))
    reader.join()
    codes: dict[str, int] = {}
    for number in ids:
        answer = answers.pop(number)
        code = str(answer["error"]["code"]) if "error" in answer else "ok"
        codes[code] = codes.get(code, 0) + 1
    return json.dumps(codes)


def command(arguments: dict[str, Any], context: dict[str, Any]) -> str:
    """Do what a test says."""
    match arguments.get("do"):
        case "ask":
            said = json.dumps(arguments["params"]).replace('"$own"', json.dumps(context))
            return json.dumps(ask(arguments["method"], json.loads(said)))
        case "storm":
            return storm(arguments, context)
        case "many":
            many(arguments["count"], method=arguments["method"], params=arguments["params"])
        case "bytes":
            for _ in range(arguments["count"]):
                write(arguments["bytes"].encode("latin-1"))
            write(b"\n")
        case "stderr":
            for _ in range(arguments["count"]):
                os.write(2, arguments["bytes"].encode("latin-1"))
        case "contexts":
            return json.dumps(contexts)
        case "hold":
            note("token", json.dumps(context))
            while not (notes / "go").exists():
                threading.Event().wait(0.005)
        case "fork":
            for _ in range(arguments["count"]):
                if os.fork() == 0:
                    signal.signal(signal.SIGTERM, signal.SIG_IGN)
                    if arguments.get("away"):
                        os.setsid()
                    stay()
        case _:
            pass
    return "done"


def registrations() -> dict[str, Any]:
    if when == "huge":
        schema = {"type": "object", "properties": {f"p{n}": {"type": "string", "enum": ["a", "b"]} for n in range(10)}}
        return {
            "tools": [
                {"name": f"t{n}", "description": "d" * 1_000, "parameters": schema, "deferred": True}
                for n in range(256)
            ],
            "commands": [{"name": name, "description": "d" * 1_000} for name in ("do", *map(str, range(255)))],
            "hooks": ["session_before_tree"],
        }
    empty = {"type": "object", "properties": {}}
    more = json.loads(os.environ.get("REGISTRATIONS", "{}"))
    return {
        "tools": [{"name": name, "description": "", "parameters": empty} for name in ("echo", *more.pop("names", ()))],
        "commands": [{"name": "do", "description": ""}],
        "subscriptions": ["turn_start"] if when == "event" else [],
        "hooks": [when.partition(":")[2] or "session_before_tree"],
        **more,
    }


def result_of(method: str, params: dict[str, Any]) -> Any:
    match method:
        case "initialize":
            return {"protocol_version": 1, "registrations": registrations()}
        case "command/execute":
            return {"content": command(params["arguments"], params["context"])}
        case "tool/execute":
            if spam := os.environ.get("TOOL_UPDATES"):
                progress = {"call_id": params["call_id"], "message": "m" * 1_000, "progress": 0.5}
                many(int(spam), method="tool/update", params=progress)
            return {"content": f"from {params['tool']}"}
        case "provider/complete":
            for _ in range(int(os.environ.get("DELTAS", "0"))):
                event = {"type": "Delta", "content": "d" * 1_000}
                many(100, method="provider/delta", params={"request_id": params["request_id"], "event": event})
            return {"content": "answered"}
        case "hook":
            return {"action": "continue"}
        case _:
            return {}


def take(message: dict[str, Any]) -> None:
    method = message.get("method")
    if method is None:
        answers[message.get("id")] = message
        return
    params = message.get("params") or {}
    if "context" in params:
        contexts.append(params["context"])
    kind = {"tool/execute": "tool", "command/execute": "command"}.get(method, method)
    if kind == "hook":
        kind = f"hook:{params['hook']}"
    if kind == when:
        note("deed")
        DEEDS[how](message)
    elif how == "echoes" and method == "event":
        send(method="bus/publish", params={"topic": "storm", "payload": {"text": "x" * 200}})
    elif "id" in message:
        send(id=message["id"], result=result_of(method, params))
        if method == "shutdown":
            os._exit(0)


if when == "start":
    DEEDS[how]({"id": 1})
while True:
    take(read())
