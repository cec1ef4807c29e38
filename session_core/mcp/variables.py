"""`${NAME}` in the environments and headers of `mcp.json`.

A file in a folder could ask for any secret of the person who opens it. So only harmless variables can be used freely;
every other one must be listed under "expand" in the user's own file.
"""

import re
from collections.abc import Collection, Mapping
from typing import Final

PLAIN_VARIABLES: Final = frozenset(
    {
        "HOME",
        "LANG",
        "LC_ALL",
        "LC_CTYPE",
        "LOGNAME",
        "PATH",
        "TMPDIR",
        "TZ",
        "USER",
        "XDG_CACHE_HOME",
        "XDG_CONFIG_HOME",
        "XDG_DATA_HOME",
    }
)
"""Variables that hold no secrets: servers get them, and any file may use them."""

VARIABLE_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCE: Final = re.compile(r"\$\{([^{}]*)\}")


class CannotExpand(Exception):
    """A reference cannot be expanded; the message says why and what to do."""


def expand(text: str, environment: Mapping[str, str], released: Collection[str]) -> str:
    """Expand every `${NAME}` and `${NAME:-default}`; a dollar sign without a brace stays as it is.

    Raises:
        CannotExpand: A variable is not released, not set, or the braces are not closed.
    """
    if "${" in _REFERENCE.sub("", text):
        raise CannotExpand("a '${' has no matching '}'")
    return _REFERENCE.sub(lambda match: _find_value(match[1], environment, released), text)


def _find_value(reference: str, environment: Mapping[str, str], released: Collection[str]) -> str:
    name, has_default, default = reference.partition(":-")
    if not VARIABLE_NAME.fullmatch(name):
        raise CannotExpand(f"'${{{reference}}}' does not name a variable")
    if name not in PLAIN_VARIABLES and name not in released:
        raise CannotExpand(
            f"the variable {name} is not released to MCP servers; "
            f'to allow it, add "expand": ["{name}"] at the top of your own mcp.json'
        )
    value = environment.get(name)
    if value is None:
        if not has_default:
            raise CannotExpand(f"the variable {name} is not set; set it, or write ${{{name}:-some value}}")
        return default
    return value


def plain_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return our harmless variables."""
    return {name: value for name, value in environment.items() if name in PLAIN_VARIABLES}
