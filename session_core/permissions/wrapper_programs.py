"""Programs that start others: their options, and which of their words are a command or a script.

An option that is not in the tables may or may not take a value. After such an option, each later word may be the
started program, and all of them are tried: a false match is better than a missed command.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import attrs

from session_core.permissions.shell_words import Word

MAX_STARTS: Final = 200
"""How many words of one command are tried as the program that it starts."""

ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*(?:\[[^\]]*\])?\+?=")
TAKES_MORE: Final = frozenset({"xargs", "gxargs", "parallel", "find", "gfind", "fd", "fdfind"})
"""Programs that append arguments to the command they start."""
_FINDS: Final = re.compile(r"-exec|-execdir|-ok|-okdir")
_FD_FINDS: Final = re.compile(r"-[A-Za-z]*[xX]|--exec|--exec-batch")
_SHELL_STARTERS: Final = frozenset(
    "ssh su sudo doas chroot unshare nsenter script sg newgrp runuser fakeroot proot firejail setarch linux32 "  # noqa: SIM905
    "linux64 capsh".split()
)
_LOADER: Final = re.compile(r"ld(?:-linux|-musl|64|-2|\.so)[\w.-]*")
_SPLIT_OPTION: Final = re.compile(r"(?:-[i0v]*S|--s[a-z-]*=?)([\s\S]*)")


@attrs.frozen
class _WrapperSyntax:
    """The command line syntax of a program that starts another."""

    valued: frozenset[str] = frozenset()
    """Options with a value."""
    words: int = 0
    """Words that stand before the command."""
    flags: frozenset[str] = frozenset()
    """Options without a value: letters, and long ones with their dashes."""
    idle: frozenset[str] = frozenset()
    """With one of these options it starts nothing."""
    assigns: bool = False
    script: bool = False
    """Whether it passes its words to a shell."""


def _syntax(
    valued: str = "", words: int = 0, *, flags: str = "", idle: str = "", assigns: bool = False, script: bool = False
) -> _WrapperSyntax:
    letters, *long = flags.split(" ")
    return _WrapperSyntax(
        frozenset(valued.split()), words, frozenset((*letters, *long)), frozenset(idle.split()), assigns, script
    )


_PLAIN: Final = _syntax()
_AFTER_ONE: Final = _syntax(words=1)
_WRAPPERS: Final = {
    "sudo": _syntax(
        "-u -g -h -p -C -T -r -t -D -R -U --user --group --host --prompt --chdir --role --type --close-from",
        flags="AbEeHiKklnPSsvV --preserve-env --login --shell --non-interactive --set-home --stdin --background",
        assigns=True,
    ),
    "doas": _syntax("-u -C", flags="nsL"),
    "env": _syntax("-u -C -a --unset --chdir --argv0", flags="i0v --ignore-environment --debug --null", assigns=True),
    "nice": _syntax("-n --adjustment", flags="0123456789"),
    "ionice": _syntax("-c -n -p --class --classdata", flags="t --ignore"),
    "chrt": _syntax(words=1, flags="bfiorv --batch --fifo --idle --other --rr"),
    "taskset": _syntax(words=1, flags="c --cpu-list"),
    "nohup": _PLAIN,
    "setsid": _syntax(flags="cfw --ctty --fork --wait"),
    "stdbuf": _syntax("-i -o -e --input --output --error"),
    "unbuffer": _syntax(flags="p"),
    "timeout": _syntax("-s -k --signal --kill-after", 1, flags="fpv --foreground --preserve-status --verbose"),
    "time": _syntax("-f -o --format --output", flags="apvq --append --portability --verbose --quiet"),
    "command": _syntax(flags="p", idle="-v -V"),
    "builtin": _PLAIN,
    ".": _PLAIN,
    "source": _PLAIN,
    "exec": _syntax("-a", flags="cl"),
    "eval": _syntax(script=True),
    "xargs": _syntax(
        "-I -n -P -d -a -L -s -E --max-args --max-procs --delimiter --arg-file --max-lines --max-chars "
        "--process-slot-var",
        flags="0rtxpo --null --no-run-if-empty --verbose --exit --interactive --open-tty",
    ),
    "parallel": _syntax("-j -n -N -I --jobs", flags="k0 --will-cite --keep-order --null", script=True),
    "watch": _syntax("-n --interval", flags="bcdegtx --color --no-title --exec --errexit --chgexit", script=True),
    "flock": _syntax("-w -E --timeout --conflict-exit-code", 1, flags="esunoxF --nonblock --shared --exclusive"),
    "ssh": _syntax(
        "-B -b -c -D -E -e -F -I -i -J -L -l -m -O -o -P -p -Q -R -S -W -w",
        1,
        flags="46AaCfGgKkMNnqsTtVvXxYy",
        script=True,
    ),
    "runuser": _syntax("-u -g -G -s -w --user --group --supp-group --shell", flags="flmpP --login"),
    "chroot": _AFTER_ONE,
    "unshare": _syntax("-S -G -R -w --setuid --setgid --root --wd", flags="imnpuUCTfrc --fork --map-root-user"),
    "nsenter": _syntax("-t -S -G --target --setuid --setgid", flags="aimnpuUCTFZ --all --mount --net --pid --ipc"),
    "strace": _syntax("-e -o -p -s -u -E -a -P -I -O -S -X -b", flags="fFcCdDhiqrtTvVxyYzZ"),
    "ltrace": _syntax("-e -o -p -s -u -a -l -n -x", flags="fcCdiLrStT"),
    "busybox": _PLAIN,
    "toybox": _PLAIN,
    "systemd-run": _syntax(
        "-p -E -u -M -H --unit --property --setenv --slice --description --uid --gid --nice --working-directory",
        flags="dGPqrSt --user --scope --wait --pty --pipe --quiet --collect --no-block --same-dir --shell",
    ),
    "bwrap": _PLAIN,
    "fakeroot": _syntax("-l -s -i -b -f --lib --faked", flags="u --unknown-is-real"),
    "setpriv": _syntax("--reuid --regid --groups --securebits --pdeathsig", flags="- --clear-groups --keep-groups"),
    "prlimit": _syntax("-p -o --pid --output"),
    "xvfb-run": _syntax("-e -f -n -p -s -w --error-file --server-num --server-args", flags="al --auto-servernum"),
    "npx": _syntax("-p -w --package --workspace", flags="yq --yes --no --quiet"),
    "bunx": _PLAIN,
    "pnpx": _PLAIN,
    "uvx": _syntax("-p --from --with --python"),
    "chronic": _syntax(flags="ev"),
    "cgexec": _syntax("-g"),
    "dbus-run-session": _syntax("--config-file --dbus-daemon"),
    "entr": _syntax(flags="acdnprsxz"),
    "firejail": _PLAIN,
    "numactl": _syntax("-i -N -m -C -p --interleave --cpunodebind --membind --physcpubind"),
    "proot": _PLAIN,
    "setarch": _PLAIN,
    "ld.so": _syntax("--library-path --preload --audit --argv0 --inhibit-rpath", flags=" --inhibit-cache"),
    "perf": _AFTER_ONE,
    "start-stop-daemon": _PLAIN,
    "torsocks": _PLAIN,
    "sg": _AFTER_ONE,
    "cpulimit": _syntax("-l -p -e -P --limit"),
    "pee": _syntax(script=True),
    **dict.fromkeys(
        "linux32 linux64 i386 x86_64 uname26 pkexec gosu su-exec setuidgid chpst softlimit envdir daemonize dumb-init "  # noqa: SIM905
        "tini catatonit eatmydata faketime proxychains proxychains4 rlwrap valgrind catchsegv rr heaptrack wine "
        "qemu-x86_64 qemu-aarch64 mpirun mpiexec srun systemd-inhibit caffeinate arch cross-env dotenv ifne nq tsp "
        "apptainer singularity".split(),
        _PLAIN,
    ),
}  # fmt: skip
_SUBCOMMANDS: Final[Mapping[str, Mapping[tuple[str, ...], _WrapperSyntax]]] = {
    "git": {("bisect", "run"): _PLAIN, ("submodule", "foreach"): _syntax(flags=" --recursive --quiet", script=True)},
    "uv": {("run",): _syntax("-p --with --python --extra --group --package --env-file", flags="qv --frozen --locked")},
    "poetry": {("run",): _PLAIN},
    "pipenv": {("run",): _PLAIN},
    "pdm": {("run",): _PLAIN},
    "rye": {("run",): _PLAIN},
    "pipx": {("run",): _syntax("--spec --python")},
    "hatch": {("run",): _PLAIN},
    "conda": {("run",): _syntax("-n -p --name --prefix")},
    "npm": {("exec",): _PLAIN, ("x",): _PLAIN},
    "pnpm": {("exec",): _PLAIN, ("dlx",): _PLAIN},
    "yarn": {("exec",): _PLAIN, ("dlx",): _PLAIN},
    "direnv": {("exec",): _AFTER_ONE},
    "mise": {("exec",): _PLAIN, ("x",): _PLAIN},
    "rustup": {("run",): _AFTER_ONE},
    "docker": {("run",): _AFTER_ONE, ("exec",): _AFTER_ONE},
    "podman": {("run",): _AFTER_ONE, ("exec",): _AFTER_ONE},
    "kubectl": {("exec",): _AFTER_ONE},
    "adb": {("shell",): _syntax(script=True)},
    "vagrant": {("ssh",): _PLAIN},
    "bun": {("x",): _PLAIN},
    "bundle": {("exec",): _PLAIN},
}
_GNU: Final = frozenset({"gtimeout", "gnice", "gnohup", "genv", "gstdbuf", "gxargs", "gtime", "gchroot", "gfind"})
"""Their names on systems where the plain names belong to other programs."""


def join_words(texts: Iterator[str] | Sequence[str]) -> str:
    """Join words with single blanks."""
    return " ".join(" ".join(texts).split())


def find_started_commands(name: str, words: Sequence[Word]) -> Iterator[Sequence[Word]]:
    """Yield the commands that a program starts, given the words after its name."""
    name = name[1:] if name in _GNU else name
    if name in {"find", "fd", "fdfind"}:
        yield from _find_option_commands(words, _FINDS if name == "find" else _FD_FINDS)
        return
    for syntax, rest in _find_invocations(name, words):
        if name == "env" and (split := _split_env_text(rest)) is not None:
            yield split
        for start in _program_positions(syntax, rest):
            yield rest[start:]


def find_scripts(name: str, words: Sequence[Word]) -> Iterator[Word]:
    """Yield the words that a program passes to a shell, each as a script."""
    for syntax, rest in _find_invocations(name, words):
        if syntax.script:
            doubtful = any(each.certain_chars is not None for each in rest)
            for start in _program_positions(syntax, rest):
                yield Word(text=" ".join(each.text for each in rest[start:]), certain_chars=0 if doubtful else None)
    if name == "trap":
        yield from [each for each in words if each.text != "--"][:1]


def starts_shell(name: str) -> bool:
    """Return whether a program starts a shell if it is given no command."""
    return name in _SHELL_STARTERS


def _find_invocations(name: str, words: Sequence[Word]) -> Iterator[tuple[_WrapperSyntax, Sequence[Word]]]:
    name = "ld.so" if _LOADER.fullmatch(name) else name
    if (syntax := _WRAPPERS.get(name)) is not None:
        yield syntax, words
    if name == "setarch":
        yield _AFTER_ONE, words  # the name of an architecture may stand before the program
    for subcommand, syntax in _SUBCOMMANDS.get(name, {}).items():
        rest = _skip_subcommand(subcommand, words)
        if rest is not None:
            yield syntax, rest


def _skip_subcommand(subcommand: Sequence[str], words: Sequence[Word]) -> Sequence[Word] | None:
    position = 0
    for each in subcommand:
        options = position < len(words) and words[position].text.startswith("-")
        while options and position < len(words) and words[position].text != each:
            position += 1  # options, and values that they may have
        if position >= len(words) or words[position].text != each:
            return None
        position += 1
    return words[position:]


def _program_positions(syntax: _WrapperSyntax, words: Sequence[Word]) -> Sequence[int]:
    """Return the possible positions of the started program."""
    position = 0
    while position < len(words):
        text = words[position].text
        if text in syntax.idle:
            return ()
        if text == "--":
            position += 1
            break
        if not text.startswith("-"):
            break
        taken = _option_length(syntax, text)
        if taken is None:
            return _possible_positions(words, position + 1)
        position += taken
    while syntax.assigns and position < len(words) and ASSIGNMENT.match(words[position].text):
        position += 1
    position += syntax.words
    if position < len(words) and words[position].text == "--":
        position += 1
    if position < len(words) and words[position].text.startswith("-"):
        return _possible_positions(words, position + 1)
    return (position,) if position < len(words) else ()


def _possible_positions(words: Sequence[Word], first: int) -> Sequence[int]:
    possible: list[int] = []
    for position in range(first, len(words)):
        if not words[position].text.startswith("-") and not ASSIGNMENT.match(words[position].text):
            possible.append(position)
            if len(possible) > MAX_STARTS:
                break
    return possible


def _option_length(syntax: _WrapperSyntax, option: str) -> int | None:
    """Return how many words an option takes, with its value; None if that is uncertain."""
    if option in syntax.valued:
        return 2
    if option in syntax.flags:
        return 1
    if option.startswith("--"):
        return 1 if "=" in option else None
    for place, letter in enumerate(option[1:], 2):
        if f"-{letter}" in syntax.valued:
            return 2 if place == len(option) else 1
        if letter not in syntax.flags:
            return None
    return 1


def _find_option_commands(words: Sequence[Word], option: re.Pattern[str]) -> Iterator[Sequence[Word]]:
    for place, each in enumerate(words):
        name, _, attached = each.text.partition("=")
        if option.fullmatch(name):
            first = [Word(text=attached, certain_chars=None if each.certain_chars is None else 0)] if attached else []
            yield [*first, *(word for word in words[place + 1 :] if word.text not in {";", "+"})]


def _split_env_text(words: Sequence[Word]) -> Sequence[Word] | None:
    """Split the text of `env -S` into its own words."""
    for place, each in enumerate(words):
        found = _SPLIT_OPTION.fullmatch(each.text)
        if found is None:
            if not each.text.startswith("-") and not (place and words[place - 1].text in _WRAPPERS["env"].valued):
                return None
            continue
        rest = list(words[place + 1 :])
        text = found[1] or (rest.pop(0).text if rest else "")
        doubtful = "$" in text or any(word.certain_chars is not None for word in words[place : place + 2])
        pieces = (Word(text=piece, certain_chars=0 if doubtful else None) for piece in _split_words(text))
        return [Word(text="env"), *pieces, *rest]
    return None


def _split_words(text: str) -> list[str]:
    blank = re.sub(r"\\[_tnrfv]", " ", text)
    try:
        return shlex.split(blank)
    except ValueError:
        return blank.split()
