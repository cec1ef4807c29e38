"""What a person has typed into a prompt: a command of an extension, a line for the shell, or a message. Pure."""

from collections.abc import Sequence

import attrs

from session_core.vocabulary.extensions import ExtensionCommand


@attrs.frozen(kw_only=True)
class TypedCommand:
    """`/name arguments`, or `/extension.name arguments`: what `RunCommand` needs."""

    extension: str
    name: str
    arguments: str = ""


@attrs.frozen(kw_only=True)
class TypedShellLine:
    """`!line`: what `RunShellLine` needs."""

    line: str


@attrs.frozen(kw_only=True)
class TypedMessage:
    """Anything else: a message to the agent."""

    text: str


TypedInput = TypedCommand | TypedShellLine | TypedMessage


def parse_typed_input(text: str, commands: Sequence[ExtensionCommand]) -> TypedInput:
    """Return what a person means by what they typed, given the existing commands in order: the first of a name counts.

    A slash that no command name follows, such as in a path, is a message. To send a message that looks like a command
    or a shell line, type the first character twice; one of the two is then dropped.
    """
    if text.startswith("!"):
        return _parse_shell_line(text)
    if text.startswith("//"):
        meant = _parse_command(f"/{text.lstrip('/')}", commands)
        return TypedMessage(text=text[1:] if meant is not None else text)
    return _parse_command(text, commands) or TypedMessage(text=text)


def _parse_shell_line(text: str) -> TypedInput:
    line = text[1:].strip()
    if text.startswith("!!"):
        return TypedMessage(text=text[1:])
    return TypedShellLine(line=line) if line else TypedMessage(text=text)


def _parse_command(text: str, commands: Sequence[ExtensionCommand]) -> TypedCommand | None:
    if not text.startswith("/") or text[1:2].isspace():
        return None
    word, *rest = text[1:].split(maxsplit=1) or [""]
    arguments = rest[0].rstrip() if rest else ""
    found = next((each for each in commands if each.name == word), None) or next(
        (each for each in commands if f"{each.extension}.{each.name}" == word), None
    )
    if found is None:
        return None
    return TypedCommand(extension=found.extension, name=found.name, arguments=arguments)
