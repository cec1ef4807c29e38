"""What servers offer, as values of ours: tools, resources, prompts, and the state of a server."""

from typing import Final, Literal

import attrs

from session_core.mcp.config import Origin
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ImagePart
from session_core.vocabulary.tools import Effect

MAX_TOOLS: Final = 256
"""Tools of one server; every one is described to the model in every request."""
MAX_LISTED: Final = 2_000
"""Resources or prompts of one server in one listing."""
MAX_DESCRIPTION_CHARS: Final = 4_000
"""Descriptions go to the model in every request; a longer one is cut."""
MAX_SCHEMA_CHARS: Final = 50_000
"""Parameters of one tool as JSON; a tool with more is left out."""

ServerState = Literal["connecting", "ready", "failed", "disabled"]


@attrs.frozen(kw_only=True)
class ServerStatus:
    """How a server is doing.

    Attributes:
        reason: Why it is not ready, in plain words; empty when it is.
        attempts: How often it has been tried without becoming ready.
        gave_up: Whether it is not tried again until someone asks for it.
        pid: The process of a server that we have started.
        instructions: What the server says about how to use it.
        notes: What was left out of its tools, and why.
    """

    name: str
    origin: Origin
    state: ServerState
    reason: str = ""
    attempts: int = 0
    gave_up: bool = False
    tools: int = 0
    pid: int | None = None
    instructions: str = ""
    notes: tuple[str, ...] = ()


@attrs.frozen(kw_only=True)
class RemoteTool:
    """A tool as its server describes it, checked; `name` is the server's own."""

    name: str
    description: str
    parameters: JsonObject
    effects: frozenset[Effect]


@attrs.frozen(kw_only=True)
class McpResource:
    """Something that can be read from a server."""

    server: str
    uri: str
    name: str
    description: str = ""
    media_type: str = ""


@attrs.frozen(kw_only=True)
class ResourceText:
    """What was read: text, pictures, or a remark about what is neither."""

    text: str
    images: tuple[ImagePart, ...] = ()


@attrs.frozen(kw_only=True)
class PromptArgument:
    """What a prompt can be given."""

    name: str
    description: str = ""
    required: bool = False


@attrs.frozen(kw_only=True)
class McpPrompt:
    """A prompt that a server has prepared."""

    server: str
    name: str
    description: str = ""
    arguments: tuple[PromptArgument, ...] = ()


@attrs.frozen(kw_only=True)
class PromptMessage:
    """One message of a prompt."""

    role: Literal["user", "assistant"]
    text: str
    images: tuple[ImagePart, ...] = ()
