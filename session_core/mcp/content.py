"""Tools, resources and prompts of servers as our own values, and the status of a server."""

from typing import Final, Literal

import attrs

from session_core.mcp.config import Origin
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ImagePart
from session_core.vocabulary.tools import Effect

MAX_TOOLS: Final = 256
"""Tools of one server; each is described to the model in every request."""
MAX_LISTED: Final = 2_000
"""Resources or prompts of one server in one listing."""
MAX_DESCRIPTION_CHARS: Final = 4_000
"""Descriptions go to the model in every request; a longer one is cut."""
MAX_SCHEMA_CHARS: Final = 50_000
"""Parameters of one tool as JSON; a tool with more is left out."""

ServerState = Literal["connecting", "ready", "failed", "disabled"]


@attrs.frozen(kw_only=True)
class ServerStatus:
    """The status of a server.

    Attributes:
        reason: Why it is not ready, in plain words; empty when it is.
        attempts: Failed attempts in a row.
        gave_up: Whether it is retried only on request.
        pid: The process of a server that we started.
        instructions: The server's own instructions for its use.
        notes: Which of its tools were left out, and why.
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
    """The content that was read: text, images, or a remark about other content."""

    text: str
    images: tuple[ImagePart, ...] = ()


@attrs.frozen(kw_only=True)
class PromptArgument:
    """An argument of a prompt."""

    name: str
    description: str = ""
    required: bool = False


@attrs.frozen(kw_only=True)
class McpPrompt:
    """A prompt that a server offers."""

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
