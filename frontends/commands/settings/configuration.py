"""`session-core config ...`: what is set, where it comes from, and what is wrong with it."""

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs

import session_core as sc
from frontends.commands.run.embedded_service import DEMO
from frontends.commands.settings.servers import read_servers
from frontends.shared.figures import format_path
from frontends.shared.sanitise import dump_json, one_line
from frontends.shared.style import Style, format_count, stream_style
from frontends.shared.text_width import Column, columns, table

CONFIG_FILE = "config.toml"
_LONGEST = 2_000
_MOST_FILES = 5
_HEADS = (
    Column(title="SETTING", share=4, least=12),
    Column(title="VALUE", share=4, least=8),
    Column(title="FROM", share=3, least=8, from_end=True),
)


def show(home: Path, cwd: Path, *, as_json: bool) -> int:
    """Run `config show` and return the exit code."""
    config = sc.setup.load_config(home, cwd, trust=sc.setup.find_trusted_fingerprint(home, cwd))
    settings = sc.setup.describe_settings(config, os.environ)
    if as_json:
        for each in settings:
            print(dump_json({"key": each.key, "value": each.value, "from": str(each.source)}))
        return 0
    for line in setting_lines(stream_style(sys.stdout), settings, width=columns()):
        print(line)
    _remark(config.remarks)
    return 0


def setting_lines(style: Style, settings: Sequence[sc.setup.ShownSetting], *, width: int) -> list[str]:
    """Return a table with one line per setting; those that were set explicitly stand out."""
    rows = [
        (
            one_line(each.key, _LONGEST),
            one_line(value_text(each.value), _LONGEST),
            one_line(_format_source(each), _LONGEST),
        )
        for each in settings
    ]

    def paint(row: int, column: int, text: str) -> str:
        if row < 0 or settings[row].source.layer == "default":
            return style.dim(text)
        return style.cyan(text) if column == 0 else style.dim(text) if column == 2 else text

    return table(_HEADS, rows, width, paint, style.symbol("…"))


def _format_source(setting: sc.setup.ShownSetting) -> str:
    source = setting.source
    return format_path(str(source)) if source.layer in {"user", "project"} else str(source)


def value_text(value: Any) -> str:
    """Return a value as written in the file; a dash stands for nothing set."""
    match value:
        case None:
            return "-"
        case list() if not value:
            return "-"
        case dict():
            return ", ".join(f"{key} = {value_text(each)}" for key, each in value.items())
        case list():
            return ", ".join(map(str, value))
        case bool():
            return "true" if value else "false"
        case _:
            return str(value)


def check(home: Path, cwd: Path, *, as_json: bool) -> int:
    """Run `config check`: print all errors, and all settings without effect. Return 1 if something is wrong."""
    found = find_problems(home, cwd, os.environ)
    if as_json:
        for severity, problems in (("error", found.problems), ("warning", found.warnings)):
            for each in problems:
                place_of = {"place": each.place, "line": each.line, "key": each.key}
                print(dump_json({"severity": severity, **place_of, "what": each.what}))
        return 1 if found.problems else 0
    style = stream_style(sys.stdout)
    for each in found.problems:
        print(f"{style.red(style.symbol('✗'))} {one_line(each.sentence, _LONGEST)}")
    if found.problems:
        print(f"{format_count(len(found.problems), 'problem')}; {found.meaning}")
    else:
        print(f"{style.green(style.symbol('✓'))} {_what_was_read(home, cwd)}")
    _remark([*(each.sentence for each in found.warnings), *found.remarks])
    return 1 if found.problems else 0


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
            *_server_problems(home, cwd, config),
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
    if config.model is None or config.model == DEMO or about_late_model(home, cwd, config, environ):
        return []
    try:
        sc.setup.resolve_model(config, config.model, environ)
    except sc.InvalidInput as refused:
        source = config.source("model")
        return [sc.setup.ConfigProblem(place=source.place, line=source.line, key="model", what=refused.message)]
    return []


def _protocol_problems(config: sc.setup.Config) -> list[sc.setup.ConfigProblem]:
    """Report an unknown protocol: no session could be created."""
    what = sc.setup.problem_of_protocol_name(config.protocol)
    if what is None:
        return []
    source = config.source("protocol")
    return [sc.setup.ConfigProblem(place=source.place, line=source.line, key="protocol", what=what)]


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
    from frontends.commands.extensions.lookup import find_extensions as look_for_extensions

    known = {each.name for each in look_for_extensions(home, cwd).entries}
    source = config.source("extensions.watch")
    return [
        sc.setup.ConfigProblem(
            place=source.place,
            line=source.line,
            key="extensions.watch",
            what=f"there is no extension called {name!r}, so nothing is watched; see: session-core ext list",
        )
        for name in config.watched_extensions
        if name not in known
    ]


def _server_problems(home: Path, cwd: Path, config: sc.setup.Config) -> list[sc.setup.ConfigProblem]:
    mistakes = read_servers(home, cwd, config).mistakes
    return [
        sc.setup.ConfigProblem(place=each.file, line=each.line, key=each.field, what=each.what) for each in mistakes
    ]


def _what_was_read(home: Path, cwd: Path) -> str:
    trusted = sc.setup.find_trusted_fingerprint(home, cwd) is not None
    read = (home / CONFIG_FILE, sc.setup.find_project_file(home, cwd) if trusted else None)
    files = [file for file in read if file is not None and file.exists()]
    if not files:
        return f"nothing is set, and there are no errors; settings go into {format_path(str(home / CONFIG_FILE))}"
    return f"no errors in {' and '.join(one_line(format_path(str(file)), _LONGEST) for file in files)}"


def show_path(home: Path, cwd: Path, *, as_json: bool) -> int:
    """Run `config path`: print where the user's own file is, whether it exists or not."""
    own = home / CONFIG_FILE
    if not as_json:
        print(one_line(str(own), _LONGEST))
        return 0
    project = sc.setup.find_project_file(home, cwd)
    print(
        dump_json(
            {
                "user": {"path": str(own), "exists": own.exists()},
                "project": None
                if project is None
                else {"path": str(project), "trusted": sc.setup.find_trusted_fingerprint(home, cwd) is not None},
            }
        )
    )
    return 0


def _remark(remarks: Sequence[str]) -> None:
    style = stream_style(sys.stderr)
    for remark in remarks:
        print(f"{style.yellow(style.symbol('●'))} {one_line(remark, _LONGEST)}", file=sys.stderr)
