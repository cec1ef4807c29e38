"""A command in the sandbox that swaps an extension's files for the moment between the check and the start."""

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import trio

from session_core.errors import ExtensionFailed
from session_core.processes.child import Launch
from session_core.processes.run import run_in_group
from session_core.sandbox.bubblewrap import Bubblewrap, find_bubblewrap, sandbox_argv
from session_core.sandbox.plan import plan_sandbox
from tests._needs import needs_sandbox
from tests.hostile._model import make_folder
from tests.session_core.sep._children import SCRIPTS
from tests.session_core.sep._service import Home, open_world

RELOADS = 60
SWAPPING = """
echo swapping
while :; do
    cp evil.py swap && mv swap gate/main.py
    sleep 0.004
    cp good.py swap && mv swap gate/main.py
    sleep 0.004
done
"""


def program(notes: Path, says: str) -> str:
    """An extension that notes what it is, in a place that the sandbox does not reach."""
    return (
        "import runpy, sys\n"
        f"open({str(notes / says)!r}, 'a').close()\n"
        f"runpy.run_path({str(SCRIPTS / 'obedient.py')!r}, run_name='__main__')\n"
    )


@pytest.fixture
def home() -> Iterator[Home]:
    """A home with an agreed extension whose folder is in the folder that the agent works in."""
    place = make_folder("swapped")
    home = Home(place)
    folder = home.folder / "gate"
    folder.mkdir()
    for says in ("good", "evil"):
        (home.folder / f"{says}.py").write_text(program(home.notes, says))
    (folder / "main.py").write_text(program(home.notes, "good"))
    args = ["-I", "-S", "main.py", json.dumps({"identity": "gate"}), str(home.notes)]
    (folder / "extension.toml").write_text(
        f"name = 'gate'\nversion = '1'\n[run]\ncommand = {json.dumps(sys.executable)}\nargs = {json.dumps(args)}\n"
    )
    (home.path / "extensions").mkdir()
    (home.path / "extensions" / "gate").symlink_to(folder)
    home.agree("gate", home.path / "extensions" / "gate")
    yield home
    shutil.rmtree(place)


@needs_sandbox
@pytest.mark.slow
async def test_what_is_swapped_every_few_milliseconds_never_runs(home: Home) -> None:
    """However often an extension is reloaded meanwhile: it runs as it was agreed to, or not at all."""
    bubblewrap = await find_bubblewrap()
    assert isinstance(bubblewrap, Bubblewrap)
    plan = plan_sandbox(
        str(home.folder), user_home=str(home.path.parent), environment=home.environ, hidden=(str(home.path),)
    )
    argv, swapping, refused = sandbox_argv(["/bin/sh", "-c", SWAPPING], plan, bubblewrap), trio.Event(), 0
    async with open_world(home) as world, trio.open_nursery() as nursery:

        async def swap() -> None:
            launch = Launch(argv=argv, cwd=str(home.folder), env={}, bubblewrap=bubblewrap.path)
            await run_in_group(launch, on_output=lambda _: swapping.set(), output_limit=0)

        nursery.start_soon(swap)
        await swapping.wait()
        for _ in range(RELOADS):
            try:
                await world.service.reload_extension("gate")
            except ExtensionFailed:
                refused += 1
        nursery.cancel_scope.cancel()
    assert (home.notes / "good").exists()
    assert not (home.notes / "evil").exists(), f"{refused} of {RELOADS} were refused"
