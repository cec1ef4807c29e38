"""The extension that the documents show is a real one."""

import shutil
import sys
from pathlib import Path

from session_core.testing.scripted import text, tool_call
from session_core.vocabulary.messages import ToolResultPart
from tests.docs._documents import ROOT
from tests.session_core.sep._service import Home, open_world

EXAMPLE = ROOT / "examples" / "hello_extension"


async def test_the_example_does_what_it_says(tmp_path: Path) -> None:
    """Its command greets and tells the conversation so, its tool shouts, and its hook guards the file."""
    home = Home(tmp_path)
    home.environ["PATH"] = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    folder = home.path / "extensions" / "hello"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__"))
    home.agree("hello", folder)
    answers = (
        tool_call("hello.shout", {"text": "quietly"}),
        tool_call("hello.shout", {"text": "secrets.txt"}),
        text("Done."),
    )
    async with open_world(home, *answers, permission_mode="full") as world:
        said = await world.service.run_command(world.session_id, "hi", "Ada")
        await world.turn("Go on.")
        snapshot = await world.service.load_session(world.session_id)

    assert "said hello to Ada" == said.content
    assert "Hello, Ada!" == snapshot.messages[0].text
    parts = [part for message in snapshot.messages for part in message.parts]
    results = [part.text for part in parts if isinstance(part, ToolResultPart)]
    assert ["QUIETLY", "Blocked by an extension: hello: secrets.txt is none of its business"] == results
