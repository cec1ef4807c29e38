"""Which part of a home directory programs and file tools see: what builds need, and nothing else.

A home directory holds keys, histories and documents under names that no list knows. So it is hidden as a whole, except
for a short table of toolchains, caches and git's settings, what our environment names, and what the person adds. Keys
among these stay hidden. Who works in the home directory itself sees it, except for its dot files outside of the table.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from session_core.sandbox.folder_walk import is_beneath
from session_core.sandbox.protected_targets import read_git_pointers

READABLE_AT_HOME: Final[tuple[str, ...]] = (
    # Python
    ".cache/pip", ".cache/pypoetry", ".cache/uv", ".conda/pkgs", ".local/share/pipx", ".local/share/pypoetry",
    ".local/share/uv", ".local/share/virtualenv", ".local/share/virtualenvs", ".pyenv", ".virtualenvs", "anaconda3",
    "miniconda3", "miniforge3",
    # JavaScript
    ".bun", ".cache/deno", ".cache/node", ".cache/node-gyp", ".cache/pnpm", ".cache/yarn", ".deno/bin", ".fnm",
    ".local/share/fnm", ".local/share/pnpm", ".node-version", ".nodenv", ".npm", ".nvm", ".pnpm-store", ".volta",
    ".yarn",
    # browsers that tests start
    ".cache/Cypress", ".cache/ms-playwright", ".cache/puppeteer",
    # Rust, Go, C
    ".cache/bazel", ".cache/bazelisk", ".cache/ccache", ".cache/go-build", ".cache/sccache", ".cache/zig", ".cargo",
    ".ccache", ".goenv", ".rustup", "go",
    # Java and what runs on it
    ".cache/coursier", ".gradle/caches", ".gradle/jdks", ".gradle/wrapper", ".ivy2/cache", ".jdks", ".jenv",
    ".m2/repository", ".m2/wrapper", ".sdkman/candidates",
    # .NET, Ruby, PHP
    ".bundle/cache", ".composer/cache", ".composer/vendor", ".dotnet", ".gem/ruby", ".local/share/gem",
    ".nuget/packages", ".rbenv", ".rvm",
    # others
    ".cabal/bin", ".cabal/packages", ".cabal/store", ".elan", ".ghcup", ".hex/packages", ".juliaup", ".julia/artifacts",
    ".julia/compiled", ".julia/packages", ".julia/registries", ".mix", ".opam", ".pub-cache/bin", ".pub-cache/hosted",
    ".stack/programs", ".stack/snapshots",
    # managers of versions
    ".asdf", ".local/share/asdf", ".local/share/mise", ".nix-profile", ".python-version", ".ruby-version",
    ".tool-versions",
    # programs and libraries of one's own, models, fonts
    ".cache/fontconfig", ".cache/huggingface", ".cache/torch", ".fonts", ".local/bin", ".local/lib",
    ".local/share/fonts", "bin",
    # git
    ".config/git/attributes", ".config/git/config", ".config/git/ignore", ".gitattributes", ".gitconfig", ".gitignore",
    ".gitignore_global",
)  # fmt: skip
"""Relative to the home directory. Keys in these folders are hidden all the same: see `secrets`."""
_PROJECT_FILES: Final = frozenset({
    ".agents", ".dockerignore", ".editorconfig", ".git", ".github", ".gitlab-ci.yml", ".gitmodules",
    ".pre-commit-config.yaml", ".session-core",
})  # fmt: skip
"""Dot files that belong to a project; visible where somebody works in the home directory itself."""
_NAMING_VARIABLES: Final = (
    "CARGO_HOME", "CONDA_PREFIX", "CURL_CA_BUNDLE", "GOPATH", "GOROOT", "JAVA_HOME", "NODE_EXTRA_CA_CERTS", "NVM_DIR",
    "PATH", "PYENV_ROOT", "REQUESTS_CA_BUNDLE", "RUSTUP_HOME", "SSL_CERT_DIR", "SSL_CERT_FILE", "VIRTUAL_ENV",
)  # fmt: skip
"""The variables handed on to programs that name files and folders, several of them separated by colons."""
_MARKS_OF_AN_INSTALLATION: Final = ("pyvenv.cfg", "conda-meta")
_NODE_PACKAGES: Final = "lib/node_modules"
"""Npm installs into any folder, such as `~/.local`, so this does not make all of it an installation."""
_SYSTEM: Final = ("/bin", "/dev", "/etc", "/lib", "/nix", "/proc", "/sbin", "/sys", "/usr")
"""Users that stand for a part of the system have their home directory there."""
_MAX_HIDDEN_ENTRIES: Final = 100
"""In one folder; a folder with more is hidden as a whole, because each entry costs a mount."""


@attrs.frozen(kw_only=True)
class HomeView:
    """What a confined program sees of one home directory. All paths are absolute, `visible` ones without links.

    Attributes:
        hidden: What looks empty: the whole home directory, or some entries.
        visible: What is visible in there nevertheless.
        links: Links in there, as (target, path), which lead to visible places.
        read_only: What is not hidden, because the environment names it, and must not be changed.
    """

    hidden: tuple[str, ...] = ()
    visible: tuple[str, ...] = ()
    links: tuple[tuple[str, str], ...] = ()
    read_only: tuple[str, ...] = ()


def view_home(
    home: str,
    *,
    roots: Sequence[str],
    readable: Sequence[str] = (),
    named: Iterable[str] = (),
    secrets: Sequence[str] = (),
    show_toolchains: bool = True,
) -> HomeView:
    """Decide what a confined program sees of a home directory. All places are absolute.

    Args:
        home: The home directory.
        roots: The folders of the session.
        readable: What the person has made readable; these may be links.
        named: What the environment names, see `find_named_places`; these may be links.
        secrets: Places that stay hidden.
        show_toolchains: Whether the table, what is named and the repository around the session's folder are visible.
    """
    added = {_locate(path): os.path.realpath(path) for path in readable}
    if is_beneath(home, added.values()):
        return HomeView()
    inside = {path: real for path, real in added.items() if is_beneath(path, (home,))}
    if cannot_be_hidden_whole(home, roots):
        return _view_inside_out(home, inside, tuple(map(_locate, named)) if show_toolchains else (), secrets)
    links = {path: real for path, real in inside.items() if path != real}
    visible = dict.fromkeys(real for real in inside.values() if is_beneath(real, (home,)))
    table = [os.path.join(home, name) for name in READABLE_AT_HOME] if show_toolchains else []
    for path in (*table, *(map(_locate, named) if show_toolchains else ())):
        if not _is_candidate(path, home):
            continue
        real = os.path.realpath(path)
        if not _may_show(path, real, home, table, secrets):
            continue
        if real != path:
            links[path] = real
        if is_beneath(real, (home,)):
            visible[real] = None
    for root in roots if show_toolchains else ():
        visible |= dict.fromkeys(find_repository(root, home))
    return HomeView(
        hidden=(home,), visible=tuple(visible), links=tuple((real, path) for path, real in sorted(links.items()))
    )


def _view_inside_out(home: str, added: Mapping[str, str], named: Iterable[str], secrets: Sequence[str]) -> HomeView:
    """Hide some entries; in folders hidden as a whole, what the table has there is visible."""
    table = [os.path.join(home, name) for name in READABLE_AT_HOME]
    real_places = {path: os.path.realpath(path) for path in named if _is_candidate(path, home)}
    real_places = {path: real for path, real in real_places.items() if _may_show(path, real, home, table, secrets)}
    hidden = tuple(list_hidden_entries(home, (*added, *real_places)))
    read_only = tuple(path for path in list_hidden_entries(home, tuple(added)) if path in real_places)
    for path in table:
        if is_beneath(path, hidden) and os.path.lexists(path):
            real = os.path.realpath(path)
            if _may_show(path, real, home, table, secrets):
                real_places[path] = real
    return HomeView(
        hidden=hidden,
        visible=tuple(
            dict.fromkeys((*added.values(), *(real for real in real_places.values() if is_beneath(real, hidden))))
        ),
        links=tuple(
            (real, path) for path, real in sorted(real_places.items()) if real != path and is_beneath(path, hidden)
        ),
        read_only=read_only,
    )


def _is_candidate(path: str, home: str) -> bool:
    """Return whether a name in the table or the environment is there, and is not too much to show."""
    return is_beneath(path, (home,)) and not _lies_above_table(path, home) and os.path.lexists(path)


def _lies_above_table(path: str, home: str) -> bool:
    return is_beneath(home, (path,)) or os.path.relpath(path, home) in _ABOVE_TABLE


def _locate(path: str) -> str:
    """Return a path without links in the folders above it; it may be a link itself."""
    folder, name = os.path.split(os.path.normpath(path))
    return os.path.join(os.path.realpath(folder), name)


def _may_show(path: str, real: str, home: str, table: Sequence[str], secrets: Sequence[str]) -> bool:
    """Return whether a name in the table or the environment may show this place.

    It may be a link, which a session in the home directory could have made to have a later one see the target. So a
    link to a folder leads out of the home directory, or to what is visible anyway.
    """
    if is_beneath(home, (real,)) or is_beneath(real, secrets) or not os.path.exists(real):
        return False
    return real == path or not is_beneath(real, (home,)) or os.path.isfile(real) or is_beneath(real, table)


def cannot_be_hidden_whole(home: str, roots: Iterable[str]) -> bool:
    """Return whether a home directory cannot be hidden as a whole: somebody works in it, or it holds the system."""
    return home == "/" or is_beneath(home, roots) or is_beneath(home, _SYSTEM)


def list_hidden_entries(home: str, readable: Sequence[str] = ()) -> Iterator[str]:
    """Yield the entries of a home directory that are hidden although its other files are visible.

    A link is not hidden: it shows nothing that its target does not.
    """
    yield from _list_hidden(home, "", readable)


def _list_hidden(home: str, inside: str, readable: Sequence[str]) -> Iterator[str]:
    folder = os.path.join(home, inside) if inside else home
    try:
        with os.scandir(folder) as entries:
            found = sorted(
                (entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries if not entry.is_symlink()
            )
    except OSError:
        if inside:
            yield folder
        return
    hidden: list[str] = []
    for name, is_folder in found:
        relative = f"{inside}/{name}" if inside else name
        path = os.path.join(home, relative)
        if (not inside and (not name.startswith(".") or name in _PROJECT_FILES)) or path in readable:
            continue
        if relative in _TABLE:
            continue
        if is_folder and relative in _ABOVE_TABLE:
            hidden += _list_hidden(home, relative, readable)
        else:
            hidden.append(path)
    if inside and len(hidden) > _MAX_HIDDEN_ENTRIES:
        yield folder
    else:
        yield from hidden


def _folders_above(paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        while path := os.path.dirname(path):
            yield path


_TABLE: Final = frozenset(READABLE_AT_HOME)
_ABOVE_TABLE: Final = frozenset(_folders_above(READABLE_AT_HOME))


# --- what the environment names ---------------------------------------------------------------------------------------


def find_named_places(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the files and folders that an environment names: where programs, toolchains and certificates are."""
    found: dict[str, None] = {}
    for name in _NAMING_VARIABLES:
        for place in environment.get(name, "").split(os.pathsep):
            if os.path.isabs(place) and "\0" not in place:
                path = os.path.normpath(place)
                found |= dict.fromkeys(find_installation(path) if name == "PATH" else (path,))
    return tuple(found)


def find_installation(folder: str, homes: Iterable[str] = ()) -> tuple[str, ...]:
    """Return what the programs in this folder need around it: the folder of a virtual environment, or npm's packages.

    That is never a folder above places of the table in one of these home directories.
    """
    prefix = os.path.dirname(folder)
    marked = any(os.path.exists(os.path.join(prefix, name)) for name in _MARKS_OF_AN_INSTALLATION)
    if marked and not any(_lies_above_table(os.path.realpath(prefix), home) for home in homes):
        return (prefix,)
    packages = os.path.join(prefix, _NODE_PACKAGES)
    return (folder, packages) if os.path.isdir(packages) else (folder,)


def find_repository(root: str, home: str) -> tuple[str, ...]:
    """Return the git repository beneath a home directory that a folder belongs to, as far as it lies elsewhere.

    It may begin above the folder, and a linked working tree has its repository somewhere else.
    """
    place = root
    while place != home and is_beneath(place, (home,)):
        above = () if place == root else (place,)
        git = os.path.join(place, ".git")
        if os.path.isdir(git):
            return above
        if (repository := _find_linked_repository(git)) is not None and not is_beneath(home, (repository,)):
            return (*above, repository)
        place = os.path.dirname(place)
    return ()


def _find_linked_repository(git: str) -> str | None:
    """Return the repository of a linked working tree if each names the other.

    The `.git` of the tree alone proves nothing: it could be part of a hostile project, and name any folder.
    """
    match read_git_pointers(git):
        case (pointed, common) if os.path.dirname(pointed) == os.path.join(common, "worktrees"):
            return common if _read_tree_name(pointed) == os.path.realpath(git) else None
    return None


def _read_tree_name(folder: str) -> str | None:
    try:
        with open(os.path.join(folder, "gitdir"), encoding="utf-8", errors="surrogateescape") as file:
            named = file.read(_MAX_POINTER_CHARS).strip()
    except OSError:
        return None
    return os.path.realpath(os.path.join(folder, named)) if named and "\0" not in named else None


_MAX_POINTER_CHARS: Final = 4_096
