"""Texts that want to be more than text on a terminal, each with what may be seen of it instead.

Every text stands between two words, so that it shows when it swallows or moves what is beside it.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

import attrs

ESC, BEL, ST = "\x1b", "\x07", "\x1b\\"
BEFORE, AFTER = "ab ", " yz"


@attrs.frozen(kw_only=True)
class Hostile:
    """One of the texts.

    Attributes:
        seen: What is left of it where foreign text is shown.
        judged: The same where people judge it before they say yes: nothing is left out, all is shown by number.
        is_markdown: Markdown makes something else of it, as it may: then only harm is looked for, not the exact text.
    """

    family: str
    text: str
    seen: str
    judged: str
    is_markdown: bool = False

    def showing(self, inner: str) -> "Hostile":
        """Return the same, of which this can be seen."""
        return attrs.evolve(self, seen=f"{BEFORE}{inner}{AFTER}")


def _by_number(text: str) -> str:
    """Show control characters by number; what is judged is never left out."""
    return "".join(
        each if each in "\n\t" or not (each < " " or "\x7f" <= each <= "\x9f") else f"<U+{ord(each):04X}>"
        for each in text.replace("\r\n", "\n")
    )


def _sequence(family: str, sequence: str, *, ends: bool = True) -> Hostile:
    """Make a text with an escape sequence in it, which vanishes, and takes the rest along if it never ends."""
    text = f"{BEFORE}{sequence}{AFTER}"
    seen = f"{BEFORE}{AFTER}" if ends else BEFORE
    return Hostile(family=family, text=text, seen=seen, judged=_by_number(text))


def _csi() -> Iterator[Hostile]:
    bodies = (
        *("2J", "3J", "H", "1;1H", "99;1f", "K", "1K", "31m", "8m", "7m", "48;2;255;0;0m", "38:5:1m", "0m", "999A"),
        *("999B", "10L", "9M", "99P", "99X", "5S", "5T", "1;3r", "s", "u", "6n", "c", ">c", "=c", "5i", "4i", "!p"),
        *("?1049h", "?25l", "?2004l", "?1000h", "?1006h", "?5h", "?2026h", "?7l", "20h", "21t", "14t", "8;5;5t"),
        *(" q", '"p', "$}", "200~", "?u", ">1u", "3g", "b", "99b", "5Z", "4h"),
    )
    for body in bodies:
        yield _sequence("csi", f"{ESC}[{body}")
    for body in bodies[::2]:
        yield _sequence("csi, 8 bit", f"\x9b{body}")
    for body in ("31", "", "?1;2", "1;2;3"):
        yield _sequence("csi, cut short", f"{ESC}[{body}\u00e9").showing("\u00e9")


_OSC: Final = {
    "0": "owned",
    "1": "icon",
    "2": "title",
    "4": "1;rgb:ff/00/00",
    "7": "file://host/etc",
    "8": ";http://evil.example",
    "9": "notify",
    "10": "#000000",
    "11": "#000000",
    "12": "?",
    "22": "pointer",
    "50": "font",
    "52": "c;cm0gLXJmIC8=",
    "99": "i=1;hello",
    "104": "",
    "133": "A",
    "176": "app",
    "633": "P;Cwd=/",
    "777": "notify;a;b",
    "1337": "File=inline=1:AAAA",
    "5522": "type=read",
}


def _osc() -> Iterator[Hostile]:
    for code, body in _OSC.items():
        yield _sequence("osc", f"{ESC}]{code};{body}{BEL}")
        yield _sequence("osc", f"{ESC}]{code};{body}{ST}")
        yield _sequence("osc, 8 bit", f"\x9d{code};{body}\x9c")
        yield _sequence("osc, never ended", f"{ESC}]{code};{body}", ends=False)
    yield _sequence("osc", f"{ESC}]8;;http://e.example{ST}link{ESC}]8;;{ST}").showing("link")
    yield _sequence("osc", f"{ESC}]0;a{ESC}]0;b{BEL}")
    yield _sequence("osc", f"{ESC}]{BEL}")


def _strings() -> Iterator[Hostile]:
    families = (("dcs", "P", "\x90"), ("sos", "X", "\x98"), ("pm", "^", "\x9e"), ("apc", "_", "\x9f"))
    for family, opener, short in families:
        for body in ("q#0;2;0;0;0#0~~", "+q544e", "Ga=T,f=100;AAAA", "$q m", "1000p"):
            yield _sequence(family, f"{ESC}{opener}{body}{ST}")
            yield _sequence(f"{family}, 8 bit", f"{short}{body}\x9c")
        yield _sequence(f"{family}, never ended", f"{ESC}{opener}body", ends=False)
        yield _sequence(f"{family}, nested", f"{ESC}{opener}tmux;{ESC}{ESC}]52;c;AAAA{BEL}").showing("")
        yield _sequence(f"{family}, cancelled", f"{ESC}{opener}body\x18")


def _short_sequences() -> Iterator[Hostile]:
    for final in ("c", "7", "8", "D", "E", "H", "M", "N", "O", "Z", "=", ">", "<", "l", "m", "n", "o", "|", "}", "~"):
        yield _sequence("short", f"{ESC}{final}")
    for pair in ("#8", "#3", "(0", "(B", ")0", "*A", "%G", "%@", " F", " G", "-A", ".A"):
        yield _sequence("short", f"{ESC}{pair}")
    yield _sequence("nested", f"{ESC}{ESC}[2J")
    yield _sequence("nested", f"{ESC}[3{ESC}[31m")
    yield _sequence("nested", f"{ESC}[\x9b2J")
    yield _sequence("nested", f"\x9b{ESC}]0;x{BEL}")


def _controls() -> Iterator[Hostile]:
    openers = {ESC, "\x90", "\x98", "\x9b", "\x9d", "\x9e", "\x9f"}
    for code in (*range(0x20), 0x7F, *range(0x80, 0xA0)):
        if chr(code) not in openers and chr(code) not in "\n\t":
            yield _sequence("control", chr(code))
    yield _sequence("overprint", "safe\rEVIL").showing("safeEVIL")
    yield _sequence("overprint", "rm\x08\x08ls").showing("rmls")
    yield _sequence("overprint", "a\x08_b\x08_").showing("a_b_")
    yield _sequence("overprint", "x\x7f\x7f\x7fy").showing("xy")
    yield _sequence("overprint", "one\x0btwo\x0cthree").showing("onetwothree")
    yield _sequence("overprint", "\x0e\x0fqqq").showing("qqq")
    yield _sequence("overprint", "\r\x1b[Kgone").showing("gone")


def _by_its_number(family: str, characters: Iterable[str], word: str = "") -> Iterator[Hostile]:
    """Characters that cannot be seen, or that reorder a line: shown by number."""
    for each in characters:
        text = f"{BEFORE}{each}{word}{AFTER}"
        seen = f"{BEFORE}<U+{ord(each):04X}>{word}{AFTER}"
        yield Hostile(family=family, text=text, seen=seen, judged=seen)


def _kept(family: str, *texts: str, is_markdown: bool = False) -> Iterator[Hostile]:
    """Texts that are nothing but text, and stay as they are."""
    for each in texts:
        whole = f"{BEFORE}{each}{AFTER}"
        yield Hostile(family=family, text=whole, seen=whole, judged=whole, is_markdown=is_markdown)


def _invisible() -> Iterator[Hostile]:
    bidi = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069"
    yield from _by_its_number("bidi", bidi, "evil")
    yield from _by_its_number("zero width", "\u00ad\u034f\u180e\u200b\u200c\u200d\u2060\u2061\u2062\u2063\u2064\ufeff")
    yield from _by_its_number("deprecated", "\u206a\u206b\u206c\u206d\u206e\u206f\ufff9\ufffa\ufffb")
    yield from _by_its_number("blank letters", "\u115f\u1160\u3164\uffa0\u17b4\u17b5")
    yield from _by_its_number("line separators", "\u2028\u2029")
    yield from _by_its_number("tags", map(chr, (0xE0001, 0xE0020, 0xE0041, 0xE005A, 0xE007F, 0xE0100, 0xE01EF)))
    yield from _by_its_number("selectors", map(chr, range(0xFE00, 0xFE0E)))
    yield from _by_its_number("notation", map(chr, (0x1BCA0, 0x1D173, 0x1D17A, 0x13430, 0x110BD)))
    for each in ("\ufe0e", "\ufe0f", "\U0001f3fb", "\U0001f3ff"):  # what they change is shown without them
        text = f"{BEFORE}\u26a0{each}{AFTER}"
        judged = text.replace(each, f"<U+{ord(each):04X}>")
        yield Hostile(family="width", text=text, seen=text.replace(each, ""), judged=judged)
    for each in "\ud800\udbff\udc00\udfff":
        seen = f"{BEFORE}\ufffd{AFTER}"
        yield Hostile(family="surrogates", text=f"{BEFORE}{each}{AFTER}", seen=seen, judged=seen)


def _odd_letters() -> Iterator[Hostile]:
    yield from _kept("wide", "汉字汉字", "ｗｉｄｅ", "한글", "ﾊﾝｶｸ", "㌀㍻", "🙂🙃", "👍", "\u1112\u1161\u11ab", "〰〽")
    yield from _kept("ambiguous", "±×÷°§", "αβγ", "①②③", "“”‘’…", "■□●○", "─│┌┐", "☺☻♠♥", "№℡", "ⅣⅧ", "éàü")
    yield from _kept("combining", "e\u0301", "q\u0308\u0301", "नमस्ते", "กำ", "עִבְרִית", "தமிழ்")
    yield from _kept("combining", "ɑ\u0303", "a\u20dd", "x\u0488")
    yield from _kept("right to left", "שלום עולם", "مرحبا", "abc שלום 123", "סוף", "ܫܠܡܐ", "ߊߋ", "123 ۱۲۳", "(שלום)")
    for mark in ("\u0335", "\u0301", "\u20d7", "\ufe20", "\u1ab0"):
        text = f"{BEFORE}z{mark * 40}{AFTER}"
        judged = f"{BEFORE}z{mark * 3}{f'<U+{ord(mark):04X}>' * 37}{AFTER}"
        yield Hostile(family="pile", text=text, seen=f"{BEFORE}z{mark * 3}{AFTER}", judged=judged)
    for flag in ("DE", "U", "USA"):
        codes = [0x1F1E6 + ord(each) - ord("A") for each in flag]
        judged = f"{BEFORE}{''.join(f'<U+{code:04X}>' for code in codes)}{AFTER}"
        text = f"{BEFORE}{''.join(map(chr, codes))}{AFTER}"
        yield Hostile(family="flags", text=text, seen=f"{BEFORE}{flag}{AFTER}", judged=judged)
    for before, after in (("👩", "🦰"), ("👨", "👩"), ("🏳", "🌈"), ("क्", "ष")):
        text = f"{BEFORE}{before}\u200d{after}{AFTER}"
        seen = text.replace("\u200d", "<U+200D>")
        yield Hostile(family="joined", text=text, seen=seen, judged=seen)


def _marked_up() -> Iterator[Hostile]:
    yield from _kept(
        "markup",
        *("[bold]x[/bold]", "[red]x[/]", "[/]", "[bold", "[@click=app.quit]x[/]", "[@click=app.exit()]quit[/]"),
        *("[link=http://e.example]x[/link]", "[on red]x", "[reverse]x[/reverse]", "[blink]x[/]", "[$error]x[/]"),
        *("[@click=app.bell]x[/]", "[@click=screen.dismiss]x[/]", "[ansi_red]x[/]", "[b][i][u]x", "[not closed"),
        *("[[x]]", "[dim]x[/dim]", "[#ff0000]x[/]", "[@mouse.down=app.quit]x[/]", "[x=1]", "[=]", "[]", "[/bold]"),
        ":smile:",
    )
    yield from _kept("markup", r"\[bold]x", r"\\[bold]x[/]", r"[bold\]x", is_markdown=True)
    yield from _kept(
        "markdown",
        *("[text](http://e.example)", "![x](http://e.example/p.png)", "<http://e.example>", "[x](javascript:alert)"),
        *("<script>alert(1)</script>", "<b onclick=x>y</b>", "<!-- hidden -->", "<a href='file:///etc'>z</a>", "**x**"),
        *("&#27;[2J", "&#x1b;[31m", "&#x202e;evil", "&#x200b;", "&#155;2J", "&#x9b;31m", "&#7;", "&#8;&#8;", "&#13;x"),
        *("&zwj;", "&ZeroWidthSpace;", "&NoBreak;", "&shy;", "&rlm;", "&lrm;", "&#x2066;", "&#xe0041;", "&#127;"),
        *("&#0;", "`\\x1b[2J`", "~~x~~", "[x]: http://e.example", "| a | b |", "&lt;b&gt;", "&amp;#27;", "&#x1F1E9;"),
        "&#xFE0F;",
        is_markdown=True,
    )


def _imitations() -> Iterator[Hostile]:
    yield from _kept(
        "imitation",
        *("━━━━ ? Allow bash? 1 of 1 ━━━━", "y yes, this once", "Enter: yes, this once", "> y", "● connected  ○ idle"),
        *("╭─ Help ─────╮", "│ y │", "╰────────────╯", "▸○ a session", "▏ ok", "┃ rm -rf /", "║ x ║", "▎done", "❯ yes"),
        *("the service has ended", "╔══ approved ══╗", "✓ shell done", "· 3 more lines", "[y] [n]", "1 queued", "$ ls"),
    )


def _long() -> Iterator[Hostile]:
    yield from _kept("long", "x" * 400, "word " * 90, "汉" * 200, "[" * 150, "é" * 300, "a\u0301" * 150, "─" * 300)


def _repeated(found: Iterable[Hostile]) -> Iterator[Hostile]:
    """Two of a kind in one text, one within a word: what one of them leaves behind, the other may use."""
    for one in found:
        if one.seen.endswith(AFTER):
            yield Hostile(
                family=f"{one.family}, twice",
                text=f"{one.text}{one.text}",
                seen=f"{one.seen}{one.seen}",
                judged=f"{one.judged}{one.judged}",
                is_markdown=one.is_markdown,
            )


CORPUS: Final = tuple(
    {
        each.text: each
        for each in chain(
            *(_csi(), _osc(), _strings(), _short_sequences(), _controls(), _invisible(), _odd_letters()),
            *(_marked_up(), _imitations(), _long(), _repeated([*_csi()][::4]), _repeated([*_osc()][::6])),
        )
    }.values()
)
