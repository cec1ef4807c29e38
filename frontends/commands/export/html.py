"""A session as one standalone HTML page: no script, no address, and all foreign text escaped.

Everything in the page is made by `element`, which knows every allowed element and attribute. Texts and attributes are
escaped there and nowhere else; finished markup has a type of its own.
"""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping
from hashlib import sha256
from html import escape
from typing import Final, NewType

import attrs

import session_core as sc
from frontends.commands.export import facts
from frontends.commands.export.document_text import CutText, DocumentSanitiser
from frontends.commands.export.paragraphs import passages
from frontends.shared.conversation.tool_calls import find_diff

# --- page style, and the policy that lets a browser run and load nothing ----------------------------------------------
STYLE: Final = """
:root { color-scheme: light dark; --back: #fff; --text: #1c1c1e; --dim: #6b6b70; --line: #d9d9de; --soft: #f5f5f7;
  --you: #0b62c4; --model: #1d7a3a; --bad: #b3261e; --add: #e3f6e6; --del: #fde7e5; }
@media (prefers-color-scheme: dark) { :root { --back: #16171a; --text: #e6e6ea; --dim: #9a9aa2; --line: #34353b;
  --soft: #1f2024; --you: #7db5ff; --model: #7fd394; --bad: #ff8a80; --add: #173a20; --del: #46201d; } }
* { box-sizing: border-box; }
body { margin: 0 auto; padding: 2rem 1rem 4rem; max-width: 60rem; background: var(--back); color: var(--text);
  font: 16px/1.55 system-ui, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.6rem; line-height: 1.25; margin: 0 0 1rem; }
h2 { font-size: 1rem; margin: 0 0 .5rem; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .15rem 1rem; margin: 0 0 1rem; }
dt, time, footer, p.remark, span.usage { color: var(--dim); }
dd { margin: 0; }
article, section { border-top: 1px solid var(--line); padding: 1rem 0; }
article.user h2 { color: var(--you); }
article.assistant h2 { color: var(--model); }
time, span.usage { font-weight: normal; font-size: .85rem; margin-left: .6rem; }
p.text { white-space: pre-wrap; margin: 0 0 .75rem; }
p.remark { font-size: .9rem; margin: .25rem 0; }
pre { background: var(--soft); border: 1px solid var(--line); border-radius: 6px; padding: .75rem; margin: 0 0 .75rem;
  overflow-x: auto; font: 13px/1.5 ui-monospace, monospace; white-space: pre-wrap; }
details { margin: 0 0 .5rem; }
summary { cursor: pointer; font: 13px/1.5 ui-monospace, monospace; }
details > pre, details > p, details > img { margin-top: .5rem; }
details.failed > summary { color: var(--bad); }
details.thinking > p { color: var(--dim); }
span.add { background: var(--add); }
span.del { background: var(--del); }
span.place { color: var(--dim); }
img { max-width: 100%; height: auto; border: 1px solid var(--line); border-radius: 6px; }
a { color: var(--you); }
@media print { details > summary { list-style: none; } body { max-width: none; } }
"""

_STYLE_HASH: Final = base64.b64encode(sha256(STYLE.encode()).digest()).decode()
POLICY: Final = (
    f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; img-src data:; base-uri 'none'; form-action 'none'"
)
"""No script, no frame, no address: only our styles, and only images embedded in the page."""


# --- html -------------------------------------------------------------------------------------------------------------

Markup = NewType("Markup", str)
"""Text that is part of a page as it stands."""

_CLASS: Final = frozenset({"class"})
ELEMENTS: Final[Mapping[str, frozenset[str]]] = {
    "html": frozenset({"lang"}),
    "head": frozenset(),
    "meta": frozenset({"charset", "name", "http-equiv", "content"}),
    "title": frozenset(),
    "style": frozenset(),
    "body": frozenset(),
    "header": frozenset(),
    "main": frozenset(),
    "footer": frozenset(),
    "article": _CLASS,
    "section": _CLASS,
    "h1": frozenset(),
    "h2": frozenset(),
    "p": _CLASS,
    "pre": _CLASS,
    "span": _CLASS,
    "time": frozenset(),
    "dl": frozenset(),
    "dt": frozenset(),
    "dd": frozenset(),
    "ul": frozenset(),
    "li": frozenset({"id"}),
    "details": _CLASS,
    "summary": frozenset(),
    "a": frozenset({"href"}),
    "img": frozenset({"src", "alt"}),
}
"""Everything a page may contain: each element with its attributes."""
_VOID: Final = frozenset({"meta", "img"})
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_DIFF: Final = {"+": "add", "-": "del", "@": "place"}
_CODE_CHARS: Final = 200_000


def element(name: str, /, *content: Markup, **attributes: str) -> Markup:
    """Make an element from markup; `class_` and `http_equiv` stand for names that are not valid in Python."""
    given = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items()}
    assert given.keys() <= ELEMENTS[name], f"{name} has no {given.keys() - ELEMENTS[name]}"
    opened = "".join(f' {key}="{escape(value, quote=True)}"' for key, value in given.items())
    inner = "" if name in _VOID else f"{''.join(content)}</{name}>"
    return Markup(f"<{name}{opened}>{inner}")


def plain(text: str) -> Markup:
    """Escape a text."""
    return Markup(escape(text, quote=True))


@attrs.frozen(kw_only=True)
class HtmlDocument:
    """Writes a session as a page, piece by piece."""

    about: facts.DocumentFacts
    cleaning: DocumentSanitiser

    def head(self) -> Iterator[str]:
        """Begin the page, and identify the session."""
        name = self.about.name
        metas = (
            element("meta", charset="utf-8"),
            element("meta", http_equiv="Content-Security-Policy", content=POLICY),
            element("meta", name="referrer", content="no-referrer"),
            element("meta", name="color-scheme", content="light dark"),
            element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        )
        style = element("style", Markup(STYLE))
        yield '<!DOCTYPE html>\n<html lang="en">\n'
        yield element("head", *metas, element("title", plain(name)), style) + "\n<body>\n"
        lists = [_facts(self.about.facts)]
        if self.about.spent:
            lists.append(_folded_section("what was used", _facts(self.about.spent)))
        if self.about.plan:
            steps = (element("li", plain(f"{status}: {text}")) for status, text in self.about.plan)
            lists.append(_folded_section("plan", element("ul", *steps)))
        lists += map(_remark, self.about.remarks)
        yield element("header", element("h1", plain(name)), *lists) + "\n<main>\n"

    def message(self, message: sc.Message, branch: int = 0) -> Iterator[str]:
        """Write a message; `branch` is how many hidden messages continue from it."""
        used = facts.spent(message.usage) if message.usage is not None else ""
        heading = element(
            "h2",
            plain(facts.speaker(message, self.cleaning)),
            element("time", plain(facts.moment(message.created_at))),
            element("span", plain(used), class_="usage") if used else Markup(""),
        )
        yield f'<article class="{escape(message.role)}">{heading}\n'
        for part in message.parts:
            yield from self._part(part)
        if branch:
            yield _remark(facts.branch_remark(branch))
        yield "</article>\n"

    def render_partial(self, partial: sc.PartialMessage) -> Iterator[str]:
        """Write an incomplete answer."""
        yield '<article class="assistant">' + element("h2", plain(self.cleaning.line(partial.model)))
        for part in partial.parts:
            text = str(part.text)
            match part.kind:
                case "text":
                    yield from self._text(text)
                case "thinking":
                    yield self._long("thinking", "thinking", text)
                case _:
                    yield self._long("call", f"{self.cleaning.line(part.tool_name or part.kind)}, not whole", text)
        yield _remark("This answer was never finished." if self.about.is_over else "This answer was being written.")
        yield "</article>\n"

    def render_running_tool(self, tool: sc.LiveTool) -> Iterator[str]:
        """Write a tool call whose result is not part of the conversation yet."""
        if tool.result is not None:
            yield from self._result(tool.result)
        else:
            yield _remark(f"{self.cleaning.line(tool.name)} had begun and had no result yet.")

    def end(self) -> Iterator[str]:
        """List the sessions that did part of the work, and end the page."""
        yield "</main>\n"
        if self.about.subsessions:
            listed = (
                element(
                    "li", plain(f"{each.name}: session-core export {each.session_id} --format html"), id=each.anchor
                )
                for each in self.about.subsessions.values()
            )
            yield element("section", element("h2", plain("Sub-sessions")), element("ul", *listed))
        yield element("footer", _remark(f"Written by session-core {sc.__version__}. What looks like a key is masked."))
        yield "\n</body>\n</html>\n"

    # --- parts --------------------------------------------------------------------------------------------------------

    def _part(self, part: sc.Part) -> Iterator[str]:
        match part:
            case sc.TextPart(text=text):
                yield from self._text(text)
            case sc.CodePart(text=text):
                yield self._block(self.cleaning.bounded(text, _CODE_CHARS))
            case sc.ThinkingPart(text=text):
                if text.strip():
                    yield self._long("thinking", "thinking", text)
            case sc.ImagePart():
                yield self._image(part)
            case sc.FilePart(name=name, text=text):
                yield self._long("file", f"file {self.cleaning.line(name)}", text)
            case sc.ToolCallPart():
                line = facts.call_line(part, self.cleaning)
                yield self._long("call", f"calls {line}", facts.plain_json(part.arguments, self.cleaning))
            case sc.ToolResultPart():
                yield from self._result(part)
            case sc.InterruptedPart():
                yield _remark(facts.interruption_remark(part, self.cleaning))

    def _text(self, text: str) -> Iterator[str]:
        for passage in passages(self.cleaning.text(text)):
            if passage.code:
                yield element("pre", plain(passage.text)) + "\n"
            else:
                yield element("p", plain(passage.text.strip("\n")), class_="text") + "\n"

    def _long(self, kind: str, title: str, text: str) -> Markup:
        """Fold a text; thinking is prose, so its lines wrap at the page width."""
        cut = self.cleaning.bounded(text)
        if kind == "thinking":
            return _folded_section(title, element("p", plain(cut.text), class_="text"), _cut(cut), kind=kind)
        return _folded_section(title, self._block(cut), kind=kind)

    def _result(self, part: sc.ToolResultPart) -> Iterator[str]:
        kind = "result" if part.status == "success" else "failed"
        inner: list[Markup] = []
        subagent = facts.find_subsession(part, self.about)
        if subagent is not None:
            inner.append(element("p", element("a", plain(subagent.name), href=f"#{subagent.anchor}"), class_="remark"))
        diff = find_diff(part)
        if diff is not None:
            inner.append(_diff(self.cleaning.bounded(diff)))
        if part.text.strip():
            inner.append(self._block(self.cleaning.bounded(part.text)))
        inner += map(self._image, part.images)
        yield _folded_section(facts.result_line(part, self.cleaning), *inner, kind=kind)

    def _block(self, cut: CutText) -> Markup:
        return Markup(element("pre", plain(cut.text)) + _cut(cut))

    def _image(self, part: sc.ImagePart) -> Markup:
        """Show an image whose bytes match its type; nothing else gets into an address."""
        if not _BASE64.fullmatch(part.data):
            return _remark("An image that cannot be read.")
        try:
            beginning = base64.b64decode(part.data[:64], validate=True)
        except (binascii.Error, ValueError):
            return _remark("An image that cannot be read.")
        if sc.image_type(beginning) != part.media_type:
            return _remark("An image whose bytes do not match its type.")
        return Markup(element("img", src=f"data:{part.media_type};base64,{part.data}", alt="an image") + "\n")


def _facts(facts: tuple[tuple[str, str], ...]) -> Markup:
    return element(
        "dl", *(each for word, said in facts for each in (_text_element("dt", word), _text_element("dd", said)))
    )


def _text_element(name: str, text: str) -> Markup:
    return element(name, plain(text))


def _remark(sentence: str) -> Markup:
    return Markup(element("p", plain(sentence), class_="remark") + "\n")


def _cut(cut: CutText) -> Markup:
    return Markup("") if cut.whole is None else _remark(facts.cut_remark(cut))


def _folded_section(title: str, *content: Markup, kind: str = "about") -> Markup:
    return Markup(element("details", element("summary", plain(title)), *content, class_=kind) + "\n")


def _diff(cut: CutText) -> Markup:
    lines = (
        element("span", plain(line), class_=_DIFF[line[0]]) if line[:1] in _DIFF and line else plain(line)
        for line in cut.text.split("\n")
    )
    return Markup(element("pre", Markup("\n".join(lines))) + _cut(cut))
