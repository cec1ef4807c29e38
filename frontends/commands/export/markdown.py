r"""A session as a Markdown text in which foreign text can form only prose, lists and code.

Rules:
1. Headings are ours alone. A heading in foreign text becomes bold.
2. Long and literal texts are fenced; a fence is longer than any line of backticks within.
3. In prose `<`, `>` and `&` are entities, so there is no HTML, and brackets, bars, dollars, tildes and backslashes are
   escaped, so there is no link, image, table or formula. Emphasis stays, as does short code without any of these.
4. A line that begins like a block is escaped there, unless it is a list item; we decide its depth.
"""

import re
from collections.abc import Iterator

import attrs

import session_core as sc
from frontends.commands.export import facts
from frontends.commands.export.document_text import CutText, DocumentSanitiser
from frontends.commands.export.paragraphs import fence_for, passages
from frontends.shared.conversation.tool_calls import describe_image, find_diff

_PROSE = str.maketrans({"<": "&lt;", ">": "&gt;", "&": "&amp;"} | {each: f"\\{each}" for each in "\\[]|$~`"})
_TITLE = {**_PROSE, **str.maketrans({each: f"\\{each}" for each in "*_#"})}
_CODE = re.compile(r"(?<!`)`([^`<>&|$~\\\[\]\n]{1,200})`(?!`)")
_HEADING = re.compile(r"#{1,6}[ \t]+(.*?)[ \t#]*")
_ITEM = re.compile(r"([ \t]*)([-*+]|[0-9]{1,9}[.)])[ \t]+(.*\S.*)")
_NUMBER = re.compile(r"([0-9]{1,9})([.)])")
_BLOCK = "#-+=_:"
_DEEPEST = 5
_CODE_CHARS = 200_000


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
class MarkdownDocument:
    """Writes a session as Markdown, piece by piece."""

    about: facts.DocumentFacts
    cleaning: DocumentSanitiser

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
            yield _remark(remark)

    def message(self, message: sc.Message, branch: int = 0) -> Iterator[str]:
        """Write a message; `branch` is how many hidden messages continue from it."""
        who = _title(facts.speaker(message, self.cleaning))
        yield f"## {who}\n\n"
        used = f"; {facts.spent(message.usage)}" if message.usage is not None else ""
        yield _remark(f"{facts.moment(message.created_at)}{used}")
        for part in message.parts:
            yield from self._part(part)
        if branch:
            yield _remark(facts.branch_remark(branch))

    def render_partial(self, partial: sc.PartialMessage) -> Iterator[str]:
        """Write an incomplete answer."""
        yield f"## {_title(self.cleaning.line(partial.model))}\n\n"
        for part in partial.parts:
            if part.kind == "text":
                yield from self._text(str(part.text))
            else:
                kind = part.tool_name or part.kind
                yield from self._long(f"{self.cleaning.line(kind)}, not whole", str(part.text))
        yield _remark("This answer was never finished." if self.about.is_over else "This answer was being written.")

    def render_running_tool(self, tool: sc.LiveTool) -> Iterator[str]:
        """Write a tool call whose result is not part of the conversation yet."""
        if tool.result is not None:
            yield from self._result(tool.result)
        else:
            yield _remark(f"{self.cleaning.line(tool.name)} had begun and had no result yet.")

    def end(self) -> Iterator[str]:
        """List the sessions that did part of the work."""
        if self.about.subsessions:
            yield "## Sub-sessions\n\n"
            for each in self.about.subsessions.values():
                yield f"- {_title(each.name)}: session-core export {_title(each.session_id)} --format markdown\n"
            yield "\n"
        yield _remark(f"Written by session-core {sc.__version__}. What looks like a key is masked.")

    # --- parts --------------------------------------------------------------------------------------------------------

    def _part(self, part: sc.Part) -> Iterator[str]:
        match part:
            case sc.TextPart(text=text):
                yield from self._text(text)
            case sc.CodePart(text=text):
                yield self._block(self.cleaning.bounded(text, _CODE_CHARS))
            case sc.ThinkingPart(text=text):
                if text.strip():
                    yield from self._long("thinking", text)
            case sc.ImagePart():
                yield _remark(self.cleaning.line(describe_image(part)))
            case sc.FilePart(name=name, text=text):
                yield from self._long(f"file {self.cleaning.line(name)}", text)
            case sc.ToolCallPart():
                line = facts.call_line(part, self.cleaning)
                yield from self._long(f"calls {line}", facts.plain_json(part.arguments, self.cleaning), "json")
            case sc.ToolResultPart():
                yield from self._result(part)
            case sc.InterruptedPart():
                yield _remark(facts.interruption_remark(part, self.cleaning))

    def _text(self, text: str) -> Iterator[str]:
        for passage in passages(self.cleaning.text(text)):
            if passage.code:
                yield fence_text(passage.text, passage.language)
            else:
                yield "\n".join(prose(passage.text.strip("\n"))).rstrip() + "\n\n"

    def _long(self, title: str, text: str, language: str = "") -> Iterator[str]:
        yield f"### {_title(title)}\n\n"
        yield self._block(self.cleaning.bounded(text), language)

    def _result(self, part: sc.ToolResultPart) -> Iterator[str]:
        yield f"### {_title(facts.result_line(part, self.cleaning))}\n\n"
        subagent = facts.find_subsession(part, self.about)
        if subagent is not None:
            yield _remark(f"Done by the sub-session {subagent.name}.")
        diff = find_diff(part)
        if diff is not None:
            yield self._block(self.cleaning.bounded(diff), "diff")
        if part.text.strip():
            yield self._block(self.cleaning.bounded(part.text))
        for image in part.images:
            yield _remark(self.cleaning.line(describe_image(image)))

    def _block(self, cut: CutText, language: str = "") -> str:
        return fence_text(cut.text, language) + ("" if cut.whole is None else _remark(facts.cut_remark(cut)))


def _title(text: str) -> str:
    """Escape a line that follows a mark of ours, where even emphasis would be out of place."""
    return text.translate(_TITLE)


def _remark(sentence: str) -> str:
    return f"_{_title(sentence)}_\n\n"
