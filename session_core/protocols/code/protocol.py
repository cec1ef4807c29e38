"""The complete protocol `code`: its options, and the bundle of a session."""

from collections.abc import Callable
from functools import partial
from typing import Final

import attrs

from session_core.errors import InvalidInput
from session_core.protocols.api import ProtocolBundle, ProtocolFactory
from session_core.protocols.code.cells import OpeningWatch
from session_core.protocols.code.driver import NO_PROGRESS, CellDriver
from session_core.protocols.code.instructions import build_instructions
from session_core.protocols.contexts import BuildContext
from session_core.protocols.execution import CodeExecutor
from session_core.protocols.options import option, read_options

CODE: Final = "code"
"""The id of the protocol."""

_ALLOWED: Final = {"no_progress": (1, 100), "cell_seconds": (1, 3_600), "output_chars": (100, 100_000)}


@attrs.frozen(kw_only=True)
class CodeOptions:
    """The options of the protocol `code`.

    Attributes:
        finish_required: Whether only `finish(value)` ends a turn. By default prose does too, but not in child
            sessions: those return a result to a turn, not prose to a person.
        no_progress: Steps in a row without a successful cell after which a turn has failed.
        cell_seconds: How long a cell may run.
        output_chars: How much of a cell's output the model sees.
    """

    finish_required: bool = option(default=False, child_default=True, inherit=False)
    no_progress: int = option(default=NO_PROGRESS, kind="host")
    cell_seconds: int = option(default=120, kind="host")
    output_chars: int = option(default=20_000, kind="host")

    def __attrs_post_init__(self) -> None:
        for name, (least, most) in _ALLOWED.items():
            if not least <= getattr(self, name) <= most:
                raise InvalidInput(f"{name} must be from {least} to {most}", field=name)


class CellProjector:
    """What people see of an answer with a cell: the prose before it, and nothing of the cell or of what follows."""

    def open(self) -> OpeningWatch:
        """Begin an answer."""
        return OpeningWatch()


MakeExecutor = Callable[[CodeOptions], CodeExecutor]


class CodeProtocol(ProtocolFactory):
    """Models act by writing cells of Python, which share one process per session.

    Args:
        make_executor: Builds the executor of a session's cells; by default a sandboxed Python.
    """

    id = CODE
    version = 1
    options = CodeOptions

    def __init__(self, make_executor: MakeExecutor | None = None) -> None:
        self._make_executor = make_executor or _python

    def build(self, context: BuildContext) -> ProtocolBundle:
        """Build the bundle; the executor starts nothing before its first cell."""
        chosen = read_options(self.id, CodeOptions, context.options)
        return ProtocolBundle(
            driver=CellDriver(finish_required=chosen.finish_required, no_progress=chosen.no_progress),
            executor=self._make_executor(chosen),
            prose=CellProjector(),
            instructions=partial(build_instructions, finish_required=chosen.finish_required),
            native_tools=False,
        )


def _python(options: CodeOptions) -> CodeExecutor:
    from session_core.protocols.code.executor import PythonExecutor  # a custom executor needs none of it

    return PythonExecutor(cell_seconds=options.cell_seconds, output_chars=options.output_chars)
