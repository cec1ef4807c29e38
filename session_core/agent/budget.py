"""What a turn and its helpers may use together: tokens and money.

Rules:
1. The limits of the session it all began with hold for everything that works for its turn, whoever makes the call.
2. A model call has its share set aside before it starts: what it will read, and the longest answer it may give. What
   it has really used is counted when it ends. So calls that run side by side never use the same rest twice.
3. Whoever gets no useful share waits until the call of another has ended. When no call is under way nobody waits, so
   nobody waits for ever.
4. Limits are read anew for each call: a change takes effect at the next one, also for those who wait.
"""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Final

import attrs
import trio

from session_core.agent.bounds import dollars
from session_core.agent.context import CHARS_PER_TOKEN, chars_of, cost_of
from session_core.providers.base import ModelRequest
from session_core.providers.catalogue import PER_MILLION, ModelInfo, cost_micros
from session_core.session.session import Session, Work
from session_core.session.turn_handle import TurnDesk
from session_core.vocabulary.messages import Usage

USEFUL_OUTPUT_TOKENS: Final = 2_048
"""With less room for its answer than this, a call rather waits for others to end."""
FEWEST_OUTPUT_TOKENS: Final = 256
"""What the last call may answer, however little is left: with less, an answer cannot even say so."""


@attrs.frozen(kw_only=True)
class CallNeeds:
    """What a model call will use: `input_tokens` as well as can be told, `surely` of them for certain."""

    input_tokens: int
    surely: int = 0
    info: ModelInfo | None = None


@attrs.frozen(kw_only=True)
class Share:
    """A call may be made; `max_output_tokens` is the longest answer, if that is less than the model could give."""

    max_output_tokens: int | None = None


@attrs.frozen(kw_only=True)
class LimitReached:
    """A call may not be made, and why."""

    reason: str


def needs_of(request: ModelRequest, info: ModelInfo | None, *, whole: bool) -> CallNeeds:
    """Tell what a request will use: what the last answer had used, and a guess at what came after it.

    `whole` says that the conversation is as it was then; one that was shortened is guessed at altogether.
    """
    newer = 0
    for message in reversed(request.messages) if whole else ():
        if message.usage is not None and message.usage.tokens:
            read = message.usage.tokens
            return CallNeeds(input_tokens=read + newer // CHARS_PER_TOKEN, surely=read, info=info)
        newer += cost_of(message)
    return CallNeeds(input_tokens=estimated_tokens(chars_of(request)), info=info)


def estimated_tokens(chars: int) -> int:
    """Guess how many tokens a text has."""
    return -(-chars // CHARS_PER_TOKEN)


def estimated_usage(needs: CallNeeds, answer_chars: int) -> Usage:
    """Guess what a call has used of which the provider told nothing."""
    return Usage(input_tokens=needs.input_tokens, output_tokens=estimated_tokens(answer_chars), estimated=True)


def used_by_unfinished(needs: CallNeeds, told: Usage, answer_chars: int) -> Usage:
    """What a call has used that did not come to its end: what was told, or a guess if it had begun to answer."""
    untold = not told.tokens and not told.cost_micros
    return estimated_usage(needs, answer_chars) if untold and answer_chars else told


@asynccontextmanager
async def shared(desk: TurnDesk, needs: CallNeeds) -> AsyncIterator[Share | LimitReached]:
    """Set the share of one model call aside for the length of the block, once there is one.

    Count what the call has used inside of the block.
    """
    work = desk.work
    while (found := _share(desk, needs)) is None:
        top = desk.foremost.work or work
        await top.room_made.wait()
    granted, work.reserved = found
    try:
        await trio.lowlevel.checkpoint_if_cancelled()
        yield granted
    finally:
        work.reserved = None
        (desk.foremost.work or work).tell_room_made()


def spent(session: Session) -> Usage:
    """Return what a running turn and its helpers have used so far."""
    used = session.state.turn.usage if session.state.turn is not None else Usage()
    for helper in _helpers(session):
        used = used.plus(helper.state.usage)
    return used


def spent_out(desk: TurnDesk) -> str | None:
    """Say which limit of tokens or money is used up, if any."""
    return next((why for purse in _purses(desk.foremost, Usage()) if (why := purse.used_up()) is not None), None)


def _helpers(session: Session) -> Iterator[Session]:
    for helper in session.work.helpers if session.work is not None else ():
        yield helper
        yield from _helpers(helper)


@attrs.frozen(kw_only=True)
class _Purse:
    """One limit: how much there is, what is gone, and what is set aside for calls under way."""

    limit: int
    used: int
    held: int
    money: bool

    @property
    def room(self) -> int:
        return self.limit - self.used - self.held

    def shown(self, amount: int) -> str:
        return dollars(amount) if self.money else f"{amount:,}"

    def used_up(self) -> str | None:
        if self.used < self.limit:
            return None
        what = "" if self.money else " tokens"
        return f"stopped after {self.shown(self.used)}{what}; the limit is {self.shown(self.limit)}"

    def too_little(self, needs: CallNeeds) -> str | None:
        """Say so if the next call would for certain use more than there is; a turn may always make its first."""
        least = _cost(needs.info, Usage(cache_read_tokens=needs.surely)) if self.money else needs.surely
        if not self.used or least <= self.room:
            return None
        what = "" if self.money else " tokens"
        return (
            f"stopped after {self.shown(self.used)}{what}: the next model call would use {self.shown(least)} or more, "
            f"and the limit is {self.shown(self.limit)}"
        )

    def output_for(self, amount: int, needs: CallNeeds) -> int | None:
        """Return how long an answer this amount pays for, besides what the call reads; None if any."""
        if not self.money:
            return amount - needs.input_tokens
        prices = needs.info.prices if needs.info is not None else None
        if prices is None or not prices.output:
            return None
        return (amount - _cost(needs.info, Usage(input_tokens=needs.input_tokens))) * PER_MILLION // prices.output


def _purses(top: Session, held: Usage) -> list[_Purse]:
    bounds, used = top.state.settings.limits, spent(top)
    purses: list[_Purse] = []
    if bounds.tokens is not None:
        purses.append(_Purse(limit=bounds.tokens, used=used.tokens, held=held.tokens, money=False))
    if bounds.cost_micros is not None:
        purses.append(_Purse(limit=bounds.cost_micros, used=used.cost_micros, held=held.cost_micros, money=True))
    return purses


def _share(desk: TurnDesk, needs: CallNeeds) -> tuple[Share | LimitReached, Usage] | None:
    """Decide about a call, with what is to be set aside for it; None if it should wait."""
    top = desk.foremost
    others = [each for each in _works(top) if each is not desk.work]
    under_way = [each.reserved for each in others if each.reserved is not None]
    purses = _purses(top, _sum(under_way))
    if (why := next((why for purse in purses if (why := purse.used_up()) is not None), None)) is not None:
        return LimitReached(reason=why), Usage()
    sharing = 1 + sum(1 for each in others if each.reserved is None and not each.helpers)
    longest = needs.info.max_output_tokens if needs.info is not None else None
    fair = _least([purse.output_for(purse.room // sharing, needs) for purse in purses])
    if fair is None or fair >= min(USEFUL_OUTPUT_TOKENS, longest or USEFUL_OUTPUT_TOKENS):
        return _granted(needs, fair, longest)
    if under_way:
        return None
    if (why := next((why for purse in purses if (why := purse.too_little(needs)) is not None), None)) is not None:
        return LimitReached(reason=why), Usage()
    alone = _least([purse.output_for(purse.room, needs) for purse in purses])
    return _granted(needs, max(FEWEST_OUTPUT_TOKENS, alone or 0), longest)


def _granted(needs: CallNeeds, output: int | None, longest: int | None) -> tuple[Share, Usage]:
    most = _least([output, longest]) or 0
    reserved = Usage(input_tokens=needs.input_tokens, output_tokens=most)
    reserved = attrs.evolve(reserved, cost_micros=_cost(needs.info, reserved))
    limited = output is not None and (longest is None or output < longest)
    return Share(max_output_tokens=output if limited else None), reserved


def _works(top: Session) -> Iterator[Work]:
    for session in (top, *_helpers(top)):
        if session.work is not None:
            yield session.work


def _sum(usages: list[Usage]) -> Usage:
    total = Usage()
    for each in usages:
        total = total.plus(each)
    return total


def _least(amounts: list[int | None]) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return min(known) if known else None


def _cost(info: ModelInfo | None, usage: Usage) -> int:
    return cost_micros(info, usage) if info is not None else 0
