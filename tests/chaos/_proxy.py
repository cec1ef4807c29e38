"""A bad line between clients and a server: it delays, cuts bytes apart, stalls, and breaks off."""

from pathlib import Path
from random import Random

import attrs
import trio

from frontends.shared.socket_path import short_socket_name


@attrs.define(eq=False)
class FaultyProxy:
    """Forwards connections from one unix socket to another, as badly as it is told to.

    Attributes:
        healed: From then on it does no harm any more; connections that are stalled go on.
        cuts, stalls: How often it has broken a connection off, and paused one.
    """

    inner: Path
    random: Random
    healed: trio.Event = attrs.field(factory=trio.Event)
    cuts: int = 0
    stalls: int = 0

    async def serve(  # noqa: ASYNC128 - `serve_listeners` calls it
        self, outer: Path, *, task_status: trio.TaskStatus[list[trio.SocketListener]] = trio.TASK_STATUS_IGNORED
    ) -> None:
        """Forward until cancelled."""
        with trio.socket.socket(trio.socket.AF_UNIX) as listening:
            with short_socket_name(outer) as name:
                await listening.bind(name)
            listening.listen(64)
            await trio.serve_listeners(self._forward, [trio.SocketListener(listening)], task_status=task_status)

    async def _forward(self, client: trio.SocketStream) -> None:
        try:
            with short_socket_name(self.inner) as name:
                server = await trio.open_unix_socket(name)
        except OSError:
            return
        for end in (client, server):  # what waits in sockets hides how slow a reader is
            end.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_SNDBUF, 4_096)
            end.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_RCVBUF, 4_096)
        async with client, server, trio.open_nursery() as nursery:
            for source, sink in ((client, server), (server, client)):
                nursery.start_soon(self._pump, source, sink, nursery.cancel_scope)

    async def _pump(self, source: trio.SocketStream, sink: trio.SocketStream, both: trio.CancelScope) -> None:
        try:
            async for chunk in source:
                data = bytes(chunk)
                while data:
                    size = await self._misbehave(len(data), both)
                    await sink.send_all(data[:size])
                    data = data[size:]
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass
        both.cancel(reason="one side has left")

    async def _misbehave(self, size: int, both: trio.CancelScope) -> int:
        """Return how much to pass on next; nothing more if the line is cut."""
        if self.healed.is_set():
            return size
        luck = self.random.random()
        if luck < 0.004:
            self.cuts += 1
            both.cancel(reason="the line is cut")
            await trio.lowlevel.checkpoint()
        elif luck < 0.02:
            self.stalls += 1
            with trio.move_on_after(self.random.uniform(0.1, 4.0)):
                await self.healed.wait()
        elif luck < 0.2:
            await trio.sleep(self.random.uniform(0, 0.02))
        return self.random.randint(1, size) if luck < 0.5 else size
