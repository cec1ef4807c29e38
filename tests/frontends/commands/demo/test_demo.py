"""The guided tour does what it says, and fails when something it says is not so."""

import re

import pytest
import trio
import trio.testing

import session_core as sc
from frontends.commands.demo import tour
from frontends.commands.demo.scenes import Tour
from frontends.commands.demo.viewer import Stage, Viewer, is_same_picture
from frontends.shared.output import Output
from session_core.testing import scripted
from session_core.testing.checked import open_checked_service
from tests.frontends._program import program


class Paper(Output):
    """An output that keeps what is written."""

    def __init__(self) -> None:
        super().__init__(None)
        self.text = ""

    async def write(self, data: str | bytes) -> None:
        await trio.lowlevel.checkpoint()
        assert isinstance(data, str)
        self.text += data


async def test_the_tour_holds_and_gives_its_figures() -> None:
    """`demo --fast` ends with exit code 0, every claim ticked, and the figures of a real lag and a real stop."""
    ended = await program("demo", "--fast")

    assert (0, "") == (ended.code, ended.err), ended.out
    assert "NOT TRUE" not in ended.out
    assert re.search(r"All \d+ claims held", ended.out)
    assert re.search(r"Lagged, [1-9]\d* events missed", ended.out)
    for figure in (
        "events published",
        "events delivered",
        "events missed",
        "resyncs",
        "from stop",
        "commands performed",
    ):
        assert re.search(rf"^ +{figure}.* [\d.,]+", ended.out, re.MULTILINE), figure
    assert "\x1b" not in ended.out


async def test_a_claim_that_does_not_hold_fails_the_tour(monkeypatch: pytest.MonkeyPatch) -> None:
    """One false claim makes the exit code 1, and the claim is shown as not true."""

    async def false_scene(scene: Tour) -> None:
        await scene.stage.check("the moon is a cheese", holds=False)

    monkeypatch.setattr(tour, "SCENES", (false_scene,))
    paper = Paper()

    assert 1 == await tour.play(Stage(paper), fast=True)
    assert "NOT TRUE: the moon is a cheese" in paper.text
    assert "1 of 3 claims did not hold." in paper.text


async def test_a_tour_that_hangs_fails(monkeypatch: pytest.MonkeyPatch, autojump_clock: trio.testing.MockClock) -> None:
    """A scene that waits for something that never comes ends the tour with exit code 1."""

    async def endless(scene: Tour) -> None:
        await scene.stage.wait_until(lambda: False)

    monkeypatch.setattr(tour, "SCENES", (endless,))
    paper = Paper()

    assert 1 == await tour.play(Stage(paper), fast=True)
    assert "NOT TRUE: the tour ends within" in paper.text


async def test_claims_are_counted() -> None:
    """True and false claims are both counted, each in its place."""
    stage = Stage(Paper())
    await stage.check("yes", holds=True)
    await stage.check("no", holds=False)

    assert (2, 1) == (stage.checked, stage.broken)


async def test_a_viewer_that_lags_ends_where_the_others_do(autojump_clock: trio.testing.MockClock) -> None:
    """A viewer that stops reading is told its loss once, and its picture equals that of one that never lagged."""
    provider = scripted.ScriptedProvider(
        (
            *(scripted.TaskSwitch() if n % 2 else sc.TextChunk(text=f"{n} ") for n in range(80)),
            scripted.Pause("wait"),
            sc.ModelFinished(usage=sc.Usage()),
        )
    )
    config = sc.ServiceConfig(models={"m": provider}, session_stream_capacity=16, store=sc.MemoryStore())
    async with open_checked_service(config) as service, trio.open_nursery() as nursery:
        session_id = (await service.create_session()).session_id
        stage = Stage(Paper())
        steady, lazy = (Viewer(service.follow(session_id), stage) for _ in range(2))
        await nursery.start(steady.run)
        await nursery.start(lazy.run)
        lazy.stop_reading()
        await service.send_user_message(session_id, "go")
        await provider.wait_for_pause("wait")
        await trio.testing.wait_all_tasks_blocked()
        behind = steady.place - lazy.place
        lazy.read_again()
        await stage.wait_until(lambda: lazy.place == steady.place)
        snapshot = await service.load_session(session_id)

        assert behind > 16
        assert (1, behind - 16, behind) == (lazy.resyncs, lazy.missed, lazy.skipped)
        assert (0, 0) == (steady.resyncs, steady.missed)
        assert steady.picture() == lazy.picture()
        assert is_same_picture(lazy.picture(), snapshot)
        nursery.cancel_scope.cancel()
