"""Paths that run code outside the sandbox when a person next uses the project, or logs in."""

import functools
import os
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

PROTECTED: Final[tuple[str, ...]] = (
    ".git",
    ".agents",
    ".session-core",
    ".claude",
    ".cursor",
    ".devcontainer",
    ".envrc",
    ".idea",
    ".mcp.json",
    ".vscode",
)
"""Relative to each root. The whole of `.git`, not only its hooks and config: a file `commondir` in it moves both to
another place, and the state of an unfinished rebase holds commands."""

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

_MAX_POINTER_BYTES: Final = 4_096


def is_protected_path(
    real_path: str, real_roots: Iterable[str], protected: Sequence[str], *, new_folder: bool = False
) -> bool:
    """Return whether a change of `real_path`, which has no links in it, changes a protected path of one of the roots.

    A file in the place of a folder that would hold a protected path counts too: it decides what that folder is. A new,
    empty folder there does not.
    """
    for root in real_roots:
        relative = _relative_to_root(real_path, root)
        if relative is None:
            continue
        names = _fold_names(relative)
        for path in protected:
            guarded = _fold_names(path)
            shared = len(guarded) if new_folder else min(len(names), len(guarded))
            if shared and names[:shared] == guarded[:shared]:
                return True
    return False


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
        if is_protected_path(real_path, (home,), (path,), new_folder=new_folder):
            place = os.path.join(home, path.rstrip("/"))
            chosen = (root for root in roots if _relative_to_root(root, place) is not None)
            return all(_relative_to_root(real_path, root) is None for root in chosen)
    return False


def resolve_link_targets(folder: str, path: str) -> Iterator[str]:
    """Return the real locations of a folder's protected path, if links or git's own pointers lead elsewhere.

    The `.git` of a working tree may be a file that names another folder, which may name a third.
    """
    place = os.path.join(folder, path.rstrip("/"))
    real = os.path.realpath(place)
    if real != place:
        yield real
    if os.path.basename(place) == ".git":
        yield from read_git_pointers(real)


def read_git_pointers(git: str) -> tuple[str, ...]:
    """Return the folder that a `.git` file names, and the one with the repository that this one names, if any."""
    if (pointed := _read_pointer(git, b"gitdir:")) is None:
        return ()
    common = _read_pointer(os.path.join(pointed, "commondir"), b"", pointed)
    return (pointed,) if common is None else (pointed, common)


def _read_pointer(file: str, start: bytes, folder: str | None = None) -> str | None:
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    try:
        data = os.read(descriptor, _MAX_POINTER_BYTES)
    except OSError:  # a folder, as usual
        return None
    finally:
        os.close(descriptor)
    if not data.startswith(start) or b"\0" in data:
        return None
    named = os.fsdecode(data[len(start) :].split(b"\n")[0].strip())
    return os.path.realpath(os.path.join(folder or os.path.dirname(file), named)) if named else None


@functools.lru_cache(maxsize=1024)
def _fold_names(path: str) -> tuple[str, ...]:
    """Split a path into folded names, which are equal if any file system treats them as the same."""
    return tuple(
        "".join(
            letter
            for letter in unicodedata.normalize("NFKC", name)
            if unicodedata.category(letter) != "Cf"  # some file systems ignore such characters
        ).casefold()
        for name in os.path.normpath(path).split("/")
        if name not in {"", "."}
    )
