"""Hostile texts in every place on the screen: a terminal that reads what the app writes shows them as mere text."""

import unicodedata
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.frontends.terminal._asyncio import on_asyncio
from tests.frontends.terminal._emulated import emulator, harmful_in, shown_on
from tests.frontends.terminal._hostile import CORPUS, Hostile
from tests.frontends.terminal._hostile_scenes import SCENES, Scene
from tests.frontends.terminal._staged import Stage, open_stage

SIZE = (100, 34)
QUICK = 25
"""In the quick run each place is given every so many-th text, each place others."""
PORTIONS = 4
"""And at most so many screens full of them."""


def portions(scene: Scene, texts: Sequence[Hostile]) -> Iterator[list[Hostile]]:
    """Yield as many texts as fit, those that Markdown may read apart from the others."""
    for group in ([each for each in texts if not each.is_markdown], [each for each in texts if each.is_markdown]):
        for at in range(0, len(group), scene.holds):
            portion = group[at : at + scene.holds]
            yield portion if len(portion) > 1 else [*portion, group[0]]


class Watch:
    """Reads what a stage writes, as a terminal does."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._screen, self._stream = emulator(SIZE)

    def check(self) -> None:
        """Nothing was written that is not ours, and the terminal shows what the app has drawn."""
        written = self._stage.driver.take()
        assert harmful_in(written) == []
        self._stream.feed(written)
        drawn = [unicodedata.normalize("NFC", line) for line in self._stage.app.lines_on_screen()]
        assert shown_on(self._screen) == drawn


async def play(stage: Stage, scene: Scene, watch: Watch, texts: Sequence[Hostile]) -> None:
    """Show texts in their place, and what should be seen of them, and compare."""
    await scene.play(stage, [each.text for each in texts])
    watch.check()
    text, hostile = stage.text, stage.cells()
    if scene.leave is not None:
        await scene.leave(stage)
    await scene.play(stage, [each.judged if scene.judged else each.seen for each in texts])
    if scene.exact and not any(len(each.text) > scene.most or {*each.text} & {*scene.obeys} for each in texts):
        assert text.split("\n") == stage.text.split("\n")
        assert scene.judged or stage.cells() == hostile
    if scene.leave is not None:
        await scene.leave(stage)


def run(home: Path, scene: Scene, texts: Sequence[Hostile]) -> None:
    """Play a scene with all these texts; the app must live, and nothing else may have happened."""

    async def plays() -> None:
        async with open_stage(home, size=SIZE) as stage:
            watch = Watch(stage)
            for portion in portions(scene, texts):
                await play(stage, scene, watch, portion)
            assert stage.app.is_running
            assert stage.app.fault is None
            assert len(stage.app.screen_stack) == 1

    on_asyncio(plays, seconds=1_200)


@pytest.mark.parametrize(
    "scene",
    [*SCENES[:2], *(pytest.param(scene, marks=pytest.mark.slow) for scene in SCENES[2:])],
    ids=lambda scene: scene.name,
)
def test_hostile_text_is_only_text(scene: Scene, tmp_path: Path) -> None:
    """No sequence reaches the terminal, and the screen is the same as with the harmless text that may be seen."""
    run(tmp_path, scene, CORPUS[SCENES.index(scene) % QUICK :: QUICK][: scene.holds * PORTIONS])


@pytest.mark.slow
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_every_hostile_text_in_every_place(scene: Scene, tmp_path: Path) -> None:
    """The same with all texts in all places."""
    run(tmp_path, scene, CORPUS)


def test_there_are_many() -> None:
    """The collection is as large as was promised, and of many kinds."""
    assert len(CORPUS) >= 500
    assert len({each.family for each in CORPUS}) >= 40
