"""What Ctrl-C ends: our own message or turn, wherever it is by then, and nothing that others have begun."""

import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress

import trio

import session_core as sc
from frontends.commands.run.attached_service import Client
from frontends.commands.run.find_message import messages_since
from frontends.commands.run.own_turn import OwnTurn
from frontends.shared.signals import LEAVING_SIGNALS

_PATIENCE = 1.0  # seconds before explaining why nothing has happened yet
_ON_ITS_WAY = "Your message is being sent, and will be withdrawn once it arrives; Ctrl-C again leaves at once."
_ANSWERED = "Your message is answered; the turn continues with messages of other clients."
_HOLDS_ON = "Something is still stopping; Ctrl-C again leaves at once."


class Stopping:
    """Stops our own work at the first Ctrl-C and leaves at the second; leaves when asked to end.

    1. A message in flight is waited for: only then is it known whether it is queued, or which turn has it.
    2. A queued message is withdrawn. A turn is stopped only if it holds our message and is still answering it.
    3. A follower, or a user running an extension command, stops whatever runs in the session.
    4. On SIGTERM, a message queued or in flight is withdrawn too; a running turn is left to the service.
    5. Before any of that has begun there is nothing to stop; the sender checks `signal` before it begins.

    Attributes:
        signal: The last signal received.
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
        """Handle signals as long as there are any."""
        async for number in signals:
            again, self.signal = self.signal is not None, number
            if again or number in LEAVING_SIGNALS:
                signal.signal(signal.SIGINT, signal.SIG_DFL)  # a third one ends even a hanging program
                if number == signal.SIGTERM and not again:
                    self._nursery.start_soon(self._leave, session_id)
                else:
                    self._nursery.cancel_scope.cancel(reason="asked to leave")
            else:
                self._nursery.start_soon(self._stop, session_id)

    async def take_back(self, session_id: sc.SessionId) -> bool:
        """Withdraw our message from the queue; return whether it was there."""
        if self._own.item_id is None:
            return False
        try:
            await self._service.take_queue(session_id, self._own.item_id)
        except sc.NotFound:
            return False
        return True

    async def _leave(self, session_id: sc.SessionId) -> None:
        """Leave, but withdraw our queued message: there would be no reader for its answer."""
        with suppress(sc.SessionCoreError), trio.move_on_after(_PATIENCE):
            await self._own.wait_until_delivered()
            if await self.take_back(session_id):
                await trio.sleep_forever()  # the waiting task reports it and ends everything
        self._nursery.cancel_scope.cancel(reason="asked to leave")

    async def _stop(self, session_id: sc.SessionId) -> None:
        if self._own.has_message:
            await self._wait_until_delivered()
            if await self.take_back(session_id):
                return
            if self._own.answer is not None:
                await self._say(_ANSWERED)
                self._nursery.cancel_scope.cancel(reason="the running work belongs to other clients")
                return
            if not await self._owns_running_turn(session_id):
                return
        elif not self._own.is_follower and self._own.extension is None:
            return
        stopped = await self._service.request_stop(session_id)
        if stopped.result == "still_stopping":
            await self._say(_HOLDS_ON)

    async def _wait_until_delivered(self) -> None:
        with trio.move_on_after(_PATIENCE) as time_limit:
            await self._own.wait_until_delivered()
        if time_limit.cancelled_caught:
            await self._say(_ON_ITS_WAY)
            await self._own.wait_until_delivered()

    async def _owns_running_turn(self, session_id: sc.SessionId) -> bool:
        """Ask the service whether our turn is running now: we may not know yet that it has begun or ended."""
        now = await self._service.load_session(session_id)
        turn_id = self._own.find_turn(await messages_since(self._service, self._own, now))
        return now.turn is not None and now.turn.turn_id == turn_id
