"""What one turn may use: steps, tokens and money; time is kept by `Agent.run_turn`."""

from session_core import limits
from session_core.session.state import SessionState


def over_limit(state: SessionState) -> str | None:
    """Say which limit the running turn has reached, if any."""
    turn, bounds = state.turn, state.settings.limits
    if turn is None:
        return None
    steps = limits.MAX_STEPS_PER_TURN if bounds.steps is None else bounds.steps
    if turn.steps >= steps:
        return f"stopped after {steps} model calls"
    if bounds.tokens is not None and turn.usage.tokens >= bounds.tokens:
        return f"stopped after {turn.usage.tokens:,} tokens; the limit is {bounds.tokens:,}"
    if bounds.cost_micros is not None and turn.usage.cost_micros >= bounds.cost_micros:
        return f"stopped after {dollars(turn.usage.cost_micros)}; the limit is {dollars(bounds.cost_micros)}"
    return None


def dollars(micros: int) -> str:
    """Write an amount of money, with as many digits as it takes to see it."""
    return f"${micros / 1_000_000:,.2f}" if micros >= 10_000 else f"${micros / 1_000_000:,.6f}"
