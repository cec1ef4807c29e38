"""The budget of a turn: tokens and money, shared with its subagents, and its number of model calls.

Rules:
1. The limits of the topmost session apply to every call made for its turn, including those of subagents.
2. A model call reserves its share before it starts: its input, and the longest answer it may give. Its real usage is
   counted when it ends. So concurrent calls never spend the same remainder twice. Example: with 10,000 tokens left, a
   call that reserves 8,000 leaves 2,000 for others until it ends.
3. A call that gets no useful share waits until another call has ended. When no call is in progress none waits, so none
   waits forever.
4. Limits are read again for each call: a change takes effect at the next one, also for waiting calls.
"""

from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import reduce
from typing import Final

import attrs
import trio

from session_core import limits
from session_core.agent.context import CHARS_PER_TOKEN, message_cost, request_chars
from session_core.providers.base import ModelRequest
from session_core.providers.catalogue import PER_MILLION, ModelInfo, cost_micros
from session_core.session.session import Session, Work
from session_core.session.turn_handle import TurnHandle
from session_core.vocabulary.messages import Usage

USEFUL_OUTPUT_TOKENS: Final = 2_048
"""With less room for its answer than this, a call waits for others to end."""
FEWEST_OUTPUT_TOKENS: Final = 256
"""The answer length that the last call gets, however little is left: with less, an answer could not even say so."""


@attrs.frozen(kw_only=True)
class CallNeeds:
    """The needs of a model call: `input_tokens` is the best estimate, `certain_tokens` the certain part."""

    input_tokens: int
    certain_tokens: int = 0
    info: ModelInfo | None = None


@attrs.frozen(kw_only=True)
class BudgetShare:
    """A call may be made; `max_output_tokens` is the longest answer, if that is below the model's own limit."""

    max_output_tokens: int | None = None


@attrs.frozen(kw_only=True)
class LimitReached:
    """A call may not be made, and why."""

    reason: str


def estimate_needs(request: ModelRequest, info: ModelInfo | None, *, whole: bool) -> CallNeeds:
    """Estimate what a request will use: the usage of the last answer, plus a guess for what came after it.

    `whole` means that the conversation is unchanged since then; a shortened one is estimated completely.
    """
    newer = 0
    for message in reversed(request.messages) if whole else ():
        if message.usage is not None and message.usage.tokens:
            read = message.usage.tokens
            return CallNeeds(input_tokens=read + newer // CHARS_PER_TOKEN, certain_tokens=read, info=info)
        newer += message_cost(message)
    return CallNeeds(input_tokens=estimate_tokens(request_chars(request)), info=info)


def estimate_tokens(chars: int) -> int:
    """Estimate how many tokens a piece of text has."""
    return -(-chars // CHARS_PER_TOKEN)


def estimate_usage(needs: CallNeeds, answer_chars: int) -> Usage:
    """Estimate the usage of a call whose provider reported none."""
    return Usage(input_tokens=needs.input_tokens, output_tokens=estimate_tokens(answer_chars), estimated=True)


def unfinished_usage(needs: CallNeeds, reported: Usage, answer_chars: int) -> Usage:
    """Return the usage of an unfinished call: as reported, or an estimate if it had begun to answer."""
    is_unreported = not reported.tokens and not reported.cost_micros
    return estimate_usage(needs, answer_chars) if is_unreported and answer_chars else reported


@asynccontextmanager
async def reserve_share(handle: TurnHandle, needs: CallNeeds) -> AsyncIterator[BudgetShare | LimitReached]:
    """Reserve the share of one model call within the block, once one is available.

    Count the usage of the call inside the block.
    """
    work = handle.work
    while (found := _decide_share(handle, needs)) is None:
        top = handle.root_session.work or work
        await top.budget_changed.wait()
    granted, work.reserved = found
    try:
        await trio.lowlevel.checkpoint_if_cancelled()
        yield granted
    finally:
        work.reserved = None
        (handle.root_session.work or work).notify_budget_changed()


def turn_usage(session: Session) -> Usage:
    """Return what a running turn and its subagents have used so far."""
    used = session.state.turn.usage if session.state.turn is not None else Usage()
    return reduce(Usage.plus, (subagent.state.usage for subagent in _subagents(session)), used)


def limit_reason(handle: TurnHandle) -> str | None:
    """Return why the running turn may make no further model call: which limit it has reached; None if it may."""
    state = handle.state
    most = state.settings.limits.steps
    steps = limits.MAX_STEPS_PER_TURN if most is None else most
    if state.turn is not None and state.turn.steps >= steps:
        return f"stopped after {steps} model call{'s' if steps != 1 else ''}"
    return _first(purse.exhausted_reason() for purse in _list_limits(handle.root_session, Usage()))


def _subagents(session: Session) -> Iterator[Session]:
    for subagent in session.work.subagents if session.work is not None else ():
        yield subagent
        yield from _subagents(subagent)


@attrs.frozen(kw_only=True)
class _BudgetLimit:
    """One limit: the total, what is used, and what is reserved for calls in progress."""

    limit: int
    used: int
    held: int
    money: bool

    @property
    def room(self) -> int:
        return self.limit - self.used - self.held

    def format_amount(self, amount: int) -> str:
        return format_dollars(amount) if self.money else f"{amount:,}"

    def exhausted_reason(self) -> str | None:
        if self.used < self.limit:
            return None
        what = "" if self.money else " tokens"
        return f"stopped after {self.format_amount(self.used)}{what}; the limit is {self.format_amount(self.limit)}"

    def insufficient_reason(self, needs: CallNeeds) -> str | None:
        """Return why the next call would certainly exceed the limit, if so; a turn may always make its first."""
        least = _cost(needs.info, Usage(cache_read_tokens=needs.certain_tokens)) if self.money else needs.certain_tokens
        if not self.used or least <= self.room:
            return None
        what = "" if self.money else " tokens"
        return (
            f"stopped after {self.format_amount(self.used)}{what}: "
            f"the next model call would use {self.format_amount(least)} or more, "
            f"and the limit is {self.format_amount(self.limit)}"
        )

    def affordable_output_tokens(self, amount: int, needs: CallNeeds) -> int | None:
        """Return the longest answer that this amount pays for, besides the input; None if any length."""
        if not self.money:
            return amount - needs.input_tokens
        prices = needs.info.prices if needs.info is not None else None
        if prices is None or not prices.output:
            return None
        return (amount - _cost(needs.info, Usage(input_tokens=needs.input_tokens))) * PER_MILLION // prices.output


def _list_limits(top: Session, held: Usage) -> list[_BudgetLimit]:
    bounds, used = top.state.settings.limits, turn_usage(top)
    purses: list[_BudgetLimit] = []
    if bounds.tokens is not None:
        purses.append(_BudgetLimit(limit=bounds.tokens, used=used.tokens, held=held.tokens, money=False))
    if bounds.cost_micros is not None:
        purses.append(_BudgetLimit(limit=bounds.cost_micros, used=used.cost_micros, held=held.cost_micros, money=True))
    return purses


def _decide_share(handle: TurnHandle, needs: CallNeeds) -> tuple[BudgetShare | LimitReached, Usage] | None:
    """Decide about a call and what to reserve for it; None if it should wait."""
    top = handle.root_session
    others = [each for each in _iterate_works(top) if each is not handle.work]
    under_way = [each.reserved for each in others if each.reserved is not None]
    purses = _list_limits(top, reduce(Usage.plus, under_way, Usage()))
    if (why := _first(purse.exhausted_reason() for purse in purses)) is not None:
        return LimitReached(reason=why), Usage()
    sharing = 1 + sum(1 for each in others if each.reserved is None and not each.subagents)
    longest = needs.info.max_output_tokens if needs.info is not None else None
    fair = _least([purse.affordable_output_tokens(purse.room // sharing, needs) for purse in purses])
    if fair is None or fair >= min(USEFUL_OUTPUT_TOKENS, longest or USEFUL_OUTPUT_TOKENS):
        return _grant_share(needs, fair, longest)
    if under_way:
        return None
    if (why := _first(purse.insufficient_reason(needs) for purse in purses)) is not None:
        return LimitReached(reason=why), Usage()
    alone = _least([purse.affordable_output_tokens(purse.room, needs) for purse in purses])
    return _grant_share(needs, max(FEWEST_OUTPUT_TOKENS, alone or 0), longest)


def _grant_share(needs: CallNeeds, output: int | None, longest: int | None) -> tuple[BudgetShare, Usage]:
    most = _least([output, longest]) or 0
    reserved = Usage(input_tokens=needs.input_tokens, output_tokens=most)
    reserved = attrs.evolve(reserved, cost_micros=_cost(needs.info, reserved))
    limited = output is not None and (longest is None or output < longest)
    return BudgetShare(max_output_tokens=output if limited else None), reserved


def _iterate_works(top: Session) -> Iterator[Work]:
    for session in (top, *_subagents(top)):
        if session.work is not None:
            yield session.work


def _first(reasons: Iterable[str | None]) -> str | None:
    return next((why for why in reasons if why is not None), None)


def _least(amounts: list[int | None]) -> int | None:
    known = [amount for amount in amounts if amount is not None]
    return min(known) if known else None


def _cost(info: ModelInfo | None, usage: Usage) -> int:
    return cost_micros(info, usage) if info is not None else 0


def format_dollars(micros: int) -> str:
    """Format an amount of money, with as many digits as it needs to be visible."""
    return f"${micros / 1_000_000:,.2f}" if micros >= 10_000 else f"${micros / 1_000_000:,.6f}"
