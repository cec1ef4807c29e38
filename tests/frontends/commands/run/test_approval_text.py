"""The question before a tool runs: all that matters is on the screen, and nothing in it steers the terminal."""

import os

import attrs
import pytest
import trio

import session_core as sc
from frontends.commands.run.approval_text import (
    LONGEST_LINE,
    MOST_LINES,
    find_asking_subagent,
    format_question,
    preview_lines,
)
from frontends.commands.run.options import RunOptions
from frontends.commands.run.run import converse
from frontends.shared.streams import StandardStreams
from frontends.shared.style import Style
from session_core.testing import scripted
from session_core.testing.checked import open_checked_service
from tests.frontends._paper import NoSignals, Paper, config, written

PLAIN = Style()
ALWAYS = "[a]lways exactly this, [N]o"
INSTEAD = "or type what to do instead: "
CHILD = sc.SessionId("ses_0123456789abcdef")
APPROVAL = sc.Approval(
    request_id=sc.RequestId("req_1"),
    call_id=sc.CallId("call_1"),
    tool_name="bash",
    summary="run make\x1b[31m",
    arguments=sc.JsonObject({"command": "make"}),
    requested_at=0,
    expires_at=1,
    shown="make\nin /srv\x1b]0;title\x07",
    reason="it runs a program",
    grant="commands that begin with make",
)


def test_the_whole_question() -> None:
    """Summary, reason, what would happen, and what each answer covers are all there."""
    asked = format_question(PLAIN, APPROVAL)

    assert not asked.cut
    assert [
        "? Allow bash: run make?",
        "  asked for because it runs a program",
        "  make",
        "  in /srv<U+001B>]0;title<U+0007>",
        "  [y]es once, [s] for this session: commands that begin with make, " + f"{ALWAYS}, {INSTEAD}",
    ] == asked.text.split("\n")


COMMAND = "make test\nenvironment: none\x1b[31m"
RUN = attrs.evolve(
    APPROVAL,
    summary="run: make test ...",
    arguments=sc.JsonObject({"command": COMMAND}),
    shown=f"{COMMAND}\n\nfolder: /srv\nnetwork: off\nenvironment: A=b; handed on: PATH; nothing else",
    grant=f"run in /srv: {COMMAND}",
)


def test_nothing_of_a_command_is_hidden() -> None:
    """What a terminal would swallow as part of an escape sequence is shown: a shell would run it."""
    lines, cut = preview_lines(PLAIN, "echo hi; \x1b]0; rm -rf ~ #\x07", whole=True)
    assert (["  echo hi; <U+001B>]0; rm -rf ~ #<U+0007>"], False) == (lines, cut)


def test_a_command_is_shown_once() -> None:
    """A command stands there once and whole, what is the same for all is left out, and `v` shows that too."""
    asked, whole = format_question(PLAIN, RUN), format_question(PLAIN, RUN, whole=True)

    assert [
        "? Allow bash?",
        "  asked for because it runs a program",
        "  make test",
        "  environment: none<U+001B>[31m",
        "  folder: /srv",
        "  network: off",
        f"  [y]es once, [s] this command, whenever it occurs in this session, {ALWAYS}, [v]iew all of it, {INSTEAD}",
    ] == asked.text.split("\n")
    assert (True, False) == (asked.cut, whole.cut)
    assert "\n  network: off\n  environment: A=b; handed on: PATH; nothing else\n" in whole.text


@pytest.mark.parametrize("shown", ["something else", "make test\nand more"])
def test_what_is_not_the_command_is_shown_as_it_is(shown: str) -> None:
    """Only what begins with exactly the command is shortened: nothing else may be left out."""
    asked = format_question(PLAIN, attrs.evolve(RUN, arguments=sc.JsonObject({"command": "make test"}), shown=shown))

    assert shown.replace("\n", "\n  ") in asked.text
    assert not asked.cut


def test_what_a_yes_for_the_session_covers() -> None:
    """A yes for a tool without finer distinctions is said to be one for every call of it."""
    assert (
        "[s] every edit of this session, "
        in format_question(PLAIN, attrs.evolve(RUN, tool_name="edit", grant="edit")).text
    )


def test_what_is_long_is_cut_and_can_be_seen_whole() -> None:
    """Long texts are cut with a note, the way to see everything is offered, and then nothing is left out."""
    long = attrs.evolve(APPROVAL, shown="\n".join(["x" * (LONGEST_LINE + 5), *(f"line {n}" for n in range(100))]))
    asked, whole = format_question(PLAIN, long), format_question(PLAIN, long, whole=True)

    assert (True, False) == (asked.cut, whole.cut)
    assert f"  ({101 - MOST_LINES} more lines left out; v shows everything)\n" in asked.text
    assert "[v]iew all of it" in asked.text
    assert "line 99" not in asked.text
    assert "x" * (LONGEST_LINE + 5) in whole.text
    assert "line 99\n" in whole.text


def test_one_long_line_is_cut_too() -> None:
    """Also a single line that is too long is told to be cut."""
    lines, cut = preview_lines(PLAIN, "x" * (LONGEST_LINE + 1), whole=False)

    assert cut
    assert "  (long lines are cut; v shows everything)" == lines[-1]


def test_a_diff_is_coloured() -> None:
    """What comes and what goes have colours of their own, in diffs only."""
    lines, _ = preview_lines(Style(colours=True), "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+new\n same", whole=False)
    plain, _ = preview_lines(Style(colours=True), "-v +x", whole=False)

    assert ["  \x1b[31m-old\x1b[39m", "  \x1b[32m+new\x1b[39m", "   same"] == lines[3:]
    assert ["  -v +x"] == plain


def test_who_asks() -> None:
    """A child session that asks is named by its title where that is known, and by its id in any case."""
    tool = sc.LiveTool(
        call_id=sc.CallId("call_0"),
        name="task",
        arguments=sc.JsonObject({"title": "count words"}),
        started_at=0,
        child_id=CHILD,
    )
    state = sc.SessionState(session_id=sc.SessionId("ses_parent"))
    theirs = attrs.evolve(APPROVAL, session_id=CHILD)

    assert find_asking_subagent(state, APPROVAL) is None
    assert "subagent 89abcdef" == find_asking_subagent(state, theirs)
    state.tools = (tool,)
    called = find_asking_subagent(state, theirs)
    assert 'subagent 89abcdef "count words"' == called
    assert format_question(PLAIN, theirs, called).text.startswith(
        '? subagent 89abcdef "count words" asks. Allow bash: '
    )


class Showing(scripted.ScriptedTool):
    """A tool with a long preview."""

    async def preview(self, arguments: sc.JsonObject, context: sc.ToolContext) -> sc.CallPreview:
        await trio.lowlevel.checkpoint()
        return sc.CallPreview(summary="a long one", displayed_text="\n".join(f"line {n}" for n in range(100)))


async def test_seeing_everything_before_the_answer() -> None:
    """`v` shows all of it and asks again; the answer then counts."""
    tool = Showing("danger", effects=["write"])
    provider = scripted.ScriptedProvider(scripted.tool_call("danger"), scripted.text("After."))
    keyboard, hand = os.pipe()
    os.write(hand, b"v\n")
    streams = StandardStreams(out=Paper(), err=Again(hand), keyboard=keyboard)
    async with open_checked_service(config(provider, tool)) as service:
        code = await converse(service, RunOptions(prompt="go"), streams, NoSignals())
    os.close(hand)
    os.close(keyboard)

    assert (0, 1) == (code, len(tool.calls))
    assert 1 == written(streams)[1].count("line 99\n")


class Again(Paper):
    """Paper whose reader says yes once everything was shown."""

    def __init__(self, hand: int) -> None:
        super().__init__()
        self._hand = hand

    async def write(self, data: str | bytes) -> None:
        await super().write(data)
        if isinstance(data, str) and "line 99\n" in data:
            os.write(self._hand, b"y\n")


async def test_a_helper_asks_at_the_top() -> None:
    """A call of a child session is asked for in the session that waits for it, and the answer reaches the child."""
    from session_core.tools.task import TaskTool

    tool = scripted.ScriptedTool("danger", effects=["write"])
    provider = scripted.ScriptedProvider(
        scripted.tool_call("task", {"title": "dig", "prompt": "dig here"}),
        scripted.tool_call("danger"),
        scripted.text("Dug."),
        scripted.text("All done."),
    )
    keyboard, hand = os.pipe()
    os.write(hand, b"y\n")
    streams = StandardStreams(out=Paper(), err=Paper(), keyboard=keyboard)
    async with open_checked_service(config(provider, tool, TaskTool())) as service:
        code = await converse(service, RunOptions(prompt="go"), streams, NoSignals())
    os.close(hand)
    os.close(keyboard)

    out, err = written(streams)
    assert (0, 1, "All done.\n") == (code, len(tool.calls), out)
    assert ' "dig" has begun\n' in err
    assert ' "dig" asks. Allow danger()?' in err
    assert ' "dig" · 2 steps\n' in err
