"""The measurements of the agent: each one measures what it says, and with work that was really done."""

import math
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
import trio

from bench import __main__ as program
from bench import agent, dispatch, store_material
from bench.first_token import _end_of_request, _first_token, running_server
from bench.measure import Result
from bench.workshop import OUTPUT, open_workshop
from session_core.storage.memory import MemoryStore
from session_core.vocabulary.messages import Message, ToolResultPart


@pytest.fixture(autouse=True)
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep everything that is measured within the test's own folder."""
    place = tmp_path / "scratch"
    monkeypatch.setattr(store_material, "SCRATCH", place)
    return place


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "case"), [("agent", partial(agent._agent, 2, 1)), ("dispatch", partial(dispatch._dispatch, 2, 1))]
)
async def test_cases_measure_something(name: str, case: Callable[[], Awaitable[Result]]) -> None:
    """Each case, in small, gives a ratio and figures that were really measured."""
    check_measured(name, await case())


@pytest.mark.slow
def test_first_word_is_measured() -> None:
    """The first word comes through a real connection, all four ways."""
    with running_server() as address:
        result = trio.run(_first_token, address, 1, 1)

    check_measured("first_token", result)


def check_measured(name: str, result: Result) -> None:
    """Fail unless a result of this name holds figures, and is on offer."""
    assert (name, True) == (result.name, name in program.CASES)
    assert all(figure > 0 and math.isfinite(figure) for figure in (result.ratio, *result.details.values()))


def results_in(message: Message) -> list[ToolResultPart]:
    """List the tool results of a message."""
    return [part for part in message.parts if isinstance(part, ToolResultPart)]


async def test_sessions_work_as_long_as_told() -> None:
    """Sessions that work at once each take the steps they were told to, with a tool call in all but the last."""
    async with open_workshop(MemoryStore()) as workshop:
        some, others = await workshop.new_session(), await workshop.new_session()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(workshop.turn, some, 3)
            nursery.start_soon(workshop.turn, others, 5)
        seen = [await workshop.service.load_session(session_id) for session_id in (some, others)]

    assert 8 == workshop.model.calls
    assert [(3, 2), (5, 4)] == [
        (
            sum(message.role == "assistant" for message in snapshot.messages),
            sum(result.text == OUTPUT for message in snapshot.messages for result in results_in(message)),
        )
        for snapshot in seen
    ]


async def test_the_runner_leaves_what_is_recorded_without_it(tmp_path: Path) -> None:
    """What a call through the runner is compared with leaves the same conversation, apart from its ids."""
    async with dispatch.open_bench(str(tmp_path)) as bench:
        await dispatch._runner(bench, dispatch.NoOp())(bench.called("read", 2))
        bench.record_only(bench.called("read", 2))
        through, alone = (message for message in bench.handle.state.messages if message.role == "tool")

    assert [(part.status, part.text) for part in results_in(through)] == [("success", "done")] * 2
    assert [(part.status, part.text) for part in results_in(alone)] == [("success", "done")] * 2


@pytest.mark.parametrize(
    ("received", "end"),
    [
        (b"", None),
        (b"POST / HTTP/1.1\r\nContent-Length: 2\r\n", None),
        (b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nx", None),
        (b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\nxyPOST", 40),
    ],
)
def test_end_of_request(received: bytes, end: int | None) -> None:
    """The server answers a call as soon as it is whole, and not before."""
    assert end == _end_of_request(received)
