"""Credentials from logins to providers of extensions: tokens, in one private file in the home.

They are only for the extension that obtained them: one with the same name in another folder does not get them. They
never reach a journal, a log or a message. Reading and writing the file blocks: call it in a thread.
"""

import json
from pathlib import Path
from typing import Any, Final

import attrs

from session_core import limits
from session_core.errors import ProtocolError, StoreUnusable
from session_core.providers.secrets import Secret
from session_core.sep.protocol.fields import DocumentFields, InvalidDocumentField, size_of
from session_core.storage.private_table import PrivateTable

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
    """All credentials, stored in one private file, or only in memory if there is none."""

    def __init__(self, file: Path | None = None) -> None:
        self.file = file
        self._logins: PrivateTable[LoginKey, StoredCredentials] = PrivateTable(
            file, parse=_parse_logins, build=_build_document, explain=_explain, most=_MAX_FILE_BYTES
        )

    @property
    def remark(self) -> str | None:
        """Return what was wrong with the file when it was last read; nobody is logged in then."""
        return self._logins.remark

    def find(self, login: LoginKey) -> StoredCredentials | None:
        """Return the stored credentials, if any."""
        return self._logins.read().get(login)

    def all(self) -> tuple[LoginKey, ...]:
        """Return the owners of all credentials, the oldest first."""
        return tuple(self._logins.read())

    def save(self, login: LoginKey, credentials: StoredCredentials) -> None:
        """Store credentials; if there are too many, the oldest are dropped.

        Raises:
            StoreUnusable: The file cannot be read, or not be written.
        """
        with self._logins.change() as logins:
            logins.pop(login, None)
            while len(logins) >= limits.MAX_CREDENTIALS:
                del logins[next(iter(logins))]
            logins[login] = credentials

    def forget(self, login: LoginKey) -> bool:
        """Delete credentials; returns whether there were any.

        Raises:
            StoreUnusable: The file cannot be read, or not be written.
        """
        with self._logins.change() as logins:
            return logins.pop(login, None) is not None


def _build_document(logins: dict[LoginKey, StoredCredentials]) -> dict[str, Any]:
    entries = [{**attrs.asdict(login), "credentials": each.wire()} for login, each in logins.items()]
    return {"format": _FORMAT, "logins": entries}


def _explain(file: Path, error: Exception) -> str:
    if isinstance(error, StoreUnusable):  # it was not read at all
        return f"logins to extension providers are not used: {error.message}"
    # What was read must not appear in any text.
    return f"{str(file)!r} is damaged, so log in to the providers of extensions again"


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
