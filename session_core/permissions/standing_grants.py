"""Standing grants: calls that are always allowed, exactly as shown, by their fingerprints; stored in the home."""

import logging
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import trio

from session_core.errors import StoreUnusable
from session_core.storage.private_table import PrivateTable, first_line_of

log = logging.getLogger(__name__)

MAX_STANDING = 1_000
"""Nobody could review more than this; the oldest are dropped."""
MAX_FILE_BYTES = 8 * 1024 * 1024


class StandingGrants(Collection[str]):
    """Fingerprints of calls that need no further approval; without a file they last as long as the service.

    A damaged file grants nothing, and the next grant replaces it. One that cannot be read grants nothing and stays.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._table: PrivateTable[str, dict[str, str]] = PrivateTable(
            file,
            parse=_parse,
            build=lambda entries: {"version": 1, "allowed": entries},
            explain=lambda file, error: f"{str(file)!r}: {first_line_of(error)}",
            most=MAX_FILE_BYTES,
        )
        self._entries = dict(self._table.read())
        self._writing = trio.Lock()
        if self._table.remark is not None:
            log.warning(
                "the standing grants cannot be read, so those calls need approval again: %s", self._table.remark
            )

    def __contains__(self, fingerprint: object) -> bool:
        return fingerprint in self._entries

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    async def add(self, fingerprint: str, *, tool: str, summary: str) -> None:
        """Allow a call permanently. If it cannot be saved, it is allowed as long as the service runs."""
        self._entries[fingerprint] = {"tool": tool, "summary": summary}
        _drop_oldest(self._entries)
        async with self._writing:
            try:
                await trio.to_thread.run_sync(self._write, dict(self._entries))
            except (StoreUnusable, OSError) as error:
                log.warning("the standing grant could not be saved: %s", error)

    def _write(self, entries: dict[str, dict[str, str]]) -> None:
        with self._table.change() as stored:
            stored.update(entries)  # it may hold more than we could read when we began
            _drop_oldest(stored)


def _drop_oldest(entries: dict[str, dict[str, str]]) -> None:
    while len(entries) > MAX_STANDING:
        del entries[next(iter(entries))]


def _parse(document: Any) -> dict[str, dict[str, str]]:
    return {
        str(fingerprint): {"tool": str(entry["tool"]), "summary": str(entry["summary"])}
        for fingerprint, entry in document["allowed"].items()
    }
