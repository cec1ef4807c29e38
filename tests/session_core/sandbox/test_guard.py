"""What is found protected, what is set aside after a run, and what is left alone."""

import errno
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from pathlib import Path

import attrs
import pytest

from session_core.sandbox import guard, protected_scan, quarantine
from session_core.sandbox.guard import GuardedRun, accept_change, check_neighbours, end_run, forget_run, register_run
from session_core.sandbox.plan import CannotConfine, plan_sandbox
from session_core.sandbox.protected_paths import PROTECTED, is_protected_name
from session_core.sandbox.protected_scan import find_protected
from session_core.sandbox.trust import PROJECT_FILES
from session_core.sandbox.workspace import Workspace


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with a repository in a folder of it."""
    root = tmp_path.resolve() / "root"
    (root / "lib/.git/hooks").mkdir(parents=True)
    (root / "lib/.git/config").write_text("[core]\n")
    (root / "src").mkdir()
    return root


@pytest.fixture(autouse=True)
def _nothing_left() -> Iterator[None]:
    yield
    running = guard._running.copy()
    guard._running.clear()
    guard._pending_remarks.clear()
    assert running == []


def _begin(root: Path, *, approved: bool = False, **more: object) -> GuardedRun:
    before = plan_sandbox(str(root), user_home="/nobody", environment={}, protected=not approved).before
    run = GuardedRun(roots=(str(root),), before=before, approved=approved, outputs=str(root.parent / "outputs/session"))
    register_run(run)
    return run


def _tree(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): str(path.readlink())
        if path.is_symlink()
        else path.read_text()
        if path.is_file()
        else ""
        for path in root.rglob("*")
    }


def _kept(root: Path) -> list[str]:
    folder = root.parent / "set-aside/session"
    return sorted(path.name.rpartition("-")[0] for path in folder.iterdir()) if folder.exists() else []


def test_project_files_are_protected() -> None:
    """Every file of a project that steers an agent and can name programs to run has a protected name."""
    only_text = {"AGENTS.md"}  # instructions, which count only after a person has trusted their exact content
    assert [name for name in PROJECT_FILES if not is_protected_name(name.split("/")[0])] == [*only_text]


@pytest.mark.parametrize("name", [".GIT", ".g\u200dit", ".\uff47it", ".VsCode", "MCP.json", ".Envrc"])
def test_any_spelling(root: Path, name: str) -> None:
    """A name counts in any spelling that some file system takes for it."""
    run = _begin(root)
    (root / "src" / name).mkdir()
    assert len(end_run(run)) == 1
    assert not (root / "src" / name).exists()


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        os.chdir(path.parent)
        made.bind(path.name)


def _dangling(path: Path) -> None:
    path.symlink_to("nowhere")


def _circle(path: Path) -> None:
    path.symlink_to(path.name)


def _closed(path: Path) -> None:
    path.mkdir()
    (path / "config").write_text("evil")
    path.chmod(0)
    path.parent.chmod(0o555)


MAKERS: dict[str, Callable[[Path], object]] = {
    "folder": Path.mkdir,
    "file": Path.touch,
    "fifo": _fifo,
    "socket": _socket,
    "link to nothing": _dangling,
    "link to itself": _circle,
    "closed folder in a closed folder": _closed,
}


@pytest.mark.parametrize("name", MAKERS)
def test_whatever_it_is(root: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever has been made at a protected name is set aside, not followed and not opened."""
    monkeypatch.chdir(root)
    before = _tree(root)
    run = _begin(root)
    MAKERS[name](root / "src/.git")
    remarks = end_run(run)
    assert [("src/.git" in remark, "it was moved to" in remark) for remark in remarks] == [(True, True)]
    assert _tree(root) == before
    assert _kept(root) == ["git"]


def test_what_stays(root: Path) -> None:
    """What is not protected stays, and so does what was there: moved with its folder, or ended with it."""
    (root / "old/.vscode").mkdir(parents=True)
    run = _begin(root)
    (root / "lib").rename(root / "renamed")
    (root / "old/.vscode").rmdir()
    (root / "node_modules/p/.vscode").mkdir(parents=True)
    (root / "src/.gitignore").write_text("")
    assert end_run(run) == ()
    assert (root / "renamed/.git/config").exists()


def test_a_folder_around_it_is_renamed_and_made_again(root: Path) -> None:
    """Whoever renames the folder of a repository and makes another repository in its place gains nothing by it."""
    run = _begin(root)
    (root / "lib").rename(root / "renamed")
    (root / "lib/.git").mkdir(parents=True)
    assert len(end_run(run)) == 1
    assert (root / "renamed/.git/config").exists()
    assert not (root / "lib/.git").exists()


def test_another_file_in_its_place(root: Path) -> None:
    """A protected file that has been replaced, or changed through another name of it, is set aside."""
    for name in (".envrc", "mcp.json", ".mcp.json"):
        (root / name).write_text("mine")
    os.link(root / "mcp.json", root / "src/other")
    run = _begin(root)
    (root / "x").write_text("evil")
    (root / "x").rename(root / ".envrc")
    (root / "src/other").write_text("evil")
    assert sorted("was changed" in remark for remark in end_run(run)) == [True, True]
    assert [(root / name).exists() for name in (".envrc", "mcp.json", ".mcp.json")] == [False, False, True]


def test_git_pointers(root: Path) -> None:
    """What a `.git` file, a common folder, a folder of hooks and included settings lead to is mounted read-only too."""
    (root / "main/worktrees/w").mkdir(parents=True)
    (root / "main/worktrees/w/commondir").write_text("../..\n")
    (root / "hooks.d").mkdir()
    (root / "more.cfg").write_text("")
    (root / "main/config").write_text(
        "[core]\n\thooksPath = hooks.d\n[include]\n\tpath = ../more.cfg\n[x]\n\tpath = ../later\n"
    )
    (root / ".git").write_text("gitdir: main/worktrees/w\n")
    plan = plan_sandbox(str(root), user_home="/nobody", environment={})
    for name in (".git", "main", "hooks.d", "more.cfg", "lib/.git"):
        assert str(root / name) in plan.protected
    assert plan.before.missing == {str(root / "later")}
    run = _begin(root)
    (root / "later").write_text("evil")
    assert len(end_run(run)) == 1
    for path in ("main/x", "hooks.d/pre-commit", "more.cfg", "later"):
        assert Workspace(str(root)).is_protected(path)


def test_a_bare_repository_that_was_there(root: Path) -> None:
    """In a bare repository, what git runs code from is protected, there or missing; pushing to it is not."""
    for name in ("objects", "refs/heads", "hooks"):
        (root / "repo.git" / name).mkdir(parents=True)
    (root / "repo.git/HEAD").write_text("ref: refs/heads/main\n")
    (root / "repo.git/config").write_text("[core]\n")
    run = _begin(root)
    assert set(run.before.mounts()[0]) == {
        str(root / name) for name in ("lib/.git", "repo.git/config", "repo.git/hooks")
    }
    (root / "repo.git/refs/heads/main").write_text("0" * 40)
    (root / "repo.git/config.worktree").write_text("evil")
    (root / "repo.git/commondir").write_text("../src")
    (root / "repo.git/HEAD").write_text("ref: refs/heads/other\n")
    assert len(end_run(run)) == 2
    assert sorted(path.name for path in (root / "repo.git").iterdir()) == ["HEAD", "config", "hooks", "objects", "refs"]


def test_a_folder_that_becomes_a_repository_keeps_its_files(root: Path) -> None:
    """Only what is new in it is set aside, not a project's own folder of settings; names alone make no repository."""
    (root / "config").mkdir()
    (root / "config/mine").write_text("mine")
    run = _begin(root)
    for name in ("objects", "refs", "src/objects", "src/refs"):
        (root / name).mkdir()
    (root / "HEAD").write_text("ref: refs/heads/main")
    (root / "src/HEAD").write_text("headlines")
    end_run(run)
    assert _kept(root) == ["HEAD", "objects", "refs"]
    assert (root / "config/mine").exists()
    assert (root / "src/HEAD").exists()


def test_another_disk(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the outputs cannot take it, or there are none, it gets another name in its place, which means nothing."""
    run = attrs.evolve(_begin(root), outputs=None)
    guard._running[:] = [run]
    (root / "src/.git").mkdir()
    (root / "src/.git/HEAD").touch()
    end_run(run)
    (place,) = (root / "src").iterdir()
    assert place.name.startswith(".git.set-aside-")
    assert [path.name for path in place.iterdir()] == ["HEAD.set-aside"], "git takes it for no repository"


def _make_repository(folder: Path) -> None:
    for name in ("objects", "refs"):
        (folder / name).mkdir(parents=True)
    (folder / "HEAD").write_text("ref: refs/heads/main\n")


def _left_in_place(root: Path, plant: Callable[[Path], object]) -> tuple[Path, str]:
    """Plant something in `.idea` while a command runs whose outputs are elsewhere; return what became of it."""
    run = attrs.evolve(_begin(root), outputs=None)
    guard._running[:] = [run]
    (root / ".idea").mkdir()
    plant(root / ".idea")
    (remark,) = end_run(run)
    (place,) = (path for path in root.iterdir() if path.name.startswith(".idea.set-aside-"))
    return place, remark


def _make_worktree(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "HEAD").touch()
    (folder / "commondir").touch()


def _make_pointer(file: Path) -> None:
    file.parent.mkdir()
    file.write_text("gitdir: /srv/evil\n")


def _make_link(file: Path) -> None:
    file.parent.mkdir()
    file.symlink_to("/srv/evil")


def _make_closed_repository(folder: Path) -> None:
    _make_repository(folder)
    folder.chmod(0o500)
    folder.parent.chmod(0)


def _make_three_folders(folder: Path) -> None:
    for name in "abc":
        (folder / name).mkdir()


REPOSITORIES: dict[str, Callable[[Path], object]] = {
    "evil/.git/HEAD": lambda idea: _make_repository(idea / "evil/.git"),
    "bare/HEAD": lambda idea: _make_repository(idea / "bare"),
    ".git/modules/sub/HEAD": lambda idea: _make_repository(idea / ".git/modules/sub"),
    "a/b/c/HEAD": lambda idea: _make_worktree(idea / "a/b/c"),
    "evil/.git": lambda idea: _make_pointer(idea / "evil/.git"),
    "linked/.git": lambda idea: _make_link(idea / "linked/.git"),
    "closed/.git/HEAD": lambda idea: _make_closed_repository(idea / "closed/.git"),
}


@pytest.mark.parametrize("name", REPOSITORIES)
def test_a_repository_in_what_is_set_aside(root: Path, name: str) -> None:
    """At any depth git takes nothing there for a repository, and the remark says what to rename to have it back."""
    place, remark = _left_in_place(root, REPOSITORIES[name])
    assert not os.path.lexists(place / name)
    assert os.path.lexists(place / f"{name}.set-aside")
    assert f"rename {name + '.set-aside'!r} again" in remark
    assert "could be searched" not in remark


def test_a_name_that_is_taken_keeps_no_repository(root: Path) -> None:
    """Whoever has made something of the new name before gains nothing by it, and loses nothing."""

    def plant(idea: Path) -> None:
        _make_repository(idea / "evil")
        (idea / "evil/HEAD.set-aside/x").mkdir(parents=True)

    place, _ = _left_in_place(root, plant)
    assert sorted(path.name.rpartition("-")[0] or path.name for path in (place / "evil").iterdir()) == [
        "HEAD.set",
        "HEAD.set-aside",
        "objects",
        "refs",
    ]
    assert (place / "evil/HEAD.set-aside/x").is_dir()


def test_a_repository_behind_a_link_stays(root: Path) -> None:
    """No link is followed: what it leads to is not renamed."""
    _make_repository(root.parent / "mine")
    _left_in_place(root, lambda idea: (idea / "link").symlink_to(root.parent / "mine"))
    assert (root.parent / "mine/HEAD").exists()


def test_what_is_too_large_to_be_searched(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bounds it is said that there may be repositories: too many folders, no time, too deep."""
    with monkeypatch.context() as small:
        small.setattr(quarantine, "MAX_FOLDERS", 3)
        _, remark = _left_in_place(root, _make_three_folders)
        assert "searched for repositories (it has more than 3 folders): run no git in it" in remark
    (root / "other").mkdir()
    aside = quarantine.set_aside(str(root), str(root / "other"), None, deadline=0)
    assert aside is not None
    assert aside.unseen == "reading it takes too long"


def test_what_is_too_deep_to_be_searched(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Depth costs no recursion: it is searched as far as paths reach, and the rest is named as not searched."""
    deep = root / "deep"
    deep.mkdir()
    monkeypatch.chdir(deep)
    for _ in range(40):
        Path("x" * 200).mkdir()
        os.chdir("x" * 200)
    monkeypatch.chdir(root)
    aside = quarantine.set_aside(str(root), str(deep), None)
    assert aside is not None
    assert aside.unseen == "File name too long"


def test_a_race_with_links(root: Path) -> None:
    """While folders are swapped for links to another place, nothing of that place is touched."""
    victim = root.parent / "victim"
    (victim / ".git").mkdir(parents=True)
    before = _tree(victim)
    done = threading.Event()
    (root / "src/a").mkdir()

    def swap() -> None:
        while not done.is_set():
            (root / "src/a").rename(root / "src/b")
            (root / "src/a").symlink_to(victim)
            (root / "src/a").unlink()
            (root / "src/b").rename(root / "src/a")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for _ in range(100):
            run = _begin(root)
            with suppress(OSError):
                (root / "src/a/.vscode").mkdir()
            end_run(run)
    finally:
        done.set()
        thread.join()
    assert _tree(victim).keys() - {".vscode"} == before.keys()


@pytest.mark.parametrize("path", ["../victim/x", "..", ".", "/etc/hostname"])
def test_nothing_outside_is_set_aside(root: Path, path: str) -> None:
    """A path that is not in the folder is refused, whoever asks."""
    with pytest.raises(OSError):
        quarantine.set_aside(str(root), str(root / path), None)


# --- runs beside each other -------------------------------------------------------------------------------------------


def test_an_agreed_run_beside_another(root: Path) -> None:
    """What an agreed run has made is not set aside by the check of another one; what came before it is."""
    first = _begin(root)
    (root / ".idea").mkdir()
    agreed = _begin(root, approved=True)
    assert len(check_neighbours(agreed)) == 1
    (root / "src/.git").mkdir()
    (remark,) = end_run(agreed)
    assert remark.endswith("although another command was running too and may have made them: 'src/.git'")
    (root / ".zed").mkdir()
    assert len(end_run(first)) == 1
    assert [(root / name).exists() for name in (".idea", "src/.git", ".zed")] == [False, True, False]


def test_a_file_tool_beside_a_run(root: Path) -> None:
    """What a file tool has changed with an agreement is not set aside."""
    run = _begin(root)
    workspace = Workspace(str(root), may_write_protected=True)
    workspace.write(".vscode/settings.json", b"{}")
    workspace.write("src/.envrc", b"")
    assert end_run(run) == ()
    assert (root / ".vscode/settings.json").exists()


def test_a_link_that_one_check_has_set_aside(root: Path) -> None:
    """A run that was planned while a planted link was there does not put it back."""
    first = _begin(root)
    (root / ".vscode").symlink_to("src")
    second = _begin(root)
    assert len(check_neighbours(second)) == 1
    assert end_run(second) == ()
    assert end_run(first) == ()
    assert not (root / ".vscode").is_symlink()


def test_untold_remarks(root: Path) -> None:
    """What nobody could be told is told with the next run in the same folder, once, and not in another folder."""
    run = _begin(root)
    forget_run(run)
    guard.keep_pending_remarks(run, ["news"])
    elsewhere, here = attrs.evolve(run, roots=("/elsewhere",)), attrs.evolve(run)
    assert (register_run(elsewhere), register_run(here), register_run(attrs.evolve(run))) == ((), ("news",), ())
    guard._running.clear()


def test_untold_remarks_keep_no_state(root: Path) -> None:
    """What waits to be told holds on to the folders only, not to all that was found in them."""
    run = _begin(root)
    forget_run(run)
    guard.keep_pending_remarks(run, ["news"])
    assert list(guard._pending_remarks) == [((str(root),), "news")]


def test_an_agreed_removal_of_a_link(root: Path) -> None:
    """A protected link that was removed with an agreement, by a command or by a file tool, is not put back."""
    for name in (".vscode", ".idea"):
        (root / name).symlink_to("src")
    first, agreed = _begin(root), _begin(root, approved=True)
    (root / ".vscode").unlink()
    assert end_run(agreed) == ()
    Workspace(str(root), may_write_protected=True).remove(".idea")
    assert end_run(first) == ()
    assert sorted(path.name for path in root.iterdir()) == ["lib", "src"]


def test_a_neighbour_swaps_what_is_mounted(root: Path) -> None:
    """A repository that was renamed before its mount was made, and changed then, is not taken for a mere renaming."""
    neighbour, run = _begin(root), _begin(root)
    guard.note_mounts(run, run.before.mounts()[0])
    (root / "lib").rename(root / "renamed")
    assert check_neighbours(run) == ()
    (root / "renamed/.git/config").write_text("evil")
    assert ["'renamed/.git', appeared" in remark for remark in end_run(run)] == [True]
    forget_run(neighbour)
    assert not (root / "renamed/.git").exists()


def test_a_person_saves_a_file(root: Path) -> None:
    """What is mounted read-only and was replaced nevertheless was replaced by a person: it stays, and is told once."""
    (root / ".envrc").write_text("old")
    run = _begin(root)
    guard.note_mounts(run, run.before.mounts()[0])
    (root / "saving").write_text("new")
    (root / "saving").rename(root / ".envrc")
    (remark,) = guard.check_run(run)
    assert "'.envrc', was replaced by another program" in remark
    assert end_run(run) == ()
    assert (root / ".envrc").read_text() == "new"


def test_a_folder_around_a_mount_is_made_again(root: Path) -> None:
    """A program inside can replace what is mounted with a whole folder around it: then it is set aside."""
    run = _begin(root)
    guard.note_mounts(run, run.before.mounts()[0])
    (root / "lib").rename(root / "renamed")
    (root / "lib/.git").mkdir(parents=True)
    assert len(end_run(run)) == 1
    assert not (root / "lib/.git").exists()


def test_a_moved_folder_keeps_its_pointers(root: Path) -> None:
    """A submodule, and a link inside of a folder, that still lead to the same after a renaming stay as they are."""
    (root / "lib/.git/modules/sub").mkdir(parents=True)
    (root / "sub/cfg").mkdir(parents=True)
    (root / "sub/.git").write_text("gitdir: ../lib/.git/modules/sub\n")
    (root / "sub/.vscode").symlink_to("cfg")
    run = _begin(root)
    (root / "sub").rename(root / "moved")
    before = _tree(root)
    assert end_run(run) == ()
    assert _tree(root) == before


def test_a_moved_pointer_that_leads_elsewhere(root: Path) -> None:
    """A pointer and a link whose renaming makes them lead to something else are set aside."""
    for name in ("lib/.git/modules/sub", "sub", "deep/lib/.git/modules/sub", "cfg", "deep/cfg"):
        (root / name).mkdir(parents=True)
    (root / "sub/.git").write_text("gitdir: ../lib/.git/modules/sub\n")
    (root / "sub/.vscode").symlink_to("../cfg")
    run = _begin(root)
    (root / "sub").rename(root / "deep/sub")
    assert len(end_run(run)) == 2
    assert list((root / "deep/sub").iterdir()) == []


def test_an_agreed_change_elsewhere(root: Path) -> None:
    """An agreed change outside of all running commands concerns nobody."""
    accept_change(str(root / ".git"))
    assert guard._running == []


# --- bounds -----------------------------------------------------------------------------------------------------------


def test_more_folders_than_are_looked_at(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound it is said that not all is guarded; what may have been there before is left alone."""
    for number in range(20):
        (root / f"many/{number:02}/below").mkdir(parents=True)
    (root / "many/19/below/.git").mkdir()
    monkeypatch.setattr(protected_scan, "MAX_FOLDERS", 12)
    run = _begin(root)
    assert run.before.incomplete == "it has more than 12 folders"
    monkeypatch.setattr(protected_scan, "MAX_FOLDERS", 1_000)
    (root / "src/.git").mkdir()
    (root / "new/.git").mkdir(parents=True)
    *_, unknown = remarks = end_run(run)
    assert len(remarks) == 3
    assert "kept although the command may have made them" in unknown
    assert "'many/19/below/.git'" in unknown
    assert (root / "many/19/below/.git").exists()
    monkeypatch.setattr(protected_scan, "MAX_FOLDERS", 12)
    run = _begin(root)
    assert ["only partly checked" in remark for remark in end_run(run)] == [True]


def test_more_folders_than_before(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who makes so many folders that a walk is cut short does not get rid of the guard: the next command is refused."""
    (root / "many/0/below/.git").mkdir(parents=True)
    assert end_run(_begin(root)) == ()
    for number in range(20):
        (root / f"many/more{number}").mkdir()
    monkeypatch.setattr(protected_scan, "MAX_FOLDERS", 12)
    for _ in range(2):  # not just once
        with pytest.raises(CannotConfine, match=r"now it has more than 12 folders; .* change_protected"):
            _begin(root)
    found = find_protected([str(root)])
    assert f"{root}/many/0/below/.git" in found.mounts()[0]
    assert end_run(_begin(root, approved=True)) == ()
    monkeypatch.setattr(protected_scan, "MAX_FOLDERS", 1_000)
    assert end_run(_begin(root)) == ()


def test_what_was_found_before_and_is_now_elsewhere(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what an earlier walk found, a walk that is cut short leaves out what is gone or lies behind a new link."""
    for name in ("gone", "linked", "closed"):
        (root / f"many/{name}/.git").mkdir(parents=True)
    find_protected([str(root)])
    (root / "many/gone/.git").rmdir()
    (root / "many/linked").rename(root.parent / "elsewhere")
    (root / "many/linked").symlink_to(root.parent / "elsewhere")
    monkeypatch.setattr(protected_scan, "MAX_FOLDERS", 2)
    found = find_protected([str(root)], left_out=[f"{root}/many/closed"])
    assert found.cut_short
    assert set(found.items) == {f"{root}/lib/.git"}


def test_a_busy_machine(root: Path) -> None:
    """A folder whose end was reached before gets more time, so that a busy machine keeps no command from running."""
    for number in range(300):
        (root / f"many/{number}").mkdir(parents=True)
    assert find_protected([str(root)], seconds=-1).incomplete == "reading it takes too long"
    assert find_protected([str(root)]).incomplete is None
    assert find_protected([str(root)], seconds=-1).incomplete is None


def test_packages_are_visited_last(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many packages are installed, what lies deeper in the project is found, and commands go on."""
    assert find_protected([str(root)]).incomplete is None
    for number in range(20):
        (root / f"node_modules/{number}").mkdir(parents=True)
    (root / "src/a/b/c/.git").mkdir(parents=True)
    monkeypatch.setattr(protected_scan, "MAX_FOLDERS", 12)
    found = find_protected([str(root)])
    assert set(found.items) == {f"{root}/lib/.git", f"{root}/src/a/b/c/.git"}
    assert not found.cut_short
    assert {Path(path).parent for path in found.unvisited} == {root / "node_modules"}


def test_more_than_can_be_mounted(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What no mount keeps is compared after the run, by what git runs code from."""
    monkeypatch.setattr(protected_scan, "MAX_MOUNTS", 1)
    (root / "src/b/.git/hooks").mkdir(parents=True)
    (root / "src/b/.vscode").mkdir()
    run = _begin(root)
    mounted = run.before.mounts()[0]
    assert len(mounted) == 1
    for folder in ("lib/.git", "src/b/.git"):
        (root / folder / "index").write_text("changes all the time")
    assert end_run(run) == ()
    run = _begin(root)
    (root / "src/b/.git/hooks/pre-commit").write_text("evil")
    (root / "src/b/.vscode/tasks.json").write_text("evil")
    assert len(end_run(run)) == 2


def _path_of(opened: int) -> str:
    return str(Path(f"/proc/self/fd/{opened}").readlink())


def test_folders_are_read_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second walk through an unchanged tree reads no folder, and sees every change."""
    monkeypatch.setattr(protected_scan, "_SETTLED_NS", -(10**12))
    find_protected([str(root)])
    read: list[str] = []
    real = os.scandir

    def scan(opened: int) -> object:
        read.append(_path_of(opened))
        return real(opened)

    monkeypatch.setattr(os, "scandir", scan)
    assert set(find_protected([str(root)]).items) == {str(root / "lib/.git")}
    assert read == []
    (root / "src/.git").mkdir()
    assert set(find_protected([str(root)]).items) == {str(root / "lib/.git"), str(root / "src/.git")}
    assert read == [str(root / "src")]


def test_a_folder_is_swapped_while_it_is_looked_into(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered of a folder was in that folder, whatever was in its place while it was looked into."""
    monkeypatch.setattr(protected_scan, "_SETTLED_NS", -(10**12))
    for name in ("src/b", "empty/b"):
        (root / name).mkdir(parents=True)
    run = _begin(root)
    protected_scan._trees.clear()
    (root / "src/b/.git").mkdir()
    ask, scan = os.stat, os.scandir
    swapped: list[bool] = []

    def swap() -> None:
        for old, new in (("src", "aside"), ("empty", "src"), ("aside", "empty")):
            (root / old).rename(root / new)

    def ask_and_swap(path: str, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        found = ask(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)
        if path == "src/b":
            swap()
            swapped.append(True)
        return found

    def scan_and_swap_back(folder: str | int) -> object:
        with scan(folder) as entries:
            found = list(entries)
        if swapped == [True]:
            swap()
            swapped.append(False)
        return nullcontext(found)

    with monkeypatch.context() as patch:
        patch.setattr(os, "stat", ask_and_swap)
        patch.setattr(os, "scandir", scan_and_swap_back)
        find_protected([str(root)])
    assert swapped == [True, False]
    assert ["'src/b/.git', appeared" in remark for remark in end_run(run)] == [True]


@pytest.mark.parametrize("closed", ["src", "."])
def test_what_lies_in_a_folder_that_nobody_may_enter(root: Path, monkeypatch: pytest.MonkeyPatch, closed: str) -> None:
    """Who takes the right to enter a folder hides nothing in it, neither from this check nor from later ones."""
    ask = os.stat

    def ask_as_a_person(path: str, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        """Root may enter any folder."""
        if dir_fd is not None and not ask(f"/proc/self/fd/{dir_fd}/{path.rpartition('/')[0]}").st_mode & 0o100:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)
        return ask(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)

    monkeypatch.setattr(os, "stat", ask_as_a_person)
    run = _begin(root)
    (root / "src/sub/.git").mkdir(parents=True)
    (root / closed).chmod(0o600)
    assert ["'src/sub/.git', appeared" in remark for remark in end_run(run)] == [True]
    run = _begin(root)
    (root / closed).chmod(0o700)
    assert end_run(run) == ()
    assert not (root / "src/sub/.git").exists()


@pytest.mark.slow
def test_a_hundred_thousand_folders(root: Path) -> None:
    """A tree that is far too large delays a command for a moment only, and the result says what is not guarded."""
    for number in range(100_000):
        (root / f"{number // 1000}/{number}").mkdir(parents=True)
    run = _begin(root)
    assert run.before.incomplete is not None
    (root / ".git").mkdir()
    remarks = end_run(run)
    assert "a protected path, '.git', appeared" in remarks[0]
    assert "only partly checked" in remarks[-1]


def test_names_are_sorted_out() -> None:
    """No name is on the list twice, in any spelling."""
    assert len({name.casefold() for name in PROTECTED}) == len(PROTECTED)
