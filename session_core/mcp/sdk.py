"""The official SDK, imported when the first server is connected, because that takes more than a second."""

import importlib
import logging
from types import ModuleType
from typing import Final

import trio

MODULES: Final = ("mcp", "mcp.client.session", "mcp_types", "anyio", "httpx2")

LOGGERS: Final = ("mcp", "client")
"""The loggers of the SDK; the second name is what its session module really uses."""


async def load_sdk() -> None:
    """Import everything needed in a thread, so only the server being connected waits for it."""
    for name in LOGGERS:
        _keep_off_the_terminal(logging.getLogger(name))
    await trio.to_thread.run_sync(_import_all, abandon_on_cancel=True)


def _import_all() -> list[ModuleType]:
    return [importlib.import_module(name) for name in MODULES]


def _keep_off_the_terminal(logger: logging.Logger) -> None:
    # Without a handler, Python prints warnings to stderr; programs that have set up logging still get them.
    if not any(isinstance(handler, logging.NullHandler) for handler in logger.handlers):
        logger.addHandler(logging.NullHandler())
