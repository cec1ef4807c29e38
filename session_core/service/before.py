"""What extensions may do to a command before it is sent: asked in the caller's own task, as the actor never waits."""

from typing import Any, TypeVar, cast

import attrs

from session_core.agent.hooks import Blocked, Hooks, may_change_tree, may_run_user_command, on_input
from session_core.errors import Forbidden
from session_core.vocabulary import commands as c
from session_core.vocabulary.checks import checked_value
from session_core.vocabulary.session_commands import ForkSession

R = TypeVar("R")
_SAYS = (c.SendUserMessage, c.StartTurnIfIdle, c.EditMessage)


@checked_value
class SeenRequest(c.CommandRequest):
    """A command that extensions have seen and perhaps changed; `sent` is what came, by which a retry is known."""

    sent: c.Command[Any]


async def ask_hooks(hooks: Hooks, command: c.Command[R]) -> c.Command[R]:
    """Return the command as extensions leave it.

    Raises:
        Forbidden: One of them does not want it.
    """
    given: c.Command[Any] = command
    match given:
        case ForkSession(session_id=session_id, at_message_id=target):
            _refuse(await may_change_tree(hooks, session_id, "ForkSession", target or ""))
        case c.EditMessage() | c.SwitchBranch() | c.RestoreToMessage():
            what = type(given).__name__
            _refuse(await may_change_tree(hooks, given.session_id, what, given.message_id or ""))
        case c.TakeBackUndo():
            _refuse(await may_change_tree(hooks, given.session_id, "TakeBackUndo", ""))
        case c.RunShellLine(session_id=session_id, line=line):
            _refuse(await may_run_user_command(hooks, session_id, line))
        case _:
            pass
    if isinstance(given, _SAYS) and given.text:
        text = await on_input(hooks, given.session_id, given.text)
        if isinstance(text, Blocked):
            _refuse(text)
        elif text != given.text:
            return cast("c.Command[R]", attrs.evolve(given, text=text))
    return command


def _refuse(blocked: Blocked | None) -> None:
    if blocked is not None:
        msg = f"an extension does not allow this: {blocked.reason}"
        raise Forbidden(msg)
