"""Accept clients at any listener."""

import errno
import logging
from collections.abc import Awaitable, Callable
from typing import Final

import trio

log = logging.getLogger(__name__)

_FULL: Final = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS})
_AGAIN_AFTER_S: Final = 0.1


async def serve_all(
    listener: trio.SocketListener,
    welcome: Callable[[trio.SocketStream], Awaitable[None]],
    *,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve each client in its own task until cancelled, which ends all of them.

    While the system has no room for another connection, new clients wait.
    """
    async with trio.open_nursery() as nursery:
        task_status.started()
        while True:
            try:
                stream = await listener.accept()
            except OSError as error:
                if error.errno not in _FULL:
                    raise
                log.warning("no more clients can be accepted for now: %s", error.strerror)
                await trio.sleep(_AGAIN_AFTER_S)
                continue
            nursery.start_soon(welcome, stream)
