r"""A session as a Markdown text in which foreign text can form only prose, lists and code.

Rules:
1. Headings are ours alone. A heading in foreign text becomes bold.
2. Long and literal texts are fenced; a fence is longer than any line of backticks within.
3. In prose `<`, `>` and `&` are entities, so there is no HTML, and brackets, bars, dollars, tildes and backslashes are
   escaped, so there is no link, image, table or formula. Emphasis stays, as does short code without any of these.
4. A line that begins like a block is escaped there, unless it is a list item; we decide its depth.
"""

import re
from collections.abc import Iterator, Sequence

import attrs

import session_core as sc
from frontends.commands.export.facts import SubSession
from frontends.commands.export.paragraphs import fence_for, passages
from frontends.commands.export.writer import DocumentWriter
from frontends.shared.conversation.tool_calls import describe_image

_PROSE = str.maketrans({"<": "&lt;", ">": "&gt;", "&": "&amp;"} | {each: f"\\{each}" for each in "\\[]|$~`"})
_TITLE = {**_PROSE, **str.maketrans({each: f"\\{each}" for each in "*_#"})}
_CODE = re.compile(r"(?<!`)`([^`<>&|$~\\\[\]\n]{1,200})`(?!`)")
_HEADING = re.compile(r"#{1,6}[ \t]+(.*?)[ \t#]*")
_ITEM = re.compile(r"([ \t]*)([-*+]|[0-9]{1,9}[.)])[ \t]+(.*\S.*)")
_NUMBER = re.compile(r"([0-9]{1,9})([.)])")
_BLOCK = "#-+=_:"
_DEEPEST = 5


def inline(text: str) -> str:
    """Escape a piece of prose within a line."""
    pieces: list[str] = []
    position = 0
    for found in _CODE.finditer(text):
        pieces += [text[position : found.start()].translate(_PROSE), found[0]]
        position = found.end()
    return "".join([*pieces, text[position:].translate(_PROSE)])


def prose(text: str) -> Iterator[str]:
    """Yield the lines of a text as they may stand in a document."""
    depth = -1
    for line in text.split("\n"):
        stripped = line.strip()
        if not stripped:
            yield ""
            continue
        item = _ITEM.fullmatch(line)
        if item is not None:
            wanted = len(item[1].expandtabs(4)) // 2
            depth = min(wanted, depth + 1, _DEEPEST)
            yield f"{' ' * 4 * depth}{item[2]} {_escape_line_start(item[3].strip())}"
            continue
        depth = -1
        heading = _HEADING.fullmatch(stripped)
        if heading is not None and heading[1].strip():
            yield f"**{inline(heading[1].strip()).replace('*', '')}**  "
        else:
            yield f"{_escape_line_start(stripped)}  "  # two spaces: keep the author's line break


def _escape_line_start(text: str) -> str:
    number = _NUMBER.match(text)
    if number is not None:
        return f"{number[1]}\\{number[2]}{inline(text[number.end() :])}"
    if text[0] == "*":
        return _escape_stars(text)
    return f"\\{text[0]}{inline(text[1:])}" if text[0] in _BLOCK else inline(text)


def _escape_stars(text: str) -> str:
    """Escape a line that begins with stars: it may be bold, but neither a list item nor a rule."""
    stars = len(text) - len(text.lstrip("*"))
    rest = text[stars:]
    if stars == 2 and rest and not rest[0].isspace() and not set(rest) <= set("* \t"):
        return f"**{inline(rest)}"
    return "\\*" * stars + inline(rest)


def fence_text(text: str, language: str = "") -> str:
    """Return a text in a fence."""
    fence = fence_for(text)
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n\n"


@attrs.frozen(kw_only=True)
class MarkdownDocument(DocumentWriter[str]):
    """Writes a session as Markdown, piece by piece."""

    def head(self) -> Iterator[str]:
        """Identify the session."""
        yield f"# {_title(self.about.name)}\n\n"
        yield (
            "".join(f"- {_title(word)}: {_title(said)}\n" for word, said in (*self.about.facts, *self.about.spent))
            + "\n"
        )
        if self.about.plan:
            yield "Plan:\n\n" + "".join(f"- {status}: {_title(text)}\n" for status, text in self.about.plan) + "\n"
        for remark in self.about.remarks:
            yield self._remark(remark)

    def end(self) -> Iterator[str]:
        """List the sessions that did part of the work."""
        if self.about.subsessions:
            yield "## Sub-sessions\n\n"
            for each in self.about.subsessions.values():
                yield f"- {_title(each.name)}: session-core export {_title(each.session_id)} --format markdown\n"
            yield "\n"
        yield self._remark(f"Written by session-core {sc.__version__}. What looks like a key is masked.")

    # --- elements -----------------------------------------------------------------------------------------------------

    def _article(self, role: str, who: str, when: str, used: str, parts: Iterator[str]) -> Iterator[str]:
        yield f"## {_title(who)}\n\n"
        if when:
            yield self._remark(f"{when}; {used}" if used else when)
        yield from parts

    def _text(self, text: str) -> Iterator[str]:
        for passage in passages(self.cleaning.text(text)):
            if passage.code:
                yield fence_text(passage.text, passage.language)
            else:
                yield "\n".join(prose(passage.text.strip("\n"))).rstrip() + "\n\n"

    def _verbatim(self, text: str, language: str) -> str:
        return fence_text(text, language)

    def _section(self, kind: str, title: str, content: Sequence[str]) -> str:
        return f"### {_title(title)}\n\n" + "".join(content)

    def _image(self, image: sc.ImagePart) -> str:
        return self._remark(self.cleaning.line(describe_image(image)))

    def _done_by(self, subsession: SubSession) -> str:
        return self._remark(f"Done by the sub-session {subsession.name}.")

    def _remark(self, sentence: str) -> str:
        return f"_{_title(sentence)}_\n\n"


def _title(text: str) -> str:
    """Escape a line that follows a mark of ours, where even emphasis would be out of place."""
    return text.translate(_TITLE)
