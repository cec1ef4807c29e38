"""The shell: real commands in a real sandbox, ended in every way."""

import os
import re
import secrets
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from session_core.sandbox.bubblewrap import open_filter
from session_core.testing.cancel_sweep import SweepRun, cancel_sweep
from session_core.tools.background_jobs import open_background_jobs
from session_core.tools.base import CallPreview, ToolContext, ToolFailed, ToolOutput
from session_core.tools.command_confinement import ShellSetup, confine_reading
from session_core.tools.shell import MAX_COMMAND_CHARS, MAX_OUTPUT_FILE_CHARS, RESULT_CHARS, ShellTool
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.sessions import SandboxPolicy
from tests import _needs
from tests._mostly_slow import mostly_slow
from tests._needs import needs_program, needs_sandbox
from tests.session_core.tools._calls import (
    EVERY_RIGHT,
    assert_no_child,
    context_in,
    processes_with,
    refusal,
    run,
)

FULL = SandboxPolicy(mode="full_access")
READ_ONLY = SandboxPolicy(mode="read_only")
SEES_FILTER = "grep Seccomp: /proc/self/status; chroot / true 2>/dev/null || echo refused"
NO_SANDBOX = ShellSetup(bubblewrap_places="/nowhere")
NOT_INSTALLED = "bubblewrap is not installed; install the package called bubblewrap"


@pytest.fixture(autouse=True)
def no_child_is_left() -> Iterator[None]:
    """Fail any test that leaves a child behind."""
    yield
    assert_no_child()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of the session, with another folder beside it."""
    folder = tmp_path / "root"
    (folder / "src").mkdir(parents=True)
    (tmp_path / "beside").mkdir()
    return folder


@pytest.mark.parametrize("sandbox", mostly_slow([SandboxPolicy(), FULL], quick=1))
async def test_a_command_runs(root: Path, sandbox: SandboxPolicy) -> None:
    """The result tells output and exit code, and the output is shown as it comes."""
    heard: list[str] = []
    context = context_in(root, rights=EVERY_RIGHT, sandbox=sandbox, report=heard.append)

    output = await run(ShellTool(), context, command="pwd; echo oops >&2; touch made; exit 3")

    assert f"{root}\noops\n[exit code 3]" == output.text
    unconfined = {"unconfined": True} if sandbox == FULL or _needs.NO_SANDBOX is not None else {}
    assert JsonObject({"exit_code": 3, "timed_out": False, "output_file": None, **unconfined}) == output.details
    assert f"{root}\noops\n" == "".join(heard)
    assert (root / "made").exists()


@needs_sandbox
@pytest.mark.parametrize("sandbox", [SandboxPolicy(), READ_ONLY])
async def test_calls_are_filtered_without_a_home(root: Path, sandbox: SandboxPolicy) -> None:
    """Where nothing is kept on the disk, the filter of system calls applies all the same."""
    output = await run(ShellTool(setup=ShellSetup()), context_in(root, sandbox=sandbox), command=SEES_FILTER)

    assert "Seccomp:\t2\nrefused\n[exit code 0]" == output.text


@needs_sandbox
async def test_searches_are_filtered(root: Path) -> None:
    """A program that searches for a tool may use no more system calls than a command of the model."""
    confined = await confine_reading(context_in(root), {"PATH": "/usr/bin:/bin"})

    assert confined.bubblewrap is not None
    launch = await confined.prepare_launch(["/bin/sh", "-c", SEES_FILTER], str(root))
    argv, opened = open_filter(launch.argv, confined.bubblewrap.path)
    assert opened is not None
    try:
        seen = await trio.run_process(argv, capture_stdout=True, pass_fds=[opened])
    finally:
        os.close(opened)

    assert b"Seccomp:\t2\nrefused\n" == seen.stdout


async def test_no_output(root: Path) -> None:
    """A command that says nothing says so, and has no input to wait for."""
    assert (
        "(no output)\n[exit code 0]"
        == (await run(ShellTool(), context_in(root, rights=EVERY_RIGHT), command="cat")).text
    )


async def test_it_runs_in_the_folder_asked_for(root: Path) -> None:
    """A folder beneath the root can be chosen; one outside, a file or none cannot, links included."""
    (root / "out").symlink_to(root.parent / "beside")
    (root / "file").touch()
    context = context_in(root, rights=EVERY_RIGHT)

    assert f"{root}/src\n[exit code 0]" == (await run(ShellTool(), context, command="pwd", workdir="src")).text
    for folder in ("..", "out", "/", "src/../../beside"):
        assert "outside of the working folder" in await refusal(ShellTool(), context, command="pwd", workdir=folder)
    assert "'file' is not a folder" in await refusal(ShellTool(), context, command="pwd", workdir="file")
    assert "there is no folder 'gone'" in await refusal(ShellTool(), context, command="pwd", workdir="gone")


@needs_sandbox
async def test_no_descriptor_reaches_a_command(root: Path) -> None:
    """A confined command has its three streams and no other descriptor of the service, the filter's included."""
    seen = await run(ShellTool(setup=ShellSetup()), context_in(root), command="readlink /proc/$$/fd/*; true")
    streams = seen.text.splitlines()[:-1]
    assert 3 == len(streams), streams
    assert "memfd" not in seen.text


@needs_sandbox
async def test_the_sandbox_holds(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing outside can be changed, keys are not handed on, and there is no network."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "canary")
    (root.parent / "beside" / "file").write_text("old")
    command = f"echo new > {root.parent}/beside/file; touch /etc/made; env; ls -A ~/.ssh"

    output = await run(ShellTool(), context_in(root), command=command)

    assert "old" == (root.parent / "beside" / "file").read_text()
    assert "canary" not in output.text
    assert "Read-only file system" in output.text
    names = await run(ShellTool(), context_in(root), command="tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '")
    assert "lo\n[exit code 0]" == names.text


@needs_sandbox
async def test_a_read_only_session_changes_nothing(root: Path) -> None:
    """In a read-only session not even the root can be changed."""
    output = await run(ShellTool(), context_in(root, sandbox=READ_ONLY), command="touch made || echo no")
    assert "no\n" in output.text
    assert ["src"] == [path.name for path in await trio.Path(root).iterdir()]


@needs_sandbox
async def test_hidden_paths_are_hidden(root: Path, tmp_path: Path) -> None:
    """What the service hides is empty inside."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "token").write_text("canary")

    output = await run(ShellTool(setup=ShellSetup(hidden=(str(home),))), context_in(root), command=f"cat {home}/token")

    assert "canary" not in output.text


async def test_long_output_is_kept_in_a_file(root: Path, tmp_path: Path) -> None:
    """The result holds the end, and a remark tells where all of it is."""
    context = context_in(root, rights=EVERY_RIGHT, outputs=str(tmp_path / "outputs"))

    output = await run(ShellTool(), context, command="seq 20000")

    whole = "".join(f"{number}\n" for number in range(1, 20_001))
    [file] = (tmp_path / "outputs").iterdir()
    left_out = len(whole) - RESULT_CHARS
    remark = f"[the first {left_out} of {len(whole)} characters of output are left out here; all of it is in {file}]"
    assert f"{whole[-RESULT_CHARS:]}{remark}\n[exit code 0]" == output.text
    assert whole == file.read_text()
    assert 0o600 == file.stat().st_mode & 0o777


async def test_endless_output_is_bounded(root: Path, tmp_path: Path) -> None:
    """Beyond the bound of the file output is thrown away, and this is told; without a folder nothing is kept."""
    shell, command = ShellTool(), f"head -c {MAX_OUTPUT_FILE_CHARS + 5} /dev/zero | tr '\\0' x"

    output = await run(shell, context_in(root, rights=EVERY_RIGHT, outputs=str(tmp_path / "outputs")), command=command)
    [file] = (tmp_path / "outputs").iterdir()
    assert MAX_OUTPUT_FILE_CHARS == file.stat().st_size
    assert f"the first {MAX_OUTPUT_FILE_CHARS} characters are in {file}]" in output.text

    assert (
        "left out here and were not kept]"
        in (await run(shell, context_in(root, rights=EVERY_RIGHT), command="seq 20000")).text
    )


@pytest.mark.parametrize("sandbox", [SandboxPolicy(), FULL])
async def test_a_command_that_takes_too_long(root: Path, sandbox: SandboxPolicy) -> None:
    """It is ended at its limit with all that it started, and the model learns what to do instead."""
    output = ToolOutput(text="")
    seconds = 0
    for seconds in (1, 10, 60):  # enough for its first word, on a busy machine too
        mark = secrets.token_hex(8)
        command = f"echo begun; sh -c 'sleep 1000; : {mark}' & wait"
        context = context_in(root, rights=EVERY_RIGHT, sandbox=sandbox)
        with trio.fail_after(200):
            output = await ShellTool().run(JsonObject({"command": command, "timeout_ms": seconds * 1_000}), context)
        assert [] == processes_with(mark)
        if output.text.startswith("begun"):
            break
    told = f"[ended after {seconds} seconds, which is its time limit; give it a longer timeout_ms or run it with "
    assert f"begun\n{told}background=true]" == output.text


@pytest.mark.parametrize(
    ("sandbox", "says"),
    [
        pytest.param(SandboxPolicy(), "exit code 137, as after the signal SIGKILL", marks=needs_sandbox),
        (FULL, "ended by the signal SIGKILL"),
    ],
)
async def test_a_signal_is_told(root: Path, sandbox: SandboxPolicy, says: str) -> None:
    """A command that was ended by a signal says which, inside the sandbox and outside."""
    text = (await run(ShellTool(), context_in(root, sandbox=sandbox), command="kill -9 $$")).text
    assert f"(no output)\n[{says}]" == text


@needs_sandbox
async def test_nothing_escapes_the_sandbox_by_leaving_its_group(root: Path) -> None:
    """What a command leaves running in a session of its own is gone when the result is there."""
    mark = secrets.token_hex(8)
    await run(
        ShellTool(), context_in(root), command=f"setsid sh -c 'sleep 1000; : {mark}' > /dev/null 2>&1 & echo done"
    )
    assert [] == processes_with(mark)


async def test_a_cancelled_command_may_tidy_up(root: Path) -> None:
    """A stop asks what is inside the sandbox to end before it is killed."""
    with trio.fail_after(300):
        async with trio.open_nursery() as nursery:

            def hear(text: str) -> None:
                nursery.cancel_scope.cancel()

            command = "trap 'touch tidied; exit' TERM; echo ready; while :; do sleep 0.02; done"
            await ShellTool().run(JsonObject({"command": command}), context_in(root, rights=EVERY_RIGHT, report=hear))
    assert (root / "tidied").exists()


@pytest.mark.parametrize("sandbox", [SandboxPolicy(), FULL])
async def test_cancelled_at_any_step(root: Path, sandbox: SandboxPolicy) -> None:
    """Cancelled at whatever step, a command leaves no process and nothing in the folder."""

    @asynccontextmanager
    async def prepare() -> AsyncGenerator[str]:
        yield secrets.token_hex(8)

    async def operation(mark: str) -> None:
        command = f"sh -c 'sleep 0.01; : {mark}' & echo a; wait"
        await ShellTool().run(JsonObject({"command": command}), context_in(root, rights=EVERY_RIGHT, sandbox=sandbox))

    async def check(mark: str, sweep: SweepRun) -> None:
        assert [] == processes_with(mark)
        assert_no_child()
        assert ["src"] == [path.name for path in await trio.Path(root).iterdir()]

    assert await cancel_sweep(prepare, operation, check) > 3


@needs_sandbox
async def test_a_preview_shows_everything(root: Path) -> None:
    """People see the exact command, its folder, the network and the environment; a yes covers this very command."""
    setup = ShellSetup(environment={"PATH": "/usr/bin:/bin", "SECRET_KEY": "canary", "LANG": "C"})
    arguments = JsonObject({"command": "echo a\necho b", "workdir": "src"})

    preview = await ShellTool(setup=setup).preview(arguments, context_in(root))

    assert preview == CallPreview(
        summary="run: echo a ...",
        displayed_text=(
            f"echo a\necho b\n\nfolder: {root}/src\nsandbox: workspace_write, may change {root}\nnetwork: off, "
            "unix sockets: off\n"
            "environment: GIT_PAGER=cat, GIT_TERMINAL_PROMPT=0, PAGER=cat, TERM=dumb; handed on: "
            "GIT_DISCOVERY_ACROSS_FILESYSTEM, LANG, PATH, TMPDIR; nothing else\nended after 120 seconds at the latest"
        ),
        command="echo a\necho b",
        grant=f"run in {root}/src: echo a\necho b",
    )
    assert not (root / ".vscode").exists()


async def test_without_a_sandbox_every_command_asks(root: Path) -> None:
    """Where nothing can be confined a command needs a person's yes each time, and is refused without it."""
    shell, arguments = ShellTool(setup=NO_SANDBOX), JsonObject({"command": "touch made"})

    preview = await shell.preview(arguments, context_in(root))
    assert f"no sandbox here: {NOT_INSTALLED}, so every command needs your approval" == preview.always_ask
    assert "sandbox: none, it can do anything you can do\nnetwork: on, unix sockets: on" in preview.displayed_text
    assert ("unconfined",) == preview.rights

    assert "was not run, because there is no sandbox here" in await refusal(
        shell, context_in(root), command="touch made"
    )
    assert not (root / "made").exists()

    await run(shell, context_in(root, rights=EVERY_RIGHT), command="touch made")
    assert (root / "made").exists()


async def test_full_access_needs_no_sandbox(root: Path) -> None:
    """Who gave full access is not asked because of a missing sandbox."""
    preview = await ShellTool(setup=NO_SANDBOX).preview(JsonObject({"command": "ls"}), context_in(root, sandbox=FULL))
    assert preview.always_ask is None


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({}, "the argument 'command' is missing"),
        ({"command": " \n"}, "the argument 'command' must not be empty"),
        ({"command": 1}, "the argument 'command' must be text"),
        ({"command": "a\0b"}, "the argument 'command' holds a null character, which no command may"),
        ({"command": "x" * (MAX_COMMAND_CHARS + 1)}, "longer than 30000 characters; put it into a file"),
        ({"command": "ls", "timeout_ms": 0}, "the argument 'timeout_ms' must be a whole number of at least 1"),
        ({"command": "ls", "timeout_ms": 600_001}, "must be at most 600000; use background=true instead"),
        ({"command": "ls", "background": True}, "nothing can run in the background here"),
        ({"command": "ls", "cwd": "/"}, "bash has no argument 'cwd'; it takes command, timeout_ms,"),
    ],
)  # fmt: skip
async def test_wrong_arguments(root: Path, arguments: dict[str, Any], says: str) -> None:
    """What is wrong is named, in the preview and in the run."""
    context: ToolContext = context_in(root)
    assert says in await refusal(ShellTool(), context, **arguments)
    with pytest.raises(ToolFailed, match=re.escape(says)):
        await ShellTool().preview(JsonObject(arguments), context)


async def test_the_longest_command_can_be_run(root: Path) -> None:
    """A command of the greatest length goes through the sandbox."""
    command = ": " + "𝔵" * (MAX_COMMAND_CHARS - 2)
    assert (
        "(no output)\n[exit code 0]"
        == (await run(ShellTool(), context_in(root, rights=EVERY_RIGHT), command=command)).text
    )


@needs_sandbox
async def test_a_command_may_ask_for_more_than_the_policy_gives(tmp_path: Path) -> None:
    """With a person's yes a single command may change .git or use the network; without one it does not run."""
    (tmp_path / ".git").mkdir()
    shell, arguments = ShellTool(), JsonObject({"command": "touch .git/x", "change_protected": True})
    preview = await shell.preview(arguments, context_in(tmp_path))
    assert "it wants to change protected files such as .git" == preview.always_ask
    assert "protected files such as .git included" in preview.displayed_text
    with pytest.raises(ToolFailed, match="nobody has agreed"):
        await shell.run(arguments, context_in(tmp_path))
    assert not (tmp_path / ".git" / "x").exists()
    await shell.run(arguments, context_in(tmp_path, rights=EVERY_RIGHT))
    assert (tmp_path / ".git" / "x").exists()
    online = await shell.preview(JsonObject({"command": "true", "network": True}), context_in(tmp_path))
    assert ("it wants to use the network", True) == (online.always_ask, "network: on" in online.displayed_text)


@needs_sandbox
@needs_program("perl")
async def test_a_command_may_ask_for_unix_sockets(root: Path) -> None:
    """The right to unix sockets is asked for by itself, belongs to one command, and does not come with the network."""
    script = "perl -MSocket -e 'socket(my $s, AF_UNIX, SOCK_STREAM, 0) or print \"$!\"'"
    refused, allowed = "Operation not permitted\n[exit code 0]", "(no output)\n[exit code 0]"
    arguments = JsonObject({"command": script, "sockets": True})
    preview = await ShellTool().preview(arguments, context_in(root))
    assert "it wants to use unix sockets" == preview.always_ask
    assert "network: off, unix sockets: on" in preview.displayed_text
    both = await ShellTool().preview(JsonObject({**arguments, "network": True}), context_in(root))
    assert "it wants to use the network and use unix sockets" == both.always_ask
    assert "it wants to use unix sockets, and nobody has agreed" in await refusal(
        ShellTool(), context_in(root), **arguments
    )
    assert allowed == (await run(ShellTool(), context_in(root, rights=EVERY_RIGHT), **arguments)).text
    for policy, expected in (
        (SandboxPolicy(), refused), (SandboxPolicy(network=True), refused), (SandboxPolicy(sockets=True), allowed)
    ):  # fmt: skip
        assert expected == (await run(ShellTool(), context_in(root, sandbox=policy), command=script)).text
    given = await ShellTool().preview(arguments, context_in(root, sandbox=SandboxPolicy(sockets=True)))
    assert given.always_ask is None


@needs_sandbox
async def test_streams_apart(root: Path) -> None:
    """A program that reads the outcome gets stdout and stderr apart, from the same sandbox."""
    arguments = JsonObject({"command": "pwd; echo oops >&2; touch /etc/made 2>/dev/null; exit 3", "workdir": "src"})

    with trio.fail_after(300):
        outcome = await ShellTool().run_with_separate_streams(arguments, context_in(root))

    assert (3, f"{root}/src\n", "oops\n") == (outcome.exit_code, outcome.output, outcome.error_output)
    assert not await trio.Path("/etc/made").exists()


async def test_what_does_not_run_apart(root: Path) -> None:
    """Without a sandbox and without a yes nothing runs, nor does anything run on in the background."""
    context = context_in(root)
    with pytest.raises(ToolFailed, match="nobody has agreed to run it without one"):
        await ShellTool(setup=NO_SANDBOX).run_with_separate_streams(JsonObject({"command": "touch made"}), context)
    async with open_background_jobs() as jobs:
        with pytest.raises(ToolFailed, match="no outcome to wait for"):
            await ShellTool(jobs).run_with_separate_streams(
                JsonObject({"command": "touch made", "background": True}), context
            )
    assert ["src"] == [path.name for path in await trio.Path(root).iterdir()]
