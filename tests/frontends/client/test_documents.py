"""The page about the client shows code that works."""

import inspect
import os
import sys
from itertools import pairwise
from pathlib import Path

import pytest
import trio

from frontends.client import open_client
from tests._mostly_slow import mostly_slow
from tests.docs._documents import ROOT, Block, blocks
from tests.frontends.client._real import real_server

PAGE = (ROOT / "docs" / "client.md").read_text(encoding="utf-8")
SNIPPETS = [(code, output) for code, output in pairwise(blocks(PAGE)) if code.language == "python"]


@pytest.mark.parametrize(("code", "output"), mostly_slow(SNIPPETS, quick=1), ids=["script", "loop"])
async def test_the_examples_run(code: Block, output: Block, tmp_path: Path) -> None:
    """Every example runs as it stands beside a running server, and prints the text below it."""
    with real_server(tmp_path), trio.fail_after(300):
        done = await trio.run_process(
            [sys.executable, "-W", "error", "-c", code.text],
            env={**os.environ, "SESSION_CORE_HOME": str(tmp_path), "PYTHONPATH": str(ROOT)},
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
    assert (output.text, "", 0) == (done.stdout.decode(), done.stderr.decode(), done.returncode)


def test_the_arguments_are_told() -> None:
    """The page names every argument of `open_client`, but the one for tests."""
    table = "".join(line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `"))
    assert {"pause_before"} == {name for name in inspect.signature(open_client).parameters if f"`{name}`" not in table}
