"""`session-core ext new`: creates the folder of a new Python extension, and prints the next commands."""

import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

import session_core as sc
from frontends.shared.extension_lookup import PATH_CHARS, ExtensionCatalogue, find_extensions, format_folder
from frontends.shared.home import format_command
from frontends.shared.parser import UsageError
from frontends.shared.sanitise import one_line
from frontends.shared.streams import remark
from frontends.shared.style import stream_style

_LONGEST = 4 * PATH_CHARS


def make(home: Path, cwd: Path, name: str, template: str, into: str | None) -> int:
    """Run `ext new` and return the exit code."""
    made = sc.extensions.scaffold_extension(name, template, cwd / name if into is None else _folder(cwd, into))
    style = stream_style(sys.stdout)
    mark = style.green(style.symbol("✓"))
    print(f"{mark} {made.name} was created in {format_folder(made.folder)}, from the template {made.template}:")
    print("  " + "  ".join(made.files))
    print("Test it, check it, and let it run:")
    looked = find_extensions(home, cwd)
    for line in next_commands(made, home, cwd, looked):
        print(f"  {style.cyan(one_line(line, _LONGEST))}")
    if find_spec("pytest") is None:
        remark(f"its tests need pytest: {shlex.quote(sys.executable)} -m pip install pytest")
    mine = looked.entry_in_folder(made.folder)
    if others := [each for each in looked.entries_named(name) if each != mine]:
        remark(f"another extension is called {name}, in {format_folder(others[0].folder)}; only one of them is used")
    return 0


def next_commands(made: sc.extensions.NewExtension, home: Path, cwd: Path, looked: ExtensionCatalogue) -> list[str]:
    """Return the commands to type next; an extension outside the searched folders has to be linked first."""
    # Prefer the short path relative to the current folder: it is the one the user knows.
    folder = made.folder.relative_to(cwd) if made.folder.is_relative_to(cwd) else made.folder
    commands = [
        f"cd {shlex.quote(str(folder))}",
        f"{shlex.quote(sys.executable)} -m pytest",
        "session-core ext check .",
    ]
    if looked.entry_in_folder(made.folder) is None:
        place = looked.places.user[0]
        there = shlex.quote(str(place / made.name))
        commands.append(f'mkdir -p {shlex.quote(str(place))} && ln -sfn "$PWD" {there}')
    return [*commands, format_command(home, "ext trust", made.name)]


def _folder(cwd: Path, into: str) -> Path:
    try:
        return cwd / Path(into).expanduser()
    except RuntimeError:
        typed = one_line(into, PATH_CHARS)
        raise UsageError(f"--into: {typed!r} names an unknown user") from None
