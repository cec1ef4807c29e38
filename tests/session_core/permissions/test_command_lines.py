"""Rules about commands: what is denied is found wherever a shell finds it, and what is unclear is never allowed."""

import tempfile
from pathlib import Path
from typing import Final

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from session_core.permissions.command_lines import parse_command_line
from session_core.permissions.rules import PermissionRule, decide

DENY_RM: Final = PermissionRule(decision="deny", command="rm *")
ALLOW_ALL: Final = PermissionRule(decision="allow", command="*")


def judged(command: str, *rules: PermissionRule) -> str | None:
    return decide(rules or (DENY_RM, ALLOW_ALL), tool="bash", command=command)


@pytest.mark.parametrize(
    "command",
    [
        "if rm x; then ls; fi",
        "while ! rm x; do ls; done",
        "for i in 1 2; do rm $i; done",
        "timeout -k 5 10s rm x",
        "ls | xargs -0 -n1 rm",
        "env -i A=1 rm x",
        "env - rm x",
        "env -u HOME -S 'rm x'",
        "nice -n 5 nohup rm x",
        "exec -a ls rm x",
        "command -p rm x",
        "sudo -u bob -- rm x",
        "builtin command rm x",
        "time -p rm x",
        "{ rm x; }",
        "(cd y; rm x)",
        "( ( rm x ) )",
        "echo $(rm x)",
        'echo "$(echo `rm x`)"',
        "echo ${y:-$(rm x)}",
        "diff <(rm x) y",
        "bash <<< 'rm x'",
        "sh <<E\nrm x\nE",
        "cat <<E\n$(rm x)\nE",
        "bash -lc 'cd y && rm x'",
        "bash -c -e 'rm x'",
        "sh -c \"bash -c 'rm x'\"",
        "eval rm x",
        "trap 'rm x' EXIT",
        "find . -name y -exec rm {} +",
        "f() { rm x; }; f",
        "A=1 B=2 /usr/bin/rm x",
        ">y 2>&1 rm x",
        "case a in a) rm x;; esac",
        "r\\m x",
        "$'\\x72m' x",
        "r''m x",
        "r\\\nm x",
        "stdbuf -oL setsid rm x",
        "bash rm",
        "bash -euo pipefail -c 'rm x'",
        "sh -eo pipefail -c rm",
        "bash -xO extglob -c 'rm x'",
        "bash -s a <<< 'rm x'",
        "fish --command='rm x'",
        "tcsh -c rm",
        "csh -fc 'rm x'",
        "ssh host rm x",
        "ssh -p 22 -i key host timeout 5 rm x",
        "ssh host -t rm x",
        "ssh -o ProxyCommand=rm host",
        "su -c rm",
        "su - bob -c rm",
        "flock /l -c rm",
        "script --command='rm x'",
        "script -qc rm /dev/null",
        "runuser -u root -- rm x",
        "bwrap --bind / / rm x",
        "unshare -S 0 -G 0 rm x",
        "nsenter --target 1 --mount rm x",
        "chrt -d -T 1 -P 2 0 rm x",
        "sudo -nu root rm x",
        "env -S 'r\"m\" x'",
        "env -iS'-u A rm\\_x'",
        "fakeroot rm x",
        "setpriv --reuid=0 rm x",
        "prlimit --nproc=3 rm x",
        "xvfb-run -a rm x",
        "fd -e o -x rm",
        "fd . --exec-batch=rm",
        "gtimeout 5 rm x",
        "git bisect run rm x",
        "git -C y submodule --quiet foreach 'cd z && timeout 5 rm x'",
        "uv run rm x",
        "uv --quiet run --unheard y rm x",
        "poetry run rm x",
        "npx rm x",
        "docker run --rm image rm x",
        "timeout --unheard y 5 rm x",
    ],
)
def test_a_denied_program_is_found(command: str) -> None:
    """A rule that denies a program is found behind keywords, other programs, substitutions, scripts and quotes."""
    assert "deny" == judged(command)


@pytest.mark.parametrize(
    "command",
    [
        "$x y",
        "r? x",
        "{rm,-r,x}",
        "/bin/$x",
        "curl y | sh",
        "curl y | bash -s -- --yes",
        "eval $x",
        "bash -c $x",
        "ls 'x",
        "((x<<2))\ntimeout 5 rm y",
        "for ((i=1;i<<2;i++)); do\ntimeout 5 rm y\ndone",
        "alias q=rm; q y",
        "hash -p /bin/rm q; q y",
        'echo "${x:-it\'s}"; timeout 5 rm y; echo "${z:-it\'s}"',
        "env -S '$x y'",
    ],
)
def test_what_may_be_denied_is_asked_for(command: str) -> None:
    """Where the text does not tell whether a denied program runs, a person is asked, whatever is allowed."""
    assert "ask" == judged(command)
    assert judged(command, PermissionRule(decision="deny", command="rm *", tool="other")) is None


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("git $x", "ask"),
        ("git log $x", None),
        ("ls *.py", None),
        ("git pus[h]", "ask"),
        ("echo push | xargs git", "ask"),
        ("ls | xargs grep push", None),
    ],
)
def test_doubt_is_about_what_could_fit(command: str, expected: str | None) -> None:
    """A variable, or words that come from elsewhere, raise doubt only where they could complete what a rule denies."""
    assert expected == judged(command, PermissionRule(decision="deny", command="git push *"))


@pytest.mark.parametrize(
    "command",
    [
        "command -v rm",
        "grep rm x",
        "sudo -E grep rm x",
        "cat <<'E'\nit's fine\nE",
        "[ -f rm ]",
        "ls # rm x",
        "bash -eo pipefail -c ls rm",
        "ssh host grep rm x",
        "sudo -nu bob grep rm x",
        "uv run -q pytest rm",
        "uv add rm",
        "strace -f -o y grep rm x",
        "env -S 'grep rm'",
        "git log submodule foreach rm",
        "echo $((1 << 2))\nls rm",
    ],
)
def test_a_name_alone_is_no_command(command: str) -> None:
    """A denied program may be spoken of; a line that only names it is not denied."""
    assert judged(command, DENY_RM) is None


@pytest.mark.parametrize(
    ("pattern", "command", "fits"),
    [
        ("timeout *", "timeout 5 rm x", False),
        ("timeout 60 pytest *", "timeout 60 pytest -x", True),
        ("xargs *", "xargs rm", False),
        ("bash *", "bash -c ls", False),
        ("FOO=* pytest", "FOO=1 rm pytest", False),
        ("FOO=1 pytest *", "FOO=1 pytest -x", True),
        ("./scripts/*", "./scripts/build", True),
        ("cd x && make *", "cd x && make test", True),
        ("echo *", "echo 'x", False),
        ("echo *", "echo 'x y'", True),
        ("* --version", "git --version", True),
        ("* --version", "sudo git --version", False),
        ("find . -name *", "find . -name x -exec ls y +", False),
    ],
)
def test_to_allow_spells_out_what_is_started(pattern: str, command: str, *, fits: bool) -> None:
    """A star does not stand for a program that another one starts, and nothing is allowed that is not understood."""
    assert ("allow" if fits else None) == judged(command, PermissionRule(decision="allow", command=pattern))


def quoted_somehow(draw: st.DrawFn, word: str) -> str:
    ways = ("{0}", "'{0}'", '"{0}"', "\\{0}", "$'{0}'", "$'\\x{1:x}'", "{0}''", '""{0}', "{0}\\\n", '$"{0}"')
    return "".join(draw(st.sampled_from(ways)).format(each, ord(each)) for each in word)


@st.composite
def disguised(draw: st.DrawFn, program: str) -> str:
    """A line that runs a program with words, each quoted in some way, behind things that start it."""
    line = " ".join(quoted_somehow(draw, word) for word in (program, draw(st.sampled_from(("-r", "x", "a1")))))
    around = (
        "{}",
        "true && {}",
        "({})",
        "{{ {}; }}",
        "! {}",
        "env -i {}",
        "nice {}",
        "echo $({})",
        "x=1 {}",
        "if {}; then :; fi",
    )
    for _ in range(draw(st.integers(0, 3))):
        line = draw(st.sampled_from(around)).format(line)
    return line


@given(command=disguised("rm"))
def test_quotes_hide_nothing(command: str) -> None:
    """However its letters are quoted and whatever is put around it, a denied command stays denied."""
    assert "deny" == judged(command)


_PIECES: Final = (
    "drop", "'dr'op", "d\\rop", " ", " ", "\n", ";", "&&", "||", "|", "(", ")", "{ ", "; }", "$(", "`", '"', "'", "\\",
    "x=drop", "$x", "if ", "then ", "fi", "! ", "time ", "exec ", "command ", "eval ", "bash -c ", "bash <<< ", "<<E\n",
    "\nE\n", ">/dev/null ", "2>&1 ", "<(", "echo ", "true", "f() ", "f", "case a in a) ", "esac", ";;", "#", "{drop,a}",
)  # fmt: skip


@given(pieces=st.lists(st.sampled_from(_PIECES), max_size=7), schedule=st.random_module())
async def test_what_a_real_shell_runs_is_not_allowed(tmp_path: Path, pieces: list[str], schedule: object) -> None:
    """Of any scraps of a shell's language: if bash runs the denied program, the rules have not let it pass."""
    place = Path(tempfile.mkdtemp(dir=tmp_path))  # what another example has left running cannot be seen here
    program, mark = place / "bin" / "drop", place / "mark"
    program.parent.mkdir()
    program.write_text(f"#!/bin/bash\n: > {mark}\n", encoding="utf-8")
    program.chmod(0o700)
    command = "".join(pieces) + " drop"
    with trio.move_on_after(5):
        await trio.run_process(
            ["/bin/bash", "-c", command],
            env={"PATH": str(program.parent)},
            cwd=tmp_path,
            stdin=b"",
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )

    if mark.exists():
        rules = (PermissionRule(decision="deny", command="drop *"), ALLOW_ALL)
        assert decide(rules, tool="bash", command=command) in {"deny", "ask"}


@given(text=st.text("ab '\"\\$(){}`<>;&|\n-=*", max_size=40))
def test_any_text_can_be_read(text: str) -> None:
    """Whatever a command line holds, reading it ends, and the same text is read the same."""
    assert parse_command_line(text) == parse_command_line.__wrapped__(text)


@pytest.mark.parametrize(
    "piece",
    ["$(", "`", "${a:-", "env -x env ", "find -exec ", "a;", "<<E\n", "{", "bash -c '", "a[$(", "PAGER=", "|"],
)
def test_long_lines_take_no_time(piece: str) -> None:
    """A line made to be hard to read is read in a moment, and not let pass for it."""
    assert judged((piece * 30_000)[:30_000]) != "allow"


@pytest.mark.parametrize(
    "piece",
    [
        "a=1 ",
        "env -x a=1 ",
        "watch ",
        "ssh -Z a ",
        "eval ",
        "su -c watch ",
        "env -Z '' ",
        "env PAGER=x ",
        "rsync -e x ",
    ],
)
def test_what_is_kept_of_a_line_grows_with_it(piece: str) -> None:
    """However many ways there are to read a line, what is noted of it stays within a few times its length."""
    line = parse_command_line((piece * 30_000)[:30_000] + " ls")

    assert sum(len(each.text) for each in line.commands) < 300_000
    assert line.unseen or "ls" in [each.text for each in line.commands]


@pytest.mark.parametrize("count", [1, 16, 17, 5_000])
def test_assignments_hide_nothing(count: int) -> None:
    """A denied program is found behind any number of assignments."""
    assert "deny" == judged("a=1 " * count + "r''m x")
