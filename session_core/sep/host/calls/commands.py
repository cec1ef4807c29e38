"""What is typed after a command, and what may complete it, as the protocol has them."""

import json
import re
import shlex
from collections.abc import Iterator
from typing import Any, Final

from session_core import limits
from session_core.vocabulary.extensions import Completion

CUSTOMARY_KEYS: Final = ("phrase", "state")
"""Keys that published extensions read in commands whose descriptions name no parameters."""
_RESERVED: Final = ("text", "args")
_NAMED_WORD: Final = re.compile(r"([A-Za-z_][\w-]*)=(.*)", re.DOTALL)
_PARAMETER: Final = re.compile(
    r"[<\[]{1,2}([A-Za-z_][\w-]*)(?:[:=][^<>\[\]]*)?(?:\.\.\.|…)?[>\]](?!\()"  # <name>, [name], [<name>], [name=a|b]
    r"|([A-Za-z_][\w-]*)[:=] ?\w+(?:\|\w+)+"  # name: a|b
)


def as_arguments(text: str, description: str = "") -> dict[str, Any]:
    """Convert the text typed after a command to the object that the protocol wants.

    The protocol has no schema for arguments, so:

    - A JSON object stays as it is. Any other text becomes `text`, as typed, and `args`, its words as a shell splits
      them, and further keys:
    - If the command's description names parameters, as in `<phrase>`, `[state]` or `state: on|off`, the words become
      their values in this order, the last one getting all that remain; `name=value` gives a value to its parameter.
    - Otherwise each word `key=value` becomes a key, and the whole text becomes the value of `CUSTOMARY_KEYS`.
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
    names = list(dict.fromkeys(spelled or bare for spelled, bare in _PARAMETER.findall(description)))
    return {**_name_words(text, words, names), "text": text, "args": words}


def _name_words(text: str, words: list[str], names: list[str]) -> dict[str, str]:
    named: dict[str, str] = {}
    others: list[str] = []
    for word in words:
        match = _NAMED_WORD.fullmatch(word)
        if match is not None and (not names or match[1] in names):
            named[match[1]] = match[2]
        else:
            others.append(word)
    whole = words[0] if len(words) == 1 else text.strip()
    if not names:
        return {**dict.fromkeys(CUSTOMARY_KEYS, whole), **named} if words else {}
    *first, last = [name for name in names if name not in named] or [""]
    remaining = whole if not first and not named else " ".join(others[len(first) :])
    values = zip((*first, last), (*others[: len(first)], remaining), strict=False)
    return {**{name: value for name, value in values if name and value}, **named}


def parse_completions(result: object) -> Iterator[Completion]:
    """Read the answer to `command/complete`, leaving out unusable entries."""
    entries = result.get("completions") if isinstance(result, dict) else None
    for entry in entries[: limits.MAX_PAGE] if isinstance(entries, list) else ():
        value, about = (entry.get("value"), entry.get("description")) if isinstance(entry, dict) else (None, None)
        if isinstance(value, str):
            yield Completion(value=value, description=about if isinstance(about, str) else "")
