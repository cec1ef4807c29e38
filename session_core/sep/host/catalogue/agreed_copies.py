"""Private copies of what people have agreed to: extensions and pinned programs run from them, not from the originals.

If files are checked and then reopened by name, somebody can swap them in between. So the bytes that were hashed are
written to a private folder, and run from there. A copy is called after the digest that a
person agreed to. An existing one is used again if it still holds the same, which is checked each time; otherwise it is
put aside and made anew. A copy is made under a temporary name and renamed when it is whole.

Copies lie in the home, or in folders for temporary files if nothing is to be stored. They can be made again at any
time: those in use are locked, and of the others those that nobody agrees to any more are removed. All of this blocks:
call it in a thread.
"""

import errno
import fcntl
import hashlib
import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Collection, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from session_core.errors import InvalidInput
from session_core.sep.host.catalogue.consent import CONSENT_FILE, Consents
from session_core.sep.host.catalogue.discovery import DiscoveredExtension
from session_core.sep.host.catalogue.folder_digest import NotDigestible, compute_digest, open_read_only
from session_core.sep.protocol.manifest import ManifestInvalid, read_manifest
from session_core.storage.home import prepare_home

AGREED_FOLDER: Final = "agreed-extensions"
"""The name of the folder in the home that holds the copies."""
MAX_COPIES: Final = 128
"""The most copies kept when not in use; the ones used longest ago go first."""
MAX_PROGRAM_BYTES: Final = 512 * 1024 * 1024
"""The size of a pinned program; the interpreters of our time have a fifth of it."""
_CHUNK: Final = 1024 * 1024
_TEMPORARY: Final = "/tmp"  # noqa: S108 - a private folder in it: each sandbox has its own /tmp, unlike $TMPDIR
_UNFINISHED: Final = ".new-"
_ASIDE: Final = ".old-"
_LOCK: Final = ".lock"


class NotAgreed(InvalidInput):
    """What is there is not what a person agreed to."""

    code = "not_agreed"


class AgreedCopy:
    """A copy in use, until it is released or forgotten."""

    def __init__(self, path: Path, release: Callable[[], object]) -> None:
        self.path = path
        self.release = weakref.finalize(self, release)
        """Stop using it; it may be removed now."""


class AgreedCopies:
    """The copies in a folder; without one, each is temporary and removed on release.

    Args:
        folder: Where they are stored; it is made when it is needed.
        agreed: Returns the digests that people agree to; copies of no others are kept.
    """

    def __init__(self, folder: Path | None = None, agreed: Callable[[], Collection[str]] = frozenset) -> None:
        self._folder = folder
        self._agreed = agreed

    @classmethod
    def in_home(cls, home: Path) -> "AgreedCopies":
        """Return the copies in a home, of what people agree to there."""
        return cls(home / AGREED_FOLDER, Consents(home / CONSENT_FILE).agreed_digests)

    def copy_extension(self, found: DiscoveredExtension) -> AgreedCopy:
        """Return a copy of an extension's files, which are the ones that were agreed to.

        Raises:
            NotAgreed: They are others by now.
            NotDigestible: They cannot be read or copied.
        """

        def check(digest: str) -> None:
            if digest != found.digest:
                raise NotAgreed("its files have changed since it was agreed to; look at them and agree again")

        def fill(folder: Path) -> None:
            check(compute_digest(found.folder, copy_to=folder).whole)

        def is_whole(copy: Path) -> bool:
            original = compute_digest(found.folder)
            check(original.whole)
            with suppress(NotDigestible):
                return compute_digest(copy).content == original.content
            return False

        return self._obtain(f"{found.name}-{found.digest}", fill, is_whole)

    def copy_program(self, program: str, sha256: str) -> AgreedCopy:
        """Return a folder that holds a copy of one program, under its name.

        Raises:
            NotAgreed: It is not the program with this SHA-256.
            OSError: It cannot be read or copied.
        """
        name = Path(os.path.realpath(program)).name

        def fill(folder: Path) -> None:
            _check_digest(_copy_file(Path(program), folder / name), sha256)

        def is_whole(copy: Path) -> bool:
            check_program(program, sha256)
            with suppress(OSError):
                names = [each.name for each in copy.iterdir()]
                return names == [name] and _digest_of_program(str(copy / name)) == sha256
            return False

        return self._obtain(f"program-{sha256}", fill, is_whole)

    def _obtain(self, name: str, fill: Callable[[Path], None], is_whole: Callable[[Path], bool]) -> AgreedCopy:
        if self._folder is None:
            return _make_temporary(fill)
        prepare_home(self._folder.parent)
        self._folder.mkdir(mode=0o700, exist_ok=True)
        with _locked(self._folder / _LOCK, fcntl.LOCK_SH):
            copy = _use_present(self._folder / name, is_whole) or _make(self._folder, name, fill, is_whole)
        self.remove_unused()
        return copy

    def remove_unused(self) -> None:
        """Remove what is not in use and not agreed to any more, unless copies are being made just now."""
        if self._folder is None:
            return
        with suppress(OSError), _locked(self._folder / _LOCK, fcntl.LOCK_EX | fcntl.LOCK_NB):
            agreed = self._agreed()
            present = [path for path in self._folder.iterdir() if path.name != _LOCK]
            present.sort(key=_last_use, reverse=True)
            wanted = {*agreed, *(pin for path in present if path.name[-64:] in agreed for pin in _pins_of(path))}
            for number, path in enumerate(present):
                if number >= MAX_COPIES or path.name[-64:] not in wanted:
                    _remove_unless_used(path)


def check_program(program: str, sha256: str) -> None:
    """Refuse another program than the one with this SHA-256.

    Raises:
        NotAgreed: It is another one.
        OSError: It cannot be read.
    """
    _check_digest(_digest_of_program(program), sha256)


def _check_digest(actual: str, sha256: str) -> None:
    if actual != sha256:
        raise NotAgreed(f"is not the pinned program: its SHA-256 is {actual}, run.sha256 says {sha256}")


def _digest_of_program(program: str) -> str:
    with Path(program).open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def _use_present(path: Path, is_whole: Callable[[Path], bool]) -> AgreedCopy | None:
    """Use an existing copy if it still holds what it should; otherwise put it aside."""
    try:
        copy = _hold(path)
    except FileNotFoundError:
        return None
    except NotADirectoryError:
        copy = None
    if copy is not None:
        try:
            whole = is_whole(path)
        except BaseException:
            copy.release()
            raise
        if whole:
            with suppress(OSError):
                os.utime(path)
            return copy
        copy.release()
    with suppress(FileNotFoundError):  # somebody else was faster
        path.rename(path.with_name(f"{_ASIDE}{os.urandom(8).hex()}"))
    return None


def _make(folder: Path, name: str, fill: Callable[[Path], None], is_whole: Callable[[Path], bool]) -> AgreedCopy:
    unfinished = Path(tempfile.mkdtemp(prefix=_UNFINISHED, dir=folder))
    copy = None
    try:
        fill(unfinished)
        copy = _hold(unfinished)
        unfinished.rename(folder / name)
    except OSError as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        if copy is None or error.errno not in {errno.ENOTEMPTY, errno.EEXIST}:
            raise
        copy.release()
        present = _use_present(folder / name, is_whole)  # somebody else has made the same one
        if present is None:
            raise
        return present
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    copy.path = folder / name
    return copy


def _make_temporary(fill: Callable[[Path], None]) -> AgreedCopy:
    place = _TEMPORARY if _is_usable(_TEMPORARY) else None
    folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="session-core-extension-", dir=place)))
    try:
        fill(folder)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    return AgreedCopy(folder, lambda: shutil.rmtree(folder, ignore_errors=True))


def _is_usable(place: str) -> bool:
    """Return whether a folder for temporary files is there, and programs may run from it."""
    try:
        return os.access(place, os.W_OK | os.X_OK) and not os.statvfs(place).f_flag & os.ST_NOEXEC
    except OSError:
        return False


def _hold(path: Path) -> AgreedCopy:
    """Lock a copy against removal; the lock belongs to the folder, whatever its name."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH)
    except BaseException:
        os.close(descriptor)
        raise
    return AgreedCopy(path, lambda: os.close(descriptor))


@contextmanager
def _locked(file: Path, how: int) -> Generator[None]:
    descriptor = os.open(file, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, how)
        yield
    finally:
        os.close(descriptor)


def _remove_unless_used(path: Path) -> None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        path.unlink()  # not one of ours
        return
    try:
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
    finally:
        os.close(descriptor)


def _pins_of(copy: Path) -> tuple[str, ...]:
    """Return the SHA-256 of the program that an extension names, if it pins one."""
    with suppress(ManifestInvalid):
        pin = read_manifest(copy).run.sha256
        return (pin,) if pin is not None else ()
    return ()


def _last_use(path: Path) -> float:
    with suppress(OSError):
        return path.lstat().st_mtime
    return 0


def _copy_file(source: Path, target: Path) -> str:
    """Copy a program, and return the SHA-256 of the bytes that were written."""
    whole, size = hashlib.sha256(), 0
    with source.open("rb") as original, open_read_only(target, executable=True) as copy:
        while data := original.read(_CHUNK):
            size += len(data)
            if size > MAX_PROGRAM_BYTES:
                raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(source))
            whole.update(data)
            copy.write(data)
    return whole.hexdigest()
