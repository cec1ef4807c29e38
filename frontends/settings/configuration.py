"""`session-core config ...`: what is set, where it came from, and what is wrong with it."""

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import session_core as sc
from frontends.console.cells import Column, columns, table
from frontends.console.figures import place
from frontends.console.sanitise import one_line
from frontends.console.style import Style, counted, style_of

CONFIG_FILE = "config.toml"
_LONGEST = 2_000
_HEADS = (
    Column(title="SETTING", share=4, least=12),
    Column(title="VALUE", share=4, least=8),
    Column(title="FROM", share=3, least=8, from_end=True),
)


def show(home: Path, cwd: Path, *, as_json: bool) -> int:
    """Run `config show` and return the exit code."""
    config = sc.load_config(home, cwd, trust=sc.trusted_project(home, cwd))
    settings = sc.shown_settings(config, os.environ)
    if as_json:
        for each in settings:
            print(json.dumps({"key": each.key, "value": each.value, "from": str(each.source)}))
        return 0
    for line in setting_lines(style_of(sys.stdout), settings, width=columns()):
        print(line)
    _remark(config.remarks)
    return 0


def setting_lines(style: Style, settings: Sequence[sc.ShownSetting], *, width: int) -> list[str]:
    """Return a table with one line per setting; those that somebody has set stand out."""
    rows = [
        (one_line(each.key, _LONGEST), one_line(value_text(each.value), _LONGEST), one_line(_from(each), _LONGEST))
        for each in settings
    ]

    def paint(row: int, column: int, text: str) -> str:
        if row < 0 or settings[row].source.layer == "default":
            return style.dim(text)
        return style.cyan(text) if column == 0 else style.dim(text) if column == 2 else text

    return table(_HEADS, rows, width, paint, style.symbol("…"))


def _from(setting: sc.ShownSetting) -> str:
    source = setting.source
    return place(str(source)) if source.layer in {"user", "project"} else str(source)


def value_text(value: Any) -> str:
    """Return a value as one would write it into the file; a dash stands for nothing set."""
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
    """Run `config check`: also a project's file that is not trusted is looked at. Return 1 if something is wrong."""
    problems: tuple[sc.ConfigProblem, ...] = ()
    remarks: tuple[str, ...] = ()
    try:
        remarks = sc.load_config(home, cwd, trust=True).remarks
    except sc.ConfigInvalid as invalid:
        problems = invalid.problems
    if as_json:
        for each in problems:
            print(json.dumps({"place": each.place, "line": each.line, "key": each.key, "what": each.what}))
        return 1 if problems else 0
    style = style_of(sys.stdout)
    for each in problems:
        print(f"{style.red(style.symbol('✗'))} {one_line(each.sentence, _LONGEST)}")
    if problems:
        print(f"{counted(len(problems), 'problem')}; nothing is used until this is put right")
        return 1
    print(f"{style.green(style.symbol('✓'))} {_what_was_read(home, cwd)}")
    _remark(remarks)
    return 0


def _what_was_read(home: Path, cwd: Path) -> str:
    files = [file for file in (home / CONFIG_FILE, sc.project_file_of(home, cwd)) if file is not None and file.exists()]
    if not files:
        return f"nothing is set, and nothing is wrong; settings go into {place(str(home / CONFIG_FILE))}"
    return f"nothing is wrong in {' and '.join(one_line(place(str(file)), _LONGEST) for file in files)}"


def show_path(home: Path, cwd: Path, *, as_json: bool) -> int:
    """Run `config path`: where the user's own file is, whether it is there or not."""
    own = home / CONFIG_FILE
    if not as_json:
        print(one_line(str(own), _LONGEST))
        return 0
    project = sc.project_file_of(home, cwd)
    print(
        json.dumps(
            {
                "user": {"path": str(own), "exists": own.exists()},
                "project": None
                if project is None
                else {"path": str(project), "trusted": sc.trusted_project(home, cwd) is not None},
            }
        )
    )
    return 0


def _remark(remarks: Sequence[str]) -> None:
    style = style_of(sys.stderr)
    for remark in remarks:
        print(f"{style.yellow(style.symbol('●'))} {one_line(remark, _LONGEST)}", file=sys.stderr)
