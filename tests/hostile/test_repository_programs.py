"""The command line in a hostile repository: what it prints is plain, and nothing in the repository is started."""

import os
import re
import socket
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import DEVNULL

import pytest
import trio

import session_core
from tests.hostile._repository import SECRET, Ground, new_ground, nobody_called, tree
from tests.hostile._repository_files import TRICKS

BY_NAME = {trick.name: trick for trick in TRICKS}
ORDERS = (
    "instructions_end_early_and_give_orders",
    "settings_steer_the_terminal",
    "mcp_starts_a_program",
    "skill_hides_a_built_in_one",
    "git_settings_start_programs",
    "git_hooks_start_programs",
    "python_modules_of_our_names",
    "shells_read_variables",
    "tools_have_tasks",
    "names_are_odd",
    "links_lead_everywhere",
    "files_never_end",
)
LINKS = (
    "instructions_are_a_link_to_a_secret",
    "settings_are_a_link_to_a_secret",
    "mcp_is_a_link_to_a_file_that_starts_a_program",
    "skill_is_a_link_to_a_secret",
    "git_head_is_a_link_to_a_secret",
    "git_ignores_are_a_link_to_a_secret",
)
PIPES = (
    "instructions_are_a_pipe",
    "settings_are_a_pipe",
    "mcp_is_a_pipe",
    "skill_is_a_pipe",
    "git_is_a_pipe",
    "git_ignores_are_a_pipe",
)
RUN = ("run", "--model", "demo", "list the files")
# What no terminal may get: controls but for line ends and tabs, and what reorders or hides text.
STEERS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]")
# As the installed command does: the folder it is called in is no place to import from.
PROGRAM = [sys.executable, "-P", "-m", "frontends.entry"]
CODE = Path(session_core.__file__).parents[1]


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[tuple[Ground, socket.socket]]:
    """Ground for one repository."""
    with new_ground(tmp_path / "ground") as laid_out:
        yield laid_out


async def call(ground: Ground, *arguments: str, folder: Path | None = None) -> tuple[int, str]:
    """Run the program in the repository, and return its exit code and everything it printed."""
    environ = {**ground.environ, "SESSION_CORE_HOME": str(ground.home), "PYTHONPATH": str(CODE)}
    with trio.fail_after(300):
        done = await trio.run_process(
            [*PROGRAM, *arguments],
            cwd=os.fspath(folder or ground.repo),
            env=environ,
            stdin=DEVNULL,
            capture_stdout=True,
            capture_stderr=True,
            check=False,
        )
    return done.returncode, (done.stdout + done.stderr).decode()


def check_plain(printed: str) -> None:
    """Check that a person may see this on a terminal."""
    assert [] == STEERS.findall(printed)
    assert SECRET not in printed
    assert "Traceback" not in printed
    assert len(printed) < 200_000


MOST = (RUN, ("config", "check"))
ALL = (*MOST, ("config", "show"), ("models",), ("sessions",))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("names", "commands"),
    [
        pytest.param(ORDERS, ALL, id="orders"),
        pytest.param(LINKS, MOST, id="links", marks=pytest.mark.slow),
        pytest.param(PIPES, MOST, id="pipes", marks=pytest.mark.slow),
    ],
)
async def test_every_command_is_inert(
    hostile: tuple[Ground, socket.socket], names: tuple[str, ...], commands: tuple[tuple[str, ...], ...]
) -> None:
    """A turn, the settings, the models and the sessions: no program of the repository runs, and all output is plain."""
    ground, listener = hostile
    for name in names:
        BY_NAME[name].plant(ground)
    before = tree(ground.repo, ground.outside, ground.user, ground.traces)

    for arguments in commands:
        code, printed = await call(ground, *arguments)
        check_plain(printed)
        assert 0 == code, printed

    assert before == tree(ground.repo, ground.outside, ground.user, ground.traces)
    assert nobody_called(listener)


@pytest.mark.slow
async def test_a_folder_with_a_name_that_steers(hostile: tuple[Ground, socket.socket]) -> None:
    """Called in a folder whose name is full of escape codes, the program prints none of them."""
    ground, _ = hostile
    folder = ground.folder / "\x1b]0;owned\x07\x1b[2J\u202e"
    (folder / ".session-core").mkdir(parents=True)
    (folder / ".session-core" / "config.toml").write_text("x = 1\n", encoding="utf-8")

    for arguments in (RUN, ("config", "check"), ("sessions",)):
        code, printed = await call(ground, *arguments, folder=folder)
        check_plain(printed)
        assert 0 == code, printed


@pytest.mark.slow
async def test_a_folder_with_a_name_that_is_no_text(hostile: tuple[Ground, socket.socket]) -> None:
    """Called in a folder whose name is no text, the program says so in one line."""
    ground, _ = hostile
    folder = ground.folder / os.fsdecode(b"bad\xff")
    folder.mkdir()
    code, printed = await call(ground, *RUN, folder=folder)

    check_plain(printed)
    assert 2 == code
    assert "not text in UTF-8" in printed
