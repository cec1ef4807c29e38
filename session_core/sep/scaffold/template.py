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
from typing import Any, Final

import attrs

from session_core.errors import Conflict, InvalidInput
from session_core.sep.protocol.manifest import MANIFEST_FILE
from session_core.sep.protocol.names import Capability, is_extension_name
from session_core.wire.error_text import quote_text


@attrs.frozen(kw_only=True)
class ExtensionTrial:
    """One request that shows an extension at work, without its context; `what` says what is asked."""

    what: str
    method: str
    params: Mapping[str, Any]


# --- the templates for extensions, and how they differ apart from their files -----------------------------------------
@attrs.frozen(kw_only=True)
class ExtensionTemplate:
    """A template; `@NAME@` in its texts stands for the name of the extension.

    Attributes:
        about: What the extension does, for its README.
        capabilities: The capabilities it needs.
        settings: Further lines of its manifest, before all tables.
        use: A command line that shows it at work.
        trial: A request that does so without a session.
    """

    about: str
    capabilities: tuple[Capability, ...]
    settings: str = ""
    use: str
    trial: ExtensionTrial


_COMMANDED: Final = {"text": "style Plain words.", "args": ["style", "Plain", "words."]}
_DANGEROUS: Final = {"tool": "bash", "call_id": "call_trial", "arguments": {"command": "sudo true"}}
_SAID: Final = [{"role": "user", "content": "Hello there"}]

KINDS: Final[Mapping[str, ExtensionTemplate]] = MappingProxyType(
    {
        "tool": ExtensionTemplate(
            about="Gives models the tool `@NAME@.count_words`, which counts the words of some text.",
            capabilities=("tools",),
            use='session-core run "Count the words of the first paragraph of the README"',
            trial=ExtensionTrial(
                what='the tool @NAME@.count_words, for "To be, or not to be"',
                method="tool/execute",
                params={"call_id": "call_trial", "tool": "count_words", "arguments": {"text": "To be, or not to be"}},
            ),
        ),
        "command": ExtensionTemplate(
            about=(
                "The command `/@NAME@` keeps notes: `/@NAME@ TITLE TEXT` keeps one, `/@NAME@ TITLE` brings it into the "
                "conversation, where the model reads it too, and `/@NAME@` lists them all."
            ),
            capabilities=("commands", "session", "kv"),
            use='session-core run "/@NAME@ style Short sentences, plain words."',
            trial=ExtensionTrial(
                what="the command /@NAME@ style Plain words.",
                method="command/execute",
                params={"command": "@NAME@", "arguments": _COMMANDED},
            ),
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
            trial=ExtensionTrial(
                what="its answer when the agent wants to run: sudo true",
                method="hook",
                params={"hook": "tool_call", "input": {**_DANGEROUS, "session_id": "ses_trial"}},
            ),
        ),
        "provider": ExtensionTemplate(
            about="Adds the model `@NAME@/echo`, which repeats what the user said, piece by piece.",
            capabilities=("providers",),
            use='session-core run --model @NAME@/echo "Hello there"',
            trial=ExtensionTrial(
                what='the model @NAME@/echo, asked "Hello there"',
                method="provider/complete",
                params={
                    "request_id": "trial",
                    "provider": "@NAME@",
                    "model": "echo",
                    "messages": _SAID,
                    "stream": True,
                },
            ),
        ),
        "widget": ExtensionTemplate(
            about=(
                "The command `/@NAME@` shows a counter that stays visible, where the frontend can show widgets. The "
                "keys `+`, `-` and `0` change it, and its value is saved."
            ),
            capabilities=("commands", "ui", "kv"),
            use='session-core run "/@NAME@"',
            trial=ExtensionTrial(
                what="the command /@NAME@", method="command/execute", params={"command": "@NAME@", "arguments": {}}
            ),
        ),
    }
)
"""The templates, by the name that people choose; the first is the default."""


# --- template ---------------------------------------------------------------------------------------------------------

_PLACE: Final = re.compile(r"@([A-Z]+)@")
_MODULE_OF_PYTEST: Final = "conftest"
_USUAL_PYTHON: Final = "python3"
_USUAL_PLACE: Final = "~/.smooth/extensions"


@attrs.frozen(kw_only=True)
class NewExtension:
    """A created folder.

    Attributes:
        files: The names in it, the source first.
        link: The command, typed in it, that links it into a folder that is searched for extensions.
        use: A command that shows it at work.
        trial: A request that does so without a session.
    """

    name: str
    template: str
    folder: Path
    files: tuple[str, ...]
    link: str
    use: str
    trial: ExtensionTrial


def scaffold_extension(
    name: str, template: str, folder: Path, *, python: str = sys.executable, place: Path | None = None
) -> NewExtension:
    """Create the folder of a new extension, which works as it is; parent folders are created too.

    Args:
        name: The name of the extension.
        template: One of `KINDS`.
        folder: Where to create it; nothing may exist there yet.
        python: The interpreter to start it with, in which session-core is installed.
        place: A folder that is searched for extensions; by default the one that is shared with other programs.

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
    link = _link_command(name, _USUAL_PLACE if place is None else shlex.quote(str(place)))
    contents = _render_files(template, kind, name, python=python, link=link)
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
    return NewExtension(
        name=name,
        template=template,
        folder=folder,
        files=tuple(contents),
        link=link,
        use=_fill(kind.use, {"NAME": name}),
        trial=ExtensionTrial(
            what=_fill(kind.trial.what, {"NAME": name}),
            method=kind.trial.method,
            params=json.loads(_fill(json.dumps(kind.trial.params), {"NAME": name})),
        ),
    )


def _link_command(name: str, place: str) -> str:
    return f'mkdir -p {place} && ln -sfn "$PWD" {place}/{name}'


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


def _render_files(template: str, kind: ExtensionTemplate, name: str, *, python: str, link: str) -> dict[str, str]:
    module = module_name(name)
    # An interpreter that cannot be written into the manifest is better found by name.
    interpreter = python if python and python.isprintable() else _USUAL_PYTHON
    values = {
        "NAME": name,
        "MODULE": module,
        "PYTHON": json.dumps(interpreter, ensure_ascii=False),
        "INTERPRETER": shlex.quote(interpreter),
        "CAPABILITIES": "\n".join(f"{each} = true" for each in kind.capabilities),
        "SETTINGS": kind.settings,
        "LINK": link,
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
