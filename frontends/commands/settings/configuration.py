"""`session-core config ...`: what is set, where it comes from, and what is wrong with it."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import session_core as sc
from frontends.shared.config_problems import CONFIG_FILE, find_problems
from frontends.shared.figures import format_count, format_path
from frontends.shared.folder_config import load_folder_config
from frontends.shared.sanitise import dump_json, one_line
from frontends.shared.streams import remark
from frontends.shared.style import Style, stream_style
from frontends.shared.text_width import Column, columns, table

_LONGEST = 2_000
_HEADS = (
    Column(title="SETTING", share=4, least=12),
    Column(title="VALUE", share=4, least=8),
    Column(title="FROM", share=3, least=8, from_end=True),
)


def show(home: Path, cwd: Path, *, as_json: bool) -> int:
    """Run `config show` and return the exit code."""
    config = load_folder_config(home, cwd)
    settings = sc.setup.describe_settings(config, os.environ)
    if as_json:
        for each in settings:
            print(dump_json({"key": each.key, "value": each.value, "from": str(each.source)}))
        return 0
    for line in setting_lines(stream_style(sys.stdout), settings, width=columns()):
        print(line)
    for sentence in config.remarks:
        remark(sentence)
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
    for sentence in (*(each.sentence for each in found.warnings), *found.remarks):
        remark(sentence)
    return 1 if found.problems else 0


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
