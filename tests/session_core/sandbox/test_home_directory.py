"""The home directory: hidden but for what builds need, in real sandboxes, for file tools, and as a decision."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from session_core.sandbox.folder_walk import is_beneath
from session_core.sandbox.home_directory import (
    READABLE_AT_HOME,
    HomeView,
    find_installation,
    find_named_places,
    find_repository,
    view_home,
)
from session_core.sandbox.plan import plan_sandbox
from session_core.sandbox.secrets import SECRET_PATHS
from session_core.sandbox.workspace import OutsideWorkspace, Workspace
from tests.session_core.sandbox._place import world_base
from tests.session_core.sandbox._sandbox import CANARY, World, make_world

KEYS = (
    ".m2/settings.xml", ".gradle/gradle.properties", ".config/containers/auth.json", ".gemini/oauth_creds.json",
    ".config/github-copilot/hosts.json", ".config/goose/secrets.yaml", ".cursor/mcp.json", ".ollama/id_ed25519",
    ".config/age/keys.txt", ".config/hcloud/cli.toml", ".config/solana/id.json", ".bitcoin/wallet.dat",
    ".ethereum/keystore/key", ".config/microsoft-edge/Cookies", ".config/vivaldi/Cookies", ".config/Signal/config.json",
    ".local/share/fish/fish_history", ".local/share/atuin/key", ".composer/auth.json", ".nuget/NuGet/NuGet.Config",
    ".subversion/auth/svn.simple/x", ".Xauthority", ".vnc/passwd", ".msmtprc", ".node_repl_history", ".viminfo",
    # keys beside what is visible, or within
    ".cargo/credentials.toml", ".cargo/credentials", ".cache/huggingface/token", ".local/share/uv/credentials/x.toml",
    ".config/git/credentials", ".git-credentials", ".npmrc", ".yarnrc.yml", ".bundle/config", ".gem/credentials",
    ".hex/hex.config", ".pub-cache/credentials.json", ".conda/aau_token", ".cabal/config", ".stack/config.yaml",
    # names that no list can know
    ".config/some-startup/token", ".local/share/some-startup/db", ".local/state/some-startup/log", ".some-startup",
    ".cache/some-startup/session", ".deno/credentials.json",
)  # fmt: skip
DOCUMENTS = ("Documents/taxes.pdf", "other-project/.env", "mail/inbox", "notes")
TOOLS = (
    ".cargo/registry/index", ".cargo/bin/tool", ".rustup/settings.toml", ".npm/_cacache/x", ".nvm/alias/default",
    ".pyenv/version", ".local/bin/tool", ".local/lib/python3/site-packages/x.py", ".local/share/uv/tools/x",
    ".local/share/pnpm/store", ".local/share/pipx/venvs/x", ".cache/pip/http", ".cache/uv/archive",
    ".cache/go-build/00",
    "go/pkg/mod/x", ".m2/repository/org/x.jar", ".gradle/caches/x", ".gradle/wrapper/dists/x", ".gitconfig",
    ".config/git/config", ".config/git/ignore", ".config/git/attributes",
)  # fmt: skip


def _fill(home: Path, names: tuple[str, ...], text: str) -> None:
    for name in names:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home directory with everything in it."""
    home = tmp_path.resolve() / "home"
    (home / "project").mkdir(parents=True)
    _fill(home, KEYS, CANARY)
    _fill(home, DOCUMENTS, CANARY)
    _fill(home, TOOLS, "tool")
    return home


# --- in a real sandbox ------------------------------------------------------------------------------------------------


@pytest.fixture
async def world(require_sandbox: None, request: pytest.FixtureRequest) -> World:
    """The same outside of what a sandbox has for itself."""
    base = world_base() / "homes" / f"{os.getpid()}-{request.node.name[5:25]}"
    shutil.rmtree(base, ignore_errors=True)
    world = await make_world(base.resolve())
    _fill(world.user_home, KEYS, CANARY)
    _fill(world.user_home, DOCUMENTS, CANARY)
    _fill(world.user_home, TOOLS, "tool")
    return world


@pytest.fixture(autouse=True)
def _gone(request: pytest.FixtureRequest) -> Iterator[None]:
    yield
    shutil.rmtree(world_base() / "homes" / f"{os.getpid()}-{request.node.name[5:25]}", ignore_errors=True)


def _read(names: tuple[str, ...]) -> str:
    return (
        "cd ~; for f in " + " ".join(f"'{name}'" for name in names) + '; do cat "$f" 2> /dev/null && echo " $f"; done'
    )


async def test_keys_and_documents_are_hidden(world: World) -> None:
    """From a project in the home directory a command reads no key, whatever its name, and no document."""
    assert (await world.run(_read((*KEYS, *DOCUMENTS)))).text == ""
    assert CANARY not in (await world.run("grep -rs . ~ /proc/1/root$HOME")).text


async def test_toolchains_are_visible(world: World) -> None:
    """Toolchains, caches and git's settings are read as before, and cannot be changed."""
    assert (await world.run(_read(TOOLS))).text == "".join(f"tool {name}\n" for name in TOOLS)
    ran = await world.run(
        "cd ~; for f in .cargo .local/bin .gitconfig new .config; do echo x >> $f/x || echo x >> $f; done"
    )
    assert "Read-only file system" in ran.text
    assert not (world.user_home / "new").exists()
    assert (world.user_home / ".gitconfig").read_text() == "tool"


async def test_somebody_works_in_the_home_directory(world: World) -> None:
    """A session in the home directory itself sees its files, but no dot file outside of the table."""
    plan = world.plan(root=world.user_home)
    assert (await world.run(_read(KEYS), plan)).text == ""
    assert (await world.run(_read((*TOOLS, *DOCUMENTS)), plan)).text == "".join(
        f"{'tool' if name in TOOLS else CANARY} {name}\n" for name in (*TOOLS, *DOCUMENTS)
    )
    ran = await world.run("echo mine > ~/new; echo mine > ~/.cache/pip/new; cat ~/new ~/.cache/pip/new", plan)
    assert ran.text == "mine\nmine\n"


@pytest.mark.slow
async def test_a_session_above_the_home_directory(world: World) -> None:
    """The same holds for a session in the folder above it."""
    plan = world.plan(root=world.base)
    assert (await world.run(_read(KEYS), plan)).text == ""
    assert (await world.run(_read(TOOLS[:3]), plan)).text == "".join(f"tool {name}\n" for name in TOOLS[:3])


async def test_what_the_person_adds(world: World) -> None:
    """What the person makes readable is, by name, even a key; what lies in a folder keeps its keys hidden."""
    home = world.user_home
    some = world.plan(readable=[str(home / name) for name in ("notes", ".config/some-startup", ".npmrc")])
    assert (await world.run(_read(("notes", ".config/some-startup/token", ".npmrc")), some)).text.count(CANARY) == 3
    assert (await world.run(_read(("Documents/taxes.pdf", ".config/goose/secrets.yaml")), some)).text == ""
    everything = world.plan(readable=[str(home)])
    assert (await world.run(_read(DOCUMENTS), everything)).text.count(CANARY) == len(DOCUMENTS)
    assert (await world.run("cat ~/.ssh/id_ed25519 ~/.netrc ~/.local/service/token", everything)).text.count(
        CANARY
    ) == 0
    token = world.plan(readable=[str(world.service_home), str(world.service_home / "token")])
    assert CANARY not in (await world.run("cat ~/.local/service/token", token)).text


@pytest.mark.slow
async def test_links_in_the_table(world: World) -> None:
    """A toolchain or a settings file may be a link; one that leads to a key or to documents shows nothing."""
    home = world.user_home
    for name in (".gitconfig", ".config/git/ignore"):
        (home / name).unlink()
    (home / "dotfiles").mkdir()
    (home / "dotfiles/gitconfig").write_text("linked")
    (home / ".gitconfig").symlink_to("dotfiles/gitconfig")
    (home / ".config/git/ignore").symlink_to("../../.ssh/id_ed25519")
    shutil.rmtree(home / ".nvm")
    (home / ".nvm").symlink_to("Documents")
    shutil.rmtree(home / ".rustup")
    (world.base / "elsewhere").mkdir()
    (world.base / "elsewhere/settings.toml").write_text("outside")
    (home / ".rustup").symlink_to(world.base / "elsewhere")
    shutil.rmtree(home / ".volta", ignore_errors=True)
    (home / ".volta").symlink_to(".")
    ran = await world.run(
        "cd ~; cat .gitconfig .rustup/settings.toml .config/git/ignore .nvm/taxes.pdf .volta/notes dotfiles/* 2>&-"
    )
    assert ran.text == "linkedoutsidelinked"


@pytest.mark.slow
async def test_keys_behind_a_linked_toolchain(world: World) -> None:
    """If a folder of the table is a link out of the home directory, the keys in it stay hidden."""
    home = world.user_home
    (home / ".cargo").rename(world.base / "cargo")
    (home / ".cargo").symlink_to(world.base / "cargo")
    ran = await world.run(
        f"cat ~/.cargo/credentials.toml ~/.cargo/credentials {world.base}/cargo/cred*; cat ~/.cargo/bin/tool"
    )
    assert CANARY not in ran.text
    assert ran.text.endswith("tool")


async def test_what_the_environment_names(world: World) -> None:
    """A virtual environment and programs elsewhere in the home directory are visible, keys they name are not."""
    home = world.user_home
    _fill(
        home,
        ("venvs/x/pyvenv.cfg", "venvs/x/lib/y", "opt/jdk/release", "tools/run", "cargo/registry", "cert.pem"),
        "tool",
    )
    _fill(home, ("venvs/z", "opt/z", "cargo/credentials.toml"), CANARY)
    environment = {
        "PATH": f"{home}/venvs/x/bin:{home}/tools:{home}/.ssh:{home}:{home}/.aws/..:relative:/usr/bin:/bin",
        "JAVA_HOME": f"{home}/opt/jdk", "CARGO_HOME": f"{home}/cargo", "SSL_CERT_FILE": f"{home}/cert.pem",
        "VIRTUAL_ENV": str(home), "GOPATH": f"{home}/.aws", "HOME": str(home),
    }  # fmt: skip
    (home / "venvs/x/bin").mkdir()
    plan = plan_sandbox(str(world.root), user_home=str(home), environment=environment)
    shown = ("venvs/x/lib/y", "opt/jdk/release", "tools/run", "cargo/registry", "cert.pem")
    secret = ("venvs/z", "opt/z", "cargo/credentials.toml", ".ssh/id_ed25519", ".aws/credentials", "notes")
    assert (await world.run(_read((*shown, *secret)), plan)).text == "".join(f"tool {name}\n" for name in shown)


@pytest.mark.slow
async def test_a_virtual_environment_in_the_project(world: World) -> None:
    """What the environment names in the session's own folder stays writable."""
    (world.root / ".venv").mkdir()
    environment = {"VIRTUAL_ENV": f"{world.root}/.venv", "PATH": f"{world.root}/.venv/bin:/usr/bin:/bin"}
    plan = plan_sandbox(str(world.root), user_home=str(world.user_home), environment=environment)
    assert (await world.run("echo x > .venv/x && cat .venv/x", plan)).text == "x\n"


@pytest.mark.slow
async def test_a_part_of_a_repository(world: World) -> None:
    """A session in a part of a repository sees all of it, so that git and builds find what they need above."""
    _fill(world.user_home, ("code/.git/HEAD", "code/package.json"), "tool")
    (world.user_home / "code/part/deep").mkdir(parents=True)
    plan = world.plan(root=world.user_home / "code/part/deep")
    assert (await world.run("cat ../../package.json ../../.git/HEAD; cat ../../../notes", plan)).text.startswith(
        "tooltool"
    )
    assert CANARY not in (await world.run("cat ../../../notes", plan)).text


# --- the decision -----------------------------------------------------------------------------------------------------


def test_keys_are_never_in_the_table() -> None:
    """No place with keys is named by the table, nor a folder that the list of keys names as a whole."""
    for key in SECRET_PATHS:
        assert not any(path == key or path.startswith(f"{key}/") for path in READABLE_AT_HOME), key
    assert len(set(READABLE_AT_HOME)) == len(READABLE_AT_HOME)


@pytest.mark.parametrize("home", ["/", "/usr/sbin", "/bin", "/nix/store/home"])
def test_a_home_directory_that_is_the_system(home: str) -> None:
    """Where the home directory holds the system, it is not hidden as a whole."""
    assert home not in view_home(home, roots=["/srv/project"]).hidden


def test_a_home_directory_that_is_missing(tmp_path: Path) -> None:
    """Without a home directory there is nothing to hide, and nothing is made in its place."""
    plan = plan_sandbox(str(tmp_path), user_home=str(tmp_path / "none"), environment={})
    assert str(tmp_path / "none") not in plan.hidden_folders


def test_no_toolchains(home: Path) -> None:
    """For programs that need nothing, such as a search, the whole home directory is hidden."""
    view = view_home(str(home), roots=[f"{home}/project"], show_toolchains=False)
    assert view == HomeView(hidden=(str(home),))


def test_a_folder_with_many_entries(home: Path) -> None:
    """Where somebody works in the home directory, a folder with very many entries is hidden as a whole."""
    for number in range(150):
        (home / f".config/program{number}").mkdir()
    hidden = view_home(str(home), roots=[str(home)]).hidden
    assert f"{home}/.config" in hidden
    assert not [path for path in hidden if path.startswith(f"{home}/.config/")]


def test_settings_in_a_folder_with_many_entries(home: Path) -> None:
    """In a folder that is hidden as a whole, what the table has there stays visible, also if it is a link."""
    for number in range(150):
        (home / f".config/program{number}").mkdir()
    (home / "dotfiles").mkdir()
    (home / ".config/git/ignore").rename(home / "dotfiles/ignore")
    (home / ".config/git/ignore").symlink_to("../../dotfiles/ignore")
    (home / ".config/git/attributes").unlink()
    (home / ".config/git/attributes").symlink_to("../../.ssh/id_ed25519")
    plan = plan_sandbox(str(home), user_home=str(home), environment={})
    assert [path for path in plan.visible if is_beneath(path, (str(home),))] == [f"{home}/.config/git/config"]
    assert plan.links == ((f"{home}/dotfiles/ignore", f"{home}/.config/git/ignore"),)


async def test_what_the_environment_names_in_a_session_at_home(world: World) -> None:
    """A virtual environment is visible in a session in the home directory too, and the keys it names are not."""
    home = world.user_home
    _fill(home, (".venv/pyvenv.cfg", ".envs/x/pyvenv.cfg"), "tool")
    _fill(home, (".envs/z", ".secret/token"), CANARY)
    environment = {
        "HOME": str(home),
        "VIRTUAL_ENV": f"{home}/.envs/x",
        "PATH": f"{home}/.venv/bin:{home}/.ssh:/usr/bin:/bin",
        "GOPATH": f"{home}/.config",
    }
    plan = plan_sandbox(str(home), user_home=str(home), environment=environment)
    names = (".venv/pyvenv.cfg", ".envs/x/pyvenv.cfg", ".envs/z", ".secret/token", *KEYS)
    shown = await world.run(_read(names), plan)
    assert shown.text == "tool .venv/pyvenv.cfg\ntool .envs/x/pyvenv.cfg\n"
    ran = await world.run("cd ~; echo x > .venv/new; echo x > .envs/x/new; echo x > .envs/new", plan)
    assert ran.text.count("Read-only file system") == 3


def test_packages_of_npm_in_a_common_folder(home: Path) -> None:
    """Where npm installs into ~/.local, its programs and packages are visible, and nothing else of that folder."""
    _fill(home, (".local/lib/node_modules/tool/x.js", ".npm-global/lib/node_modules/tool/x.js"), "tool")
    _fill(home, (".npm-global/bin/x",), "tool")
    named = find_named_places({"PATH": f"{home}/.local/bin:{home}/.npm-global/bin:{home}/bin"})
    view = view_home(str(home), roots=[f"{home}/project"], named=named)
    assert f"{home}/.local" not in view.visible
    assert f"{home}/.local/bin" in view.visible
    assert f"{home}/.local/lib" in view.visible
    assert [path for path in view.visible if ".npm-global" in path] == [
        f"{home}/.npm-global/bin",
        f"{home}/.npm-global/lib/node_modules",
    ]


def test_no_folder_above_the_table(home: Path) -> None:
    """Whatever names a folder in which places of the table lie, such as ~/.local, it is not visible as a whole."""
    (home / ".local/pyvenv.cfg").touch()
    named = find_named_places({"PATH": f"{home}/.local/bin", "GOPATH": f"{home}/.config", "JAVA_HOME": f"{home}/.m2"})
    view = view_home(str(home), roots=[f"{home}/project"], named=named)
    assert not {f"{home}/.local", f"{home}/.config", f"{home}/.m2"} & set(view.visible)
    assert find_installation(f"{home}/.local/bin") == (f"{home}/.local",)
    assert find_installation(f"{home}/.local/bin", [str(home)]) == (f"{home}/.local/bin",)


def test_files_of_a_project_in_the_home_directory(home: Path) -> None:
    """Where the home directory itself is a project, its repository is visible."""
    (home / ".git").mkdir()
    (home / ".github").mkdir()
    hidden = view_home(str(home), roots=[str(home)]).hidden
    assert not {f"{home}/.git", f"{home}/.github"} & set(hidden)
    assert f"{home}/.some-startup" in hidden


@pytest.mark.parametrize(
    "trick", ["one way", "own repository", "documents", "the home directory", "odd bytes", "tree of another project"]
)
def test_a_pointer_of_a_hostile_project(home: Path, trick: str) -> None:
    """The `.git` file of a project makes nothing visible that does not name the project in turn."""
    project = home / "project"
    tree, theirs = project / "evil/worktrees/x", home / "other-project/.git/worktrees/x"
    for each, belongs_to in ((tree, project), (theirs, home / "a-tree-of-it")):
        each.mkdir(parents=True)
        (each / "gitdir").write_text(f"{belongs_to}/.git\n")
    (theirs / "commondir").write_text("../..\n")
    names = {"one way": home / "Documents", "odd bytes": "\udcff\0x", "tree of another project": theirs}
    named = names.get(trick, tree)
    common = {"documents": home / "Documents", "the home directory": home}.get(trick, project / "evil")
    (tree / "commondir").write_text(f"{common}\n")
    (project / ".git").write_bytes(os.fsencode(f"gitdir: {named}\n"))
    shown = find_repository(str(project), str(home))
    assert all(path.startswith(f"{project}/") for path in shown)


def test_a_linked_working_tree(home: Path) -> None:
    """The repository of a linked working tree is visible, as the two name each other."""
    tree = home / "main/.git/worktrees/project"
    tree.mkdir(parents=True)
    (tree / "gitdir").write_text(f"{home}/project/.git\n")
    (tree / "commondir").write_text("../..\n")
    (home / "project/.git").write_text(f"gitdir: {tree}\n")
    assert find_repository(f"{home}/project", str(home)) == (f"{home}/main/.git",)
    assert find_repository(f"{home}/project/src", str(home)) == (f"{home}/project", f"{home}/main/.git")


def test_named_places() -> None:
    """Only absolute paths count, each part of a list by itself, and no variable outside of the list."""
    environment = {
        "PATH": "/none/bin::b:/none/c/../d",
        "GOPATH": "/go:/go2",
        "HOME": "/h",
        "EDITOR": "/e",
        "SSL_CERT_FILE": "x",
    }
    assert find_named_places(environment) == ("/go", "/go2", "/none/bin", "/none/d")


# --- file tools -------------------------------------------------------------------------------------------------------


def test_file_tools_decide_alike(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a session in the home directory file tools read what commands read, and list nothing else."""
    monkeypatch.setenv("HOME", str(home))
    workspace = Workspace(str(home))
    for name in KEYS:
        with pytest.raises(OutsideWorkspace):
            workspace.read(name, max_bytes=10)
    for name in (*TOOLS, *DOCUMENTS):
        assert workspace.read(name, max_bytes=100).data in {b"tool", CANARY.encode()}
    walked = {path for path, _ in workspace.walk(".", ignore=None, limit=10_000)}
    assert not walked & set(KEYS)
    assert {*TOOLS, *DOCUMENTS} <= walked


def test_file_tools_read_what_the_person_adds(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is made readable is open to file tools too, if it lies in the session's folders."""
    monkeypatch.setenv("HOME", str(home))
    workspace = Workspace(str(home), readable_at_home=[str(home / ".config/some-startup"), str(home / ".npmrc")])
    assert workspace.read(".config/some-startup/token", max_bytes=100).data == CANARY.encode()
    assert workspace.read(".npmrc", max_bytes=100).data == CANARY.encode()
    for name in (".config/goose/secrets.yaml", ".some-startup"):
        with pytest.raises(OutsideWorkspace):
            workspace.read(name, max_bytes=10)
