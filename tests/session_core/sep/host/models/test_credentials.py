"""Credentials: what is accepted, what is kept, and that nobody else gets to see it."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from session_core import limits
from session_core.errors import StoreUnusable
from session_core.providers.secrets import redact
from session_core.sep.host.models.credentials import (
    CREDENTIALS_FILE,
    CredentialFile,
    CredentialsInvalid,
    LoginKey,
    StoredCredentials,
    read_credentials,
)

WHOLE = {
    "api_key": "key-12345678",
    "access_token": "access-12345678",
    "refresh_token": "refresh-12345678",
    "expires_at": 1_900_000_000,
    "extra": {"id_token": "inner-12345678", "scopes": ["some-scope-1"]},
}
LOGIN = LoginKey(extension="acme", folder="/extensions/acme", provider="acme")


def test_what_came_goes_back() -> None:
    """An extension gets its credentials back as it sent them; keys of the future are left out."""
    assert read_credentials({**WHOLE, "of_the_future": 1}).wire() == WHOLE
    assert read_credentials({"api_key": "k"}).wire() == {"api_key": "k"}


@pytest.mark.parametrize(
    ("data", "field"),
    [
        (None, "credentials"),
        ([], "credentials"),
        ({}, "credentials"),
        ({"expires_at": 5}, "credentials"),
        ({"access_token": ""}, "credentials"),
        ({"access_token": 5}, "credentials.access_token"),
        ({"access_token": "x", "expires_at": -1}, "credentials.expires_at"),
        ({"access_token": "x", "expires_at": "soon"}, "credentials.expires_at"),
        ({"access_token": "x", "extra": []}, "credentials.extra"),
        ({"access_token": "x" * (limits.MAX_CREDENTIAL_CHARS + 1)}, "credentials"),
    ],
)
def test_what_are_no_credentials(data: Any, field: str) -> None:
    """Anything else is refused, with the way to what is wrong."""
    with pytest.raises(CredentialsInvalid) as caught:
        read_credentials(data)
    assert caught.value.field == field


def test_nothing_shows_them() -> None:
    """Neither their text nor an error tells what is in them, and all of it is masked in foreign texts."""
    credentials = read_credentials(WHOLE)
    for text in (repr(credentials), str(credentials), redact(json.dumps(WHOLE), credentials.secrets)):
        assert "12345678" not in text


def test_newer_ones_keep_the_token_for_renewal() -> None:
    """A token for renewal that is not told again stays; one that is told replaces it."""
    old = read_credentials({"access_token": "a", "refresh_token": "r"})
    assert old.merge_renewed(read_credentials({"access_token": "b"})).wire() == {
        "access_token": "b",
        "refresh_token": "r",
    }
    later = read_credentials({"access_token": "b", "refresh_token": "s"})
    assert old.merge_renewed(later) == later


def test_they_are_kept_privately(tmp_path: Path) -> None:
    """The file and its folder are for their owner only, and another reader finds what was kept."""
    home = tmp_path / "home"
    file = home / CREDENTIALS_FILE
    CredentialFile(file).save(LOGIN, read_credentials(WHOLE))
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(home.stat().st_mode) == 0o700
    again = CredentialFile(file)
    assert again.find(LOGIN) == read_credentials(WHOLE)
    assert again.all() == (LOGIN,)
    assert again.forget(LOGIN)
    assert not again.forget(LOGIN)
    assert CredentialFile(file).find(LOGIN) is None
    assert "12345678" not in file.read_text()


def test_they_belong_to_one_extension(tmp_path: Path) -> None:
    """An extension of the same name in another folder, and another provider, get nothing."""
    file = CredentialFile(tmp_path / "home" / CREDENTIALS_FILE)
    file.save(LOGIN, read_credentials(WHOLE))
    assert file.find(LoginKey(extension="acme", folder="/project/acme", provider="acme")) is None
    assert file.find(LoginKey(extension="acme", folder="/extensions/acme", provider="other")) is None
    assert file.find(LoginKey(extension="other", folder="/extensions/acme", provider="acme")) is None


def test_too_many_are_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest logins make room for new ones, and keeping one again makes it new."""
    monkeypatch.setattr(limits, "MAX_CREDENTIALS", 2)
    file = CredentialFile()
    for provider in ("a", "b", "a", "c"):
        file.save(LoginKey(extension="e", folder="/e", provider=provider), read_credentials({"api_key": "k"}))
    assert [login.provider for login in file.all()] == ["a", "c"]


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"format": 9}', '{"format": 1, "logins": [{"extension": "secret-1"}]}']
)
def test_a_damaged_file_is_set_aside(tmp_path: Path, content: str) -> None:
    """Nobody is logged in then, people are told without a word of what is in it, and it is kept beside a new one."""
    path = tmp_path / "home" / CREDENTIALS_FILE
    path.parent.mkdir(mode=0o700)
    path.write_text(content)
    file = CredentialFile(path)
    assert file.find(LOGIN) is None
    remark = file.remark
    assert remark is not None
    assert "secret-1" not in remark
    file.save(LOGIN, read_credentials(WHOLE))
    assert not file.remark
    assert file.find(LOGIN) == read_credentials(WHOLE)
    assert path.with_suffix(".damaged").read_text() == content


def test_a_link_in_its_place_is_refused(tmp_path: Path) -> None:
    """Credentials are never written to, or read from, what a link leads to."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    target = tmp_path / "elsewhere"
    target.write_text(json.dumps({"format": 1, "logins": []}))
    (home / CREDENTIALS_FILE).symlink_to(target)
    file = CredentialFile(home / CREDENTIALS_FILE)
    assert file.find(LOGIN) is None
    assert file.remark is not None
    with pytest.raises(StoreUnusable, match="remove the link"):
        file.save(LOGIN, read_credentials(WHOLE))
    assert "12345678" not in target.read_text()


def test_a_home_that_cannot_be_used(tmp_path: Path) -> None:
    """A file where the home should be is a typed error."""
    (tmp_path / "home").write_text("")
    with pytest.raises(StoreUnusable):
        CredentialFile(tmp_path / "home" / CREDENTIALS_FILE).save(LOGIN, StoredCredentials())
