"""The program that runs cells: a separate Python process, which lives as long as the session uses it.

It needs only the standard library, `worker_state` and `worker_wire`, and all three are sent to it as text: it cannot
see our files. It exchanges JSON lines with the service over its standard input and output pipes. What cells print goes
over a third pipe, unchanged. The service trusts nothing that comes from here: cells can change anything in this
process.
"""

import ast
import builtins
import io
import itertools
import json
import math
import os
import resource
import signal
import sys
import traceback
import types
from base64 import b64decode, b64encode
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from session_core.protocols.code.worker_state import VariableSaver
from session_core.protocols.code.worker_wire import Interrupts, Wire

_MOST_ERROR_CHARS = 8_000
_MOST_FINISH_CHARS = 1_000_000
_MOST_INTEGER = 2**53
_MOST_DEPTH = 40
_IMAGES = {b"\x89PNG\r\n\x1a\n": "image/png", b"\xff\xd8\xff": "image/jpeg"}


class ToolError(Exception):
    """A tool has failed, or its call was not allowed; the text says why."""


class ToolText(str):
    """What a tool said; `details` is what it said beside its text, if anything."""

    __slots__ = ("details",)
    details: Any

    def __reduce__(self) -> Any:
        return str, (str(self),)


class _Finished(BaseException):
    """`finish` was called."""


class CellRunner:
    """Runs cells in one namespace, that of `__main__`."""

    def __init__(self, wire: Wire, interrupts: Interrupts, bounds: dict[str, int]) -> None:
        self._wire = wire
        self._interrupts = interrupts
        self._bounds = bounds
        module = types.ModuleType("__main__")
        sys.modules["__main__"] = module
        self._namespace = module.__dict__
        self._builtins = dict(vars(builtins))
        self._own = {"finish": self._finish, "show_image": self._show_image}
        self._tools: dict[str, Callable[..., ToolText]] = {}
        self._namespace["__builtins__"] = self._builtins
        self._saver = VariableSaver(
            self._namespace,
            interrupts.call,
            most_bytes=bounds["state"],
            plain=bool(bounds.get("plain")),
            most_bytes_of_one=bounds["variable"],
            most=bounds["variables"],
        )
        self._cell = 0
        self._calls = itertools.count(1)
        self._images = 0
        self._finished: dict[str, Any] = {}
        self._reported_losses: dict[str, str] = {}

    def restore_variables(self, order: dict[str, Any]) -> None:
        """Restore the saved variables."""
        parts: dict[str, bytes] = {}
        for _ in range(order["parts"]):
            part = self._wire.receive("order")
            parts[part["name"]] = b64decode(part["data"])
        self._prepare()
        lost = self._saver.restore_parts(parts, lambda name: self._wire.send({"say": "loading", "name": name}))
        self._wire.send({"say": "brought", "lost": [[name, _clean(why)] for name, why in lost.items()]})

    def run(self, order: dict[str, Any]) -> None:
        """Run a cell, and report its result and the variables."""
        self._cell += 1
        self._wire.send({"say": "began", "cell": self._cell})
        self._wire.forget_answers()
        self._images = 0
        self._finished = {}
        if "tools" in order:
            self._tools = {tool["function"]: self._build_function(tool) for tool in order["tools"]}
        self._builtins.clear()
        self._builtins.update({**vars(builtins), **self._own, **self._tools})
        self._prepare()
        error = self._run(order["code"], f"<cell {self._cell}>")
        for stream in {sys.stdout, sys.stderr}:
            with suppress(Exception):
                stream.flush()
        ran: dict[str, Any] = {"say": "ran", "cell": self._cell, "error": error}
        self._wire.send({**ran, **(self._finished if error is None else {})})
        scan = self._saver.scan_variables()
        for name, data in scan.changed.items():
            self._wire.send({"say": "part", "cell": self._cell, "name": name, "data": b64encode(data).decode()})
        news = [[name, _clean(why)] for name, why in scan.not_kept.items() if self._reported_losses.get(name) != why]
        self._reported_losses = scan.not_kept
        lost = [_clean(name) for name in scan.not_kept]
        self._wire.send({"say": "done", "cell": self._cell, "kept": scan.names, "lost": lost, "news": news})

    def _prepare(self) -> None:
        """Reset what the last cell may have changed."""
        self._interrupts.install()
        for number in (1, 2):
            os.dup2(self._wire.output, number)
        printed = io.FileIO(1, "w", closefd=False)
        sys.stdout = sys.stderr = io.TextIOWrapper(
            io.BufferedWriter(printed), encoding="utf-8", errors="backslashreplace", line_buffering=True
        )
        sys.stdin = io.StringIO()

    def _run(self, code: str, filename: str) -> str | None:
        try:
            self._interrupts.call(lambda: self._execute(code, filename))
        except _Finished:
            return None
        except SystemExit as error:  # with any object, of which only zero is a success
            succeeded = error.code is None or (isinstance(error.code, int) and error.code == 0)
            return None if succeeded else self._describe(error)
        except BaseException as error:  # noqa: BLE001, ASYNC103 - there is no trio here
            return self._describe(error)  # noqa: ASYNC104 - the same
        return None

    def _execute(self, code: str, filename: str) -> None:
        tree = ast.parse(code, filename)
        self._saver.learn(tree, code, filename)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, filename, "exec", dont_inherit=True), self._namespace)  # noqa: S102 - what it is for
        if isinstance(last, ast.Expr):
            expression = ast.Expression(last.value)
            value = eval(compile(expression, filename, "eval", dont_inherit=True), self._namespace)  # noqa: S307 - the same
            self._show(value)

    def _show(self, value: Any) -> None:
        if value is None:
            return
        make_png = getattr(type(value), "_repr_png_", None)
        png = make_png(value) if callable(make_png) else None
        if isinstance(png, bytes):
            self._show_image(png)
        else:
            print(repr(value))  # noqa: T201 - the output of the cell

    def _describe(self, error: BaseException) -> str:
        """Describe the part of an error that lies in cells."""
        try:
            return str(self._interrupts.call(lambda: _traceback(error)))
        except BaseException:  # noqa: BLE001, ASYNC103 - it has a `__str__` of its own, say
            return f"{type(error).__name__} (which cannot be shown)"  # noqa: ASYNC104 - there is no trio here

    # --- what cells can call ------------------------------------------------------------------------------------------

    def _build_function(self, tool: dict[str, Any]) -> Callable[..., ToolText]:
        name, parameters = tool["function"], tool["parameters"]

        def call(*positional: Any, **named: Any) -> ToolText:
            if len(positional) > len(parameters):
                raise TypeError(f"{name}() takes at most {len(parameters)} arguments, and was given {len(positional)}")
            arguments = dict(zip(parameters, positional, strict=False))
            if twice := arguments.keys() & named.keys():
                raise TypeError(f"{name}() was given {', '.join(sorted(twice))} twice")
            arguments |= named
            problem = _find_json_problem(arguments)
            if problem is not None:
                raise TypeError(f"{name}() takes JSON only: {problem}")
            number = next(self._calls)
            frame = {"say": "call", "cell": self._cell, "call": number, "tool": tool["name"], "arguments": arguments}
            self._wire.send(frame)
            answer = self._wire.receive(number)
            if not answer["ok"]:
                raise ToolError(answer["text"])
            text = ToolText(answer["text"])
            text.details = answer["details"]
            return text

        call.__name__ = call.__qualname__ = name
        call.__doc__ = tool["documentation"]
        return call

    def _finish(self, value: Any = None) -> None:
        """End the cell and the turn; the value is its result and must be JSON."""
        problem = _find_json_problem(value)
        if problem is not None:
            raise TypeError(f"finish() takes JSON only: {problem}")
        if len(json.dumps(value)) > _MOST_FINISH_CHARS:
            raise ValueError(f"the value for finish() is longer than {_MOST_FINISH_CHARS:,} characters as JSON")
        self._finished = {"finished": True, "value": value}
        raise _Finished

    def _show_image(self, image: Any) -> None:
        """Show a PNG or JPEG image to the model: its bytes, or the path of a file."""
        most = self._bounds["image"]
        if isinstance(image, str | os.PathLike):
            with io.FileIO(os.fspath(image)) as file:
                image = file.read(most + 1) or b""
        elif callable(make_png := getattr(type(image), "_repr_png_", None)):
            image = make_png(image)
        data = bytes(image)
        kind = next((kind for start, kind in _IMAGES.items() if data.startswith(start)), None)
        if kind is None:
            raise ValueError("show_image() takes PNG and JPEG images only")
        if len(data) > most:
            raise ValueError(f"the image is larger than {most:,} bytes")
        if self._images >= self._bounds["images"]:
            raise ValueError(f"a cell shows at most {self._bounds['images']} images")
        self._images += 1
        self._wire.send({"say": "image", "cell": self._cell, "type": kind, "data": b64encode(data).decode()})


def _find_json_problem(value: Any, levels: int = _MOST_DEPTH) -> str | None:
    """Describe what prevents a value from being valid JSON."""
    if value is None or isinstance(value, bool):
        return None
    if isinstance(value, str):
        return None if _clean(value) == value else "a string contains an unpaired surrogate"
    if isinstance(value, int):
        return None if abs(value) <= _MOST_INTEGER else f"{value:.3g} is too large a whole number"
    if isinstance(value, float):
        return None if math.isfinite(value) else f"{value} is no number of JSON"
    if not isinstance(value, dict | list | tuple):
        return f"a {type(value).__name__} has no form in JSON"
    if levels == 0:
        return "it is nested too deeply"
    if isinstance(value, dict):
        if not all(isinstance(key, str) for key in value):
            return "the keys of a dict must be texts"
        value = [*value, *value.values()]
    return next((problem for each in value if (problem := _find_json_problem(each, levels - 1)) is not None), None)


def _traceback(error: BaseException) -> str:
    summary = traceback.TracebackException.from_exception(error, compact=True)
    _trim(summary, 0)
    text = _clean("".join(summary.format())).rstrip().replace(sys.base_prefix, "<python>")
    if len(text) > _MOST_ERROR_CHARS:
        half = _MOST_ERROR_CHARS // 2
        text = f"{text[:half]}\n[... {len(text) - 2 * half} characters left out ...]\n{text[-half:]}"
    return text


def _trim(summary: traceback.TracebackException | None, depth: int) -> None:
    """Keep only the lines of cells; the rest is ours, or Python's."""
    if summary is None or depth > 100:
        return
    summary.stack[:] = [each for each in summary.stack if each.filename.startswith(("<cell ", "<kept "))]
    for other in (summary.__cause__, summary.__context__, *(summary.exceptions or ())):
        _trim(other, depth + 1)


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode()


def _limit(bounds: dict[str, int]) -> None:
    for kind, most in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_AS, bounds["memory"]),
        (resource.RLIMIT_FSIZE, bounds["file"]),
        (resource.RLIMIT_NOFILE, bounds["files"]),
    ):
        with suppress(ValueError, OSError):  # a stricter limit is set already
            resource.setrlimit(kind, (most, most))


def main(bounds: dict[str, int]) -> None:
    """Follow the orders of the service until it is gone."""
    for name in [name for name in sys.modules if name.startswith("session_core")]:
        del sys.modules[name]
    with suppress(ImportError, OSError, AttributeError):
        import ctypes

        ctypes.CDLL(None).prctl(1, int(signal.SIGKILL))  # die with the thread that started us
    interrupts = Interrupts()
    interrupts.install()
    wire = Wire(interrupts)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(wire.output, 1)
    builtins.ToolError = ToolError  # type: ignore[attr-defined]
    ToolError.__module__ = "builtins"
    _limit(bounds)
    runner = CellRunner(wire, interrupts, bounds)
    wire.send({"say": "ready"})
    while True:
        order = wire.receive("order")
        if order["do"] == "bring_back":
            runner.restore_variables(order)
        else:
            runner.run(order)
