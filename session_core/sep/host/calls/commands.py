"""What is typed after a command, and what may complete it, as the protocol has them."""

import json
import shlex
from collections.abc import Iterator
from typing import Any

from session_core import limits
from session_core.vocabulary.extensions import Completion


def as_arguments(text: str) -> dict[str, Any]:
    """Convert the text typed after a command to the object that the protocol wants.

    A JSON object stays as it is. Any other text becomes `text`, as typed, and `args`, its words as a shell splits them.
    """
    if text.lstrip().startswith("{"):
        try:
            plain = json.loads(text)
        except (ValueError, RecursionError):
            plain = None
        if isinstance(plain, dict):
            return plain
    try:
        words = shlex.split(text)
    except ValueError:  # an unclosed quote
        words = text.split()
    return {"text": text, "args": words}


def parse_completions(result: object) -> Iterator[Completion]:
    """Read the answer to `command/complete`, leaving out unusable entries."""
    entries = result.get("completions") if isinstance(result, dict) else None
    for entry in entries[: limits.MAX_PAGE] if isinstance(entries, list) else ():
        value, about = (entry.get("value"), entry.get("description")) if isinstance(entry, dict) else (None, None)
        if isinstance(value, str):
            yield Completion(value=value, description=about if isinstance(about, str) else "")
