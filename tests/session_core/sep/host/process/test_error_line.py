"""What people read of a crash, among all that a program writes at its end: recorded outputs of node, Python and sh."""

import re
import shutil
import sys
from pathlib import Path

import pytest

from session_core.sep.host.process.error_line import find_error_line
from tests._needs import needs_node
from tests.session_core.sep._children import found_in, running

RECORDED = Path(__file__).parents[4] / "fixtures/last_words"
NO_PACKAGE = (
    "Error [ERR_MODULE_NOT_FOUND]: Cannot find package '@example/not-there' imported from /srv/tried/nomodule.mjs"
)
REJECTED = (
    "UnhandledPromiseRejection: This error originated either by throwing inside of an async function without a catch "
    "block, or by rejecting a promise which was not handled with .catch(). "
    'The promise rejected with the reason "just text".'
)
NODE = {
    "throw.mjs": "Error: the key is missing set WEATHER_KEY",
    "cause.mjs": "Error: the settings cannot be read",
    "reject.mjs": "TypeError: nothing came back",
    "rejecttext.mjs": REJECTED,
    "throwtext.mjs": "just text",
    "throwobj.mjs": "{ code: 5, what: 'thing' }",
    "nomodule.mjs": NO_PACKAGE,
    "norequire.cjs": "Error: Cannot find module './not-there'",
    "syntax.mjs": "SyntaxError: Unexpected identifier 'y'",
    "syntax.cjs": "SyntaxError: Unexpected identifier 'y'",
    "noexport.mjs": "SyntaxError: The requested module 'node:fs' does not provide an export named 'nothere'",
    "enoent.mjs": "Error: ENOENT: no such file or directory, open '/none'",
    "emitted.mjs": "Error: connect ECONNREFUSED 127.0.0.1:1",
    "aggregate.mjs": "AggregateError: both failed",
    "plain.mjs": "cannot find the key",
    "custom.mjs": "Oops [ConfigError]: bad",
    "typed.ts": "SyntaxError: Missing initializer in const declaration",
    "nofile.mjs": "Error: Cannot find module '/srv/tried/nofile.mjs'",
    "caught.mjs": "TypeError: no key is set",
    "made.mjs": "RangeError: made at run time",
    "prefixed.mjs": "fatal: Error: bad settings:",
    "memory": "FATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory",
    "option": "node: bad option: --nope",
}
PYTHON = {
    "raise.py": "ValueError: the key is missing set WEATHER_KEY",
    "cause.py": "RuntimeError: the settings cannot be read",
    "context.py": "RuntimeError: the settings cannot be read",
    "nomodule.py": "ModuleNotFoundError: No module named 'not_there_at_all'",
    "syntax.py": "SyntaxError: invalid syntax",
    "indent.py": "IndentationError: expected an indented block after function definition on line 1",
    "group.py": "ValueError: one (and 1 more)",
    "nursery.py": "ValueError: inside a task (and 1 more)",
    "exit.py": "no key is set",
    "note.py": "ValueError: bad set WEATHER_KEY",
    "thread.py": "ZeroDivisionError: division by zero",
    "warn.py": "KeyError: 'a'",
    "bare.py": "AssertionError",
    "segv.py": "Fatal Python error: Segmentation fault",
    "recursion.py": "RecursionError: maximum recursion depth exceeded",
    "interrupt.py": "KeyboardInterrupt",
    "usage.py": "usage.py: error: the following arguments are required: x",
    "finally.py": "ZeroDivisionError: division by zero",
    "atexit.py": "ValueError: real bye",
    "logged.py": "no paper",
    "nofile.py": "/usr/bin/python: can't open file '/srv/tried/nofile.py': [Errno 2] No such file or directory",
    "module": (
        "/usr/bin/python: Error while finding module specification for 'nothere.x' "
        "(ModuleNotFoundError: No module named 'nothere')"
    ),
}
SHELL = {
    "missing": "sh1.sh: 3: nothere_cmd: not found",
    "syntax": 'sh2.sh: 3: Syntax error: end of file unexpected (expecting "then")',
    "env": "env: \u2018nothere-node\u2019: No such file or directory",
}


def recorded(language: str) -> dict[str, list[str]]:
    _, *parts = re.split(r"^===== ", (RECORDED / f"{language}.txt").read_text(encoding="utf-8"), flags=re.MULTILINE)
    outputs = (part.splitlines() for part in parts)
    return {name: lines for name, *lines in outputs}


@pytest.mark.parametrize(("language", "expected"), [("node", NODE), ("python", PYTHON), ("shell", SHELL)])
def test_the_error_is_found(language: str, expected: dict[str, str]) -> None:
    """Of each recorded crash the error itself is found, not what the interpreter writes around it."""
    assert {name: find_error_line(lines) for name, lines in recorded(language).items()} == expected


@pytest.mark.parametrize("language", ["node", "python", "shell"])
def test_any_part_of_an_output_gives_a_line(language: str) -> None:
    """Whichever lines are left of an output, the result is one of its lines or made of them, and never an error."""
    for lines in recorded(language).values():
        for at in range(len(lines)):
            for part in (lines[at:], lines[:at]):
                said = find_error_line(part)
                assert "\n" not in said
                assert bool(said) == any(
                    line.strip() and not re.match(r"Node\.js v|\(Use `node ", line) for line in part
                )


@pytest.mark.parametrize("lines", [[], ["", "  "], ["Node.js v20.20.2"]])
def test_nothing_said_is_nothing(lines: list[str]) -> None:
    """Where a program says no reason, none is made up."""
    assert find_error_line(lines) == ""


def test_an_old_traceback_is_not_the_reason() -> None:
    """A program that logged an error and went on ends for another reason, which it says last."""
    logged = recorded("python")["cause.py"]
    assert find_error_line([*logged, *(f"request {number}" for number in range(20)), "no paper"]) == "no paper"


ENDED = "its process ended with exit status 1, before it was ready; it said: "
CASES = [
    pytest.param("node", "main.mjs", "throw new Error('no key is set')", "Error: no key is set", marks=needs_node),
    pytest.param(
        "node", "main.mjs", "const a = {b: 1 c: 2}", "SyntaxError: Unexpected identifier 'c'", marks=needs_node
    ),
    (sys.executable, "main.py", "import not_there_at_all", "ModuleNotFoundError: No module named 'not_there_at_all'"),
    (
        sys.executable,
        "main.py",
        "try:\n    {}['a']\nexcept KeyError as error:\n    raise ValueError('no key is set') from error\n",
        "ValueError: no key is set",
    ),
]


@pytest.mark.parametrize(("program", "file", "source", "expected"), CASES)
async def test_the_error_of_a_real_crash_is_told(
    tmp_path: Path, program: str, file: str, source: str, expected: str
) -> None:
    """The problem of an extension that crashes at its start ends with its error line, whatever follows it."""
    folder = tmp_path / "x"
    folder.mkdir()
    (folder / file).write_text(source)
    async with running(found_in(folder, shutil.which(program) or program, [file])) as (extension, host):
        await host.until(lambda: extension.state == "failed")
        assert extension.problem == ENDED + expected


@pytest.mark.parametrize(
    ("first_line", "why"),
    [
        ("", "it is not a program; a script begins with the one that runs it, such as #!/usr/bin/env node"),
        ("#!/nowhere/node\n", "the interpreter named in its first line is missing"),
    ],
)
async def test_a_script_that_nothing_runs_is_told(tmp_path: Path, first_line: str, why: str) -> None:
    """A script without a first line that names its interpreter, or with a missing one, says so in place of a code."""
    folder = tmp_path / "x"
    folder.mkdir()
    (folder / "main.mjs").write_text(f"{first_line}console.log('hello')\n")
    (folder / "main.mjs").chmod(0o755)
    async with running(found_in(folder, "./main.mjs", [])) as (extension, host):
        await host.until(lambda: extension.state == "failed")
        assert extension.problem == f"cannot run '{folder}/main.mjs': {why}"


async def test_a_missing_program_is_told(tmp_path: Path) -> None:
    """A program that is not on the PATH is named, and not tried again."""
    async with running(found_in(tmp_path / "x", "no-such-node", ["main.mjs"])) as (extension, _):
        assert (extension.state, extension.problem) == (
            "failed",
            "its command 'no-such-node' is missing: there is no such program on the PATH",
        )
