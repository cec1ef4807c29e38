"""Checks at registration, so that a mistake is reported at the line that the author is looking at."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

from session_core.sep.protocol.names import is_extension_name

_GRAMMAR = "use 1 to 64 of a-z, 0-9, '-' and '_', beginning with a letter or digit"


def check_extension_name(name: object) -> None:
    """Refuse a name that no host would accept.

    Raises:
        ValueError: The name is not valid.
    """
    if not isinstance(name, str) or not is_extension_name(name):
        raise ValueError(f"{name!r} cannot be the name of an extension: {_GRAMMAR}")


def check_name_given(given: object, decorator: str, example: str) -> None:
    """Refuse a decorator that got something other than a name, such as the function itself.

    Raises:
        TypeError: The decorator needs a name in parentheses.
    """
    if not isinstance(given, str):
        raise TypeError(f"@ext.{decorator} needs a name in parentheses: write @ext.{decorator}({example})")


def check_function_given(given: object, decorator: str) -> None:
    """Refuse a decorator that got something other than a function, such as a name.

    Raises:
        TypeError: The decorator takes a function, or named arguments.
    """
    if isinstance(given, str):
        raise TypeError(f"@ext.{decorator} takes its name as a keyword: write @ext.{decorator}(name={given!r})")
    if not callable(given):
        raise TypeError(f"@ext.{decorator} decorates a function, not a {type(given).__name__}")


def check_called_with(function: Callable[..., Any], what: str, arguments: str, hint: str = "") -> None:
    """Refuse a function that cannot be called the way it will be.

    Args:
        function: The function.
        what: What the function is for, such as `the command go`.
        arguments: The arguments it will get, in order, such as `ctx, partial`.
        hint: Additional advice for the message.

    Raises:
        TypeError: It cannot be called, or not with these arguments.
    """
    if not callable(function):
        raise TypeError(f"{what} must be a function, not a {type(function).__name__}")
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions written in C have no signature
        return
    try:
        signature.bind(*arguments.split(", "))
    except TypeError:
        name = getattr(function, "__name__", "function")
        raise TypeError(
            f"{what} is called with ({arguments}), but {name}{_without_hints(signature)} does not take that: "
            f"write `async def {name}({arguments})`{hint}"
        ) from None


def check_new(kind: str, name: str, there: Mapping[str, object]) -> None:
    """Refuse a second registration under the same name.

    Raises:
        ValueError: The name is taken.
    """
    if name in there:
        raise ValueError(f"there are two {kind}s called {name!r}: only one could be called; pass name= to rename one")


def name_of(function: Callable[..., Any], name: str | None, decorator: str) -> str:
    """Return the given name, or else the function's own.

    Raises:
        TypeError: There is neither.
    """
    found = name if name is not None else getattr(function, "__name__", None)
    if not isinstance(found, str) or found == "<lambda>":
        raise TypeError(f'this function has no name of its own: write @ext.{decorator}(name="...")')
    return found


def describe_unknown(what: str, name: object, known: Sequence[str]) -> str:
    """Return the message about an unknown name, with a guess at the intended one."""
    near = get_close_matches(str(name), known, 1)
    guess = f" (did you mean {near[0]!r}?)" if near else ""
    return f"there is no {what} {name!r}{guess}; known: {', '.join(known)}"


def _without_hints(signature: inspect.Signature) -> str:
    bare = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()]
    return str(signature.replace(parameters=bare, return_annotation=inspect.Signature.empty))
