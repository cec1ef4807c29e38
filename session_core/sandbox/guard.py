"""Guard protected things against commands: compare what is there after a run with what was there before.

What exists is mounted read-only while a command runs. What is missing cannot be: a mount needs a place on the disk,
which people and other programs would see. So what has appeared is set aside after the run, and links, on which nothing
can be mounted, are restored. Runs in the same folders know of each other: what one of them may change, the check after
another one leaves alone.

All of it blocks: call it in a worker thread.
"""

import atexit
import logging
import os
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import attrs

from session_core.sandbox.folder_walk import is_beneath
from session_core.sandbox.protected_items import ProtectedItem, is_unchanged, look_at, stamp_content
from session_core.sandbox.protected_paths import is_protected_name
from session_core.sandbox.protected_scan import ProtectedState, find_protected
from session_core.sandbox.protected_targets import trace_links
from session_core.sandbox.quarantine import DISARMED_HEAD, SetAside, restore_link, set_aside

log = logging.getLogger(__name__)

MAX_CHECK_S: Final = 10.0
"""How long one check may take; a disk that needs longer is not searched to its end, which is said."""
MAX_EXIT_S: Final = 30.0
"""How long a program that ends waits for checks; longer means that the disk hangs."""
MAX_REMARKS: Final = 20
"""More lines would bury the output of the command."""
_MAX_PENDING: Final = 100
_MAX_NAMED: Final = 5
_KEEP: Final = (
    "to keep such a change, run the command with change_protected (in a line that a person types: !+protected), "
    "about which the user is asked"
)
_HOW_TO_REARM: Final = (
    f"its 'HEAD' was renamed to {DISARMED_HEAD!r}, so that git takes it for no repository: rename it again if you put "
    "it back"
)


@attrs.define(kw_only=True, eq=False)
class GuardedRun:
    """One command, or what else runs in a sandbox, from its plan to its end.

    Attributes:
        roots: The folders it may change.
        before: What was protected there when it was planned.
        approved: A person has agreed that it changes protected things.
        outputs: The session's folder of outputs, which says where what is set aside goes.
        accepted: What others made meanwhile with a person's agreement: what is there, by path; None if it was removed.
        mounted: What nothing inside can replace, as a mount is on it, and the identity of the folder around it.
        stamps: The content of what may be renamed, if something else ran when it began.
    """

    roots: tuple[str, ...]
    before: ProtectedState
    approved: bool
    outputs: str | None = None
    accepted: dict[str, tuple[int, int] | None] = attrs.field(factory=dict)
    mounted: dict[str, tuple[int, int]] = attrs.field(factory=dict)
    stamps: dict[str, str] = attrs.field(factory=dict)

    def overlaps(self, roots: Sequence[str]) -> bool:
        """Return whether it may change something that lies in these folders."""
        return _overlap(self.roots, roots)


def _overlap(some: Sequence[str], others: Sequence[str]) -> bool:
    return any(is_beneath(one, (other,)) or is_beneath(other, (one,)) for one in some for other in others)


_running: Final[list[GuardedRun]] = []
_pending_remarks: Final[deque[tuple[tuple[str, ...], str]]] = deque(maxlen=_MAX_PENDING)
"""With the folders that they concern."""
_removed_links: Final[deque[ProtectedItem]] = deque(maxlen=_MAX_PENDING)
"""Links that were set aside: a run that was planned while they were there must not restore them."""
_agreed: Final = Counter[str]()
_lock: Final = threading.Lock()


def register_run(run: GuardedRun) -> tuple[str, ...]:
    """Register a run that is about to begin, and return what is still to be said about earlier ones; does not block."""
    with _lock:
        _running.append(run)
    return take_pending_remarks(run)


def take_pending_remarks(run: GuardedRun) -> tuple[str, ...]:
    """Take the remarks that are still due about earlier runs in these folders; does not block."""
    with _lock:
        pending = [each for each in _pending_remarks if _overlap(each[0], run.roots)]
        for each in pending:
            _pending_remarks.remove(each)
    return tuple(remark for _, remark in pending)


def count_agreed() -> int:
    """Return how many changes a person has agreed to so far; does not block.

    If it rises while a run is being planned, its plan may lack such a change, which then looks like the run's own.
    """
    with _lock:
        return _agreed["changes"]


def note_mounts(run: GuardedRun, mounted: Iterable[str]) -> None:
    """Note what the check needs to know of the moment when a run begins."""
    for path in mounted:
        if (folder := _identify(os.path.dirname(path))) is not None:
            run.mounted[path] = folder
    if has_neighbours(run):
        # Between the plan and the mounts, another run may rename folders, and the mount is then on something else.
        run.stamps |= {item.path: stamp_content(item) for item in run.before.items.values()}


def forget_run(run: GuardedRun) -> None:
    """Forget a run that has ended and was checked, if that can be; does not block."""
    with _lock:
        if run in _running:
            _running.remove(run)


def has_neighbours(run: GuardedRun) -> bool:
    """Return whether something else runs in the same folders; does not block."""
    return bool(_list_others(run))


class FinalCheck:
    """The check after a run (`end_run`), in a thread of its own: who waits for it may give up, and it still ends.

    What it has to say then goes to the next command in these folders, which also checks this run before it begins. A
    program that ends waits for the check too, up to a bound.
    """

    def __init__(self, run: GuardedRun, on_end: Callable[[], None]) -> None:
        """Start the check; `on_end` is called in its thread.

        Raises:
            RuntimeError: No thread can be started.
        """
        self._run = run
        self._on_end = on_end
        self._remarks: tuple[str, ...] | None = None
        self._given_up = False
        self._thread = threading.Thread(target=self._live, name="checks what a command has left behind", daemon=True)
        with _lock:
            self._thread.start()
            _checks.append(self)

    def take_remarks(self) -> tuple[str, ...] | None:
        """Return what it has to say; None if it goes on, in which case nobody waits for it any more."""
        with _lock:
            if self._remarks is None:
                self._given_up = True
                if not self._run.approved:
                    _running.append(self._run)
            return self._remarks

    def join(self, seconds: float) -> None:
        """Wait for its end."""
        self._thread.join(seconds)

    def _live(self) -> None:
        try:
            remarks = end_run(self._run)
        except Exception as error:
            log.exception("the check after a command has failed")
            remarks = (describe_failed_check(error),)
        with _lock:
            self._remarks = remarks
        if self._given_up:
            forget_run(self._run)
            keep_pending_remarks(self._run, remarks)
        with _lock:
            _checks.remove(self)
        self._on_end()


_checks: Final[list[FinalCheck]] = []


@atexit.register
def _end_checks() -> None:
    deadline = time.monotonic() + MAX_EXIT_S
    for check in _checks.copy():
        check.join(max(0, deadline - time.monotonic()))


def describe_failed_check(error: Exception) -> str:
    """Say that nobody knows what a command has left behind."""
    problem = str(error) or type(error).__name__
    return f"it could not be checked whether protected files were changed: {problem}"


def check_neighbours(run: GuardedRun) -> tuple[str, ...]:
    """Check what others have done so far that run in the same folders."""
    return tuple(remark for each in _list_others(run) if not each.approved for remark in check_run(each, beginning=run))


def end_run(run: GuardedRun) -> tuple[str, ...]:
    """Check what a run has done that has ended, and return remarks for the model and for people."""
    doubtful: dict[str, None] = {}
    try:
        if run.approved:
            with _lock:
                _agreed["changes"] += 1
            for other in _list_others(run):
                new = _accept_all(other, run.roots)
                if not other.approved:
                    doubtful |= dict.fromkeys(new)
    finally:
        forget_run(run)
    remarks = check_run(run)
    return (*remarks, _describe_doubtful(tuple(doubtful), run.roots)) if doubtful else remarks


def _describe_doubtful(paths: Sequence[str], roots: Sequence[str]) -> str:
    return (
        f"protected paths appeared and were kept, although another command was running too and may have made them: "
        f"{_list_paths(paths, roots)}"
    )


def _list_paths(paths: Sequence[str], roots: Sequence[str]) -> str:
    names = []
    for path in paths[:MAX_REMARKS]:
        root = next((root for root in roots if is_beneath(path, (root,))), "/")
        names.append(repr(os.path.relpath(path, root)))
    more = f" and {len(paths) - len(names)} more" if len(paths) > len(names) else ""
    return f"{', '.join(names)}{more}"


def keep_pending_remarks(run: GuardedRun, remarks: Iterable[str]) -> None:
    """Keep remarks whose command was stopped, for the next one in these folders."""
    with _lock:
        _pending_remarks.extend((run.roots, remark) for remark in remarks)


def accept_change(path: str) -> None:
    """Note that something else than a command has changed a path, with a person's agreement."""
    with _lock:
        _agreed["changes"] += 1
        runs = [run for run in _running if not run.approved and is_beneath(path, run.roots)]
    for run in runs:
        place = path
        while is_beneath(place, run.roots) and place not in run.roots:
            if (item := look_at(place)) is not None:
                run.accepted[place] = item.identity
            elif place == path:
                run.accepted[place] = None
            place = os.path.dirname(place)


def _list_others(run: GuardedRun) -> list[GuardedRun]:
    with _lock:
        return [each for each in _running if each is not run and each.overlaps(run.roots)]


def _accept_all(run: GuardedRun, roots: Sequence[str]) -> list[str]:
    """Accept everything in these folders as it is, and return what is new in them."""
    before, now = run.before, _look_again(run.before)
    found = {path: item.identity for path, item in now.items.items()} | dict(now.bare)
    for path in (*before.missing, *before.targets):
        if (there := look_at(path)) is not None:
            found[path] = there.identity
    known = {*before.bare.values(), *(item.identity for item in before.items.values())}
    new = []
    for path, identity in found.items():
        if is_beneath(path, roots):
            if identity not in known and run.accepted.get(path) != identity:
                new.append(path)
            run.accepted[path] = identity
    for path, item in before.items.items():
        if item.kind == "link" and is_beneath(path, roots) and look_at(path) is None:
            run.accepted[path] = None
    return sorted(new)


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
    """Compare, set aside what should not be there, restore links, and say so; `beginning` has done nothing yet."""
    return _Check(run, beginning).run()


class _Check:
    """One check after a run, or during it."""

    def __init__(self, run: GuardedRun, beginning: GuardedRun | None) -> None:
        self._run = run
        self._before = run.before
        self._deadline = time.monotonic() + 2 * MAX_CHECK_S
        self._remarks: list[str] = []
        self._omitted_remarks = 0
        self._handled: set[str] = set()
        self._unscanned: list[str] = []
        agreed = [each for each in _list_others(run) if each.approved and each is not beginning]
        self._trusted = tuple(root for each in agreed for root in each.roots)
        self._known = {item.identity: item for item in run.before.items.values()}

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
        if self._unscanned:
            self._remarks.append(
                "protected paths were kept although the command may have made them, as there was no time to look for "
                f"them before it began: {_list_paths(self._unscanned, before.roots)}; if they are new to you, inspect "
                "them before you run git or open an editor there"
            )
        if now.incomplete is not None and before.by_name:
            self._add_remark(
                f"{before.roots[0]!r} was only partly checked for planted files ({now.incomplete}); inspect deep "
                "subfolders before you run git or open an editor there"
            )
        if self._omitted_remarks:
            self._remarks.append(f"{self._omitted_remarks} more remarks of this kind are left out")
        return tuple(self._remarks)

    def _is_known_bare(self, folder: str, now: ProtectedState) -> bool:
        return folder in self._before.bare or now.bare[folder] in self._before.bare.values()

    def _check_bare(self, folder: str, identity: tuple[int, int], members: frozenset[str]) -> None:
        before = self._before
        if folder in before.bare or identity in before.bare.values() or self._is_accepted(folder, identity):
            return
        if self._was_not_scanned(folder):
            self._keep_unscanned(folder, identity)
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
            if (
                moved is not None
                and moved.is_moved_to(item)
                and _has_gone(moved)
                and self._has_same_content(moved, item)
            ):
                return  # a folder around it was renamed
            if self._was_not_scanned(os.path.dirname(path)):
                self._keep_unscanned(path, item.identity)
            else:
                self._set_aside(path, "appeared")
        elif not is_unchanged(before, item):
            folder = self._run.mounted.get(path)
            if folder is None or before.identity == item.identity or folder != _identify(os.path.dirname(path)):
                self._set_aside(path, "was changed")
                return
            self._run.accepted[path] = item.identity  # which is said once
            self._add_remark(
                f"a protected path, {self._name(path)}, was replaced by another program while the command ran, which "
                "could change it from then on; it was left in its place: inspect it"
            )

    def _has_same_content(self, before: ProtectedItem, now: ProtectedItem) -> bool:
        stamp = self._run.stamps.get(before.path)
        # What a link leads to may have been changed at another place.
        return stamp is None or (now.kind != "link" and stamp == stamp_content(now))

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
        if link.path in self._run.accepted or link in tuple(_removed_links):
            return
        happened = f"a protected path, {self._name(link.path)}, was removed while the command ran"
        try:
            if restore_link(self._top(link.path), link.path, link.link):
                self._add_remark(f"{happened}; the link was restored; {_KEEP}")
        except OSError as error:
            self._add_remark(f"{happened}; the link could not be restored: {error.strerror}")

    def _is_accepted(self, path: str, identity: tuple[int, int]) -> bool:
        return self._run.accepted.get(path) == identity or is_beneath(path, self._trusted)

    def _was_not_scanned(self, folder: str) -> bool:
        """Return whether nobody knows what was in a folder before: the walk did not get there."""
        unvisited = self._before.unvisited
        while unvisited and folder not in unvisited and len(folder) > 1:
            folder = os.path.dirname(folder)
        return folder in unvisited

    def _keep_unscanned(self, path: str, identity: tuple[int, int]) -> None:
        self._unscanned.append(path)
        self._run.accepted[path] = identity  # which is said once

    def _set_aside(self, path: str, what: str) -> None:
        if path in self._handled:
            return
        self._handled.add(path)
        happened = f"a protected path, {self._name(path)}, {what} while the command ran"
        if time.monotonic() > self._deadline:
            self._add_remark(f"{happened}; there was no time to move it: remove it")
            return
        if (item := look_at(path)) is not None and item.kind == "link":
            _removed_links.append(item)
        try:
            aside = set_aside(self._top(path), path, self._run.outputs, deadline=self._deadline)
        except OSError as error:
            self._add_remark(
                f"{happened}; it could not be moved ({error.strerror or error}): inspect it before you run git or open "
                "an editor there"
            )
            return
        if aside is not None:
            self._add_remark(f"{happened}; it was moved to {aside.path!r}{_describe_disarmed(aside)}; {_KEEP}")

    def _top(self, path: str) -> str:
        return next((root for root in self._before.roots if is_beneath(path, (root,))), os.path.dirname(path))

    def _name(self, path: str) -> str:
        return repr(os.path.relpath(path, self._top(path)))

    def _add_remark(self, remark: str) -> None:
        if len(self._remarks) < MAX_REMARKS:
            self._remarks.append(remark)
        else:
            self._omitted_remarks += 1


def _describe_disarmed(aside: SetAside) -> str:
    names = aside.disarmed
    if not names:
        disarmed = ""
    elif names == (DISARMED_HEAD,):
        disarmed = f"; {_HOW_TO_REARM}"
    else:
        more = f" and {len(names) - _MAX_NAMED:,} more" if len(names) > _MAX_NAMED else ""
        disarmed = (
            "; something in it was renamed, so that git takes no folder there for a repository: rename "
            f"{', '.join(map(repr, names[:_MAX_NAMED]))}{more} again if you put it back"
        )
    if aside.unseen is not None:
        disarmed += f"; not all in it could be searched for repositories ({aside.unseen}): run no git in it"
    return disarmed


def _identify(path: str) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _has_gone(item: ProtectedItem) -> bool:
    there = look_at(item.path)
    return there is None or there.identity != item.identity
