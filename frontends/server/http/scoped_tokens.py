"""The issued scoped tokens that are not revoked: `<home>/run/tokens.json`, without their secrets.

A token is valid only while it is in this list, so revoking a token removes it, and without the list none is valid.
Tokens made from an older token of the home (`of`) are invalid and left out, and so are expired ones. All of this
blocks: call it in a worker thread.
"""

import os
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Final

import attrs

import session_core as sc
from frontends.shared.socket_path import prepare_run_folder, run_folder

MAX_SCOPED_TOKENS: Final = 256
"""Valid tokens at a time; people read this list."""
MAX_NAME_CHARS: Final = 60
_NAME: Final = "tokens.json"
_MOST_BYTES: Final = 2 * 1024 * 1024


@attrs.frozen(kw_only=True)
class GivenToken:
    """The rights of a scoped token; the secret itself is not stored.

    The names of this class and of the list are part of the file format.

    Attributes:
        id: Its id, for revoking it.
        of: The hash of the home's token that it was made from.
        role: The highest role of its bearer.
        sessions: The sessions its bearer may see; None means everything.
        made_at, expires_at: The start and end of its validity.
        name: Its purpose, in the words of its creator.
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


def scoped_tokens_file(home: Path) -> Path:
    """Return the path of the list."""
    return run_folder(home) / _NAME


def read_scoped_tokens(home: Path, main_token_hash: str) -> tuple[GivenToken, ...]:
    """Return the valid tokens, in the order of their creation.

    Raises:
        StoreUnusable: The list cannot be read, or is invalid.
    """
    file = scoped_tokens_file(home)
    if not os.path.lexists(file):
        return ()
    try:
        listed = sc.wire.decode(sc.setup.read_private(file, _MOST_BYTES), _GivenTokens).tokens
    except (sc.ProtocolError, ValueError) as error:
        raise sc.StoreUnusable(f"{str(file)!r} is not a list of tokens; delete it, which ends them all") from error
    now = sc.now_ms()
    return tuple(each for each in listed if each.of == main_token_hash and each.expires_at > now)


def add_scoped_token(home: Path, token: GivenToken) -> None:
    """Add a token to the list.

    Raises:
        Conflict: There are too many.
        StoreUnusable: The list cannot be changed.
    """

    def added(before: tuple[GivenToken, ...]) -> Iterable[GivenToken]:
        if len(before) >= MAX_SCOPED_TOKENS:
            raise sc.Conflict(f"there are already {MAX_SCOPED_TOKENS} valid tokens; revoke some of them first")
        return (*before, token)

    _change(home, token.of, added)


def remove_scoped_tokens(home: Path, ids: Collection[str], main_token_hash: str) -> None:
    """Remove tokens from the list; ignores those that are not in it.

    Raises:
        StoreUnusable: The list cannot be changed.
    """
    _change(home, main_token_hash, lambda before: [each for each in before if each.id not in ids])


def _change(home: Path, main_token_hash: str, change: Callable[[tuple[GivenToken, ...]], Iterable[GivenToken]]) -> None:
    file = prepare_run_folder(home) / _NAME
    try:
        with sc.setup.hold_file_lock(file):
            after = tuple(change(read_scoped_tokens(home, main_token_hash)))
            sc.setup.replace_private(file, sc.wire.encode(_GivenTokens(tokens=after)))
    except OSError as error:
        raise sc.StoreUnusable(f"{str(file)!r} cannot be changed: {error.strerror}") from error
