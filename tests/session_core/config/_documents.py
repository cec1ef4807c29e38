"""Made-up configurations: a writer of TOML, and strategies for files that are right, nearly right, or nothing of it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from session_core.config.load import load_config
from session_core.config.settings import SETTINGS, TOP_LEVEL
from session_core.config.values import Config
from session_core.vocabulary.strictness import PERMISSION_MODES, SANDBOX_MODES

KEY = "sk-ant-api03-Zq7Kp2Vx9Lm4Nt6Rw8Bc1Df3Gh5Jk0"
NO_VARIABLES: Mapping[str, str] = {}


def to_toml(document: Mapping[str, Any]) -> str:
    """Write a document with every value in its line, tables inside of others as inline tables."""
    return "".join(f"{_quoted(key)} = {_value(value)}\n" for key, value in document.items())


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return _quoted(value)
        case Mapping():
            return "{" + ", ".join(f"{_quoted(key)} = {_value(each)}" for key, each in value.items()) + "}"
        case list() | tuple():
            return f"[{', '.join(map(_value, value))}]"
        case _:
            return str(value)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007F")


def write_user(home: Path, text: str, mode: int = 0o600) -> Path:
    home.mkdir(parents=True, exist_ok=True)
    path = home / "config.toml"
    new = home / "config.new"  # put in place in one step: whoever watches the file must not see half of it
    new.write_text(text, encoding="utf-8")
    new.chmod(mode)
    new.replace(path)
    return path


def write_project(workspace: Path, text: str) -> Path:
    path = workspace / ".session-core" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def load(
    tmp_path: Path,
    *,
    user: str = "",
    project: str | None = None,
    environ: Mapping[str, str] = NO_VARIABLES,
    flags: Mapping[str, object] | None = None,
    trust: bool = True,
) -> Config:
    """Load what these two files say; the home is `home`, the project is `project`, both in the folder given."""
    write_user(tmp_path / "home", user)
    if project is not None:
        write_project(tmp_path / "project", project)
    return load_config(tmp_path / "home", tmp_path / "project", environ, flags, trust=trust)


# --- strategies -------------------------------------------------------------------------------------------------------

texts = st.text('ab.é\u202e" \\', max_size=5)
scalars = st.sampled_from([True, -1, 0, 5_000, 0.5, "deny", "x/y", "https://a.example", "/a"]) | texts
anything = scalars | st.lists(scalars, max_size=2) | st.dictionaries(texts, scalars, max_size=2)
words = st.sampled_from([*TOP_LEVEL, "hooks", "trust", "modle"]) | texts
inner_words = st.sampled_from(sorted({each.key.rpartition(".")[2] for each in SETTINGS})) | st.sampled_from(
    [
        "kind",
        "base_url",
        "key_env",
        "key",
        "headers",
        "decision",
        "tool",
        "path",
        "command",
        "name",
        "prices",
        "aliases",
    ]
)
nested = st.dictionaries(inner_words, anything, max_size=3)
documents = st.dictionaries(
    words, anything | nested | st.lists(nested, max_size=2) | st.dictionaries(texts, nested, max_size=1), max_size=3
)

folders = st.lists(st.sampled_from(["/a", "/b", "/c"]), unique=True, max_size=3)
tool_names = st.lists(st.sampled_from(["bash", "web_fetch", "write"]), unique=True, max_size=3)
rules = st.lists(
    st.fixed_dictionaries(
        {"decision": st.sampled_from(["allow", "ask", "deny"]), "tool": st.sampled_from(["bash", "write", "*"])}
    ),
    max_size=4,
)


def _table(**kinds: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({}, optional=kinds)


narrowing = st.fixed_dictionaries(
    {},
    optional={
        "permission_mode": st.sampled_from(PERMISSION_MODES),
        "sandbox": _table(mode=st.sampled_from(SANDBOX_MODES), network=st.booleans(), writable_roots=folders),
        "limits": _table(
            steps=st.integers(1, 300), tokens=st.integers(1, 9), cost=st.integers(1, 9), seconds=st.integers(1, 9)
        ),
        "tools": _table(disabled=tool_names),
        "permissions": rules,
    },
)
"""Files that say only what a project may speak about, and nothing wrong."""
