"""What people and frontends get to know of extensions: which there are, what they bring, and what they show."""

from typing import Literal

import attrs

from session_core.vocabulary.frozen import JsonObject

UiKind = Literal["select", "confirm", "input", "notify", "set_status", "set_widget", "set_title"]
"""What an extension may ask of a frontend: three kinds of questions, and four that only show something."""
ExtensionScope = Literal["user", "project"]
ExtensionState = Literal["starting", "ready", "restarting", "reloading", "failed", "stopped", "disabled"]
NoticeLevel = Literal["info", "warn", "error"]


@attrs.frozen(kw_only=True)
class ExtensionCommand:
    """Something that people can have an extension do, as `/name`; `/extension.name` tells two of one name apart."""

    extension: str
    name: str
    description: str = ""


@attrs.frozen(kw_only=True)
class Shortcut:
    """A key that stands for a command of the same extension, such as `ctrl+p`."""

    key: str
    command: str
    description: str = ""


@attrs.frozen(kw_only=True)
class MessageRenderer:
    """How entries with a tag are to be shown: blocks with `{{path}}` where something of the entry goes."""

    tag: str
    template: JsonObject


@attrs.frozen(kw_only=True)
class ExtensionInfo:
    """An extension, how it is, and what it brings.

    Attributes:
        scope: Whether it is the person's own, or belongs to the project.
        problem: Why it is not ready, as a sentence.
        generation: Counts its processes: another number is another process.
        tools: Names of its tools as a model sees them.
        renderers: How its entries are to be shown.
        providers: Names of its providers of models.
        folder: The folder whose sessions alone it serves; None when it serves all. Two folders may each have one of the
            same name.
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
    """What an extension shows beside a conversation, until it shows something else."""

    extension: str
    status: str | None = None
    widget: JsonObject | None = None
    title: str | None = None


@attrs.frozen(kw_only=True)
class ExtensionEntry:
    """Something an extension keeps with a session; no model is ever shown it."""

    extension: str
    entry: JsonObject
    at: int


@attrs.frozen(kw_only=True)
class Completion:
    """One way to go on with the arguments of a command."""

    value: str
    description: str = ""
