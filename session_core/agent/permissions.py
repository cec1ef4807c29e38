"""Which tool calls need a person's yes: a table of tiers and effects."""

from session_core.vocabulary.sessions import PermissionTier
from session_core.vocabulary.tools import Effect

ASKS: dict[PermissionTier, frozenset[Effect]] = {
    "ask_all": frozenset({"read", "write", "execute", "network"}),
    "ask_writes": frozenset({"write", "execute", "network"}),
    "ask_outward": frozenset({"execute", "network"}),
    "bypass": frozenset(),
}


def needs_approval(tier: PermissionTier, effects: frozenset[Effect], *, granted: bool) -> bool:
    """Tell whether a call has to be asked for; a grant for the session covers every later call of the same tool."""
    return not granted and bool(ASKS[tier] & effects)
