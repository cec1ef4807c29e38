"""How a tool is described to a model, and what the renamed ones were called."""

from collections.abc import Container, Mapping
from typing import Final, Literal

import attrs

from session_core.vocabulary.frozen import JsonObject

Effect = Literal["read", "write", "execute", "network"]
"""What running a tool can affect; the permission mode decides by it."""


SHELL: Final = "bash"
"""The tool that runs commands."""
RENAMED_TOOLS: Final[Mapping[str, str]] = {"shell": SHELL}
"""Earlier names of tools, with the present ones: rules, grants and stored calls that say them keep their meaning."""


def all_names_of(tool: str) -> tuple[str, ...]:
    """Return the present name of a tool, followed by its earlier ones."""
    return (tool, *(old for old, present in RENAMED_TOOLS.items() if present == tool))


def present_name(name: str, known: Container[str]) -> str:
    """Return the name that a tool has among the known ones now, if only its earlier name was given."""
    present = RENAMED_TOOLS.get(name)
    return name if present is None or name in known or present not in known else present


@attrs.frozen(kw_only=True)
class ToolSpec:
    """A tool as the model sees it; `parameters` is a JSON schema of an object."""

    name: str
    description: str
    parameters: JsonObject
