"""The page of the terminal speaks of keys, commands and pictures that there are."""

import re

from textual.binding import Binding

from frontends.terminal.actions.slash_commands import SLASH
from frontends.terminal.app import TerminalApp
from frontends.terminal.composer.keys import TABLE
from frontends.terminal.panels.extension_widgets import WidgetPanel
from frontends.terminal.panels.message_queue import QueuePanel
from frontends.terminal.panels.sidebar import Sidebar
from frontends.terminal.questions.panel import RequestPanel
from frontends.terminal.transcript.view import Transcript
from tests.docs._documents import ROOT
from tests.frontends.terminal._picture_scenes import SCENES

PAGE = (ROOT / "docs" / "terminal.md").read_text(encoding="utf-8")
PROSE = re.sub(r"<!-- generated: .*?<!-- end -->", "", PAGE, flags=re.DOTALL)
ANY_OF_NINE = {f"alt+{number}" for number in range(2, 9)}


def keys_of(*kinds: type) -> set[str]:
    """The keys that are bound in these widgets, by Textual's names."""
    bindings = [each for kind in kinds for each in vars(kind)["BINDINGS"]]
    return {key for each in bindings if isinstance(each, Binding) for key in each.key.split(",")}


def told_in(text: str) -> set[str]:
    """The function keys, and the keys with others held down, that a text names."""
    found: list[str] = re.findall(r"\b(?:F\d+|(?:Ctrl|Alt|Shift)\+\w+)\b", text)
    return {each.lower() for each in found}


def test_keys_of_the_page_are_bound() -> None:
    """Every key that the text tells people to press means something."""
    panels = keys_of(TerminalApp, Transcript, Sidebar, RequestPanel, QueuePanel, WidgetPanel)
    typing = {key for row in TABLE for key in row.keys.split()}

    assert set() == told_in(PROSE) - panels - typing


def test_keys_that_work_anywhere_are_on_the_page() -> None:
    """Every key with a meaning of its own in the whole terminal is told."""
    bound = {key for key in keys_of(TerminalApp) if re.match(r"f\d|(?:ctrl|alt)\+", key)}

    assert ANY_OF_NINE == bound - told_in(PAGE)


def test_commands_of_the_page_exist() -> None:
    """Every command that the text names is one of the terminal."""
    known = {name for each in SLASH for name in (each.name, *each.aliases)}

    assert {"extension"} == set(re.findall(r"`/([a-z-]+)", PROSE)) - known


def test_every_picture_is_shown_with_its_words() -> None:
    """Each picture of the terminal stands on its page, once, with the words that say what it shows."""
    shown = re.findall(r"^!\[(.*)\]\(images/terminal/(.*)\.svg\)$", PAGE, re.MULTILINE)

    assert sorted((scene.title, scene.name) for scene in SCENES) == sorted(shown)
