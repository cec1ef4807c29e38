"""Permission rules: the strictest that fits decides, and in doubt a rule fits if it forbids and not if it allows."""

import re
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from session_core.permissions.globs import match_gaps, matches_path
from session_core.permissions.rules import LiveRules, PermissionRule, RuleDecision, decide, matches_call

ALLOW: Final[RuleDecision] = "allow"
DENY: Final[RuleDecision] = "deny"


def test_rules_that_change() -> None:
    """Whoever holds live rules decides by what they are now, and a look through them is not mixed up by a change."""
    ask, deny = (PermissionRule(decision=each, tool="bash") for each in ("ask", "deny"))
    rules = LiveRules([ask])
    looking = iter(rules)
    rules.replace([deny, deny])

    assert [ask] == list(looking)
    assert (2, deny, (deny,)) == (len(rules), rules[0], rules[1:])
    assert "deny" == decide(rules, tool="bash")


def test_the_strictest_decides() -> None:
    """Deny goes before ask and ask before allow, in any order of the rules."""
    rules = [PermissionRule(decision=each, tool="bash") for each in ("ask", "allow", "deny")]

    assert "deny" == decide(rules, tool="bash")
    assert "ask" == decide(rules[:2], tool="bash")
    assert "allow" == decide(rules[1:2], tool="bash")
    assert decide(rules, tool="read") is None


@pytest.mark.parametrize(
    ("pattern", "tool", "expected"),
    [("shell", "shell", True), ("shell", "shells", False), ("mcp__*", "mcp__x__y", True), ("*", "x", True)],
)
def test_tools(pattern: str, tool: str, *, expected: bool) -> None:
    """A tool is named, or described with stars."""
    assert expected == matches_call(PermissionRule(decision=ALLOW, tool=pattern), tool=tool)


@pytest.mark.parametrize(
    ("pattern", "path", "denied", "allowed"),
    [
        ("src/*.py", "src/a.py", True, True),
        ("src/*.py", "src/deep/a.py", False, False),
        ("src/**", "src/deep/a.py", True, True),
        ("src/**/a.py", "src/a.py", True, True),
        ("src/**/a.py", "src/x/y/a.py", True, True),
        ("src", "src/a.py", True, False),
        ("src/", "src/a.py", True, False),
        ("./src/x", "src/x/y", True, False),
        ("*.env", "deep/prod.env", True, True),
        (".env", ".env", True, True),
        (".env", "a/.env/b", True, False),
        ("secrets/**", "src/../secrets/a", True, False),
        ("docs/**", "docs/../secrets/a", False, False),
        ("docs/**", "docs", False, False),
        ("/etc/*", "/etc/passwd", True, True),
        ("/etc", "/etc/ssh/key", True, False),
        ("a?c", "abc", True, True),
        ("a?c/x", "a/c/x", False, False),
    ],
)
def test_paths(pattern: str, path: str, *, denied: bool, allowed: bool) -> None:
    """What a pattern denies reaches into folders; what it allows does not, and never a path that climbs."""
    assert denied == matches_call(PermissionRule(decision=DENY, path=pattern), tool="write", paths=(path,))
    assert allowed == matches_call(PermissionRule(decision=ALLOW, path=pattern), tool="write", paths=(path,))


def test_several_paths() -> None:
    """One path is enough to deny, all are needed to allow, and a call without any has none that fits."""
    for paths, denied, allowed in ((("a/x", "b/x"), True, False), (("a/x", "a/y"), True, True), ((), False, False)):
        assert denied == matches_call(PermissionRule(decision=DENY, path="a/*"), tool="t", paths=paths)
        assert allowed == matches_call(PermissionRule(decision=ALLOW, path="a/*"), tool="t", paths=paths)


@pytest.mark.parametrize(
    ("pattern", "command", "denied", "allowed"),
    [
        ("git status", "git status", True, True),
        ("git status", " git status ", True, True),
        ("git status", "git status --short", False, False),
        ("git log *", "git log --oneline", True, True),
        ("git log *", "git log; rm -r x", True, False),
        ("git log *", "git log $(rm -r x)", True, False),
        ("git log *", "git log > ~/.bashrc", True, False),
        ("git log *", "git log\nrm x", True, False),
        ("git log *", "git log \\\n-p", True, False),
        ("rm *", "rm", True, False),
        ("rm *", "cd x && rm -r y", True, False),
        ("rm *", "echo `rm -r y`", True, False),
        ("rm *", "sudo rm -r y", True, False),
        ("rm *", "A=1 rm -r y", True, False),
        ("rm *", "/bin/rm -r y", True, False),
        ("rm -r *", "rm   -r y", True, False),
        ("rm *", "rmdir x", False, False),
        ("*push*", "git push", True, True),
    ],
)
def test_commands(pattern: str, command: str, *, denied: bool, allowed: bool) -> None:
    """To deny looks at each command of a line; to allow never lets a shell start something else."""
    assert denied == matches_call(PermissionRule(decision=DENY, command=pattern), tool="bash", command=command)
    assert allowed == matches_call(PermissionRule(decision=ALLOW, command=pattern), tool="bash", command=command)


def test_a_rule_about_commands_needs_one() -> None:
    """A call without a command is not what a rule about commands is about."""
    assert not matches_call(PermissionRule(decision=DENY, command="*"), tool="read")


def test_every_pattern_must_fit() -> None:
    """A rule with a tool and a path is about this tool with this path."""
    rule = PermissionRule(decision=DENY, tool="write", path="a")

    assert matches_call(rule, tool="write", paths=("a",))
    assert not matches_call(rule, tool="read", paths=("a",))
    assert not matches_call(rule, tool="write", paths=("b",))


def test_long_texts_take_no_time() -> None:
    """Many stars and a long text that almost fits are no work: the same with regular expressions would not end."""
    text = "a" * 20_000

    assert match_gaps("*a" * 100 + "b", text) is None
    assert not matches_path("**a" * 20 + "b", text[:2_000], or_beneath=True)


@given(pattern=st.text("ab*", max_size=6), text=st.text("ab", max_size=8))
def test_stars_stand_for_anything(pattern: str, text: str) -> None:
    """A pattern fits exactly when its stars can be replaced by texts so that it is the text."""
    wanted = re.compile("".join(".*" if each == "*" else each for each in pattern))
    gaps = match_gaps(pattern, text)

    assert (wanted.fullmatch(text) is not None) == (gaps is not None)
    if gaps is not None:
        pieces: list[str] = [str(piece) for piece in re.split(r"\*+", pattern)]
        assert text == "".join(piece + gap for piece, gap in zip(pieces, [*gaps, ""], strict=True))


@given(pattern=st.text("ab*?/", max_size=7), path=st.text("ab/", max_size=8), or_beneath=st.booleans())
def test_paths_fit_as_a_regular_expression_says(pattern: str, path: str, *, or_beneath: bool) -> None:
    """For short texts, where regular expressions are quick, both agree."""
    translated = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    pieces = re.findall(r"\*\*/|\*\*|\*|.", pattern)
    wanted = re.compile("".join(translated.get(str(each)) or re.escape(each) for each in pieces))
    above = [path[:place] for place in range(1, len(path)) if path[place] == "/"] if or_beneath else []

    assert any(wanted.fullmatch(each) for each in (path, *above)) == matches_path(pattern, path, or_beneath=or_beneath)
