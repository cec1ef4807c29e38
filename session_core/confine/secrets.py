"""What a confined program never gets to see: keys, tokens, histories, sockets of other programs."""

import os
import pwd
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

from session_core.errors import StoreUnusable
from session_core.storage.home import default_home

_KEPT: Final = frozenset({
    "CLICOLOR", "COLORTERM", "COLUMNS", "HOME", "LANG", "LANGUAGE", "LINES", "LOGNAME", "NO_COLOR", "PATH", "SHELL",
    "TERM", "TZ", "USER",
    # where languages and build tools live
    "CARGO_HOME", "CONDA_PREFIX", "GOPATH", "GOROOT", "JAVA_HOME", "NVM_DIR", "PYENV_ROOT", "RUSTUP_HOME",
    "VIRTUAL_ENV",
    # what lets them check certificates behind a company's proxy
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
_MAX_SOCKETS: Final = 256


def clean_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return what a program needs of an environment; keys, tokens and sockets are not on the list of what is kept."""
    kept = {
        name: value
        for name, value in environment.items()
        if (name in _KEPT or name.startswith("LC_")) and len(value) <= _MAX_VALUE and "\0" not in value
    }
    kept.setdefault("PATH", "/usr/local/bin:/usr/bin:/bin")
    kept["TMPDIR"] = "/tmp"  # noqa: S108 - the private one of the sandbox
    kept["GIT_DISCOVERY_ACROSS_FILESYSTEM"] = "1"  # the root is a mount, and the repository may begin above it
    return dict(sorted(kept.items()))


def secret_paths(user_home: str) -> tuple[str, ...]:
    """Return the places with secrets that exist in a home directory, behind any links."""
    return tuple(
        dict.fromkeys(
            os.path.realpath(path)
            for name in SECRET_PATHS
            if os.path.lexists(path := os.path.join(user_home, name)) and os.path.exists(path)
        )
    )


def hidden_places() -> tuple[str, ...]:
    """Return what no tool may touch even where the folder of a session contains it: keys, and this service's own home.

    The home directory of the environment and that of the system may differ, and either may hold keys.
    """
    homes: list[str] = []
    with suppress(RuntimeError):
        homes.append(str(Path.home()))
    with suppress(KeyError):  # a user without an entry, as in some containers
        homes.append(pwd.getpwuid(os.getuid()).pw_dir)
    places = [path for home in dict.fromkeys(homes) for path in secret_paths(home)]
    with suppress(StoreUnusable):
        places.append(os.path.realpath(default_home()))
    return tuple(dict.fromkeys(places))


def open_sockets() -> tuple[str, ...]:
    """Return the sockets in the file system on which programs listen now; a read-only mount does not close them."""
    try:
        with open("/proc/net/unix", encoding="utf-8", errors="surrogateescape") as table:
            paths = sorted({line.split(None, 7)[7].rstrip("\n") for line in table if line.count("/")})
    except (OSError, IndexError):
        return ()
    return tuple(path for path in paths if path.startswith("/") and _is_socket(path))[:_MAX_SOCKETS]


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode) and os.path.realpath(path) == path
    except OSError:
        return False
