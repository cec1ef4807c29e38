"""The token of a home, and tokens with fewer rights that are made from it.

The token is 256 random bits in `<home>/run/token`, which only its owner can read. A server keeps nothing but its hash.
A token with fewer rights says what they are and until when it is good, sealed with a key that comes from the token of
the home; nobody has to remember it, and a new token of the home ends all of them.
"""

import base64
import binascii
import hashlib
import hmac
import os
import secrets
import stat
from pathlib import Path
from typing import Final, Literal

import attrs

import session_core as sc
from frontends.server.access import EVERYTHING, Access

_PREFIX: Final = "sct_"
_SCOPED: Final = "scs_"
_MOST_CHARS: Final = 4_096
_MOST_SESSIONS: Final = 64
DAY_MS: Final = 24 * 3_600_000
MAX_SCOPED_MS: Final = 30 * DAY_MS
"""How long a token with fewer rights may be good for: it cannot be taken back alone."""


@attrs.frozen(kw_only=True)
class Credential:
    """How a client has shown that it may come in.

    Attributes:
        id: Tells clients with different tokens or logins apart; says nothing about the secret itself.
        kind: What it has shown.
        access: What it may do.
        generation: Which token of the home this rests on; it ends with that one.
        expires_at: When it ends in any case.
    """

    id: str
    kind: Literal["token", "scoped", "cookie"]
    access: Access
    generation: int
    expires_at: int | None = None


def token_file(home: Path) -> Path:
    """Return where the token of a home is kept."""
    return home / "run" / "token"


def ensure_token(home: Path) -> str:
    """Return the token of a home, made now if there is none.

    Raises:
        StoreUnusable: It cannot be made or read, or somebody else may have read it.
    """
    file = sc.prepare_home(token_file(home).parent) / "token"
    try:
        return _read(file)
    except FileNotFoundError:
        pass
    beside = _write_beside(file)
    try:
        os.link(beside, file)  # unlike a rename, it does not replace what somebody else has just made
    except FileExistsError:
        pass
    except OSError as error:
        raise sc.StoreUnusable(f"the token file {str(file)!r} cannot be made: {error.strerror}") from error
    finally:
        beside.unlink(missing_ok=True)
    return _read(file)


def rotate(home: Path) -> str:
    """Give a home another token; the one before is good for nothing from now on, nor is anything made from it.

    Raises:
        StoreUnusable: It cannot be written.
    """
    file = sc.prepare_home(token_file(home).parent) / "token"
    beside = _write_beside(file)
    try:
        beside.replace(file)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise sc.StoreUnusable(f"the token file {str(file)!r} cannot be changed: {error.strerror}") from error
    return _read(file)


def scoped_token(home: Path, access: Access, *, expires_at: int) -> str:
    """Make a token that lets its bearer do no more than `access`, until then.

    Raises:
        InvalidInput: It would be good for too long, or for too many sessions.
        StoreUnusable: The home has no token that can be used.
    """
    if expires_at > sc.now_ms() + MAX_SCOPED_MS:
        raise sc.InvalidInput("a token with fewer rights is good for 30 days at most", field="expires_at")
    if access.sessions is not None and not 0 < len(access.sessions) <= _MOST_SESSIONS:
        raise sc.InvalidInput(f"name 1 to {_MOST_SESSIONS} sessions", field="sessions")
    said = {
        "id": secrets.token_hex(4),
        "role": access.role,
        "sessions": None if access.sessions is None else sorted(access.sessions),
        "expires_at": expires_at,
    }
    payload = _to_text(sc.encode(said))
    return f"{_SCOPED}{payload}.{_to_text(_seal(_sealing_key(ensure_token(home)), payload))}"


class TokenKeeper:
    """Tells good tokens from bad ones, without knowing them; sees at once when the home has another one."""

    def __init__(self, home: Path) -> None:
        self.generation = 0
        self._home = home
        self._hash = b""
        self._key = b""
        self._seen: tuple[int, int] | None = None
        self._look(ensure_token(home))

    def refresh(self) -> int:
        """Look whether the token has changed, and return the number of the present one.

        A token that is gone, or that others may have read, lets nobody in.
        """
        seen = _state_of(token_file(self._home))
        if seen != self._seen:
            try:
                self._look(_read(token_file(self._home)))
            except (OSError, sc.StoreUnusable):
                self._hash = self._key = b""
                self._seen = seen
                self.generation += 1
        return self.generation

    def credential_of(self, token: str) -> Credential | None:
        """Return what a token allows; nothing if it is not a good one."""
        generation = self.refresh()
        if not self._hash or len(token) > _MOST_CHARS or not token.isascii():
            return None
        if token.startswith(_SCOPED):
            return self._scoped(token.removeprefix(_SCOPED), generation)
        if not hmac.compare_digest(_hash_of(token), self._hash):
            return None
        return Credential(id="token", kind="token", access=EVERYTHING, generation=generation)

    def _look(self, token: str) -> None:
        self._seen = _state_of(token_file(self._home))
        self._hash, self._key = _hash_of(token), _sealing_key(token)
        self.generation += 1

    def _scoped(self, token: str, generation: int) -> Credential | None:
        payload, _, seal = token.partition(".")
        if not hmac.compare_digest(_to_text(_seal(self._key, payload)).encode(), seal.encode()):
            return None
        try:
            said = sc.decode(_from_text(payload), sc.JsonObject)
        except (sc.ProtocolError, binascii.Error):  # sealed by us, so this is one of another version
            return None
        role, named, expires_at = said.get("role"), said.get("sessions"), said.get("expires_at")
        if role not in {"controller", "observer"} or not isinstance(expires_at, int) or expires_at <= sc.now_ms():
            return None
        sessions = None if named is None else frozenset(map(sc.SessionId, map(str, named)))  # type: ignore[arg-type]
        return Credential(
            id=f"scoped-{said.get('id')}",
            kind="scoped",
            access=Access(role="observer" if role == "observer" else "controller", sessions=sessions),
            generation=generation,
            expires_at=expires_at,
        )


def _write_beside(file: Path) -> Path:
    """Write a new token to a file of its own, so that the real one is never seen half-written."""
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
        raise sc.StoreUnusable(f"the token file {str(file)!r} cannot be made: {error.strerror}") from error
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
                f"others may have read or written the token file {str(file)!r}; delete it, and a new token is made"
            )
        token = os.read(descriptor, _MOST_CHARS).decode("ascii", "replace").strip()
    finally:
        os.close(descriptor)
    if not token.startswith(_PREFIX) or len(token) < len(_PREFIX) + 43:
        raise sc.StoreUnusable(f"the token file {str(file)!r} holds no token; delete it, and a new one is made")
    return token


def _state_of(file: Path) -> tuple[int, int] | None:
    try:
        status = file.lstat()
    except OSError:
        return None
    return status.st_ino, status.st_ctime_ns


def _hash_of(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def _sealing_key(token: str) -> bytes:
    return hmac.digest(token.encode(), b"session-core: tokens with fewer rights", "sha256")


def _seal(key: bytes, payload: str) -> bytes:
    return hmac.digest(key, payload.encode(), "sha256")


def _to_text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _from_text(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
