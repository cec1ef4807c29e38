"""The one line that says why a program ended, among the last lines it wrote to stderr.

It is seldom the last one: node prints its version after the error, stack frames and properties follow it, and a
message may have several lines. Of plain text, as shells and most programs write it, it is the last line.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

_AFTER_ERROR: Final = re.compile(r"Node\.js v\d|\(Use `node ")
"""What node adds below an error."""
_FATAL: Final = re.compile(r"Fatal Python error: |FATAL ERROR: ")
"""An interpreter gives up; what follows is where it was."""
_TRACEBACK: Final = "Traceback (most recent call last):"
_CARET: Final = re.compile(r"\s*[~^]*\^[~^]*\s*")
"""A mark below a line of source, by node; the error follows."""
_BELOW_MESSAGE: Final = re.compile(r"\s|[}\])]|Emitted 'error' event|Require stack:|- /")
"""What node writes between the message and the end: frames, properties, where it was required from."""
_NAMED: Final = re.compile(r"(Uncaught )?[\w.$]*(Error|Exception|Rejection)\b|[\w.$]+ \[\w+\]: ")
"""The beginning of an error in JavaScript: its class, perhaps its name or code."""
_GROUP: Final = re.compile(r"\s*\+ Exception Group " + re.escape(_TRACEBACK))
_IN_GROUP: Final = re.compile(r"\s*\| (\S.*)")
_GROUP_RULE: Final = re.compile(r"\s*\+[-+]*-{4}")
_GROUP_ITSELF: Final = re.compile(r".* \(\d+ sub-exceptions?\)$")
_MESSAGE_LINES: Final = 3
_LAST_LINES: Final = 8  # more of them after an exception were written later, and by a program that went on


def find_error_line(lines: Sequence[str]) -> str:
    """Return the line that says why a program ended, or nothing if none does; a message of few lines becomes one line.

    Args:
        lines: The last lines it wrote to stderr, the oldest first.
    """
    said = [line for line in lines if line.strip()]
    while said and _AFTER_ERROR.match(said[-1]):
        del said[-1]
    if not said:
        return ""
    for find in (_find_fatal, _find_in_group, _find_in_traceback, _find_in_stack):
        if message := find(said):
            return " ".join(line.strip() for line in message[:_MESSAGE_LINES])
    return said[-1].strip()


def _find_fatal(said: list[str]) -> list[str]:
    return [line for line in said if _FATAL.match(line)][-1:]


def _find_in_group(said: list[str]) -> list[str]:
    """Return the first exception of a group that Python ended with: the group itself only counts them."""
    if not _GROUP_RULE.match(said[-1]):
        return []
    single = list(_read_group(said[_last_index(said, _GROUP.match) :]))
    more = f" (and {len(single) - 1} more)" if len(single) > 1 else ""
    return [single[0] + more] if single else []


def _read_group(lines: list[str]) -> Iterator[str]:
    """Yield the exceptions of a group that are no groups: below a traceback, the first line that is not indented."""
    first = None
    for line in lines:
        if _GROUP_RULE.match(line):
            if first is not None and not _GROUP_ITSELF.match(first):
                yield first
            first = None
        elif line.endswith(_TRACEBACK):
            first = None
        elif first is None and (match := _IN_GROUP.match(line)):
            first = match[1]


def _find_in_traceback(said: list[str]) -> list[str]:
    """Return the exception of Python's last traceback: the first line below it that is not indented, and the rest."""
    begin = _last_index(said, lambda line: line.startswith(_TRACEBACK))
    if begin < 0:
        return []
    message = next((said[index:] for index in range(begin + 1, len(said)) if not said[index][0].isspace()), [])
    return message if len(message) <= _LAST_LINES else []


def _find_in_stack(said: list[str]) -> list[str]:
    """Return the error below node's mark in the source, or above its stack frames."""
    end = len(said)
    while end and _BELOW_MESSAGE.match(said[end - 1]):
        end -= 1
    message = said[max(0, end - _LAST_LINES) : end]
    if (mark := _last_index(message, _CARET.fullmatch)) >= 0:
        return message[mark + 1 :]
    if end == len(said) or not end:
        return []  # the last line is plain text, or there is nothing but frames
    named = _last_index(message, _NAMED.match)
    return message[named:]  # without a name it is the last line


def _last_index(lines: list[str], fits: Callable[[str], object]) -> int:
    """Return the index of the last line that fits, or -1."""
    return next((index for index in range(len(lines) - 1, -1, -1) if fits(lines[index])), -1)
