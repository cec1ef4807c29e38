"""The table of commands typed after `/`. Pure functions."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Final, get_args

import attrs

import session_core as sc
from frontends.terminal.composer.completion import Suggestion, rank_suggestions
from frontends.terminal.look.sanitised_text import sanitise_line

_SHORTEST_PREFIX: Final = 3
_MOST_NEAR: Final = 3
_NAME_CHARS: Final = 60


@attrs.frozen
class SlashCommand:
    """A command of the terminal.

    Attributes:
        action: The action of the app that runs it, if it has another name than the command.
        hint: The arguments it takes; without a hint it takes none.
        choices: The possible arguments, if they are known in advance.
    """

    name: str
    help: str
    action: str = attrs.field(default=attrs.Factory(lambda self: self.name, takes_self=True))
    hint: str = ""
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()

    def arguments_of(self, typed: str) -> tuple[str, ...]:
        """Return what its action is called with."""
        return (typed.strip(),) if self.hint and typed.strip() else ()


SLASH: Final[tuple[SlashCommand, ...]] = (
    SlashCommand("help", "show all keys and commands", aliases=("h",)),
    SlashCommand("new", "begin a new session"),
    SlashCommand("sessions", "choose a session", aliases=("resume-session", "switch")),
    SlashCommand("model", "choose the model that answers", hint="[name]", aliases=("m",)),
    SlashCommand(
        "permissions",
        "choose what needs approval",
        "mode",
        hint="[mode]",
        aliases=("mode",),
        choices=tuple(each.replace("_", "-") for each in get_args(sc.PermissionMode)),
    ),
    SlashCommand("thinking", "choose how much the model reasons", hint="[how]", choices=get_args(sc.Thinking)),
    SlashCommand("theme", "choose the theme", hint="[name]"),
    SlashCommand("stop", "stop this session's turn"),
    SlashCommand("stop-all", "stop this session with its subagents", "stop_all"),
    SlashCommand("resume", "resume a stopped or failed turn"),
    SlashCommand("undo", "go back to before one of your messages, with the files", aliases=("rewind",)),
    SlashCommand("redo", "revert the last undo"),
    SlashCommand("edit", "edit a message, on a new branch"),
    SlashCommand("branches", "choose a branch of this conversation"),
    SlashCommand("fork", "continue from here in a new session", hint="[name]"),
    SlashCommand("compact", "replace the conversation with a summary"),
    SlashCommand("clear", "start the conversation over"),
    SlashCommand("queue", "go to the queue", "focus_queue"),
    SlashCommand("rename", "rename this session", hint="[name]"),
    SlashCommand("archive", "archive this session; /sessions brings it back"),
    SlashCommand("delete", "delete this session permanently"),
    SlashCommand("search", "search the messages of all sessions", hint="[words]", aliases=("find",)),
    SlashCommand("usage", "show the tokens and cost of this session", aliases=("cost",)),
    SlashCommand("export", "write this conversation to a file (.md, .html or .jsonl)", hint="[file]"),
    SlashCommand("copy", "copy the last answer", "copy_answer"),
    SlashCommand("cwd", "work in another folder", "change_directory", hint="[folder]", aliases=("cd",)),
    SlashCommand("extensions", "list, reload, enable and disable extensions", aliases=("ext",)),
    SlashCommand("login", "log in to a provider of an extension", hint="[provider]"),
    SlashCommand("reconnect", "try to reach the service again"),
    SlashCommand("quit", "close the terminal; background work continues", "quit_terminal", aliases=("exit", "q")),
)


def find_command(name: str, brought: Sequence[sc.extensions.ExtensionCommand] = ()) -> SlashCommand | None:
    """Return the command of this name, or the only one with this prefix if no extension command has just this name."""
    for command in SLASH:
        if name == command.name or name in command.aliases:
            return command
    if len(name) >= _SHORTEST_PREFIX and not is_extension_command(name, brought):
        begun = [command for command in SLASH if command.name.startswith(name)]
        return begun[0] if len(begun) == 1 else None
    return None


def is_extension_command(name: str, commands: Sequence[sc.extensions.ExtensionCommand]) -> bool:
    """Return whether an extension provides a command of this name."""
    return any(name in {each.name, f"{each.extension}.{each.name}"} for each in commands)


def check_arguments(command: SlashCommand, arguments: str) -> str | None:
    """Return an error if arguments were typed after a command that takes none: something else may have been meant."""
    if command.hint or not arguments.strip():
        return None
    return f"/{command.name} takes no arguments ({command.help})"


def describe_unknown(name: str, commands: Sequence[sc.extensions.ExtensionCommand]) -> str:
    """Describe an unknown command: similar names, and how to send the text to the model instead."""
    names = [each.name for each in SLASH] + [each.name for each in commands]
    begun = [each for each in names if len(name) >= _SHORTEST_PREFIX and each.startswith(name)]
    near = begun[:_MOST_NEAR] or difflib.get_close_matches(name[:_NAME_CHARS], names, n=_MOST_NEAR)
    meant = f"; did you mean {' or '.join(f'/{each}' for each in near)}?" if near else ""
    displayed_name = sanitise_line(name, _NAME_CHARS)
    return f"there is no command /{displayed_name}{meant} (to send it to the model: //{displayed_name})"


def suggest_commands(
    query: str,
    commands: Sequence[sc.extensions.ExtensionCommand],
    themes: Sequence[str] = (),
    models: Sequence[str] = (),
) -> list[Suggestion]:
    """Return completions for the text after `/`: a command, or a command with its argument."""
    name, blank, typed = query.partition(" ")
    if not blank:
        return rank_suggestions(query, [*map(_command_suggestion, SLASH), *map(_extension_suggestion, commands)])
    command = find_command(name, commands)
    if command is None:
        return []
    choices = {"theme": tuple(themes), "model": tuple(models)}.get(command.name, command.choices)
    fits = rank_suggestions(typed.strip(), [Suggestion(value=each) for each in choices])
    return [Suggestion(value=f"{name} {each.value}", label=each.value) for each in fits]


def _command_suggestion(command: SlashCommand) -> Suggestion:
    more = f" {command.hint}" if command.hint else ""
    return Suggestion(
        value=f"{command.name} " if command.hint else command.name, label=f"{command.name}{more}", detail=command.help
    )


def _extension_suggestion(command: sc.extensions.ExtensionCommand) -> Suggestion:
    return Suggestion(
        value=f"{command.name} ", label=command.name, detail=f"{command.description} ({command.extension})"
    )
