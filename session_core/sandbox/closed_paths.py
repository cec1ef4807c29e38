"""Which places inside of its roots a workspace keeps closed, and which it changes only after a person's yes."""

import functools
import os
from collections.abc import Iterable

import attrs

from session_core.sandbox.folder_walk import is_beneath
from session_core.sandbox.protected_paths import home_guards, is_protected_at_home, is_protected_path, led_to
from session_core.sandbox.secrets import hidden_places, home_folders


@attrs.define(kw_only=True, slots=False)
class Bounds:
    """Judges places, which are absolute paths without links; looks at the disk when first asked, and once.

    Attributes:
        writable, readable: The roots of the workspace.
        protected: Paths beneath each writable root that need a yes.
        also_hidden: Places that are closed besides those with keys.
    """

    writable: tuple[str, ...]
    readable: tuple[str, ...]
    protected: tuple[str, ...]
    also_hidden: tuple[str, ...]

    @functools.cached_property
    def hidden(self) -> tuple[str, ...]:
        """Closed places inside of the roots; with the whole disk open there are none."""
        if "/" in self._real_roots:
            return ()
        places = (*hidden_places(), *(os.path.realpath(each) for each in self.also_hidden))
        return tuple(place for place in places if is_beneath(place, self._real_roots) and place not in self._real_roots)

    def look(self) -> None:
        """Look at the disk now."""
        _ = self.hidden

    def is_hidden(self, place: str, *, writing: bool) -> bool:
        """Tell whether a place is closed; a root that lies in a closed place was somebody's choice, and is not."""
        roots = self._real_writable if writing else self._real_roots
        return _depth(place, self.hidden) > _depth(place, roots)

    def is_guarded(self, place: str, *, new_folder: bool = False) -> bool:
        """Tell whether a change of this place needs a yes."""
        roots = self._real_writable
        return (
            is_protected_path(place, roots, self.protected, new_folder=new_folder)
            or is_protected_at_home(place, roots, self._homes, new_folder=new_folder)
            or is_beneath(place, self._led_to)
        )

    @functools.cached_property
    def _real_writable(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(os.path.realpath(root) for root in self.writable))

    @functools.cached_property
    def _real_roots(self) -> tuple[str, ...]:
        return (*self._real_writable, *(os.path.realpath(root) for root in self.readable))

    @functools.cached_property
    def _homes(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(os.path.realpath(home) for home in home_folders()))

    @functools.cached_property
    def _led_to(self) -> tuple[str, ...]:
        """Where links and pointers in the place of protected paths lead to."""
        guards = [(root, path) for root in self._real_writable for path in self.protected]
        guards += home_guards(self._real_writable, self._homes)
        return tuple(place for folder, path in guards for place in led_to(folder, path))


def _depth(place: str, folders: Iterable[str]) -> int:
    """How long the path of the innermost of these folders around a place is; less than nothing if there is none."""
    return max((len(folder) for folder in folders if is_beneath(place, (folder,))), default=-1)
