"""Where outputs that are too long for a result are stored: one folder per session, which no other session can read.

A child session uses the folder of the session above it: what it returns may name a file that its parent has to read.
Files directly in the folder of all sessions are from older versions. No session can read them; they stay until a person
deletes them.
"""

import os
import re
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from session_core.ids import SessionId

_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,100}")
"""Ids can come from an imported file, and not each of them is fit to name a folder."""
FindOutputs = Callable[[SessionId], str | None]
"""Returns the folder for the outputs of a session; None if they are not stored."""


def no_outputs(_session_id: SessionId) -> None:
    """Store no outputs."""


class OutputFiles:
    """The outputs of all sessions of a home; everything but `find_folder` blocks."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)

    def find_folder(self, session_id: SessionId) -> str | None:
        """Return the folder of a session that has no parent, whether or not it exists; None if it can have none."""
        return str(self._folder / session_id) if _NAME.fullmatch(session_id) else None

    def delete_outputs(self, session_id: SessionId) -> None:
        """Delete the outputs of a session.

        Raises:
            OSError: They cannot be deleted.
        """
        folder = self.find_folder(session_id)
        if folder is not None:
            with suppress(FileNotFoundError):
                shutil.rmtree(folder)

    def list_sessions(self) -> tuple[SessionId, ...]:
        """Return the sessions that have outputs here."""
        try:
            with os.scandir(self._folder) as entries:
                return tuple(sorted(SessionId(each.name) for each in entries if each.is_dir(follow_symlinks=False)))
        except FileNotFoundError:
            return ()
