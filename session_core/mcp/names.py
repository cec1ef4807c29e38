"""Names such as `mcp__server__tool`, which show where a tool comes from and which every provider accepts."""

import hashlib
import re
from collections.abc import Iterable
from typing import Final

MAX_SERVER_NAME: Final = 24
"""Leaves at least 33 of the 64 characters for the tool."""
MAX_TOOL_NAME: Final = 64
"""The longest name that every provider accepts."""

_SERVER_NAME: Final = re.compile(r"[A-Za-z0-9-]+(?:_[A-Za-z0-9-]+)*")
_NOT_ACCEPTED: Final = re.compile(r"[^A-Za-z0-9_-]")
_DIGEST: Final = 8


def is_server_name(name: str) -> bool:
    """Return whether a server name is valid: no two underscores in a row, and none at the ends.

    So the first `__` after `mcp__` always ends the server's name, and no two servers can claim the same tool name.
    """
    return len(name) <= MAX_SERVER_NAME and _SERVER_NAME.fullmatch(name) is not None


def tool_names(server: str, tools: Iterable[str]) -> dict[str, str]:
    """Return our name for each tool of a server, all different, and the same every time.

    A name that providers would refuse, or that another tool has taken, is adapted and gets a digest of the original as
    its suffix.
    """
    taken: dict[str, str] = {}
    # Names that need no change come first, or an adapted name could displace a valid one.
    for tool in sorted(set(tools), key=lambda tool: (_accepted_name(server, tool) != _plain(server, tool), tool)):
        name = _accepted_name(server, tool)
        if name in taken:
            name = _digest_name(server, tool)
        if name not in taken:
            taken[name] = tool
    return {tool: name for name, tool in taken.items()}


def _plain(server: str, tool: str) -> str:
    return f"mcp__{server}__{tool}"


def _accepted_name(server: str, tool: str) -> str:
    name = _plain(server, tool)
    if tool and len(name) <= MAX_TOOL_NAME and not _NOT_ACCEPTED.search(tool):
        return name
    return _digest_name(server, tool)


def _digest_name(server: str, tool: str) -> str:
    digest = hashlib.sha256(tool.encode("utf-8", errors="replace")).hexdigest()[:_DIGEST]
    room = MAX_TOOL_NAME - len(_plain(server, "")) - 1 - _DIGEST
    return _plain(server, f"{_NOT_ACCEPTED.sub('_', tool)[:room]}_{digest}")
