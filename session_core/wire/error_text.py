"""Texts about faults on the wire: JSON paths, and descriptions of JSON values for people.

These texts go back to the client as JSON and end up on a screen. So quotes from bad input are truncated and
escaped, and the result can always be encoded.
"""

import json
from collections.abc import Mapping

ROOT = "$"
_LONGEST_QUOTE = 60


def quote_text(text: str) -> str:
    """Quote a piece of foreign text: short, and in plain ASCII whatever it holds."""
    return json.dumps(text if len(text) <= _LONGEST_QUOTE else text[: _LONGEST_QUOTE - 1] + "…")


def child_path(path: str, step: str | int) -> str:
    """Return the path of a member of the object or list at `path`."""
    if isinstance(step, int):
        return f"{path}[{step}]"
    if step.isidentifier() and step.isascii() and len(step) <= _LONGEST_QUOTE:
        return f"{path}.{step}"
    return f"{path}[{quote_text(step)}]"


def describe_json(plain: object) -> str:
    """Describe the kind of a JSON value."""
    match plain:
        case None:
            return "nothing"
        case bool():
            return "true" if plain else "false"
        case str():
            return "text"
        case int():
            return "a number"
        case float():
            return "a decimal number"
        case list() | tuple():
            return "a list"
        case Mapping():
            return "an object"
        case _:
            return f"a Python {type(plain).__name__}"


def mismatch(expected: str, got: object) -> str:
    """Describe a mismatch between the expected and the actual value."""
    return f"expected {expected}, got {describe_json(got)}"
