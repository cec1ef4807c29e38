"""The token of a home, and scoped tokens, made from it with fewer rights.

The token is 256 random bits in `<home>/run/token`, which only its owner can read. A server keeps only its hash. A
scoped token contains its rights and its expiry, sealed with a key derived from the token of the home: a new home token
invalidates all of them. Each is in a list (`scoped_tokens`), without its secret, and valid while it is there.
"""

import base64
import binascii
import hashlib
import hmac
import os
import secrets
import stat
from collections.abc import Collection
from pathlib import Path
from typing import Final, Literal

import attrs

import session_core as sc
from frontends.server.access import EVERYTHING, Access
from frontends.server.http.scoped_tokens import (
    MAX_NAME_CHARS,
    GivenToken,
    add_scoped_token,
    read_scoped_tokens,
    remove_scoped_tokens,
    scoped_tokens_file,
)
from frontends.shared.socket_path import prepare_run_folder, run_folder

_PREFIX: Final = "sct_"
_SCOPED: Final = "scs_"
_ID: Final = "scoped-"
_MOST_CHARS: Final = 4_096
_MOST_SESSIONS: Final = 64
DAY_MS: Final = 24 * 3_600_000
MAX_SCOPED_MS: Final = 30 * DAY_MS
"""The longest validity of a scoped token; people forget older ones."""


@attrs.frozen(kw_only=True)
class Credential:
    """The proof with which a client was admitted.

    Attributes:
        id: Distinguishes clients with different tokens or logins; reveals nothing about the secret itself.
        kind: The kind of proof.
        access: Its rights.
        generation: The number of the home token that it depends on; it ends with that token.
        expires_at: When it expires.
    """

    id: str
    kind: Literal["token", "scoped", "cookie"]
    access: Access
    generation: int
    expires_at: int | None = None


def token_file(home: Path) -> Path:
    """Return the path of the token of a home."""
    return run_folder(home) / "token"


def ensure_token(home: Path) -> str:
    """Return the token of a home; creates it if there is none.

    Raises:
        StoreUnusable: The token cannot be created or read, or another user may have read it.
    """
    file = prepare_run_folder(home) / "token"
    try:
        return _read(file)
    except FileNotFoundError:
        pass
    beside = _write_beside(file)
    try:
        os.link(beside, file)  # unlike a rename, it does not replace a token that another process has just created
    except FileExistsError:
        pass
    except OSError as error:
        raise sc.StoreUnusable(f"the token file {str(file)!r} cannot be created: {error.strerror}") from error
    finally:
        beside.unlink(missing_ok=True)
    return _read(file)


def rotate(home: Path) -> str:
    """Give a home a new token; the old one is invalid from now on, and so is everything derived from it.

    Raises:
        StoreUnusable: The token cannot be written.
    """
    file = prepare_run_folder(home) / "token"
    beside = _write_beside(file)
    try:
        beside.replace(file)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise sc.StoreUnusable(f"the token file {str(file)!r} cannot be changed: {error.strerror}") from error
    return _read(file)


def scoped_token(home: Path, access: Access, *, expires_at: int, name: str = "") -> str:
    """Create a token limited to `access`, valid until `expires_at`; see `issue_token`."""
    return issue_token(home, access, expires_at=expires_at, name=name)[1]


def list_scoped_tokens(home: Path) -> tuple[GivenToken, ...]:
    """Return the valid scoped tokens.

    Raises:
        StoreUnusable: The home has no usable token, or its list cannot be read.
    """
    return read_scoped_tokens(home, _mark_of(ensure_token(home)))


def revoke(home: Path, ids: Collection[str]) -> None:
    """Revoke scoped tokens; their clients are disconnected within a second or so.

    Raises:
        StoreUnusable: The list cannot be changed.
    """
    remove_scoped_tokens(home, ids, _mark_of(ensure_token(home)))


def issue_token(home: Path, access: Access, *, expires_at: int, name: str = "") -> tuple[GivenToken, str]:
    """Create a token limited to `access`, valid until `expires_at`, and add it to the list under a `name`.

    Raises:
        InvalidInput: Its validity is too long, it has too many sessions, or its name is not a single line.
        Conflict: There are too many valid tokens already.
        StoreUnusable: The home has no usable token.
    """
    if len(name) > MAX_NAME_CHARS or not name.isprintable():
        raise sc.InvalidInput(f"a name is one line of at most {MAX_NAME_CHARS} characters", field="name")
    if expires_at > sc.now_ms() + MAX_SCOPED_MS:
        raise sc.InvalidInput("a scoped token is valid for at most 30 days", field="expires_at")
    if access.sessions is not None and not 0 < len(access.sessions) <= _MOST_SESSIONS:
        raise sc.InvalidInput(f"name 1 to {_MOST_SESSIONS} sessions", field="sessions")
    main = ensure_token(home)
    scoped = GivenToken(
        id=secrets.token_hex(4),
        of=_mark_of(main),
        role=access.role,
        sessions=None if access.sessions is None else tuple(sorted(access.sessions)),
        made_at=sc.now_ms(),
        expires_at=expires_at,
        name=name,
    )
    said = {"id": scoped.id, "role": scoped.role, "sessions": scoped.sessions, "expires_at": expires_at}
    payload = _to_text(sc.wire.encode(said))
    add_scoped_token(home, scoped)
    return scoped, f"{_SCOPED}{payload}.{_to_text(_seal(_sealing_key(main), payload))}"


@attrs.frozen(kw_only=True)
class TokenFilesState:
    """The content of the files; the stamps were taken before reading, so a change meanwhile is noticed."""

    token_file_stamp: tuple[int, int] | None
    list_file_stamp: tuple[int, int] | None
    hash: bytes = b""
    key: bytes = attrs.field(default=b"", repr=False)
    scoped: frozenset[str] = frozenset()


class TokenVerifier:
    """Verifies tokens without storing them; notices at once when the home has a new one."""

    def __init__(self, home: Path) -> None:
        self.generation = 0
        self._home = home
        self._file, self._list = token_file(home), scoped_tokens_file(home)
        ensure_token(home)
        self._current = self.read_files()
        if not self._current.hash:
            _read(self._file)  # raises the reason

    @property
    def has_changed(self) -> bool:
        """Whether the files have changed since they were read; costs two stat calls."""
        return (_state_of(self._file), _state_of(self._list)) != (
            self._current.token_file_stamp,
            self._current.list_file_stamp,
        )

    def read_files(self) -> TokenFilesState:
        """Read the files; this blocks, and changes nothing here."""
        seen, listed = _state_of(self._file), _state_of(self._list)
        try:
            token = _read(self._file)
        except (OSError, sc.StoreUnusable):
            return TokenFilesState(token_file_stamp=seen, list_file_stamp=listed)
        scoped = self._read_list(_mark_of(token))
        return TokenFilesState(
            token_file_stamp=seen, list_file_stamp=listed, hash=_hash_of(token), key=_sealing_key(token), scoped=scoped
        )

    def use_state(self, state: TokenFilesState) -> None:
        """Apply a state that was read; a token that is missing, or that others may have read, admits no client."""
        if state.token_file_stamp != self._current.token_file_stamp:
            self.generation += 1
        self._current = state

    def refresh(self) -> int:
        """Reload the files if they have changed, and return the number of the current token.

        Async callers read them in a thread before, so nothing is left to read here.
        """
        if self.has_changed:
            self.use_state(self.read_files())
        return self.generation

    def is_good(self, credential: Credential) -> bool:
        """Return whether a credential is still valid, as of the last reload."""
        if credential.generation != self.generation:
            return False
        return credential.kind != "scoped" or credential.id.removeprefix(_ID) in self._current.scoped

    def credential_of(self, token: str) -> Credential | None:
        """Return the credential of a token; None if it is invalid."""
        generation = self.refresh()
        if not self._current.hash or len(token) > _MOST_CHARS or not token.isascii():
            return None
        if token.startswith(_SCOPED):
            return self._scoped_credential(token.removeprefix(_SCOPED), generation)
        if not hmac.compare_digest(_hash_of(token), self._current.hash):
            return None
        return Credential(id="token", kind="token", access=EVERYTHING, generation=generation)

    def _read_list(self, mark: str) -> frozenset[str]:
        """Read the ids of issued tokens; if they cannot be read, none is valid."""
        try:
            return frozenset(each.id for each in read_scoped_tokens(self._home, mark))
        except (OSError, sc.StoreUnusable):
            return frozenset()

    def _scoped_credential(self, token: str, generation: int) -> Credential | None:
        payload, _, seal = token.partition(".")
        if not hmac.compare_digest(_to_text(_seal(self._current.key, payload)).encode(), seal.encode()):
            return None
        try:
            said = sc.wire.decode(_from_text(payload), sc.JsonObject)
        except (sc.ProtocolError, binascii.Error):  # sealed by us, so it comes from another version
            return None
        role, named, expires_at = said.get("role"), said.get("sessions"), said.get("expires_at")
        if role not in {"controller", "observer"} or not isinstance(expires_at, int) or expires_at <= sc.now_ms():
            return None
        if said.get("id") not in self._current.scoped:
            return None
        sessions = None if named is None else frozenset(map(sc.SessionId, map(str, named)))  # type: ignore[arg-type]
        return Credential(
            id=f"{_ID}{said.get('id')}",
            kind="scoped",
            access=Access(role="observer" if role == "observer" else "controller", sessions=sessions),
            generation=generation,
            expires_at=expires_at,
        )


def _write_beside(file: Path) -> Path:
    """Write a new token to a separate file, so the real one is never seen half-written."""
    beside = file.with_name(f"token.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as opened:
            os.fchmod(descriptor, 0o600)
            opened.write(f"{_PREFIX}{secrets.token_urlsafe(32)}\n".encode())
            opened.flush()
            os.fsync(descriptor)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise sc.StoreUnusable(f"the token file {str(file)!r} cannot be created: {error.strerror}") from error
    return beside


def _read(file: Path) -> str:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise sc.StoreUnusable(f"the token file {str(file)!r} cannot be read: {error.strerror}") from error
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o077:
            raise sc.StoreUnusable(
                f"others may have read or written the token file {str(file)!r}; delete it, and a new one is created"
            )
        token = os.read(descriptor, _MOST_CHARS).decode("ascii", "replace").strip()
    finally:
        os.close(descriptor)
    if not token.startswith(_PREFIX) or len(token) < len(_PREFIX) + 43:
        raise sc.StoreUnusable(f"the token file {str(file)!r} holds no token; delete it, and a new one is created")
    return token


def _state_of(file: Path) -> tuple[int, int] | None:
    try:
        status = file.lstat()
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns


def _hash_of(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _mark_of(token: str) -> str:
    """Return a mark that distinguishes one home token from the next, and reveals nothing about it."""
    return hmac.digest(token.encode(), b"session-core: which token of the home", "sha256").hex()[:16]


def _sealing_key(token: str) -> bytes:
    return hmac.digest(token.encode(), b"session-core: tokens with fewer rights", "sha256")


def _seal(key: bytes, payload: str) -> bytes:
    return hmac.digest(key, payload.encode(), "sha256")


def _to_text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _from_text(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
