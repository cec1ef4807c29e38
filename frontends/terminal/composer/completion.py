"""The meaning of the marks: commands after `/`, files after `@`, a shell line after `!`. No widgets here.

A completer receives the text between the mark and the cursor and offers values to replace it: for `/model cla` all of
`model cla`, for `@src/ma` just `src/ma`. A value that ends with a space (a command with arguments) or a slash (a
folder) is completed further; any other is complete once accepted.
"""

import re
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Literal, TypeAlias

import attrs

from frontends.shared.sanitise import one_line

MAX_SUGGESTIONS: Final = 200
MAX_QUERY_CHARS: Final = 200
_SHOWN_CHARS: Final = 400

Mark: TypeAlias = Literal["/", "@"]
_MENTION = re.compile(r"""(?:^|(?<=[\s(\[{<"']))@(?:"(?P<quoted>[^"\n]*)|(?P<bare>[^\s"]*))$""")
_MENTIONED = re.compile(r"""(?:^|(?<=[\s(\[{<"']))@(?:"(?P<quoted>[^"\n]+)"|(?P<bare>[^\s"]+))""")
_COMMAND = re.compile(r"/([A-Za-z][\w:.-]*)(?=\s|$)")
_WORD_START = re.compile(r"(?:^|(?<=[\W_]))\w|(?<=[a-z])[A-Z]")


@attrs.frozen(kw_only=True)
class Suggestion:
    """One suggestion.

    Attributes:
        value: The text that replaces the query.
        label: The text shown; the value if empty.
        detail: A description.
    """

    value: str
    label: str = ""
    detail: str = ""

    @property
    def display_text(self) -> str:
        """The label as one safe line."""
        return one_line(self.label or self.value, _SHOWN_CHARS)


Completer: TypeAlias = Callable[[str], Awaitable[list[Suggestion]]]


@attrs.frozen(kw_only=True)
class CompletionQuery:
    """An unfinished word: its mark, the text after it, and the column of the mark in its line."""

    mark: Mark
    query: str
    column: int


@attrs.frozen(kw_only=True)
class ParsedInput:
    """A parsed input: a message, a shell line, or a command with its arguments."""

    kind: Literal["message", "shell", "command"]
    text: str
    arguments: str = ""


def parse_input(text: str) -> ParsedInput:
    """Parse an input; a doubled mark makes a message of a would-be command or shell line, and one mark is dropped."""
    if text.startswith("!"):
        line = text[1:].strip()
        if text.startswith("!!"):
            return ParsedInput(kind="message", text=text[1:])
        return ParsedInput(kind="shell", text=line) if line else ParsedInput(kind="message", text=text)
    if text.startswith("//"):
        # However many marks there are, drop one if a single one would make a command.
        return ParsedInput(kind="message", text=text[1:] if _COMMAND.match(f"/{text.lstrip('/')}") else text)
    found = _COMMAND.match(text)
    if found is None:
        return ParsedInput(kind="message", text=text)
    return ParsedInput(kind="command", text=found[1], arguments=text[found.end() :].strip())


def escape_as_message(text: str) -> str:
    """Return what to type to send exactly this text as a message, even if it looks like a command."""
    return text if parse_input(text) == ParsedInput(kind="message", text=text) else f"{text[:1]}{text}"


def find_completion_query(before: str, row: int) -> CompletionQuery | None:
    """Return what could be completed, given the line before the cursor and its number."""
    if row == 0 and before.startswith("!"):
        return None
    skipped = max(0, len(before) - MAX_QUERY_CHARS)
    found = _MENTION.search(before[skipped:])
    if found is not None:
        query = found["quoted"] if found["quoted"] is not None else found["bare"]
        return CompletionQuery(mark="@", query=query, column=skipped + found.start())
    if row == 0 and before.startswith("/") and not before.startswith("//") and not skipped:
        return CompletionQuery(mark="/", query=before[1:], column=0)
    return None


def completed_text(question: CompletionQuery, value: str) -> str:
    """Return the new text of the line, from the mark on, once a suggestion is accepted."""
    if question.mark == "/":
        return f"/{value}"
    more = value.endswith("/")
    if any(character.isspace() for character in value):
        return f'@"{value}' if more else f'@"{value}" '
    return f"@{value}" if more else f"@{value} "


def find_mentions(text: str) -> list[str]:
    """Return the paths that a text mentions, without duplicates; the files need not exist."""
    found = (each["quoted"] or each["bare"] for each in _MENTIONED.finditer(text))
    return list(dict.fromkeys(path.rstrip(".,;:!?)]}>'") or path for path in found))


def score(query: str, text: str) -> int | None:
    """Return how well a query matches, more is better; None if the text lacks its characters in this order.

    A prefix is best, then a substring, preferably at the start of a word. A query whose characters are scattered over a
    text scores higher the more of them begin words. Of two equal matches the shorter text wins.
    """
    if not query:
        return 0
    wanted, folded = query.casefold(), text.casefold()
    position = folded.find(wanted)
    if position == 0:
        return 10_000 - min(len(text), 999)
    if position > 0:
        begins = not text[position - 1].isalnum()
        return (8_000 if begins else 6_000) - min(len(text), 999)
    starts = {found.start() for found in _WORD_START.finditer(text)}
    place = -1
    good = 0
    for character in wanted:
        if character.isspace():
            continue
        place = folded.find(character, place + 1)
        if place < 0:
            return None
        good += place in starts
    return 2_000 + 100 * min(good, 20) - min(len(text), 999)


def rank_suggestions(query: str, suggestions: Iterable[Suggestion], *, most: int = MAX_SUGGESTIONS) -> list[Suggestion]:
    """Return the matching suggestions, best first; without a query all of them, in their order."""
    found = [(fit, each) for each in suggestions if (fit := _fit(query, each)) is not None]
    found.sort(key=lambda pair: -pair[0])
    return [each for _, each in found[:most]]


def _fit(query: str, suggestion: Suggestion) -> int | None:
    """Score a path by its last component first: that is the part people remember."""
    fits = [score(query, suggestion.value)]
    name = suggestion.value.rstrip("/").rpartition("/")[2]
    if name != suggestion.value:
        by_name = score(query, name)
        fits.append(None if by_name is None else by_name - 1)
    if suggestion.label and suggestion.label != suggestion.value:
        by_label = score(query, suggestion.label)
        fits.append(None if by_label is None else by_label - 500)
    return max((fit for fit in fits if fit is not None), default=None)
