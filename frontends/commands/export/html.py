"""A session as one standalone HTML page: no script, no address, and all foreign text escaped.

Everything in the page is made by `element`, which knows every allowed element and attribute. Texts and attributes are
escaped there and nowhere else; finished markup has a type of its own.
"""

import base64
import binascii
import re
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from html import escape
from typing import Final, NewType

import attrs

import session_core as sc
from frontends.commands.export.facts import SubSession
from frontends.commands.export.paragraphs import passages
from frontends.commands.export.writer import DocumentWriter

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
class HtmlDocument(DocumentWriter[Markup]):
    """Writes a session as a page, piece by piece."""

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
            lists.append(self._section("about", "what was used", [_facts(self.about.spent)]))
        if self.about.plan:
            steps = (element("li", plain(f"{status}: {text}")) for status, text in self.about.plan)
            lists.append(self._section("about", "plan", [element("ul", *steps)]))
        lists += map(self._remark, self.about.remarks)
        yield element("header", element("h1", plain(name)), *lists) + "\n<main>\n"

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
        yield element(
            "footer", self._remark(f"Written by session-core {sc.__version__}. What looks like a key is masked.")
        )
        yield "\n</body>\n</html>\n"

    # --- elements -----------------------------------------------------------------------------------------------------

    def _article(self, role: str, who: str, when: str, used: str, parts: Iterator[Markup]) -> Iterator[str]:
        time = _text_element("time", when) if when else Markup("")
        usage = element("span", plain(used), class_="usage") if used else Markup("")
        yield f'<article class="{escape(role)}">{element("h2", plain(who), time, usage)}\n'
        yield from parts
        yield "</article>\n"

    def _text(self, text: str) -> Iterator[Markup]:
        for passage in passages(self.cleaning.text(text)):
            if passage.code:
                yield Markup(_text_element("pre", passage.text) + "\n")
            else:
                yield Markup(self._thought(passage.text.strip("\n")) + "\n")

    def _verbatim(self, text: str, language: str) -> Markup:
        return element("pre", _diff(text) if language == "diff" else plain(text))

    def _thought(self, text: str) -> Markup:
        return element("p", plain(text), class_="text")  # its lines wrap at the page width, as those of other prose

    def _section(self, kind: str, title: str, content: Sequence[Markup]) -> Markup:
        return Markup(element("details", _text_element("summary", title), *content, class_=kind) + "\n")

    def _done_by(self, subsession: SubSession) -> Markup:
        link = element("a", plain(subsession.name), href=f"#{subsession.anchor}")
        return element("p", link, class_="remark")

    def _remark(self, sentence: str) -> Markup:
        return Markup(element("p", plain(sentence), class_="remark") + "\n")

    def _image(self, image: sc.ImagePart) -> Markup:
        """Show an image whose bytes match its type; nothing else gets into an address."""
        if not _BASE64.fullmatch(image.data):
            return self._remark("An image that cannot be read.")
        try:
            beginning = base64.b64decode(image.data[:64], validate=True)
        except (binascii.Error, ValueError):
            return self._remark("An image that cannot be read.")
        if sc.image_type(beginning) != image.media_type:
            return self._remark("An image whose bytes do not match its type.")
        return Markup(element("img", src=f"data:{image.media_type};base64,{image.data}", alt="an image") + "\n")


def _facts(facts: tuple[tuple[str, str], ...]) -> Markup:
    return element(
        "dl", *(each for word, said in facts for each in (_text_element("dt", word), _text_element("dd", said)))
    )


def _text_element(name: str, text: str) -> Markup:
    return element(name, plain(text))


def _diff(text: str) -> Markup:
    lines = (
        element("span", plain(line), class_=_DIFF[line[0]]) if line[:1] in _DIFF and line else plain(line)
        for line in text.split("\n")
    )
    return Markup("\n".join(lines))
