"""What stands below one another in a conversation on the screen: pure values, compared by identity."""

from __future__ import annotations

from typing import Literal

import attrs

import session_core as sc


@attrs.frozen(kw_only=True, eq=False)
class UserMessageBlock:
    """What a person has said, or what was put into the conversation for them.

    Attributes:
        source: The extension or protocol that has put it there.
        command: The command line, when this tells what became of one that a person has run; `text` is its output.
        ended: How that command ended, if not well.
        branches: In how many ways this was said; `branch` is which of them this is, from 1.
    """

    key: str
    message_id: sc.MessageId
    text: str
    created_at: int
    pictures: int = 0
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
    """A call of a tool from the first letter of its arguments to its result.

    Attributes:
        call_id: None while its arguments are written.
        writing: The JSON of its arguments, as far as it was written.
        live: It runs, or its result is not part of the conversation yet.
        asked: Somebody has to say yes first.
        took_ms: How long it took, if that was seen.
        child_id: The session that does the work, or has done it.
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
    """A line about the conversation: cut short, an outcome, a notice."""

    key: str
    text: str
    level: Literal["dim", "info", "warn", "error"] = "dim"


@attrs.frozen(kw_only=True, eq=False)
class SummaryBlock:
    """What stands for everything before it."""

    key: str
    message_id: sc.MessageId
    text: str


@attrs.frozen(kw_only=True, eq=False)
class EntryBlock:
    """What an extension keeps with the session, shown as its template says."""

    key: str
    entry: sc.ExtensionEntry
    template: sc.JsonObject | None = None


Block = UserMessageBlock | AnswerBlock | ThinkingBlock | ToolBlock | RemarkBlock | SummaryBlock | EntryBlock
