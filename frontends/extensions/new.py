"""`session-core ext new`: the folder of a new extension in Python, and what to type next."""

import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

import session_core as sc
from frontends.arguments import UsageError
from frontends.console.sanitise import one_line
from frontends.console.style import style_of
from frontends.extensions.listing import remark
from frontends.extensions.places import PATH_CHARS, Looked, look, shown
from frontends.stored.home import to_type

_LONGEST = 4 * PATH_CHARS


def make(home: Path, cwd: Path, name: str, template: str, into: str | None) -> int:
    """Run `ext new` and return the exit code."""
    made = sc.scaffold_extension(name, template, cwd / name if into is None else _folder(cwd, into))
    style = style_of(sys.stdout)
    mark = style.green(style.symbol("✓"))
    print(f"{mark} {made.name} was made in {shown(made.folder)}, from the template {made.template}:")
    print("  " + "  ".join(made.files))
    print("Test it, check it, and let it run:")
    looked = look(home, cwd)
    for line in next_commands(made, home, cwd, looked):
        print(f"  {style.cyan(one_line(line, _LONGEST))}")
    if find_spec("pytest") is None:
        remark(f"its tests need pytest: {shlex.quote(sys.executable)} -m pip install pytest")
    mine = looked.in_folder(made.folder)
    if others := [each for each in looked.named(name) if each != mine]:
        remark(f"there is another extension called {name}, in {shown(others[0].folder)}; only one of them is used")
    return 0


def next_commands(made: sc.NewExtension, home: Path, cwd: Path, looked: Looked) -> list[str]:
    """Return what to type next; an extension that lies where nobody looks has to be linked first."""
    # From the folder that somebody is in, the short path is the one that they know.
    folder = made.folder.relative_to(cwd) if made.folder.is_relative_to(cwd) else made.folder
    commands = [
        f"cd {shlex.quote(str(folder))}",
        f"{shlex.quote(sys.executable)} -m pytest",
        "session-core ext check .",
    ]
    if looked.in_folder(made.folder) is None:
        place = looked.places.user[0]
        there = shlex.quote(str(place / made.name))
        commands.append(f'mkdir -p {shlex.quote(str(place))} && ln -sfn "$PWD" {there}')
    return [*commands, to_type(home, "ext trust", made.name)]


def _folder(cwd: Path, into: str) -> Path:
    try:
        return cwd / Path(into).expanduser()
    except RuntimeError:
        typed = one_line(into, PATH_CHARS)
        raise UsageError(f"--into: {typed!r} names a user who is not known here") from None
