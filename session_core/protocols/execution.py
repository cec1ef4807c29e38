"""Running the code that a model writes: an executor's input, output and state.

An executor runs one cell at a time. An error in a cell is data (`CellResult.error`); an exception is a fault of the
executor itself. Its state, whatever survives between cells, is saved in two steps: `capture` returns it, then
`acknowledge` or `abort` tells the executor whether the store has it.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

import attrs

from session_core.ids import SessionId, TurnId
from session_core.vocabulary.frozen import JsonObject, JsonValue
from session_core.vocabulary.messages import ImagePart, ToolResultPart
from session_core.vocabulary.protocols import ExecutorState, StateLeaf
from session_core.vocabulary.sessions import SandboxPolicy
from session_core.vocabulary.tools import ToolSpec

LEAF_BYTES: Final = 512
"""Smaller parts of a state are stored in its root; larger ones are stored separately."""


@attrs.frozen(kw_only=True)
class Cell:
    """A piece of code to run; `number` counts the cells of a turn from 1."""

    language: str
    code: str
    number: int = 1


@attrs.frozen(kw_only=True)
class CellResult:
    """The result of a cell.

    Attributes:
        output: What it printed, and the value of its last line; already cut to size.
        error: What went wrong in it, as the model should see it; None if nothing did.
        finished: It has called `finish`: the turn is to end with `value`.
        tool_calls: How many tools it has called.
    """

    output: str = ""
    images: tuple[ImagePart, ...] = ()
    error: str | None = None
    finished: bool = False
    value: JsonValue = None
    tool_calls: int = 0
    duration_ms: int = 0


CallTool = Callable[[str, JsonObject], Awaitable[ToolResultPart]]
"""Runs a tool through the same gate and hooks as a model's call."""


@attrs.frozen(kw_only=True)
class Execution:
    """What a cell may use while it runs.

    Attributes:
        call_tool: Runs one of `tools`; several may run concurrently.
        report: Shows people what the cell prints, as it prints.
        hidden: Paths that no cell may read.
        may_read: Whether files of the session's folder may be read without approval; if not, a cell does not see
            them, and reads through tools.
        unconfined: Whether a person has approved that this cell runs without a sandbox, because none can be made here.
    """

    session_id: SessionId
    turn_id: TurnId
    cwd: str
    sandbox: SandboxPolicy
    tools: Sequence[ToolSpec]
    call_tool: CallTool
    report: Callable[[str], None]
    hidden: tuple[str, ...] = ()
    may_read: bool = True
    unconfined: bool = False


@attrs.frozen(kw_only=True)
class StateCapture:
    """A state to be stored; `new` holds the bytes of leaves that the store does not have yet, by digest."""

    state: ExecutorState
    new: Mapping[str, bytes] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class KeptState:
    """A stored state, with every leaf checked against its digest."""

    state: ExecutorState
    leaves: Mapping[str, bytes]
    """By name."""


class CodeExecutor(ABC):
    """Runs cells, and holds the state that survives between them."""

    engine: str
    """Its name in stored states."""
    language: str
    """The language of its cells."""

    @abstractmethod
    async def execute(self, cell: Cell, execution: Execution) -> CellResult:
        """Run a cell; a second caller waits for the first.

        Cancellation: the cell is ended, and the executor stays usable with its state from before the cell.
        """

    async def why_unconfined(self, execution: Execution) -> str | None:
        """Describe why a cell cannot be sandboxed as the session's policy asks; None if it can, or need not be.

        If it cannot, each cell needs approval first, and `Execution.unconfined` says that it was given.
        """
        return None

    @property
    @abstractmethod
    def dirty(self) -> bool:
        """Whether the state differs from the store's; cheap, and true in doubt."""

    @abstractmethod
    async def probe(self) -> None:
        """Check whether the state could be captured now, before more is spent on it.

        Raises:
            StateNotKeepable: It could not; the message is for the model.
        """

    @abstractmethod
    async def capture(self) -> StateCapture:
        """Return the state; raises `StateNotKeepable`. The capture is pending until acknowledged or aborted."""

    @abstractmethod
    def acknowledge(self, capture: StateCapture) -> None:
        """Note that the store has the capture."""

    @abstractmethod
    def abort(self, capture: StateCapture) -> None:
        """Note that the store does not have the capture: its leaves must be offered again."""

    @abstractmethod
    async def restore(self, saved: KeptState | None) -> None:
        """Replace the state by exactly the stored one, or an empty one.

        Raises:
            StateRejected: It is not a state of this executor, or incomplete.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """End whatever runs."""


def compute_digest(data: bytes) -> str:
    """Return the digest that names a leaf."""
    return hashlib.sha256(data).hexdigest()


def split_state(
    parts: Mapping[str, bytes], known: frozenset[str]
) -> tuple[dict[str, bytes], tuple[StateLeaf, ...], dict[str, bytes]]:
    """Split a state: the parts in the root, the leaves, and the bytes of leaves that are not `known` yet."""
    small = {name: data for name, data in parts.items() if len(data) < LEAF_BYTES}
    leaves: list[StateLeaf] = []
    new: dict[str, bytes] = {}
    for name, data in sorted(parts.items()):
        if name not in small:
            leaf = StateLeaf(name=name, digest=compute_digest(data), size=len(data))
            leaves.append(leaf)
            if leaf.digest not in known:
                new[leaf.digest] = data
    return small, tuple(leaves), new
