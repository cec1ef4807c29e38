"""How many model calls one turn may make; `budget` limits tokens and money, `Agent.run_turn` limits time."""

from session_core import limits
from session_core.session.state import SessionState


def step_limit_reason(state: SessionState) -> str | None:
    """Return why the running turn may make no further model call; None if it may."""
    turn, bounds = state.turn, state.settings.limits
    steps = limits.MAX_STEPS_PER_TURN if bounds.steps is None else bounds.steps
    if turn is None or turn.steps < steps:
        return None
    return f"stopped after {steps} model call{'s' if steps != 1 else ''}"


def format_dollars(micros: int) -> str:
    """Format an amount of money, with as many digits as it needs to be visible."""
    return f"${micros / 1_000_000:,.2f}" if micros >= 10_000 else f"${micros / 1_000_000:,.6f}"
