"""Writes the parts of the documentation that the code knows best: run `python -m docs.generate` after a change.

- `commands.md` as a whole: from the command classes, their replies, and the errors that their handlers can raise
- `vocabulary.md` as a whole: every other class that travels, from its annotations and docstring
- the tables of other pages, each between two marks: see `docs.tables`

`tests/docs/test_generated.py` fails when a file is not what this module would write.
"""

# ruff: noqa: INP001 - a folder of documents, not a package

import inspect
from pathlib import Path
from typing import Any, get_args

import attrs

from docs.handler_errors import Refusal, refusals
from docs.tables import filled
from session_core.vocabulary import (
    client_protocol,
    events,
    extensions,
    messages,
    models,
    protocols,
    sessions,
    snapshots,
)
from session_core.vocabulary.argument_checks import describe
from session_core.vocabulary.commands import COMMANDS, Command, reply_type
from session_core.wire.catalogue import is_list, is_literal, wire_classes, wire_fields, wire_tag, without_none

HERE = Path(__file__).parent
MADE_HERE = ("commands.md", "vocabulary.md")

GROUPS = (
    ("Sessions", "CreateSession"),
    ("Messages and turns", "SendUserMessage"),
    ("The queue", "ListQueue"),
    ("Settings", "SwitchModel"),
    ("Requests to people, wake-ups, stop", "OpenDialog"),
    ("Extensions", "ListExtensions"),
    ("What extensions do in sessions", "PostMessage"),
    ("Protocols", "ListProtocols"),
)

HEAD = """# Commands

<!-- Made by `python -m docs.generate`; a test compares. Change the command classes, not this file. -->

Everything a client may ask for. Each command is a value in `session_core.commands`, and a method of the same name in
snake_case on the service (`CreateSession` is `await service.create_session(...)`). On the wire it is a JSON object
whose `type` is that snake_case name; the exact schema of all of them is
[`vocabulary.schema.json`](../session_core/wire/vocabulary.schema.json).

How a command runs:

- **In order.** Commands go through one mailbox and run one at a time. Those marked *beside the mailbox* act at once,
  ahead of everything that waits.
- **One reply.** Every command has exactly one reply, or raises exactly one error. A reply carries a `cursor`:
  everything the command changed is in the stream up to there.
- **Retries.** `service.execute(command, idempotency_key="...")` returns the first reply when the same client sends the
  same command with the same key again. The newest replies with a key are remembered; errors are not.

## Errors every command can meet

| code | when |
| --- | --- |
| `invalid_input` | a field has the wrong type, size or content; `field` names it |
| `forbidden` | the client is an observer, and the command is not one of those that only read |
| `conflict` (`idempotency_key`) | the key was used for another command before |
| `overloaded` | the mailbox is full, or the disk far behind; nothing was done. The former not beside the mailbox |
| `storage_failed` | it was done but not saved, and may be gone after a restart. Not for commands that only read |
| `read_only` | the disk has failed; nothing was done. Not for commands that only read, nor for `RequestStop` |
| `store_damaged` (`session_id`) | what is kept of this session cannot be read; other sessions are not concerned |
| `extension_failed` | an extension could not do what it was asked; only where one is asked to do something |
| `closed` | the service has ended |
| `internal` | a bug; it fails this one command and the service goes on |

The tables below name only what comes on top of these. In brackets stands the field that the error names.
"""


def commands_markdown() -> str:
    """Return the text of `commands.md`."""
    heads = {first: title for title, first in GROUPS}
    pieces = [HEAD]
    for command in COMMANDS:
        if command.__name__ in heads:
            pieces.append(f"## {heads[command.__name__]}\n")
        pieces.append(_section(command))
    replies = sorted({reply_type(command) for command in COMMANDS}, key=lambda reply: reply.__name__)
    pieces.append("## Replies\n")
    pieces.extend(_fields_section(reply) for reply in replies if reply.__name__ not in _SNAPSHOTS)
    pieces.append(_SNAPSHOT_NOTE)
    return "\n".join(pieces)


_SNAPSHOTS = ("ServiceSnapshot", "SessionSnapshot")
_SNAPSHOT_NOTE = """### `ServiceSnapshot`, `SessionSnapshot`

The whole state at a cursor; [resync.md](resync.md) tells what to do with one, and
[vocabulary.md](vocabulary.md#snapshots) lists the fields.
"""

VOCABULARY_HEAD = """# Vocabulary

<!-- Made by `python -m docs.generate`; a test compares. Change the classes, not this file. -->

Every value that travels besides commands and replies ([commands.md](commands.md)). On the wire each is a JSON object
whose `type` is its name in snake_case. In Python they are frozen: events are in `session_core.events`, the others are
names of `session_core` where programs need them.
"""

VOCABULARY = (
    ("Events", events),
    ("Snapshots", snapshots),
    ("Messages", messages),
    ("The rest of a session", sessions),
    ("Models", models),
    ("Extensions", extensions),
    ("Protocols", protocols),
    ("Clients in other processes", client_protocol),
)


def vocabulary_markdown() -> str:
    """Return the text of `vocabulary.md`."""
    pieces = [VOCABULARY_HEAD]
    for title, module in VOCABULARY:
        pieces.append(f"## {title}\n")
        pieces += [_fields_section(cls) for cls in wire_classes() if cls.__module__ == module.__name__]
    return "\n".join(pieces)


def _section(command: type[Command[Any]]) -> str:
    marks = [f"reply `{reply_type(command).__name__}`"]
    marks += ["beside the mailbox"] if command.lane == "beside" else []
    marks += ["only reads: observers may send it"] if command.reads_only else []
    text = f"### `{command.__name__}`\n\n{inspect.cleandoc(command.__doc__ or '')}\n\n{'; '.join(marks)}\n"
    if attrs.fields(command):
        text += "\n" + _field_table(command)
    found = sorted(refusals(command))
    if found:
        text += "\nErrors: " + ", ".join(map(_shown, found)) + "\n"
    return text


def _shown(refusal: Refusal) -> str:
    code, field = refusal
    return f"`{code}` (`{field}`)" if field else f"`{code}`"


def _fields_section(cls: type) -> str:
    return f"### `{cls.__name__}`\n\n{inspect.cleandoc(cls.__doc__ or '')}\n\n{_field_table(cls)}"


def _field_table(cls: type) -> str:
    if not wire_fields(cls):
        return "No fields.\n"
    lines = ["| field | type | default |", "| --- | --- | --- |"]
    for field in wire_fields(cls):
        default = "*required*" if field.default is attrs.NOTHING else f"`{field.default!r}`"
        lines.append(f"| `{field.name}` | {_type_shown(field.type)} | {default} |")
    return "\n".join(lines) + "\n"


def _type_shown(hint: Any) -> str:
    name = getattr(hint, "__name__", "")
    if hasattr(hint, "__supertype__"):
        return f"`{name}`"
    arguments = get_args(hint)
    if type(None) in arguments and describe(hint) != "JSON":
        return f"{_type_shown(without_none(hint))} or nothing"
    if attrs.has(hint):
        return f"`{name}` (`{wire_tag(hint)}`)"
    if is_list(hint):
        return f"list of {_type_shown(arguments[0])}"
    if is_literal(hint):
        return ", ".join(f"`{word}`" for word in arguments)
    return describe(hint)


def generated() -> dict[Path, str]:
    """Return what each page should hold that is generated, as a whole or in parts."""
    pages = sorted(path for path in HERE.glob("*.md") if path.name not in MADE_HERE)
    with_tables = {path: filled(path.read_text(encoding="utf-8")) for path in pages}
    return {HERE / "commands.md": commands_markdown(), HERE / "vocabulary.md": vocabulary_markdown()} | with_tables


if __name__ == "__main__":
    for path, content in generated().items():
        path.write_text(content, encoding="utf-8")
