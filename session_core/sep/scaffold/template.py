"""Creates the folder of a new extension from a template, completely or not at all. This blocks."""

import json
import keyword
import os
import re
import shlex
import sys
import tempfile
from collections.abc import Mapping
from importlib.machinery import PathFinder
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Final

import attrs

from session_core.errors import Conflict, InvalidInput
from session_core.sep.protocol.manifest import MANIFEST_FILE
from session_core.sep.protocol.names import Capability, is_extension_name
from session_core.wire.error_text import quote_text


# --- the templates for extensions, and how they differ apart from their files -----------------------------------------
@attrs.frozen(kw_only=True)
class ExtensionTemplate:
    """A template; `@NAME@` in its texts stands for the name of the extension.

    Attributes:
        about: What the extension does, for its README.
        capabilities: The capabilities it needs.
        settings: Further lines of its manifest, before all tables.
        use: A command line that shows it at work.
    """

    about: str
    capabilities: tuple[Capability, ...]
    settings: str = ""
    use: str


KINDS: Final[Mapping[str, ExtensionTemplate]] = MappingProxyType(
    {
        "tool": ExtensionTemplate(
            about="Gives models the tool `@NAME@.count_words`, which counts the words of some text.",
            capabilities=("tools",),
            use='session-core run "Count the words of the first paragraph of the README"',
        ),
        "command": ExtensionTemplate(
            about=(
                "The command `/@NAME@` keeps notes: `/@NAME@ TITLE TEXT` keeps one, `/@NAME@ TITLE` brings it into the "
                "conversation, where the model reads it too, and `/@NAME@` lists them all."
            ),
            capabilities=("commands", "session", "kv"),
            use='session-core run "/@NAME@ style Short sentences, plain words."',
        ),
        "permission-gate": ExtensionTemplate(
            about=(
                "Asks you before the agent runs a dangerous command line, such as `rm -rf`. Where nobody can be asked, "
                "the answer is no. What counts as dangerous stands at the top of the source. It is a help against "
                "accidents, not a wall: there are many ways to write one and the same command."
            ),
            capabilities=("ui",),
            settings="hook_timeout_ms = 300000  # as long as a person may think; after that the answer is no\n",
            use='session-core run "Run the command: sudo true"',
        ),
        "provider": ExtensionTemplate(
            about="Adds the model `@NAME@/echo`, which repeats what the user said, piece by piece.",
            capabilities=("providers",),
            use='session-core run --model @NAME@/echo "Hello there"',
        ),
        "widget": ExtensionTemplate(
            about=(
                "The command `/@NAME@` shows a counter that stays visible, where the frontend can show widgets. The "
                "keys `+`, `-` and `0` change it, and its value is saved."
            ),
            capabilities=("commands", "ui", "kv"),
            use='session-core run "/@NAME@"',
        ),
    }
)
"""The templates, by the name that people choose; the first is the default."""


# --- template ---------------------------------------------------------------------------------------------------------

_PLACE: Final = re.compile(r"@([A-Z]+)@")
_MODULE_OF_PYTEST: Final = "conftest"
_USUAL_PYTHON: Final = "python3"


@attrs.frozen(kw_only=True)
class NewExtension:
    """A created folder; `files` are the names in it, the source first."""

    name: str
    template: str
    folder: Path
    files: tuple[str, ...]


def scaffold_extension(name: str, template: str, folder: Path, *, python: str = sys.executable) -> NewExtension:
    """Create the folder of a new extension, which works as it is; parent folders are created too.

    Args:
        name: The name of the extension.
        template: One of `KINDS`.
        folder: Where to create it; nothing may exist there yet.
        python: The interpreter to start it with, in which session-core is installed.

    Raises:
        InvalidInput: The name or the template is invalid, or the folder cannot be created.
        Conflict: Something exists there already; it is left as it is.
    """
    if not is_extension_name(name):
        raise InvalidInput(
            f"{quote_text(name)} cannot be the name of an extension: "
            "use 1 to 64 of a-z, 0-9, '-' and '_', beginning with "
            "a letter or digit",
            field="name",
        )
    kind = KINDS.get(template)
    if kind is None:
        known = ", ".join(KINDS)
        raise InvalidInput(f"there is no template {quote_text(template)}; known: {known}", field="template")
    module = module_name(name)
    contents = _render_files(template, kind, name, module, python)
    try:
        _put(folder, contents)
    except OSError as error:
        # Another process may have been faster.
        if os.path.lexists(folder):
            raise _build_conflict(folder) from error
        why = f"the folder {str(folder)!r} cannot be made: {error.strerror}"
        raise InvalidInput(why, field="folder") from error
    except ValueError as error:
        raise InvalidInput(f"{str(folder)!r} cannot be the path of a folder", field="folder") from error
    return NewExtension(name=name, template=template, folder=folder, files=tuple(contents))


def module_name(name: str) -> str:
    """Return a module name for an extension's source that hides no other module.

    A program's folder comes first on its path, so a `calendar.py` in it would be what the whole process gets from
    `import calendar`.
    """
    module = name.replace("-", "_")
    if module[0].isdigit():
        module = f"extension_{module}"
    here = {"", str(Path.cwd())}  # the current directory will not be on the path later
    path = [place for place in sys.path if place not in here]
    taken = (
        keyword.iskeyword(module)
        or keyword.issoftkeyword(module)
        or module == _MODULE_OF_PYTEST
        or module in sys.stdlib_module_names
        or module in sys.modules  # modules loaded here will be loaded there too: this package, and what it uses
        or PathFinder.find_spec(module, path) is not None
    )
    return f"{module}_extension" if taken else module


def _render_files(template: str, kind: ExtensionTemplate, name: str, module: str, python: str) -> dict[str, str]:
    # An interpreter that cannot be written into the manifest is better found by name.
    interpreter = python if python and python.isprintable() else _USUAL_PYTHON
    values = {
        "NAME": name,
        "MODULE": module,
        "PYTHON": json.dumps(interpreter, ensure_ascii=False),
        "INTERPRETER": shlex.quote(interpreter),
        "CAPABILITIES": "\n".join(f"{each} = true" for each in kind.capabilities),
        "SETTINGS": kind.settings,
        "ABOUT": _fill(kind.about, {"NAME": name}),
        "USE": _fill(kind.use, {"NAME": name}),
    }
    sources = {
        f"{module}.py": f"{template}/source.py.txt",
        f"test_{module}.py": f"{template}/test.py.txt",
        MANIFEST_FILE: "extension.toml.txt",
        "README.md": "README.md.txt",
        "pytest.ini": "pytest.ini.txt",
        ".gitignore": "gitignore.txt",
    }
    return {target: _fill(_text_of(source), values) for target, source in sources.items()}


def _text_of(source: str) -> str:
    return files("session_core.sep.scaffold").joinpath("templates", source).read_text(encoding="utf-8")


def _fill(text: str, values: Mapping[str, str]) -> str:
    return _PLACE.sub(lambda place: values[place[1]], text)


def _put(folder: Path, contents: Mapping[str, str]) -> None:
    if os.path.lexists(folder):
        raise _build_conflict(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Next to it, so that the last step either succeeds or changes nothing. The inner folder gets the usual permissions.
    with tempfile.TemporaryDirectory(prefix=".new-extension-", dir=folder.parent) as workshop:
        made = Path(workshop) / "made"
        made.mkdir()
        for name, text in contents.items():
            (made / name).write_text(text, encoding="utf-8")
        made.rename(folder)


def _build_conflict(folder: Path) -> Conflict:
    return Conflict(
        f"there is something at {str(folder)!r} already, and it was left as it is; choose another folder",
        field="folder",
    )
