"""Converts a server's answers to our own values, all of them bounded."""

import json
import math
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Final, cast

from session_core.limits import (
    MAX_IMAGE_BYTES,
    MAX_INTEGER,
    MAX_MESSAGE_CHARS,
    MAX_OPEN_JSON_DEPTH,
    MAX_TOOL_OUTPUT_CHARS,
)
from session_core.mcp.config import HttpServer, ServerConfig
from session_core.mcp.content import MAX_DESCRIPTION_CHARS, MAX_SCHEMA_CHARS, MAX_TOOLS, RemoteTool, ResourceText
from session_core.tools.base import ToolFailed, ToolOutput
from session_core.vocabulary.argument_checks import is_base64
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ImagePart
from session_core.vocabulary.tools import Effect

if TYPE_CHECKING:
    import mcp_types as types

MAX_IMAGES: Final = 16
MAX_NOTES: Final = 20

_IMAGE_TYPES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")


def remote_tools(config: ServerConfig, listed: Sequence["types.Tool"]) -> tuple[list[RemoteTool], list[str]]:
    """Return the usable tools, and a remark for each tool that is left out although no rule denies it."""
    found: dict[str, RemoteTool] = {}
    notes: list[str] = []
    for tool in listed:
        if not _is_allowed(config, tool.name) or tool.name in found:
            continue
        why_not = _why_not(tool)
        if why_not:
            notes.append(f"the tool {tool.name[:100]!r} is left out: {why_not}")
            continue
        if len(found) == MAX_TOOLS:
            notes.append(f"it has more than {MAX_TOOLS} tools; the rest is left out")
            break
        found[tool.name] = RemoteTool(
            name=tool.name,
            description=cut(tool.description or tool.title or tool.name, MAX_DESCRIPTION_CHARS),
            parameters=JsonObject({"properties": {}, **tool.input_schema, "type": "object"}),
            effects=_infer_effects(config, tool.annotations),
        )
    return list(found.values()), notes[:MAX_NOTES]


def _is_allowed(config: ServerConfig, name: str) -> bool:
    allowed = config.allow is None or any(fnmatchcase(name, pattern) for pattern in config.allow)
    return allowed and not any(fnmatchcase(name, pattern) for pattern in config.deny)


def _why_not(tool: "types.Tool") -> str:
    if not tool.name or len(tool.name) > 1_000:
        return "its name is empty or too long"
    if tool.input_schema.get("type", "object") != "object":
        return "its arguments are not a JSON object"
    if not _is_modest(tool.input_schema, MAX_SCHEMA_CHARS):
        return "the description of its arguments is too large"
    return ""


def _infer_effects(config: ServerConfig, hints: "types.ToolAnnotations | None") -> frozenset[Effect]:
    """Return a tool's effects: the user's own servers may declare it read-only, other hints only add effects.

    A project's server might claim so to avoid approvals, so none of its hints makes a tool harmless.
    """
    if config.origin == "project":
        return frozenset({"execute", "network"})
    read_only = hints is not None and hints.read_only_hint is True
    open_world = None if hints is None else hints.open_world_hint
    effects: set[Effect] = {"read"} if read_only else {"execute"}
    # A remote server sees the arguments. A local program may use the network unless it says otherwise.
    if isinstance(config, HttpServer) or open_world is True or (not read_only and open_world is None):
        effects.add("network")
    return frozenset(effects)


def tool_output(server: str, tool: str, result: "types.CallToolResult") -> ToolOutput:
    """Convert the answer to a call to an output.

    Raises:
        ToolFailed: The server reports that the tool failed.
    """
    rendered = render_content(result.content)
    text = rendered.text
    structured = result.structured_content
    if structured is not None and not text:
        text = cut(json.dumps(structured, ensure_ascii=False), MAX_TOOL_OUTPUT_CHARS)
    if result.is_error:
        raise ToolFailed(text or f"the tool {tool!r} of the MCP server {server!r} failed and did not say why")
    details: dict[str, Any] = {"server": server, "tool": tool}
    if structured is not None and _is_modest(structured, MAX_TOOL_OUTPUT_CHARS):
        details["structured"] = structured
    return ToolOutput(text=text or "(no output)", images=rendered.images, details=JsonObject(details))


def render_content(content: Sequence["types.ContentBlock"]) -> ResourceText:
    """Return the blocks as one text, and the images among them."""
    import mcp_types as types

    gathered = _ContentBuilder()
    for block in content:
        match block:
            case types.TextContent():
                gathered.add_text(block.text)
            case types.ImageContent():
                gathered.add_image(block.mime_type, block.data)
            case types.AudioContent():
                gathered.add_text(_omission_note("sound", block.mime_type, block.data))
            case types.ResourceLink():
                about = f": {block.description}" if block.description else ""
                gathered.add_text(f"[resource {block.uri} ({block.name}){about}]")
            case types.EmbeddedResource():
                gathered.add_resource(block.resource)
    return gathered.build()


def render_resource(contents: Sequence["types.TextResourceContents | types.BlobResourceContents"]) -> ResourceText:
    """Return the parts of a resource as one text, and the images among them."""
    gathered = _ContentBuilder()
    for part in contents:
        gathered.add_resource(part)
    return gathered.build()


class _ContentBuilder:
    def __init__(self) -> None:
        self._texts: list[str] = []
        self._images: list[ImagePart] = []
        self._image_chars = 0

    def add_text(self, text: str) -> None:
        self._texts.append(text)

    def add_image(self, media_type: str, data: str) -> None:
        self._image_chars += len(data)
        if (
            media_type not in _IMAGE_TYPES
            or not 0 < len(data) * 3 // 4 <= MAX_IMAGE_BYTES
            or self._image_chars > MAX_MESSAGE_CHARS
            or len(self._images) == MAX_IMAGES
            or not is_base64(data)
        ):
            self._texts.append(_omission_note("image", media_type, data))
            return
        self._images.append(ImagePart(media_type=cast(Any, media_type), data=data))

    def add_resource(self, part: "types.TextResourceContents | types.BlobResourceContents") -> None:
        import mcp_types as types

        if isinstance(part, types.TextResourceContents):
            self._texts.append(part.text)
        elif part.mime_type in _IMAGE_TYPES:
            self.add_image(part.mime_type, part.blob)
        else:
            self._texts.append(_omission_note(f"resource {part.uri}", part.mime_type or "unknown type", part.blob))

    def build(self) -> ResourceText:
        text = "\n".join(text for text in self._texts if text)
        return ResourceText(text=cut(text, MAX_TOOL_OUTPUT_CHARS), images=tuple(self._images))


def _omission_note(what: str, media_type: str, data: str) -> str:
    return f"[{what[:1_000]} left out: {media_type[:100]}, about {len(data) * 3 // 4:,} bytes]"


def cut(text: str, limit: int) -> str:
    """Return the text, with its middle left out if it is too long."""
    if len(text) <= limit:
        return text
    remark = f"\n[... {len(text) - limit:,} characters left out ...]\n"
    half = max(0, limit - len(remark)) // 2
    return f"{text[:half]}{remark}{text[len(text) - half :]}"


def _is_modest(item: object, limit: int) -> bool:
    """Return whether JSON is small, flat and plain enough for every provider and frontend."""
    room, waiting = limit, [(item, 1)]
    while waiting:
        each, depth = waiting.pop()
        room -= 1
        if isinstance(each, str):
            room -= len(each)
        elif isinstance(each, dict):
            room -= sum(map(len, each))
            waiting.extend((value, depth + 1) for value in each.values())
        elif isinstance(each, list):
            waiting.extend((value, depth + 1) for value in each)
        elif (isinstance(each, float) and not math.isfinite(each)) or (
            isinstance(each, int) and abs(each) > MAX_INTEGER
        ):
            return False
        if room < 0 or depth > MAX_OPEN_JSON_DEPTH:
            return False
    return True
