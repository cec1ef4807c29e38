"""Bash itself is the judge: whatever it starts, the reader of command lines has seen, or said that it cannot tell.

The programs are stand-ins that write down their names; no line holds a path outside of its own folder.
"""

import itertools
import os
import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from session_core.permissions.command_lines import parse_command_line
from tests._needs import NO_SANDBOX, needs_program

pytestmark = needs_program("bash")

PROGRAMS: Final = ("alpha", "beta", "gamma")
_STAND_IN: Final = '#!/bin/sh\n: > "${0%/*}.${0##*/}"\n'
_DRIVER: Final = """
for line; do
    PATH="${PWD%/*}/$((number++))" /bin/bash -c "$line" </dev/null >/dev/null 2>&1
done
"""
"""Each line finds the programs in a folder of another name, and so they know which line has started them."""

HARD_LINES: Final = (
    # quotes
    "'alpha'", '"alpha"', "\\alpha", "al''pha", 'al""pha', "$'alpha'", '$"alpha"', "al$'p'ha", "al\\\npha",
    "$'\\x61lpha'", "$'\\141lpha'", "$'\\u0061lpha'", "$'\\x{61}lpha'", "$'alpha\\0x' y", "$'alpha\\x00x' y",
    "echo $'a\\\\'; alpha #'", "echo 'a'\\''; alpha '; alpha", 'echo "a\\"; alpha; echo "b"', 'echo "\\\\"; alpha; "',
    'echo "\\$(alpha)"', "echo '$(alpha)'", "echo \\`alpha\\`", 'echo "$\\\n(alpha)"', "$\\\n(alpha)",
    "echo a\\ ;alpha", "echo a\\\n;alpha", "echo a \\\n alpha", "echo \\\n#x\nalpha", "echo a#b;alpha",
    "echo \\#;alpha", '"x"#;alpha', "echo a #b\nalpha", "echo a #b\\\nalpha", "alpha\r", "echo\x0c;alpha",
    "alpha\u00a0x", "echo \u00a0;alpha",
    # expansions
    "echo $(alpha)", "echo `alpha`", 'echo "$(echo "$(alpha)")"', "echo `echo \\`alpha\\``", '"`\\"al\\"pha`"',
    "$(echo alpha)", "${x:-alpha}", "al{pha,x}", "{alpha,x}", "{,alpha}", "al?ha", "a[l]pha", "x=alpha; $x",
    "x=alpha; ${x}", 'x=alpha; "$x"', "set alpha; $1", "x=(alpha b); ${x[@]}", "echo ${x:-$(alpha)}",
    'echo "${x:-`alpha`}"', "echo ${x:-`alpha`}", "echo \"${x:-'$(alpha)'}\"", 'echo "${x:-"$(alpha)"}"',
    "echo ${x:-'}'}; alpha", 'echo ${x:-"}"}; alpha', "echo ${x:-\\}}; alpha", "echo \"${x:-'}\"; alpha; echo \"'}\"",
    "echo ${x/$(alpha)/y}", "echo ${x//a/$(alpha)}", "x=y; echo ${x%$(alpha)}", "x=y; echo ${x:$(alpha)}",
    "echo ${#};alpha", "echo ${##};alpha", "echo $#;alpha", "echo ${#x};alpha", "echo ${x[$(alpha)]}", "x[$(alpha)]=1",
    "x=(`alpha`)", "x=([$(alpha)]=1)", "x=y alpha", "x= alpha", "x='a b' alpha", 'x="a b" y=z alpha', "x+=(a) ; alpha",
    "x=(# )\n); alpha", "echo $((`alpha`))", "echo $(( $(alpha) + 1 ))", "echo $[ $(alpha) ]",
    "echo $((1 #$(alpha)\n))", "echo $((1<<'2'\n+$(alpha)\n2\n))", "((x=$(alpha)1))", "((x<<2))\nalpha\n2",
    "a[1<<2]=3\nalpha\n2]=3", "((alpha))", "( (alpha) )", "((alpha) )", "((alpha); :)", "let x=1; alpha",
    "echo $(case a in a) alpha;; esac)", "echo $(# )\nalpha)", "echo $(cat <<E\n)\nE\nalpha)", "cat <(alpha)",
    "cat < <(alpha)", "echo a >(alpha)", "echo !$(alpha)", "echo ~ ; alpha", "{fd}>x alpha", "echo $(<x; alpha)",
    "echo ${ alpha; }", "echo ${| alpha; }",
    # compound commands
    "{ alpha; }", "(alpha)", "{ { alpha; } }", "if alpha; then :; fi", "if alpha\nthen :\nfi", "if :;then alpha;fi",
    "if false;then :;elif alpha;then :;else :;fi", "if false;then :;else alpha;fi", "while alpha; do break; done",
    "until alpha; do :; done", "for x in a; do alpha; done", "for x in a;{ alpha; }", "for x in a\ndo alpha\ndone",
    "set a; for x do alpha; done", "set a; for x { alpha; }", "set a; for x\ndo alpha\ndone",
    "for ((;;)) do alpha; break; done", "for ((i=0;i<$(alpha)1;i++)) { :; }",
    "select x in a; do alpha; break; done <<< 1", "set a; select x do alpha; break; done <<< 1",
    "case a in a) alpha;; esac", "case a in (a) alpha; esac", "case a in b) ;; *)alpha;esac",
    "case $(alpha) in a) ;; esac", "case a in $(alpha)) ;; esac", "case a in b|$(alpha)) ;; esac",
    "case a in a) :;& b) alpha;; esac", "case in in in) alpha;; esac", "case esac in (esac) alpha;; esac",
    "case a in a) case b in b) alpha;; esac;; esac", "f() { alpha; }; f", "f() ( alpha ); f",
    "f() if :; then alpha; fi; f", "f() case a in a) alpha;; esac; f", "function f { alpha; }; f",
    "function f() { alpha; }; f", "function f while alpha; do break; done; f", "f() [[ $(alpha) ]]; f",
    "f() { $1; }; f alpha", 'f() { "$@"; }; f alpha', "f()\n{\nalpha\n}\nf", "alpha() { :; }; command alpha",
    "coproc alpha; wait", "coproc alpha { :; }; wait", "coproc X { alpha; }; wait", "coproc X (alpha); wait",
    "coproc while alpha; do break; done; wait", "coproc X if alpha; then :; fi; wait", "time alpha", "time -p alpha",
    "time -- alpha", "! alpha", "! ! alpha", "! { alpha; }", "time ! alpha", "! time alpha", "! time -p ! alpha",
    "true && alpha", "false || alpha", "true & alpha", "true;alpha", "true|alpha", "true |& alpha", "alpha&",
    "alpha & wait", "[[ -n $(alpha) ]]", "[[ a == $(alpha) ]]", "[[ a =~ $(alpha) ]]", "[[ a == @($(alpha)|b) ]]",
    "[[ a < b && $(alpha) ]]", "[[ (a) ]] && alpha", "[ -n $(alpha) ]", "[ a ] && alpha", "test `alpha`",
    "shopt -s extglob\nls !(x); alpha",
    # redirections and here-documents
    ">x alpha", ">x <x alpha", "2>&1 alpha", "<<<x alpha", "<<E alpha\nE", "<<E alpha\n", "alpha >x 2>&1 <<<y",
    "alpha&>x", "alpha &>> x", "alpha>&x", "3<>x alpha", ">|x alpha", "echo 2>&1;alpha", "exec 3>x; alpha",
    "x=1>y alpha", "echo >$(alpha)", "echo < $(alpha)", "cat <<E\nE\nalpha", "cat <<'E'\nE\nalpha",
    'cat <<"E F"\nE F\nalpha', "cat <<E\\ F\nE F\nalpha", "cat << 'E'x\nEx\nalpha", "cat <<\\E\n$(beta)\nE\nalpha",
    "cat <<-E\n\tE\nalpha", "cat <<-E\n\tx\n\tE\nalpha", "cat <<E\n\tE\nE\nalpha", "cat <<E\nE \nE\nalpha",
    "cat <<E\n$(alpha)\nE", "cat <<E\n`alpha`\nE", 'cat <<E\n"$(alpha)"\nE', "cat <<E\n'$(alpha)'\nE",
    "cat <<E\n${x:-$(alpha)}\nE", "cat <<E\n\\$(alpha)\nE", "cat <<E\n\\\\$(alpha)\nE", "cat <<'E'\n$(alpha)\nE",
    "cat <<E\n$((`alpha`))\nE", "cat <<EF\nE\\\nF\nalpha\nEF", "cat <<E\nx\\\nE\nalpha\nE", "cat <<E\nx\\\\\nE\nalpha",
    "cat <<E | alpha\nE", "cat <<E; alpha\nE", "cat <<E && alpha\nE", "cat <<E & alpha\nE", "cat <<E > x; alpha\nE",
    "cat <<E 2>&1 | alpha\nE", "(cat <<E)\nE\nalpha", "(cat <<E\nE\n)\nalpha", "{ cat <<E\nE\n}; alpha",
    "cat <<A <<B\nA\nB\nalpha", "cat <<A; cat <<B\nA\nB\nalpha", "cat <<A; cat <<'B'\nA\n$(alpha)\nB\nalpha",
    'cat <<""\n\nalpha', "cat <<$(a)\nx\n$(a)\nalpha", "cat <<$'E'\nx\n$E\nE\nalpha", 'cat <<E<<<"$(alpha)"\nE',
    "cat <<E $(\nalpha\n)\nE", 'cat <<E "a\nE\nb"\nE\nalpha', "if cat <<E\nE\nthen alpha; fi", "cat <<E\nE;alpha",
    "cat <<E\n)\nE\nalpha",
    # commands that start others
    "eval alpha", "eval 'al'pha", 'eval "$(echo alpha)"', "bash -c alpha", "bash -c 'bash -c \"alpha\"'",
    "bash <<< alpha", "bash <<E\nalpha\nE", "echo alpha | bash", "bash <(echo alpha)", "bash -s <<< alpha",
    "{ bash; } <<< alpha", "bash 3<<<x <<< alpha", "command alpha", "command -p -- alpha", "builtin eval alpha",
    "exec alpha", "exec -a x alpha", "trap alpha EXIT", "trap -- alpha 0", "source <(echo alpha)",
    ". /dev/fd/3 3<<< alpha", "echo alpha > x; . ./x", "echo alpha > x; bash x", "mapfile -C alpha -c 1 x <<< y",
    "readarray -tC alpha -c 1 x <<< y", "compgen -C alpha", "BASH_ENV=<(echo alpha) bash -c :",
    "echo alpha > x; BASH_ENV=x bash -c :", "echo alpha > x; export BASH_ENV=x; bash -c :", "PS4='$(alpha)'; set -x; :",
    "PS4='$(alpha)' bash -xc :", "for PS4 in '$(alpha)'; do set -x; :; done", "read PS4 <<< '$(alpha)'; set -x; :",
    "shopt -s expand_aliases; alias q=alpha\nq", "BASH_ALIASES[q]=alpha; shopt -s expand_aliases\nq",
    "x=bin; BASH_CMDS[q]=$PATH/alpha; q", "hash -p $PATH/alpha q; q",
    "command_not_found_handle() { alpha; }; foo", "set -o history -H\nalpha\n!!", "x=alpha; ${!x*}; $x",
    "declare -n y=x; x=alpha; $y", "enable -n test; alpha", "export x=$(alpha)", "export `alpha`",
    "declare -a x=($(alpha))", "f() { local x=$(alpha); }; f", "unset x[$(alpha)]", "let x=$(alpha)1",
    "printf %s $(alpha)", "printf -v x[$(alpha)] y", "test -v 'x[$(alpha)]'", "[[ -v x[$(alpha)] ]]",
    "unset 'x[$(alpha)]'", "read 'x[$(alpha)]' <<< y", "x='a[$(alpha)]'; ((x))", "x='a[$(alpha)]'; echo $((x))",
    "x='a[$(alpha)]'; let x", "x='a[$(alpha)]'; [[ x -eq 1 ]]", "x='$(alpha)'; echo ${x@P}",
    "declare -i x='a[$(alpha)]'", "x='a[$(alpha)]'; y=(1); echo ${y[x]}", "echo ${x:'a[$(alpha)]'}",
    # nesting
    *("echo $(" * depth + "alpha" + ")" * depth for depth in (1, 10, 24, 30)), "(" * 30 + "alpha" + ")" * 30,
    "{ " * 30 + "alpha" + "; }" * 30, "eval " * 40 + "alpha",
)  # fmt: skip


async def find_started(tmp_path: Path, lines: Sequence[str]) -> list[set[str]]:
    """Run lines one after another in one folder, in a sandbox if there is one, and return what each has started."""
    folder = Path(tempfile.mkdtemp(dir=tmp_path))
    for each in ("programs", "work"):
        (folder / each).mkdir()
    for each in PROGRAMS:
        (folder / "programs" / each).write_text(_STAND_IN, encoding="utf-8")
        (folder / "programs" / each).chmod(0o700)
    for each in ("bash", "cat"):
        (folder / "programs" / each).symlink_to(str(shutil.which(each)))
    for number in range(len(lines)):
        (folder / str(number)).symlink_to("programs")
    sandbox = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "--dev", "/dev", "--bind", str(folder), str(folder)]
    with trio.move_on_after(300):
        await trio.run_process(
            [*([] if NO_SANDBOX else sandbox), "/bin/bash", "-c", _DRIVER, "driver", *lines],
            env={"PATH": os.environ["PATH"], "FUNCNEST": "5"},  # functions of a line could call each other without end
            cwd=folder / "work",
            stdin=b"",
            check=False,
        )
    return [{each for each in PROGRAMS if (folder / f"{number}.{each}").exists()} for number in range(len(lines))]


def is_accounted_for(program: str, line: str) -> bool:
    """Return whether the reader has seen that a line may start a program."""
    seen = parse_command_line(line)
    return (
        seen.unseen
        or seen.opaque
        or not seen.whole
        or any(
            each.text.partition(" ")[0] == program
            or (each.known is not None and (program.startswith(each.known) or each.known.startswith(program)))
            for each in seen.commands
        )
    )


async def find_missed(tmp_path: Path, lines: Sequence[str]) -> list[tuple[str, str]]:
    started = await find_started(tmp_path, lines)
    return [
        (each, line)
        for line, programs in zip(lines, started, strict=True)
        for each in programs
        if not is_accounted_for(each, line)
    ]


async def test_hard_lines(tmp_path: Path) -> None:
    """Of lines that are hard to read, the reader misses no program that bash starts."""
    assert [] == await find_missed(tmp_path, HARD_LINES)


@pytest.mark.slow
async def test_hard_lines_start_something(tmp_path: Path) -> None:
    """Most of the hard lines start a program, so they are a test."""
    started = await find_started(tmp_path, HARD_LINES)
    assert sum("alpha" in each for each in started) > len(HARD_LINES) * 0.8


QUOTED: Final = ("{0}", "'{0}'", '"{0}"', "\\{0}", "$'{0}'", "{0}''", "{0}\\\n", '$"{0}"', "$'\\x{1:x}'", "$'\\{1:o}'")
AROUND: Final = (
    "{}", "{}", "({})", "{{ {}; }}", "! {}", "time {}", "x=1 {}", ">y {}", "{} <x", "true && {}", "{} | {}", "{}\n{}",
    "{}; {}", "{} & {}", "echo $({})", 'echo "$({})"', "echo `{}`", "cat <({})", "if {}; then {}; fi", "coproc {}",
    "while {}; do {}; break; done", "for x in a; do {}; done", "case a in a) {};; esac", "f() {{ {}; }}; f",
    "[[ $({}) ]]", "cat <<E\n$({})\nE", "cat <<'E'; {}\n$({})\nE", "cat <<E | {}\nE", "cat <<-E && {}\n\tE",
    "eval '{}'", "bash -c '{}'", "bash <<< '{}'", "bash <<'E'\n{}\nE", "echo ${{x:-$({})}}", "x=($({}))",
    "echo $(( $({}) 1 ))", "exec {}", "{} #'", "echo '\"'; {}", "echo \"'\"; {}", "echo \\'; {}", "echo $'\\''; {}",
    "coproc X {{ {}; }}", "command {}", "trap '{}' 0",
)  # fmt: skip


@st.composite
def nested_lines(draw: st.DrawFn) -> str:
    """Lines of bash that are mostly right, with programs in odd places and odd quotes."""
    words = ["".join(draw(st.sampled_from(QUOTED)).format(x, ord(x)) for x in each) for each in PROGRAMS]
    pieces = st.recursive(
        st.sampled_from(words),
        lambda inner: st.builds(
            lambda around, *filled: around.format(*itertools.islice(filled, around.count("{}"))),
            st.sampled_from(AROUND), inner, inner,
        ),
        max_leaves=8,
    )  # fmt: skip
    return draw(pieces)


@given(lines=st.lists(nested_lines(), min_size=6, max_size=6), schedule=st.random_module())
async def test_nested_lines(tmp_path: Path, lines: list[str], schedule: object) -> None:
    """However constructs of bash are put into each other, the reader misses no program that bash starts."""
    assert [] == await find_missed(tmp_path, lines)


_MIXED: Final = st.lists(st.sampled_from([*HARD_LINES, *" ;&|()'\"`\\\n$#{}<>"]), min_size=1, max_size=4).map("".join)


@pytest.mark.slow
@given(lines=st.lists(_MIXED, min_size=20, max_size=20), schedule=st.random_module())
async def test_mixed_lines(tmp_path: Path, lines: list[str], schedule: object) -> None:
    """Of hard lines that run into each other, right or wrong, the reader misses no program that bash starts."""
    assert [] == await find_missed(tmp_path, lines)
