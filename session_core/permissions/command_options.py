"""Options and variables whose value is a command, which the program runs: `tar --to-command=x`, `PAGER=x man ls`."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from session_core.permissions.shell_words import Word

_COMMAND_OPTION: Final = re.compile(r"(?:--(?:c|se)[a-z-]*|-[A-Za-z]*?c)(?:=?([\s\S]+))?")
_WITH_COMMAND_OPTION: Final = frozenset({"su", "runuser", "script", "flock", "sg", "newgrp", "capsh"})
_COMMAND_OPTIONS: Final = {
    **dict.fromkeys(
        ("tar", "gtar", "bsdtar"),
        "-I -F --to-command --checkpoint-action --use-compress-program --info-script --new-volume-script "
        "--rsh-command --rmt-command",
    ),
    **dict.fromkeys(("split", "gsplit"), "--filter"),
    **dict.fromkeys(("sort", "gsort"), "--compress-program"),
    **dict.fromkeys(("mapfile", "readarray", "compgen", "complete"), "-C"),
    **dict.fromkeys(("nc", "ncat", "netcat"), "-e -c --exec --sh-exec --lua-exec"),
    **dict.fromkeys(("scp", "sftp"), "-S"),
    "install": "--strip-program",
    "cpio": "--rsh-command",
    "fzf": "--preview",
    "man": "-P -H --pager --html",
    "rg": "--pre --hostname-bin",
    "rsync": "-e --rsh --rsync-path",
    "tcpdump": "-z",
    "wget": "--use-askpass",
    "zip": "-TT --unzip-command",
}
"""Options whose value is a command."""
_GIT_COMMAND_OPTIONS: Final = {
    "rebase": "-x --exec",
    "difftool": "-x --extcmd",
    "clone": "-u --upload-pack",
    "fetch": "--upload-pack",
    "pull": "--upload-pack",
    "ls-remote": "--upload-pack",
    "push": "--receive-pack --exec",
    "archive": "--exec",
    "grep": "-O --open-files-in-pager",
    "send-email": "--smtp-server --to-cmd --cc-cmd --sendmail-cmd",
}
_COMMAND_VARIABLE: Final = re.compile(
    r"(?:\w*PAGER|\w*EDITOR|VISUAL|FCEDIT|\w*BROWSER|\w*ASKPASS|GIT_EXTERNAL_DIFF|GIT_SSH|GIT_SSH_COMMAND"
    r"|GIT_PROXY_COMMAND|RSYNC_RSH|CVS_RSH|LESSOPEN|LESSCLOSE)\+?=[|-]*([\s\S]+)"
)
_SSH_COMMAND: Final = re.compile(r"(?:-o)?\s*(?:Proxy|Local|Remote|KnownHosts)Command[=\s]+([\s\S]+)", re.IGNORECASE)


def find_option_scripts(name: str, words: Sequence[Word]) -> Iterator[Word]:
    """Yield the commands in the options of a program."""
    if name in _WITH_COMMAND_OPTION:
        yield from _find_shell_scripts(words)
    elif options := _command_options(name, words):
        yield from _find_option_values(options, words)
    if name in {"ssh", "scp", "sftp"}:
        for each in words:
            if found := _SSH_COMMAND.fullmatch(each.text):
                yield _part(each, found[1])


def find_variable_scripts(words: Sequence[Word]) -> Iterator[Word]:
    """Yield the commands that are given to variables, such as `PAGER`, for other programs to run."""
    for each in words:
        if found := _COMMAND_VARIABLE.fullmatch(each.text):
            yield _part(each, found[1])


def _find_shell_scripts(words: Sequence[Word]) -> Iterator[Word]:
    """Yield the values of `-c` in all its spellings, and texts that look like a script."""
    for place, each in enumerate(words):
        found = _COMMAND_OPTION.fullmatch(each.text)
        if found is not None and found[1]:
            yield _part(each, found[1])
        if found is not None and place + 1 < len(words):
            yield words[place + 1]
        elif each.quoted and re.search(r"\s", each.text):
            yield each


def _command_options(name: str, words: Sequence[Word]) -> frozenset[str]:
    options = _COMMAND_OPTIONS.get(name, "")
    if name == "git":
        options = next((_GIT_COMMAND_OPTIONS[each.text] for each in words if each.text in _GIT_COMMAND_OPTIONS), "")
    return frozenset(options.split())


def _find_option_values(options: frozenset[str], words: Sequence[Word]) -> Iterator[Word]:
    """Yield the values of options in all spellings: `--filter=x`, `--filt x`, `-C x`, `-tCx`."""
    for place, each in enumerate(words):
        name, equals, value = each.text.partition("=")
        if name.startswith("--"):
            matches = len(name) > 2 and any(option.startswith(name) for option in options)
        else:
            found = re.match(rf"-[\w-]*?(?:{'|'.join(option[1:] for option in options)})", each.text)
            matches = found is not None
            equals = value = "" if found is None else each.text[found.end() :]
        if matches and equals:
            yield _part(each, value.removeprefix("exec="))
        elif matches and place + 1 < len(words):
            yield attrs.evolve(words[place + 1], text=words[place + 1].text.removeprefix("exec="))


def _part(word: Word, text: str) -> Word:
    """Return a part of a word, which is as uncertain as the whole."""
    return Word(text=text, certain_chars=None if word.certain_chars is None else 0)
