"""Cut a page of HTML into text and tags, in time that grows with its length and no faster.

The parser of the standard library takes minutes for a hundred kilobytes of half-open tags, and nobody can stop it.
This one looks at every character a fixed number of times: what is never closed swallows the rest of the page, as in a
browser.
"""

import html
import re
from collections.abc import Iterator
from typing import Final, Literal

import attrs

MAX_ATTRIBUTES: Final = 50
"""Attributes of one tag that are kept; no honest tag has more."""

_NAME: Final = re.compile(r"[^\s/>]++")
_BETWEEN: Final = re.compile(r"[\s/]*+")
_ATTRIBUTE: Final = re.compile(r"=?+[^\s/>=]*+")
_EQUALS: Final = re.compile(r"\s*+=\s*+")
_BARE_VALUE: Final = re.compile(r"[^\s>]*+")
_RAW: Final = {
    name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE | re.ASCII)
    for name in ("script", "style", "title", "textarea", "iframe", "xmp", "noembed", "noframes")
}
"""Elements in which nothing but their own end is a tag."""


@attrs.frozen(kw_only=True)
class Tag:
    """A tag; `attributes` have small names and values as the page wrote them."""

    kind: Literal["open", "close"]
    name: str
    attributes: dict[str, str] = attrs.field(factory=dict)

    def attribute(self, name: str) -> str:
        """Return the value as meant, with its character references replaced; empty when there is none."""
        return unescape(self.attributes.get(name, ""))


def tokens(page: str) -> Iterator[str | Tag]:
    """Yield the page piece by piece: text as meant, tags; comments and declarations are left out."""
    at = 0
    while at < len(page):
        start = page.find("<", at)
        if start < 0:
            yield unescape(page[at:])
            return
        if start > at:
            yield unescape(page[at:start])
        first = page[start + 1 : start + 2]
        closing = first == "/"
        if page.startswith("<!--", start):
            at = _after(page, "-->", start + 2)
        elif _is_letter(page[start + 2 : start + 3] if closing else first):
            tag, at = _tag(page, start + 1 + closing, closing=closing)
            if tag is None:
                return
            yield tag
            if not closing and tag.name in _RAW:
                end = _RAW[tag.name].search(page, at)
                if end is None:
                    return
                yield unescape(page[at : end.start()]) if tag.name in {"title", "textarea"} else page[at : end.start()]
                at = end.start()
        elif closing or first in {"!", "?"}:
            at = _after(page, ">", start + 1)
        else:
            yield "<"
            at = start + 1


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


def _after(page: str, end: str, start: int) -> int:
    found = page.find(end, start)
    return len(page) if found < 0 else found + len(end)


def _tag(page: str, at: int, *, closing: bool) -> tuple[Tag | None, int]:
    """Read a tag from its name on; None when the page ends within it."""
    name = _NAME.match(page, at)
    assert name is not None
    attributes: dict[str, str] = {}
    at = name.end()
    while True:
        at = _end(_BETWEEN, page, at)
        if at >= len(page):
            return None, at
        if page[at] == ">":
            break
        start, at = at, _end(_ATTRIBUTE, page, at)
        attribute, value = page[start:at].lower(), ""
        if equals := _EQUALS.match(page, at):
            start = equals.end()
            quote = page[start : start + 1]
            if quote in {'"', "'"}:
                end = page.find(quote, start + 1)
                if end < 0:
                    return None, len(page)
                value, at = page[start + 1 : end], end + 1
            else:
                at = _end(_BARE_VALUE, page, start)
                value = page[start:at]
        if len(attributes) < MAX_ATTRIBUTES:
            attributes.setdefault(attribute, value)
    return Tag(kind="close" if closing else "open", name=name.group().lower(), attributes=attributes), at + 1


def _end(pattern: re.Pattern[str], page: str, at: int) -> int:
    found = pattern.match(page, at)
    assert found is not None  # each of these patterns matches nothing too
    return found.end()
