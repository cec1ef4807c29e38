"""`session-core token`: scoped tokens, as somebody makes, uses and ends them."""

import json
import re
import stat
from contextlib import suppress
from pathlib import Path

import httpx2
import pytest
import trio

import session_core as sc
from frontends.server.access import Access
from frontends.server.daemon.runtime_paths import service_process
from frontends.server.daemon.status import ServiceReport
from frontends.server.http.scoped_tokens import MAX_SCOPED_TOKENS, scoped_tokens_file
from frontends.server.http.tokens import TokenVerifier, ensure_token, issue_token, list_scoped_tokens, scoped_token
from frontends.shared.socket_path import run_folder
from tests.frontends._kept import session_core
from tests.frontends._program import program
from tests.frontends.server.daemon._service import Service, being_the_service, has_been

Said = pytest.CaptureFixture[str]


class Shell:
    """The command line, with what it said last."""

    def __init__(self, capfd: Said) -> None:
        self._capfd = capfd
        self.err = ""

    def __call__(self, *words: str, code: int = 0) -> str:
        """Run a command that ends with this code, and return what it printed."""
        capfd = self._capfd
        capfd.readouterr()
        ended = session_core(*words)
        out, self.err = capfd.readouterr()
        assert code == ended, self.err
        return out.strip()


@pytest.fixture
def shell(capfd: Said) -> Shell:
    """A shell of this test."""
    return Shell(capfd)


def test_a_token_for_one_session(service: Service, shell: Shell) -> None:
    """An observer's token shows its session and no other, acts nowhere, is listed without its secret, and ends."""
    ours = has_been(service.home, "to be shared", "count to 1")
    theirs = has_been(service.home, "not to be shared", "count to 1")
    address = json.loads(shell("status", "--json"))["status"]["address"]

    secret = shell("token", "new", "--session", ours[-6:], "--name", "anna", "--expires", "2h")
    told = shell.err
    (listed,) = [json.loads(line) for line in shell("token", "list", "--json").splitlines()]
    shown = shell("token", "list")

    async def ask(path: str, **said: str) -> int:
        headers = {"authorization": f"Bearer {secret}"}
        async with httpx2.AsyncClient(base_url=address, headers=headers, timeout=60) as client:
            if said:
                return (await client.post(path, json=said)).status_code
            return (await client.get(path)).status_code

    seen = [trio.run(ask, f"/v1/sessions/{each}") for each in (ours, theirs)]

    async def act() -> int:
        return await ask("/v1/commands/send_user_message", session_id=ours, text="hello")

    acted = trio.run(act)
    shell("token", "revoke", listed["id"][:4])
    after = trio.run(ask, f"/v1/sessions/{ours}")

    assert f"It lets its bearer watch {ours[-4:]} until " in told
    assert f"session-core token revoke {listed['id']}" in told
    assert ([ours], "observer", "anna") == (listed["sessions"], listed["role"], listed["name"])
    assert f'{listed["id"]} "anna" observer, {ours[-4:]}, until ' in shown
    assert secret not in shown
    assert ([200, 403], 403, 401) == (seen, acted, after)
    assert "" == shell("token", "list")


@pytest.mark.slow
async def test_whoever_came_in_by_it_is_sent_away(service: Service) -> None:
    """Ending a token ends the feed that was opened with it, within a second or so."""
    address = json.loads((await program("status", "--json")).out)["status"]["address"]
    given, secret = issue_token(service.home, Access(role="observer"), expires_at=sc.now_ms() + 3_600_000)
    said, ended = "", None
    with trio.fail_after(180), suppress(httpx2.RemoteProtocolError):  # cut off, if it is too slow for a last word
        async with (
            httpx2.AsyncClient(headers={"authorization": f"Bearer {secret}"}, timeout=120) as client,
            client.stream("GET", f"{address}/v1/events") as feed,
        ):
            async for text in feed.aiter_text():
                said += text
                if "event: followed" in said and ended is None:
                    ended = await program("token", "revoke", given.id)
    assert ended is not None
    assert 0 == ended.code
    assert {"event: followed", "event: feed", "event: ended"} >= set(re.findall("event: [a-z]+", said))


@pytest.mark.parametrize("address", [None, "http://127.0.0.1:8000"])
def test_a_token_for_a_service_without_http(
    address: str | None, home: Path, shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever makes a token while the service has no HTTP is told so, and how to start it with that."""
    status = sc.wire.ServiceStatus(
        version="1",
        pid=7,
        epoch=sc.Epoch("e"),
        started_at=0,
        home=str(home),
        sessions=0,
        running=0,
        clients=0,
        address=address,
    )

    async def ask(_: Path) -> ServiceReport:
        await trio.lowlevel.checkpoint()
        return ServiceReport(status=status, sessions=(), clients=())

    monkeypatch.setattr("frontends.server.daemon.token_commands.request_report", ask)
    with being_the_service(home):
        shell("token", "new", "--all")

    remark = (
        "The service of this home does not serve HTTP; to let others in: "
        "session-core shutdown, then session-core serve --http"
    )
    assert (address is None) == (remark in shell.err)


def test_where_the_token_is(home: Path, shell: Shell) -> None:
    """`token` alone says where the token is and never shows it; `token show` does, and `token rotate` makes another."""
    assert str(home / "run" / "token") == shell("token")
    assert "It is created when it is first needed." in shell.err
    assert not home.exists(), "nothing is made by looking"
    secret = shell("token", "show")
    first = issue_token(home, Access(), expires_at=sc.now_ms() + 60_000)[1]
    quiet = shell("token"), shell.err
    again = shell("token", "rotate")

    assert secret.startswith("sct_")
    assert secret not in "".join(quiet)
    assert "1 scoped token: session-core token list" in quiet[1]
    assert again not in {secret, ""}
    assert TokenVerifier(home).credential_of(first) is None, "a new token of the home ends all"
    assert "" == shell("token", "list")
    assert again == shell("serve", "--token")


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("new",), "choose the sessions: --session ID, or --all"),
        (("new", "--all", "--session", "abcd"), "--all means all sessions"),
        (("new", "--session", "abcd"), "there is no session 'abcd'"),
        (("new", "--all", "--expires", "31d"), "at most 30 days"),
        (("new", "--all", "--expires", "0h"), "'0h' is not a time such as 30m, 2h or 7d"),
        (("new", "--all", "--expires", "soon"), "'soon' is not a time"),
        (("new", "--all", "--name", "a\nb"), "a name is one line of at most 60 characters"),
        (("new", "--all", "--role", "king"), "invalid choice: 'king'"),
        (("revoke", "abcd"), "there is no valid token 'abcd'"),
        (("revoke",), "the following arguments are required: ID"),
    ],
)
def test_slips(words: tuple[str, ...], complaint: str, shell: Shell, home: Path) -> None:
    """What makes no sense is told in one line, and no token is made."""
    assert "" == shell("token", *words, code=2)
    assert complaint in shell.err
    assert 1 == shell.err.count("\n")
    assert not scoped_tokens_file(home).exists()


def test_a_home_may_be_named_before_the_task(tmp_path: Path, home: Path, shell: Shell) -> None:
    """`token --home DIR list` is about that home, as `token list --home DIR` is, and not about the usual one."""
    other = tmp_path / "other"
    given, _ = issue_token(other, Access(role="observer"), expires_at=sc.now_ms() + 60_000)
    assert given.id in shell("token", "--home", str(other), "list")
    assert given.id in shell("token", "list", "--home", str(other))
    assert "" == shell("token", "list")


@pytest.mark.slow
def test_the_list_is_private_bounded_and_decides(home: Path) -> None:
    """The list holds no secret, is ours alone, takes so many and no more; a token that is not in it is no good."""
    secret = scoped_token(home, Access(role="observer"), expires_at=sc.now_ms() + 60_000)
    keeper = TokenVerifier(home)
    good = keeper.credential_of(secret)
    assert good is not None
    assert keeper.is_good(good)
    text = scoped_tokens_file(home).read_text()
    mode = stat.S_IMODE(scoped_tokens_file(home).stat().st_mode)
    for _ in range(MAX_SCOPED_TOKENS - 1):
        scoped_token(home, Access(), expires_at=sc.now_ms() + 60_000)
    with pytest.raises(sc.Conflict, match="revoke some of them first"):
        scoped_token(home, Access(), expires_at=sc.now_ms() + 60_000)
    scoped_tokens_file(home).write_text("{}")

    assert 0o600 == mode
    assert not {secret, secret.rpartition(".")[2], ensure_token(home)} & set(text.split('"'))
    assert keeper.credential_of(secret) is None
    assert not keeper.is_good(good)
    with pytest.raises(sc.StoreUnusable, match="is not a list of tokens; delete it"):
        list_scoped_tokens(home)


def test_a_link_in_place_of_the_folder_is_refused(tmp_path: Path, home: Path, shell: Shell) -> None:
    """A `run` that leads elsewhere is refused by whoever would serve, look or make a token there."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    elsewhere.chmod(0o755)
    home.mkdir(mode=0o700)
    (home / "run").symlink_to(elsewhere)
    for words in (
        ("serve", "--foreground"),
        ("serve",),
        ("status",),
        ("shutdown",),
        ("token", "show"),
        ("token", "rotate"),
    ):
        shell(*words, code=1)
        assert "is a link; a service needs a folder of its own there: remove the link" in shell.err
    with pytest.raises(sc.StoreUnusable):
        run_folder(home)
    with pytest.raises(sc.StoreUnusable):
        service_process(home)
    assert ([], 0o755) == (list(elsewhere.iterdir()), stat.S_IMODE(elsewhere.stat().st_mode))
