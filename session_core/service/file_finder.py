"""Finds files of sessions by a few letters of their paths, while the user types.

The names of a folder are collected once for all callers within a few seconds, and by one of them at a time.
"""

from collections.abc import Sequence

import attrs
import trio

from session_core import limits
from session_core.errors import NotFound
from session_core.tools.fuzzy import PathIndex
from session_core.tools.paths_beneath import paths_beneath


@attrs.define
class _FolderIndex:
    """The known names of a folder; `collected_at` is the time on trio's clock."""

    lock: trio.Lock = attrs.field(factory=trio.Lock)
    index: PathIndex | None = None
    cut: bool = False
    collected_at: float = 0.0


class FileFinder:
    """Searches folders.

    Args:
        hidden: Paths that are never shown, besides those with keys.
    """

    def __init__(self, hidden: Sequence[str] = ()) -> None:
        self._hidden = tuple(hidden)
        self._folders: dict[str, _FolderIndex] = {}

    async def find(self, folder: str, query: str, limit: int) -> tuple[tuple[str, ...], bool]:
        """Return the best matching paths beneath a folder, and whether there are more.

        Raises:
            NotFound: There is no such folder.

        Cancellation: another caller that waits for the same names collects them instead.
        """
        known = self._get_folder(folder)
        async with known.lock:
            if known.index is None or trio.current_time() - known.collected_at > limits.FOUND_FRESH_MS / 1000:
                await self._collect(folder, known)
            index, cut = known.index, known.cut
        assert index is not None
        paths, more = await trio.to_thread.run_sync(index.best, query, limit, abandon_on_cancel=True)
        return tuple(paths), more or cut

    def _get_folder(self, folder: str) -> _FolderIndex:
        """Return the index of a folder, and drop those that have not been used lately.

        An index that is being collected is kept: the next caller would have to start over.
        """
        known = self._folders.pop(folder, None) or _FolderIndex()
        self._folders[folder] = known
        for name, each in tuple(self._folders.items()):
            old = trio.current_time() - each.collected_at > 10 * limits.FOUND_FRESH_MS / 1000
            in_use = each is known or each.lock.locked()
            if not in_use and (old or len(self._folders) > limits.MAX_FOUND_FOLDERS):
                del self._folders[name]
        return known

    async def _collect(self, folder: str, known: _FolderIndex) -> None:
        try:
            found = await paths_beneath(folder, self._hidden)
        except OSError as problem:
            raise NotFound(f"the folder {folder!r} cannot be read", field="session_id") from problem
        known.index = await trio.to_thread.run_sync(PathIndex, found.paths)
        known.cut = found.cut
        known.collected_at = trio.current_time()  # callers that waited for a long walk do not start another one
