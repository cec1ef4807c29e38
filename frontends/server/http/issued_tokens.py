"""Which tokens with fewer rights were given out and not taken back: `<home>/run/tokens.json`, without their secrets.

A token is good only while it is in this list, so that taking one back is to strike it out, and without the list none
is. What rests on an older token of the home (`of`) is no good any more and is left out, and so is what has expired.
All of this blocks: call it in a worker thread.
"""

import fcntl
import os
import secrets
from collections.abc import Callable, Collection, Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

import attrs

import session_core as sc
from frontends.shared.socket_path import prepare_run_folder, run_folder

MAX_GIVEN: Final = 256
"""Tokens that are good at once; a list that people look through."""
MAX_NAME_CHARS: Final = 60
_NAME: Final = "tokens.json"
_LOCK: Final = "tokens.lock"
_MOST_BYTES: Final = 2 * 1024 * 1024


@attrs.frozen(kw_only=True)
class GivenToken:
    """What a token with fewer rights allows; the secret itself is kept nowhere.

    Attributes:
        id: What it is called, for those who take it back.
        of: Which token of the home it rests on, as a hash.
        role: The most that its bearer may be.
        sessions: What they may see; None is everything.
        made_at, expires_at: From when until when it is good.
        name: For whom it is, in the words of who made it.
    """

    id: str
    of: str
    role: sc.ClientRole
    sessions: tuple[sc.SessionId, ...] | None
    made_at: int
    expires_at: int
    name: str = ""


@attrs.frozen(kw_only=True)
class _GivenTokens:
    """The whole list."""

    tokens: tuple[GivenToken, ...] = ()


def given_file(home: Path) -> Path:
    """Return where the list is."""
    return run_folder(home) / _NAME


def read_given(home: Path, main_token_hash: str) -> tuple[GivenToken, ...]:
    """Return the tokens that are good, in the order in which they were made.

    Raises:
        StoreUnusable: The list cannot be read, or is none.
    """
    file = given_file(home)
    if not os.path.lexists(file):
        return ()
    with os.fdopen(sc.private_open(file, os.O_RDONLY), "rb") as opened:
        data = opened.read(_MOST_BYTES + 1)
    try:
        listed = sc.decode(data[:_MOST_BYTES], _GivenTokens).tokens
    except sc.ProtocolError as error:
        raise sc.StoreUnusable(f"{str(file)!r} is no list of tokens; delete it, which ends them all") from error
    now = sc.now_ms()
    return tuple(each for each in listed if each.of == main_token_hash and each.expires_at > now)


def add_given_token(home: Path, token: GivenToken) -> None:
    """Add a token to the list.

    Raises:
        Conflict: There are too many.
        StoreUnusable: The list cannot be changed.
    """

    def added(before: tuple[GivenToken, ...]) -> Iterable[GivenToken]:
        if len(before) >= MAX_GIVEN:
            raise sc.Conflict(f"{MAX_GIVEN} tokens are good already; take some back first")
        return (*before, token)

    _change(home, token.of, added)


def remove_given_tokens(home: Path, ids: Collection[str], main_token_hash: str) -> None:
    """Strike tokens out of the list; those that are not in it are passed over.

    Raises:
        StoreUnusable: The list cannot be changed.
    """
    _change(home, main_token_hash, lambda before: [each for each in before if each.id not in ids])


def _change(home: Path, main_token_hash: str, change: Callable[[tuple[GivenToken, ...]], Iterable[GivenToken]]) -> None:
    with _lock_list(home) as folder:
        after = tuple(change(read_given(home, main_token_hash)))
        _replace(folder / _NAME, sc.encode(_GivenTokens(tokens=after)))


@contextmanager
def _lock_list(home: Path) -> Generator[Path]:
    """Be the only one who changes the list, for the length of the block."""
    folder = prepare_run_folder(home)
    lock = sc.private_open(folder / _LOCK, os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield folder
    finally:
        os.close(lock)


def _replace(file: Path, data: bytes) -> None:
    beside = file.with_name(f"{file.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(sc.private_open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as opened:
            opened.write(data)
            opened.flush()
            os.fsync(opened.fileno())
        beside.replace(file)
    except OSError as error:
        with suppress(OSError):
            beside.unlink(missing_ok=True)
        raise sc.StoreUnusable(f"{str(file)!r} cannot be changed: {error.strerror}") from error
