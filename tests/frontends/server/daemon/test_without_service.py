"""The commands about a running service where none runs, and words that make no sense."""

import json
import os
from pathlib import Path

import pytest

import session_core as sc
from frontends.server.daemon.command import naming_options
from frontends.server.daemon.messages import host_and_port
from tests.frontends._kept import keep, session_core

Said = pytest.CaptureFixture[str]


def test_nothing_runs(home: Path, capfd: Said) -> None:
    """`watch` and `--login` say how to start a service, `stop` has nothing to do; a slip in the id comes first."""
    keep(home, "count to 1")
    for arguments in (("watch",), ("watch", "--all"), ("serve", "--login")):
        assert 2 == session_core(*arguments)
        said = capfd.readouterr().err
        assert said.startswith("session-core: no service runs for this home, so there is nothing to ")
        assert "to start one: session-core serve" in said
    for arguments in (("stop",), ("stop", "count to 1")):
        assert 3 == session_core(*arguments)
        assert capfd.readouterr().out.startswith("Nothing is running: there is no service for ")
    assert 2 == session_core("stop", "count to 2")
    assert "there is no session 'count to 2'" in capfd.readouterr().err


@pytest.mark.parametrize(("field", "option"), [("port", "--http 0 "), ("tls", "--tls CERT KEY")])
def test_a_refused_listener_names_the_option(field: str, option: str) -> None:
    """What is wrong with the listener for HTTP is told with the option that puts it right."""
    with pytest.raises(sc.Unavailable, match=f"it is in use .*{option}"), naming_options():
        raise sc.Unavailable("it is in use", field=field)


def test_status_of_a_home_in_other_hands(home: Path, capfd: Said) -> None:
    """`status` says with 3 that no service runs, and who uses the home instead; `stop` does so too."""
    keep(home, "count to 1")
    lock = sc.setup.HomeLock.acquire(sc.setup.prepare_home(home))
    try:
        assert 2 == session_core("stop", "count to 1")
        stop = capfd.readouterr().err
        assert 3 == session_core("status")
        people = capfd.readouterr().out
        assert 3 == session_core("status", "--json")
        programs = json.loads(capfd.readouterr().out)
    finally:
        lock.release()
    assert f"in use by process {os.getpid()} " in people
    assert f"in use by process {os.getpid()} " in stop
    assert (False, os.getpid()) == (programs["serving"], programs["holder"]["pid"])


@pytest.mark.parametrize(
    ("typed", "read"),
    [
        ("0", ("127.0.0.1", 0)),
        ("8080", ("127.0.0.1", 8080)),
        ("localhost:1", ("localhost", 1)),
        ("[::1]:2", ("::1", 2)),
        ("0.0.0.0:65535", ("0.0.0.0", 65535)),
    ],
)
def test_where_to_listen(typed: str, read: tuple[str, int]) -> None:
    """A port alone is of this machine; an address may come before it."""
    assert read == host_and_port(typed)


@pytest.mark.parametrize("typed", ["", ":1", "x", "65536", "-1", "::1:80", "1.2.3.4:", "²"])
def test_where_nobody_can_listen(typed: str, capfd: Said) -> None:
    """Whatever is no port is refused in one line."""
    assert 2 == session_core("serve", f"--http={typed}")
    said = capfd.readouterr().err
    assert said.startswith("session-core: argument --http: ")
    assert 1 == len(said.splitlines())


@pytest.mark.parametrize(
    "arguments",
    [
        ("serve", "--tls", "a", "b"),
        ("serve", "--allow-remote"),
        ("serve", "--url", "https://agents.example.net"),
        ("serve", "--http", "0", "--url", "agents.example.net"),
        ("serve", "--http", "0", "--tls", "/missing/cert", "/missing/key"),
        ("serve", "--http", "0.0.0.0:0"),
        ("serve", "--http", "example.net:0"),
        ("watch", "--all", "abcd"),
        ("watch", *(f"ses_{number}" for number in range(33))),
        ("stop", "abcd", "--scope", "everything"),
        ("serve", "--token", "--login"),
    ],
)
def test_what_does_not_go_together(home: Path, arguments: tuple[str, ...], capfd: Said) -> None:
    """Options that cannot be meant so are refused in one line, before anything is started or made."""
    assert 2 == session_core(*arguments)
    said = capfd.readouterr()
    assert "" == said.out
    assert 1 == len(said.err.splitlines())
    assert not home.exists()
