"""Tool names that every API accepts, and the mapping back.

APIs accept letters, digits, `_` and `-`, up to a length; our tools may be called `extension.tool`. Within one request
every tool has a unique name, and it is the same in every request as long as no other tool claims it, so a provider's
cache of a conversation stays valid.
"""

import hashlib
import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final

MAX_TOOL_NAME_CHARS: Final = 64
"""The smallest maximum length of tool names among the APIs."""

NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9_-]")
"""What some API does not accept in names and ids."""
_DIGEST_CHARS: Final = 8


def fit_tool_name(name: str) -> str:
    """Return a tool's name in characters that every API accepts; the name may be one that a model made up."""
    return NOT_IN_NAMES.sub("_", name)[:MAX_TOOL_NAME_CHARS] or "unnamed"


class ToolNames:
    """The names in one request of the available tools, and of those that its conversation mentions.

    Valid names stay unchanged, whatever other tools claim. A changed name that equals another tool's name, or was cut,
    gets a digest of the real name.
    """

    def __init__(self, offered: Iterable[str]) -> None:
        self._theirs: dict[str, str] = {}
        self._ours: dict[str, str] = {}
        for name in sorted(dict.fromkeys(offered), key=lambda name: fit_tool_name(name) != name):
            self.fit(name)
        self.ours: Mapping[str, str] = MappingProxyType(dict(self._ours))
        """Our names of the available tools, by their names in the request."""

    def fit(self, name: str) -> str:
        """Return the name in the request of an available tool, or of one that was called before."""
        if (known := self._theirs.get(name)) is not None:
            return known
        fitting = fit_tool_name(name)
        if fitting in self._ours or len(name) > MAX_TOOL_NAME_CHARS:
            fitting = self._marked(name, fitting)
        self._theirs[name], self._ours[fitting] = fitting, name
        return fitting

    def _marked(self, name: str, fitting: str) -> str:
        digest = hashlib.sha256(name.encode("utf-8", errors="surrogatepass")).hexdigest()
        # A real tool may have exactly this name; then a longer part of the digest keeps them apart.
        for chars in range(_DIGEST_CHARS, MAX_TOOL_NAME_CHARS):
            marked = f"{fitting[: MAX_TOOL_NAME_CHARS - 1 - chars]}_{digest[:chars]}"
            if marked not in self._ours:
                return marked
        return digest
