"""Programs that run commands which a line does not show: what is denied is denied or asked for, the everyday is not."""

from typing import Final

import pytest

from session_core.permissions.rules import PermissionRule, decide

DENY_RM: Final = PermissionRule(decision="deny", command="rm *")


def judged(command: str, *allowed: str) -> str | None:
    rules = (DENY_RM, *(PermissionRule(decision="allow", command=each) for each in allowed))
    return decide(rules, tool="bash", command=command)


@pytest.mark.parametrize(
    "command",
    [
        "tar cf x --to-command=r''m y",
        "tar -x --checkpoint-action=exec=r''m -f x",
        "tar -xI r''m -f x",
        "split --filter=r''m x",
        "split --filt r''m x",
        "mapfile -C r''m a",
        "readarray -tC r''m a",
        "compgen -C r''m",
        "complete -C r''m y",
        "sort --compress-program=r''m x",
        "rsync -e r''m a b",
        "man --pager=r''m x",
        "rg --pre r''m x",
        "scp -S r''m a b:c",
        "git rebase -x r''m main",
        "git difftool -x r''m a",
        "git fetch --upload-pack r''m a",
        "GIT_EXTERNAL_DIFF=r''m git diff",
        "GIT_PAGER=r''m git log",
        "env EDITOR=r''m git commit",
        "export PAGER=r''m; man ls",
        "setarch -R r''m x",
        "setarch x86_64 r''m x",
        "linux32 r''m x",
        "linux64 r''m x",
        "/lib64/ld-linux-x86-64.so.2 /bin/r''m x",
        "ld.so --preload y /bin/r''m x",
        "pkexec r''m x",
        "perf stat r''m x",
        "su <<< r''m",
        "unshare -r <<< r''m",
        "coproc NAME { r''m x; }",
        "set -- 1; for x do r''m $x; done",
        "command_not_found_handle() { r''m x; }; foo",
    ],
)
def test_commands_in_options_and_variables_are_found(command: str) -> None:
    """A command that is the value of an option or a variable is denied like any other."""
    assert "deny" == judged(command)


OPAQUE: Final = (
    "make",
    "make -C x test",
    "cd x && just build",
    "npm --silent run clean",
    "run-parts x",
    "git x",
    "git -C y x",
    "git -c alias.x='!ls' status",
    "git -c core.fsmonitor=x status",
    "git config alias.x '!ls'",
    "git clone --config core.sshCommand=x y",
    "git clone 'ext::sh -c ls'",
    "git --exec-path=x status",
    "sed '1e ls' x",
    "sed 1e x",
    "sed -n 's/x/ls/e' y",
    "sed 's/x/ls/ge' y",
    "sed -f x y",
    "sed -ne p -e 1e y",
    'sed "s/a/$b/" y',
    "sed '/x/{s/a/b/;e' y",
    "sed 's|a|b|;1e ls' y",
    "awk 'BEGIN { system(\"ls\") }'",
    "gawk '{ print | \"sh\" }'",
    "awk -f x y",
    "gawk '@load \"x\"'",
    'awk -F , "$x" y',
    "ls | xargs sed",
    "ls | xargs awk",
    "ls | xargs git",
    "ls | xargs python",
    "tar xIf x y",
    "parallel ::: x",
    "ls | parallel",
    'git -c "$x" log',
    "python3 -c 'import os'",
    "python3.11 - < x",
    "echo x | python",
    "perl -lane print x",
    "perl -I lib -e x",
    "ruby -e x",
    "node --eval x",
    "node -p 1",
    "php -r x",
    "lua5.4 -e x",
    "vim -c x",
    "ed x",
    "gdb -ex x",
    "less +x y",
    "sqlite3 x .tables",
    "tmux new x",
    "bash x.sh",
    ". ./x",
    "source x",
)


@pytest.mark.parametrize("command", OPAQUE)
def test_opaque_programs_are_asked_about(command: str) -> None:
    """A program that may run anything is asked about where something is denied, even if everything is allowed."""
    assert "ask" == judged(command)
    assert "ask" == judged(command, "*")


@pytest.mark.parametrize("command", OPAQUE)
def test_opaque_programs_can_be_allowed(command: str) -> None:
    """Who allows such a line as it is has decided about it."""
    assert "allow" == judged(command, command)


@pytest.mark.parametrize(
    ("allowed", "command", "expected"),
    [
        ("make *", "make test", "allow"),
        ("cd x && make *", "cd x && make test", "allow"),
        ("python *", "python -c 1", "allow"),
        ("git *", "git x", "allow"),
        ("ls *", "make test", "ask"),
        ("make *", "make; rm x", "deny"),
        ("make *", "make $(x)", "ask"),
        ("tar *", "tar x --to-command=ls", None),
        ("split *", "split --filter=cat x", None),
        ("git *", "GIT_PAGER=cat git log", None),
        ("GIT_PAGER=cat git *", "GIT_PAGER=cat git log", "allow"),
    ],
)
def test_allowed_by_name(allowed: str, command: str, expected: str | None) -> None:
    """A rule allows what a program runs by itself if it names the program, and never a command that a star matches."""
    assert expected == judged(command, allowed)


@pytest.mark.parametrize(
    "command",
    [
        "BASH_ENV=<(echo rm x) bash -c :",
        "BASH_ENV=x bash -c :",
        "env BASH_ENV=x bash -c :",
        "export BASH_ENV=x",
        "ENV=x sh -c :",
        "export ENV",
        "PROMPT_COMMAND=x",
        "PS4='$(ls)'; set -x; ls",
        ": ${PS4:=x}",
        "read PS4 <<< y",
        "printf -v PS4 y",
        "declare -x $x",
        "GIT_CONFIG_COUNT=1 git log",
        "LD_PRELOAD=x ls",
        "BASH_CMDS[ls]=/bin/x; ls",
        "enable -f x y",
        "set -o history -H",
        "fc -s",
        "ssh host < x",
        "setarch < x",
    ],
)
def test_what_changes_the_shell_is_unseen(command: str) -> None:
    """Variables and builtins that make a shell run something else later are asked about, whatever is allowed."""
    assert "ask" == judged(command)
    assert "ask" == judged(command, "*", command)


@pytest.mark.parametrize(
    "command",
    [
        "sed -n 1,20p x",
        "sed -n '1,+3p' x",
        "sed -i 's/a/b/g' x",
        r"sed -E 's|a/(b)|\1|; s/x/y/2' x",
        "sed -e 's/a/b/' -e '/x/d' y",
        "sed -i.bak '/^#/d;$d' x",
        r"sed ':a;N;$!ba;s/\n/ /g' x",
        "sed '5a hello world' x",
        r"sed 's/^[ \t]*//' x",
        "sed --expression='s/e/x/' y",
        "sed = x",
        "awk '{print $1}' x",
        "awk -F: -v x=1 '$3 > x || $1 ~ /e/ {print $1, $2}' y",
        "awk '{print $1}' \"$x\"",
        "ls | xargs sed -n 1p",
        "ls | xargs git add",
        "find . -exec awk '{print}' {} +",
        "tar xzf x.tar.gz",
        "parallel gzip ::: x",
        'git -C "$x" status',
        "python x.py",
        "python3 -u x.py",
        "python -m pytest -x",
        "python --version",
        "node server.js",
        "ruby -I lib x.rb",
        "git status",
        "git -C x diff",
        "git -c color.ui=never diff",
        "git -c core.pager=cat log",
        "GIT_PAGER=cat git log",
        "git commit -m x",
        "git push -u origin main",
        "git config user.name x",
        "git config --get core.pager",
        "git --version",
        "less x",
        "man ls",
        "tar -cvf x.tar y",
        "tar --exclude=x -czf y z",
        "split -l 5 x",
        "rsync -a x y",
        "npm install",
        "cargo build",
        "go test ./...",
        "pytest -x",
        "export PATH=$PATH:/x",
        "set -euo pipefail",
        "echo $PS1",
        "ssh host ls",
        "nc -z host 80",
    ],
)
def test_everyday_commands_are_not_asked_about(command: str) -> None:
    """Everyday uses of programs that could run others are told apart from those that do."""
    assert judged(command) is None


@pytest.mark.parametrize(
    "script",
    ["s/a/b/" * 5_000, "s" * 30_000, "s/" * 15_000, "1," * 15_000, "/" * 30_000, "a" * 30_000, "\\" * 30_000],
)
def test_long_scripts_take_no_time(script: str) -> None:
    """A script of sed that is made to be hard to read is read in a moment."""
    judged(f"sed '{script}' x")
