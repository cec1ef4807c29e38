"""Which of two permission modes or sandbox policies is the stricter one."""

from collections.abc import Mapping
from typing import Final, get_args

import attrs

from session_core.vocabulary.sessions import PermissionMode, SandboxMode, SandboxPolicy

PERMISSION_MODES: Final[tuple[PermissionMode, ...]] = get_args(PermissionMode)
SANDBOX_MODES: Final[tuple[SandboxMode, ...]] = get_args(SandboxMode)
_STRICTNESS: Final[Mapping[PermissionMode, tuple[int, int, int]]] = {
    "read_only": (0, 2, 2),
    "ask_all": (1, 1, 1),
    "ask_writes": (0, 1, 1),
    "auto_edit": (0, 0, 1),
    "full": (0, 0, 0),
}
"""For reading, for writing, for programs and the network: 0 runs, 1 asks, 2 is refused. `read_only` lets tools read
without asking, so neither `read_only` nor `ask_all` is stricter than the other."""


def is_as_strict_mode(old: PermissionMode, new: PermissionMode) -> bool:
    """Return whether a permission mode is at least as strict as another in everything."""
    return all(after >= before for before, after in zip(_STRICTNESS[old], _STRICTNESS[new], strict=True))


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
