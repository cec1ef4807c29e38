"""Preparation of a command before it is sent, in the caller's own task, as the actor never waits.

Extensions may change or refuse the command. If its session is about to work in a folder, the folder's settings are
read, and its extensions are started where they may be needed.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final, TypeVar, cast

import attrs

from session_core.agent.folder_settings import FolderUnusable, release_nothing
from session_core.agent.hooks import (
    Blocked,
    Hooks,
    ask_before_tree_change,
    ask_before_user_command,
    is_wanted,
    run_input_hook,
)
from session_core.errors import Forbidden
from session_core.ids import SessionId
from session_core.permissions.line_rights import read_person_line
from session_core.service.core import ServiceCore
from session_core.service.validation import checked_path
from session_core.vocabulary import commands as c
from session_core.vocabulary.argument_checks import checked_value
from session_core.vocabulary.commands import ForkSession

R = TypeVar("R")
_ENTER: Final = frozenset({c.CreateSession, c.ForkSession, c.ChangeWorkingDirectory})
"""Commands after which a session works in a folder whose settings may not be loaded yet."""
_NEEDS_EXTENSIONS: Final = frozenset({c.ListCommands, c.RunCommand, c.CompleteCommand, c.LoginToProvider})
"""Commands that may concern extensions of the session's folder."""
_MAY_ENTER: Final = _ENTER | _NEEDS_EXTENSIONS | {c.SwitchModel}
_SAYS = (c.SendUserMessage, c.StartTurnIfIdle, c.EditMessage)
_CHANGES_TREE = (c.ForkSession, c.EditMessage, c.SwitchBranch, c.RestoreToMessage, c.TakeBackUndo)


@checked_value
class SeenRequest(c.CommandRequest):
    """A command that extensions have seen and may have changed; `sent` is the original, which identifies a retry."""

    sent: c.Command[Any]


def wants_hooks(hooks: Hooks, command: c.Command[Any]) -> bool:
    """Return whether an extension must, or may have to, be asked about a command; never blocks."""
    if isinstance(command, _SAYS) and command.text and is_wanted(hooks, "input", command.session_id):
        return True
    if isinstance(command, _CHANGES_TREE):
        return is_wanted(hooks, "session_before_tree", command.session_id)
    return isinstance(command, c.RunShellLine) and is_wanted(hooks, "user_bash", command.session_id)


async def ask_hooks(hooks: Hooks, command: c.Command[R]) -> c.Command[R]:
    """Return the command as extensions leave it.

    Raises:
        Forbidden: One of them refuses it.
    """
    given: c.Command[Any] = command
    match given:
        case ForkSession(session_id=session_id, at_message_id=target):
            _refuse(await ask_before_tree_change(hooks, session_id, "ForkSession", target or ""))
        case c.EditMessage() | c.SwitchBranch() | c.RestoreToMessage():
            what = type(given).__name__
            _refuse(await ask_before_tree_change(hooks, given.session_id, what, given.message_id or ""))
        case c.TakeBackUndo():
            _refuse(await ask_before_tree_change(hooks, given.session_id, "TakeBackUndo", ""))
        case c.RunShellLine(session_id=session_id, line=line):
            _refuse(await ask_before_user_command(hooks, session_id, read_person_line(line).command))
        case _:
            pass
    if isinstance(given, _SAYS) and given.text:
        text = await run_input_hook(hooks, given.session_id, given.text)
        if isinstance(text, Blocked):
            _refuse(text)
        elif text != given.text:
            return cast("c.Command[R]", attrs.evolve(given, text=text))
    return command


def enters_folder(core: ServiceCore, command: c.Command[Any]) -> bool:
    """Return whether a folder must be read before this command is sent."""
    return core.config.folders.has_files and type(command) in _MAY_ENTER


@asynccontextmanager
async def hold_folder(core: ServiceCore, command: c.Command[Any]) -> AsyncGenerator[None]:
    """Load the folder's settings and keep them unchanged within the block, with the extensions it needs.

    Raises:
        FolderUnusable: Its settings are wrong; no session may begin to work there.
    """
    folders, folder = core.config.folders, _folder_of(core, command)
    if folder is None:
        yield
        return
    try:
        release = await folders.hold(folder, work=False)
    except FolderUnusable:
        if type(command) in _ENTER:
            raise
        release = release_nothing  # the folder is unusable: there is nothing to hold
    try:
        if type(command) in _NEEDS_EXTENSIONS or _names_unknown_model(core, command):
            await folders.wait_for_extensions(folder)
        yield
    finally:
        release()


@asynccontextmanager
async def hold_session(core: ServiceCore, command: c.Command[Any]) -> AsyncGenerator[None]:
    """Load the command's session for the block, if it is not in memory.

    Even an unreadable session can be deleted; it is unloaded again if the deletion was refused.
    """
    session_id = command.session_id
    if session_id is None or session_id in core.sessions:
        yield
        return
    await core.loaded_sessions.load_session(session_id, even_damaged=isinstance(command, c.DeleteSession))
    try:
        yield
    finally:
        core.loaded_sessions.drop_if_damaged(session_id)


def _names_unknown_model(core: ServiceCore, command: c.Command[Any]) -> bool:
    """Return whether a session is to use a model that only an extension of its folder can provide."""
    match command:
        case c.CreateSession(model=None):
            return core.config.model not in core.config.models
        case c.CreateSession(model=str(model)) | c.SwitchModel(model=model):
            return model not in core.config.models
        case _:
            return False


def _folder_of(core: ServiceCore, command: c.Command[Any]) -> str | None:
    match command:
        case c.CreateSession(cwd=None):
            return core.config.cwd
        case c.CreateSession(cwd=str(cwd)) | c.ChangeWorkingDirectory(cwd=cwd) | c.ListCommands(cwd=str(cwd)):
            return checked_path(cwd)
        case c.ForkSession() | c.RunCommand() | c.CompleteCommand() | c.LoginToProvider():
            return _cwd_of(core, command.session_id)
        case c.SwitchModel() if _names_unknown_model(core, command):
            return _cwd_of(core, command.session_id)
        case c.ListCommands(session_id=str(session_id)):
            return _cwd_of(core, session_id)
        case _:
            return None


def _cwd_of(core: ServiceCore, session_id: SessionId) -> str | None:
    summary = core.summary_of(session_id)
    return summary.cwd if summary is not None else None


def _refuse(blocked: Blocked | None) -> None:
    if blocked is not None:
        raise Forbidden(f"an extension does not allow this: {blocked.reason}")
