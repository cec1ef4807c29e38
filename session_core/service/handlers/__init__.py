"""One synchronous function per command, collected in the table `HANDLERS`.

- `sessions`: create, list, load, rename, archive, restore, delete, fork
- `history`: read and search older messages
- `choices`: models, and files by a few letters of their paths
- `messages`: send, start, edit, switch branch, resume, dismiss, wait, clear, compact
- `shell_line`: run a shell command that the user has typed
- `restore`: go back to an earlier message, with the files, and undo that
- `queue`: list, edit, reorder, remove, take
- `settings`: model, permission mode, sandbox policy, working directory
- `requests`: dialogs, answers, wake-ups
- `protocols`: list, add messages to a conversation, send input to a protocol
- `extensions`: list, commands, reload, enable, disable, widget keys; actions of extensions in sessions

A handler gets the core, its command and the caller. It checks everything first, then records; it returns the reply,
or a `PendingReply` when the reply takes time. Refusals are typed errors; anything else it raises fails this command
only.
"""

from session_core.service.handler_api import Handlers
from session_core.service.handlers import (
    choices,
    extensions,
    history,
    messages,
    protocols,
    queue,
    requests,
    restore,
    sessions,
    settings,
    shell_line,
)

HANDLERS: Handlers = {
    **sessions.HANDLERS,
    **history.HANDLERS,
    **choices.HANDLERS,
    **messages.HANDLERS,
    **shell_line.HANDLERS,
    **restore.HANDLERS,
    **queue.HANDLERS,
    **settings.HANDLERS,
    **requests.HANDLERS,
    **extensions.HANDLERS,
    **protocols.HANDLERS,
}
