"""Serving over stdin and stdout, protected from the rest of the program.

The protocol uses copies of the two descriptors. The original numbers become harmless: prints of this program and of its
child processes go to stderr, and stdin reads as empty.
"""

import io
import logging
import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import trio

if TYPE_CHECKING:
    from session_core.sep.sdk.extension import Extension


def serve(extension: "Extension") -> None:
    """Talk to the host until it ends the extension or disconnects; on a terminal, explain what this program is."""
    if sys.stdin is not None and sys.stdin.isatty():
        sys.stderr.write(
            f"{extension.name} is an extension: a host starts it and talks to it over stdin and stdout.\n"
            "To see it at work: session-core ext check FOLDER, where FOLDER holds its extension.toml.\n"
        )
        raise SystemExit(2)
    logging.basicConfig(stream=sys.stderr, format="%(levelname)s %(name)s: %(message)s")
    try:
        with _protect_stdio() as (source, sink):
            trio.run(extension.run, source, sink)
    except (KeyboardInterrupt, BaseExceptionGroup) as error:
        if isinstance(error, BaseExceptionGroup) and error.subgroup(KeyboardInterrupt) is None:
            raise
        raise SystemExit(130) from None


@contextmanager
def _protect_stdio() -> Generator[tuple[int, int]]:
    source, sink = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        os.dup2(nothing, 0)
        os.dup2(2, 1)
        # Python buffers what it prints into a pipe, and a killed process would lose it.
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(line_buffering=True)
        yield source, sink
    finally:
        for number in (nothing, source, sink):
            os.close(number)
