"""The real program in a real process: what users and scripts see of it."""

import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import trio

import session_core as sc
from frontends import entry
from frontends.arguments import parser
from tests._mostly_slow import mostly_slow
from tests.frontends._kept import keep
from tests.frontends._program import PROGRAM, ROOT, Ended, environment, interrupted_at, program

NOTICE = "The offline demo model (demo) answers"


async def test_run_answers() -> None:
    """`run` prints the answer on stdout, says on stderr who answers and how it ended, and exits with 0."""
    ended = await program("run", "count to 3")

    assert (0, "1 2 3 Done.\n") == (ended.code, ended.out)
    assert ended.err.startswith(NOTICE)
    assert "✓ completed in" in ended.err
    assert "\x1b" not in ended.out + ended.err


@pytest.mark.slow
async def test_run_works_in_the_directory_it_was_given(tmp_path: Path) -> None:
    """`--cwd` decides which files the tools see."""
    (tmp_path / "only-here.txt").write_text("x", encoding="utf-8")
    ended = await program("run", "--cwd", str(tmp_path), "list the files")

    assert 0 == ended.code
    assert "only-here.txt" in ended.out
    assert "✓ list_files . · " in ended.err


@pytest.mark.slow
async def test_json_lines() -> None:
    """With --json each line of stdout is a snapshot or an event, and folding them gives a completed turn."""
    ended = await program("run", "--json", "count to 3")
    first, *rest = ended.out.splitlines()
    snapshot = sc.wire.decode(first, sc.SessionSnapshot)
    final = sc.fold(snapshot, [sc.wire.decode(line, sc.SessionEvent) for line in rest])

    assert 0 == ended.code
    assert final.last_outcome is not None
    assert ("completed", "1 2 3 Done.") == (final.last_outcome.status, final.last_outcome.final_text)
    assert NOTICE in ended.err


@pytest.mark.slow
async def test_the_prompt_from_stdin() -> None:
    """`-` takes the prompt from stdin, and what it holds cannot steer the terminal."""
    ended = await program("run", "--quiet", "-", stdin=b"say \x1b[31mred\x1b]0;title\x07 \xe2\x80\xae")

    assert (0, "") == (ended.code, ended.err)
    assert 'You said "say red <U+202E>".' in ended.out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    mostly_slow(
        [
            ((), "this needs a terminal; to work without one: session-core run"),
            (("terminal", "--session", "x", "--model", "m"), "--model, --permissions and --sandbox are for new"),
            (("walk",), "argument command: invalid choice: 'walk'"),
            (("run",), "stdin was empty, and there is no other prompt (see: session-core run --help)"),
            (("run", "--bogus", "hi"), "unrecognized arguments: --bogus (see: session-core run --help)"),
            (("token", "list", "--bogus"), "unrecognized arguments: --bogus (see: session-core token list --help)"),
            (("run", "hello", "world"), "unrecognized arguments: world; put the prompt in quotes"),
            (("--home", "x", "sessions"), "--home goes after the command, as in: session-core sessions --home DIR"),
            (("run", ""), "the prompt is empty"),
            (("run", " \n"), "the prompt is empty"),
            (("run", "-"), "stdin was empty, and there is no other prompt (see: session-core run --help)"),
            (("sessions", "--home", ""), "--home is empty"),
            (("run", "--cwd", "/no/such/place", "hi"), "--cwd: there is no '/no/such/place'"),
            (("run", "--cwd", "pyproject.toml", "hi"), "--cwd: 'pyproject.toml' is not a folder"),
            (("run", "--json", "--quiet", "hi"), "--json and --quiet exclude each other"),
            (("run", "--yes", "--approve", "never", "hi"), "argument --approve: not allowed with argument --yes"),
            (
                ("run", "--approve", "rules", "--permissions", "full", "hi"),
                "--approve rules lets only rules allow a change",
            ),
            (("run", "--approve", "maybe", "hi"), "argument --approve: invalid choice: 'maybe'"),
            (("run", "--permissions", "all", "hi"), "argument --permissions: invalid choice: 'all'"),
            (("run", "--continue", "--file", "x"), "--file and --output-schema need a prompt"),
            (
                ("run", "--file", "no-such-file", "hi"),
                "--file: 'no-such-file' cannot be read: No such file or directory",
            ),
        ],
        quick=7,
    ),
)
async def test_wrong_usage(arguments: tuple[str, ...], sentence: str) -> None:
    """Wrong usage is one clear line on stderr and exit code 2."""
    ended = await program(*arguments)

    assert (2, "", 1) == (ended.code, ended.out, ended.err.count("\n"))
    assert ended.err.startswith(f"session-core: {sentence}")


@pytest.mark.slow
async def test_an_unknown_model(home: Path) -> None:
    """A model that does not exist, or has no key, is refused with what to do, and nothing is kept of the attempt."""
    assert Ended(
        2, "", "session-core: there is no model called 'gpt'; see: session-core models --all\n"
    ) == await program("run", "--model", "gpt", "hi")
    ended = await program("run", "--model", "opus", "hi")
    assert (2, "") == (ended.code, ended.out)
    assert ended.err.endswith("cannot be used: set ANTHROPIC_API_KEY\n")
    assert not await trio.Path(home).exists()


@pytest.mark.slow
async def test_a_failed_turn() -> None:
    """A turn that fails is exit code 1 with the reason on stderr."""
    ended = await program("run", "fail for good")

    assert (1, "") == (ended.code, ended.out)
    assert "✗ failed after" in ended.err
    assert "fail for good, and it does" in ended.err


@pytest.mark.slow
async def test_consent_needs_a_terminal() -> None:
    """Without a terminal a tool that needs a yes is denied and the way out is named; --yes allows it."""
    denied = await program("run", "--permissions", "ask_all", "list the files")
    allowed = await program("run", "--permissions", "ask_all", "--yes", "list the files")

    assert (3, 0) == (denied.code, allowed.code)
    assert "no terminal to ask on: denied. Use --yes" in denied.err
    assert "list_files found" in allowed.out


@pytest.mark.slow
async def test_ctrl_c_keeps_the_partial_answer() -> None:
    """Ctrl-C stops the turn, keeps what was said, says so, and exits with 130."""
    ended = await interrupted_at("3 ", "run", "count to 1000")

    assert 130 == ended.code
    assert ended.out.startswith("1 2 3 ")
    assert "Done" not in ended.out
    assert "■ stopped after" in ended.err
    assert "the partial answer was kept" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.slow
@pytest.mark.parametrize(
    "arguments",
    mostly_slow([(("run", "count to 1000"),), (("run", "--json", "count to 1000"),), (("demo",),)], quick=1),
)
async def test_a_reader_that_leaves(arguments: tuple[str, ...]) -> None:
    """When the reader of stdout leaves, the program ends soon and without complaint."""
    with trio.fail_after(120):
        process = await trio.lowlevel.open_process(
            [*PROGRAM, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            env=environment(),
        )
        assert process.stdout is not None
        assert process.stderr is not None
        assert await process.stdout.receive_some(10)
        await process.stdout.aclose()
        err = b"".join([chunk async for chunk in process.stderr]).decode()
        code = await process.wait()

    assert 128 + signal.SIGPIPE == code
    assert "rror" not in err
    assert "Traceback" not in err


async def test_help_to_a_reader_that_left() -> None:
    """Help that nobody reads any more causes no complaint either."""
    script = f"{shlex.quote(sys.executable)} -m frontends.entry --help | true"
    with trio.fail_after(120):
        done = await trio.run_process(["sh", "-c", script], capture_stderr=True, cwd=ROOT, env=environment())

    assert b"" == done.stderr


@pytest.mark.slow
async def test_a_full_disk() -> None:
    """Output that cannot be written is one line with the system's reason, and exit code 1."""
    script = f"{shlex.quote(sys.executable)} -m frontends.entry run --quiet hello > /dev/full"
    with trio.fail_after(120):
        done = await trio.run_process(
            ["sh", "-c", script], capture_stderr=True, check=False, cwd=ROOT, env=environment()
        )

    assert (1, b"session-core: the output could not be written: No space left on device\n") == (
        done.returncode,
        done.stderr,
    )


async def test_help_and_version() -> None:
    """Help shows examples and exit codes, and the version is one line."""
    shown, version = await program("--help"), await program("--version")

    assert 0 == shown.code
    assert "examples:" in shown.out
    assert "exit codes:" in shown.out
    assert Ended(0, f"session-core {sc.__version__}\n", "") == version


COMMANDS = [
    *("run", "sessions", "show", "rename", "archive", "restore", "delete", "fork", "undo", "export", "import", "store"),
    *("config", "models", "mcp", "trust", "demo"),
    *(f"config {task}" for task in ("show", "check", "path")),
    *(f"store {task}" for task in ("verify", "rebuild", "compact", "stats", "backup")),
]


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_fits_a_terminal(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No line of any help is wider than 80 columns."""
    monkeypatch.setenv("COLUMNS", "80")
    entry.main([*command.split(), "--help"])

    assert [] == [line for line in capsys.readouterr().out.splitlines() if len(line) > 80]


@pytest.mark.parametrize("command", COMMANDS)
def test_help_for_every_command(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Every command explains itself, with examples unless it is as plain as a task of `store`, and where it keeps."""
    code = entry.main([*command.split(), "--help"])
    shown = capsys.readouterr().out

    assert 0 == code
    assert shown.startswith(f"usage: session-core {command} ")
    assert ("examples:" in shown) == (command != "demo" and " " not in command)
    assert ("--home DIR" in shown) == (command not in {"demo", "store", "config"})


@pytest.mark.parametrize(
    "command",
    [
        *(
            "run hi",
            "sessions",
            "show x",
            "rename x y",
            "fork x",
            "undo",
            "export x",
            "store verify",
            "status",
            "watch",
        ),
        *(
            "stop x",
            "shutdown",
            "token list",
            "config show",
            "config check",
            "models",
            "mcp",
            "trust --show",
            "ext list",
        ),
    ],
)
def test_an_open_home_is_refused_by_every_command(command: str, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What others could have written is believed by no command, also by none that only reads; all name the remedy."""
    home.mkdir(exist_ok=True)
    (home / "config.toml").touch()
    home.chmod(0o777)

    assert 1 == entry.main(command.split())

    said = capsys.readouterr()
    assert ("", True) == (said.out, f"other users may write the home {str(home)!r} (mode 777)" in said.err)
    assert f"chmod -R go-w {home}" in said.err
    assert 0o777 == home.stat().st_mode & 0o777


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["sessions", "--limit", "0"], "argument --limit: '0' is not a whole number of at least 1"),
        (["sessions", "--search", " "], "--search: the text is empty"),
        (["fork"], "the following arguments are required: ID"),
        (["show", "x", "--last", "2", "--all"], "argument --all: not allowed with argument --last"),
        (["run", "--no-save", "--continue", "x"], "argument --continue: not allowed with argument --no-save"),
        (["run", "--thinking", "hard", "x"], "argument --thinking: invalid choice: 'hard'"),
        (["run", "--max-steps", "0", "x"], "argument --max-steps: '0' is not a whole number of at least 1"),
        (["run", "--max-cost", "nan", "x"], "argument --max-cost: 'nan' is not an amount of dollars greater than 0"),
        (["run", "--max-time", "-3", "x"], "argument --max-time: '-3' is not a number of seconds"),
        (["run", "--flag", "=2", "x"], "argument --flag: '=2' is not a flag, such as verbose or level=2"),
        (["run", "--flag", "a\nb", "x"], "argument --flag: 'a\\nb' is not a flag"),
        (["run", "--flag", "a", "--no-extensions", "x"], "--flag is for extensions, and --no-extensions starts none"),
        (["run", "--output-schema", "/", "x"], "--output-schema: '/' cannot be read: Is a directory"),
        (["undo", "--files-only", "--conversation-only"], "argument --conversation-only: not allowed with argument"),
        (["trust", "--list", "--remove"], "argument --remove: not allowed with argument --list"),
        (["trust", "/no/such/place"], "DIR: there is no '/no/such/place'"),
        (["archive"], "the following arguments are required: ID"),
        (["store", "polish"], "argument task: invalid choice: 'polish'"),
    ],
)
def test_wrong_usage_of_stored_sessions(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What makes no sense is refused in one line before anything is opened."""
    code = entry.main(arguments)

    assert 2 == code
    assert capsys.readouterr().err.startswith(f"session-core: {sentence}")


@pytest.mark.parametrize(
    "arguments",
    [
        ("export", "7k2f", "file", "--home", "/h"),
        ("export", "7k2f", "--home", "/h", "file"),
        ("export", "--home", "/h", "7k2f", "file"),
        ("export", "--home=/h", "--", "7k2f", "file"),
    ],
)
def test_options_go_anywhere(arguments: tuple[str, ...]) -> None:
    """Options may stand before, between and after the other words of a command."""
    chosen = parser().parse_args(arguments)

    assert ("export", "7k2f", "file", "/h") == (chosen.command, chosen.session, chosen.file, chosen.home)


def test_several_sessions_around_an_option() -> None:
    """All words that are no options are taken, also those after one."""
    chosen = parser().parse_args(["delete", "a", "--yes", "b", "c"])

    assert (["a", "b", "c"], True) == (chosen.sessions, chosen.yes)


def test_candidates_below_the_complaint(home: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """What fits several sessions is followed by their names, one per line."""
    one, two = keep(home, "count to 1", "count to 2")
    code = entry.main(["show", one[:8]])

    assert 2 == code
    assert [
        f"session-core: {one[:8]!r} matches 2 sessions; type more of the one you mean",
        f"  {two}  count to 2",
        f"  {one}  count to 1",
    ] == capfd.readouterr().err.splitlines()


def broken(*_: object, **__: object) -> int:
    raise ExceptionGroup("outer", [ExceptionGroup("inner", [RuntimeError("boom\n\x1b[31m")])])


def test_an_unexpected_error_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """A bug shows as one harmless line with a hint how to see more, even from inside nested groups."""
    monkeypatch.setattr("frontends.commands.demo.tour.main", broken)
    monkeypatch.delenv("SESSION_CORE_DEBUG", raising=False)

    assert 1 == entry.main(["demo"])
    assert (
        "session-core: unexpected error: RuntimeError: boom ?[31m (set SESSION_CORE_DEBUG=1 to see where)\n"
        == capsys.readouterr().err
    )


def test_debug_shows_the_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With SESSION_CORE_DEBUG=1 the traceback is printed too."""
    monkeypatch.setattr("frontends.commands.demo.tour.main", broken)
    monkeypatch.setenv("SESSION_CORE_DEBUG", "1")

    assert 1 == entry.main(["demo"])
    assert "Traceback" in capsys.readouterr().err


def test_an_interrupt_anywhere(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Ctrl-C outside a turn is one line and exit code 130, even from inside a group."""

    def interrupted(**_: object) -> int:
        raise BaseExceptionGroup("outer", [ValueError("x"), KeyboardInterrupt()])

    monkeypatch.setattr("frontends.commands.demo.tour.main", interrupted)

    assert 130 == entry.main(["demo"])
    assert "session-core: interrupted\n" == capsys.readouterr().err
