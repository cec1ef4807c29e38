"""A command that fails because of its sandbox says what was kept back."""

from pathlib import Path

import attrs
import pytest

from session_core.processes.run import ProcessOutcome
from session_core.tools.command_confinement import Confinement, ShellSetup, confine
from session_core.tools.sandbox_hints import NO_NETWORK, NO_SOCKETS, READ_ONLY, find_hints
from session_core.tools.shell import ShellTool
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.sessions import ExtraRight, SandboxPolicy
from tests._needs import needs_sandbox
from tests.session_core.tools._calls import context_in, run

FAILED = ProcessOutcome(output="", exit_code=1, timed_out=False, truncated=False)


async def make_confinement(
    root: Path, *, sandbox: SandboxPolicy | None = None, requested: tuple[ExtraRight, ...] = ()
) -> Confinement:
    """Plan a command in a folder, with these rights."""
    context = context_in(root, sandbox=sandbox or SandboxPolicy())
    return await confine(context, ShellSetup(), requested=requested, to_show=True)


@needs_sandbox
@pytest.mark.parametrize(
    ("said", "hints"),
    [
        ("fatal: Unable to create '/a b/.git/index.lock': Read-only file system", (READ_ONLY,)),
        ("touch: cannot touch '.envrc': Read-only file system", (READ_ONLY,)),
        ("Error: EROFS: read-only file system, open '/p/.vscode/settings.json'", (READ_ONLY,)),
        ("touch: cannot touch '/usr/x': Read-only file system", ()),
        ("touch: cannot touch 'x.git': Read-only file system", ()),
        ("cat: .git/x: No such file or directory", ()),
        ("curl: (6) Could not resolve host: example.org", (NO_NETWORK,)),
        ("socket.gaierror: [Errno -3] Temporary failure in name resolution", (NO_NETWORK,)),
        ("Error: getaddrinfo EAI_AGAIN example.org", (NO_NETWORK,)),
        ("connect: Network is unreachable", (NO_NETWORK,)),
        ("dial unix /var/run/docker.sock: socket: operation not permitted", (NO_SOCKETS,)),
        ("  _socket.socket.__init__(self)\nPermissionError: [Errno 1] Operation not permitted", (NO_SOCKETS,)),
        ("chown: changing ownership of 'x': Operation not permitted", ()),
        ("Network is unreachable\n.git: Read-only file system", (NO_NETWORK, READ_ONLY)),
    ],
)
async def test_what_was_kept_back(tmp_path: Path, said: str, hints: tuple[str, ...]) -> None:
    """The words of common programs lead to the right that was missing, and others to nothing."""
    confinement = await make_confinement(tmp_path)
    assert hints == tuple(find_hints(attrs.evolve(FAILED, output=said), confinement))
    assert hints == tuple(find_hints(attrs.evolve(FAILED, error_output=said), confinement))
    assert () == tuple(find_hints(attrs.evolve(FAILED, output=said, exit_code=0), confinement))


@needs_sandbox
async def test_what_the_command_had(tmp_path: Path) -> None:
    """What a command could use, or could not get by asking, is not named."""
    said = "unix: Operation not permitted\nNetwork is unreachable\n.git: Read-only file system"
    failed = attrs.evolve(FAILED, output=said)
    every = await make_confinement(tmp_path, requested=("network", "sockets", "protected"))
    read_only = await make_confinement(tmp_path, sandbox=SandboxPolicy(mode="read_only"))
    no_sandbox = await make_confinement(tmp_path, sandbox=SandboxPolicy(mode="full_access"))

    found = [tuple(find_hints(failed, every)), tuple(find_hints(failed, read_only))]
    assert [(), (NO_NETWORK, NO_SOCKETS), ()] == [*found, tuple(find_hints(failed, no_sandbox))]


@needs_sandbox
async def test_a_result_says_it(tmp_path: Path) -> None:
    """The result of the shell ends with the hint and the exit code; so does what a program reads as stderr."""
    (tmp_path / ".git").mkdir()
    command = "touch .git/x"
    said = "touch: cannot touch '.git/x': Read-only file system\n"

    result = await run(ShellTool(), context_in(tmp_path), command=command)
    outcome = await ShellTool().run_with_separate_streams(JsonObject({"command": command}), context_in(tmp_path))

    assert f"{said}[{READ_ONLY}]\n[exit code 1]" == result.text
    assert f"{said}[{READ_ONLY}]\n" == outcome.error_output
