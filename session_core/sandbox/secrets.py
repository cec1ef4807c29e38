"""The files and variables that a confined program never sees, wherever they are visible: keys, tokens, histories."""

import functools
import os
import pwd
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    ".aliyun", ".ansible", ".authinfo", ".authinfo.gpg", ".aws", ".azure", ".bash_history", ".bitcoin", ".boto",
    ".bundle/config", ".cache/huggingface/stored_tokens", ".cache/huggingface/token", ".cargo/credentials",
    ".cargo/credentials.toml", ".claude", ".claude.json", ".codex", ".composer/auth.json", ".config/1Password",
    ".config/age", ".config/anthropic", ".config/argocd", ".config/BraveSoftware", ".config/chromium",
    ".config/composer/auth.json", ".config/containers", ".config/doctl", ".config/fly", ".config/gcloud",
    ".config/gh", ".config/git/credentials", ".config/github-copilot", ".config/glab-cli", ".config/google-chrome",
    ".config/goose", ".config/hcloud", ".config/helm", ".config/heroku", ".config/hub", ".config/microsoft-edge",
    ".config/ngrok", ".config/op", ".config/opencode", ".config/pypoetry", ".config/rclone", ".config/session-core",
    ".config/Signal", ".config/Slack", ".config/solana", ".config/sops", ".config/stripe", ".config/vivaldi",
    ".config/wrangler", ".cursor", ".databrickscfg", ".docker", ".dotnet/corefx", ".electrum", ".ethereum",
    ".fetchmailrc", ".fly", ".gem/credentials", ".gemini", ".git-credentials", ".gnupg", ".gradle/gradle.properties",
    ".hex/hex.config", ".huggingface", ".irb_history", ".kaggle", ".kube", ".lesshst", ".local/share/atuin",
    ".local/share/fish", ".local/share/goose", ".local/share/keyrings", ".local/share/kwalletd",
    ".local/share/opencode", ".local/share/pnpm/auth.ini", ".local/share/session-core", ".local/share/uv/credentials",
    ".m2/settings-security.xml", ".m2/settings.xml", ".mbsyncrc", ".minikube", ".mongorc.js", ".mozilla", ".msmtprc",
    ".my.cnf", ".mysql_history", ".netlify", ".netrc", ".node_repl_history", ".npmrc", ".nuget/NuGet", ".oci",
    ".ollama", ".password-store", ".pgpass", ".pki", ".psql_history", ".pub-cache/credentials.json", ".pulumi",
    ".pypirc", ".python_history", ".railway", ".rediscli_history", ".s3cfg", ".sentryclirc", ".snowflake",
    ".sqlite_history", ".ssh", ".subversion", ".terraform.d", ".terraformrc", ".thunderbird", ".vault-token",
    ".vercel", ".viminfo", ".vnc", ".wrangler", ".Xauthority", ".zsh_history",
)  # fmt: skip
"""Relative to the user's home directory. They stay hidden where the rest of it is visible: see `home_directory`."""
_MAX_LOOKS: Final = 16
_SETTLED_NS: Final = 2_000_000_000
"""A folder that changed more recently than this may change again within the resolution of its time stamp."""


def resolve_existing(paths: Iterable[str]) -> tuple[str, ...]:
    """Return those of the paths that exist, with links resolved."""
    return tuple(dict.fromkeys(os.path.realpath(path) for path in paths if os.path.exists(path)))


def find_secrets(homes: Iterable[str], environment: Mapping[str, str], readable: Sequence[str] = ()) -> tuple[str, ...]:
    """Return the existing places with secrets, except for those that the person has made readable by name."""
    found = [path for home in homes for path in secret_paths(home)]
    if cargo := environment.get("CARGO_HOME"):
        found += resolve_existing(os.path.join(cargo, name) for name in ("credentials", "credentials.toml"))
    return tuple(path for path in dict.fromkeys(found) if path not in readable)


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


def own_places() -> tuple[str, ...]:
    """Return this service's own home, which nobody may make readable."""
    with suppress(StoreUnusable):
        return (os.path.realpath(default_home()),)
    return ()


def hidden_places() -> tuple[str, ...]:
    """Return the places that no tool may touch, even inside a session's folder: keys, and this service's own home.

    Either home directory may hold keys.
    """
    places = [path for home in home_folders() for path in secret_paths(home)]
    return tuple(dict.fromkeys((*places, *own_places())))
