"""Short ways to write the parts of a protocol that need little: code without state, and prose by a plain function."""

from abc import abstractmethod
from collections.abc import Callable, Iterable

from session_core.protocols.api import ProtocolBundle, ProtocolFactory
from session_core.protocols.contexts import BuildContext
from session_core.protocols.execution import Cell, CellResult, CodeExecutor, Execution, KeptState, StateCapture
from session_core.protocols.faults import StateNotKeepable, StateRejected
from session_core.protocols.prose import ProseStream, Span
from session_core.protocols.standard import NativeToolDriver

DivideText = Callable[[str], Iterable[Span]]
"""Divides a whole answer into spans; all of them together are the answer, nothing added or lost."""


class StatelessExecutor(CodeExecutor):
    """The base of executors whose cells leave nothing behind: only `language` and `execute` are left to write.

    Two cells never run at once: the service runs them one after the other.
    """

    engine = "stateless"

    @abstractmethod
    async def execute(self, cell: Cell, execution: Execution) -> CellResult:
        """Run a cell; see `CodeExecutor.execute`."""

    @property
    def dirty(self) -> bool:
        """Never."""
        return False

    async def probe(self) -> None:
        """Find nothing that could prevent saving."""

    async def capture(self) -> StateCapture:
        """Refuse: there is nothing to capture."""
        raise StateNotKeepable("this executor has no state")

    def acknowledge(self, capture: StateCapture) -> None:
        """Do nothing: no capture is ever offered."""

    def abort(self, capture: StateCapture) -> None:
        """Do nothing: no capture is ever offered."""

    async def restore(self, saved: KeptState | None) -> None:
        """Accept that nothing was saved.

        Raises:
            StateRejected: A state was saved, by another executor.
        """
        if saved is not None:
            raise StateRejected(f"the executor has no state, and cannot take that of {saved.state.engine!r}")

    async def aclose(self) -> None:
        """Do nothing: a cell has ended before this is called."""


class ProseFunction:
    """A projector made of a function that divides whole answers; people see an answer once it is complete."""

    def __init__(self, divide: DivideText) -> None:
        self._divide = divide

    def open(self) -> ProseStream:
        """Begin an answer."""
        return _WholeAnswer(self._divide)


class _WholeAnswer:
    def __init__(self, divide: DivideText) -> None:
        self._divide = divide
        self._pieces: list[str] = []

    def feed(self, text: str) -> tuple[Span, ...]:
        self._pieces.append(text)  # an answer is no longer than `limits.MAX_ANSWER_CHARS`
        return ()

    def close(self) -> tuple[Span, ...]:
        text = "".join(self._pieces)
        return tuple(self._divide(text)) if text else ()


class ProseProtocol(ProtocolFactory):
    """Native tool calling, of which people see what a function makes of each answer.

    Args:
        name: The id of the protocol.
        divide: Divides a whole answer into text for people and code for nobody.
    """

    def __init__(self, name: str, divide: DivideText) -> None:
        self.id = name
        self._prose = ProseFunction(divide)

    def build(self, context: BuildContext) -> ProtocolBundle:
        """Build the usual driver with the projector."""
        return ProtocolBundle(driver=NativeToolDriver(), prose=self._prose)
