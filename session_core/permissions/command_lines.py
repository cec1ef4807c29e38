"""The commands that a command line runs: those in it, and those behind programs that start others.

It sees through `sudo`, `timeout 5`, `env -i`, `xargs`, `find -exec`, `bash -c '...'` and the like. Commands that the
text does not show (a variable as a program, a shell that reads another program's output) are reported as unseen; a
program that runs commands of its own, as `make` does, makes the line opaque.
"""

import posixpath
import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain
from typing import Final

import attrs

from session_core.permissions.command_options import find_option_scripts, find_variable_scripts
from session_core.permissions.opaque_programs import changes_programs, is_opaque, sets_shell_variable
from session_core.permissions.shell_words import SimpleCommand, Word, read_script
from session_core.permissions.wrapper_programs import (
    ASSIGNMENT,
    TAKES_MORE,
    find_scripts,
    find_started_commands,
    join_words,
    starts_shell,
)

MAX_BEHIND: Final = 32
"""The longest chain of programs starting each other that is followed in one command."""
_MAX_LOOKS: Final = 200
"""Commands behind others in a whole line: each may be parsed in several ways, and so may those behind it."""
_MAX_SCRIPTS: Final = 8
"""Scripts within scripts, as in `bash -c "bash -c ..."`."""

_MAX_CHARS: Final = 150_000
"""Total characters of a line's commands and scripts: each way to parse a line repeats most of it."""
_MAX_ASSIGNMENTS: Final = 16
"""How many words before a program are removed one at a time; the rest is removed at once."""

_KEYWORDS: Final = frozenset(
    "! { } if then elif else fi while until do done for select case in esac function coproc".split()  # noqa: SIM905
)
_SHELLS: Final = frozenset(
    "sh bash dash zsh ksh mksh ash fish rbash csh tcsh yash posh elvish nu xonsh".split()  # noqa: SIM905
)
_SHELL_VALUED: Final = frozenset({"--rcfile", "--init-file", "--emulate"})
_FISH_SCRIPT: Final = re.compile(r"(?:-[a-z]*[cC]|--command=|--init-command=)([\s\S]+)")


@attrs.frozen
class ShellCommand:
    """One command, as rules see it.

    Attributes:
        text: Its words without quotes, separated by single blanks.
        known: The certain beginning of the text; None if all of it is certain.
        only_names: Whether the rest can only expand to file names.
    """

    text: str
    known: str | None = None
    only_names: bool = False


@attrs.frozen
class CommandLine:
    """The commands of a line.

    Attributes:
        commands: Every command found, also without prefixes that only change how it runs.
        programs: The programs in order, including those behind others.
        whole: Whether the whole line was understood.
        unseen: Whether the shell runs something that the line does not show.
        opaque: Whether a program of the line runs commands that the line does not show.
        has_nested_commands: Whether a program of the line starts another one.
    """

    commands: tuple[ShellCommand, ...]
    programs: tuple[str, ...]
    whole: bool
    unseen: bool
    opaque: bool
    has_nested_commands: bool


@lru_cache(maxsize=8)  # several rules check the same line
def parse_command_line(text: str) -> CommandLine:
    """Find the commands of a line; never raises."""
    finder = _CommandFinder()
    finder.parse_script(text, 0)
    return CommandLine(
        tuple(dict.fromkeys(finder.commands)),
        tuple(finder.programs),
        finder.whole,
        finder.unseen,
        finder.opaque,
        finder.has_nested_commands,
    )


class _CommandFinder:
    def __init__(self) -> None:
        self.commands: list[ShellCommand] = []
        self.programs: list[str] = []
        self.whole = True
        self.unseen = False
        self.opaque = False
        self.has_nested_commands = False
        self._looks = 0
        self._chars = 0

    def parse_script(self, text: str, depth: int) -> None:
        if depth > _MAX_SCRIPTS:
            self.unseen = True
            return
        script = read_script(text)
        self.whole = self.whole and script.whole
        for each in script.commands:
            if each.words:
                self.unseen = self.unseen or sets_shell_variable(each.words)
                for value in find_variable_scripts(each.words):
                    self._parse_nested_script(value, depth)
                self._parse_command(each.words, each, depth, behind=0)

    def _parse_command(
        self, words: Sequence[Word], simple: SimpleCommand, depth: int, *, behind: int, more: bool = False
    ) -> None:
        start = self._find_program(words, more=more)
        if start >= len(words):
            return
        program = words[start]
        self.programs.append(program.text)
        name = posixpath.basename(program.text)
        rest = words[start + 1 :]
        if name in _SHELLS:
            self._parse_shell(name, rest, simple, depth)
        self.unseen = self.unseen or changes_programs(name, rest)
        unknown = [Word(text="", certain_chars=0)] if more else []
        if is_opaque(name, [*rest, *unknown]) or (name in {".", "source"} and rest):
            self.opaque = self.has_nested_commands = True
        programs = len(self.programs)
        for script in chain(find_scripts(name, rest), find_option_scripts(name, rest)):
            if not self._can_descend(behind):
                return
            self._parse_nested_script(script, depth)
        for inner in find_started_commands(name, rest):
            self.has_nested_commands = True
            if not self._can_descend(behind):
                return
            self._parse_command(inner, simple, depth, behind=behind + 1, more=more or name in TAKES_MORE)
        if starts_shell(name) and len(self.programs) == programs:
            self.unseen = self.unseen or not simple.inputs
            for text in simple.inputs:
                self._parse_nested_script(text, depth)

    def _can_descend(self, behind: int) -> bool:
        self._looks += 1
        if behind >= MAX_BEHIND or self._looks > _MAX_LOOKS or self._chars > _MAX_CHARS:
            self.unseen = True
            return False
        return True

    def _find_program(self, words: Sequence[Word], *, more: bool) -> int:
        """Record the command, also without words that only precede a program; return the program's position."""
        position, assignments = 0, [0]
        while position < len(words):
            word = words[position]
            keyword = not word.quoted and word.text in _KEYWORDS
            if not keyword:
                assignments.append(position)
                if not (ASSIGNMENT.match(word.text) and (word.certain_chars is None or word.certain_chars > 0)):
                    break
            position += 2 if keyword and self._has_name(words[position : position + 3]) else 1
        few = len(assignments) <= _MAX_ASSIGNMENTS
        for place in dict.fromkeys(assignments if few else (0, assignments[-1])):
            self._add_command(words[place:], more=more)
        return position

    @staticmethod
    def _has_name(words: Sequence[Word]) -> bool:
        """Return whether the word after a keyword is a name: `function f`, `coproc x {`, `for x do`."""
        keyword, *rest = (each.text for each in words)
        if keyword in {"for", "select"}:
            return rest[1:] in (["do"], ["{"])
        return keyword == "function" or (keyword == "coproc" and rest[1:] != [] and rest[1] in _KEYWORDS)

    def _add_command(self, words: Sequence[Word], *, more: bool) -> None:
        if self._chars > _MAX_CHARS:
            self.unseen = True
            return
        text = join_words([each.text for each in words])
        self._chars += len(text) + len(words)
        known, only_names = (f"{text} ", False) if more else (None, False)
        for place, each in enumerate(words):
            if each.certain_chars is not None:
                before = join_words([word.text for word in words[:place]])
                known = f"{before} {each.text[: each.certain_chars]}".lstrip()
                only_names = place > 0 and all(word.only_names for word in words if word.certain_chars is not None)
                break
        self.commands.append(ShellCommand(text, known, only_names))
        head, blank, tail = text.partition(" ")
        if (base := posixpath.basename(head)) != head:
            shorter = None if known is None else known[len(head) - len(base) :] if len(known) > len(head) else ""
            self.commands.append(ShellCommand(base + blank + tail, shorter, only_names))

    def _parse_shell(self, name: str, words: Sequence[Word], simple: SimpleCommand, depth: int) -> None:
        """Parse the scripts of a shell: given by `-c`, or as input."""
        given = reads = False
        position = 0
        while position < len(words) and words[position].text[:1] in {"-", "+"} and len(words[position].text) > 1:
            option = words[position].text
            if option == "--":
                position += 1
                break
            short = option[:1] == "+" or option[:2] != "--"
            given = given or (short and "c" in option) or option == "--command"
            reads = reads or (short and "s" in option)
            if name == "fish" and (attached := _FISH_SCRIPT.fullmatch(option)):
                self._parse_nested_script(
                    Word(text=attached[1], certain_chars=None if words[position].certain_chars is None else 0), depth
                )
            # Each `o` in combined letters takes a word, as in `-euo pipefail`.
            position += 1 + (option.count("o") + option.count("O") if short else option in _SHELL_VALUED)
        if any(each.certain_chars is not None for each in words[: position + 1]):
            self.unseen = True
        if given and position < len(words):
            self._parse_nested_script(words[position], depth)
        elif (
            reads
            or position >= len(words)
            or words[position].text in {"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"}
        ):
            self.unseen = self.unseen or not simple.inputs
            for text in simple.inputs:
                self._parse_nested_script(text, depth)
        else:
            self.opaque = self.has_nested_commands = True
            self._add_command(words[position:], more=False)  # a script file, which is looked up like a program

    def _parse_nested_script(self, script: Word, depth: int) -> None:
        self.unseen = self.unseen or script.certain_chars is not None or self._chars > _MAX_CHARS
        self.has_nested_commands = True
        if self._chars <= _MAX_CHARS:
            self._chars += len(script.text)
            self.parse_script(script.text, depth + 1)
