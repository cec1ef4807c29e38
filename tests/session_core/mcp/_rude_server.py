"""An MCP server without manners, as a program: it speaks the protocol by hand, so it can break it. Arguments:

die        write a line to stderr and exit with 3 before anything else
mute       read and never answer
garbage    write lines that are no messages between the messages
circle     list tools page by page without end
deaf       answer the greeting and the listing, then stop reading
child      start a child that ignores SIGTERM and holds all pipes; its pid is the description of the tool `tick`
broken     list a tool that does not keep to the protocol
many       list a thousand tools
"""

# ruff: noqa: T201  a program speaks by printing

import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

MODES = set(sys.argv[1:])
child_pid = 0
cancelled: list[str] = []


def say(message: dict[str, Any]) -> None:
    """Write one message."""
    if "garbage" in MODES:
        print('Welcome!\n\n{"neither": "nor"}\n[1, 2]\n\x00', flush=True)
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def tool(name: str, description: str = "", **more: Any) -> dict[str, Any]:
    """Describe a tool."""
    return {"name": name, "description": description, "inputSchema": {"type": "object"}, **more}


def deep(levels: int) -> dict[str, Any]:
    """Return objects within objects."""
    found: dict[str, Any] = {}
    for _ in range(levels):
        found = {"deeper": found}
    return found


def tools() -> list[dict[str, Any]]:
    """List what is on offer."""
    if "many" in MODES:
        return [tool(f"tool_{number}") for number in range(1_000)]
    return [
        tool("tick", str(child_pid)),
        tool("huge"),
        tool("monstrous"),
        tool("crooked"),
        tool("with.dots and blanks"),
        tool("crash"),
        tool("environment"),
        tool("silent"),
        tool("deep", inputSchema={"type": "object", "properties": deep(100)}),
        *([tool("list", inputSchema={"type": "array"})] if "broken" in MODES else []),
    ]


def answer(call: dict[str, Any]) -> None:
    """Answer one call of a tool."""
    name, number = call["params"]["name"], call["id"]
    text = {"type": "text", "text": f"done: {name}"}
    match name:
        case "huge":
            text["text"] = "x" * 2_000_000
        case "monstrous":
            say({"id": number, "result": {"content": [{"type": "text", "text": "y" * 17_000_000}]}})
            return
        case "crooked":
            say({"id": number, "result": {"content": "not a list"}})
            return
        case "environment":
            text["text"] = json.dumps(dict(os.environ))
        case "crash":
            print("about to crash", file=sys.stderr, flush=True)
            os._exit(7)
        case "silent":
            token = call["params"]["_meta"]["progressToken"]
            say({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}})
            return
        case "tick":
            text["text"] = f"cancelled: {cancelled}"
        case _:
            pass
    say({"id": number, "result": {"content": [text]}})


def main() -> None:
    """Read requests and answer them."""
    global child_pid  # noqa: PLW0603  a program of one page
    if "die" in MODES:
        print("no licence found", file=sys.stderr, flush=True)
        sys.exit(3)
    if "child" in MODES:
        code = (
            "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint(1, flush=True)\ntime.sleep(600)"
        )
        child = subprocess.Popen([sys.executable, "-c", code])  # noqa: TID251  a program of its own
        child_pid = child.pid
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    for line in sys.stdin:
        message = json.loads(line)
        if "mute" in MODES:
            continue
        match message["method"]:
            case "initialize":
                result = {
                    "protocolVersion": "2025-06-18",
                    "capabilities": {"tools": {}},
                    "serverInfo": {"name": "rude", "version": "0"},
                }
                say({"id": message["id"], "result": result})
            case "tools/list":
                page = {"nextCursor": "again"} if "circle" in MODES else {}
                say({"id": message["id"], "result": {"tools": tools(), **page}})
                if "deaf" in MODES:
                    time.sleep(600)  # noqa: TID251  a program of its own
            case "tools/call":
                answer(message)
            case "notifications/cancelled":
                cancelled.append(message["params"]["reason"])
            case _:
                pass


if __name__ == "__main__":
    main()
