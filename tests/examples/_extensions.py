"""The extensions under `examples/extensions`, put into the home of a real service, and what people see of them."""

import shutil
import sys
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from session_core.sep.protocol.names import UI_KINDS
from session_core.vocabulary.extensions import ExtensionDisplay
from session_core.vocabulary.messages import ToolResultPart
from session_core.vocabulary.sessions import Dialog
from session_core.vocabulary.snapshots import SessionSnapshot
from tests.session_core.sep._service import Home, World

FOLDER = Path(__file__).resolve().parents[2] / "examples" / "extensions"
NAMES = tuple(sorted(path.parent.name for path in FOLDER.glob("*/extension.toml")))


def source_of(name: str) -> Path:
    """The one Python file of an example."""
    (file,) = (FOLDER / name).glob("*.py")
    return file


def home_with(place: Path, names: Iterable[str]) -> Home:
    """A home into which people have copied some of the examples, with this Python first on their PATH."""
    home = Home(place)
    home.environ["PATH"] = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    for name in names:
        folder = home.path / "extensions" / name
        shutil.copytree(FOLDER / name, folder, ignore=shutil.ignore_patterns("__pycache__"))
        home.agree(name, folder)
    return home


def change(home: Home, name: str, before: str, after: str) -> None:
    """Edit the source of an extension in a home, as its author would, and agree to it anew."""
    file = home.path / "extensions" / name / source_of(name).name
    text = file.read_text()
    assert before in text
    file.write_text(text.replace(before, after))
    home.agree(name, file.parent)


async def seen(world: World, holds: Callable[[SessionSnapshot], bool]) -> SessionSnapshot:
    """Wait until the session looks so."""
    async with world.service.subscribe(world.session_id) as events:
        while not holds(snapshot := await world.service.load_session(world.session_id)):
            await events.receive_batch()
    return snapshot


def shown_by(snapshot: SessionSnapshot, extension: str) -> ExtensionDisplay:
    """What an extension shows beside the conversation; nothing at all is an empty display."""
    found = (each for each in snapshot.displays if each.extension == extension)
    return next(found, ExtensionDisplay(extension=extension))


async def results(world: World) -> list[str]:
    """What the model was told of all its calls so far."""
    messages = (await world.service.load_session(world.session_id)).messages
    return [part.text for each in messages for part in each.parts if isinstance(part, ToolResultPart)]


async def command(world: World, name: str, arguments: str = "") -> str:
    """What a command has to say."""
    return (await world.service.run_command(world.session_id, name, arguments)).content


@asynccontextmanager
async def answering(world: World, *answers: bool) -> AsyncGenerator[list[Dialog]]:
    """Sit before the session, see everything, and give these answers to the dialogs that come; they are listed."""
    asked: list[Dialog] = []
    with world.service.attach("somebody", ui=UI_KINDS) as somebody:

        async def answer_all() -> None:
            for answer in answers:
                snapshot = await seen(world, lambda now: any(each not in asked for each in now.dialogs))
                asked.append(next(each for each in snapshot.dialogs if each not in asked))
                await somebody.answer_dialog(world.session_id, asked[-1].request_id, answer)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer_all)
            yield asked
            nursery.cancel_scope.cancel()
