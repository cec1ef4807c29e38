"""The saved variables of cells, as the service holds them: parts by name, whose bytes only the worker reads.

A part is a variable: `value:x`, `source:f` (the definition of a function or class) or `module:np` (an imported one). In
the state of a session the small ones are in the root and the others are leaves, see `execution.split_state`.
"""

import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import Final

import attrs

from session_core import limits
from session_core.protocols.execution import KeptState, StateCapture, compute_digest, split_state
from session_core.protocols.faults import StateRejected
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.protocols import ExecutorState

ENGINE: Final = "python"
VERSION: Final = 1
"""The format version of the root. Raise it together with a step in `UPGRADES`."""
MOST_LOST: Final = 50
"""How many names of unsaved variables are remembered, to report them later."""
_ORDER, _PARTS, _LOST = "order", "parts", "lost"
_PART_NAME: Final = re.compile(r"(?:value|source|module):(?!\d)\w{1,200}")

Upgrade = Callable[[JsonObject], JsonObject]
UPGRADES: Final[dict[int, Upgrade]] = {}
"""Converts a root of this version to the next version; raises `ValueError` if that is impossible."""


@attrs.frozen(kw_only=True)
class VariablePart:
    """A saved variable."""

    data: bytes = attrs.field(repr=False)
    digest: str

    @classmethod
    def from_data(cls, data: bytes) -> "VariablePart":
        """Build a part from its bytes."""
        return cls(data=data, digest=compute_digest(data))


@attrs.frozen(kw_only=True)
class SavedVariables:
    """All variables, in the order of their creation; `lost` names those that could not be saved."""

    parts: Mapping[str, VariablePart] = attrs.field(factory=dict)
    lost: tuple[str, ...] = ()

    @property
    def identity(self) -> tuple[object, ...]:
        """The identity of the whole value: two with the same identity are the same."""
        return (*((name, part.digest) for name, part in self.parts.items()), self.lost)

    def without_part(self, name: str) -> "SavedVariables":
        """Return a copy without a part that cannot be restored."""
        rest = {each: part for each, part in self.parts.items() if each != name}
        return attrs.evolve(self, parts=rest)


def read_losses(given: object, most: int | None = None) -> list[tuple[str, str]]:
    """Read the names of what is lost, each with the reason, as the worker sends them; leaves out the rest."""
    listed = given[:most] if isinstance(given, list) else []
    pairs = [each for each in listed if isinstance(each, list) and len(each) == 2]
    return [(name, why[:300]) for name, why in pairs if isinstance(name, str) and isinstance(why, str)]


def is_part_name(name: object) -> bool:
    """Return whether this can be the name of a part."""
    return isinstance(name, str) and _PART_NAME.fullmatch(name) is not None


def find_bounds_problem(parts: Mapping[str, VariablePart]) -> str | None:
    """Describe which bound the parts exceed, if any."""
    if len(parts) > limits.MAX_CELL_VARIABLES:
        return f"more than {limits.MAX_CELL_VARIABLES} variables"
    if any(len(part.data) > limits.MAX_CELL_VARIABLE_BYTES for part in parts.values()):
        return f"a variable of more than {limits.MAX_CELL_VARIABLE_BYTES:,} bytes"
    if sum(len(part.data) for part in parts.values()) > limits.MAX_CELL_STATE_BYTES:
        return f"variables of more than {limits.MAX_CELL_STATE_BYTES:,} bytes together"
    return None


def to_capture(variables: SavedVariables, known: frozenset[str]) -> StateCapture:
    """Build a capture for the store, which already has the leaves with the `known` digests."""
    small, leaves, new = split_state({name: part.data for name, part in variables.parts.items()}, known)
    root = JsonObject(
        {
            _ORDER: tuple(variables.parts),
            _PARTS: JsonObject({name: b64encode(data).decode() for name, data in small.items()}),
            _LOST: variables.lost,
        }
    )
    return StateCapture(state=ExecutorState(engine=ENGINE, version=VERSION, root=root, leaves=leaves), new=new)


def from_state(saved: KeptState, upgrades: Mapping[int, Upgrade] = UPGRADES, version: int = VERSION) -> SavedVariables:
    """Read a stored state.

    Raises:
        StateRejected: It is not ours, newer than we are, or incomplete; the message names what is wrong.
    """
    state = saved.state
    if state.engine != ENGINE:
        raise StateRejected(f"this is the state of the engine {state.engine!r}, not of {ENGINE!r}")
    if state.version > version:
        raise StateRejected(f"the state is of version {state.version}, and only versions up to {version} are known")
    parts = _read_leaves(saved)
    order, small, lost = _read_root(_upgrade_root(state, upgrades, version))
    for name, text in small.items():
        try:
            parts[name] = VariablePart.from_data(b64decode(text, validate=True))
        except ValueError as error:
            raise StateRejected(f"a part of the state cannot be decoded: {name}") from error
    if len(set(order)) != len(order) or set(order) != parts.keys():
        names = sorted(set(order) ^ parts.keys()) or sorted(order)
        raise StateRejected(f"the state does not name its parts as they are: {', '.join(names[:5])}")
    for name in order:
        if not is_part_name(name):
            raise StateRejected(f"this is not the name of a part: {name[:100]!r}")
    if (problem := find_bounds_problem(parts)) is not None:
        raise StateRejected(f"the state holds {problem}")
    return SavedVariables(parts={name: parts[name] for name in order}, lost=lost)


def _read_leaves(saved: KeptState) -> dict[str, VariablePart]:
    parts: dict[str, VariablePart] = {}
    for leaf in saved.state.leaves:
        if leaf.name in parts:
            raise StateRejected(f"a part of the state occurs twice: {leaf.name}")
        data = saved.leaves.get(leaf.name)
        if data is None:
            raise StateRejected(f"a part of the state is missing: {leaf.name}")
        part = VariablePart.from_data(data)
        if part.digest != leaf.digest or len(data) != leaf.size:
            raise StateRejected(f"a part of the state differs from what was stored: {leaf.name}")
        parts[leaf.name] = part
    if extra := saved.leaves.keys() - parts.keys():
        raise StateRejected(f"there is a part that the state does not name: {min(extra)}")
    return parts


def _upgrade_root(state: ExecutorState, upgrades: Mapping[int, Upgrade], version: int) -> JsonObject:
    root = state.root
    for step in range(state.version, version):
        if step not in upgrades:
            raise StateRejected(f"the state is of version {step}, which is no longer supported")
        try:
            root = upgrades[step](root)
        except ValueError as error:
            raise StateRejected(f"the state of version {step} cannot be upgraded") from error
    return root


def _read_root(root: JsonObject) -> tuple[list[str], dict[str, str], tuple[str, ...]]:
    order, small, lost = root.get(_ORDER), root.get(_PARTS), root.get(_LOST)
    if root.keys() != {_ORDER, _PARTS, _LOST} or not isinstance(small, JsonObject):
        raise StateRejected("the root of the state has another form")
    return (
        list(_read_texts(order)),
        dict(zip(small, _read_texts(tuple(small.values())), strict=True)),
        _read_texts(lost),
    )


def _read_texts(values: object) -> tuple[str, ...]:
    if not isinstance(values, tuple):
        raise StateRejected("the root of the state has another form")
    texts = tuple(each for each in values if isinstance(each, str))
    if len(texts) != len(values):
        raise StateRejected("the root of the state has another form")
    return texts
