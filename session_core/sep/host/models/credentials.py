"""Credentials from logins to providers of extensions: tokens, in one private file in the home.

They are only for the extension that obtained them: one with the same name in another folder does not get them. They
never reach a journal, a log or a message. Reading and writing the file blocks: call it in a thread.
"""

import fcntl
import json
import os
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

import attrs

from session_core import limits
from session_core.errors import ProtocolError, StoreUnusable
from session_core.providers.secrets import Secret
from session_core.sep.protocol.fields import DocumentFields, InvalidDocumentField, size_of
from session_core.storage.home import prepare_home, private_open, read_private, replace_private, store_unusable_error

CREDENTIALS_FILE: Final = "extension-logins.json"
"""The name of the file in the home."""

_FORMAT: Final = 1
_MAX_FILE_BYTES: Final = 64 * 1024 * 1024


class CredentialsInvalid(ProtocolError):
    """The value that an extension returned is not valid credentials; `field` says where."""

    code = "credentials_invalid"


@attrs.frozen(kw_only=True)
class StoredCredentials:
    """The result of a login; `expires_at` is in whole seconds since 1970, `extra` the JSON of all other fields.

    Only `wire` reveals its contents.
    """

    api_key: Secret | None = None
    access_token: Secret | None = None
    refresh_token: Secret | None = None
    expires_at: int | None = None
    extra: Secret | None = None

    @property
    def secrets(self) -> tuple[Secret, ...]:
        """Return everything that must not appear in any text."""
        inner = _texts_in(json.loads(self.extra.reveal())) if self.extra is not None else []
        return tuple(filter(None, (self.api_key, self.access_token, self.refresh_token))) + tuple(map(Secret, inner))

    def merge_renewed(self, later: "StoredCredentials") -> "StoredCredentials":
        """Merge newer credentials; a refresh token that they omit is still valid."""
        return later if later.refresh_token is not None else attrs.evolve(later, refresh_token=self.refresh_token)

    def wire(self) -> dict[str, Any]:
        """Return them as the extension sent them."""
        found: dict[str, Any] = {}
        for name in ("api_key", "access_token", "refresh_token"):
            if (secret := getattr(self, name)) is not None:
                found[name] = secret.reveal()
        if self.expires_at is not None:
            found["expires_at"] = self.expires_at
        if self.extra is not None:
            found["extra"] = json.loads(self.extra.reveal())
        return found


def read_credentials(data: object) -> StoredCredentials:
    """Read the result of a login.

    Raises:
        CredentialsInvalid: It has another shape, is too large, or is empty.
    """
    try:
        fields = DocumentFields(data, "credentials")
        if size_of(data) > limits.MAX_CREDENTIAL_CHARS:
            raise InvalidDocumentField(fields.path, f"are larger than {limits.MAX_CREDENTIAL_CHARS:,} characters")
        found = StoredCredentials(
            api_key=_secret(fields, "api_key"),
            access_token=_secret(fields, "access_token"),
            refresh_token=_secret(fields, "refresh_token"),
            expires_at=fields.integer("expires_at", least=0, most=limits.MAX_INTEGER),
            extra=_extra(fields),
        )
    except InvalidDocumentField as wrong:
        raise CredentialsInvalid(wrong.reason, field=wrong.path) from None
    if found in (StoredCredentials(), StoredCredentials(expires_at=found.expires_at)):
        raise CredentialsInvalid("hold no key and no token", field="credentials")
    return found


@attrs.frozen(kw_only=True)
class LoginKey:
    """The owner of credentials: an extension of this name, in this folder, for one of its providers."""

    extension: str
    folder: str
    provider: str


class CredentialFile:
    """All credentials, stored in one private file, or only in memory if there is none.

    `remark` says what was wrong with the file when it was last read; nobody is logged in then.
    """

    def __init__(self, file: Path | None = None) -> None:
        self.file = file
        self.remark: str | None = None
        self._in_memory: dict[LoginKey, StoredCredentials] = {}

    def find(self, login: LoginKey) -> StoredCredentials | None:
        """Return the stored credentials, if any."""
        return self._read().get(login)

    def all(self) -> tuple[LoginKey, ...]:
        """Return the owners of all credentials, the oldest first."""
        return tuple(self._read())

    def save(self, login: LoginKey, credentials: StoredCredentials) -> None:
        """Store credentials; if there are too many, the oldest are dropped.

        Raises:
            StoreUnusable: The file cannot be written.
        """
        with self._locked_logins() as logins:
            logins.pop(login, None)
            while len(logins) >= limits.MAX_CREDENTIALS:
                del logins[next(iter(logins))]
            logins[login] = credentials

    def forget(self, login: LoginKey) -> bool:
        """Delete credentials; returns whether there were any.

        Raises:
            StoreUnusable: The file cannot be written.
        """
        with self._locked_logins() as logins:
            return logins.pop(login, None) is not None

    @contextmanager
    def _locked_logins(self) -> Generator[dict[LoginKey, StoredCredentials]]:
        """Change the stored credentials, one process at a time; the file is synced, then replaced in one step."""
        if self.file is None:
            yield self._in_memory
            return
        prepare_home(self.file.parent)
        lock = private_open(self.file.with_suffix(".lock"), os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            logins = self._read()
            damaged = self.remark is not None
            yield logins
            if damaged:  # the user may still want tokens from it
                with suppress(OSError):
                    self.file.replace(self.file.with_suffix(".damaged"))
            _write(self.file, logins)
            self.remark = None
        except OSError as error:
            raise store_unusable_error(f"the file {str(self.file)!r} cannot be written", error) from error
        finally:
            os.close(lock)

    def _read(self) -> dict[LoginKey, StoredCredentials]:
        self.remark = None
        if self.file is None:
            return self._in_memory
        if not os.path.lexists(self.file):
            return {}
        try:
            return _parse_logins(json.loads(read_private(self.file, _MAX_FILE_BYTES)))
        except StoreUnusable as refused:  # it was not read at all
            self.remark = f"logins to extension providers are not used: {refused.message}"
            return {}
        except Exception:  # noqa: BLE001 - whatever is wrong; and what was read must not appear in any text
            self.remark = f"{str(self.file)!r} is damaged, so log in to the providers of extensions again"
            return {}


def _write(file: Path, logins: dict[LoginKey, StoredCredentials]) -> None:
    entries = [{**attrs.asdict(login), "credentials": each.wire()} for login, each in logins.items()]
    replace_private(file, json.dumps({"format": _FORMAT, "logins": entries}, indent=1).encode())


def _parse_logins(document: Any) -> dict[LoginKey, StoredCredentials]:
    if not isinstance(document, dict) or document.get("format") != _FORMAT:
        raise ValueError
    found: dict[LoginKey, StoredCredentials] = {}
    for entry in DocumentFields(document).objects("logins", most=limits.MAX_CREDENTIALS):
        login = LoginKey(
            extension=entry.text("extension"),
            folder=entry.text("folder", most=limits.MAX_PATH_CHARS),
            provider=entry.text("provider"),
        )
        found[login] = read_credentials(entry.plain.get("credentials"))
    return found


def _secret(fields: DocumentFields, key: str) -> Secret | None:
    text = fields.text_or_none(key, most=limits.MAX_CREDENTIAL_CHARS, empty=True)
    return Secret(text) if text else None


def _extra(fields: DocumentFields) -> Secret | None:
    if "extra" not in fields:
        return None
    fields.json_object("extra", most=limits.MAX_CREDENTIAL_CHARS)
    return Secret(json.dumps(fields.plain["extra"]))


def _texts_in(plain: object) -> list[str]:
    match plain:
        case str():
            return [plain]
        case dict():
            return [text for each in plain.values() for text in _texts_in(each)]
        case list():
            return [text for each in plain for text in _texts_in(each)]
        case _:
            return []
