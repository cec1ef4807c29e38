"""Everything the documents invite people to run does what it says."""

import re
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import trio

from tests._mostly_slow import mostly_slow
from tests.docs._documents import ROOT, Block, blocks

EXAMPLES = sorted((ROOT / "examples").glob("*.py"))
PAGES = [blocks((ROOT / name).read_text(encoding="utf-8")) for name in ("README.md", "docs/python.md")]
PROGRAMS = [pair for page in PAGES for pair in pairwise(page) if "trio.run(" in pair[0].text]

EXPECTED = {
    "watch_and_stop": (
        r"watching 'watched'\n(?s:.*)\[background\] result: stopped; ended: turn\n(?s:.*)the watched turn completed\n"
        r"the stopped session kept its half answer, marked as interrupted: True\nwatched: idle\nbackground: stopped\n"
    ),
    "own_tool": (r"buy milk -> save_note: success\nthe password is 1234 -> save_note: denied\nnotes: \['buy milk'\]\n"),
    "agent_with_hooks": (
        r'tool_call: {"room":"bedroom"}\ntool_call: {"room":"kitchen"}\ntool_result: {"room":"kitchen"}\n'
        r'completed {"celsius":21}\n'
    ),
    "resume_after_lag": (
        r"first visit: +1 snapshot, 0 messages\nshort absence: +0 snapshots, 2 messages\n"
        r"long absence: +1 snapshot, because the cursor was: Resync\(reason='expired', missed=None\)\n"
        r"slow reader: +1 more, because: Resync\(reason='lagged', missed=\d+\)\n"
        r"what was followed equals a fresh look: True\n"
    ),
    "two_frontends": (
        r"slow frontend: missed \d+ events and was given a second snapshot\n"
        r"background: stopped; the 200 words it had said are kept\n"
        r"foreground: still streaming, the stop has not touched it\n"
        r"steady frontend: has needed no snapshot but its first\n"
        r"foreground: idle again, after 400 words\nboth frontends and a fresh snapshot say the same\n"
    ),
}


async def output_of(*arguments: str, cwd: Path) -> str:
    """What a Python program prints; it must end well and complain about nothing."""
    with trio.fail_after(120):
        done = await trio.run_process(
            [sys.executable, "-W", "error", *arguments], capture_stdout=True, capture_stderr=True, cwd=cwd
        )
    assert done.stderr.decode() == ""
    return done.stdout.decode()


@pytest.mark.parametrize("example", mostly_slow(EXAMPLES, quick=2), ids=lambda path: path.stem)
async def test_examples_run(example: Path, tmp_path: Path) -> None:
    """Every example runs from any folder and prints what it is there to show."""
    assert re.fullmatch(EXPECTED[example.stem], await output_of(str(example), cwd=tmp_path))


def test_examples_stay_small() -> None:
    """No example is longer than 130 lines."""
    assert [] == [path.name for path in EXAMPLES if len(path.read_text(encoding="utf-8").splitlines()) > 130]


@pytest.mark.parametrize(
    ("code", "output"), mostly_slow(PROGRAMS, quick=1), ids=lambda block: block.text.splitlines()[-1]
)
async def test_programs_on_the_first_pages_run(code: Block, output: Block, tmp_path: Path) -> None:
    """Every Python program of the README and of the page about Python runs and prints the text block below it."""
    assert (code.language, output.language) == ("python", "text")
    assert await output_of("-c", code.text, cwd=tmp_path) == output.text


def test_there_are_programs() -> None:
    """The first pages show how to start in Python."""
    assert len(PROGRAMS) >= 3
