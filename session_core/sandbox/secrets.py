"""The files and variables that a confined program never sees: keys, tokens, histories."""

import functools
import os
import pwd
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import attrs

from session_core.errors import StoreUnusable
from session_core.storage.home import default_home

_ALLOWED_VARIABLES: Final = frozenset({
    "CLICOLOR", "COLORTERM", "COLUMNS", "HOME", "LANG", "LANGUAGE", "LINES", "LOGNAME", "NO_COLOR", "PATH", "SHELL",
    "TERM", "TZ", "USER",
    # where languages and build tools live
    "CARGO_HOME", "CONDA_PREFIX", "GOPATH", "GOROOT", "JAVA_HOME", "NVM_DIR", "PYENV_ROOT", "RUSTUP_HOME",
    "VIRTUAL_ENV",
    # certificates behind a company's proxy
    "CURL_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "SSL_CERT_DIR", "SSL_CERT_FILE",
})  # fmt: skip
_MAX_VALUE: Final = 32_768

SECRET_PATHS: Final[tuple[str, ...]] = (
    ".aliyun", ".authinfo", ".authinfo.gpg", ".aws", ".azure", ".bash_history", ".boto", ".cargo/credentials",
    ".cargo/credentials.toml", ".claude", ".claude.json", ".codex", ".config/1Password", ".config/BraveSoftware",
    ".config/chromium", ".config/doctl", ".config/fly", ".config/gcloud", ".config/gh", ".config/git/credentials",
    ".config/glab-cli", ".config/google-chrome", ".config/hub", ".config/op", ".config/opencode", ".config/rclone",
    ".config/session-core", ".config/sops", ".databrickscfg", ".docker", ".electrum", ".fly", ".gem/credentials",
    ".git-credentials", ".gnupg", ".huggingface", ".cache/huggingface/token", ".kaggle", ".kube",
    ".local/share/keyrings",
    ".local/share/kwalletd", ".local/share/opencode", ".local/share/session-core", ".m2/settings-security.xml",
    ".minikube", ".mozilla", ".my.cnf", ".mysql_history", ".netlify", ".netrc", ".npmrc", ".oci", ".password-store",
    ".pgpass", ".pki", ".psql_history", ".pulumi", ".pypirc", ".python_history", ".s3cfg", ".sentryclirc",
    ".snowflake", ".ssh", ".terraform.d", ".terraformrc", ".thunderbird", ".vault-token", ".zsh_history",
)  # fmt: skip
"""Relative to the user's home directory."""
_MAX_LOOKS: Final = 16
_SETTLED_NS: Final = 2_000_000_000
"""A folder that changed more recently than this may change again within the resolution of its time stamp."""


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the part of an environment that a program needs; the list of kept names has no keys, tokens or sockets."""
    cleaned = {
        name: value
        for name, value in environment.items()
        if (name in _ALLOWED_VARIABLES or name.startswith("LC_")) and len(value) <= _MAX_VALUE and "\0" not in value
    }
    cleaned.setdefault("PATH", "/usr/local/bin:/usr/bin:/bin")
    cleaned["TMPDIR"] = "/tmp"  # noqa: S108 - the private one of the sandbox
    cleaned["GIT_DISCOVERY_ACROSS_FILESYSTEM"] = "1"  # the root is a mount, and the repository may begin above it
    return dict(sorted(cleaned.items()))


def secret_paths(user_home: str) -> tuple[str, ...]:
    """Return the existing places with secrets in a home directory, with links resolved."""
    plain, links = _find_secrets(user_home)
    return tuple(dict.fromkeys((*plain, *(os.path.realpath(path) for path in links if os.path.exists(path)))))


@attrs.frozen
class _SecretScan:
    """The result of scanning a home directory, and the state of its folders at that time.

    It caches only what the folders themselves say: which names exist, and which of them are links. The targets of links
    are looked up each time.
    """

    folders: tuple[tuple[str, tuple[int, int, int] | None], ...]
    plain: tuple[str, ...]
    links: tuple[str, ...]


_looks: dict[str, _SecretScan] = {}
"""By home directory; there are one or two."""


def _find_secrets(user_home: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    before = _looks.get(user_home)
    if before is not None and all(_state_of(folder) == state for folder, state in before.folders):
        return before.plain, before.links
    now_ns = time.time_ns()
    states = tuple((folder, _state_of(folder)) for folder in _folders_of(user_home))
    plain: list[str] = []
    links: list[str] = []
    real_home = os.path.realpath(user_home)
    for name in SECRET_PATHS:
        path = os.path.join(user_home, name)
        if os.path.lexists(path):
            whole = os.path.realpath(path) == os.path.join(real_home, name) and not os.path.islink(path)
            (plain if whole else links).append(os.path.join(real_home, name) if whole else path)
    look = _SecretScan(states, tuple(plain), tuple(links))
    # Unlike the modification time, no program can set the change time.
    if real_home == user_home and all(state is None or state[2] < now_ns - _SETTLED_NS for _, state in states):
        if len(_looks) >= _MAX_LOOKS:
            _looks.clear()
        _looks[user_home] = look
    return look.plain, look.links


def _folders_of(user_home: str) -> Iterator[str]:
    """Yield the folders that decide which of the names exist."""
    above = {user_home}
    for name in SECRET_PATHS:
        folder = os.path.dirname(name)
        while folder:
            above.add(os.path.join(user_home, folder))
            folder = os.path.dirname(folder)
    yield from sorted(above)


def _state_of(folder: str) -> tuple[int, int, int] | None:
    try:
        found = os.stat(folder)
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_ctime_ns


def home_folders() -> tuple[str, ...]:
    """Return the user's home directories: the environment and the system may name different ones."""
    homes: list[str] = []
    with suppress(RuntimeError):
        homes.append(str(Path.home()))
    with suppress(KeyError):  # a user without an entry, as in some containers
        homes.append(_system_home(os.getuid()))
    return tuple(dict.fromkeys(homes))


@functools.cache
def _system_home(user: int) -> str:
    return pwd.getpwuid(user).pw_dir


def hidden_places() -> tuple[str, ...]:
    """Return the places that no tool may touch, even inside a session's folder: keys, and this service's own home.

    Either home directory may hold keys.
    """
    places = [path for home in home_folders() for path in secret_paths(home)]
    with suppress(StoreUnusable):
        places.append(os.path.realpath(default_home()))
    return tuple(dict.fromkeys(places))
