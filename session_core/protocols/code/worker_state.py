"""The state that survives a cell: the variables of cells, each saved separately. This runs only in the worker.

It needs only the standard library. Values are pickled. Functions and classes are saved as the source of their
definitions, imported modules as their names. Values whose names begin with an underscore are not saved, definitions
are. What cannot be saved is named, with the reason.
"""

import ast
import hashlib
import importlib
import io
import linecache
import pickle
import sys
import types
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

_ATOMS = (bool, int, float, complex, str, bytes, type(None))
"""Immutable values: the same object need not be saved again."""
_MOST_WRAPPERS = 16
_MOST_CANDIDATES = 7
"""How many earlier definitions of a name are remembered."""
_LINES_OF_CELLS = 200
"""How many cells keep their lines for tracebacks."""


_NOT_PLAIN = "it is more than plain data, which is all that is read without a sandbox"
_PLAIN = {
    "builtins": ("complex", "dict", "float", "int", "list", "range", "set", "slice", "str", "tuple"),
    "collections": ("Counter", "OrderedDict", "defaultdict", "deque"),
    "datetime": ("date", "datetime", "time", "timedelta", "timezone"),
    "decimal": ("Decimal",),
    "fractions": ("Fraction",),
    "uuid": ("UUID",),
}
"""Classes that can be constructed from any arguments without side effects."""


class VariableNotSaved(Exception):
    """A variable cannot be saved; the message says why."""


class DefinitionSource:
    """The source of a definition, and its location."""

    def __init__(self, text: str, filename: str, first: int, last: int) -> None:
        self.text = text
        self.filename = filename
        self.first = first
        self.last = last

    def is_origin_of(self, value: Any) -> bool:
        """Return whether a function or class was defined here; for a class without methods that is unknowable."""
        if isinstance(value, type):
            value = next((each for each in vars(value).values() if isinstance(each, types.FunctionType)), None)
        for _ in range(_MOST_WRAPPERS):
            inner = getattr(value, "__wrapped__", None)
            if inner is None:
                break
            value = inner
        code = getattr(value, "__code__", None)
        if not isinstance(code, types.CodeType):
            return True
        return code.co_filename == self.filename and self.first <= code.co_firstlineno <= self.last


class VariableScan:
    """The current variables: the names of all parts, the changed ones, and those not saved, with the reason."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.changed: dict[str, bytes] = {}
        self.not_kept: dict[str, str] = {}


class VariableSaver:
    """Saves and restores the variables of cells.

    Args:
        namespace: The variables.
        guarded: Calls a function in such a way that an interrupt reaches only that function.
        most_bytes, most_bytes_of_one, most: The bounds.
        plain: Restore only plain data: without a sandbox, data written by others must not run anything.
    """

    def __init__(
        self,
        namespace: dict[str, Any],
        guarded: Callable[[Callable[[], Any]], Any],
        *,
        most_bytes: int,
        most_bytes_of_one: int,
        most: int,
        plain: bool = False,
    ) -> None:
        self._namespace = namespace
        self._guarded = guarded
        self._most_bytes = most_bytes
        self._most_bytes_of_one = most_bytes_of_one
        self._most = most
        self._plain = plain
        self._sources: dict[str, list[DefinitionSource]] = {}
        self._known: dict[str, tuple[str, int]] = {}
        """The digest and size of each part as the other side has it."""
        self._atoms: dict[str, Any] = {}
        self._cells: list[str] = []

    def learn(self, tree: ast.Module, code: str, filename: str) -> None:
        """Remember the lines of a cell, and the definitions in it."""
        lines = code.splitlines(keepends=True)
        linecache.cache[filename] = (len(code), None, lines, filename)
        self._cells.append(filename)
        if len(self._cells) > _LINES_OF_CELLS:
            linecache.cache.pop(self._cells.pop(0), None)
        for name, node in _definitions(tree.body):
            first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
            last = node.end_lineno or first
            text = "".join(lines[first - 1 : last])
            if isinstance(node, ast.Assign):  # it may share its line with others
                text = ast.get_source_segment(code, node) or text
            elif node.col_offset:  # it stands in a block: another one replaces that
                text = "if True:\n" + text
            # The cell may fail before it gets there; then an earlier definition is still valid.
            earlier = self._sources.get(name, [])[-_MOST_CANDIDATES:]
            self._sources[name] = [*earlier, DefinitionSource(text, filename, first, last)]

    # --- saving -------------------------------------------------------------------------------------------------------

    def scan_variables(self) -> VariableScan:
        """Save what has changed since the last scan."""
        scan = VariableScan()
        sizes: dict[str, int] = {}
        digests: dict[str, str] = {}
        self._sources = {name: each for name, each in self._sources.items() if name in self._namespace}
        defined = {name for name, value in list(self._namespace.items()) if self._find_source(name, value) is not None}
        for name, value in list(self._namespace.items()):
            if name.startswith("__") or (name.startswith("_") and name not in defined):
                continue
            if len(sizes) >= self._most:
                scan.not_kept[name] = f"there are more than {self._most} variables"
                continue
            try:
                part, data = self._save_part(name, value, defined)
            except VariableNotSaved as reason:
                scan.not_kept[name] = str(reason)
                continue
            if data is None:
                digests[part], sizes[part] = self._known[part]
                continue
            digest = hashlib.sha256(data).hexdigest()
            digests[part], sizes[part] = digest, len(data)
            if self._known.get(part, ("", 0))[0] != digest:
                scan.changed[part] = data
        total = sum(sizes.values())
        for part in sorted(sizes, key=lambda part: -sizes[part]):
            if total <= self._most_bytes:
                break
            total -= sizes.pop(part)
            scan.changed.pop(part, None)
            scan.not_kept[part.partition(":")[2]] = "all variables together are too large"
        known = [part for part in self._known if part in sizes]
        scan.names = list(dict.fromkeys((*known, *sizes)))  # always in the same order, in any process
        self._known = {part: (digests[part], sizes[part]) for part in scan.names}
        self._atoms = {
            part: value
            for part in sizes
            if type(value := self._namespace.get(part.partition(":")[2])) in _ATOMS and part.startswith("value:")
        }
        return scan

    def _save_part(self, name: str, value: Any, defined: set[str]) -> tuple[str, bytes | None]:
        """Return a part and its bytes; None instead of the bytes if the other side has them."""
        if isinstance(value, types.ModuleType):
            if sys.modules.get(value.__name__) is not value or value.__name__ == "__main__":
                raise VariableNotSaved("it is no module that can be imported")
            return f"module:{name}", value.__name__.encode()
        source = self._find_source(name, value)
        if source is not None:
            return f"source:{name}", source.text.encode()
        part = f"value:{name}"
        if type(value) in _ATOMS and self._atoms.get(part, _ATOMS) is value and part in self._known:
            return part, None
        written = _BoundedBuffer(self._most_bytes_of_one)

        def write() -> None:
            _Pickler(written, defined).dump(value)

        try:
            self._guarded(write)
        except KeyboardInterrupt:
            raise VariableNotSaved("it takes too long to write down") from None
        except BaseException as error:  # noqa: BLE001 - the code of cells may raise anything here
            raise VariableNotSaved(_reason(error, value)) from None  # noqa: ASYNC104 - there is no trio here
        return part, bytes(written.data)

    def _find_source(self, name: str, value: Any) -> DefinitionSource | None:
        candidates = self._sources.get(name)
        if not candidates:
            return None
        try:
            if value.__module__ != "__main__" or value.__qualname__ not in {name, "<lambda>"}:
                return None
            return next((each for each in reversed(candidates) if each.is_origin_of(value)), None)
        except Exception:  # noqa: BLE001 - an object of a cell, which may do as it likes
            return None

    # --- restoring ----------------------------------------------------------------------------------------------------

    def restore_parts(self, parts: dict[str, bytes], begin: Callable[[str], None]) -> dict[str, str]:
        """Restore saved parts; calls `begin` before each. Returns those that could not be restored, and why.

        A part may need others, so failed parts are retried for as long as that helps.
        """
        self._known = {name: (hashlib.sha256(data).hexdigest(), len(data)) for name, data in parts.items()}
        waiting = sorted(parts, key=lambda part: ("module", "source", "value").index(part.partition(":")[0]))
        given_up: dict[str, str] = {}
        failed: dict[str, str] = {}
        while waiting:
            failed = {}
            for part in waiting:
                begin(part)
                try:
                    self._guarded(partial(self._restore_part, part, parts[part]))
                except KeyboardInterrupt:
                    given_up[part] = "it takes too long to bring back"
                except BaseException as error:  # noqa: BLE001, ASYNC103 - the code of cells may raise anything here
                    failed[part] = _reason(error, None)
            if len(failed) == len(waiting):
                break
            waiting = list(failed)
        lost = given_up | failed
        for part in lost:
            self._known.pop(part)
        return lost

    def _restore_part(self, part: str, data: bytes) -> None:
        kind, _, name = part.partition(":")
        if self._plain:
            if kind != "value":
                raise VariableNotSaved(_NOT_PLAIN)
            self._namespace[name] = _PlainUnpickler(io.BytesIO(data)).load()
        elif kind == "module":
            self._namespace[name] = importlib.import_module(data.decode())
        elif kind == "value":
            self._namespace[name] = pickle.loads(data)  # noqa: S301 - only ever here, where cells run
        else:
            text, filename = data.decode(), f"<kept {name}>"
            lines = text.splitlines(keepends=True)
            linecache.cache[filename] = (len(text), None, lines, filename)
            exec(compile(text, filename, "exec", dont_inherit=True), self._namespace)  # noqa: S102 - the same
            self._sources[name] = [DefinitionSource(text, filename, 1, len(lines))]


class _PlainUnpickler(pickle.Unpickler):
    """Reads data that consists only of values; anything else in a pickle could run a program."""

    def find_class(self, module: str, name: str) -> Any:
        if name not in _PLAIN.get(module, ()):
            raise VariableNotSaved(_NOT_PLAIN)
        return getattr(importlib.import_module(module), name)


class _BoundedBuffer:
    """Holds pickled data, up to a bound."""

    def __init__(self, most: int) -> None:
        self.data = bytearray()
        self._most = most

    def write(self, piece: Any) -> int:
        with memoryview(piece) as view:
            if len(self.data) + view.nbytes > self._most:
                raise VariableNotSaved(f"it is larger than {self._most:,} bytes")
            self.data += view
            return view.nbytes


class _Pickler(pickle.Pickler):
    """Refuses references to functions and classes of cells that are not saved themselves."""

    def __init__(self, file: _BoundedBuffer, defined: set[str]) -> None:
        super().__init__(file, 5)
        self._defined = defined

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, type | types.FunctionType) and obj.__module__ == "__main__":
            if obj.__qualname__.partition(".")[0] not in self._defined:
                raise VariableNotSaved(f"it needs {obj.__qualname__}, whose definition is not kept")
        return NotImplemented


_Node = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Assign


def _definitions(body: list[ast.stmt]) -> Iterator[tuple[str, _Node]]:
    """Find the definitions of a cell, including those within its `if`, `try`, `with` and loops."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node
        elif isinstance(node, ast.Assign):
            if isinstance(node.value, ast.Lambda) and isinstance(target := node.targets[0], ast.Name):
                yield target.id, node
        else:
            for field in ("body", "orelse", "finalbody"):
                yield from _definitions([each for each in getattr(node, field, []) if isinstance(each, ast.stmt)])
            for handler in getattr(node, "handlers", []):
                yield from _definitions(handler.body)


def _reason(error: BaseException, value: Any) -> str:
    if isinstance(error, VariableNotSaved):
        return str(error)
    if value is not None and isinstance(error, pickle.PicklingError | TypeError | AttributeError):
        return f"a {type(value).__name__} cannot be written down"
    try:
        return f"{type(error).__name__}: {error}"[:200]
    except Exception:  # noqa: BLE001 - an exception of a cell, which may do as it likes
        return type(error).__name__
