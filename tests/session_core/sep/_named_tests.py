"""Looking tests up by name: `module::test`, with the module's way from this folder."""

import ast
from functools import cache
from pathlib import Path

HERE = Path(__file__).parent


@cache
def _tests_in(module: str) -> frozenset[str]:
    tree = ast.parse((HERE / f"{module}.py").read_text())
    return frozenset(each.name for each in tree.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))


def is_there(named: str) -> bool:
    """Tell whether there is such a test."""
    module, _, test = named.partition("::")
    return test.startswith("test_") and test in _tests_in(module)
