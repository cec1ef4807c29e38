"""What runs commands that a line does not show as such: those of a file, or written in another language.

`make` runs what its file says, `awk '{system("rm x")}'` what its own language says, `git x` perhaps an alias. Nothing
tells what they run, so rules that forbid a command ask about them. Everyday uses that cannot run anything else are told
apart: `sed 's/a/b/'`, `awk '{print $1}'`, `python build.py`.

What a program does by itself is its own business: `./build` and `python build.py` are judged by their names.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from session_core.permissions.shell_words import Word

_OPAQUE: Final = frozenset(
    # run what a file says
    "make gmake bmake ninja samu just task rake scons tox nox invoke fab ant cmake ctest meson pre-commit act foreman "  # noqa: SIM905
    "overmind honcho ansible ansible-playbook ansible-console run-parts at batch crontab anacron "
    "m4 parset env_parallel "
    # have commands that run others
    "ed red ex vi vim vimdiff gvim nvim view rvim emacs emacsclient joe jed gdb lldb expect tclsh wish dc gnuplot "
    "octave maxima sqlite3 psql mysql mariadb ftp lftp sftp telnet mail mailx mutt nmap tmux screen dtach hyperfine "
    "watchexec nodemon fswatch socat fc".split()
)
_OPAQUE_SUBCOMMANDS: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(("npm", "pnpm", "yarn", "bun"), frozenset({"run", "run-script", "test", "t", "tst", "start"})),
    "composer": frozenset({"run", "run-script", "exec"}),
    "cargo": frozenset({"make"}),
    "deno": frozenset({"eval", "task", "repl"}),
    "go": frozenset({"generate"}),
    "mise": frozenset({"run", "r"}),
}
_CODE_LETTERS: Final = {
    **dict.fromkeys(("python", "pypy", "ipython", "guile"), "c"),
    **dict.fromkeys(("perl", "raku", "julia"), "eE"),
    **dict.fromkeys(("node", "nodejs", "bun"), "ep"),
    **dict.fromkeys(("ruby", "lua", "luajit", "R", "Rscript", "ghc", "runghc", "elixir", "groovy", "scala"), "e"),
    **dict.fromkeys(("osascript", "racket", "clojure", "bb", "swipl", "ocaml", "jshell", "irb", "sbcl", "tcc"), "e"),
    "php": "rRBE",
}
"""Interpreters, and their options that take code."""
_CODE_OPTION: Final = re.compile(r"--(?:e(?:v|x)|pr|run|code|command)[a-z]*(?:=[\s\S]*)?")
_VALUED: Final = frozenset({"-C", "-I", "-M", "-W", "-X", "-l", "-r", "--import", "--require"})
_TELLS_ABOUT_ITSELF: Final = frozenset({"-V", "-v", "-h", "--version", "--help"})
_AWKS: Final = frozenset({"awk", "gawk", "mawk", "nawk", "original-awk"})
_AWK_FILE: Final = re.compile(r"-[fiElD][\s\S]*|--(?:f|inc|ex|l|so|deb)[\s\S]*")
_AWK_RUNS: Final = re.compile(r"system|(?<!\|)\|(?!\|)|@")

_SHELL_VARIABLE: Final = re.compile(
    r"(?:(?<![\w$])(?<!\$\{)|(?<=\$\{)(?=\w+:?=))"
    r"(?:BASH_ENV|PROMPT_COMMAND|PS[0-4]|BASH_CMDS|BASH_ALIASES|BASH_FUNC_\w*|LD_PRELOAD|LD_AUDIT|PERL5OPT|PERL5DB"
    r"|RUBYOPT|GIT_CONFIG\w*|GIT_EXEC_PATH|TAR_OPTIONS|RIPGREP_CONFIG_PATH|LESSKEY\w*|ZDOTDIR)(?!\w)"
    r"|(?:^|(?<= ))ENV\+?=|\w\[[^\]]{0,200}(?:\$\(|`)"
)
_DECLARES: Final = frozenset("export declare typeset local readonly read".split())  # noqa: SIM905

_SED_ADDRESS: Final = r"(?:\d++(?:~\d++)?|\$|/(?:[^/\\\n]|\\.)*+/[IM]?)"
_SED_PLAIN: Final = re.compile(
    rf"""(?:[\s;{{}}]
    | {_SED_ADDRESS}(?:\s*,\s*(?:{_SED_ADDRESS}|[+~]\d++))?\s*!?
    | [pPdDqQ=nNgGhHxlFz]
    | s(?P<s>[^\w\s\\;])(?:(?!(?P=s))[^\\\n]|\\.)*+(?P=s)(?:(?!(?P=s))[^\\\n]|\\[\s\S])*+(?P=s)[gpiIMm0-9]*+(?![\w/])
    | y(?P<y>[^\w\s\\;])(?:(?!(?P=y))[^\\\n]|\\.)*+(?P=y)(?:(?!(?P=y))[^\\\n]|\\.)*+(?P=y)
    | [aic](?:\\\n)?[^\n\\]*+(?:\n|\Z) | [rRwW]\ [^\n]*+ | [btT:]\s*[\w.]*+ | \#[^\n]*+
    )*+""",
    re.VERBOSE,
)
"""Scripts of sed that certainly hold neither its command `e` nor its flag `e`."""

_GIT_COMMANDS: Final = frozenset(
    "add am annotate apply archive bisect blame branch bundle cat-file check-attr check-ignore check-mailmap "  # noqa: SIM905
    "check-ref-format checkout checkout-index cherry cherry-pick citool clean clone column commit commit-graph "
    "commit-tree config count-objects credential describe diff diff-files diff-index diff-tree difftool fast-export "
    "fast-import fetch fetch-pack fmt-merge-msg for-each-ref format-patch fsck gc get-tar-commit-id grep gui "
    "hash-object help index-pack init init-db interpret-trailers log ls-files ls-remote ls-tree mailinfo mailsplit "
    "maintenance merge merge-base merge-file merge-index merge-tree mktag mktree multi-pack-index mv name-rev notes "
    "pack-objects pack-refs patch-id prune prune-packed pull push range-diff read-tree rebase reflog remote repack "
    "replace request-pull rerere reset restore rev-list rev-parse revert rm send-email shortlog show show-branch "
    "show-index show-ref sparse-checkout stage stash status stripspace submodule switch symbolic-ref tag unpack-file "
    "unpack-objects update-index update-ref update-server-info var verify-commit verify-pack verify-tag version "
    "whatchanged worktree write-tree".split()
)
"""Any other word is an alias or a program."""
_GIT_VALUED: Final = frozenset(
    {"-C", "-c", "--git-dir", "--work-tree", "--namespace", "--config-env", "--super-prefix"}
)
_GIT_KEY: Final = re.compile(
    r"(?:alias|include|url|pager|difftool|mergetool|filter|sendemail|browser|man|trailer)\w*\.\S*"
    r"|\S*\.\w*(?:pager|editor|command|cmd|helper|program|askpass|gitproxy|driver|textconv|external|fsmonitor|hookspath"
    r"|update|uploadpack|receivepack)",
    re.IGNORECASE,
)
"""Settings of git that name a program."""
_GIT_HARMLESS: Final = frozenset({"", "cat", "less", "true", "false", "0", "1"})


def sets_shell_variable(words: Sequence[Word]) -> bool:
    """Return whether a command may set a variable whose value shells run, such as `BASH_ENV`.

    Subscripts with a command count too: shells run it in any text that they take for arithmetic.
    """
    return any(_SHELL_VARIABLE.search(each.text) is not None for each in words) or (
        words[0].text in _DECLARES
        and any(
            each.text == "ENV" or (each.certain_chars is not None and "=" not in each.text[: each.certain_chars])
            for each in words
        )
    )


def changes_programs(name: str, words: Sequence[Word]) -> bool:
    """Return whether a builtin gives a program another name, loads one, or brings back earlier lines."""
    texts = [each.text for each in words]
    if name in {"hash", "enable"}:
        return any(each.startswith("-") for each in texts)
    if name == "set":
        return any(re.fullmatch(r"-\w*H\w*|history|histexpand", each) for each in texts)
    return name in {"alias", "fc", "bind"} and bool(words)


def is_opaque(name: str, words: Sequence[Word]) -> bool:
    """Return whether a program, with these words after its name, may run commands that they do not show.

    A last word without text stands for words that come from elsewhere, as with `xargs`.
    """
    interpreter = re.sub(r"(?<=[a-zA-Z])-?[\d.]+$", "", name)
    texts = [each.text for each in words]
    subcommand = next((each for each in texts if not each.startswith("-")), "")
    if name in _OPAQUE or subcommand in _OPAQUE_SUBCOMMANDS.get(name, ()):
        return True
    if interpreter in _CODE_LETTERS:
        return _is_given_code(interpreter, texts)
    check = _CHECKS.get(name)
    return check is not None and check(words)


def _is_given_code(interpreter: str, texts: Sequence[str]) -> bool:
    """Return whether an interpreter gets its program by an option or as input, rather than in a file."""
    for place, text in enumerate(texts):
        if text in _TELLS_ABOUT_ITSELF or (interpreter in {"python", "pypy"} and text.startswith("-m")):
            return False
        if text in {"", "-"} or _CODE_OPTION.fullmatch(text):
            return True
        if text.startswith("-") and not text.startswith("--"):
            if any(letter in text[1:] for letter in _CODE_LETTERS[interpreter]):
                return True
        elif not text.startswith("-") and not (place and texts[place - 1] in _VALUED):
            return False  # the file
    return True


def _is_sed_opaque(words: Sequence[Word]) -> bool:
    scripts = list(_find_sed_scripts(words))
    return any(
        each is None or each.certain_chars is not None or not _SED_PLAIN.fullmatch(each.text) for each in scripts
    )


def _find_sed_scripts(words: Sequence[Word]) -> Iterator[Word | None]:
    """Yield the scripts; None stands for one in a file."""
    operands: list[Word] = []
    given, place = False, 0
    while place < len(words):
        text = words[place].text
        place += 1
        cluster = re.fullmatch(r"-[nrEsuz]*(?:([ef])([\s\S]*)|l[\s\S]*|i[\s\S]*)?", text)
        long = re.fullmatch(r"--(ex|f)[a-z]*(?:=([\s\S]*))?", text)
        found = cluster if cluster is not None and cluster[1] else long
        if found is None:
            operands += [] if text.startswith("-") and text != "-" else [words[place - 1]]
            place += text == "-l"
            continue
        given = True
        if found[1] == "f":
            yield None
        elif found[2]:
            yield Word(text=found[2], certain_chars=words[place - 1].certain_chars)
        elif place < len(words):
            yield words[place]
        place += not found[2]
    if not given:
        yield from operands[:1]


def _find_operand(words: Sequence[Word], valued: frozenset[str]) -> Word | None:
    """Return the first word that is neither an option nor the value of one."""
    skips = False
    for each in words:
        if not skips and not each.text.startswith("-"):
            return each
        skips = not skips and each.text in valued
    return None


def _is_awk_opaque(words: Sequence[Word]) -> bool:
    if any(_AWK_FILE.fullmatch(each.text) or _AWK_RUNS.search(each.text) for each in words):
        return True
    program = _find_operand(words, frozenset({"-F", "-v", "--assign", "--field-separator"}))
    return program is not None and program.certain_chars is not None


def _is_tar_opaque(words: Sequence[Word]) -> bool:
    return bool(words) and re.fullmatch(r"[A-Za-z]*[FI][A-Za-z]*", words[0].text) is not None  # `tar xIf rm x.tar`


def _is_parallel_opaque(words: Sequence[Word]) -> bool:
    operand = _find_operand(words, frozenset({"-j", "-n", "-N", "-I", "--jobs"}))
    return operand is None or operand.text.startswith(":::")  # its input or arguments are the commands


def _is_git_opaque(words: Sequence[Word]) -> bool:
    place, texts = 0, [each.text for each in words]
    while place < len(texts) and texts[place].startswith("-"):
        if texts[place].startswith("--exec-path="):
            return True
        place += 2 if texts[place] in _GIT_VALUED else 1
    command = texts[place] if place < len(texts) else "version"
    settings = [texts[each + 1] for each in range(min(place, len(texts) - 1)) if texts[each] in {"-c", "--config-env"}]
    settings += [each.removeprefix("--config-env=") for each in texts[:place] if each.startswith("--config-env=")]
    if command == "config":
        settings += [f"{key}={value}" for key, value in zip(texts[place + 1 :], [*texts[place + 2 :], ""], strict=True)]
    elif command == "clone":
        settings += [value for key, value in pairwise(texts) if key in {"-c", "--config"}]
        settings += [each.removeprefix("--config=") for each in texts if each.startswith("--config=")]
    pairs = [each.partition("=") for each in settings]
    return (
        command not in _GIT_COMMANDS
        or any("ext::" in each for each in texts)
        or any(words[each].text == "-c" and words[each + 1].certain_chars is not None for each in range(place - 1))
        or any(_GIT_KEY.fullmatch(key) is not None and value not in _GIT_HARMLESS for key, _, value in pairs)
    )


def _is_pager_opaque(words: Sequence[Word]) -> bool:
    return any(each.text.startswith(("+", "-k", "--lesskey")) for each in words)


def _is_fzf_opaque(words: Sequence[Word]) -> bool:
    return any(each.text.startswith(("--bind", "--preview")) for each in words)


_CHECKS: Final[Mapping[str, Callable[[Sequence[Word]], bool]]] = {
    **dict.fromkeys(("sed", "gsed"), _is_sed_opaque),
    **dict.fromkeys(_AWKS, _is_awk_opaque),
    **dict.fromkeys(("tar", "gtar", "bsdtar"), _is_tar_opaque),
    "git": _is_git_opaque,
    "parallel": _is_parallel_opaque,
    **dict.fromkeys(("less", "more", "most"), _is_pager_opaque),
    "fzf": _is_fzf_opaque,
}
