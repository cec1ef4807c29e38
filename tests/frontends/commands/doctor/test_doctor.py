"""`session-core doctor`: what it finds, what it advises, and what it never shows."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
import trio

import session_core as sc
from frontends.commands.doctor import home_checks, system_checks
from frontends.commands.doctor.command import finding_lines
from frontends.commands.doctor.finding import DoctorFinding
from frontends.server.daemon.status import ServiceReport
from frontends.server.telemetry import availability
from frontends.shared.output import Output
from frontends.shared.streams import StandardStreams
from frontends.shared.style import Style
from tests.frontends._extensions import make_extension
from tests.frontends._kept import keep, session_core
from tests.frontends._paper import Paper

Said = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to look at."""
    folder = tmp_path / "project"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def examined(capfd: Said) -> tuple[int, dict[str, list[dict[str, Any]]]]:
    """The exit code, and the findings by area."""
    code = session_core("doctor", "--json")
    report = json.loads(capfd.readouterr().out)
    assert (1 if report["problems"] else 0) == code
    areas: dict[str, list[dict[str, Any]]] = {}
    for each in report["findings"]:
        areas.setdefault(each["area"], []).append(each)
    return code, areas


def states(found: list[dict[str, Any]]) -> list[str]:
    return [each["state"] for each in found]


def test_a_new_home(home: Path, capfd: Said) -> None:
    """Where nothing was ever done there is no problem, every area is looked at, and nothing is made."""
    code, areas = examined(capfd)

    assert 0 == code
    everything = (
        "home",
        "disk",
        "store",
        "service",
        "config",
        "models",
        "extensions",
        "mcp",
        "user",
        "sandbox",
        "terminal",
    )
    assert [*everything, "python", "telemetry", "git"] == list(areas)
    assert not home.exists()


def test_settings_of_a_trusted_folder(home: Path, project: Path, capfd: Said) -> None:
    """What a trusted folder sets is looked at and named, though nothing else is set; no server is needed."""
    settings = project / ".session-core" / "config.toml"
    settings.parent.mkdir()
    settings.write_text("[limits]\nsteps = 3\n", encoding="utf-8")
    assert 0 == session_core("trust", "--yes")
    capfd.readouterr()
    _, areas = examined(capfd)
    assert [f"no errors in {settings}"] == [each["what"] for each in areas["config"]]
    assert ["none runs, and none is needed; to start one: session-core serve"] == [
        each["what"] for each in areas["service"]
    ]


def test_lines_for_people(home: Path, capfd: Said) -> None:
    """Each finding is a line with its state, and the last line counts them."""
    keep(home, "hello")

    assert 0 == session_core("doctor")
    out = capfd.readouterr().out
    assert "✓ store       1 session, all records are sound" in out
    assert out.splitlines()[-1].startswith("0 problems, ")


def test_keys_are_named_and_never_shown(home: Path, monkeypatch: pytest.MonkeyPatch, capfd: Said) -> None:
    """Where a key comes from is told, and nothing of the key itself."""
    home.mkdir(mode=0o700)
    config = home / "config.toml"
    config.write_text('[providers.openai]\nkey = "written-in-the-file"\n', encoding="utf-8")
    config.chmod(0o600)
    monkeypatch.setenv("ANTHROPIC_API_KEY", "kept-in-the-environment")

    _, areas = examined(capfd)
    session_core("doctor")
    assert "anthropic (ANTHROPIC_API_KEY), openai (in the configuration)" in areas["keys"][0]["what"]
    said = json.dumps(areas) + capfd.readouterr().out
    assert not [key for key in ("written-in-the-file", "kept-in-the-environment") if key in said]


def test_a_wrong_configuration(home: Path, capfd: Said) -> None:
    """What is wrong is told with its line, is a problem, and keeps no other check from being made."""
    home.mkdir(mode=0o700)
    (home / "config.toml").write_text("\nmodle = 1\npermission_mode = 7\n", encoding="utf-8")

    code, areas = examined(capfd)
    assert 1 == code
    assert "problem" in states(areas["config"])
    assert "line 3" in json.dumps(areas["config"])
    assert "git" in areas


def test_a_home_for_everybody(home: Path, capfd: Said) -> None:
    """A home that others can enter is a problem, and how to close it is said."""
    home.mkdir()
    home.chmod(0o755)

    code, areas = examined(capfd)
    assert (1, ["problem"]) == (code, states(areas["home"]))
    assert areas["home"][0]["hint"].startswith("chmod 700 ")


def test_a_home_that_is_none(home: Path, capfd: Said) -> None:
    """A file in the place of the home is a problem, and what does not need a home is checked all the same."""
    home.write_text("x", encoding="utf-8")

    code, areas = examined(capfd)
    assert 1 == code
    assert ["home", "user", "sandbox", "terminal", "python", "telemetry", "git"] == list(areas)


def test_a_damaged_store(home: Path, capfd: Said) -> None:
    """A store with records that are not what was written is a problem, and what to do is said."""
    keep(home, "hello there, this is a text")
    store = home / "sessions.sqlite3"
    data = store.read_bytes()
    assert b"hello there" in data
    store.write_bytes(data.replace(b"hello there", b"hollo there"))

    code, areas = examined(capfd)
    assert (1, ["problem"]) == (code, states(areas["store"]))
    assert areas["store"][0]["hint"]


def test_a_large_store_is_not_read_whole(home: Path, monkeypatch: pytest.MonkeyPatch, capfd: Said) -> None:
    """Of a store that would take long only the list is read, and how to check the rest is said."""
    keep(home, "hello")
    monkeypatch.setattr(home_checks, "READ_WHOLE", 10)

    _, areas = examined(capfd)
    assert "1 session can be listed" in areas["store"][0]["what"]
    assert areas["store"][0]["what"].endswith("checked by: session-core store verify")


async def test_a_home_in_use(home: Path) -> None:
    """Whoever uses the home without being a server is named."""
    config = sc.ServiceConfig(store=sc.SqliteStore(home), models={"m": sc.DemoProvider()}, tools=())
    async with sc.open_session_service(config):
        (found,) = await home_checks.check_service(home)

    assert "warning" == found.state
    assert str(os.getpid()) in found.what


@pytest.mark.parametrize(
    ("version", "read_only", "expected"),
    [
        (sc.__version__, None, ("ok", "runs as process 7, with 2 clients, of this version")),
        ("0.0.1", None, ("warning", f"of version 0.0.1; this program is {sc.__version__}")),
        (sc.__version__, "the disk is full", ("problem", "can save nothing: the disk is full")),
    ],
)
async def test_a_running_server(
    version: str, read_only: str | None, expected: tuple[str, str], home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server of another version, and one that cannot save, are told from one that is well."""
    status = sc.wire.ServiceStatus(
        version=version,
        pid=7,
        epoch=sc.Epoch("e"),
        started_at=0,
        home=str(home),
        sessions=1,
        running=0,
        clients=2,
        read_only=read_only,
    )

    async def ask(_: Path) -> ServiceReport:
        await trio.lowlevel.checkpoint()
        return ServiceReport(status=status, sessions=(), clients=())

    monkeypatch.setattr("frontends.server.daemon.status.request_report", ask)
    (found,) = await home_checks.check_service(home)

    assert expected[0] == found.state
    assert expected[1] in found.what


async def test_a_server_that_does_not_answer(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that says nothing is a problem and is not waited for."""

    async def ask(_: Path) -> ServiceReport | None:
        await trio.sleep_forever()

    monkeypatch.setattr("frontends.server.daemon.status.request_report", ask)
    monkeypatch.setattr(home_checks, "ANSWER_S", 0.0)
    (found,) = await home_checks.check_service(home)

    assert ("problem", "session-core shutdown --force") == (found.state, found.hint)


def test_extensions_that_do_not_run(home: Path, capfd: Said) -> None:
    """Extensions that nobody has agreed to are a warning, and those that cannot be read a problem."""
    make_extension(home / "extensions", "fresh")
    (make_extension(home / "extensions", "broken") / "extension.toml").write_text("[[[", encoding="utf-8")
    home.chmod(0o700)

    code, areas = examined(capfd)
    told = [(each["state"], each["what"]) for each in areas["extensions"]]
    assert 1 == code
    assert [
        ("ok", "0 of 2 would run"),
        ("warning", "not trusted yet: fresh"),
        ("problem", "cannot be read: broken"),
    ] == told


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (sc.setup.Bubblewrap(path="/usr/bin/bwrap"), "ok"),
        (sc.setup.Bubblewrap(path="/usr/bin/bwrap", stops_namespaces=False), "warning"),
        (sc.setup.NoBubblewrap(reason="it is not installed"), "warning"),
    ],
)
async def test_the_sandbox(
    found: sc.setup.Bubblewrap | sc.setup.NoBubblewrap, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether commands can be confined is told, and what that means."""

    async def find() -> sc.setup.Bubblewrap | sc.setup.NoBubblewrap:
        await trio.lowlevel.checkpoint()
        return found

    monkeypatch.setattr(sc.setup, "find_bubblewrap", find)
    assert expected == (await system_checks.check_sandbox({}))[0].state


@pytest.mark.parametrize(
    ("there", "said"), [(True, "Landlock keeps abstract sockets"), (False, "Landlock scopes are not available")]
)
async def test_the_second_layer(*, there: bool, said: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What holds besides bubblewrap is told, what commands see of the home directory, and how to add to that."""

    async def find() -> sc.setup.Bubblewrap:
        await trio.lowlevel.checkpoint()
        return sc.setup.Bubblewrap(path="/usr/bin/bwrap")

    monkeypatch.setattr(sc.setup, "find_bubblewrap", find)
    monkeypatch.setattr(sc.setup, "has_landlock_scopes", lambda: there)
    told = [each.what for each in await system_checks.check_sandbox({}) if each.state == "ok"]
    assert told[-2].startswith(said)
    assert "sandbox.readable" in told[-1]


@pytest.mark.parametrize(
    ("files", "environ", "kind", "remedy"),
    [
        ({}, {}, None, "enable unprivileged user namespaces on this machine"),
        ({".dockerenv": ""}, {}, "Docker", "start the container with user namespaces allowed"),
        ({"run/.containerenv": ""}, {}, "Podman", "start the container"),
        ({}, {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}, "Kubernetes", "start the container"),
        ({}, {"container": "lxc"}, "lxc", "start the container"),
        ({"proc/sys/user/max_user_namespaces": "0\n"}, {}, None, "as root: sysctl user.max_user_namespaces=15000"),
        (
            {"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n"},
            {},
            None,
            "as root: sysctl kernel.apparmor_restrict_unprivileged_userns=0",
        ),
    ],
)
def test_containers_and_what_helps(
    tmp_path: Path, files: dict[str, str], environ: dict[str, str], kind: str | None, remedy: str
) -> None:
    """A container is named by its kind, and where bubblewrap is refused the remedy is that of the place."""
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/status").write_text("CapEff:\t000001ffffffffff\n")
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)

    assert kind == system_checks.find_container(environ, tmp_path)
    assert system_checks.sandbox_remedy(environ, tmp_path).startswith(remedy)
    [user] = system_checks.check_user(environ, tmp_path)
    assert user.what.endswith(f"in a container ({kind})") == (kind is not None)


def test_a_terminal_without_symbols() -> None:
    """An encoding that has no symbols is a warning with the way out."""
    out: Output = Paper()
    out.style, out.encoding = Style(symbols=False), "ascii"
    found = list(system_checks.check_terminal(StandardStreams(out=out, err=Paper()), {}))

    assert ["warning", "ok"] == [each.state for each in found]
    assert "UTF-8" in found[0].hint


@pytest.mark.parametrize(
    ("environ", "there", "state", "said"),
    [
        ({}, True, "ok", "off; serve --telemetry sends spans"),
        ({}, False, "ok", "off, and not installed"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://k:s@h"}, True, "ok", "as OTEL_EXPORTER_OTLP_ENDPOINT is set"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://k:s@h"}, False, "warning", "session-core[telemetry]"),
    ],
)
def test_telemetry(
    environ: dict[str, str], there: object, state: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether spans would be sent is told, and what is missing for that, without the address."""
    monkeypatch.setattr(availability, "is_installed", lambda: there)
    (found,) = system_checks.check_telemetry(environ)

    assert (state, True) == (found.state, said in found.what)
    assert "k:s@h" not in repr(found)


def test_a_machine_without_git() -> None:
    """That git is missing is a warning."""
    (found,) = system_checks.check_git({"PATH": "/nowhere"})

    assert "warning" == found.state


def test_foreign_text_steers_no_terminal() -> None:
    """What a finding quotes is made harmless and short."""
    hostile = DoctorFinding(area="config", state="problem", what="\x1b[31mred\n" * 200, hint="\x1b]0;x\x07")

    assert not [line for line in finding_lines(Style(), hostile) if "\x1b" in line or "\n" in line or len(line) > 450]
