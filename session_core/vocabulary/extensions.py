"""Extensions as people and frontends see them: which exist, what they provide, and what they display."""

from typing import Literal

import attrs

from session_core.vocabulary.frozen import JsonObject

UiKind = Literal["select", "confirm", "input", "notify", "set_status", "set_widget", "set_title"]
"""What an extension may ask of a frontend: three kinds of questions, and four kinds of display."""
ExtensionScope = Literal["user", "project"]
ExtensionState = Literal["starting", "ready", "restarting", "reloading", "failed", "stopped", "disabled"]
NoticeLevel = Literal["info", "warn", "error"]


@attrs.frozen(kw_only=True)
class ExtensionCommand:
    """An extension command that people run as `/name`, or as `/extension.name` if the name is ambiguous."""

    extension: str
    name: str
    description: str = ""


@attrs.frozen(kw_only=True)
class Shortcut:
    """A key, such as `ctrl+p`, that runs a command of the same extension."""

    key: str
    command: str
    description: str = ""


@attrs.frozen(kw_only=True)
class MessageRenderer:
    """How to show entries with a tag: blocks with `{{path}}` placeholders for values of the entry."""

    tag: str
    template: JsonObject


@attrs.frozen(kw_only=True)
class ExtensionInfo:
    """An extension, its state, and what it provides.

    Attributes:
        scope: Whether it belongs to the person or to the project.
        problem: Why it is not ready, as a sentence.
        generation: Counts its processes: a new number means a new process.
        tools: Names of its tools as a model sees them.
        renderers: How to show its entries.
        providers: Names of its model providers.
        folder: The folder whose sessions it serves; None if it serves all. Two folders may each have an extension of
            the same name.
    """

    name: str
    version: str
    scope: ExtensionScope
    state: ExtensionState
    problem: str | None = None
    generation: int = 0
    commands: tuple[ExtensionCommand, ...] = ()
    shortcuts: tuple[Shortcut, ...] = ()
    tools: tuple[str, ...] = ()
    renderers: tuple[MessageRenderer, ...] = ()
    providers: tuple[str, ...] = ()
    folder: str | None = None


@attrs.frozen(kw_only=True)
class ExtensionDisplay:
    """What an extension displays beside a conversation until it replaces it."""

    extension: str
    status: str | None = None
    widget: JsonObject | None = None
    title: str | None = None


@attrs.frozen(kw_only=True)
class ExtensionEntry:
    """An entry that an extension stores with a session; it is never shown to a model."""

    extension: str
    entry: JsonObject
    at: int


@attrs.frozen(kw_only=True)
class Completion:
    """One completion of the arguments of a command."""

    value: str
    description: str = ""
