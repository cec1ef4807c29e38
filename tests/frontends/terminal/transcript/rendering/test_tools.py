"""Cards of tool calls."""

from typing import Any

import attrs
import pytest

import session_core as sc
from frontends.shared.conversation.blocks import ToolBlock
from frontends.terminal.transcript.rendering.draw import changes_with_time
from session_core.vocabulary.messages import RefusedBy, ToolProgress
from tests.frontends.terminal._drawing import LOOK, NOW, call, draw, drawn, live, result

DIFF = """--- a/app.py
+++ b/app.py
@@ -8,4 +8,5 @@
 import os
-value = compute(1)
+value = compute(2)
+print(value)
 end
@@ -40,1 +41,1 @@
-old
+new
\\ No newline at end of file
"""


def header(block: ToolBlock, width: int = 70) -> str:
    """Return the first row of a card."""
    return drawn(block, width)[0]


@pytest.mark.parametrize(
    ("name", "arguments", "text", "said"),
    [
        ("read", {"path": "a.py"}, "1\n2\n3\n", "✓ read a.py · 3 lines"),
        ("read", {"path": "a.py", "first_line": 7}, "x\n[the file goes on]", "✓ read a.py · from line 7 · 1 line"),
        ("list", {}, "a\nb/", "✓ list . · 2 names"),
        ("list", {"path": "src"}, "(no files here)", "✓ list src · no names"),
        ("glob", {"pattern": "**/*.py"}, "a.py\nb.py", "✓ glob **/*.py · 2 files"),
        (
            "grep",
            {"pattern": "def", "path": "src"},
            "a.py\n  1: def x\n  9: def y",
            "✓ grep def · in src · 2 matching lines",
        ),
        ("grep", {"pattern": "zzz"}, "(nothing found)", "✓ grep zzz · nothing"),
        ("web_fetch", {"url": "https://x.y"}, "page", "✓ web_fetch https://x.y · 4 bytes"),
    ],
)
def test_looking_takes_one_row_that_says_what_was_found(
    name: str, arguments: dict[str, Any], text: str, said: str
) -> None:
    """Collapsed there is the header alone; expanded the text follows."""
    block = call(name, arguments, result(name, text))
    assert drawn(block, 70) == [said]
    assert drawn(block, 70, expanded=True)[-1].strip() == text.strip().split("\n")[-1].strip()


def test_a_change_is_a_diff_with_line_numbers() -> None:
    """Old and new lines have their numbers and marks, and what differs in them is stressed."""
    changed = result("edit", "done", added=3, removed=2, created=False, diff=DIFF)
    block = call("edit", {"path": "app.py"}, changed, took_ms=1_500)
    assert drawn(block) == [
        "✓ edit app.py · +3 -2 · 1.5 s",
        "   8   import os",
        "   9 - value = compute(1)",
        "   9 + value = compute(2)",
        "  10 + print(value)",
        "  11   end",
        "     …",
        "  40 - old",
        "  41 + new",
        "       no newline at end of file",
    ]
    rows = draw(
        call("edit", {}, result("edit", "", diff="@@ -1 +1 @@\n-a = f(1)\n+a = f(2)\n")),
        60,
        LOOK,
        expanded=False,
        now_ms=NOW,
    )
    stressed = [each.text for row in rows for each in row if each.style == LOOK.added + LOOK.changed]
    assert stressed == ["2"]


def test_a_long_diff_says_how_much_is_hidden() -> None:
    """In short there are its first lines; expanded there are all."""
    patch = "@@ -0,0 +1,100 @@\n" + "".join(f"+line {number}\n" for number in range(100))
    block = call("write", {"path": "x"}, result("write", "", added=100, removed=0, created=True, diff=patch))
    short = drawn(block)
    assert (short[0], len(short), short[-1]) == ("✓ write x · new, +100 -0", 16, "  … 86 more lines")
    assert len(drawn(block, expanded=True)) == 101


def test_a_running_command_shows_its_last_lines_without_its_colours() -> None:
    """Lines written over show their last state, colours of programs are gone, and the time goes on."""
    output = "".join(f"\x1b[32mline {number}\x1b[0m\n" for number in range(20)) + "load 1%\rload 80%"
    block = call("bash", {"command": "make", "network": True}, live=live("bash", output))
    assert drawn(block) == [
        "● bash make · with network · 12 s",
        "  … 16 more lines above",
        "  line 16",
        "  line 17",
        "  line 18",
        "  line 19",
        "  load 80%",
    ]
    assert changes_with_time(block)
    assert len(drawn(block, expanded=True)) == 23


def test_a_command_that_failed_says_how() -> None:
    """The exit code is in the header, in the style of failures, and not among the output."""
    output = "\n".join(f"out {number}" for number in range(30)) + "\n[exit code 2]"
    failed = result("bash", output, exit_code=2, timed_out=False)
    block = call("bash", {"command": "make\ntest"}, failed, took_ms=65_000)
    rows = drawn(block)
    assert rows[:3] == ["✗ bash make … · exit code 2 · 1 min 5 s", "  … 24 more lines above", "  out 24"]
    assert rows[-1] == "  out 29"
    assert drawn(block, expanded=True)[1:4] == ["  $ make", "    test", "  out 0"]
    late = result("bash", "x\n[ended after 5 seconds]", exit_code=-9, timed_out=True)
    assert header(call("bash", {"command": "x"}, late)) == "✗ bash x · ended at its time limit"


def test_long_lines_of_output_are_cut_in_short() -> None:
    """A line that is too long takes one row until the output is shown whole, so that ends of lines make no rows."""
    block = call("bash", {"command": "pytest"}, result("bash", "x" * 30 + " [ 14%]", exit_code=0))
    assert drawn(block, 34)[1:] == ["  " + "x" * 30 + " …"]
    assert drawn(block, 34, expanded=True)[2:] == ["  " + "x" * 30 + " [", "   14%]"]


def test_a_quiet_command_takes_one_row() -> None:
    """Without output there is nothing beneath its header."""
    block = call("bash", {"command": "true"}, result("bash", "(no output)\n[exit code 0]", exit_code=0))
    assert drawn(block) == ["✓ bash true"]


def test_a_command_without_a_sandbox_says_so() -> None:
    """What ran without a sandbox says so in its header, whether it went well or not."""
    ran = result("bash", "(no output)\n[exit code 0]", exit_code=0, unconfined=True)
    assert drawn(call("bash", {"command": "true"}, ran)) == ["✓ bash true · no sandbox"]
    failed = result("bash", "(no output)\n[exit code 1]", exit_code=1, unconfined=True)
    assert drawn(call("bash", {"command": "false"}, failed)) == ["✗ bash false · exit code 1 · no sandbox"]


def test_a_job_in_the_background_says_where_it_is() -> None:
    """The text tells its id, the header that it runs apart."""
    started = result("bash", "started in the background as job-1", job_id="job-1")
    rows = drawn(call("bash", {"command": "serve", "background": True}, started))
    assert rows == ["✓ bash serve · in the background", "  started in the background as job-1"]


@pytest.mark.parametrize(
    ("status", "text", "said"),
    [
        ("denied", "this was not allowed", ["■ bash rm · not allowed", "  this was not allowed"]),
        ("cancelled", "", ["■ bash rm · stopped"]),
        ("interrupted", "", ["■ bash rm · the service ended"]),
        ("error", "no such\nfolder", ["✗ bash rm · failed", "  no such", "  folder"]),
    ],
)
def test_what_did_not_happen_is_said_plainly(status: str, text: str, said: list[str]) -> None:
    """Refused, stopped and failed calls say so in words, and errors in full."""
    assert drawn(call("bash", {"command": "rm"}, result("bash", text, status))) == said


@pytest.mark.parametrize(
    ("by", "reason", "said"),
    [
        ("person", "", []),
        ("person", "not that one", ["  The user says: not that one"]),
        ("nobody", "", ["  Nobody has answered."]),
        ("rule", "a rule says no", ["  a rule says no"]),
        ("mode", "this session is read-only", ["  this session is read-only"]),
        ("extension", "gate: no", ["  Blocked by an extension: gate: no"]),
    ],
)
def test_a_refusal_is_explained(by: RefusedBy, reason: str, said: list[str]) -> None:
    """A refused call says who refused it and why, and nothing of what the model was told."""
    refused = attrs.evolve(result("bash", "do not try again", "denied"), refusal=sc.Refusal(by=by, reason=reason))
    assert drawn(call("bash", {"command": "rm"}, refused)) == ["■ bash rm · not allowed", *said]


def test_a_call_says_what_it_waits_for() -> None:
    """Before it runs it waits, for its turn or for a yes; its arguments are shown as they are written."""
    assert drawn(call("bash", {"command": "ls"})) == ["○ bash ls · waits"]
    assert drawn(call("bash", {"command": "ls"}, asked=True)) == ["? bash ls · waits for your approval"]
    writing = ToolBlock(key="k", name="write", writing='{"path": "a\\"b.py", "content": "x\\ny\\n')
    assert drawn(writing) == ['● write a"b.py · 2 lines', "  y", "  "]
    begun = ToolBlock(key="k", name="bash", writing='{"comm')
    assert drawn(begun) == ["● bash · writing"]


def test_a_helper_tells_its_title_and_the_beginning_of_its_answer() -> None:
    """Expanded, what it was asked and its whole answer are there."""
    answer = "Found **three**:\n- a\n- b\n- c\n\nDone."
    block = call("task", {"title": "look", "prompt": "Find all"}, result("task", answer, session_id="s", steps=4))
    assert drawn(block) == ["✓ task look · 4 steps", "  Found three:", "  ", "  • a", "  • b", "  … 3 more lines"]
    assert drawn(block, expanded=True)[1:3] == ["  Find all", "  Found three:"]
    assert drawn(block, expanded=True)[-1] == "  Done."


def test_a_plan_is_told_in_one_row_and_expanded_step_by_step() -> None:
    """Each step has a symbol for how far it is."""
    items = [{"text": "one", "status": "done"}, {"text": "two", "status": "in_progress"}, {"text": "three"}]
    block = call("plan", {"items": items}, result("plan", "the plan has 3 steps: 1 done, 1 in progress, 1 pending"))
    assert drawn(block, 80) == ["✓ plan · 3 steps: 1 done, 1 in progress, 1 pending"]
    assert drawn(block, 80, expanded=True)[1:] == ["  ✓ one", "  ● two", "  ○ three"]


def test_a_tool_that_nobody_knows_shows_its_arguments_when_expanded() -> None:
    """In short the likeliest argument and the first lines of the answer are there."""
    arguments = {"limit": 3, "query": "select 1", "body": "a\nb", "deep": {"x": [1, {}]}}
    block = call("db__query", arguments, result("db__query", "\n".join("123456")))
    assert drawn(block) == ["✓ db__query select 1", "  1", "  2", "  3", "  4", "  … 2 more lines"]
    whole = drawn(block, expanded=True)
    assert whole[1:6] == ["  limit: 3", "  query: select 1", "  body:", "    a", "    b"]
    assert header(call("db__drop", {"n": 1, "all": True, "x": None, "l": [1]}, None)) == (
        "○ db__drop n=1, all=true, x=null, l=1 item · waits"
    )


def test_arguments_that_are_nested_too_deeply_say_so() -> None:
    """They are not drawn, and nothing overflows."""
    deep: Any = ()
    for _ in range(3_000):
        deep = (deep,)
    arguments = object.__new__(sc.JsonObject)
    arguments._items, arguments._hash, arguments.strict_depth = {"x": deep}, None, None
    block = ToolBlock(key="k", name="odd", arguments=arguments)
    assert drawn(block, expanded=True)[1] == "  x: (nested too deeply to be shown)"


def test_pictures_are_counted_and_measured() -> None:
    """A picture is a line, as it cannot be drawn."""
    picture = sc.ImagePart(media_type="image/png", data="A" * 4_000)
    given = sc.ToolResultPart(call_id=sc.CallId("c"), name="read", status="success", text="x", images=(picture,))
    assert drawn(call("read", {"path": "a.png"}, given))[-1] == "  (PNG image, 3.0 KB)"


def test_a_long_subject_leaves_room_for_how_it_ended() -> None:
    """The header is one row, and its end is not cut away by its beginning."""
    block = call("bash", {"command": "echo " + "x" * 300}, result("bash", "", exit_code=3))
    assert header(block, 40) == "✗ bash echo xxxxxxxxxxxxx… · exit code 3"


def test_progress_is_told() -> None:
    """What a tool says of itself stands in its header, with how far it is."""
    for share, said in ((0.5, " · 50%"), (7.0, " · 100%"), (float("nan"), ""), (None, "")):
        running = live("x", progress=ToolProgress(message="half\nway", progress=share))
        assert header(call("x", {}, None, live=running)) == f"● x · half way{said} · 12 s"
