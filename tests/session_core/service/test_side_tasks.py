"""Work beside turns: everybody who waits gets its one outcome."""

import pytest
import trio

from session_core.errors import Conflict, FilesChanged
from session_core.service.side_tasks import SideTasks


async def refused() -> str:
    raise FilesChanged("not now", files=(("a", "busy"),))


async def test_each_who_waits_gets_a_failure_of_their_own() -> None:
    """A failure is the same for all who wait, but no object is raised twice: each raising adds to it."""
    caught: list[FilesChanged] = []
    async with trio.open_nursery() as nursery:
        ended = SideTasks(nursery).start(None, "login", refused)
        for _ in range(3):
            with pytest.raises(FilesChanged) as failure:
                await ended()
            caught.append(failure.value)

    assert [("not now", (("a", "busy"),), "force")] * 3 == [(each.message, each.files, each.field) for each in caught]
    assert 3 == len({id(each) for each in caught})
    depths = [len(pytest.ExceptionInfo.from_exception(each).traceback) for each in caught]
    assert [depths[0]] * 3 == depths, "no traceback grows with those who wait"


async def test_an_answer_is_for_everybody_and_a_stop_is_told() -> None:
    """Any number may ask for the answer; what is stopped fails for whoever waits, and is no longer listed."""

    async def answer() -> str:
        return "done"

    async with trio.open_nursery() as nursery:
        works = SideTasks(nursery)
        ended = works.start(None, "login", answer)
        assert ["done", "done"] == [await ended(), await ended()]
        held = works.start(None, "reload", trio.sleep_forever)
        (running,) = works.running_for(None)
        running.stop()
        with pytest.raises(Conflict, match="reload was stopped before it was done"):
            await held()
        assert () == works.running_for(None)
