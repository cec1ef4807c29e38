"""The clients being served, for as long as their credential is valid."""

from typing import Final

import attrs
import trio

from frontends.server.http.tokens import Credential

_FAREWELL_S: Final = 0.5
"""How long a goodbye may take once the credential has ended; a client that does not read it is cut off."""


@attrs.define(eq=False)
class ServedClient:
    """A client being served by a response, a feed or a WebSocket.

    Attributes:
        credential: Its credential.
        scope: The cancel scope of all its work.
        good_until: When the credential expires, on trio's clock.
        ended: Set if the credential has ended earlier.
    """

    credential: Credential
    scope: trio.CancelScope
    good_until: float
    ended: trio.Event = attrs.field(factory=trio.Event)
    _has_goodbye: bool = False

    def reserve_goodbye(self) -> None:
        """Reserve a moment for a goodbye at the end; the caller then sends nothing else."""
        self._has_goodbye = True
        self.scope.deadline = self.good_until + _FAREWELL_S

    @property
    def has_ended(self) -> bool:
        """Whether the credential is no longer valid."""
        return self.ended.is_set() or trio.current_time() >= self.good_until

    async def wait_ended(self) -> None:
        """Wait until the credential has ended."""
        with trio.move_on_at(self.good_until):
            await self.ended.wait()

    def disconnect(self) -> None:
        """End its work, because the credential has ended."""
        if self.ended.is_set():
            return
        self.ended.set()
        if self._has_goodbye:
            self.scope.deadline = min(self.scope.deadline, trio.current_time() + _FAREWELL_S)
        else:
            self.scope.cancel(reason="the token was changed")
