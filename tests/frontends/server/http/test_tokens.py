"""The token of a home and scoped tokens."""

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import trio

import session_core as sc
from frontends.server.access import EVERYTHING, Access
from frontends.server.http import tokens
from frontends.server.http.scoped_tokens import GivenToken, read_scoped_tokens
from frontends.server.http.tokens import (
    MAX_SCOPED_MS,
    TokenVerifier,
    ensure_token,
    rotate,
    scoped_token,
    token_file,
)
from session_core.ids import new_session_id
from tests.frontends.server.http._listener import open_listener

A, B = new_session_id(), new_session_id()


def soon() -> int:
    return sc.now_ms() + 60_000


def test_a_token_is_made_once_and_kept_private(tmp_path: Path) -> None:
    """The first call makes 256 random bits in a file of mode 0600, in a folder of mode 0700, and later ones read it."""
    token = ensure_token(tmp_path)

    file = token_file(tmp_path)
    assert token == ensure_token(tmp_path) == file.read_text().strip()
    assert 0o600 == stat.S_IMODE(file.stat().st_mode)
    assert 0o700 == stat.S_IMODE(file.parent.stat().st_mode)
    assert len(token.removeprefix("sct_")) >= 43
    assert [file] == list(file.parent.iterdir())


def test_a_umask_takes_nothing_away_and_gives_nothing(tmp_path: Path) -> None:
    """The mode is 0600 whatever the umask."""
    before = os.umask(0o777)
    try:
        ensure_token(tmp_path)
    finally:
        os.umask(before)

    assert 0o600 == stat.S_IMODE(token_file(tmp_path).stat().st_mode)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o622])
def test_a_token_that_others_may_know_is_refused(tmp_path: Path, mode: int) -> None:
    """A file that others could read or write is not used, and the message says what to do."""
    ensure_token(tmp_path)
    token_file(tmp_path).chmod(mode)

    with pytest.raises(sc.StoreUnusable, match="delete it"):
        ensure_token(tmp_path)


def test_links_and_other_things_in_its_place_are_refused(tmp_path: Path) -> None:
    """A link, a folder, a pipe or a file without a token is never taken for one, and never written through."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_text("precious")
    file = token_file(tmp_path / "home")
    sc.setup.prepare_home(file.parent)
    makers: list[Callable[[], None]] = [
        lambda: file.symlink_to(elsewhere),
        file.mkdir,
        lambda: os.mkfifo(file, 0o600),
        lambda: file.touch(0o600),
    ]
    for make in makers:
        make()
        with pytest.raises(sc.StoreUnusable):
            ensure_token(tmp_path / "home")
        file.rmdir() if file.is_dir() and not file.is_symlink() else file.unlink()

    assert "precious" == elsewhere.read_text()


def test_only_the_token_is_good(tmp_path: Path) -> None:
    """The token gives all rights; anything else, close or long or strange, gives none."""
    token = ensure_token(tmp_path)
    verifier = TokenVerifier(tmp_path)

    found = verifier.credential_of(token)

    assert found is not None
    assert (EVERYTHING, "token") == (found.access, found.kind)
    for bad in ["", token[:-1], token + "x", token.upper(), "sct_", "scs_", "scs_.", "é", "x" * 10_000, "\0"]:
        assert verifier.credential_of(bad) is None


def test_the_keeper_does_not_keep_the_token(tmp_path: Path) -> None:
    """Nothing in a verifier's memory is the token itself."""
    token = ensure_token(tmp_path)

    assert token not in repr(vars(TokenVerifier(tmp_path)))


def test_a_new_token_ends_the_old_one_at_once(tmp_path: Path) -> None:
    """After a rotation, by this process or another, the old token and all made from it are good for nothing."""
    old = ensure_token(tmp_path)
    scoped = scoped_token(tmp_path, Access(role="observer"), expires_at=soon())
    verifier = TokenVerifier(tmp_path)
    before = verifier.generation
    assert verifier.credential_of(scoped) is not None

    new = rotate(tmp_path)

    assert new != old
    assert verifier.credential_of(old) is None
    assert verifier.credential_of(scoped) is None
    assert verifier.credential_of(new) is not None
    assert verifier.generation > before
    left = {each.name for each in token_file(tmp_path).parent.iterdir()}
    assert {"token", "tokens.json", "tokens.lock"} == left, "nothing half-written"


def test_a_token_that_changes_while_it_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rotation at the very moment in which the one before is noticed is noticed too: the old token is not kept."""
    verifier = TokenVerifier(tmp_path)
    between = rotate(tmp_path)
    read = tokens._read

    def overtaken(file: Path) -> str:
        found = read(file)
        monkeypatch.undo()
        rotate(tmp_path)
        return found

    monkeypatch.setattr(tokens, "_read", overtaken)
    verifier.refresh()

    assert verifier.credential_of(between) is None
    assert verifier.credential_of(ensure_token(tmp_path)) is not None


@pytest.mark.parametrize("spoil", ["unlink", "chmod"])
def test_a_token_that_is_gone_lets_nobody_in(tmp_path: Path, spoil: str) -> None:
    """When the file is removed or opened to others while the server runs, no token is good any more."""
    token = ensure_token(tmp_path)
    verifier = TokenVerifier(tmp_path)

    token_file(tmp_path).unlink() if spoil == "unlink" else token_file(tmp_path).chmod(0o644)

    assert verifier.credential_of(token) is None


def test_a_token_with_fewer_rights_says_what_they_are(tmp_path: Path) -> None:
    """A scoped token gives exactly the rights it was made with, until its time."""
    access = Access(role="observer", sessions=frozenset({A}))
    token = scoped_token(tmp_path, access, expires_at=soon())

    found = TokenVerifier(tmp_path).credential_of(token)

    assert found is not None
    assert (access, "scoped") == (found.access, found.kind)
    with pytest.raises(sc.AccessDenied):
        found.access.check_session(B)
    with pytest.raises(sc.AccessDenied):
        found.access.check_session(None)


def test_a_changed_or_old_scoped_token_is_refused(tmp_path: Path) -> None:
    """Changing any letter of a scoped token, or waiting until its time is over, makes it worthless."""
    good = scoped_token(tmp_path, Access(role="observer", sessions=frozenset({A})), expires_at=soon())
    verifier = TokenVerifier(tmp_path)

    other = {place: "A" if good[place] != "A" else "B" for place in range(len("scs_"), len(good) - 1)}
    changed = [good[:place] + letter + good[place + 1 :] for place, letter in other.items()]

    assert [] == [each for each in changed if verifier.credential_of(each) is not None]
    assert verifier.credential_of(scoped_token(tmp_path, EVERYTHING, expires_at=sc.now_ms() - 1)) is None


def test_a_scoped_token_of_another_home_is_refused(tmp_path: Path) -> None:
    """A token made from the token of another home lets nobody in here."""
    foreign = scoped_token(tmp_path / "one", EVERYTHING, expires_at=soon())

    assert TokenVerifier(tmp_path / "two").credential_of(foreign) is None


def test_scoped_tokens_are_bounded(tmp_path: Path) -> None:
    """A scoped token cannot be made for longer than a month, for no session, or for too many."""
    many = frozenset(new_session_id() for _ in range(65))
    for access, until in [
        (EVERYTHING, sc.now_ms() + MAX_SCOPED_MS + 60_000),
        (Access(sessions=frozenset()), soon()),
        (Access(sessions=many), soon()),
    ]:
        with pytest.raises(sc.InvalidInput):
            scoped_token(tmp_path, access, expires_at=until)


async def test_the_list_of_tokens_is_read_in_a_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request after the list has changed is judged by the new one, which is read where it keeps nobody waiting."""
    threads: list[int] = []

    def noting(home: Path, of: str) -> tuple[GivenToken, ...]:
        threads.append(threading.get_ident())
        return read_scoped_tokens(home, of)

    async with open_listener(tmp_path) as opened:
        monkeypatch.setattr(tokens, "read_scoped_tokens", noting)
        scoped = await trio.to_thread.run_sync(
            lambda: scoped_token(opened.home, Access(role="observer"), expires_at=soon())
        )
        async with opened.client(scoped) as client:
            assert 200 == (await client.get("/v1/service")).status_code
    assert threads
    assert threading.get_ident() not in threads


def test_the_list_keeps_its_format(tmp_path: Path) -> None:
    """The names in the file of the list are those of older versions: their tokens stay valid."""
    expires_at = sc.now_ms() + 60_000
    token, _ = tokens.issue_token(tmp_path, Access(role="observer"), expires_at=expires_at)
    stored = (token_file(tmp_path).parent / "tokens.json").read_bytes()
    assert stored.startswith(b'{"type":"__given_tokens","tokens":[{"type":"given_token","id":"' + token.id.encode())
