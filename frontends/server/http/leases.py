"""Those who are being served, for as long as what they came in by is good."""

from typing import Final

import attrs
import trio

from frontends.server.http.tokens import Credential

_FAREWELL_S: Final = 0.5
"""How long a last word may take once the credential has ended; whoever does not read it is cut off."""


@attrs.define(eq=False)
class Guest:
    """Somebody who is being served by an answer, a feed or a WebSocket.

    Attributes:
        credential: What it came in by.
        scope: Everything that is done for it.
        good_until: When the credential ends by itself, on the clock of trio.
        leaving: Is set when the credential has ended before.
    """

    credential: Credential
    scope: trio.CancelScope
    good_until: float
    leaving: trio.Event = attrs.field(factory=trio.Event)
    _says_goodbye: bool = False

    def say_goodbye_first(self) -> None:
        """From now on, leave a moment for a last word at the end: whoever calls this sends nothing else then."""
        self._says_goodbye = True
        self.scope.deadline = self.good_until + _FAREWELL_S

    @property
    def has_ended(self) -> bool:
        """Whether the credential is no good any more."""
        return self.leaving.is_set() or trio.current_time() >= self.good_until

    async def wait_ended(self) -> None:
        """Wait until the credential has ended."""
        with trio.move_on_at(self.good_until):
            await self.leaving.wait()

    def send_away(self) -> None:
        """End what is done for it, as the credential has ended."""
        if self.leaving.is_set():
            return
        self.leaving.set()
        if self._says_goodbye:
            self.scope.deadline = min(self.scope.deadline, trio.current_time() + _FAREWELL_S)
        else:
            self.scope.cancel(reason="the token was changed")
