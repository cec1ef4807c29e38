"""Load public names on first use, from the single list in the stub next to the module.

A door is a module whose `.pyi` file holds only lines such as `from session_core.errors import Conflict as Conflict`.
Type checkers read that file, and so does `open_door`: a name is public exactly if it is listed there.
"""

import ast
import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any


def open_door(door: str, file: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for the module `door`, whose source is `file`."""

    @cache
    def read() -> dict[str, str]:
        stub = ast.parse(Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
        imports = [line for line in stub.body if isinstance(line, ast.ImportFrom)]
        return {alias.name: line.module or "" for line in imports for alias in line.names}

    def load(name: str) -> Any:
        if name == "__all__":
            return sorted(read())
        module = None if name.startswith("__") else read().get(name)
        if module is None:
            raise AttributeError(f"module {door!r} has no attribute {name!r}")
        home = import_module(module)
        is_module = module == door or not hasattr(home, name)
        value = import_module(f"{module}.{name}") if is_module else getattr(home, name)
        setattr(sys.modules[door], name, value)  # later uses find it in the module
        return value

    return load, lambda: sorted(read())
