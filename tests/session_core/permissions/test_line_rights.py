"""What a person's line asks for beyond the sandbox."""

import pytest

from session_core.errors import InvalidInput
from session_core.permissions.line_rights import PersonLine, read_person_line

NOTHING: set[str] = set()


@pytest.mark.parametrize(
    ("line", "command", "named"),
    [
        ("ls +network", "ls +network", NOTHING),
        ("+network curl -d +protected x", "curl -d +protected x", {"network"}),
        (" +protected,network\n git tag v1 ", "git tag v1", {"network", "protected"}),
        ("+sockets,sockets docker ps", "docker ps", {"sockets"}),
        ("+1 x", "+1 x", NOTHING),
    ],
)
def test_rights_named_before_a_command(line: str, command: str, named: set[str]) -> None:
    """What a line asks for stands before its command, which runs without it."""
    assert PersonLine(command, frozenset(named)) == read_person_line(line)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("+net ls", "a line cannot ask for 'net'; it can ask for: +network, +protected, +sockets"),
        (
            "+network,unconfined ls",
            "a line cannot ask for 'unconfined'; it can ask for: +network, +protected, +sockets",
        ),
        ("+network ", "there is no command after +network"),
    ],
)
def test_what_no_line_can_ask_for(line: str, message: str) -> None:
    """A name that is no right is refused with those that are, and so are rights for nothing."""
    with pytest.raises(InvalidInput) as refused:
        read_person_line(line)
    assert ("line", message) == (refused.value.field, refused.value.message)


@pytest.mark.parametrize(
    ("line", "rights"),
    [
        ("git commit -m x", {"protected"}),
        ("cd a && git -C b -c core.editor=vi add .", {"protected"}),
        ("timeout 5 /usr/bin/git 'commit' -m 'a b'", {"protected"}),
        ("git pull", {"network", "protected"}),
        ("git ls-remote", {"network"}),
        ("git stash", {"protected"}),
        ("git stash list; git bisect log", NOTHING),
        ("git status && git log && git diff", NOTHING),
        ("git", NOTHING),
        ("echo git commit", NOTHING),
        ("+sockets git push", {"network", "protected", "sockets"}),
    ],
)
def test_what_git_needs(line: str, rights: set[str]) -> None:
    """Commands of git that change the repository or go online ask for that by themselves, and no others do."""
    assert rights == read_person_line(line).rights
