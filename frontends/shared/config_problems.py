"""What is wrong with the configuration, and what in it has no effect: `config check` and `doctor` report it."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import attrs

import session_core as sc
from frontends.shared.extension_lookup import find_extensions
from frontends.shared.mcp_servers import read_servers

CONFIG_FILE = "config.toml"
_MOST_FILES = 5


@attrs.frozen(kw_only=True)
class ConfigFindings:
    """Errors, their consequences, settings without effect, and remarks."""

    meaning: str = "what is listed does not work until it is fixed"
    problems: tuple[sc.setup.ConfigProblem, ...] = ()
    warnings: tuple[sc.setup.ConfigProblem, ...] = ()
    remarks: tuple[str, ...] = ()


def find_problems(home: Path, cwd: Path, environ: Mapping[str, str]) -> ConfigFindings:
    """Check everything that would be read here; an untrusted project's file is checked, but never counts."""
    trust = sc.setup.find_trusted_fingerprint(home, cwd)
    try:
        config = sc.setup.load_config(home, cwd, environ, trust=trust)
    except sc.setup.ConfigInvalid as invalid:
        return ConfigFindings(
            meaning="no session can run until this is fixed",
            problems=invalid.problems,
            remarks=()
            if trust is not None
            else _describe_unread_files(home, cwd, environ, [each.what for each in invalid.problems]),
        )
    own = str(sc.setup.find_project_file(home, cwd))
    ignored = {each.sentence for each in config.ignored}
    relevant_remarks = [
        remark
        for remark in config.remarks
        if remark not in ignored and (trust is not None or not remark.startswith(own))
    ]
    unread = () if trust is not None else _describe_unread_files(home, cwd, environ, config.remarks)
    return ConfigFindings(
        problems=(
            *_model_problems(home, cwd, config, environ),
            *_protocol_problems(config),
            *read_servers(home, cwd, config).mistakes,
        ),
        warnings=(*config.ignored, *sc.setup.unknown_tool_names(config), *_unknown_watched(home, cwd, config)),
        remarks=(
            *relevant_remarks,
            *unread,
            *about_late_model(home, cwd, config, environ),
            *_about_keys(config, environ),
        ),
    )


def _describe_unread_files(
    home: Path, cwd: Path, environ: Mapping[str, str], known_remarks: Sequence[str]
) -> tuple[str, ...]:
    """Describe which files of an untrusted folder are not read, and the errors in its settings."""
    try:
        files = [path for path, _ in sc.setup.take_fingerprint(sc.setup.Workspace(str(cwd))).files]
    except (sc.setup.TooMuchToTrust, OSError, ValueError):
        files = []
    if not files:
        return ()
    named = ", ".join([*files[:_MOST_FILES], *(["..."] if len(files) > _MOST_FILES else [])])
    sentence = f"not read: {named}; this folder is not trusted (to review and trust it: session-core trust)"
    try:
        would = sc.setup.load_config(home, cwd, environ, trust=True).remarks
    except sc.setup.ConfigInvalid as invalid:
        would = tuple(each.sentence for each in invalid.problems if each.what not in known_remarks)
    return (sentence, *(f"if it were trusted: {each}" for each in would if each not in known_remarks))


def _model_problems(
    home: Path, cwd: Path, config: sc.setup.Config, environ: Mapping[str, str]
) -> list[sc.setup.ConfigProblem]:
    """Report that the chosen model cannot be used: every turn would fail."""
    if config.model is None or config.model == sc.setup.DEMO or about_late_model(home, cwd, config, environ):
        return []
    try:
        sc.setup.resolve_model(config, config.model, environ)
    except sc.InvalidInput as refused:
        return [_problem(config, "model", refused.message)]
    return []


def _protocol_problems(config: sc.setup.Config) -> list[sc.setup.ConfigProblem]:
    """Report an unknown protocol: no session could be created."""
    what = sc.setup.problem_of_protocol_name(config.protocol)
    return [] if what is None else [_problem(config, "protocol", what)]


def about_late_model(home: Path, cwd: Path, config: sc.setup.Config, environ: Mapping[str, str]) -> list[str]:
    """Report that the chosen model has to come from an extension, which is known only once that runs."""
    if config.model is None or not sc.setup.extension_may_bring(config.model, config, home, cwd, environ):
        return []
    return [f"whether {config.model} can be used is known once the extensions run: one of them has to provide it"]


def _about_keys(config: sc.setup.Config, environ: Mapping[str, str]) -> list[str]:
    """Report that no key is set, unless a model was chosen that needs none."""
    if config.model is not None or any(
        environ.get(each.key_env or "", "").strip() or each.key is not None for each in config.providers
    ):
        return []
    variables = ", ".join(each.key_env for each in config.providers if each.key_env is not None)
    return [f"no key is set ({variables}), so the offline demo model is used, or Ollama if it runs here"]


def _unknown_watched(home: Path, cwd: Path, config: sc.setup.Config) -> list[sc.setup.ConfigProblem]:
    """Report extensions that are to be watched but do not exist."""
    if not config.watched_extensions:
        return []
    known = {each.name for each in find_extensions(home, cwd).entries}
    missing = [name for name in config.watched_extensions if name not in known]
    what = "there is no extension called {!r}, so nothing is watched; see: session-core ext list"
    return [_problem(config, "extensions.watch", what.format(name)) for name in missing]


def _problem(config: sc.setup.Config, key: str, what: str) -> sc.setup.ConfigProblem:
    source = config.source(key)
    return sc.setup.ConfigProblem(place=source.place, line=source.line, key=key, what=what)
