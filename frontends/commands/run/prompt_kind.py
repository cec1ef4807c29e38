"""The meaning of a prompt: a message, an extension command, or a shell line. Pure functions."""

import difflib
import os
import re
from collections.abc import Callable, Sequence

import attrs

import session_core as sc
from frontends.shared.parser import UsageError
from frontends.shared.sanitise import one_line
from frontends.shared.text_width import cut

_LIKE_A_COMMAND = re.compile(r"/([A-Za-z][\w:-]*(?:\.[\w:-]+)*)(?:\s|$)")
_MOST_LISTED = 12
_MOST_UNUSED = 2
_NAME_CHARS = 60
_LINE_CHARS = 76


@attrs.frozen(kw_only=True)
class UnusedExtension:
    """An extension that is not running: why, what to type about it, and its known commands."""

    name: str
    why: str
    advice: str
    commands: frozenset[str] = frozenset()

    def may_have(self, command: str) -> bool:
        """Return whether a command probably belongs to this extension."""
        return command in {self.name, *self.commands} or command.startswith(f"{self.name}.")


def is_for_model(prompt: str) -> bool:
    """Return whether a prompt is for the model; text that looks like a command is for an extension that has it."""
    try:
        return isinstance(read_prompt(prompt, ()), sc.extensions.TypedMessage)
    except UsageError:
        return False


def read_prompt(
    prompt: str,
    commands: Sequence[sc.extensions.ExtensionCommand],
    unused: Sequence[UnusedExtension] = (),
    *,
    is_there: Callable[[str], bool] = os.path.lexists,
) -> sc.extensions.TypedInput:
    """Parse a prompt; one that begins with an existing path (`is_there`), or with `//name`, is a message.

    The error names the first of the `unused` extensions that may explain why the command is missing.

    Raises:
        UsageError: It looks like a command, and no extension has one of that name.
    """
    typed = sc.extensions.parse_typed_input(prompt, commands)
    if not isinstance(typed, sc.extensions.TypedMessage) or typed.text != prompt:
        return typed
    doubled = prompt.startswith("//")
    found = _LIKE_A_COMMAND.match(prompt[1:] if doubled else prompt)
    if found is None or (not doubled and is_there(f"/{found[1]}")):
        return typed
    if doubled:
        return sc.extensions.TypedMessage(text=prompt[1:])
    raise _unknown(found[1], commands, unused)


def _unknown(
    name: str, commands: Sequence[sc.extensions.ExtensionCommand], unused: Sequence[UnusedExtension]
) -> UsageError:
    safe_name = one_line(name, _NAME_CHARS)
    send_hint = f"(to send it to the model: //{safe_name})"
    for each in unused:
        if each.may_have(name):
            return UsageError(f"there is no command /{safe_name} now, because {each.why}; {each.advice} {send_hint}")
    whole = "." in name
    names = [f"{each.extension}.{each.name}" if whole else _short(each, commands) for each in commands]
    near = difflib.get_close_matches(name, names, n=3)
    meant = f"; did you mean {' or '.join(f'/{one_line(each, _NAME_CHARS)}' for each in near)}?" if near else ""
    why = "" if commands else ", because no running extension provides any"
    return UsageError(
        f"there is no command /{safe_name}{why}{meant} {send_hint}",
        details=(
            *(_line(each, commands) for each in commands[:_MOST_LISTED] if not near),
            *(f"{each.why}; {each.advice}" for each in unused[:_MOST_UNUSED] if not near),
        ),
    )


def _short(command: sc.extensions.ExtensionCommand, commands: Sequence[sc.extensions.ExtensionCommand]) -> str:
    """Return the shortest name of a command: of several with the same name, the first needs no prefix."""
    first = next(each for each in commands if each.name == command.name)
    return command.name if first.extension == command.extension else f"{command.extension}.{command.name}"


def _line(command: sc.extensions.ExtensionCommand, commands: Sequence[sc.extensions.ExtensionCommand]) -> str:
    name = f"/{one_line(_short(command, commands), _NAME_CHARS)}"
    return cut(f"{name:<16} {one_line(command.description, 200)}".rstrip(), _LINE_CHARS)
