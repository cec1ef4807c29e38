"""Commands of a project's own extensions, as `run` finds them: in a session of the project, and for a new one."""

from pathlib import Path

import pytest
import trio

from frontends.commands.run.options import ContinuedSession, RunOptions
from frontends.commands.run.run import converse
from frontends.shared.parser import UsageError
from frontends.shared.streams import StandardStreams
from tests.frontends._paper import NoSignals, Paper, written
from tests.session_core.service._folder_extensions import Place, World, served


async def run(world: World, options: RunOptions, known: ContinuedSession | None = None) -> tuple[int, str]:
    """Have `run` do something; returns its exit code and what was answered."""
    streams = StandardStreams(out=Paper(), err=Paper())
    with world.service.attach("cli") as client:
        code = await converse(client, options, streams, NoSignals(), known)
    return code, written(streams)[0]


async def test_commands_of_the_folder_where_the_session_works(tmp_path: Path) -> None:
    """A command of a project's extension is done in a session that works there, moves there, or is made there."""
    place = Place(tmp_path)
    left, plain = place.project("left", "gate"), place.top / "plain"
    await trio.Path(plain).mkdir()
    async with served(place) as world:
        there, elsewhere = await world.session(left), await world.session(str(plain))
        pid = await world.pid(there)
        known = {
            each.session_id: ContinuedSession(summary=each, short="7k2f")
            for each in (await world.service.list_sessions()).sessions
        }
        goes_on = await run(world, RunOptions(prompt="/pid"), known[there])
        new = await run(world, RunOptions(prompt="/gate.pid", cwd=left.path))
        with pytest.raises(UsageError, match="there is no command /pid"):
            await run(world, RunOptions(prompt="/pid"), known[elsewhere])
        moved = await run(world, RunOptions(prompt="/pid", cwd=left.path), known[elsewhere])

    assert [(0, f"{pid}\n")] * 3 == [goes_on, new, moved]
