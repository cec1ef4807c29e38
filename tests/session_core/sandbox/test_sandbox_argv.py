"""The command line of a sandbox, word for word, and the plan behind it."""

from pathlib import Path

import attrs
import pytest

from session_core.sandbox import bubblewrap
from session_core.sandbox.bubblewrap import Bubblewrap, NoBubblewrap, find_bubblewrap, sandbox_argv
from session_core.sandbox.plan import CannotConfine, ResourceLimits, SandboxPlan, plan_sandbox
from session_core.sandbox.secrets import clean_environment

_LIMITING = (
    'ulimit -c 0 && ulimit -f "$1" && ulimit -n "$2" && { ulimit -u "$3" 2>/dev/null || ulimit -p "$3"; } &&'
    ' ulimit -d "$4" || exit 126; shift 4; exec "$@"'
)
_PLAN = SandboxPlan(
    cwd="/home/me/project",
    writable=("/home/me/project",),
    pinned=("/home/me/project/.git",),
    protected=("/home/me/project/.git/hooks",),
    visible=("/home/me/.data/outputs",),
    links=(("/opt/me/cache", "/home/me/.data/cache"),),
    hidden_folders=("/home/me/.data", "/run"),
    hidden_files=("/home/me/.netrc",),
    environment=(("HOME", "/home/me"), ("PATH", "/usr/bin")),
    limits=ResourceLimits(processes=10, file_bytes=1024, open_files=20, private_bytes=4096, data_bytes=8192),
    filter_file="/home/me/.data/filter",
)


def test_argv() -> None:
    """Every part of a plan is in the command line, parents before what lies in them, and locked at the end."""
    assert sandbox_argv(["make", "test"], _PLAN, Bubblewrap(path="/usr/bin/bwrap")) == [
        "/usr/bin/env", "-i", "HOME=/home/me", "PATH=/usr/bin",
        "/usr/bin/bwrap", "--die-with-parent", "--new-session", "--unshare-user", "--disable-userns", "--unshare-pid",
        "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--unshare-net", "--cap-drop", "ALL",
        "--seccomp", "/home/me/.data/filter",
        "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--remount-ro", "/proc",
        "--size", "4096", "--perms", "1777", "--tmpfs", "/dev/shm",
        "--perms", "0555", "--tmpfs", "/home/me/.data",
        "--symlink", "/opt/me/cache", "/home/me/.data/cache",
        "--ro-bind", "/home/me/.data/outputs", "/home/me/.data/outputs",
        "--ro-bind", "/dev/null", "/home/me/.netrc",
        "--bind", "/home/me/project", "/home/me/project",
        "--bind", "/home/me/project/.git", "/home/me/project/.git",
        "--ro-bind", "/home/me/project/.git/hooks", "/home/me/project/.git/hooks",
        "--perms", "0555", "--tmpfs", "/run",
        "--size", "4096", "--perms", "1777", "--tmpfs", "/tmp",
        "--size", "4096", "--perms", "1777", "--tmpfs", "/var/tmp",
        "--remount-ro", "/dev", "--remount-ro", "/home/me/.data", "--remount-ro", "/run",
        "--chdir", "/home/me/project", "--",
        "/bin/sh", "-c", _LIMITING, "sh", "2", "20", "10", "8", "make", "test",
    ]  # fmt: skip


def test_argv_with_network_and_without_filter() -> None:
    """The network is shared only if the plan says so, and an old bubblewrap is not asked for what it cannot do."""
    usual = sandbox_argv(["x"], _PLAN, Bubblewrap(path="b"))
    open_plan = attrs.evolve(_PLAN, network=True, filter_file=None)
    other = sandbox_argv(["x"], open_plan, Bubblewrap(path="b", stops_namespaces=False))
    left_out = {"--unshare-net", "--seccomp", "--disable-userns", "/home/me/.data/filter"}
    assert set(usual) - set(other) == left_out
    assert set(other) - set(usual) == set()


def test_strictest_rule_wins() -> None:
    """A path that is both writable and hidden is hidden; one that is both writable and protected is read-only."""
    plan = SandboxPlan(cwd="/", writable=("/a", "/b"), protected=("/a",), hidden_folders=("/b",))
    words = " ".join(sandbox_argv(["x"], plan, Bubblewrap(path="b")))
    assert "--ro-bind /a /a" in words
    assert "--tmpfs /b" in words
    assert "--bind /a" not in words.replace("--ro-bind", "")
    assert "--bind /b" not in words


def test_plan(tmp_path: Path) -> None:
    """A plan finds protected things at any depth, what they lead to, and secrets; it follows links of roots."""
    root = tmp_path / "root"
    (root / "a/b/.git/hooks").mkdir(parents=True)
    (root / "config/editor").mkdir(parents=True)
    (root / ".vscode").symlink_to("config/editor")
    (root / "node_modules/p/.idea").mkdir(parents=True)
    (root / "node_modules/q/.git").mkdir(parents=True)
    (root / ".envrc").write_text("")
    (tmp_path / "link").symlink_to("root")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".ssh").symlink_to("elsewhere")
    (tmp_path / ".netrc").write_text("")
    (tmp_path / "data").mkdir()
    plan = plan_sandbox(
        str(tmp_path / "link"),
        user_home=str(tmp_path),
        environment={"PATH": "/bin", "TOKEN": "x"},
        hidden=[str(tmp_path / "data"), str(tmp_path / "missing"), str(root / "later")],
    )
    real = str(root.resolve())
    assert (plan.cwd, plan.writable) == (real, (real,))
    assert plan.pinned == (f"{real}/config",)
    found = (".envrc", "a/b/.git", "config/editor", "node_modules/q/.git")
    assert plan.protected == tuple(f"{real}/{path}" for path in found)
    assert plan.before.missing == {f"{real}/later"}
    assert dict(plan.environment) == {"GIT_DISCOVERY_ACROSS_FILESYSTEM": "1", "PATH": "/bin", "TMPDIR": "/tmp"}
    if str(tmp_path.resolve()).startswith("/tmp/"):  # all of it is behind the private /tmp then
        assert not [path for path in plan.hidden_folders if path.startswith(str(tmp_path))]


def test_read_only_plan(tmp_path: Path) -> None:
    """A read-only plan has nothing writable, shows the root, and has nothing to protect."""
    plan = plan_sandbox(str(tmp_path), user_home="/nobody", environment={}, read_only=True)
    assert (plan.writable, plan.protected, plan.pinned) == ((), (), ())
    assert str(tmp_path.resolve()) in plan.visible


@pytest.mark.parametrize("trouble", ["whole disk", "missing root"])
def test_what_cannot_be_confined(tmp_path: Path, trouble: str) -> None:
    """What no sandbox can keep is refused, in words that name the path."""
    root = {"whole disk": "/", "missing root": str(tmp_path / "no")}[trouble]
    words = {"whole disk": "whole disk", "missing root": "not a folder"}[trouble]
    with pytest.raises(CannotConfine, match=words):
        plan_sandbox(root, user_home="/nobody", environment={})


def test_clean_environment() -> None:
    """Only names on the list are handed on, so that a secret of any name stays behind."""
    given = {
        "PATH": "/p", "HOME": "/h", "LC_ALL": "C", "AWS_SECRET_ACCESS_KEY": "x", "ANTHROPIC_API_KEY": "x",
        "LANG": "y" * 99_999, "SSH_AUTH_SOCK": "x", "LD_PRELOAD": "x", "DBUS_SESSION_BUS_ADDRESS": "x", "BASH_ENV": "x",
        "TMPDIR": "/elsewhere", "PYTHONPATH": "x", "GIT_DIR": "x", "DOCKER_HOST": "x", "HTTPS_PROXY": "http://me:word@proxy",
    }  # fmt: skip
    always = {"TMPDIR": "/tmp", "GIT_DISCOVERY_ACROSS_FILESYSTEM": "1"}
    assert clean_environment(given) == {"HOME": "/h", "LC_ALL": "C", "PATH": "/p", **always}
    assert clean_environment({}) == {"PATH": "/usr/local/bin:/usr/bin:/bin", **always}


async def test_bubblewrap_that_is_missing_or_broken(tmp_path: Path) -> None:
    """Where bubblewrap is missing or fails, the answer says why, in one line."""
    assert await find_bubblewrap(str(tmp_path)) == NoBubblewrap(
        reason="bubblewrap is not installed; install the package called bubblewrap"
    )
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "bwrap").write_text("#!/bin/sh\necho first >&2\necho no namespaces today >&2\nexit 1\n")
    (broken / "bwrap").chmod(0o755)
    assert await find_bubblewrap(str(broken)) == NoBubblewrap(
        reason="bubblewrap is installed but does not work here: no namespaces today"
    )


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            "bwrap: No permissions to create new namespace. See <https://example.org/bubblewrap> or <file:///doc/README>.",
            "the system does not let it create namespaces",
        ),
        (
            "bwrap: Creating new namespace failed: Operation not permitted",
            "the system does not let it create namespaces",
        ),
        ("bwrap: setting up uid map: Permission denied", "the system does not let it create namespaces"),
        (
            "bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted",
            "the system does not let it create namespaces",
        ),
        ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", "Can't mount proc on /newroot/proc"),
    ],
)
async def test_why_it_does_not_work_is_short(tmp_path: Path, said: str, reason: str) -> None:
    """What bubblewrap says of a refusal is told in a few words of our own, without addresses."""
    (tmp_path / "bwrap").write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{said}\nEND\nexit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    found = await find_bubblewrap(str(tmp_path))

    assert isinstance(found, NoBubblewrap)
    assert found.reason.startswith(f"bubblewrap is installed but does not work here: {reason}")
    assert "://" not in found.reason


async def test_bubblewrap_that_was_too_slow_is_tried_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """That it was too slow, could not be started or was not there is said, and not taken for an answer for ever."""
    assert isinstance(await find_bubblewrap(str(tmp_path)), NoBubblewrap)
    (tmp_path / "bwrap").write_text("#!/no/such/program\n")
    (tmp_path / "bwrap").chmod(0o755)
    with monkeypatch.context() as patched:
        patched.setattr(bubblewrap, "_PATIENCE_SECONDS", 0)
        assert await find_bubblewrap(str(tmp_path)) == NoBubblewrap(
            reason="bubblewrap is installed but could not be tried out: it did not finish within 0 seconds"
        )
    (tmp_path / "bwrap").write_text("#!/bin/sh\nexit 42\n")
    assert await find_bubblewrap(str(tmp_path)) == Bubblewrap(path=str(tmp_path / "bwrap"))


async def test_bubblewrap_is_tried_once(tmp_path: Path) -> None:
    """An old bubblewrap is used without what it cannot do, and is asked only once."""
    (tmp_path / "bwrap").write_text(
        f'#!/bin/sh\necho x >> {tmp_path}/calls\ncase "$*" in *--disable-userns*) exit 1;; esac\nexit 42\n'
    )
    (tmp_path / "bwrap").chmod(0o755)
    for _ in range(2):
        found = await find_bubblewrap(str(tmp_path))
        assert found == Bubblewrap(path=str(tmp_path / "bwrap"), stops_namespaces=False)
    assert (tmp_path / "calls").read_text() == "x\nx\n"
