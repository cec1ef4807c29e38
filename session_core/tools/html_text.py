"""Turn an HTML page into text that a model reads easily: headings, links, lists, code, rough tables.

Leaves out scripts, styles and images without a description. For any page, the time is linear in its length and the
result is bounded.
"""

import re
from collections.abc import Callable
from typing import Final
from urllib.parse import urljoin, urlsplit

import attrs

from session_core.limits import MAX_TOOL_OUTPUT_CHARS
from session_core.tools.html_tokens import Tag, tokens

MAX_LINK_CHARS: Final = 2_000
"""Longer addresses are data; only the text of such a link is kept."""
MAX_INDENT: Final = 8
"""The deepest nesting of lists and quotations that is shown."""

_HEADINGS: Final = {f"h{level}": "#" * level + " " for level in range(1, 7)}
_PARAGRAPHS: Final = frozenset({"p", "pre", "ul", "ol", "dl", "blockquote", "table", "figure", "hr", *_HEADINGS})
"""Blocks with an empty line around them."""
_LINES: Final = frozenset({
    "div", "section", "article", "main", "header", "footer", "nav", "aside", "form", "fieldset", "details", "summary",
    "address", "li", "dt", "dd", "br", "tr", "figcaption", "caption", "option", "body", "html",
})  # fmt: skip
"""Blocks that begin a new line."""
_LEFT_OUT: Final = frozenset({"script", "style", "iframe", "noembed", "noframes", "svg", "math", "template", "canvas"})
_BACKTICKS: Final = re.compile("`+")


@attrs.frozen(kw_only=True)
class PageText:
    """A page as text; `complete` is false when it was longer than asked for."""

    title: str
    text: str
    complete: bool


def html_to_text(page: str, *, base_url: str = "", limit: int = MAX_TOOL_OUTPUT_CHARS) -> PageText:
    """Turn a page into at most `limit` characters of text, with links resolved against the address of the page."""
    writer = _Writer(base_url)
    complete = True
    for token in tokens(page):
        if isinstance(token, str):
            writer.write(token)
        elif token.kind == "open":
            writer.open(token)
        else:
            writer.close(token.name)
        if writer.size > limit:
            complete = False
            break
    text = writer.finish()
    return PageText(title=writer.title, text=text[:limit].rstrip(), complete=complete and len(text) <= limit)


class _Writer:
    """Writes the page line by line; collects inline text until its line ends."""

    def __init__(self, base_url: str) -> None:
        self.title = ""
        self.size = 0
        self._base = base_url
        self._lines: list[str] = []
        self._inline: list[str] = []
        self._left_out: str | None = None
        self._left_out_depth = 0
        self._in_title = False
        self._lists: list[int | None] = []
        """The open lists: the next number of each, or None for bullets."""
        self._quotes = 0
        self._mark = ""
        """The prefix of the next line: a bullet, a number or the signs of a heading."""
        self._link: tuple[int, str] | None = None
        """The start of the open link in the inline text, and its target."""
        self._preformatted = False
        self._row: list[str] | None = None
        self._rows = 0

    def write(self, text: str) -> None:
        if self._left_out is not None:
            return
        if self._in_title:
            self.title = self.title or " ".join(text.split())[:300]
            return
        self.size += len(text)
        self._inline.append(text)

    def open(self, tag: Tag) -> None:
        name = tag.name
        if self._left_out is not None:
            self._left_out_depth += name == self._left_out
            return
        if name in _LEFT_OUT:
            self._left_out, self._left_out_depth = name, 1
            return
        if name in _PARAGRAPHS or name in _LINES:
            self._end_line(blank=self._needs_blank_line(name))
        if action := _OPEN_HANDLERS.get(name):
            action(self, tag)
        elif name in _HEADINGS:
            self._mark = _HEADINGS[name]

    def close(self, name: str) -> None:
        if self._left_out is not None:
            self._left_out_depth -= name == self._left_out
            if self._left_out_depth == 0:
                self._left_out = None
            return
        if action := _CLOSE_HANDLERS.get(name):
            action(self)
        if name in _PARAGRAPHS or name in _LINES:
            self._end_line(blank=self._needs_blank_line(name))
            if name in _HEADINGS or name == "li":
                self._mark = ""

    def _needs_blank_line(self, name: str) -> bool:
        return name in _PARAGRAPHS and not (name in {"ul", "ol"} and self._lists)

    def finish(self) -> str:
        if self._preformatted:
            self.end_preformatted()
        self.end_row()
        self._end_line(blank=False)
        return "\n".join(self._lines).strip("\n")

    def _end_line(self, *, blank: bool) -> None:
        if self._preformatted:
            return
        if self._row is not None:  # a cell is always one line
            self._inline.append(" ")
            return
        link = self._link
        self.end_link()
        text = " ".join("".join(self._inline).split())
        self._inline.clear()
        if text:
            self._write_line(text)
        elif link is not None:  # its text is in the block that begins here
            self._link = 0, link[1]
        if blank and self._lines and self._lines[-1]:
            self._lines.append("")

    def _write_line(self, text: str) -> None:
        inside = min(len(self._lists), MAX_INDENT)
        indent = "  " * (inside - 1 if self._mark and inside else inside)
        line = "> " * min(self._quotes, MAX_INDENT) + indent + self._mark + text
        self._mark = ""
        self._lines.append(line)
        self.size += len(line) - len(text) + 1

    def start_link(self, tag: Tag) -> None:
        self.end_link()
        address = self._resolve_address(tag.attribute("href"))
        if address:
            self._link = len(self._inline), address

    def end_link(self) -> None:
        if self._link is None:
            return
        start, address = self._link
        self._link = None
        written = "".join(self._inline[start:])
        text = " ".join(written.split())
        if text and not self._preformatted:
            before = " " if written[0].isspace() else ""
            after = " " if written[-1].isspace() else ""
            self._inline[start:] = [f"{before}[{text}]({address}){after}"]
            self.size += len(address) + 4

    def _resolve_address(self, reference: str) -> str:
        """Return the whole address, or an empty text if it leads to this page or nowhere."""
        reference = reference.strip()
        if not reference or reference.startswith("#") or len(reference) > MAX_LINK_CHARS:
            return ""
        try:
            address = urljoin(self._base, reference)
            scheme = urlsplit(address).scheme.lower()
        except ValueError:
            return ""
        if scheme not in {"http", "https", "mailto", ""} or len(address) > MAX_LINK_CHARS:
            return ""
        return address.replace(" ", "%20").replace("(", "%28").replace(")", "%29")

    def set_base(self, tag: Tag) -> None:
        self._base = self._resolve_address(tag.attribute("href")) or self._base

    def write_image(self, tag: Tag) -> None:
        words = " ".join(tag.attribute("alt").split())
        if words:
            self.write(f"[image: {words}]")

    def start_list(self, first: int | None) -> None:
        self._lists.append(first)

    def end_list(self) -> None:
        self._end_line(blank=False)
        if self._lists:
            self._lists.pop()

    def start_item(self, tag: Tag) -> None:
        number = self._lists[-1] if self._lists else None
        self._mark = "- " if number is None else f"{number}. "
        if number is not None:
            self._lists[-1] = number + 1

    def start_quote(self, tag: Tag) -> None:
        self._quotes += 1

    def end_quote(self) -> None:
        self._end_line(blank=False)
        self._quotes = max(0, self._quotes - 1)

    def write_backtick(self) -> None:
        if not self._preformatted:
            self._inline.append("`")

    def start_preformatted(self, tag: Tag) -> None:
        self._preformatted = self._row is None

    def end_preformatted(self) -> None:
        if not self._preformatted:
            return
        self._preformatted = False
        self._link = None
        text = "".join(self._inline).strip("\n")
        self._inline.clear()
        if text:
            fence = "`" * max(3, 1 + max((len(run) for run in _BACKTICKS.findall(text)), default=0))
            self._lines += [fence, *text.split("\n"), fence]

    def write_line_break(self, tag: Tag) -> None:
        if self._preformatted:
            self._inline.append("\n")

    def write_rule(self, tag: Tag) -> None:
        if self._row is None:
            self._lines.append("---")

    def start_table(self, tag: Tag) -> None:
        self.end_row()  # a table in a table cell: the outer table is only layout
        self._rows = 0

    def start_row(self, tag: Tag) -> None:
        self.end_row()
        if not self._preformatted:
            self._end_line(blank=False)
            self._row = []

    def start_cell(self, tag: Tag) -> None:
        if self._row is not None:
            self._end_cell()

    def _end_cell(self) -> None:
        if self._row is None:
            return
        self.end_link()
        text = " ".join("".join(self._inline).split()).replace("|", "\\|")
        self._inline.clear()
        if text or self._row:
            self._row.append(text)

    def end_row(self) -> None:
        if self._row is None:
            return
        self._end_cell()
        row, self._row = self._row, None
        while row and not row[-1]:
            row.pop()
        if len(row) > 1:
            self._write_line(f"| {' | '.join(row)} |")
            if self._rows == 0:
                self._write_line("|" + " --- |" * len(row))
        elif row:
            self._write_line(row[0].replace("\\|", "|"))
        self._rows += bool(row)

    def start_title(self, tag: Tag) -> None:
        self._in_title = True

    def end_title(self) -> None:
        self._in_title = False


_OPEN_HANDLERS: Final[dict[str, Callable[[_Writer, Tag], None]]] = {
    "a": _Writer.start_link,
    "base": _Writer.set_base,
    "img": _Writer.write_image,
    "ul": lambda writer, _: writer.start_list(None),
    "ol": lambda writer, _: writer.start_list(1),
    "li": _Writer.start_item,
    "blockquote": _Writer.start_quote,
    "code": lambda writer, _: writer.write_backtick(),
    "pre": _Writer.start_preformatted,
    "br": _Writer.write_line_break,
    "hr": _Writer.write_rule,
    "table": _Writer.start_table,
    "tr": _Writer.start_row,
    "td": _Writer.start_cell,
    "th": _Writer.start_cell,
    "title": _Writer.start_title,
}
_CLOSE_HANDLERS: Final[dict[str, Callable[[_Writer], None]]] = {
    "a": _Writer.end_link,
    "ul": _Writer.end_list,
    "ol": _Writer.end_list,
    "blockquote": _Writer.end_quote,
    "code": _Writer.write_backtick,
    "pre": _Writer.end_preformatted,
    "tr": _Writer.end_row,
    "table": _Writer.end_row,
    "title": _Writer.end_title,
}
