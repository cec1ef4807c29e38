"""The options of the terminal, and the settings of a new session."""

from __future__ import annotations

from pathlib import Path

import attrs

import session_core as sc


@attrs.frozen(kw_only=True)
class TerminalOptions:
    """The options from the command line.

    Attributes:
        home: Where everything is kept.
        cwd: The folder that new sessions work in.
        session: The session to view first, as the user named it; None is the last used one of the folder.
        new: View no session at first: the first message begins a new one.
        prompt: A first message.
        model: The model of new sessions; None leaves it to the service.
        permissions: The permission mode of new sessions; None leaves it to the service.
        sandbox: The mode of the sandbox of new sessions; None leaves it to the service.
        embedded: Run the service in this process.
        theme: The name of the initial theme.
    """

    home: Path
    cwd: str
    session: str | None = None
    new: bool = False
    prompt: str | None = None
    model: str | None = None
    permissions: sc.PermissionMode | None = None
    sandbox: sc.SandboxMode | None = None
    embedded: bool = False
    theme: str | None = None


@attrs.frozen(kw_only=True)
class NewSession:
    """The settings of a session that its first message creates; None leaves a setting to the service."""

    cwd: str
    model: str | None = None
    mode: sc.PermissionMode | None = None
    thinking: sc.Thinking | None = None
    sandbox: sc.SandboxMode | None = None


@attrs.frozen(kw_only=True)
class EditTarget:
    """The message that the text in the composer replaces.

    Attributes:
        files: Files that stay with a queued message, whatever its new text.
    """

    message_id: sc.MessageId | None = None
    item_id: sc.QueueItemId | None = None
    files: tuple[str, ...] = ()
