"""For tests of `run` in a session that others use: the session, and what `run` has made of it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import trio.testing

import session_core as sc
from frontends.commands.run.options import ContinuedSession, InteractionOptions, RunOptions
from frontends.commands.run.run import converse
from frontends.shared.streams import StandardStreams
from session_core.testing import scripted
from tests.frontends._paper import NoSignals, Paper, written

R = TypeVar("R")
BUSY = (sc.TextChunk(text="Theirs"), scripted.Pause("theirs"), sc.TextChunk(text="."), sc.ModelFinished())


class Meeting(sc.AttachedClient):
    """A client to whom something happens on the way to the service and back."""

    before: Callable[[], Awaitable[object]] | None = None
    after: Callable[[], Awaitable[object]] | None = None
    at: str = "SendUserMessage"

    async def execute(self, command: sc.Command[R], *, idempotency_key: str | None = None) -> R:
        """Have something happen around the command that is named `at`."""
        meets = type(command).__name__ == self.at
        if meets and self.before is not None:
            await self.before()
        reply = await super().execute(command, idempotency_key=idempotency_key)
        if meets and self.after is not None:
            await self.after()
        return reply


class Shared:
    """A session in which somebody else's turn runs, and `run` beside it, without a keyboard."""

    def __init__(self, service: sc.SessionService, session_id: sc.SessionId) -> None:
        self.service = service
        self.session_id = session_id
        self.streams = StandardStreams(out=Paper(), err=Paper())
        self.code: int | None = None

    async def run(
        self,
        prompt: str | None,
        interaction: InteractionOptions,
        signals: AsyncIterator[int] | None = None,
        *,
        before: Callable[[], Awaitable[object]] | None = None,
        after: Callable[[], Awaitable[object]] | None = None,
        meet: Callable[[sc.SessionState], Awaitable[None]] | None = None,
        at: str = "SendUserMessage",
    ) -> None:
        """Have `run` go on with the session, to its end.

        Something may happen when it has seen the session (`meet`), `before` its message, or `after` that; or around
        another command (`at`).
        """
        (summary,) = (await self.service.list_sessions()).sessions
        known = ContinuedSession(summary=summary, short="7k2f")
        with self.service.attach("cli") as attached:
            client = Meeting(self.service, attached.client_id)
            client.before, client.after, client.at = before, after, at
            options = RunOptions(prompt=prompt, interaction=interaction)
            self.code = await converse(client, options, self.streams, signals or NoSignals(), known, meet=meet)

    async def state(self) -> sc.SessionSnapshot:
        """The session as it is now."""
        return await self.service.load_session(self.session_id)

    @property
    def err(self) -> str:
        """What was said about the work."""
        return written(self.streams)[1]

    @property
    def out(self) -> str:
        """What was answered."""
        return written(self.streams)[0]


async def share(service: sc.SessionService, *, says: str | None = "busy") -> Shared:
    """Make the session, and begin somebody's turn in it."""
    session_id = (await service.create_session(permission_mode="ask_all")).session_id
    if says is not None:
        await service.send_user_message(session_id, says)
        await trio.testing.wait_all_tasks_blocked()
    return Shared(service, session_id)
