"""Parse a command line like a shell, as far as needed to see which commands are in it.

The parser removes quotes, looks into substitutions and sets redirections aside. It expands nothing: a word knows how
much of its text is certain. If a part cannot be parsed, the line counts as not understood, but the rest is still read.
"""

import re
from typing import Final

import attrs

MAX_DEPTH: Final = 24
"""The deepest nesting of substitutions; no honest command goes deeper."""

_ENDS_WORD: Final = frozenset(" \t\n;&|()<>")
_AFTER_LONE_BRACE: Final = frozenset({"", "}", *_ENDS_WORD})
_SPECIAL: Final = frozenset("@*#?-$!0123456789")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REDIRECTION: Final = re.compile(r"&>>|&>|<<<|<<-|<<|<&|<>|>>|>&|>\||<|>")
_DESCRIPTOR: Final = re.compile(r"[0-9]+|\{[A-Za-z_]\w*\}")
_ESCAPE: Final = re.compile(r"\\(x[0-9a-fA-F]{1,2}|u[0-9a-fA-F]{1,4}|U[0-9a-fA-F]{1,8}|[0-7]{1,3}|c.|.)", re.DOTALL)
_OPEN_SUBSCRIPT: Final = re.compile(r"[A-Za-z_]\w*\[[^\]]*")
_HARD_TO_READ: Final = re.compile(r"\0|[$<>]\\\n|\$\{[\s|(]|\$\{[^}]{0,100}@P\}")
"""What shells read in other ways than it looks, or each in its own: NUL, split operators, `${ command; }`, `${x@P}`."""
_ODD_ARITHMETIC: Final = re.compile(r"[\n#'\"\\]")
_LETTERS: Final = dict(zip("abeEfnrtv", "\a\b\x1b\x1b\f\n\r\t\v", strict=True))


@attrs.frozen(kw_only=True)
class Word:
    """A word without its quotes.

    Attributes:
        text: Its text; parts that the shell expands stay as written.
        certain_chars: How many characters of the text are certain; None if all are.
        only_names: Whether the uncertain rest can only expand to file names.
        quoted: Whether a part was quoted, so it is not a keyword.
    """

    text: str
    certain_chars: int | None = None
    only_names: bool = False
    quoted: bool = False


@attrs.define
class SimpleCommand:
    """One command: its words, and the text that it reads as input."""

    words: list[Word] = attrs.field(factory=list)
    inputs: list[Word] = attrs.field(factory=list)


@attrs.frozen
class Script:
    """All commands of a line, including those in substitutions; `whole` means that all of it was understood."""

    commands: tuple[SimpleCommand, ...]
    whole: bool


def read_script(text: str) -> Script:
    """Read a command line; never raises."""
    reader = _ShellScanner(text, [], 0)
    reader.read(until_paren=False)
    return Script(
        tuple(each for each in reader.found if each.words or each.inputs),
        reader.whole and _HARD_TO_READ.search(text) is None,
    )


class _WordBuilder:
    """A word being assembled."""

    def __init__(self) -> None:
        self.text: list[str] = []
        self.length = 0
        self.sure: int | None = None
        self.only_names = False
        self.quoted = False

    def add(self, text: str) -> None:
        self.text.append(text)
        self.length += len(text)

    def mark_uncertain(self, *, names: bool = False) -> None:
        if self.sure is None:
            self.sure, self.only_names = self.length, names
        elif not names:
            self.only_names = False

    def build(self) -> Word:
        text = "".join(self.text)
        certain = self.sure is None or (self.only_names and text in {"[", "[["})
        return Word(
            text=text, certain_chars=None if certain else self.sure, only_names=self.only_names, quoted=self.quoted
        )


class _ShellScanner:
    def __init__(self, text: str, found: list[SimpleCommand], depth: int) -> None:
        self.text = text
        self.found = found
        self.position = 0
        self.whole = depth <= MAX_DEPTH
        self._depth = depth
        self._here: list[tuple[SimpleCommand, Word, bool]] = []

    # --- commands -----------------------------------------------------------------------------------------------------

    def read(self, *, until_paren: bool) -> None:
        """Read commands up to the end, or to the parenthesis that closes a substitution."""
        now, nested = SimpleCommand(), 0
        self.found.append(now)
        while self.position < len(self.text):
            character = self.text[self.position]
            redirection = _REDIRECTION.match(self.text, self.position)
            if character in " \t":
                self.position += 1
            elif self.text.startswith("\\\n", self.position):
                self.position += 2
            elif character == "#":
                end = self.text.find("\n", self.position)
                self.position = len(self.text) if end < 0 else end
            elif self.text.startswith(("<(", ">("), self.position) or not (redirection or character in _ENDS_WORD):
                self._add_word(now, inside=until_paren)
            elif redirection is not None:
                self._read_redirection(now, redirection[0])
            else:
                self.position += 1
                if character == ")" and until_paren and nested == 0:
                    return
                if character == "(" and self.text.startswith("(", self.position):
                    self.whole = False  # perhaps arithmetic, where operators mean other things
                nested += (character == "(") - (character == ")" and nested > 0)
                if character == "\n":
                    self._read_here_documents()
                now = SimpleCommand()
                self.found.append(now)
        self._read_here_documents()
        self.whole = self.whole and not until_paren and nested == 0

    def _add_word(self, now: SimpleCommand, *, inside: bool) -> None:
        word = self._read_word()
        follows = self.text[self.position : self.position + 1]
        if follows and follows in "<>" and not word.quoted and _DESCRIPTOR.fullmatch(word.text):
            return  # the number of the redirected descriptor
        if inside and word.text == "case" and not word.quoted:
            self.whole = False  # its patterns end with parentheses that close nothing
        if follows and not word.quoted and _OPEN_SUBSCRIPT.fullmatch(word.text):
            self.whole = False  # in `a[1<<2]=3`, operators mean other things
        now.words.append(word)

    def _read_redirection(self, now: SimpleCommand, sign: str) -> None:
        self.position += len(sign)
        while self.text.startswith((" ", "\t", "\\\n"), self.position):
            self.position += 2 if self.text[self.position] == "\\" else 1
        if self.position >= len(self.text) or (
            self.text[self.position] in _ENDS_WORD and not self.text.startswith(("<(", ">("), self.position)
        ):
            self.whole = False
            return
        target = self._read_word()
        if sign == "<<<":
            now.inputs.append(target)
        elif sign in {"<<", "<<-"}:
            self._here.append((now, target, sign == "<<-"))
            self.whole = self.whole and "$" not in target.text and "`" not in target.text

    def _read_here_documents(self) -> None:
        """Read the here-documents announced in the line before."""
        for command, mark, strips in self._here:
            lines: list[str] = []
            ended = joined = False
            while not ended and self.position < len(self.text):
                end = self.text.find("\n", self.position)
                end = len(self.text) if end < 0 else end
                line = self.text[self.position : end].lstrip("\t") if strips else self.text[self.position : end]
                self.position = end + 1
                if joined and not mark.quoted:
                    line = lines.pop()[:-1] + line
                joined = len(line) % 2 != len(line.rstrip("\\")) % 2
                ended = line == mark.text
                lines += [] if ended else [line]
            self.whole = self.whole and ended
            body = "\n".join(lines)
            dynamic = not mark.quoted and any(each in body for each in "$`\\")
            if dynamic:
                inner = _ShellScanner(body, self.found, self._depth + 1)
                inner.find_substitutions()
                self.whole = self.whole and inner.whole
            command.inputs.append(Word(text=body, certain_chars=0 if dynamic else None))
        self._here.clear()

    def find_substitutions(self) -> None:
        """Find substitutions in plain text."""
        self._read_double_quoted(_WordBuilder(), end="")

    # --- words --------------------------------------------------------------------------------------------------------

    def _read_word(self) -> Word:
        word = _WordBuilder()
        while self.position < len(self.text):
            character = self.text[self.position]
            if self.text.startswith(("<(", ">("), self.position):
                self.position += 2
                self._read_substitution(word, self.position - 2)
            elif character in _ENDS_WORD:
                break
            elif character == "\\":
                escaped = self.text[self.position + 1 : self.position + 2]
                self.whole = self.whole and bool(escaped)
                word.quoted = word.quoted or escaped != "\n"
                word.add("" if escaped == "\n" else escaped)
                self.position += 2
            elif character == "'":
                self._read_single_quoted(word)
            elif character == '"':
                self.position += 1
                self._read_double_quoted(word, end='"')
            elif character in "$`":
                self._read_expansion(word, quoted=False)
            else:
                self._read_unquoted(word, character)
        return word.build()

    def _read_unquoted(self, word: _WordBuilder, character: str) -> None:
        if character in "*?[":
            word.mark_uncertain(names=True)
        elif character == "{" and self.text[self.position + 1 : self.position + 2] not in _AFTER_LONE_BRACE:
            word.mark_uncertain()  # `{rm,-r}` becomes two words
        word.add(character)
        self.position += 1

    def _read_single_quoted(self, word: _WordBuilder) -> None:
        end = self.text.find("'", self.position + 1)
        self.whole = self.whole and end >= 0
        end = len(self.text) if end < 0 else end
        word.quoted = True
        word.add(self.text[self.position + 1 : end])
        self.position = end + 1

    def _read_double_quoted(self, word: _WordBuilder, *, end: str) -> None:
        """Read up to a closing double quote; without one, to the end of the text."""
        word.quoted = True
        while self.position < len(self.text):
            character = self.text[self.position]
            if character == end:
                self.position += 1
                return
            if character == "\\" and self.text[self.position + 1 : self.position + 2] in set('$`"\\\n'):
                escaped = self.text[self.position + 1]
                word.add("" if escaped == "\n" else escaped)
                self.position += 2
            elif character in "$`":
                self._read_expansion(word, quoted=True)
            else:
                word.add(character)
                self.position += 1
        self.whole = self.whole and not end

    def _read_expansion(self, word: _WordBuilder, *, quoted: bool) -> None:
        start, rest = self.position, self.text[self.position + 1 : self.position + 2]
        if self.text[start] == "`":
            self._read_backticks(word, quoted=quoted)
        elif rest == "(":
            self.position += 2
            self._read_substitution(word, start)
        elif rest == "{":
            self.position += 2
            self._read_parameter(word, start, quoted=quoted)
        elif rest == "'" and not quoted:
            self._read_ansi_quoted(word)
        elif rest == '"' and not quoted:
            self.position += 2
            self._read_double_quoted(word, end='"')
        elif rest and (rest in _SPECIAL or rest == "[" or _NAME.match(rest)):
            named = _NAME.match(self.text, start + 1)
            self.position = named.end() if named else start + 2
            self.whole = self.whole and rest != "["  # arithmetic in the old notation
            self._add_uncertain(word, start)
        else:
            word.add("$")
            self.position += 1

    def _add_uncertain(self, word: _WordBuilder, start: int) -> None:
        word.mark_uncertain()
        word.add(self.text[start : self.position])

    def _read_substitution(self, word: _WordBuilder, start: int) -> None:
        if self._depth >= MAX_DEPTH:
            self.whole, self.position = False, len(self.text)
        else:
            self._depth += 1
            outer, self._here = self._here, []
            whole, self.whole = self.whole, True
            self.read(until_paren=True)
            closed = self.text[self.position - 1 : self.position] == ")"
            inside = self.text[start : self.position]
            odd = inside.startswith("$((") and _ODD_ARITHMETIC.search(inside)
            self.whole = whole and closed and self.whole and not odd and not (outer and "\n" in inside)
            self._here = outer
            self._depth -= 1
        self._add_uncertain(word, start)

    def _read_backticks(self, word: _WordBuilder, *, quoted: bool) -> None:
        start = self.position
        found = re.compile(r"`((?:[^`\\]|\\[\s\S])*)`").match(self.text, start)
        inside = self.text[start + 1 :] if found is None else found[1]
        inner = _ShellScanner(re.sub(r"\\([`$\\])", r"\1", inside), self.found, self._depth + 1)
        if inner.whole:
            inner.read(until_paren=False)
        self.whole = self.whole and inner.whole and found is not None and not (quoted and '\\"' in inside)
        self.position = len(self.text) if found is None else found.end()
        self._add_uncertain(word, start)

    def _read_parameter(self, word: _WordBuilder, start: int, *, quoted: bool) -> None:
        """Skip `${...}`, but look into the commands in it."""
        inside = _WordBuilder()
        self._depth += 1
        while self.position < len(self.text) and self.text[self.position] != "}":
            character = self.text[self.position]
            if self._depth > MAX_DEPTH:
                self.whole, self.position = False, len(self.text)
            elif character == "\\":
                self.position += 2
            elif character == "'":
                self.whole = (
                    self.whole and not quoted
                )  # inside double quotes, whether it quotes depends on the operator
                self._read_single_quoted(inside)
            elif character == '"':
                self.position += 1
                self._read_double_quoted(inside, end='"')
            elif character in "$`":
                self._read_expansion(inside, quoted=True)
            else:
                self.position += 1
        self._depth -= 1
        self.whole = self.whole and self.position < len(self.text)
        self.position += 1
        self._add_uncertain(word, start)

    def _read_ansi_quoted(self, word: _WordBuilder) -> None:
        found = re.compile(r"\$'((?:[^'\\]|\\[\s\S])*)'").match(self.text, self.position)
        word.quoted = True
        if found is None:
            self.whole = False
            word.add(self.text[self.position :])
            self.position = len(self.text)
            return
        decoded = _ESCAPE.sub(_decode_escape, found[1])
        self.whole = self.whole and "\0" not in decoded
        word.add(decoded)
        self.position = found.end()


def _decode_escape(found: re.Match[str]) -> str:
    """Return the character; NUL for what ends the text, or is not known here."""
    escape = found[1]
    if escape[0] in "xuU" and len(escape) > 1:
        number = int(escape[1:], 16)
        return chr(number) if number <= 0x10FFFF else "\0"
    if escape[0] in "01234567":
        return chr(int(escape, 8) & 0xFF)
    if escape[0] == "c" and len(escape) > 1:
        return chr(ord(escape[1]) & 0x1F)
    return _LETTERS.get(escape, escape if escape in "\\'\"?" else "\0")
