"""The instructions of a model that acts by writing code: how cells work, how a turn ends, and which functions exist.

The names of functions are decided here, both for the text and for the code that defines them: `function_names`. So are
their signatures and their documentation, which `help(name)` shows.
"""

import builtins
import json
import keyword
import re
from collections.abc import Iterable, Sequence
from typing import Final

from session_core.vocabulary.frozen import JsonObject, JsonValue, thaw_json
from session_core.vocabulary.tools import ToolSpec

MOST_TOOL_CHARS: Final = 16_000
"""The limit for all tools together in the instructions; beyond it, each is shown in less detail."""
MOST_DOCUMENTATION_CHARS: Final = 8_000
"""The limit of what `help(name)` shows of one tool."""

_DESCRIPTION_CHARS: Final = 300
_SIGNATURE_CHARS: Final = 400
_MOST_PARAMETERS: Final = 40
_MOST_ALTERNATIVES: Final = 8
_TYPE_LEVELS: Final = 3
_RESERVED_NAMES: Final = frozenset({*keyword.kwlist, *dir(builtins), "finish", "ToolError", "show_image"})
_PLAIN_TYPES: Final = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "array": "list",
    "object": "dict",
    "null": "None",
}

_CELLS: Final = """\
# How you act

You act by writing Python. In each answer write at most one cell, fenced like this:

```python
print(1 + 1)
```

- The cell is run as soon as your answer ends, and you are told what it printed and the value of its last expression.
- Stop writing after the cell: whatever follows it is dropped, further cells too. Never guess what a cell will show.
- Variables, functions and imports live on from cell to cell, also in later turns.
- An error in a cell is shown to you; mend it in the next one. What the cell did before the error has happened.
- Cells can change nothing and reach no network: no programs, no packages beside Python's own, files to read only, if at
  all. Everything else goes through the functions below. One that fails raises ToolError; show_image(data) shows a PNG.
- If the code itself holds lines that begin with ```, fence the cell with more backticks than those have.
- People see what you write before the cell, and not the cell. To show them Python that is not run, fence it by ~~~."""
_NATURAL_END: Final = """\
- When you are done, answer without a cell: what you write then is your answer. Where a result is wanted as data, call
  finish(value) in a cell instead; the value must be JSON (None, bool, int, float, str, list, dict with str keys)."""
_FINISH_END: Final = """\
- When you are done, call finish(value) in a cell: nothing else ends your work, an answer without a cell does not. The
  value is your result, all that is passed on, and must be JSON (None, bool, int, float, str, list, dict with str
  keys)."""
_TOOLS: Final = """\
# Functions

These functions are there in every cell. Pass arguments by name. help(name) prints all about one of them."""
_NO_TOOLS: Final = "There are no functions beside those of Python."


def build_instructions(tools: Sequence[ToolSpec], *, finish_required: bool = False) -> str:
    """Build the text for a model that has these tools; its length is bounded, however many there are."""
    end = _FINISH_END if finish_required else _NATURAL_END
    return f"{_CELLS}\n{end}\n\n{_functions(tools)}"


# --- names ------------------------------------------------------------------------------------------------------------


def function_names(tools: Sequence[ToolSpec]) -> dict[str, str]:
    """Return the name of the Python function of each tool, by the name of the tool.

    Characters outside of A-Z, a-z, 0-9 and _ become _. A name that is taken already, by another tool or by Python
    itself, gets a number. A tool whose name needs no change keeps it, whatever other tools exist.
    """
    wanted = {tool.name: _python_name(tool.name) for tool in tools}
    names = {name: name for name, python in wanted.items() if name == python and name not in _RESERVED_NAMES}
    taken = {*_RESERVED_NAMES, *names}
    for name in sorted(wanted.keys() - names.keys()):
        names[name] = free = _free_name(wanted[name], taken)
        taken.add(free)
    return {name: names[name] for name in wanted}


def _python_name(name: str) -> str:
    python = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return python if python.isidentifier() and not python.startswith("__") else f"tool_{python}"


def _free_name(name: str, taken: set[str]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


# --- signatures -------------------------------------------------------------------------------------------------------


def render_signature(tool: ToolSpec, name: str) -> str:
    """Return the signature of a tool as a function of this name; required arguments come first."""
    properties, required = _object(tool.parameters.get("properties")), _required(tool)
    ordered = parameter_order(tool)
    parameters = [_parameter(each, properties[each], required=each in required) for each in ordered[:_MOST_PARAMETERS]]
    if len(ordered) > _MOST_PARAMETERS or not (ordered or tool.parameters.get("additionalProperties") is False):
        parameters.append("**arguments")
    return f"{name}({', '.join(parameters)})"


def parameter_order(tool: ToolSpec) -> list[str]:
    """Return the parameters of a tool in the order of its signature, which is that of arguments without a name."""
    required = _required(tool)
    properties = _object(tool.parameters.get("properties"))
    return sorted(properties, key=lambda each: (each not in required, not _is_parameter(each)))


def render_documentation(tool: ToolSpec, name: str) -> str:
    """Return the full documentation of a tool as a function of this name, for `help`."""
    schema = json.dumps(thaw_json(tool.parameters), ensure_ascii=False)
    whole = f"{render_signature(tool, name)}\n\n{tool.description.strip()}\n\nArguments as a JSON schema: {schema}"
    return whole if len(whole) <= MOST_DOCUMENTATION_CHARS else whole[: MOST_DOCUMENTATION_CHARS - 4] + " ..."


def _required(tool: ToolSpec) -> frozenset[str]:
    required = tool.parameters.get("required")
    return frozenset(each for each in required if isinstance(each, str)) if isinstance(required, tuple) else frozenset()


def _is_parameter(name: str) -> bool:
    return name.isidentifier() and not keyword.iskeyword(name)


def _parameter(name: str, schema: JsonValue, *, required: bool) -> str:
    kind = _type_of(schema, _TYPE_LEVELS)
    if not _is_parameter(name):
        return f"**{{{json.dumps(name, ensure_ascii=False)[:60]}: {kind}}}"
    return f"{name}: {kind}" if required else f"{name}: {kind} = ..."


def _type_of(schema: JsonValue, levels: int) -> str:
    """Name a type as Python does, roughly: it is a hint to a model, and calls are checked against the schema itself."""
    if not isinstance(schema, JsonObject) or levels == 0:
        return "Any"
    if isinstance(values := schema.get("enum"), tuple) and 0 < len(values) <= _MOST_ALTERNATIVES:
        return f"Literal[{', '.join(map(_literal, values))}]"
    for key in ("anyOf", "oneOf"):
        if isinstance(choices := schema.get(key), tuple) and choices:
            return _union(_type_of(each, levels - 1) for each in choices[:_MOST_ALTERNATIVES])
    named = schema.get("type")
    if isinstance(named, tuple):
        return _union(_plain_type(each) for each in named[:_MOST_ALTERNATIVES])
    if named == "array" and isinstance(schema.get("items"), JsonObject):
        return f"list[{_type_of(schema['items'], levels - 1)}]"
    return _plain_type(named)


def _literal(value: JsonValue) -> str:
    if value is None or isinstance(value, bool | int | float):
        return repr(value)
    return json.dumps(value, ensure_ascii=False)[:60] if isinstance(value, str) else "..."


def _plain_type(named: JsonValue) -> str:
    return _PLAIN_TYPES.get(named, "Any") if isinstance(named, str) else "Any"


def _union(types: Iterable[str]) -> str:
    return " | ".join(dict.fromkeys(types)) or "Any"


def _object(value: JsonValue) -> JsonObject:
    return value if isinstance(value, JsonObject) else JsonObject()


# --- the list ---------------------------------------------------------------------------------------------------------


def _functions(tools: Sequence[ToolSpec]) -> str:
    if not tools:
        return _NO_TOOLS
    names = function_names(tools)
    for line in (_with_description, _bounded_signature):
        lines = [line(tool, names[tool.name]) for tool in tools]
        if sum(map(len, lines)) + len(lines) <= MOST_TOOL_CHARS:
            return "\n".join((f"{_TOOLS}\n", *lines))
    return (
        f"{_TOOLS} They are many: look up how one is called before you use it.\n\n{_list_names(list(names.values()))}"
    )


def _with_description(tool: ToolSpec, name: str) -> str:
    first = " ".join(tool.description.strip().partition("\n\n")[0].split())
    return f"- {_bounded_signature(tool, name)[2:]}: {_truncate(first, _DESCRIPTION_CHARS)}"


def _bounded_signature(tool: ToolSpec, name: str) -> str:
    whole = render_signature(tool, name)
    return f"- {whole}" if len(whole) <= _SIGNATURE_CHARS else f"- {_truncate(name, _SIGNATURE_CHARS)}(**arguments)"


def _list_names(names: Sequence[str]) -> str:
    listed: list[str] = []
    room = MOST_TOOL_CHARS
    for name in names:
        room -= len(name) + 2
        if room < 0:
            return f"{', '.join(listed)} and {len(names) - len(listed)} more"
        listed.append(name)
    return ", ".join(listed)


def _truncate(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 3]}..."
