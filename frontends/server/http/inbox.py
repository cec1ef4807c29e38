"""What a client sent and its handler has not taken yet, with a bound, and the end of it, which never waits."""

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

import trio

Message = Mapping[str, Any]

_MOST: Final = 8
_ENDS: Final = frozenset({"http.disconnect", "websocket.disconnect"})


class Inbox:
    """A queue of ASGI messages between the reader of a connection and one handler.

    The reader waits while it is full. The end of the connection passes by the bound, so that it is told even if the
    handler does not read; whatever comes after it, or after the handler has finished, is dropped.
    """

    def __init__(self) -> None:
        self._waiting: deque[Message] = deque()
        self._end: Message | None = None
        self._room = trio.lowlevel.ParkingLot()
        self._news = trio.lowlevel.ParkingLot()

    @property
    def ended(self) -> bool:
        """Whether nobody is there any more to be sent anything."""
        return self._end is not None

    async def put(self, message: Message) -> None:
        """Hand a message to the handler, waiting while it is busy."""
        await trio.lowlevel.checkpoint()
        if message["type"] in _ENDS:
            self.end(message)
            return
        while len(self._waiting) >= _MOST and self._end is None:
            await self._room.park()
        if self._end is None:
            self._waiting.append(message)
            self._news.unpark()

    def end(self, message: Message) -> None:
        """Tell the handler that the client has gone."""
        if self._end is None:
            self._end = message
            self._room.unpark_all()
            self._news.unpark_all()

    async def receive(self) -> Message:
        """Wait for the next message; after the end, that is the end again and again."""
        await trio.lowlevel.checkpoint()
        while not self._waiting and self._end is None:
            await self._news.park()
        if self._waiting:
            self._room.unpark()
            return self._waiting.popleft()
        assert self._end is not None
        return self._end
