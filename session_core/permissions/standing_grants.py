"""Standing grants: calls that are always allowed, exactly as shown, by their fingerprints; stored in the home."""

import json
import logging
import os
from collections.abc import Collection, Iterator
from pathlib import Path

import trio

from session_core.errors import StoreUnusable
from session_core.storage.home import read_private, replace_private

log = logging.getLogger(__name__)

MAX_STANDING = 1_000
"""Nobody could review more than this; the oldest are dropped."""
MAX_FILE_BYTES = 8 * 1024 * 1024


class StandingGrants(Collection[str]):
    """Fingerprints of calls that need no further approval; without a file they last as long as the service.

    An unreadable file grants nothing, and the next grant rewrites it.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._entries: dict[str, dict[str, str]] = {}
        self._writing = trio.Lock()
        if file is not None:
            self._entries = _read(file)

    def __contains__(self, fingerprint: object) -> bool:
        return fingerprint in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    async def add(self, fingerprint: str, *, tool: str, summary: str) -> None:
        """Allow a call permanently. If it cannot be saved, it is allowed as long as the service runs."""
        self._entries[fingerprint] = {"tool": tool, "summary": summary}
        while len(self._entries) > MAX_STANDING:
            del self._entries[next(iter(self._entries))]
        async with self._writing:
            try:
                await trio.to_thread.run_sync(self._write, dict(self._entries))
            except (StoreUnusable, OSError) as error:
                log.warning("the standing grant could not be saved: %s", error)

    def _write(self, entries: dict[str, dict[str, str]]) -> None:
        if self._file is None:
            return
        replace_private(self._file, json.dumps({"version": 1, "allowed": entries}, indent=1).encode())


def _read(file: Path) -> dict[str, dict[str, str]]:
    if not os.path.lexists(file):
        return {}
    try:
        stored = json.loads(read_private(file, MAX_FILE_BYTES))["allowed"]
        return {
            str(fingerprint): {"tool": str(entry["tool"]), "summary": str(entry["summary"])}
            for fingerprint, entry in stored.items()
        }
    except (StoreUnusable, OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        log.warning("the standing grants cannot be read, so those calls need approval again: %s", error)
        return {}
