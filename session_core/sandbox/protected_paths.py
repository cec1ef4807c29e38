"""Paths that run code outside the sandbox when a person next uses the project, or logs in."""

import functools
import os
import unicodedata
from collections.abc import Collection, Iterable, Iterator
from typing import Final

PROTECTED: Final[tuple[str, ...]] = (
    # version control: hooks, filters and monitors
    ".git", ".hg", ".jj", ".sl", ".pijul", "_darcs",
    # hooks that git runs from the working tree, once somebody has installed them
    ".husky", ".pre-commit-config.yaml", ".lefthook.toml", ".lefthook.yaml", ".lefthook.yml", "lefthook.toml",
    "lefthook.yaml", "lefthook.yml",
    # agents: servers, hooks, plugins, skills with programs
    ".session-core", ".smooth", ".agents", ".mcp.json", "mcp.json", ".aider.conf.yml", ".amazonq", ".claude",
    ".clinerules", ".codex", ".continue", ".crush.json", "crush.json", ".cursor", ".factory", ".gemini", ".junie",
    ".kilocode", ".kiro", ".opencode", "opencode.json", "opencode.jsonc", ".openhands", ".pi", ".qwen", ".roo", ".trae",
    ".windsurf",
    # editors and consoles: tasks on opening, programs for languages and debuggers, commands at their start
    ".dir-locals.el", ".dir-locals-2.el", ".exrc", "_exrc", ".gvimrc", "_gvimrc", ".vimrc", "_vimrc", ".helix", ".idea",
    ".nvim.lua", ".nvimrc", ".Rprofile", ".theia", ".vs", ".vscode", ".zed", ".devcontainer", ".devcontainer.json",
    # shells that run something on entering a folder
    ".autoenv", ".autoenv.leave", ".autoenv.zsh", ".envrc", ".mise", ".mise.toml", ".mise.local.toml", "mise.toml",
    "mise.local.toml",
)  # fmt: skip
"""Names, at any depth, of files and folders from which programs run code when somebody only opens or enters a folder,
or commits in it. What people run knowingly (`Makefile`, `package.json`, `flake.nix`) is not here, nor is text that no
program runs: `AGENTS.md` steers only after a person has trusted its exact content (`trust`).

The whole of `.git`, not only its hooks and config: a file `commondir` in it moves both to another place, and the state
of an unfinished rebase holds commands."""
PACKAGE_FOLDERS: Final = frozenset({"node_modules", "site-packages", "dist-packages", "bower_components"})
"""Installed packages ship `.vscode` and such, which nobody opens as a project of its own; but prompts run `git status`
wherever somebody is, so in here git's names count alone."""
GIT_NAME: Final = ".git"
BARE_MEMBERS: Final = frozenset({
    "HEAD", "objects", "refs", "commondir", "config", "config.worktree", "hooks", "worktrees", "modules",
})  # fmt: skip
"""What makes an ordinary folder a repository, and what git runs code from in it."""

HOME_PROTECTED: Final[tuple[str, ...]] = (
    # shells
    ".bash_aliases", ".bash_login", ".bash_logout", ".bash_profile", ".bashrc", ".cshrc", ".inputrc", ".kshrc",
    ".login", ".logout", ".oh-my-zsh/", ".profile", ".tcshrc", ".zlogin", ".zlogout", ".zprofile", ".zshenv", ".zshrc",
    ".config/fish/",
    # programs started at login or on a schedule
    ".anacrontab", ".config/autostart/", ".config/environment.d/", ".config/plasma-workspace/", ".config/systemd/",
    ".crontab", ".local/share/dbus-1/", ".local/share/systemd/", ".pam_environment", ".ssh/", ".xinitrc", ".xprofile",
    ".xserverrc", ".xsession", ".xsessionrc",
    # programs found by name
    ".cargo/bin/", ".local/bin/", ".local/lib/", ".local/share/applications/", "bin/",
    # settings that name programs to run
    ".cargo/config", ".cargo/config.toml", ".cargo/env", ".config/direnv/", ".config/emacs/", ".config/git/",
    ".config/nvim/", ".config/tmux/", ".direnvrc", ".emacs", ".emacs.d/", ".forward", ".gdbinit", ".gitconfig",
    ".ipython/", ".screenrc", ".tmux.conf", ".vim/", ".vimrc",
)  # fmt: skip
"""Relative to the user's home directory, if a session's folder contains it; folders have a trailing slash."""


def is_protected_name(name: str) -> bool:
    """Return whether a file or folder of this name is protected, by any spelling that some file system takes for it."""
    return _fold_name(name) in _PROTECTED_FOLDED


def is_git_name(name: str) -> bool:
    """Return whether this is a spelling of `.git`."""
    return _fold_name(name) == GIT_NAME


def is_protected_path(real_path: str, real_roots: Iterable[str]) -> bool:
    """Return whether `real_path`, which has no links in it, is or lies in something with a protected name.

    Names count from the innermost of the roots around it: a root inside a protected folder was chosen by a person.
    """
    inside = [relative for root in real_roots if (relative := _relative_to_root(real_path, root)) is not None]
    return bool(inside) and any(map(is_protected_name, min(inside, key=len).split("/")))


def is_repository_member(real_path: str, real_roots: Iterable[str]) -> bool:
    """Return whether `real_path` is or lies in a part of a bare repository, or would turn a folder into one."""
    inside = [root for root in real_roots if _relative_to_root(real_path, root) is not None]
    if not inside:
        return False
    root = max(inside, key=len)
    folder = root
    for name in (_relative_to_root(real_path, root) or "").split("/"):
        if (member := fold_member(name)) is not None:
            present = {each for each in BARE_MEMBERS if os.path.lexists(os.path.join(folder, each))} | {member}
            if is_bare_repository(present):
                return True
        folder = os.path.join(folder, name)
    return False


def is_bare_repository(names: Collection[str]) -> bool:
    """Return whether a folder with these members may be a repository to git."""
    return "HEAD" in names and ("commondir" in names or ("objects" in names and "refs" in names))


def _relative_to_root(path: str, root: str) -> str | None:
    if path == root:
        return ""
    start = root.rstrip("/") + "/"
    return path[len(start) :] if path.startswith(start) else None


def home_guards(real_roots: Iterable[str], real_homes: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Return the protected paths of home directories that lie inside the roots, each with its home.

    A root inside such a path was chosen by a person, and is not protected.
    """
    roots = tuple(real_roots)
    for home in real_homes:
        near = [
            root
            for root in roots
            if _relative_to_root(home, root) is not None or _relative_to_root(root, home) is not None
        ]
        for path in HOME_PROTECTED if near else ():
            place = os.path.join(home, path.rstrip("/"))
            if any(place != root and _relative_to_root(place, root) is not None for root in near):
                yield home, path


def is_protected_at_home(
    real_path: str, real_roots: Iterable[str], real_homes: Iterable[str], *, new_folder: bool = False
) -> bool:
    """Return whether a change of `real_path` changes a start file of a home directory that lies in one of the roots."""
    roots = tuple(real_roots)
    for home, path in home_guards(roots, real_homes):
        if _is_at_path(real_path, home, path, new_folder=new_folder):
            place = os.path.join(home, path.rstrip("/"))
            chosen = (root for root in roots if _relative_to_root(root, place) is not None)
            return all(_relative_to_root(real_path, root) is None for root in chosen)
    return False


def _is_at_path(real_path: str, home: str, path: str, *, new_folder: bool) -> bool:
    """Return whether a change of `real_path` changes a path of the home.

    A file in the place of a folder on the way counts too: it decides what that folder is. A new, empty folder does not.
    """
    relative = _relative_to_root(real_path, home)
    if relative is None:
        return False
    names, guarded = _fold_names(relative), _fold_names(path)
    shared = len(guarded) if new_folder else min(len(names), len(guarded))
    return bool(shared) and names[:shared] == guarded[:shared]


@functools.lru_cache(maxsize=1024)
def _fold_names(path: str) -> tuple[str, ...]:
    """Split a path into folded names."""
    return tuple(_fold_name(name) for name in os.path.normpath(path).split("/") if name not in {"", "."})


def _fold_name(name: str) -> str:
    """Fold a name so that names are equal if any file system treats them as the same."""
    if name.isascii():
        return name.lower()
    return "".join(
        letter
        for letter in unicodedata.normalize("NFKC", name)
        if unicodedata.category(letter) != "Cf"  # some file systems ignore such characters
    ).casefold()


_PROTECTED_FOLDED: Final = frozenset(map(_fold_name, PROTECTED))
_MEMBERS_FOLDED: Final = {_fold_name(name): name for name in BARE_MEMBERS}


def fold_member(name: str) -> str | None:
    """Return the member of a bare repository that this name is a spelling of, if any."""
    return _MEMBERS_FOLDED.get(_fold_name(name))
