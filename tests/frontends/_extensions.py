"""Small extensions for tests: a manifest and a program that needs nothing but Python."""

import sys
from pathlib import Path

GREETING = """\
import json, sys

def answer(message):
    if message["method"] == "initialize":
        return {
            "protocol_version": 1,
            "extension": {"name": "echo", "version": "1"},
            "registrations": {
                "tools": [{"name": "say", "description": "says it", "parameters": {"type": "object"}}],
                "commands": [{"name": "hello", "description": "greets"}],
                "hooks": ["tool_call"],
                "subscriptions": ["turn_start"],
            },
        }
    return {}

def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

"""
LOOP = """\
for line in sys.stdin:
    message = json.loads(line)
    if "method" in message and "id" in message:
        send({"id": message["id"], "result": answer(message)})
        if message["method"] == "shutdown":
            break
"""
GOOD = GREETING + LOOP


def make_extension(parent: Path, name: str, program: str = GOOD, *, more: str = "", folder: str | None = None) -> Path:
    """Put an extension into a folder of its own beneath `parent`; `more` is added to its manifest."""
    place = parent / (folder or name)
    place.mkdir(parents=True)
    (place / "program.py").write_text(program, encoding="utf-8")
    (place / "extension.toml").write_text(
        f'name = "{name}"\nversion = "1.2"\n[run]\ncommand = "{sys.executable}"\nargs = ["program.py"]\n{more}',
        encoding="utf-8",
    )
    return place
