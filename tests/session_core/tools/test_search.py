"""Searching: both engines say the same, no pattern holds anybody up, and nothing outside is seen."""

import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trio.testing import MockClock

from session_core.limits import MAX_TOOL_OUTPUT_CHARS
from session_core.processes.child import Child, Launch
from session_core.processes.run import ProcessOutcome, run_in_group
from session_core.tools import search
from session_core.tools.base import ToolFailed
from session_core.tools.command_confinement import ConfinedReading, confine_reading
from session_core.tools.search import Engine, GrepTool
from session_core.tools.search_results import SearchResults
from session_core.tools.text_files import MAX_FILE_BYTES
from tests._needs import needs_ripgrep, needs_sandbox
from tests.session_core.tools._running import answer, refusal, run

ENGINES: list[Any] = [pytest.param("ripgrep", marks=needs_ripgrep), "own"]
TEXT = "alpha\nbeta\ngamma beta\ndelta\nBETA\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A folder with all kinds of files, and a secret beside it."""
    folder = tmp_path / "root"
    (folder / "src").mkdir(parents=True)
    (folder / "build").mkdir()
    (folder / "a.txt").write_text(TEXT, encoding="utf-8")
    (folder / "src" / "crlf.c").write_bytes(b"one beta\r\ntwo\r\n")
    (folder / "src" / "bom.py").write_bytes(b"\xef\xbb\xbfbeta = 1\n")
    (folder / "src" / "wide.txt").write_bytes("beta wide\n".encode("utf-16"))
    (folder / "bin").write_bytes(b"beta\n" + b"x" * 100_000 + b"\0beta\n")
    (folder / "build" / "out").write_text("beta\n", encoding="utf-8")
    (folder / ".hidden").write_text("beta hidden\n", encoding="utf-8")
    (folder / ".gitignore").write_text("/build\n", encoding="utf-8")
    (folder / "-").write_text("beta dash\n", encoding="utf-8")
    (folder / "--files").write_text("beta option\n", encoding="utf-8")
    (folder / "up").symlink_to("..")
    (tmp_path / "secret.txt").write_text("beta secret", encoding="utf-8")
    return folder


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_search(root: Path, engine: Engine) -> None:
    """Lines that fit come by file, with their numbers; ignored, binary and foreign files are left out."""
    assert [
        "-",
        "  1: beta dash",
        "--files",
        "  1: beta option",
        ".hidden",
        "  1: beta hidden",
        "a.txt",
        "  2: beta",
        "  3: gamma beta",
        "src/bom.py",
        "  1: beta = 1",
        "src/crlf.c",
        "  1: one beta",
        "src/wide.txt",
        "  1: beta wide",
    ] == (await answer(GrepTool(engine), root, pattern="beta")).split("\n")


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"pattern": "^beta$", "path": "a.txt"}, "a.txt\n  2: beta"),
        ({"pattern": "beta$", "path": "src", "include": "*.c"}, "src/crlf.c\n  1: one beta"),
        ({"pattern": "^beta =", "path": "src"}, "src/bom.py\n  1: beta = 1"),
        ({"pattern": "^BETA", "path": "a.txt"}, "a.txt\n  5: BETA"),
        ({"pattern": "^bETA$", "path": "a.txt", "ignore_case": True}, "a.txt\n  2: beta\n  5: BETA"),
        ({"pattern": "a = ", "literal": True, "path": "src"}, "src/bom.py\n  1: beta = 1"),
        ({"pattern": "b.ta", "literal": True}, "(nothing found)"),
        ({"pattern": "-beta"}, "(nothing found)"),
        ({"pattern": "beta", "show": "files", "path": "src"}, "src/bom.py\nsrc/crlf.c\nsrc/wide.txt"),
        ({"pattern": "beta", "show": "counts", "path": "a.txt"}, "a.txt: 2 lines"),
        ({"pattern": "alpha|delta", "context": 1, "path": "a.txt"},
         "a.txt\n  1: alpha\n  2- beta\n  3- gamma beta\n  4: delta\n  5- BETA"),
        ({"pattern": "alpha|BETA", "context": 1, "path": "a.txt"},
         "a.txt\n  1: alpha\n  2- beta\n  --\n  4- delta\n  5: BETA"),
        ({"pattern": "gam(?=ma)", "path": "a.txt"}, "a.txt\n  3: gamma beta"),
        ({"pattern": r"(a)l\w*\1", "path": "a.txt"}, "a.txt\n  1: alpha"),
        ({"pattern": "a", "limit": 2, "path": "a.txt"},
         "a.txt\n  1: alpha\n  2: beta\n[there are more than 2 lines; narrow the search, or raise the limit]"),
        ({"pattern": "beta", "limit": 1, "show": "files", "path": "src"},
         "src/bom.py\n[there are more than 1 files; narrow the search, or raise the limit]"),
    ],
)  # fmt: skip
async def test_ways_to_search(root: Path, engine: Engine, arguments: dict[str, Any], expected: str) -> None:
    """Every argument does the same with both engines; patterns ripgrep does not know are searched by our own."""
    assert expected == await answer(GrepTool(engine), root, **arguments)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("pattern", ["(", "[z-a]", "a{2,1}", "*"])
async def test_a_pattern_that_is_none(root: Path, engine: Engine, pattern: str) -> None:
    """A broken pattern is refused with a sentence that says so."""
    assert "the pattern is not a valid regular expression: " in await refusal(GrepTool(engine), root, pattern=pattern)


@needs_ripgrep
@settings(suppress_health_check=[*settings().suppress_health_check, HealthCheck.too_slow], max_examples=25)
@given(
    files=st.lists(st.lists(st.text("abAB .(\t\r€é", max_size=8), max_size=6).map("\n".join), min_size=1, max_size=3),
    pattern=st.sampled_from(["a", "^a", "b$", "[ab]+ ", r"\bé", "A|€", r"a.b", r"\s$", "x*", r"\.", "(a)(b)?"]),
    ignore_case=st.booleans(),
    context=st.integers(0, 2),
    rand=st.random_module(),
)
async def test_both_engines_agree(
    files: list[str], pattern: str, *, ignore_case: bool, context: int, rand: object,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:  # fmt: skip
    """Whatever is in the files, both engines find the same lines."""
    folder = tmp_path_factory.mktemp("engines")
    for number, text in enumerate(files):
        (folder / f"{number}.txt").write_bytes(text.replace("\r", "").encode())
    asked = {"pattern": pattern, "ignore_case": ignore_case, "context": context}

    assert await answer(GrepTool("own"), folder, **asked) == await answer(GrepTool("ripgrep"), folder, **asked)


async def test_a_pattern_without_end_is_ended(
    root: Path, mock_clock: MockClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pattern that takes for ever is stopped at the time limit, with its process, and what was found is shown."""
    mock_clock.rate = 0.01  # on busy cores it takes a while to get as far as that pattern

    async def run_out_of_time(launch: Launch, *, on_output: Callable[[str], None], **more: Any) -> ProcessOutcome:
        def hear(piece: str) -> None:
            on_output(piece)
            mock_clock.rate = 1
            mock_clock.jump(search.SEARCH_SECONDS)

        return await run_in_group(launch, on_output=hear, **more)

    monkeypatch.setattr(search, "run_in_group", run_out_of_time)
    (root / "z").write_text("a" * 60 + "!\n", encoding="utf-8")

    text = await answer(GrepTool("own"), root, pattern="^(a+)+$|alpha")

    assert "a.txt\n  1: alpha\n[stopped after 20 seconds; search in fewer files or for a simpler pattern]" == text


@needs_sandbox
async def test_a_socket_that_is_gone_at_the_start_fails_no_search(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A socket that vanishes after the sandbox was planned, and before it is made, does not keep it from searching."""

    async def confine_late(*arguments: Any) -> ConfinedReading:
        confined = await confine_reading(*arguments)
        assert confined.plan is not None
        hidden = (*confined.plan.hidden_files, str(root / "gone"))
        return attrs.evolve(confined, plan=attrs.evolve(confined.plan, hidden_files=hidden))

    monkeypatch.setattr(search, "confine_reading", confine_late)

    assert "a.txt\n  1: alpha" == await answer(GrepTool(), root, pattern="alpha")


@pytest.mark.skipif(not Path("/proc/self/cwd").exists(), reason="only Linux tells where processes work")
async def test_a_stop_ends_the_process(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cancelled search has no process left when it lets go."""
    scope = trio.CancelScope()
    at_work = list[str]()

    def stop(_: Child) -> None:
        at_work.extend(processes_in(root))
        scope.cancel()

    monkeypatch.setattr(search, "run_in_group", partial(run_in_group, on_start=stop))
    (root / "z").write_text("a" * 60 + "!\n", encoding="utf-8")
    with scope:
        await run(GrepTool("own"), root, pattern="^(a+)+$")

    assert scope.cancelled_caught
    assert at_work
    assert [] == processes_in(root)


def processes_in(folder: Path) -> list[str]:
    """Which processes work in this folder."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (process / "cwd").readlink() == folder:
                found.append(process.name)
    return found


@pytest.mark.parametrize("engine", ENGINES)
async def test_answers_are_bounded(root: Path, engine: Engine) -> None:
    """Long lines are cut, and an answer never exceeds its bound by more than its remarks."""
    (root / "long").write_text(("beta" + "x" * 3_000 + "\n") * 1_500, encoding="utf-8")

    text = await answer(GrepTool(engine), root, path="long", pattern="beta", limit=2_000)

    assert "... [cut: 3,004 characters]" in text
    assert len(text) <= MAX_TOOL_OUTPUT_CHARS + 1_000


@pytest.mark.parametrize("engine", ENGINES)
async def test_a_line_of_megabytes_is_counted_not_shown(root: Path, engine: Engine) -> None:
    """A match in a monstrous line is told and not kept in memory."""
    (root / "long").write_text("beta" + "x" * 3_000_000 + "\nbeta\n", encoding="utf-8")

    assert "long\n  2: beta\n[1 very long lines are not shown]" == await answer(
        GrepTool(engine), root, path="long", pattern="beta"
    )


@pytest.mark.parametrize("engine", ENGINES)
async def test_large_files_are_left_out(root: Path, engine: Engine) -> None:
    """A file beyond the bound is passed over, and refused when it is asked for by name."""
    with (root / "huge").open("wb") as file:
        file.write(b"unique\n")
        file.truncate(MAX_FILE_BYTES + 1)

    assert "(nothing found)" == await answer(GrepTool(engine), root, pattern="unique")
    assert "'huge' is too large to search" in await refusal(GrepTool(engine), root, path="huge", pattern="unique")


@pytest.mark.parametrize("engine", ENGINES)
async def test_many_files_are_searched_by_several_programs(
    root: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Files that do not fit on one command line are searched in batches, none left out."""
    monkeypatch.setattr(search, "_MAX_ARGUMENT_BYTES", 60)

    assert 8 == (await answer(GrepTool(engine), root, pattern="beta")).count(": ")
    monkeypatch.setattr(search, "MAX_SEARCHED_FILES", 2)
    assert "[only 2 files were searched; name a folder further down]" in await answer(
        GrepTool(engine), root, pattern="beta"
    )


@pytest.mark.parametrize("engine", ENGINES)
async def test_strange_names_are_harmless(root: Path, engine: Engine) -> None:
    """Names with control characters, line ends or bytes that are no text are searched and shown safely."""
    for name in (b"a\x1b[2J\nb", b"bad\xff"):
        (root / "src" / os.fsdecode(name)).write_text("zeta\n", encoding="utf-8")

    text = await answer(GrepTool(engine), root, path="src", pattern="zeta")

    assert "src/a\ufffd[2J\ufffdb\n  1: zeta\nsrc/bad\ufffd\n  1: zeta" == text


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "the argument 'pattern' is missing"),
        ({"pattern": ""}, "the argument 'pattern' must have 1 to"),
        ({"pattern": "a\nb"}, "for one line at a time"),
        ({"pattern": "x" * 10_001}, "the argument 'pattern' must have 1 to"),
        ({"pattern": "a", "show": "all"}, "the argument 'show' must be one of lines, files, counts"),
        ({"pattern": "a", "context": -1}, "the argument 'context' must be a whole number of at least 0"),
        ({"pattern": "a", "include": "../*"}, "the argument 'include'"),
        ({"pattern": "a", "path": "gone"}, "there is no 'gone' in the working folder"),
        ({"pattern": "a", "path": "up"}, "leads outside of the folders that tools may use"),
        ({"pattern": "a", "path": "up/secret.txt"}, "leads outside of the folders that tools may use"),
        ({"pattern": "a", "path": "../secret.txt"}, "outside of the folders that tools may use"),
        ({"pattern": "a", "regex": True}, "grep has no argument 'regex'"),
    ],
)
async def test_bad_arguments_are_named(root: Path, arguments: dict[str, Any], said: str) -> None:
    """An argument that is missing, unknown or wrong is named, and ways out are refused."""
    assert said in await refusal(GrepTool(), root, **arguments)


async def test_a_program_from_the_project_is_not_run(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program called rg inside the folder is a file to be searched, not one to be run."""
    (root / "rg").write_text("#!/bin/sh\ntouch ran\n", encoding="utf-8")
    (root / "rg").chmod(0o755)
    monkeypatch.setenv("PATH", str(root))

    assert "rg\n  2: touch ran" == await answer(GrepTool(), root, pattern="touch")
    assert not (root / "ran").exists()
    with pytest.raises(ToolFailed, match="not installed"):
        await run(GrepTool("ripgrep"), root, pattern="touch")


@given(cuts=st.lists(st.integers(0, 400), max_size=8))
def test_output_may_come_in_any_pieces(cuts: list[int]) -> None:
    """Where the output is cut on its way to us does not matter, nor do complaints in between."""
    line = '{"type":"match","data":{"path":{"text":"./a"},"lines":{"text":"x\\n"},"line_number":%d}}\n'
    text = "rg: oops\n" + line % 1 + line % 2 + '{"type":"end","data":{"binary_offset":null}}\nnull\n[]\n'
    results = SearchResults("lines", limit=9, when_full=lambda: None)
    places = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    for start, stop in zip(places, [*places[1:], len(text)], strict=True):
        results.feed(text[start:stop])

    [file] = results.files
    assert ("a", [1, 2], 2) == (file.path, [line.number for line in file.lines], file.matches)
