"""The user's settings: configuration, models and keys, extensions, MCP servers. Keys are never shown."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import session_core as sc
from frontends.commands.doctor.finding import DoctorFinding, ok, problem, warning
from frontends.shared.config_problems import CONFIG_FILE, find_problems
from frontends.shared.extension_lookup import find_extensions
from frontends.shared.figures import format_count, format_path
from frontends.shared.folder_config import load_folder_config
from frontends.shared.home import format_command
from frontends.shared.mcp_servers import load_servers

_MOST = 10
_MOST_NAMES = 5


def check_config(home: Path, cwd: Path, environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Report what `config check` reports."""
    found = find_problems(home, cwd, environ)
    see = format_command(home, "config check", "")
    for each in found.problems[:_MOST]:
        yield problem("config", each.sentence, found.meaning)
    for each in found.warnings[:_MOST]:
        yield warning("config", each.sentence, see)
    remaining = max(0, len(found.problems) - _MOST) + max(0, len(found.warnings) - _MOST)
    if remaining:
        yield warning("config", f"and {remaining} more", see)
    if not found.problems and not found.warnings:
        files = _files_with_settings(home, cwd, environ)
        yield ok("config", f"no errors in {', '.join(files)}" if files else "nothing is set")


def _files_with_settings(home: Path, cwd: Path, environ: Mapping[str, str]) -> list[str]:
    """Return the files that set something, including those of a trusted project."""
    config = load_folder_config(home, cwd, environ)
    sources = [each.source for each in sc.setup.describe_settings(config, environ)]
    files = [str(home / CONFIG_FILE)] if (home / CONFIG_FILE).exists() else []
    files += [str(each.place) for each in sources if each.layer in {"user", "project"}]
    return list(dict.fromkeys(map(format_path, files)))


def check_models(home: Path, cwd: Path, environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Report which models can be used and where their keys come from."""
    try:
        config = load_folder_config(home, cwd, environ)
    except sc.setup.ConfigInvalid:
        yield warning("models", "unknown while the configuration has errors", "fix those first")
        return
    choices = sc.setup.available_models(config, environ)
    usable = [each for each in choices if each.available]
    keys = [
        f"{each.name} (in the configuration)" if each.key is not None else f"{each.name} ({each.key_env})"
        for each in config.providers
        if each.key is not None or (each.key_env is not None and environ.get(each.key_env, "").strip())
    ]
    chosen = f"; {config.model} is chosen" if config.model is not None else ""
    if keys:
        yield ok("models", f"{len(usable)} of {len(choices)} can be used{chosen}")
        yield ok("keys", f"there are keys for {', '.join(keys)}")
    elif config.model is not None:
        yield ok("models", f"{config.model} is chosen, and no provider has a key")
    else:
        names = ", ".join(each.key_env for each in config.providers if each.key_env is not None)
        yield warning(
            "models",
            "no API key is configured, so the offline demo model is used",
            f"set one of {names}, or start Ollama",
        )


def check_extensions(home: Path, cwd: Path, environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Report how many extensions there are, and which do not run."""
    see = format_command(home, "ext list", "")
    found = find_extensions(home, cwd, environ).entries
    counts = {state: [each.name for each in found if each.state == state] for state in {each.state for each in found}}
    ready = len(counts.get("ready", [])) + len(counts.get("watched", []))
    yield ok("extensions", f"{ready} of {len(found)} would run" if found else "there are none")
    if waiting := [*counts.get("no_consent", []), *counts.get("untrusted", [])]:
        yield warning("extensions", f"not trusted yet: {_names(waiting)}", f"review them: {see}")
    if invalid := counts.get("invalid", []):
        yield problem("extensions", f"cannot be read: {_names(invalid)}", f"see why: {see}")


def check_servers(home: Path, cwd: Path, environ: Mapping[str, str]) -> Iterator[DoctorFinding]:
    """Report the configured MCP servers without starting any; errors in the files are part of the `config` check."""
    try:
        mcp_file = load_folder_config(home, cwd, environ).mcp_file
    except sc.setup.ConfigInvalid:
        mcp_file = None
    names = [each.name for each in load_servers(home, cwd, mcp_file, environ).servers]
    said = f"{format_count(len(names), 'server')}: {_names(names)}; start them with: {format_command(home, 'mcp', '')}"
    yield ok("mcp", said if names else "no server is configured")


def _names(names: list[str]) -> str:
    return ", ".join([*names[:_MOST_NAMES], *(["..."] if len(names) > _MOST_NAMES else [])])
