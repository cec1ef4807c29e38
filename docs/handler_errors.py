"""Finds out, by reading the source of the service, which errors the handler of a command can raise.

It follows calls from the handler to the functions it uses in the service, by name, and collects `raise` statements of
typed errors. Where the field of an error is a parameter (`checked_name(name, field)`), the caller's word is taken.
"""

# ruff: noqa: INP001 - a folder of documents, not a package

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any

import attrs

from session_core import errors
from session_core.service import core, stop, validation
from session_core.service.handlers import HANDLERS, sessions
from session_core.vocabulary.commands import Command

Refusal = tuple[str, str]
"""A code of an error and the field it names, or an empty text."""

SHARED = (validation, core, stop, sessions)
"""Where handlers find what they share; a handler's own module is looked at first."""


@attrs.frozen
class _Function:
    node: ast.FunctionDef
    home: ModuleType


def refusals(command: type[Command[Any]]) -> frozenset[Refusal]:
    """Return the errors that the handler of a command raises on purpose."""
    handler = HANDLERS[command]
    home = inspect.getmodule(handler)
    assert home is not None
    return frozenset(_raised(_Function(_functions(home)[handler.__name__], home), {}, ()))


@cache
def _functions(module: ModuleType) -> dict[str, ast.FunctionDef]:
    tree = ast.parse(inspect.getsource(module))
    found = {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):  # to call a class is to call its __init__
            for each in node.body:
                if isinstance(each, ast.FunctionDef) and each.name == "__init__":
                    found[node.name] = each
    return found


def _raised(function: _Function, known: dict[str, str], path: tuple[str, ...]) -> Iterator[Refusal]:
    """Yield errors raised by a function and by what it calls; `known` are parameters whose text is known."""
    for node in ast.walk(function.node):
        match node:
            case ast.Raise(exc=ast.Call(func=ast.Name(id=name), keywords=keywords)) if hasattr(errors, name):
                named = {keyword.arg: keyword.value for keyword in keywords}
                yield getattr(errors, name).code, _text(named.get("field"), known)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
                called = _find(name, function.home)
                if called is not None and name not in path:
                    yield from _raised(called, _arguments(called.node, node, known), (*path, name))
            case _:
                pass


def _find(name: str, home: ModuleType) -> _Function | None:
    for module in (home, *SHARED):
        if name in _functions(module):
            return _Function(_functions(module)[name], module)
    return None


def _arguments(node: ast.FunctionDef, call: ast.Call, known: dict[str, str]) -> dict[str, str]:
    """Match the arguments of a call with the parameters of a function, as far as they are plain text."""
    parameters = [each.arg for each in node.args.args if each.arg != "self"]
    given: dict[str, ast.expr] = dict(zip(parameters[::-1], node.args.defaults[::-1], strict=False))
    given.update(zip(parameters, call.args, strict=False))
    given.update({keyword.arg: keyword.value for keyword in call.keywords if keyword.arg})
    return {name: text for name, value in given.items() if (text := _text(value, known))}


def _text(value: ast.expr | None, known: dict[str, str]) -> str:
    match value:
        case ast.Constant(value=str(text)):
            return text
        case ast.Name(id=name):
            return known.get(name, "")
        case _:
            return ""
