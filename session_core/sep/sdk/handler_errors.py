"""What handlers raise, put so that it ends nothing but the handler."""

import trio

_OURS = (KeyboardInterrupt, GeneratorExit)  # meant for the whole program, wherever they come up


def put_in_order(error: BaseException) -> BaseException:
    """Return what is to be raised in place of what a handler has raised.

    Nurseries wrap what is raised in them: one exception alone is taken out. Where a handler was cancelled, that is all
    that counts. What is no `Exception` would end the whole extension, such as the exit of a parser of command lines,
    or a cancellation of asyncio: it becomes one.
    """
    leaves = _leaves(error)
    if any(isinstance(each, _OURS) for each in leaves):
        return error
    for each in leaves:
        if isinstance(each, trio.Cancelled):
            return each
    found = leaves[0] if len(leaves) == 1 else error
    if isinstance(found, Exception):
        return found
    how = f"called sys.exit({found.code!r})" if isinstance(found, SystemExit) else f"has raised {found!r}"
    made = RuntimeError(f"a handler {how}")
    made.__cause__ = error
    return made


def _leaves(error: BaseException) -> list[BaseException]:
    if not isinstance(error, BaseExceptionGroup):
        return [error]
    return [leaf for each in error.exceptions for leaf in _leaves(each)]
