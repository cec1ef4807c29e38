"""One synchronous function per command, collected in the table `HANDLERS`.

- `sessions`: create, list, load, rename, archive, restore, delete, fork
- `history`: read and search older messages
- `messages`: send, start, edit, switch branch, resume, dismiss, wait, clear, compact
- `restoring`: go back to an earlier message, with the files
- `queue`: list, edit, reorder, remove, take
- `settings`: model, permission tier, sandbox policy, working directory
- `requests`: dialogs, answers, wake-ups

A handler gets the core, its command and the caller. It checks everything first, then records; it returns the reply,
or a `Later` when the reply takes time. Refusals are typed errors; anything else it raises fails this command only.
"""

from session_core.service.core import Handlers
from session_core.service.handlers import history, messages, queue, requests, restoring, sessions, settings

HANDLERS: Handlers = {
    **sessions.HANDLERS,
    **history.HANDLERS,
    **messages.HANDLERS,
    **restoring.HANDLERS,
    **queue.HANDLERS,
    **settings.HANDLERS,
    **requests.HANDLERS,
}
