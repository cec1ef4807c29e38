"""What Ctrl-C ends: our own message or turn, wherever that is by then, and nothing that others have begun."""

import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import trio

import session_core as sc
from frontends.commands.run.find_message import messages_since
from frontends.commands.run.own_turn import OwnTurn
from frontends.commands.run.requests import Client
from frontends.shared.signals import LEAVING_SIGNALS

_PATIENCE = 1.0  # seconds without a word about why nothing has happened yet
_ON_ITS_WAY = "Your message is on its way, and is taken back as soon as it is there; Ctrl-C again leaves at once."
_ANSWERED = "Your message is answered; what the turn does now is for somebody else, and goes on."
_HOLDS_ON = "Something does not let go yet; Ctrl-C again leaves at once."


class Stopping:
    """Stops what is ours at the first Ctrl-C and leaves at the second; leaves when asked to end.

    1. What is on its way is waited for: only then is it known whether it waits, or which turn has it.
    2. What waits is taken back, and a turn is stopped only if it is the one that has our message and still answers it.
    3. Whoever looks on, or has an extension do something, stops what runs in the session.
    4. Asked to end by SIGTERM, what waits or is on its way is taken back too; a turn is left to the service.
    5. Before any of that has begun there is nothing to stop; whoever is about to begin looks at `signal` first.

    Attributes:
        signal: The signal that came last.
    """

    def __init__(
        self, service: Client, own: OwnTurn, nursery: trio.Nursery, say: Callable[[str], Awaitable[None]]
    ) -> None:
        self._service = service
        self._own = own
        self._nursery = nursery
        self._say = say
        self.signal: int | None = None

    async def handle_signals(self, signals: AsyncIterator[int], session_id: sc.SessionId) -> None:
        """Do as the signals say, for as long as there are any."""
        async for number in signals:
            again, self.signal = self.signal is not None, number
            if again or number in LEAVING_SIGNALS:
                signal.signal(signal.SIGINT, signal.SIG_DFL)  # a third one ends even a program that hangs
                if number == signal.SIGTERM and not again:
                    self._nursery.start_soon(self._leave, session_id)
                else:
                    self._nursery.cancel_scope.cancel(reason="asked to leave")
            else:
                self._nursery.start_soon(self._stop, session_id)

    async def take_back(self, session_id: sc.SessionId) -> bool:
        """Take our message out of the queue; returns whether it was there."""
        if self._own.item_id is None:
            return False
        try:
            await self._service.take_queue(session_id, self._own.item_id)
        except sc.NotFound:
            return False
        return True

    async def _leave(self, session_id: sc.SessionId) -> None:
        """Leave, but nothing of ours in the queue: nobody would be there for the answer."""
        with suppress(sc.SessionCoreError), trio.move_on_after(_PATIENCE):
            await self._own.wait_until_delivered()
            if await self.take_back(session_id):
                await trio.sleep_forever()  # whoever has waited for it says so, and that is the end
        self._nursery.cancel_scope.cancel(reason="asked to leave")

    async def _stop(self, session_id: sc.SessionId) -> None:
        if self._own.has_message:
            await self._wait_until_delivered()
            if await self.take_back(session_id):
                return
            if self._own.answer is not None:
                await self._say(_ANSWERED)
                self._nursery.cancel_scope.cancel(reason="what still runs is for others")
                return
            if not await self._owns_running_turn(session_id):
                return
        elif not self._own.is_follower and self._own.extension is None:
            return
        stopped = await self._service.request_stop(session_id)
        if stopped.result == "still_stopping":
            await self._say(_HOLDS_ON)

    async def _wait_until_delivered(self) -> None:
        with trio.move_on_after(_PATIENCE) as patience:
            await self._own.wait_until_delivered()
        if patience.cancelled_caught:
            await self._say(_ON_ITS_WAY)
            await self._own.wait_until_delivered()

    async def _owns_running_turn(self, session_id: sc.SessionId) -> bool:
        """Ask the service whether our turn runs now: we may not have heard yet that it has begun or ended."""
        now = await self._service.load_session(session_id)
        turn_id = self._own.find_turn(await messages_since(self._service, self._own, now))
        return now.turn is not None and now.turn.turn_id == turn_id
