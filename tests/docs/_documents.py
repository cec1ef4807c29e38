"""What the tests of the documents share: where they are, and what stands in them."""

import re
from collections.abc import Iterator
from pathlib import Path

import attrs

ROOT = Path(__file__).resolve().parents[2]

_FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#+ (.*)$", re.MULTILINE)


@attrs.frozen
class Block:
    """A fenced block of a document."""

    language: str
    text: str


def documents(root: Path = ROOT) -> list[Path]:
    """Every page that a reader of the project may open."""
    return sorted([*root.glob("*.md"), *(root / "docs").rglob("*.md")])


def blocks(text: str) -> list[Block]:
    """The fenced blocks of a text, in order."""
    return [Block(found[1], found[2]) for found in _FENCE.finditer(text)]


def links(text: str) -> list[str]:
    """Where the links and pictures of a text lead; what only looks like one inside a fenced block does not count."""
    return _LINK.findall(_FENCE.sub("", text))


def anchors(text: str) -> set[str]:
    """The names under which the headings of a text can be reached."""
    headings = _HEADING.findall(_FENCE.sub("", text))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path, root: Path = ROOT) -> Iterator[str]:
    """The links of a page that lead to no file or no heading of this project; addresses elsewhere are not looked at."""
    for link in links(page.read_text(encoding="utf-8")):
        if re.match(r"https?://", link):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists() or not target.resolve().is_relative_to(root.resolve()):
            yield f"{page.relative_to(root)}: {link} leads nowhere"
        elif anchor and anchor not in anchors(target.read_text(encoding="utf-8")):
            yield f"{page.relative_to(root)}: {link} names a heading that is not there"
