"""What was asked of the terminal, and what a new session begins with."""

from __future__ import annotations

from pathlib import Path

import attrs

import session_core as sc


@attrs.frozen(kw_only=True)
class TerminalOptions:
    """What was asked for on the command line.

    Attributes:
        home: Where everything is kept.
        cwd: The folder that new sessions work in.
        session: What session to view first, as people call it; None is the last used one of the folder.
        new: View none at first, so that the first message begins a new one.
        prompt: A first message.
        model: What new sessions begin with; None leaves it to the service.
        permissions: The same for the permission mode.
        embedded: Have the service in this process.
        theme: The name of the colours to begin with.
    """

    home: Path
    cwd: str
    session: str | None = None
    new: bool = False
    prompt: str | None = None
    model: str | None = None
    permissions: sc.PermissionMode | None = None
    embedded: bool = False
    theme: str | None = None


@attrs.frozen(kw_only=True)
class NewSession:
    """What a session will begin with that is made by its first message; None leaves it to the service."""

    cwd: str
    model: str | None = None
    mode: sc.PermissionMode | None = None
    thinking: sc.Thinking | None = None


@attrs.frozen(kw_only=True)
class EditTarget:
    """What the text in the composer stands for, when it is to replace something.

    Attributes:
        files: What stays with a message that waits, whatever is said in its place.
    """

    message_id: sc.MessageId | None = None
    item_id: sc.QueueItemId | None = None
    files: tuple[str, ...] = ()
