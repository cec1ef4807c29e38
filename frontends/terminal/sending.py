"""Messages on their way out of the input, with the files that they mention.

Rules:
1. They leave in the order in which they were sent, also if files have to be read for one of them.
2. A mention is what is seen in the input: what stands in a folded paste mentions nothing.
3. Files beneath the session's folder go along without a word. One from elsewhere is shown first: the message comes
   back with it, and goes when it is sent once more. Who takes it out then is not asked again.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import anyio
import anyio.to_thread
import attrs

import session_core as sc
from frontends.terminal.completion import mentioned
from frontends.terminal.drafts import Said
from frontends.terminal.images import NotAttached, joined, read_mentions

log = logging.getLogger(__name__)


class Sending:
    """Lets messages go, or holds them back with the reason."""

    def __init__(
        self,
        start: Callable[[Callable[[], Awaitable[None]]], object],
        send: Callable[[Said], object],
        hold: Callable[[Said, str], object],
        tell: Callable[[str], object],
    ) -> None:
        self._start = start
        self._send = send
        self._hold = hold
        self._tell = tell
        self._order = anyio.Lock()
        self._pending = 0

    def send(self, said: Said) -> None:
        """Let a message go, after those before it."""
        there = {each.name for each in said.attached}.union(said.editing.files if said.editing is not None else ())
        paths = [path for path in mentioned(said.written.text) if path not in there]
        if paths or self._pending:
            self._pending += 1
            self._start(partial(self._send_in_turn, said, paths))
        else:
            self._send(said)

    async def _send_in_turn(self, said: Said, paths: list[str]) -> None:
        async with self._order:
            why = ""
            try:
                if paths:
                    said, why = await self._with_files(said, paths)
            except Exception as error:
                log.exception("files that were mentioned could not be read")
                why = f"unexpected error: {type(error).__name__}: {error}"
            finally:
                self._pending -= 1
            if why:
                self._hold(said, why)
            else:
                self._send(said)

    async def _with_files(self, said: Said, paths: list[str]) -> tuple[Said, str]:
        """Return a message with what it mentions, and why it is not to be sent yet."""
        try:
            await said.target.decided()  # only then its folder is known
        except sc.SessionCoreError:
            return said, ""  # whoever sends it tells that
        found = await anyio.to_thread.run_sync(read_mentions, paths, Path(said.target.new.cwd))
        asked = [each for each in found.outside if each.name not in said.offered]
        try:
            attached = joined(said.attached, (*found.inside, *asked))
        except NotAttached as error:
            self._tell(f"{error} The files were not attached.")
            return said, ""
        names = [each.name for each in asked]
        said = attrs.evolve(said, attached=attached, offered=said.offered | set(names))
        return said, _not_yet(names) if names else ""


def _not_yet(names: list[str]) -> str:
    lies, it, chip = ("lies", "it", "its chip") if len(names) == 1 else ("lie", "them", "a chip")
    return (
        f"{', '.join(names)} {lies} outside of the session's folder. Nothing was sent yet: "
        f"Enter sends {it} along, a click on {chip} leaves it out."
    )
