"""Split an HTML page into text and tags, in linear time.

The parser of the standard library takes minutes for a hundred kilobytes of half-open tags, and cannot be stopped. This
one looks at every character a fixed number of times: an unclosed construct swallows the rest of the page, as in a
browser.
"""

import html
import re
from collections.abc import Iterator
from typing import Final, Literal

import attrs

MAX_ATTRIBUTES: Final = 50
"""Attributes kept per tag; no honest tag has more."""

_NAME: Final = re.compile(r"[^\s/>]++")
_BETWEEN: Final = re.compile(r"[\s/]*+")
_ATTRIBUTE: Final = re.compile(r"=?+[^\s/>=]*+")
_EQUALS: Final = re.compile(r"\s*+=\s*+")
_BARE_VALUE: Final = re.compile(r"[^\s>]*+")
_RAW: Final = {
    name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE | re.ASCII)
    for name in ("script", "style", "title", "textarea", "iframe", "xmp", "noembed", "noframes")
}
"""Elements in which only their own end tag is a tag."""


@attrs.frozen(kw_only=True)
class Tag:
    """A tag; `attributes` have lower-case names and raw values."""

    kind: Literal["open", "close"]
    name: str
    attributes: dict[str, str] = attrs.field(factory=dict)

    def attribute(self, name: str) -> str:
        """Return the value with its character references replaced; empty if there is none."""
        return unescape(self.attributes.get(name, ""))


def tokens(page: str) -> Iterator[str | Tag]:
    """Yield the text, with character references replaced, and the tags; leaves out comments and declarations."""
    position = 0
    while position < len(page):
        start = page.find("<", position)
        if start < 0:
            yield unescape(page[position:])
            return
        if start > position:
            yield unescape(page[position:start])
        first = page[start + 1 : start + 2]
        closing = first == "/"
        if page.startswith("<!--", start):
            position = _position_after(page, "-->", start + 2)
        elif _is_letter(page[start + 2 : start + 3] if closing else first):
            tag, position = _read_tag(page, start + 1 + closing, closing=closing)
            if tag is None:
                return
            yield tag
            if not closing and tag.name in _RAW:
                end = _RAW[tag.name].search(page, position)
                if end is None:
                    return
                yield (
                    unescape(page[position : end.start()])
                    if tag.name in {"title", "textarea"}
                    else page[position : end.start()]
                )
                position = end.start()
        elif closing or first in {"!", "?"}:
            position = _position_after(page, ">", start + 1)
        else:
            yield "<"
            position = start + 1


def unescape(text: str) -> str:
    """Replace character references."""
    if "&" not in text:
        return text
    try:
        return html.unescape(text)
    except ValueError:  # a number of thousands of digits
        return text


def _is_letter(character: str) -> bool:
    return character.isascii() and character.isalpha()


def _position_after(page: str, end: str, start: int) -> int:
    found = page.find(end, start)
    return len(page) if found < 0 else found + len(end)


def _read_tag(page: str, position: int, *, closing: bool) -> tuple[Tag | None, int]:
    """Read a tag from its name on; None if the page ends within it."""
    name = _NAME.match(page, position)
    assert name is not None
    attributes: dict[str, str] = {}
    position = name.end()
    while True:
        position = _match_end(_BETWEEN, page, position)
        if position >= len(page):
            return None, position
        if page[position] == ">":
            break
        start, position = position, _match_end(_ATTRIBUTE, page, position)
        attribute, value = page[start:position].lower(), ""
        if equals := _EQUALS.match(page, position):
            start = equals.end()
            quote = page[start : start + 1]
            if quote in {'"', "'"}:
                end = page.find(quote, start + 1)
                if end < 0:
                    return None, len(page)
                value, position = page[start + 1 : end], end + 1
            else:
                position = _match_end(_BARE_VALUE, page, start)
                value = page[start:position]
        if len(attributes) < MAX_ATTRIBUTES:
            attributes.setdefault(attribute, value)
    return Tag(kind="close" if closing else "open", name=name.group().lower(), attributes=attributes), position + 1


def _match_end(pattern: re.Pattern[str], page: str, position: int) -> int:
    found = pattern.match(page, position)
    assert found is not None  # each of these patterns also matches the empty text
    return found.end()
