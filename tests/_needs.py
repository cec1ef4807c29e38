"""What tests need from the machine. Tests whose needs are not met are skipped, and the summary says how many.

Whether programs can be confined is asked of the product's own check: bubblewrap may be installed and still be refused,
as in a plain container.
"""

import os
import shutil
from collections import Counter
from collections.abc import Iterable
from typing import Final

import pytest
import trio

from session_core.sandbox import bubblewrap
from session_core.sandbox.bubblewrap import Bubblewrap, NoBubblewrap, find_bubblewrap

_TRIES: Final = 5


def _why_no_sandbox() -> str | None:
    """Say why nothing can be confined here; None if it can. Try again on a busy machine."""
    for left in reversed(range(_TRIES)):
        found = trio.run(find_bubblewrap)
        if isinstance(found, Bubblewrap):
            return None
        if found.kind != "unknown" or not left:
            return found.reason
    raise AssertionError


def needs(missing: str | None) -> pytest.MarkDecorator:
    """Mark tests that are skipped for this reason, if there is one."""
    return pytest.mark.skipif(missing is not None, reason=missing or "")


def needs_program(name: str) -> pytest.MarkDecorator:
    """Mark tests that use a program."""
    return needs(None if shutil.which(name) is not None else f"{name} is not installed")


NO_SANDBOX: Final = _why_no_sandbox()
needs_sandbox = needs(NO_SANDBOX)
needs_tmux = needs_program("tmux")
needs_ripgrep = needs_program("rg")
needs_node = needs_program("node")
needs_curl = needs_program("curl")
needs_openssl = needs_program("openssl")
needs_root = needs(None if os.geteuid() == 0 else "only root can act as another user")


def disable_sandbox(monkeypatch: pytest.MonkeyPatch, reason: str) -> None:
    """Make confining fail for the length of a test, as in a plain container."""
    found = NoBubblewrap(reason=reason, kind="refused")
    monkeypatch.setitem(bubblewrap._found, bubblewrap._PLACES, found)


def summarize_skips(reasons: Iterable[str]) -> str:
    """Sum up why tests were skipped in one line, the most frequent reason first; nothing if none was."""
    counts = Counter(reasons)
    if not counts:
        return ""
    details = ", ".join(f"{count} because {reason}" for reason, count in counts.most_common())
    return f"NOT TESTED HERE: {counts.total()} skipped ({details})"
