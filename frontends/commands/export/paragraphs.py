"""Splits a text into prose and code blocks: anything between two lines of backticks or tildes is code.

The rules are simpler than those of any Markdown dialect and need not agree with one: the blocks found here are written
again from scratch, so no reader of the document can find other blocks in it.
"""

import re
from collections.abc import Iterator

import attrs

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^`]*)")
_LANGUAGE = re.compile(r"[A-Za-z0-9_+#.-]{1,20}")
_BACKTICKS = re.compile(r"`+")


@attrs.frozen(kw_only=True)
class DocumentPassage:
    """Some lines of a text; for code, `language` is the author's name for it, if that is a plain word."""

    text: str
    code: bool = False
    language: str = ""


def passages(text: str) -> Iterator[DocumentPassage]:
    """Split a text; an unclosed block extends to the end."""
    lines: list[str] = []
    fence = language = ""
    for line in text.split("\n"):
        found = _FENCE.fullmatch(line)
        if fence:
            if found is not None and found[1].startswith(fence) and not found[2].strip():
                yield DocumentPassage(text="\n".join(lines), code=True, language=language)
                lines, fence = [], ""
            else:
                lines.append(line)
        elif found is not None:
            if any(each.strip() for each in lines):
                yield DocumentPassage(text="\n".join(lines))
            word = found[2].strip().split(" ")[0]
            lines, fence, language = [], found[1], word if _LANGUAGE.fullmatch(word) else ""
        else:
            lines.append(line)
    if fence:
        yield DocumentPassage(text="\n".join(lines), code=True, language=language)
    elif any(each.strip() for each in lines):
        yield DocumentPassage(text="\n".join(lines))


def fence_for(text: str) -> str:
    """Return a line of backticks that is longer than any in the text."""
    longest = max((len(run) for run in _BACKTICKS.findall(text)), default=0)
    return "`" * max(3, longest + 1)
