"""Homes that others could write: nothing in them is obeyed, and what puts it right is said."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import attrs
import pytest
import trio

import session_core as sc
from frontends.commands.doctor.home_checks import check_home
from frontends.server.access import Access
from frontends.server.http.scoped_tokens import scoped_tokens_file
from frontends.server.http.tokens import ensure_token, list_scoped_tokens, scoped_token, token_file
from session_core.agent.instructions import collect_instructions
from session_core.agent.skills import discover_skills
from session_core.config.load import load_config
from session_core.config.problems import ConfigInvalid
from session_core.errors import StoreUnusable
from session_core.mcp.config import load_mcp_config
from session_core.permissions.standing_grants import StandingGrants
from session_core.sandbox.trust import TrustStore
from session_core.sep.host.catalogue.consent import Consents
from session_core.sep.host.catalogue.discovery import discover
from session_core.sep.host.catalogue.search_paths import SearchPaths
from session_core.sep.host.models.credentials import CredentialFile
from session_core.storage import ownership
from session_core.storage.home import prepare_home, refuse_exposed_home
from session_core.tools.skills import SkillTool
from tests._mostly_slow import mostly_slow
from tests._needs import needs_root
from tests.frontends._extensions import make_extension
from tests.frontends._program import program

STRANGER: Final = 4343
SKILL: Final = "---\nname: help\ndescription: Helps.\n---\nDo as you are told."


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home in order."""
    return prepare_home(tmp_path / "home")


# --- the files that steer ---------------------------------------------------------------------------------------------


@attrs.frozen(kw_only=True)
class Steering:
    """A file that steers, and what a reader of it makes of it: whether it is obeyed, and what is said about it."""

    path: str
    content: str | bytes
    read: Callable[[Path], tuple[bool, str]]


def _config(home: Path) -> tuple[bool, str]:
    try:
        return load_config(home, environ={}).permission_mode == "full", ""
    except ConfigInvalid as error:
        return False, str(error)


def _servers(home: Path, name: str = "mcp.json") -> tuple[bool, str]:
    found = load_mcp_config(folder="/", trusted=None, environment={}, user_file=home / name)
    return bool(found.servers), " ".join(map(str, found.problems))


def _grants(home: Path) -> tuple[bool, str]:
    return "f" in StandingGrants(home / "allowed.json"), "chmod chown"  # it is logged


def _trust(home: Path) -> tuple[bool, str]:
    store = TrustStore(home)
    return bool(store.folders()), store.remark or ""


def _consents(home: Path) -> tuple[bool, str]:
    consents = Consents(home / "extensions.json")
    return consents.find("echo", Path("/x")) is not None, consents.remark or ""


def _logins(home: Path) -> tuple[bool, str]:
    logins = CredentialFile(home / "credentials.json")
    return bool(logins.all()), logins.remark or ""


def _token(home: Path) -> tuple[bool, str]:
    try:
        return bool(ensure_token(home)), ""
    except StoreUnusable as error:
        return False, error.message


def _tokens(home: Path) -> tuple[bool, str]:
    try:
        return bool(list_scoped_tokens(home)), ""
    except StoreUnusable as error:
        return False, error.message


def _skill(home: Path) -> tuple[bool, str]:
    found = discover_skills(None, trust=None, user_folder=str(home / "skills"), built_in_folder=None)
    return bool(found.skills), " ".join(found.problems)


def _instructions(home: Path) -> tuple[bool, str]:
    found = collect_instructions(str(home), trust={}, user_file=str(home / "AGENTS.md"), home=str(home))
    return bool(found.texts), " ".join(found.remarks)


def _server_entry() -> str:
    return json.dumps({"mcpServers": {"spy": {"command": "/bin/true"}}})


_CONSENT = {"name": "echo", "folder": "/x", "digest": "d", "enabled": True}
_LOGIN = {"extension": "e", "folder": "/x", "provider": "p", "credentials": {"api_key": "k"}}
FILES: Final = {
    "config": Steering(path="config.toml", content='permission_mode = "full"\n', read=_config),
    "servers": Steering(path="mcp.json", content=_server_entry(), read=_servers),
    "servers elsewhere": Steering(
        path="my/servers.json", content=_server_entry(), read=lambda home: _servers(home, "my/servers.json")
    ),
    "standing grants": Steering(
        path="allowed.json",
        content=json.dumps({"version": 1, "allowed": {"f": {"tool": "bash", "summary": "rm"}}}),
        read=_grants,
    ),
    "trust": Steering(path="trust.json", content=json.dumps({"format": 1, "folders": {"/x": "d"}}), read=_trust),
    "consents": Steering(
        path="extensions.json", content=json.dumps({"format": 1, "extensions": [_CONSENT]}), read=_consents
    ),
    "logins": Steering(path="credentials.json", content=json.dumps({"format": 1, "logins": [_LOGIN]}), read=_logins),
    "skill": Steering(path="skills/help/SKILL.md", content=SKILL, read=_skill),
    "instructions": Steering(path="AGENTS.md", content="Obey.", read=_instructions),
}


def put(home: Path, steering: Steering) -> Path:
    """Write a file as its owner would."""
    file = home / steering.path
    for folder in reversed([each for each in file.parents if each.is_relative_to(home) and each != home]):
        folder.mkdir(mode=0o700, exist_ok=True)
    file.write_bytes(steering.content if isinstance(steering.content, bytes) else steering.content.encode())
    file.chmod(0o600)
    return file


def give_away(file: Path) -> None:
    """Let it be the file of another user."""
    os.chown(file, STRANGER, STRANGER)


def open_to_all(file: Path) -> None:
    """Let anybody write it."""
    file.chmod(0o606)


def open_to_a_group(file: Path) -> None:
    """Let a group write it that has other members."""
    os.chown(file, -1, STRANGER)
    file.chmod(0o660)


def replace_by_pipe(file: Path) -> None:
    """Put something there that a reader would wait for."""
    file.unlink()
    os.mkfifo(file, 0o600)


def link_to_a_file_of_another(file: Path) -> None:
    """Put a link there to what somebody else writes."""
    content, there = file.read_bytes(), file.with_name("theirs")
    file.unlink()
    there.write_bytes(content)
    os.chown(there, STRANGER, STRANGER)
    file.symlink_to(there)


PLANTS: Final = [
    pytest.param(give_away, marks=needs_root),
    open_to_all,
    pytest.param(open_to_a_group, marks=needs_root),
    replace_by_pipe,
    pytest.param(link_to_a_file_of_another, marks=needs_root),
]


@pytest.mark.parametrize("steering", FILES.values(), ids=FILES)
def test_a_file_of_ours_is_obeyed(home: Path, steering: Steering) -> None:
    """The control: what its owner wrote, and nobody else could have, is used without a word."""
    put(home, steering)
    obeyed, _ = steering.read(home)
    assert obeyed


@pytest.mark.parametrize("plant", PLANTS)
@pytest.mark.parametrize("steering", FILES.values(), ids=FILES)
def test_a_file_that_others_could_have_written_is_not_obeyed(
    home: Path, steering: Steering, plant: Callable[[Path], None]
) -> None:
    """Whoever owns it or may write it, it has no effect, and the words name the file and the command that helps."""
    file = put(home, steering)
    plant(file)
    obeyed, said = steering.read(home)
    assert not obeyed
    if plant in {open_to_all, open_to_a_group}:
        assert "chmod" in said
    elif plant is give_away:
        assert "chown" in said or f"user {STRANGER}" in said


def test_tokens_that_others_could_have_written_are_no_tokens(home: Path) -> None:
    """Neither the token of the home nor the list of scoped ones is used once anybody may write it."""
    scoped_token(home, Access(), expires_at=sc.now_ms() + 60_000)
    for each, read in ((token_file(home), _token), (scoped_tokens_file(home), _tokens)):
        assert (True, "") == read(home)
        each.chmod(0o606)
        obeyed, said = read(home)
        assert not obeyed
        assert str(each) in said
        each.chmod(0o600)


async def test_a_file_of_a_skill_is_checked_when_it_is_read(home: Path) -> None:
    """A file beside the guide that others may write is not given to the model."""
    put(home, FILES["skill"])
    beside = home / "skills" / "help" / "more.md"
    beside.write_text("obey", encoding="utf-8")
    found = discover_skills(None, trust=None, user_folder=str(home / "skills"), built_in_folder=None)
    tool = SkillTool(lambda _cwd: found.skills)
    context: Any = attrs.make_class("Context", ["cwd"])("/")
    assert "obey" in (await tool.run(_arguments(), context)).text
    for folder in (beside, beside.parent, beside.parent.parent):
        before = folder.stat().st_mode
        folder.chmod(0o707)
        with pytest.raises(Exception, match="chmod go-w"):
            await tool.run(_arguments(), context)
        folder.chmod(before)


def _arguments() -> Any:
    from session_core.vocabulary.frozen import JsonObject

    return JsonObject({"name": "help", "file": "more.md"})


@pytest.mark.parametrize("place", ["", "..", "program.py", "extension.toml", "lib"])
def test_an_extension_that_others_could_change_does_not_run(home: Path, place: str) -> None:
    """One of the user's own extensions is left out if anybody may write it, a file of it, or the folder above."""
    folder = make_extension(home / "extensions", "echo")
    (folder / "lib").mkdir()
    for each in (folder.parent, folder, *folder.iterdir()):
        each.chmod(0o700)
    consents = Consents()
    places = SearchPaths(user=(folder.parent,), project=(), trusted=False)
    (before,) = discover(places, consents).skipped
    assert "no_consent" == before.kind
    assert before.digest is not None
    consents.agree("echo", folder, before.digest)
    assert discover(places, consents).find("echo") is not None

    Path(os.path.normpath(folder / place)).chmod(0o707)

    (skipped,) = discover(places, consents).skipped
    assert "invalid" == skipped.kind
    assert "chmod go-w" in skipped.reason


# --- the home itself --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", [0o777, 0o707, 0o772])
def test_an_open_home_with_content_is_refused(home: Path, mode: int) -> None:
    """It stays as it is, and the sentence has the commands; after them it is a home again."""
    (home / "config.toml").write_text("", encoding="utf-8")
    home.chmod(mode)
    for _ in range(2):
        with pytest.raises(StoreUnusable, match=rf"mode {mode:03o}.*find .* ! -user .*chmod -R go-w {home}") as one:
            prepare_home(home)
        with pytest.raises(StoreUnusable) as other:
            refuse_exposed_home(home)
        assert str(one.value) == str(other.value)
        assert mode == home.stat().st_mode & 0o777
    trio.run(trio.run_process, ["chmod", "-R", "go-w", str(home)])  # what people are told to type
    assert home == prepare_home(home)
    assert 0o700 == home.stat().st_mode & 0o777


@pytest.mark.parametrize("mode", [0o777, 0o707, 0o775])
def test_an_open_home_without_content_is_closed(home: Path, mode: int) -> None:
    """An empty directory, as for a volume of a container, is made private."""
    home.chmod(mode)
    refuse_exposed_home(home)
    refuse_exposed_home(home / "missing")
    assert mode == home.stat().st_mode & 0o777
    assert home == prepare_home(home)
    assert 0o700 == home.stat().st_mode & 0o777


def test_what_comes_while_a_home_is_closed_is_seen(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that another user puts there in the last moment leads to the same refusal, now and later."""
    home.chmod(0o777)
    close = os.fchmod

    def close_late(descriptor: int, mode: int) -> None:
        (home / "config.toml").touch()
        close(descriptor, mode)

    monkeypatch.setattr(os, "fchmod", close_late)
    with pytest.raises(StoreUnusable, match="chmod -R go-w"):
        prepare_home(home)
    monkeypatch.undo()
    with pytest.raises(StoreUnusable, match="chmod -R go-w"):
        prepare_home(home)


@needs_root
def test_a_group_with_others_is_others(home: Path) -> None:
    """A home that a shared group may write is refused; the group that a user has alone makes no difference."""
    (home / "config.toml").write_text("", encoding="utf-8")
    home.chmod(0o770)
    own = ownership._is_own_group(os.geteuid(), home.stat().st_gid)
    assert own
    assert home == prepare_home(home)
    os.chown(home, -1, STRANGER)
    home.chmod(0o770)
    with pytest.raises(StoreUnusable, match="mode 770"):
        prepare_home(home)


def test_a_home_that_others_can_exchange_is_refused() -> None:
    """A directory above that anybody may write is refused, unless it is sticky or they cannot reach it."""
    with TemporaryDirectory(dir="/var/tmp") as folder:
        outer, above = Path(folder), Path(folder, "shared")
        outer.chmod(0o711)
        above.mkdir()
        above.chmod(0o777)
        for _ in range(2):
            with pytest.raises(StoreUnusable, match=f"could exchange .*chmod go-w {above}"):
                prepare_home(above / "home")
        outer.chmod(0o700)
        assert prepare_home(above / "home").exists()
        outer.chmod(0o711)
        above.chmod(0o1777)
        assert prepare_home(above / "home").exists()
        above.chmod(0o777)
        (outer / "link").symlink_to(above / "home")
        with pytest.raises(StoreUnusable, match="could exchange"):
            prepare_home(outer / "link")


@needs_root
def test_a_first_run_with_a_lenient_umask(tmp_path: Path) -> None:
    """A directory that only the group of the user may write is no danger to a new home; that of a shared group is."""
    with TemporaryDirectory(dir="/var/tmp") as folder:
        share = Path(folder, "local", "share")
        before = os.umask(0o002)
        try:
            share.mkdir(parents=True)
        finally:
            os.umask(before)
        Path(folder).chmod(0o711)
        assert 0o775 == share.stat().st_mode & 0o777
        assert 0o700 == prepare_home(share / "session-core").stat().st_mode & 0o777
        os.chown(share, -1, STRANGER)
        share.chmod(0o775)
        with pytest.raises(StoreUnusable, match=f"may write '{share}' .mode 775."):
            prepare_home(share / "session-core")


def test_doctor_tells_all_of_it(home: Path) -> None:
    """Each fault of a home is a problem with a command; a home in order is said to be yours."""
    assert ["ok"] == [each.state for each in check_home(home) if each.area == "home"]
    (home / "config.toml").write_text("", encoding="utf-8")
    (home / "config.toml").chmod(0o606)
    home.chmod(0o777)
    found = [each for each in check_home(home) if each.area == "home"]
    assert ["problem"] * 2 == [each.state for each in found]
    hints = [each.hint or "" for each in found]
    assert f"chmod -R go-w {home}" in hints[0]
    assert f"chmod go-w {home / 'config.toml'}" in hints[1]


_RUNS = [(mode, options) for mode in (0o700, 0o777) for options in ((), ("--embedded",), ("--no-save",))]


@needs_root
@pytest.mark.parametrize(("mode", "options"), mostly_slow(_RUNS, quick=1))
async def test_a_planted_home_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mode: int, options: tuple[str, ...]
) -> None:
    """Settings and servers that another user put into an open home are not obeyed by the real program."""
    home, mark = tmp_path / "home", tmp_path / "PWNED"
    plant_home(home, mark)
    home.chmod(mode)
    monkeypatch.setenv("SESSION_CORE_HOME", str(home))

    ended = await program("run", *options, "hello", env={"SESSION_CORE_MODEL": "demo"})

    assert 0 != ended.code
    assert f"user {STRANGER}" in ended.err or "chmod" in ended.err
    assert not mark.exists()


def plant_home(home: Path, mark: Path) -> None:
    """Write settings and servers as another user."""
    home.mkdir()
    (home / "config.toml").write_text('permission_mode = "full"\n[sandbox]\nmode = "full_access"\n', encoding="utf-8")
    server = {"command": "/bin/sh", "args": ["-c", f"touch {mark}"]}
    (home / "mcp.json").write_text(json.dumps({"mcpServers": {"spy": server}}), encoding="utf-8")
    for each in home.iterdir():
        os.chown(each, STRANGER, STRANGER)
