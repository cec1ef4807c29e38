"""The blocks of a conversation on screen: pure values, compared by identity."""

from __future__ import annotations

from typing import Literal

import attrs

import session_core as sc


@attrs.frozen(kw_only=True, eq=False)
class UserMessageBlock:
    """A message of the user, or one inserted on the user's side of the conversation.

    Attributes:
        source: The extension or protocol that inserted it.
        command: The shell line, if this is the result of one that the user ran; `text` is its output.
        ended: How that command ended, if it failed.
        branches: How many alternatives of this message there are; `branch` is the number of this one, from 1.
    """

    key: str
    message_id: sc.MessageId
    text: str
    created_at: int
    images: int = 0
    files: tuple[str, ...] = ()
    source: str | None = None
    command: str | None = None
    ended: str = ""
    branches: int = 1
    branch: int = 1


@attrs.frozen(kw_only=True, eq=False)
class AnswerBlock:
    """A text of the model; while it is `growing`, more is to come."""

    key: str
    message_id: sc.MessageId
    text: str
    growing: bool = False
    source: str | None = None


@attrs.frozen(kw_only=True, eq=False)
class ThinkingBlock:
    """The model's reasoning."""

    key: str
    text: str
    growing: bool = False


@attrs.frozen(kw_only=True, eq=False)
class ToolBlock:
    """A tool call from the first character of its arguments to its result.

    Attributes:
        call_id: None while its arguments are being written.
        writing: The JSON of its arguments, as far as it is written.
        live: Whether it is running, or its result is not part of the conversation yet.
        asked: Whether it waits for an approval.
        took_ms: How long it took, if that was observed.
        child_id: The child session that does or did the work.
    """

    key: str
    call_id: sc.CallId | None
    name: str
    arguments: sc.JsonObject | None = None
    writing: str | None = None
    live: sc.LiveTool | None = None
    result: sc.ToolResultPart | None = None
    asked: bool = False
    took_ms: int | None = None
    child_id: sc.SessionId | None = None


@attrs.frozen(kw_only=True, eq=False)
class RemarkBlock:
    """A line about the conversation: an interruption, an outcome, a notice."""

    key: str
    text: str
    level: Literal["dim", "info", "warn", "error"] = "dim"


@attrs.frozen(kw_only=True, eq=False)
class SummaryBlock:
    """A summary that replaces everything before it."""

    key: str
    message_id: sc.MessageId
    text: str


@attrs.frozen(kw_only=True, eq=False)
class EntryBlock:
    """An entry of an extension, shown by its template."""

    key: str
    entry: sc.extensions.ExtensionEntry
    template: sc.JsonObject | None = None


Block = UserMessageBlock | AnswerBlock | ThinkingBlock | ToolBlock | RemarkBlock | SummaryBlock | EntryBlock
