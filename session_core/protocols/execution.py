"""Running the code that a model writes: what an executor is given, gives back, and keeps.

An executor runs one cell at a time. What goes wrong in a cell is data (`CellResult.error`); an exception is a fault of
the executor itself. Its state, whatever lives on between cells, is written down in two steps: `capture` says what it
would be, then the store has it or not, and `acknowledge` or `abort` tells the executor which.
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
"""Parts of a state that are smaller stand in its root; larger ones are kept by themselves."""


@attrs.frozen(kw_only=True)
class Cell:
    """A piece of code to run; `number` counts the cells of a turn from 1."""

    language: str
    code: str
    number: int = 1


@attrs.frozen(kw_only=True)
class CellResult:
    """What became of a cell.

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
"""Runs a tool through the same gate and hooks as a call of a model."""


@attrs.frozen(kw_only=True)
class Execution:
    """What a cell may use while it runs.

    Attributes:
        call_tool: Runs one of `tools`; several may run side by side.
        report: Shows people what the cell prints, as it does.
        hidden: Places that no cell may read.
        may_read: Whether files of the session's folder may be read without anybody being asked; if not, a cell does
            not see them, and reads by tools.
        unconfined: Whether a person has agreed that this cell runs without a sandbox, because none can be made here.
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
    """A state as it would be kept; `new` holds the bytes of leaves that the store does not have yet, by digest."""

    state: ExecutorState
    new: Mapping[str, bytes] = attrs.field(factory=dict)


@attrs.frozen(kw_only=True)
class KeptState:
    """A state as it is read back, every leaf checked against its digest."""

    state: ExecutorState
    leaves: Mapping[str, bytes]
    """By name."""


class CodeExecutor(ABC):
    """Runs cells, and keeps what lives on between them."""

    engine: str
    """Its name in what is kept."""
    language: str
    """The language of its cells."""

    @abstractmethod
    async def execute(self, cell: Cell, execution: Execution) -> CellResult:
        """Run a cell; a second caller waits for the first.

        Cancellation: the cell is ended, and the executor stays usable with what was there before it.
        """

    async def why_unconfined(self, execution: Execution) -> str | None:
        """Say why a cell could not be confined as the session's policy asks; None if it can, or need not be.

        If it cannot, a person is asked before each cell, and `Execution.unconfined` says that they have agreed.
        """
        return None

    @property
    @abstractmethod
    def dirty(self) -> bool:
        """Whether there is anything that the store does not have; cheap, and true in doubt."""

    @abstractmethod
    async def probe(self) -> None:
        """See whether the state could be captured now, before more is spent on it.

        Raises:
            StateNotKeepable: It could not; the message is for the model.
        """

    @abstractmethod
    async def capture(self) -> StateCapture:
        """Say what the state is; raises `StateNotKeepable`. What it says is on offer until acknowledged or aborted."""

    @abstractmethod
    def acknowledge(self, capture: StateCapture) -> None:
        """Hear that the store has it."""

    @abstractmethod
    def abort(self, capture: StateCapture) -> None:
        """Hear that the store does not have it: its leaves have to be offered again."""

    @abstractmethod
    async def restore(self, saved: KeptState | None) -> None:
        """Become exactly what was kept, or empty; whatever was there before is gone.

        Raises:
            StateRejected: It is not a state of this executor, or not whole.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """End whatever runs."""


def compute_digest(data: bytes) -> str:
    """Name a leaf by what it holds."""
    return hashlib.sha256(data).hexdigest()


def split_state(
    parts: Mapping[str, bytes], known: frozenset[str]
) -> tuple[dict[str, bytes], tuple[StateLeaf, ...], dict[str, bytes]]:
    """Divide a state: the parts that stand in the root, the leaves, and the bytes of those that are not `known` yet."""
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
