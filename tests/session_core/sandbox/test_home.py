"""A session whose folder is the user's home directory: start files are protected, kept outputs can be read."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from session_core.sandbox.plan import plan_sandbox
from session_core.sandbox.protected_paths import HOME_PROTECTED
from session_core.sandbox.secrets import hidden_places, secret_paths
from session_core.sandbox.workspace import FileChanged, OutsideWorkspace, ProtectedPath, Workspace
from tests.session_core.sandbox._place import world_base
from tests.session_core.sandbox._sandbox import World, make_world


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home directory with the service's home and its outputs in it."""
    home = tmp_path / "home"
    (home / ".local/share/session-core/outputs").mkdir(parents=True)
    (home / ".local/share/session-core/outputs/shell-1.txt").write_text("kept")
    (home / ".local/share/session-core/token").write_text("secret")
    (home / "dotfiles").mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.delenv("SESSION_CORE_HOME", raising=False)
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)
    return home


def _names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def _workspace(home: Path, *, may_write_protected: bool = False) -> Workspace:
    service = home / ".local/share/session-core"
    return Workspace(
        str(home),
        readable_roots=[str(service / "outputs")],
        hidden=[str(service)],
        may_write_protected=may_write_protected,
    )


def test_kept_outputs_can_be_read(home: Path) -> None:
    """A folder that may be read is open although it lies in a hidden one, and nothing else in that is."""
    workspace = _workspace(home, may_write_protected=True)
    outputs = ".local/share/session-core/outputs"
    assert workspace.read(f"{outputs}/shell-1.txt", max_bytes=10).data == b"kept"
    assert [entry.name for entry in workspace.scan(str(home / outputs), limit=9)] == ["shell-1.txt"]
    assert [path for path, _ in workspace.walk(".", ignore=None, limit=99) if "outputs" in path] == []
    for path in (".local/share/session-core/token", f"{outputs}/../token"):
        with pytest.raises(OutsideWorkspace):
            workspace.read(path, max_bytes=10)


def test_kept_outputs_can_only_be_read(home: Path) -> None:
    """Neither by its own path nor through a link is anything written into a folder that may only be read."""
    workspace = _workspace(home, may_write_protected=True)
    (home / "link").symlink_to(".local/share/session-core/outputs")
    with pytest.raises(PermissionError):
        workspace.write(".local/share/session-core/outputs/new", b"")
    with pytest.raises(OutsideWorkspace):
        workspace.write("link/new", b"")
    with pytest.raises(OutsideWorkspace):
        workspace.remove("link/shell-1.txt")
    assert workspace.read("link/shell-1.txt", max_bytes=10).data == b"kept"


@pytest.mark.parametrize("path", [*HOME_PROTECTED, ".config/systemd/user/evil.service", ".SSH/authorized_keys"])
def test_start_files_need_a_person(home: Path, path: str) -> None:
    """Whether or not they exist, files that run code at the next login are changed by nobody without a yes."""
    target = path + "new" if path.endswith("/") else path
    assert _workspace(home).is_protected(target)
    with pytest.raises(ProtectedPath):
        _workspace(home).write(target, b"evil")
    assert not (home / target).exists()
    _workspace(home, may_write_protected=True).write(target, b"agreed")
    with pytest.raises((ProtectedPath, OutsideWorkspace)):  # a new `.ssh` is hidden from then on
        _workspace(home).remove(target)


def test_start_files_elsewhere(home: Path) -> None:
    """They are protected from a folder above and from one on the way, but not where somebody chose to work in them."""
    (home / ".config/nvim").mkdir(parents=True)
    assert Workspace(str(home.parent)).is_protected("home/.bashrc")
    assert Workspace(str(home / ".config")).is_protected("autostart/x.desktop")
    assert not Workspace(str(home / ".config/nvim")).is_protected("init.lua")
    assert not Workspace(str(home), extra_roots=[str(home / ".config/nvim")]).is_protected(".config/nvim/init.lua")
    assert not Workspace(str(home)).is_protected("project/.bashrc")
    assert not Workspace(str(home / "dotfiles")).is_protected("bashrc")


def test_what_links_lead_to_is_protected(home: Path) -> None:
    """A start file that is a link is protected where it really lies."""
    (home / "dotfiles/bashrc").write_text("# mine")
    (home / ".bashrc").symlink_to("dotfiles/bashrc")
    for path in (".bashrc", "dotfiles/bashrc"):
        assert _workspace(home).is_protected(path)
    assert not _workspace(home).is_protected("dotfiles/other")


def test_a_file_that_moved_behind_a_link(home: Path) -> None:
    """A change that was made for one place is not made in another, even if both are empty."""
    workspace = _workspace(home)
    (home / "a").mkdir()
    (home / "b").mkdir()
    (home / "d").symlink_to("a")
    place = workspace.resolve_target("d/new")
    (home / "d").unlink()
    (home / "d").symlink_to("b")
    with pytest.raises(FileChanged, match="resolves to a different file"):
        workspace.write("d/new", b"x", expected=None, place=place)
    assert _names(home / "b") == []
    workspace.write("d/new", b"x", expected=None, place=workspace.resolve_target("d/new"))
    assert _names(home / "b") == ["new"]


@pytest.mark.parametrize("pointer", ["link", "file", "common"])
def test_git_elsewhere_is_protected(tmp_path: Path, pointer: str) -> None:
    """If `.git` is a link, or a file that names another folder, then that folder is protected, and what it names."""
    (tmp_path / "bare/hooks").mkdir(parents=True)
    (tmp_path / "bare/worktrees/w").mkdir(parents=True)
    if pointer == "link":
        (tmp_path / ".git").symlink_to("bare")
    elif pointer == "file":
        (tmp_path / ".git").write_text("gitdir: ./bare\n")
    else:
        (tmp_path / ".git").write_text(f"gitdir: {tmp_path}/bare/worktrees/w\n")
        (tmp_path / "bare/worktrees/w/commondir").write_text("../..\n")
    workspace = Workspace(str(tmp_path))
    for path in (".git", "bare/hooks/post-checkout", "bare/config", "bare/worktrees/w/config.worktree"):
        assert workspace.is_protected(path), path
    assert not workspace.is_protected("src/config")
    if pointer != "link":
        plan = plan_sandbox(str(tmp_path), user_home="/nobody", environment={})
        assert str(tmp_path.resolve() / "bare") in plan.protected


def test_an_odd_git_file_is_no_trouble(tmp_path: Path) -> None:
    """A `.git` that names nothing, or something that is not there, protects no more than itself."""
    for text in (b"", b"gitdir:", b"gitdir: /no/such\0thing", b"gitdir: ../elsewhere", b"\xff\xfe"):
        (tmp_path / ".git").write_bytes(text)
        assert not Workspace(str(tmp_path)).is_protected("config")
        assert Workspace(str(tmp_path)).is_protected(".git")


def test_secrets_that_come_and_go(home: Path) -> None:
    """What was found in a home directory is remembered only as long as it is so."""
    os.utime(home, ns=(0, 0))
    assert secret_paths(str(home)) == (str(home / ".local/share/session-core"),)
    (home / ".ssh").mkdir()
    assert str(home / ".ssh") in secret_paths(str(home))
    assert str(home / ".ssh") in hidden_places()
    (home / ".ssh").rmdir()
    (home / ".config").symlink_to("dotfiles")
    (home / "dotfiles/gh").mkdir()
    assert secret_paths(str(home)) == (str(home / ".local/share/session-core"), str(home / "dotfiles/gh"))
    shutil.rmtree(home / "dotfiles/gh")
    assert secret_paths(str(home)) == (str(home / ".local/share/session-core"),)


# In a real sandbox.


@pytest.fixture
async def world(require_sandbox: None, request: pytest.FixtureRequest) -> World:
    """A user's home outside of what a sandbox has for itself."""
    base = world_base() / "home" / request.node.name
    shutil.rmtree(base, ignore_errors=True)
    return await make_world(base)


@pytest.fixture(autouse=True)
def _gone(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    shutil.rmtree(world_base() / "home" / request.node.name, ignore_errors=True)


def _read_text(path: Path) -> str | None:
    return path.read_text() if path.is_file() else None


async def test_start_files_in_the_sandbox(world: World) -> None:
    """In a home directory a command changes what it likes but no start file, there or not."""
    (world.user_home / ".config/gh").mkdir(exist_ok=True)
    before = _names(world.user_home)
    there = {path: _read_text(world.user_home / path) for path in HOME_PROTECTED if (world.user_home / path).exists()}
    assert {".bashrc", ".ssh/"} <= set(there)
    plan = plan_sandbox(
        str(world.user_home), user_home=str(world.user_home), environment={}, hidden=[str(world.service_home)]
    )
    tries = " ".join(f"'{path}{'new' if path.endswith('/') else ''}'" for path in HOME_PROTECTED)
    ran = await world.run(
        f"for f in {tries}; do (echo evil > $f) 2>/dev/null && echo GOT $f; rm -rf ${{f%/new}} 2>/dev/null;"
        " mv ${f%%/*} moved 2>/dev/null && echo MOVED $f; done; echo mine > new; mkdir made; echo done",
        plan,
    )
    assert ran.text.endswith("done\n")
    assert "GOT .bashrc" not in ran.text
    made = {path: _read_text(world.user_home / path) for path in HOME_PROTECTED if (world.user_home / path).exists()}
    assert made == there
    assert set(before) <= set(_names(world.user_home))
    assert not (world.user_home / ".config/autostart").exists()


async def test_links_in_a_home_in_the_sandbox(world: World) -> None:
    """Where a start file is a link, neither it nor its target can be changed, and folders beside it still can."""
    home = world.user_home
    (home / "dotfiles").mkdir()
    (home / ".bashrc").rename(home / "dotfiles/bashrc")
    (home / ".bashrc").symlink_to("dotfiles/bashrc")
    plan = plan_sandbox(str(home), user_home=str(home), environment={})
    ran = await world.run(
        "(rm .bashrc; echo evil > dotfiles/bashrc; mv dotfiles/bashrc x; mv dotfiles y; echo evil > .zshrc;"
        " cat .ssh/id_ed25519) 2>/dev/null; echo mine > project/new && echo done",
        plan,
    )
    assert ran.text == "done\n"
    assert (home / ".bashrc").read_text() == "# mine\n"
    assert (home / "project/new").read_text() == "mine\n"
    assert not (home / ".zshrc").exists()


async def test_a_home_of_the_service_that_is_missing(world: World) -> None:
    """A command cannot make the service's home, with settings of its own, before the service does."""
    place = world.user_home / "data/service"
    plan = plan_sandbox(str(world.user_home), user_home=str(world.user_home), environment={}, hidden=[str(place)])
    ran = await world.run("mkdir -p data/service && echo evil > data/service/config.toml; echo done", plan)
    assert ran.text.endswith("done\n")
    assert not place.exists()
