"""What each permission mode lets run, and which of two modes or sandbox policies is the stricter one."""

from collections.abc import Mapping
from typing import Final, Literal, get_args

import attrs

from session_core.vocabulary.sessions import PermissionMode, SandboxMode, SandboxPolicy
from session_core.vocabulary.tools import Effect

ModeAnswer = Literal["allow", "ask", "deny"]
"""From the least strict to the strictest."""
PERMISSION_MODES: Final[tuple[PermissionMode, ...]] = get_args(PermissionMode)
SANDBOX_MODES: Final[tuple[SandboxMode, ...]] = get_args(SandboxMode)
_ANSWERS: Final[tuple[ModeAnswer, ...]] = get_args(ModeAnswer)
MODE_ANSWERS: Final[Mapping[PermissionMode, Mapping[Effect, ModeAnswer]]] = {
    "read_only": {"read": "allow", "write": "deny", "execute": "deny", "network": "deny"},
    "ask_all": {"read": "ask", "write": "ask", "execute": "ask", "network": "ask"},
    "ask_writes": {"read": "allow", "write": "ask", "execute": "ask", "network": "ask"},
    "auto_edit": {"read": "allow", "write": "allow", "execute": "ask", "network": "ask"},
    "full": {"read": "allow", "write": "allow", "execute": "allow", "network": "allow"},
}
"""What each permission mode says about each effect of a call. As `read_only` lets tools read without asking, neither
`read_only` nor `ask_all` is stricter than the other."""


def is_as_strict_mode(old: PermissionMode, new: PermissionMode) -> bool:
    """Return whether a permission mode is at least as strict as another in everything."""
    return all(
        _ANSWERS.index(after) >= _ANSWERS.index(MODE_ANSWERS[old][effect])
        for effect, after in MODE_ANSWERS[new].items()
    )


def is_as_strict_sandbox(old: SandboxMode, new: SandboxMode) -> bool:
    """Return whether a sandbox mode is at least as strict as another."""
    return SANDBOX_MODES.index(new) <= SANDBOX_MODES.index(old)


def restrict_mode(own: PermissionMode, asked: PermissionMode) -> PermissionMode:
    """Return the stricter of two permission modes, and one's own if neither is."""
    return asked if is_as_strict_mode(own, asked) else own


def restrict_sandbox(own: SandboxPolicy, asked: SandboxPolicy) -> SandboxPolicy:
    """Return the policy that allows only what both allow, field by field."""
    narrowed: dict[str, object] = {}
    for field in attrs.fields(SandboxPolicy):
        ours, theirs = getattr(own, field.name), getattr(asked, field.name)
        if isinstance(ours, bool):
            narrowed[field.name] = ours and theirs
        elif isinstance(ours, tuple):
            narrowed[field.name] = tuple(each for each in ours if each in theirs)
        else:
            narrowed[field.name] = theirs if is_as_strict_sandbox(ours, theirs) else ours
    return SandboxPolicy(**narrowed)  # type: ignore[arg-type]
