"""How a tool is described to a model."""

from typing import Literal

import attrs

from session_core.vocabulary.frozen import JsonObject

Effect = Literal["read", "write", "execute", "network"]
"""What running a tool can affect; the permission mode decides by it."""


@attrs.frozen(kw_only=True)
class ToolSpec:
    """A tool as the model sees it; `parameters` is a JSON schema of an object."""

    name: str
    description: str
    parameters: JsonObject
