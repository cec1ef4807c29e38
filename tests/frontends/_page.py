"""Reading what an export has written, strictly: what does not belong into it is an error."""

import re
from html.parser import HTMLParser

from frontends.commands.export.html import ELEMENTS

VOID = {"meta", "img"}
CLASSES = {
    "user", "assistant", "tool", "summary", "text", "remark", "usage", "about", "thinking", "call", "result", "failed",
    "file", "add", "del", "place",
}  # fmt: skip
_IMAGE = re.compile(r"data:image/(?:png|jpeg|gif|webp);base64,[A-Za-z0-9+/]+={0,2}")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


class Page(HTMLParser):
    """The elements of a page in their order, and its text; raises where something is not in our table."""

    def __init__(self, markup: str) -> None:
        super().__init__(convert_charrefs=True)
        self.structure: list[str] = []
        self.text = ""
        self.images: list[str] = []
        self._open: list[str] = []
        assert markup.startswith("<!DOCTYPE html>\n")
        self.feed(markup.removeprefix("<!DOCTYPE html>\n"))
        self.close()
        assert [] == self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in ELEMENTS, f"<{tag}> does not belong here"
        given = dict(attrs)
        assert given.keys() <= ELEMENTS[tag], f"<{tag} {attrs}> does not belong here"
        assert len(given) == len(attrs)
        assert given.get("class", "text") in CLASSES
        assert re.fullmatch(r"#sub-\d+", given.get("href", "#sub-1") or "")
        assert re.fullmatch(r"sub-\d+", given.get("id", "sub-1") or "")
        if tag == "img":
            assert _IMAGE.fullmatch(given["src"] or "")
            self.images.append(given["src"] or "")
        self.structure.append(f"<{tag} {sorted(given)}>")
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        raise AssertionError(f"<{tag}/> does not belong here")

    def handle_endtag(self, tag: str) -> None:
        assert tag == self._open.pop()
        self.structure.append(f"</{tag}>")

    def handle_data(self, data: str) -> None:
        self.text += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(f"a comment: {data!r}")

    def handle_decl(self, decl: str) -> None:
        raise AssertionError(f"a declaration: {decl!r}")

    def handle_pi(self, data: str) -> None:
        raise AssertionError(f"an instruction: {data!r}")

    def unknown_decl(self, data: str) -> None:
        raise AssertionError(f"a declaration: {data!r}")


def outside_fences(markdown: str) -> list[str]:
    """The lines of a Markdown text that stand in no fence; one that is not closed is an error."""
    lines: list[str] = []
    fence = ""
    for line in markdown.split("\n"):
        found = _FENCE.fullmatch(line)
        if fence:
            if found is not None and found[1].startswith(fence) and not found[2].strip():
                fence = ""
        elif found is not None:
            assert line.startswith("```"), f"a fence that is not ours: {line!r}"
            fence = found[1]
        else:
            lines.append(line)
    assert "" == fence
    return lines


def blocks_in(line: str) -> str:
    """What a line of Markdown begins, beside a paragraph or an item of a list."""
    bare = line.strip()
    item = re.match(r"(?:[-*+]|\d{1,9}[.)])(?: +|$)", bare)
    while item is not None and not re.fullmatch(r"(?:[-*_][ \t]*){3,}", bare):
        bare = bare[item.end() :]
        item = re.match(r"(?:[-*+]|\d{1,9}[.)])(?: +|$)", bare)
    for name, pattern in {
        "heading": r"#{1,6}(?: .*|)",
        "underline": r"=+|-+",
        "rule": r"(?:[-*_][ \t]*){3,}",
        "quote": r">.*",
        "table": r"[:|-][-:| ]*",
        "fence": r"(?:```|~~~).*",
        "html": r"<.*",
    }.items():
        if re.fullmatch(pattern, bare):
            return name
    return (
        "code" if line.startswith("    ") and not line.lstrip()[:1].isdigit() and line.lstrip()[:1] not in "-*+" else ""
    )


def without_code(line: str) -> str:
    """A line without its short pieces of code and without what is escaped."""
    return re.sub(r"\\[!-/:-@\[-`{-~]", "", re.sub(r"(?<![\\`])`[^`]+`(?!`)", "", line))
