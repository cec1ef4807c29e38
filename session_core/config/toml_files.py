"""Read a settings file safely: bounded, never waiting for a pipe, with the line of each key; blocks briefly."""

import os
import re
import stat
import tomllib
from decimal import Decimal
from pathlib import Path
from typing import Any, Final

import attrs

from session_core.config.problems import ConfigProblem
from session_core.config.toml_key_lines import Lines, find_key_lines
from session_core.storage.ownership import WritableByOthers, refuse_fault

CONFIG_FILE: Final = "config.toml"
PROJECT_FOLDER: Final = ".session-core"
MAX_CONFIG_BYTES: Final = 64 * 1024
"""People write this file by hand; a larger one is not a settings file."""
MAX_DOTS_IN_LINE: Final = 250
"""The time to read a key grows with the square of its dots: one line of a small file could take minutes."""

_OPEN: Final = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # without O_NONBLOCK, opening a named pipe would hang


@attrs.frozen(kw_only=True)
class TomlFile:
    """The content of a file; `others_may_read` means that its mode lets other users of this machine read it."""

    path: Path
    content: bytes = attrs.field(repr=False)
    tables: dict[str, Any] = attrs.field(repr=False)
    lines: Lines
    others_may_read: bool = False


def read_user_file(home: Path) -> TomlFile | ConfigProblem | None:
    """Read the user's own file, which nobody else could have written; None when there is none."""
    return _read(home / CONFIG_FILE, None)


def read_project_file(workspace: Path) -> TomlFile | ConfigProblem | None:
    """Read a project's file; None when there is none. Links are not followed: they could lead out of the project."""
    path = workspace / PROJECT_FOLDER / CONFIG_FILE
    try:
        folder = os.open(path.parent, _OPEN | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return _build_read_problem(path, error)
    try:
        return _read(path, folder)
    finally:
        os.close(folder)


def _read(path: Path, folder: int | None) -> TomlFile | ConfigProblem | None:
    try:
        if folder is None:
            descriptor = os.open(path, _OPEN)
        else:
            descriptor = os.open(path.name, _OPEN | os.O_NOFOLLOW, dir_fd=folder)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        return _build_read_problem(path, error)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            return _build_problem(path, "this is not an ordinary file; expected a text file with settings, or none")
        if folder is None:
            refuse_fault(path, status)
        with open(descriptor, "rb", closefd=False) as file:
            content = file.read(MAX_CONFIG_BYTES + 1)
    except WritableByOthers as refused:
        return _build_problem(path, f"it is not used, because {refused.message}")
    except (OSError, ValueError) as error:
        return _build_read_problem(path, error)
    finally:
        os.close(descriptor)  # closed here, because `open` leaves it open when it fails, as for a directory
    if len(content) > MAX_CONFIG_BYTES:
        return _build_problem(path, f"it is longer than {MAX_CONFIG_BYTES} bytes; expected a short file with settings")
    return _parse_content(path, content, others_may_read=bool(status.st_mode & 0o077))


def _parse_content(path: Path, content: bytes, *, others_may_read: bool) -> TomlFile | ConfigProblem:
    try:
        text = content.decode("utf-8-sig")
        for number, line in enumerate(text.split("\n"), start=1):
            if line.count(".") > MAX_DOTS_IN_LINE:
                what = f"there are more than {MAX_DOTS_IN_LINE} dots in this line; expected short settings"
                return ConfigProblem(place=str(path), line=number, what=what)
        tables = tomllib.loads(text, parse_float=_parse_decimal)
    except UnicodeDecodeError as error:
        return _build_problem(path, f"it is not text in UTF-8 (at byte {error.start})")
    except RecursionError:
        return _build_problem(path, "it is nested too deeply")
    except tomllib.TOMLDecodeError as error:
        return _build_syntax_problem(path, str(error))
    except ValueError:  # the digits of a number that Python refuses to convert
        return _build_problem(path, "this is not TOML: a number in it is too long")
    return TomlFile(
        path=path, content=content, tables=tables, lines=find_key_lines(text), others_may_read=others_may_read
    )


def _parse_decimal(digits: str) -> Decimal:
    try:
        return Decimal(digits)
    except ArithmeticError:  # the exponent is out of range
        return Decimal("NaN")


def _build_syntax_problem(path: Path, message: str) -> ConfigProblem:
    """Return the error of Python's parser as a problem, with the line in its own field."""
    said, line = message, None
    if found := re.search(r" \(at line (\d+), column (\d+)\)$", message):
        said, line = f"{message[: found.start()]} (at column {found[2]})", int(found[1])
    return ConfigProblem(place=str(path), line=line, what=f"this is not TOML: {said[:1].lower()}{said[1:]}")


def _build_problem(path: Path, what: str) -> ConfigProblem:
    return ConfigProblem(place=str(path), what=what)


def _build_read_problem(path: Path, error: OSError | ValueError) -> ConfigProblem:
    why = error.strerror if isinstance(error, OSError) else str(error)
    return _build_problem(path, f"it cannot be read: {why}")
