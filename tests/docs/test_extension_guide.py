"""The guide to writing extensions shows code that works."""

import inspect
import re
import sys
from pathlib import Path

import trio

from session_core.sep.protocol.names import FAIL_CLOSED, HOOKS
from session_core.sep.sdk import Extension
from session_core.sep.sdk.extension import KNOWN_EVENTS
from session_core.sep.sdk.testing import TestHost
from tests.docs._documents import ROOT, blocks


async def test_the_guide_shows_a_real_extension(tmp_path: Path) -> None:
    """The extension and the test that the guide shows, put into two files, pass."""
    page = (ROOT / "docs" / "extensions.md").read_text(encoding="utf-8")
    extension, test = (block.text for block in blocks(page) if block.language == "python")
    (tmp_path / "words.py").write_text(extension, encoding="utf-8")
    (tmp_path / "test_words.py").write_text(test, encoding="utf-8")
    run = "import test_words; test_words.test_it_counts_and_keeps(); print('passed')"

    done = await trio.run_process(
        [sys.executable, "-c", run],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_stdout=True,
        capture_stderr=True,
        check=False,
    )

    assert ("passed\n", 0) == (done.stdout.decode(), done.returncode), done.stderr.decode()


def rows(heading: str) -> list[list[str]]:
    """Return the cells of the table beneath a heading, without its own headings."""
    page = (ROOT / "docs" / "extensions.md").read_text(encoding="utf-8")
    table = page.partition(f"### {heading}\n")[2].partition("\n###")[0]
    lines = [line for line in table.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_every_hook_and_event_is_there() -> None:
    """The guide lists every hook, with those that fail closed, and every event, once each and no other."""
    hooks = {cells[0].strip("`"): cells[-1] for cells in rows("Hooks")}
    assert {hook: "counts as a refusal" if hook in FAIL_CLOSED else "goes on" for hook in HOOKS} == hooks
    events = [name for cells in rows("Events") for name in re.findall(r"`([^`]+)`", cells[0])]
    assert sorted(KNOWN_EVENTS) == sorted(events)


def test_the_names_of_the_sdk_are_there() -> None:
    """Whatever an extension and its tests can call is in the tables of the guide."""
    registered = " ".join(cells[0] for cells in rows("What can be registered"))
    tested = " ".join(cells[0] for cells in rows("Testing one"))
    for cls, told in ((Extension, registered), (TestHost, tested)):
        public = {name for name, _ in inspect.getmembers(cls, inspect.isfunction) if not name.startswith("_")}
        assert {"serve", "run"} & public == {name for name in public if not re.search(rf"\b{name}\b", told)}
