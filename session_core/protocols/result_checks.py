"""Checks of the return values of plugins before they are used: not all plugins are type-checked.

Recorded values must be readable again, so a wrong type must not reach the journal.
"""

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from inspect import iscoroutinefunction, isroutine, unwrap
from typing import Final, get_args

from session_core import limits
from session_core.errors import ProtocolError
from session_core.protocols.api import ProtocolBundle, ProtocolSession
from session_core.protocols.driver import Driver, DriverCallback
from session_core.protocols.execution import CellResult, CodeExecutor, StateCapture, compute_digest
from session_core.protocols.frames import is_label
from session_core.vocabulary.argument_checks import build_check, is_base64
from session_core.vocabulary.protocols import ExecutorState
from session_core.vocabulary.tools import ToolSpec
from session_core.wire.codec import encode
from session_core.wire.strict_json import find_fault, is_encodable

_LARGE: Final = 256 * 1024


def find_bundle_problem(bundle: ProtocolBundle) -> str | None:
    """Describe what is wrong with a session's bundle."""
    return (
        _problem_of_driver(bundle.driver)
        or _problem_of_session(bundle.session)
        or _problem_of_executor(bundle.executor)
        or _problem_of_prose(bundle.prose)
        or _problem_of_tools(bundle.tools)
        or _problem_of_rest(bundle)
    )


def _problem_of_driver(driver: object) -> str | None:
    if not isinstance(driver, Driver):
        missing = [name for name in get_args(DriverCallback)[:-1] if not callable(getattr(driver, name, None))]
        return f"it built no bundle with a driver: {_describe_value(driver)} has no {', '.join(missing)}"
    for name in get_args(DriverCallback):
        if _is_async(getattr(driver, name, None)):
            return f"its driver's {name} is async; the callbacks of a driver are plain functions"
    return None


def _problem_of_session(session: object) -> str | None:
    if not isinstance(session, ProtocolSession):
        return f"its session is {_describe_value(session)}, which is not a ProtocolSession"
    return _problem_of_methods("session", session, ProtocolSession)


def _problem_of_executor(executor: object) -> str | None:
    if executor is None:
        return None
    if not isinstance(executor, CodeExecutor):
        return f"its executor is {_describe_value(executor)}, which is not a CodeExecutor"
    for name in ("engine", "language"):
        if not is_label(getattr(executor, name, None)):
            return f"its executor's {name} must be a short string, not {getattr(executor, name, None)!r:.100}"
    dirty: object = executor.dirty
    if not isinstance(dirty, bool):
        hint = "; make it a property" if callable(dirty) else ""
        return f"its executor's dirty must be True or False, not {_describe_value(dirty)}{hint}"
    return _problem_of_methods("executor", executor, CodeExecutor)


def _problem_of_methods(part: str, given: object, base: type) -> str | None:
    """Describe the first method that is async in the base class, and not in what was given."""
    for name in (name for name, method in vars(base).items() if iscoroutinefunction(method)):
        method = getattr(given, name, None)
        if not callable(method):
            return f"its {part}'s {name} must be an async method, not {_describe_value(method)}"
        if isroutine(method) and not _is_async(method):
            return f"its {part}'s {name} is a plain function and must be async: write `async def {name}`"
    return None


def _is_async(method: object) -> bool:
    return callable(method) and iscoroutinefunction(unwrap(method))


def _problem_of_prose(prose: object) -> str | None:
    if prose is None:
        return None
    if isinstance(prose, type):
        return f"its prose must be a projector, not the class {prose.__name__}: write {prose.__name__}()"
    return (
        None
        if callable(getattr(prose, "open", None))
        else f"its prose must be a projector: {_describe_value(prose)} has no method open"
    )


def _problem_of_tools(tools: object) -> str | None:
    if not isinstance(tools, tuple):
        return f"its tools must be a tuple of tools, not {_describe_value(tools)}"
    for tool in tools:
        if not _is_a(getattr(tool, "spec", None), ToolSpec):
            return f"each of its tools must have a spec that is a ToolSpec, but {_describe_value(tool)} has none"
        if not _is_a(getattr(tool, "effects", None), AbstractSet):
            return f"its tool {tool.spec.name!r:.100} has no effects: they must be a set of names"
        if not callable(getattr(tool, "run", None)):
            return f"its tool {tool.spec.name!r:.100} cannot be run: it has no method run"
    names = [tool.spec.name for tool in tools]
    twice = next((name for name in names if names.count(name) > 1), None)
    return None if twice is None else f"two of its tools are called {twice!r:.100}"


def _problem_of_rest(bundle: ProtocolBundle) -> str | None:
    instructions: object = bundle.instructions
    if instructions is not None and not callable(instructions):
        kind = _describe_value(instructions)
        return f"its instructions must be a function of the session's tools, not {kind}"
    if _is_async(instructions):
        return "its instructions must be a plain function, not an async one"
    native: object = bundle.native_tools
    return (
        None if isinstance(native, bool) else f"its native_tools must be True or False, not {_describe_value(native)}"
    )


def _describe_value(given: object) -> str:
    if given is None:
        return "None"
    if isinstance(given, type):
        return f"the class {given.__name__}"
    name = type(given).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"


def _is_a(given: object, kind: type) -> bool:
    return isinstance(given, kind)


def find_text_problem(text: object) -> str | None:
    """Describe what is wrong with text for a model."""
    if not isinstance(text, str):
        return "they are not text"
    if len(text) > limits.MAX_TEXT_CHARS:
        return f"they have {len(text):,} characters, and {limits.MAX_TEXT_CHARS:,} are allowed"
    return None if is_encodable(text) else "they contain an unpaired surrogate"


def find_result_problem(result: object) -> str | None:
    """Describe what is wrong with the result of a cell."""
    if not isinstance(result, CellResult):
        return "it returned no CellResult"
    if not build_check(CellResult)(result):
        return "it returned a CellResult with fields of other types"
    if (fault := find_fault(result.value, limits.MAX_OPEN_JSON_DEPTH)) is not None:
        return f"it returned a value that is not JSON: {fault.reason}"
    if not all(is_base64(image.data) for image in result.images):
        return "it returned an image that is not base64 text"
    if sum(len(image.data) for image in result.images) > limits.MAX_CELL_IMAGE_CHARS:
        return f"it returned images of more than {limits.MAX_CELL_IMAGE_CHARS:,} characters together"
    return None


def is_large(capture: object) -> bool:
    """Return whether checking a state takes so long that it belongs in a thread."""
    if not isinstance(capture, StateCapture) or not isinstance(capture.new, dict):
        return False
    return sum(len(data) for data in capture.new.values() if _is_a(data, bytes)) > _LARGE


def find_capture_problem(capture: object, engine: str, stored_digests: Collection[str]) -> str | None:
    """Describe what is wrong with a state to save; `stored_digests` are those of the leaves that the store has."""
    if not isinstance(capture, StateCapture) or not isinstance(capture.new, Mapping):
        return "it returned no StateCapture"
    if not build_check(ExecutorState)(capture.state):
        return "it returned a StateCapture with fields of other types"
    state, new = capture.state, capture.new
    if state.engine != engine:
        return f"it returned the state of another engine: {state.engine!r:.100}"
    if (problem := _problem_of_root(state)) is not None:
        return problem
    if not all(_is_a(data, bytes) for data in new.values()):
        return "it returned leaves that are not bytes"
    return _problem_of_leaves(state, new, stored_digests)


def _problem_of_root(state: ExecutorState) -> str | None:
    try:
        size = len(encode(state.root))
    except ProtocolError as error:
        return f"it returned a state that is not JSON: {error.reason}"
    if size > limits.MAX_EXECUTOR_ROOT_BYTES:
        return f"the root of its state has {size:,} bytes, and {limits.MAX_EXECUTOR_ROOT_BYTES:,} are allowed"
    return None


def _problem_of_leaves(
    state: ExecutorState, bodies: Mapping[str, bytes], stored_digests: Collection[str]
) -> str | None:
    if len(state.leaves) > limits.MAX_EXECUTOR_LEAVES:
        return f"its state has more than {limits.MAX_EXECUTOR_LEAVES:,} leaves"
    names = {leaf.name for leaf in state.leaves}
    if len(names) != len(state.leaves) or not all(map(is_encodable, names)):
        return "the leaves of its state have no names of their own"
    if sum(map(len, names)) > limits.MAX_EXECUTOR_NAME_CHARS:
        return f"the names of its leaves have more than {limits.MAX_EXECUTOR_NAME_CHARS:,} characters together"
    if bodies.keys() - {leaf.digest for leaf in state.leaves}:
        return "it returned leaves that its state does not name"
    if sum(max(leaf.size, len(bodies.get(leaf.digest, b""))) for leaf in state.leaves) > limits.MAX_CELL_STATE_BYTES:
        return f"its state has more than {limits.MAX_CELL_STATE_BYTES:,} bytes"
    for leaf in state.leaves:
        data = bodies.get(leaf.digest)
        if data is None and leaf.digest not in stored_digests:
            return f"a leaf of its state is neither there nor given: {leaf.name!r:.100}"
        if data is not None and (len(data) != leaf.size or compute_digest(data) != leaf.digest):
            return f"a leaf of its state is not what its digest says: {leaf.name!r:.100}"
    return None
