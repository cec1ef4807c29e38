"""An extension that takes all it can: the argument says how. It does so when it is asked to run its tool or a hook."""

import itertools
import json
import sys

WAY = sys.argv[1]
HOOKS = {"context": "context", "long_context": "context", "prompt": "before_agent_start", "brackets": "context"}
ids = itertools.count(1)


def send(**message: object) -> None:
    """Write one message."""
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")


def answer_hook(number: int) -> None:
    """Answer with a patch that is far too large, or nearly."""
    if WAY == "brackets":
        brackets = "[]," * 5_000_000
        sys.stdout.write(f'{{"jsonrpc":"2.0","id":{number},"result":{{"x":[{brackets}[]]}}}}\n')
        return
    patch: dict[str, object] = {"system_prompt": "x" * 12_000_000}
    if WAY != "prompt":
        patch = {"messages": [{"role": "user", "content": "x"}] * (200_000 if WAY == "context" else 1_000)}
    send(id=number, result={"action": "modify", "patch": patch})


def misbehave(call_id: str, context: object) -> object:
    """Do one thing very often, or something very large; return the details of the result."""
    objects = [{"x": 1}] * 2_400  # nearly as many as may be
    match WAY:
        case "details":
            return {"all": [{"x": 1}] * 400_000}
        case "short_details":
            return {"all": objects}
        case "entries":
            for _ in range(20):
                params = {"entry": {"all": [{"x": 1}] * 60_000}, "context": context}
                send(id=next(ids), method="session/append_entry", params=params)
        case "bus":
            for _ in range(30):
                send(method="bus/publish", params={"topic": "t", "payload": {"all": objects}})
        case "progress":
            for _ in range(30):
                send(method="tool/update", params={"call_id": call_id, "details": {"all": objects[:480]}})
        case "log":
            for _ in range(30):
                send(method="log", params={"level": "info", "message": "x" * 50_000, "fields": {"all": objects}})
        case "garbage":
            sys.stdout.write("".join(f"{number}\n" for number in range(200_000)))
        case "values":
            for number in range(50):
                send(id=next(ids), method="kv/set", params={"key": f"k{number}", "value": [1] * 19_900})
        case _:
            pass
    return None


def main() -> None:
    """Serve until the end."""
    for line in sys.stdin:
        message = json.loads(line)
        if "method" not in message or "id" not in message:
            continue
        number, params = message["id"], message.get("params", {})
        match message["method"]:
            case "initialize":
                registrations = {
                    "hooks": [HOOKS[WAY]] if WAY in HOOKS else [],
                    "tools": [{"name": "take", "description": "", "parameters": {"type": "object"}}],
                    "subscriptions": ["bus/event"],
                }
                identity = {"name": WAY, "version": "1"}
                send(id=number, result={"protocol_version": 1, "extension": identity, "registrations": registrations})
            case "hook":
                answer_hook(number)
            case "tool/execute":
                details = misbehave(params["call_id"], params["context"])
                send(id=number, result={"content": "taken", "details": details})
            case _:
                send(id=number, result={})
        sys.stdout.flush()
        if message["method"] == "shutdown":
            return


if __name__ == "__main__":
    main()
