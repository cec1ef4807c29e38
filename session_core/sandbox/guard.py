"""Guard protected things against commands: compare what is there after a run with what was there before.

What exists is mounted read-only while a command runs. What is missing cannot be: a mount needs a place on the disk,
which people and other programs would see. So what has appeared is set aside after the run, and links, on which nothing
can be mounted, are put back. Runs in the same folders know of each other: what one of them may change, the check after
another one leaves alone.

All of it blocks: call it in a worker thread.
"""

import os
import threading
import time
from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

import attrs

from session_core.sandbox.folder_walk import is_beneath
from session_core.sandbox.protected_items import ProtectedItem, is_unchanged, look_at
from session_core.sandbox.protected_paths import is_protected_name
from session_core.sandbox.protected_scan import ProtectedState, find_protected
from session_core.sandbox.protected_targets import trace_links
from session_core.sandbox.quarantine import restore_link, set_aside

MAX_CHECK_S: Final = 10.0
"""How long one check may take; a disk that needs longer is not searched to its end, which is said."""
MAX_REMARKS: Final = 20
"""More lines would bury the output of the command."""
_MAX_UNTOLD: Final = 100
_KEEP: Final = "to keep such a change, run the command with change_protected, about which the user is asked"


@attrs.define(kw_only=True, eq=False)
class GuardedRun:
    """One command, or what else runs in a sandbox, from its plan to its end.

    Attributes:
        roots: The folders it may change.
        before: What was protected there when it was planned.
        approved: A person has agreed that it changes protected things.
        outputs: The folder of outputs; what is set aside goes there.
        accepted: What others made meanwhile with a person's agreement: what is there, by path.
    """

    roots: tuple[str, ...]
    before: ProtectedState
    approved: bool
    outputs: str | None = None
    accepted: dict[str, tuple[int, int]] = attrs.field(factory=dict)

    def overlaps(self, roots: Iterable[str]) -> bool:
        """Return whether it may change something that lies in these folders."""
        return any(is_beneath(ours, (root,)) or is_beneath(root, (ours,)) for root in roots for ours in self.roots)


_running: Final[list[GuardedRun]] = []
_untold: Final[deque[tuple[GuardedRun, str]]] = deque(maxlen=_MAX_UNTOLD)
_withdrawn: Final[deque[ProtectedItem]] = deque(maxlen=_MAX_UNTOLD)
"""Links that were set aside: a run that was planned while they were there must not put them back."""
_lock: Final = threading.Lock()


def register_run(run: GuardedRun) -> tuple[str, ...]:
    """Register a run that is about to begin, and return what is still to be said about earlier ones; does not block."""
    with _lock:
        _running.append(run)
        untold = [each for each in _untold if each[0].overlaps(run.roots)]
        for each in untold:
            _untold.remove(each)
    return tuple(remark for _, remark in untold)


def forget_run(run: GuardedRun) -> None:
    """Forget a run that has ended and was checked, if that can be; does not block."""
    with _lock:
        if run in _running:
            _running.remove(run)


def has_neighbours(run: GuardedRun) -> bool:
    """Return whether something else runs in the same folders; does not block."""
    return bool(_list_others(run))


def check_neighbours(run: GuardedRun) -> tuple[str, ...]:
    """Check what others have done so far that run in the same folders."""
    return tuple(remark for each in _list_others(run) if not each.approved for remark in check_run(each, beginning=run))


def end_run(run: GuardedRun) -> tuple[str, ...]:
    """Check what a run has done that has ended, and return remarks for the model and for people."""
    try:
        if run.approved:
            for other in _list_others(run):
                _accept_all(other, run.roots)
    finally:
        forget_run(run)
    return check_run(run)


def keep_untold(run: GuardedRun, remarks: Iterable[str]) -> None:
    """Keep remarks whose command was stopped, for the next one in these folders."""
    with _lock:
        _untold.extend((run, remark) for remark in remarks)


def accept_change(path: str) -> None:
    """Note that something else than a command has changed a path, with a person's agreement."""
    with _lock:
        runs = [run for run in _running if not run.approved and is_beneath(path, run.roots)]
    for run in runs:
        place = path
        while is_beneath(place, run.roots) and place not in run.roots:
            if (item := look_at(place)) is not None:
                run.accepted[place] = item.identity
            place = os.path.dirname(place)


def _list_others(run: GuardedRun) -> list[GuardedRun]:
    with _lock:
        return [each for each in _running if each is not run and each.overlaps(run.roots)]


def _accept_all(run: GuardedRun, roots: Sequence[str]) -> None:
    """Accept everything in these folders as it is."""
    now = _look_again(run.before)
    for path, item in now.items.items():
        if is_beneath(path, roots):
            run.accepted[path] = item.identity
    for path, identity in now.bare.items():
        if is_beneath(path, roots):
            run.accepted[path] = identity
    for path in (*run.before.missing, *run.before.targets):
        if is_beneath(path, roots) and (there := look_at(path)) is not None:
            run.accepted[path] = there.identity


def _look_again(before: ProtectedState) -> ProtectedState:
    return find_protected(
        before.roots,
        chosen=before.chosen,
        left_out=before.left_out,
        by_name=before.by_name,
        follow=False,
        seconds=MAX_CHECK_S,
        open_closed=before.unreadable,
    )


def check_run(run: GuardedRun, *, beginning: GuardedRun | None = None) -> tuple[str, ...]:
    """Compare, set aside what should not be there, put links back, and say so; `beginning` has done nothing yet."""
    return _Check(run, beginning).run()


class _Check:
    """One check after a run, or during it."""

    def __init__(self, run: GuardedRun, beginning: GuardedRun | None) -> None:
        self._run = run
        self._before = run.before
        self._deadline = time.monotonic() + 2 * MAX_CHECK_S
        self._remarks: list[str] = []
        self._unsaid = 0
        self._handled: set[str] = set()
        agreed = [each for each in _list_others(run) if each.approved and each is not beginning]
        self._trusted = tuple(root for each in agreed for root in each.roots)
        self._known = {item.identity: item for item in run.before.items.values() if item.can_move}

    def run(self) -> tuple[str, ...]:
        before = self._before
        now = _look_again(before)
        for folder, identity in now.bare.items():
            self._check_bare(folder, identity, now.members[folder])
        for path, item in now.items.items():
            new_repository = os.path.dirname(path) in now.bare and not self._is_known_bare(os.path.dirname(path), now)
            if not (new_repository and not is_protected_name(os.path.basename(path))):
                self._check_item(path, item)
        for path in sorted(before.targets):
            if (there := look_at(path)) is not None:
                self._check_item(path, there)
        for place in sorted(before.missing):
            self._check_missing(place)
        for item in before.items.values():
            if item.kind == "link":
                self._check_link(item)
        if now.incomplete is not None and before.by_name:
            self._say(
                f"not all of {before.roots[0]!r} is guarded against planted programs, because {now.incomplete}: look "
                "before you use git or an editor in its lower folders"
            )
        if self._unsaid:
            self._remarks.append(f"{self._unsaid} more remarks of this kind are left out")
        return tuple(self._remarks)

    def _is_known_bare(self, folder: str, now: ProtectedState) -> bool:
        return folder in self._before.bare or now.bare[folder] in self._before.bare.values()

    def _check_bare(self, folder: str, identity: tuple[int, int], members: frozenset[str]) -> None:
        before = self._before
        if folder in before.bare or identity in before.bare.values() or self._is_accepted(folder, identity):
            return
        if self._is_unknown_ground(folder):
            return
        new = members - before.members.get(folder, frozenset()) or {"HEAD"}
        for name in sorted(new):
            self._set_aside(os.path.join(folder, name), "made this folder a git repository")

    def _check_item(self, path: str, item: ProtectedItem) -> None:
        before = self._before.items.get(path)
        if self._is_accepted(path, item.identity):
            return
        if before is None:
            moved = self._known.get(item.identity)
            if moved is not None and moved.kind == item.kind and _has_gone(moved):
                return  # a folder around it was renamed
            if not self._is_unknown_ground(os.path.dirname(path)):
                self._set_aside(path, "appeared")
        elif not is_unchanged(before, item):
            self._set_aside(path, "was changed")

    def _check_missing(self, place: str) -> None:
        links, real = trace_links(place)
        first = links[0] if links else place
        if (item := look_at(first)) is None or self._is_accepted(first, item.identity):
            return
        if first == place or os.path.lexists(real):
            self._set_aside(first, "appeared")

    def _check_link(self, link: ProtectedItem) -> None:
        assert link.link is not None
        if look_at(link.path) is not None or is_beneath(link.path, self._trusted):
            return
        if link.path in self._run.accepted or link in tuple(_withdrawn):
            return
        try:
            if restore_link(self._top(link.path), link.path, link.link):
                self._say(f"{self._name(link.path)} is protected and was removed, so this link was put back; {_KEEP}")
        except OSError as error:
            self._say(f"{self._name(link.path)} is protected; this link could not be put back: {error.strerror}")

    def _is_accepted(self, path: str, identity: tuple[int, int]) -> bool:
        return self._run.accepted.get(path) == identity or is_beneath(path, self._trusted)

    def _is_unknown_ground(self, folder: str) -> bool:
        """Return whether nobody knows what was in a folder before: the walk did not get there."""
        unvisited = self._before.unvisited
        while unvisited and folder not in unvisited and len(folder) > 1:
            folder = os.path.dirname(folder)
        return folder in unvisited

    def _set_aside(self, path: str, what: str) -> None:
        if path in self._handled:
            return
        self._handled.add(path)
        if time.monotonic() > self._deadline:
            self._say(f"{self._name(path)} is protected and {what}, and there was no time to set it aside: remove it")
            return
        if (item := look_at(path)) is not None and item.kind == "link":
            _withdrawn.append(item)
        try:
            where = set_aside(self._top(path), path, self._run.outputs)
        except OSError as error:
            self._say(
                f"{self._name(path)} is protected and {what}, and could not be set aside ({error.strerror or error}): "
                "look at it before you use git or an editor there"
            )
            return
        if where is not None:
            self._say(f"{self._name(path)} is protected and {what}, so it was set aside as {where!r}; {_KEEP}")

    def _top(self, path: str) -> str:
        return next((root for root in self._before.roots if is_beneath(path, (root,))), os.path.dirname(path))

    def _name(self, path: str) -> str:
        return repr(os.path.relpath(path, self._top(path)))

    def _say(self, remark: str) -> None:
        if len(self._remarks) < MAX_REMARKS:
            self._remarks.append(remark)
        else:
            self._unsaid += 1


def _has_gone(item: ProtectedItem) -> bool:
    there = look_at(item.path)
    return there is None or there.identity != item.identity
