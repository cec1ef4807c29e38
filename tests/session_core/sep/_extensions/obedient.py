"""An extension that does what a test says. Its arguments: what it registers and answers, and a folder for notes.

The plan is a JSON object: `registrations`, `hooks` and `tools` (what to answer to each), `identity`, and `wait_for`:
the names of extensions that must have got as far as this one before it answers `initialize` or `shutdown`; `asks` are
requests that it makes because of a `HOOK` or a `HOOK TEXT`, before it answers, or of an `event NAME`, and what came of
them is heard as `asked`. The command `do` makes requests to the host, one after the other, and tells what came of them;
`heard` tells all that was received.
"""

import itertools
import json
import os
import queue
import sys
import threading
from pathlib import Path
from typing import Any

plan: dict[str, Any] = json.loads(sys.argv[1])
notes = Path(sys.argv[2])
ids = itertools.count(1)
waiting: dict[int, "queue.SimpleQueue[dict[str, Any]]"] = {}
heard: list[Any] = []
writing = threading.Lock()


class Refused(Exception):
    """The answer is an error."""


def spell_out(plain: Any) -> Any:
    """Return what is sent for `{"repeat": [SOMETHING, TIMES]}`: a text or a list of that length."""
    if isinstance(plain, dict) and plain.keys() == {"repeat"}:
        part, times = spell_out(plain["repeat"][0]), plain["repeat"][1]
        return part * times if isinstance(part, str) else [part] * times
    return {key: spell_out(each) for key, each in plain.items()} if isinstance(plain, dict) else plain


def send(**message: Any) -> None:
    message = spell_out(message)
    with writing:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
        sys.stdout.flush()


def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
    number = next(ids)
    answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    waiting[number] = answers
    send(id=number, method=method, params=params)
    reply = answers.get()
    return {key: reply[key] for key in ("result", "error") if key in reply}


def note(name: str, text: str = "") -> None:
    part = notes / f"{name}.{os.getpid()}"
    part.write_text(text)
    part.rename(notes / name)


def wait_for_others(what: str) -> None:
    note(f"{plan.get('identity', 'me')}-{what}")
    pause = threading.Event()
    while not all((notes / f"{other}-{what}").exists() for other in plan.get("wait_for", ())):
        pause.wait(0.002)


def do(calls: list[list[Any]], context: Any) -> list[Any]:
    found: list[Any] = []
    for method, params, *kind in calls:
        filled = {key: context if value == "$context" else value for key, value in params.items()}
        if method == "wait":
            wait_for_note(params["note"])
        elif method == "note":
            note(params["note"])
        elif kind == ["tell"]:
            send(method=method, params=filled)
        elif kind == ["forget"]:
            waiting[number := next(ids)] = queue.SimpleQueue()
            send(id=number, method=method, params=filled)
        else:
            found.append(ask(method, filled))
    return found


def wait_for_note(name: str) -> None:
    pause = threading.Event()
    while not (notes / name).exists():
        pause.wait(0.002)


def command(name: str, arguments: dict[str, Any], context: Any) -> Any:
    match name:
        case "do":
            return {"content": json.dumps(do(arguments["calls"], context))}
        case "heard":
            return {"content": json.dumps(heard)}
        case "pid":
            return {"content": str(os.getpid())}
        case "die":
            os._exit(7)
        case "fail":
            raise Refused(-32000, "not today", {"why": "rain"})
        case _:
            return {"content": f"{name}: {json.dumps(arguments)}"}


def ask_because_of(what: str, context: Any) -> None:
    if what in plan.get("asks", {}):
        heard.append(["asked", {"results": do(plan["asks"][what], context)}])


def answer(method: str, params: dict[str, Any]) -> Any:
    match method:
        case "initialize":
            wait_for_others("begun")
            commands = [{"name": each, "description": ""} for each in ("do", "heard", "pid", "die", "fail")]
            registrations = {"commands": commands, "hooks": ["session_before_tree"], **plan.get("registrations", {})}
            identity = {"name": plan.get("identity", "me"), "version": "1"}
            return {"protocol_version": 1, "extension": identity, "registrations": registrations}
        case "hook":
            ask_because_of(params["hook"], params["context"])
            ask_because_of(f"{params['hook']} {params['input'].get('text')}", params["context"])
            return plan.get("hooks", {}).get(params["hook"], {"action": "continue"})
        case "tool/execute":
            if params["tool"] in plan.get("tools", {}):
                return plan["tools"][params["tool"]]
            said = do(params["arguments"].get("calls", []), params["context"])
            return {"content": json.dumps(params["arguments"]), "details": {"said": said}}
        case "command/execute":
            return command(params["command"], params.get("arguments", {}), params["context"])
        case "command/complete":
            return {"completions": [{"value": params["partial"] + "ly", "description": "more of it"}]}
        case "shutdown":
            wait_for_others("ended")
            return {}
        case _:
            return {}


def handle(message: dict[str, Any]) -> None:
    try:
        send(id=message["id"], result=answer(message["method"], message.get("params", {})))
    except Refused as refused:
        code, text, data = refused.args
        send(id=message["id"], error={"code": code, "message": text, "data": data})
    if message["method"] == "shutdown":
        note(f"heard-{os.getpid()}", json.dumps(heard))
        os._exit(0)


for line in sys.stdin:
    received = json.loads(line)
    if "method" not in received:
        waiting.pop(received["id"]).put(received)
        continue
    if received["method"] not in {"$/cancel", "ping", "command/execute"}:
        heard.append([received["method"], received.get("params", {})])
    if received["method"] == "event":
        said = received["params"]
        threading.Thread(target=ask_because_of, args=("event " + said["event"], said["context"]), daemon=True).start()
    if "id" in received:
        threading.Thread(target=handle, args=(received,), daemon=True).start()
