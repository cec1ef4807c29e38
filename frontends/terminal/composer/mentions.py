"""Messages on their way out of the composer, with the files they mention.

Rules:
1. Messages leave in the order in which they were typed, even if files have to be read for one of them.
2. Only mentions visible in the input count: a folded paste mentions nothing.
3. Files inside the session's folder are attached silently. A file from elsewhere is shown first: the message comes back
   with it, and leaves when it is sent again. A file removed then is not offered again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread
import attrs

import session_core as sc
from frontends.shared.sanitise import one_line
from frontends.terminal.composer.attached_files import NotAttached, join_attachments, read_mentions
from frontends.terminal.composer.completion import find_mentions
from frontends.terminal.composer.drafts import PromptSubmission

_WHY_CHARS = 400


class MentionedFiles:
    """Makes messages ready to leave; `tell` shows people what could not go along."""

    def __init__(self, tell: Callable[[str], object]) -> None:
        self._tell = tell
        self._order = anyio.Lock()

    async def attach(self, submission: PromptSubmission) -> tuple[PromptSubmission, str]:
        """Return a message with the files it mentions, and why it must not leave yet, if it must not."""
        there = {each.name for each in submission.attached}.union(
            submission.editing.files if submission.editing is not None else ()
        )
        paths = [path for path in find_mentions(submission.as_prompt.text) if path not in there]
        async with self._order:
            if not paths:
                return submission, ""
            try:
                await submission.target.wait_decided()  # its folder is known only then
            except sc.SessionCoreError:
                return submission, ""  # sending reports the error
            found = await anyio.to_thread.run_sync(read_mentions, paths, Path(submission.target.new.cwd))
        asked = [each for each in found.outside if each.name not in submission.offered]
        try:
            attached = join_attachments(submission.attached, (*found.inside, *asked))
        except NotAttached as error:
            self._tell(f"{error} The files were not attached.")
            return submission, ""
        names = [each.name for each in asked]
        submission = attrs.evolve(submission, attached=attached, offered=submission.offered | set(names))
        return submission, one_line(_describe_outside_files(names), _WHY_CHARS) if names else ""


def _describe_outside_files(names: list[str]) -> str:
    lies, it, chip = ("lies", "it", "its chip") if len(names) == 1 else ("lie", "them", "a chip")
    return (
        f"{', '.join(names)} {lies} outside the session's folder. Nothing was sent yet: "
        f"Enter sends {it} along, a click on {chip} leaves it out."
    )
