"""Whole checks of extensions that are well, that cannot be started, and that take too long."""

import os
import sys
from pathlib import Path

import pytest
import trio

from session_core.errors import InvalidInput
from session_core.sep.conformance.report import ConformanceReport, ConformanceStep
from session_core.sep.conformance.runner import check_extension
from tests._needs import needs_node
from tests.docs._documents import ROOT
from tests.session_core.sep._children import pids_with_argument
from tests.session_core.sep.conformance._broken import SUBJECTS, WHOLE, in_folder

PLAIN = (sys.executable, "-I", "-S")


def not_passed(report: ConformanceReport) -> list[tuple[str, str, str]]:
    return [(step.outcome, step.name, step.seen) for step in report.steps if step.outcome != "passed"]


async def test_a_whole_extension_passes(tmp_path: Path) -> None:
    """An extension that keeps to the protocol passes every step, each of which is told as it is done."""
    told: list[ConformanceStep] = []

    report = await check_extension(in_folder(tmp_path / "whole", WHOLE.read_text()), on_step=told.append)

    assert [] == not_passed(report)
    assert report.good
    assert told == list(report.steps)
    assert ("subject", "1.0", len(told)) == (report.name, report.version, report.counts["passed"])
    assert len({step.name for step in told}) == len(told)


async def test_a_command_line_can_be_checked(tmp_path: Path) -> None:
    """A bare command line is checked as a folder is, whatever its name; a tool that nobody described is a warning."""
    (tmp_path / "it.py").write_text(WHOLE.read_text().replace('"say it again"', '""'))

    report = await check_extension([*PLAIN, "it.py"], cwd=tmp_path)

    [(outcome, step, seen)] = not_passed(report)
    assert ("warned", "tool echo: its description") == (outcome, step)
    assert "give it a docstring, or description=" in seen
    assert ("subject", "1.0") == (report.name, report.version)
    assert "manifest" not in [step.name for step in report.steps]


async def test_the_example_passes() -> None:
    """The extension that the documents show keeps to the protocol."""
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}

    report = await check_extension(ROOT / "examples" / "hello_extension", environ=environ)

    assert [] == not_passed(report)


@needs_node
async def test_another_language_passes() -> None:
    """An extension for Node passes; what it does not offer is skipped."""
    report = await check_extension(["node", str(SUBJECTS / "subject.mjs")])

    assert ["commands", "while it waits"] == [name for outcome, name, _ in not_passed(report) if outcome == "skipped"]
    assert report.counts["passed"] == len(report.steps) - 2


async def test_it_gets_no_secrets(tmp_path: Path) -> None:
    """It is started with a scrubbed environment, and with an empty folder as its workspace that is gone afterwards."""
    note = tmp_path / "note"
    source = WHOLE.read_text().replace(
        "def decide(params: dict[str, Any]) -> dict[str, Any]:\n",
        "def decide(params: dict[str, Any]) -> dict[str, Any]:\n"
        f'    open({str(note)!r}, "w").write(str(__import__("os").environ.get("SECRET_KEY")))\n',
    )

    report = await check_extension(in_folder(tmp_path / "it", source), environ={**os.environ, "SECRET_KEY": "hush"})

    assert report.good
    assert "None" == note.read_text()


async def test_what_the_manifest_leaves_out_is_warned_of(tmp_path: Path) -> None:
    """What an extension registers or asks for and its manifest does not enable is a warning that says what to add."""
    folder = in_folder(tmp_path / "it", WHOLE.read_text())
    with (folder / "extension.toml").open("a") as manifest:
        manifest.write("[capabilities]\ntools = true\nproviders = true\nbus = true\n")

    report = await check_extension(folder)

    warnings = {step.name: step.seen for step in report.steps if step.outcome == "warned"}
    assert report.good
    assert "it registers commands, which its manifest does not enable" in warnings["handshake"]
    assert "add kv = true to [capabilities]" in warnings["messages"]


async def test_a_folder_without_a_manifest_fails(tmp_path: Path) -> None:
    """A folder whose manifest is missing or wrong is a failure that names the file, and nothing is started."""
    report = await check_extension(tmp_path)

    assert ["manifest"] == [step.name for step in report.failures] == [step.name for step in report.steps]
    assert "there is no extension.toml in this folder" in report.steps[0].seen


@pytest.mark.parametrize("words", [["no-such-program-anywhere"], ["./missing/it"]])
async def test_a_missing_program_fails(words: list[str], tmp_path: Path) -> None:
    """A program that is not there is a failure to start, in one sentence."""
    report = await check_extension(words, cwd=tmp_path)

    assert ["start"] == [step.name for step in report.failures]
    assert f"there is no program {words[0]!r}" in report.failures[0].seen


async def test_what_cannot_be_executed_fails(tmp_path: Path) -> None:
    """A file that the system cannot run is a failure to start, too."""
    (tmp_path / "it").write_text("#!/no/such/interpreter\n")
    (tmp_path / "it").chmod(0o755)

    report = await check_extension(["./it"], cwd=tmp_path)

    assert ["start"] == [step.name for step in report.failures]


async def test_nothing_to_check_is_refused() -> None:
    """An empty command line is a mistake of the caller's."""
    with pytest.raises(InvalidInput, match="there is nothing to check"):
        await check_extension([])


async def test_a_program_that_is_no_extension_fails_at_once() -> None:
    """A program that ends without an answer fails its handshake, with its last words, and the rest is skipped."""
    report = await check_extension([*PLAIN, "-c", "import sys; sys.exit('what is this?')"])

    assert ["handshake"] == [step.name for step in report.failures]
    assert "exit status 1" in report.failures[0].seen
    assert "what is this?" in report.failures[0].seen
    assert ("what is this?",) == report.stderr
    assert 1 == report.counts["failed"]
    assert 0 == report.counts["passed"]


async def test_time_is_bounded() -> None:
    """A check that takes too long is ended, and the report says so."""
    silent = "import sys\nfor line in sys.stdin: pass"

    report = await check_extension([*PLAIN, "-c", silent], total_seconds=0.3)

    assert ["time"] == [step.name for step in report.failures]
    assert "the check was ended after 0.3 s" in report.failures[0].seen


async def test_cancelling_leaves_no_process(tmp_path: Path) -> None:
    """A check that is cancelled in the middle has ended the whole process group when it lets go."""
    mark = f"1000.{os.getpid()}"
    source = f"import subprocess\nsubprocess.Popen(['sleep', {mark!r}])\n{WHOLE.read_text()}"
    alive: list[int] = []
    with trio.CancelScope() as scope:

        def stop(step: ConformanceStep) -> None:
            alive.extend(pids_with_argument(mark))
            if step.name == "ping":
                scope.cancel()

        await check_extension(in_folder(tmp_path / "it", source), on_step=stop)

    assert scope.cancelled_caught
    assert alive
    assert [] == pids_with_argument(mark)
