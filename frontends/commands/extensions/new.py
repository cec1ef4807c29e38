"""`session-core ext new`: creates the folder of a new Python extension, and prints the next commands or tries it."""

import os
import shlex
import sys
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path

import trio

import session_core as sc
from frontends.commands.extensions.doctor import examine
from frontends.commands.extensions.trust import report_what_is_missing
from frontends.shared.extension_lookup import (
    PATH_CHARS,
    ExtensionCatalogue,
    ExtensionListEntry,
    as_discovered,
    find_extensions,
    format_folder,
    open_consents,
    reread_entry,
)
from frontends.shared.home import format_command
from frontends.shared.parser import UsageError
from frontends.shared.sanitise import one_line
from frontends.shared.streams import remark
from frontends.shared.style import stream_style

_LONGEST = 4 * PATH_CHARS


def make(home: Path, cwd: Path, name: str, template: str, into: str | None) -> int:
    """Run `ext new` and return the exit code."""
    looked = find_extensions(home, cwd)
    made = _scaffold(cwd, name, template, into, looked)
    style = stream_style(sys.stdout)
    print("Test it, check it, and let it run:")
    looked = find_extensions(home, cwd)
    for line in next_commands(made, home, cwd, looked):
        print(f"  {style.cyan(one_line(line, _LONGEST))}")
    _mention_pytest()
    mine = looked.entry_in_folder(made.folder)
    if others := [each for each in looked.entries_named(name) if each != mine]:
        remark(f"another extension is called {name}, in {format_folder(others[0].folder)}; only one of them is used")
    return 0


def next_commands(made: sc.extensions.NewExtension, home: Path, cwd: Path, looked: ExtensionCatalogue) -> list[str]:
    """Return the commands to type next; an extension outside the searched folders has to be linked first."""
    commands = [_enter(made, cwd), f"{shlex.quote(sys.executable)} -m pytest", "session-core ext check ."]
    if looked.entry_in_folder(made.folder) is None:
        commands.append(made.link)
    return [*commands, format_command(home, "ext trust", made.name)]


def make_and_try(home: Path, cwd: Path, name: str, template: str, into: str | None) -> int:
    """Run `ext new --try`: create it, link it, let it run, and show it at work; returns 1 if it does not work.

    Raises:
        Conflict: There is an extension of that name, or something where the link belongs. Nothing was made.
    """
    looked = find_extensions(home, cwd)
    if others := looked.entries_named(name):
        raise sc.Conflict(
            f"an extension is called {name} already, in {format_folder(others[0].folder)}; choose another name"
        )
    style = stream_style(sys.stdout)
    mark = style.green(style.symbol("✓"))
    link = None if _is_searched(_target(cwd, name, into), looked) else looked.places.user[0] / name
    with ExitStack() as undo:
        if link is not None:
            undo.callback(_link(link, _target(cwd, name, into)).unlink)
        made = _scaffold(cwd, name, template, into, looked)
        undo.pop_all()
    if link is not None:
        print(f"{mark} {name} was linked to {format_folder(link)}, where extensions are searched.")
    entry = _let_run(home, cwd, made)
    print(f"{mark} {name} may run, until one of its files changes.")
    report_what_is_missing(home, cwd, entry)
    code = trio.run(partial(examine, as_discovered(entry), home, cwd, looked, trial=made.trial))
    use = made.use.replace("session-core run", format_command(home, "run", ""), 1)
    print("It has ended again, and nothing of this trial was stored. To use it:")
    print(f"  {style.cyan(one_line(use, _LONGEST))}")
    print("To change it, and let it run with the new files:")
    for line in (_enter(made, cwd), format_command(home, "ext trust", name)):
        print(f"  {style.cyan(one_line(line, _LONGEST))}")
    _mention_pytest()
    return code


def _scaffold(
    cwd: Path, name: str, template: str, into: str | None, looked: ExtensionCatalogue
) -> sc.extensions.NewExtension:
    folder = _target(cwd, name, into)
    made = sc.extensions.scaffold_extension(name, template, folder, place=looked.places.user[0])
    style = stream_style(sys.stdout)
    mark = style.green(style.symbol("✓"))
    print(f"{mark} {made.name} was created in {format_folder(made.folder)}, from the template {made.template}:")
    print("  " + "  ".join(made.files))
    return made


def _is_searched(folder: Path, looked: ExtensionCatalogue) -> bool:
    """Return whether an extension in this folder, which may not exist yet, is found without a link."""
    parent = os.path.realpath(folder.parent)
    return parent in map(os.path.realpath, (*looked.places.user, *looked.places.project))


def _link(link: Path, folder: Path) -> Path:
    """Make a link to a folder that does not exist yet."""
    try:
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(folder)
    except FileExistsError as error:
        raise sc.Conflict(f"there is something at {format_folder(link)} already, and it was left as it is") from error
    except OSError as error:
        raise sc.InvalidInput(f"it cannot be linked to {format_folder(link)}: {error.strerror}") from error
    return link


def _let_run(home: Path, cwd: Path, made: sc.extensions.NewExtension) -> ExtensionListEntry:
    """Store the consent to the files that were just made."""
    found = find_extensions(home, cwd).entry_in_folder(made.folder)
    assert found is not None, "it is linked"
    entry = reread_entry(found)
    assert entry.digest is not None, "it was read closely"
    open_consents(home).agree(entry.name, entry.folder, entry.digest, entry.files)
    return entry


def _enter(made: sc.extensions.NewExtension, cwd: Path) -> str:
    # Prefer the short path relative to the current folder: it is the one the user knows.
    folder = made.folder.relative_to(cwd) if made.folder.is_relative_to(cwd) else made.folder
    return f"cd {shlex.quote(str(folder))}"


def _mention_pytest() -> None:
    if find_spec("pytest") is None:
        remark(f"its tests need pytest: {shlex.quote(sys.executable)} -m pip install pytest")


def _target(cwd: Path, name: str, into: str | None) -> Path:
    return cwd / name if into is None else _folder(cwd, into)


def _folder(cwd: Path, into: str) -> Path:
    try:
        return cwd / Path(into).expanduser()
    except RuntimeError:
        typed = one_line(into, PATH_CHARS)
        raise UsageError(f"--into: {typed!r} names an unknown user") from None
