"""The line of each key in a TOML text, which `tomllib` does not report.

`tomllib` has parsed the text before, so nothing is checked here: this only walks from statement to statement. Keys
inside inline tables and arrays count as being where their statement begins.
"""

import tomllib
from collections.abc import Mapping, Sequence

KeyPath = tuple[str | int, ...]
Lines = Mapping[KeyPath, int]


def find_key_lines(text: str) -> dict[KeyPath, int]:
    """Return the line, counted from 1, of every table header and every key outside of other values."""
    return _TomlScanner(text.replace("\r\n", "\n")).run()


def find_line(lines: Lines, path: Sequence[str | int]) -> int | None:
    """Return the line of a key, or of the innermost known table around it."""
    for end in range(len(path), 0, -1):
        if (line := lines.get(tuple(path[:end]))) is not None:
            return line
    return None


class _TomlScanner:
    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.lines: dict[KeyPath, int] = {}
        self.prefix: KeyPath = ()
        self.counts: dict[KeyPath, int] = {}  # how many [[x]] tables were seen for each path
        self.counted_to = 0
        self.line = 1

    def run(self) -> dict[KeyPath, int]:
        while self._skip_blank():
            if self.text[self.position] == "[":
                self._read_header()
            else:
                line = self._find_current_line()
                self._record_key(self.prefix, self._read_key("="), line)
                self._skip_value()
        return self.lines

    def _record_key(self, prefix: KeyPath, parts: Sequence[str], line: int) -> KeyPath:
        """Record the line of a key, and of the tables that it creates."""
        path = prefix
        for part in parts:
            path = (*path, part)
            self.lines.setdefault(path, line)
        return path

    def _read_header(self) -> None:
        line = self._find_current_line()
        double = self.text.startswith("[[", self.position)
        self.position += 2 if double else 1
        parts = self._read_key("]")
        self.position += 1 if double else 0  # `_read_key` has taken the first bracket
        path: KeyPath = ()
        for number, part in enumerate(parts):
            path = (*path, part)
            self.lines.setdefault(path, line)
            last = number == len(parts) - 1
            if last and double:
                self.counts[path] = self.counts.get(path, -1) + 1
            if path in self.counts and (double or not last):
                path = (*path, self.counts[path])  # a header below [[x]] belongs to the newest x
                self.lines.setdefault(path, line)
        self.prefix = path

    def _read_key(self, end: str) -> list[str]:
        """Read the parts of a dotted key, and the character after it."""
        parts: list[str] = []
        while self.position < len(self.text):
            character = self.text[self.position]
            if character == end:
                self.position += 1
                break
            if character in " \t.":
                self.position += 1
            elif character in "\"'":
                start = self.position
                self._skip_string()
                parts.append(_unquote(self.text[start : self.position]))
            else:
                start = self.position
                while self.position < len(self.text) and self.text[self.position] not in f" \t.{end}":
                    self.position += 1
                parts.append(self.text[start : self.position])
        return parts

    def _skip_value(self) -> None:
        """Skip a value: up to the end of its line, unless a bracket or a string continues."""
        depth = 0
        while self.position < len(self.text):
            character = self.text[self.position]
            if character == "\n" and depth == 0:
                return
            if character in "\"'":
                self._skip_string()
                continue
            if character == "#":
                self._skip_comment()
                continue
            depth += (character in "[{") - (character in "]}")
            self.position += 1

    def _skip_string(self) -> None:
        quote = self.text[self.position]
        long = self.text.startswith(quote * 3, self.position)
        end = quote * 3 if long else quote
        self.position += len(end)
        while self.position < len(self.text) and not self.text.startswith(end, self.position):
            self.position += 2 if quote == '"' and self.text[self.position] == "\\" else 1
        self.position += len(end)
        while long and self.text.startswith(
            quote, self.position
        ):  # up to two quotes may stand before the closing three
            self.position += 1

    def _skip_comment(self) -> None:
        while self.position < len(self.text) and self.text[self.position] != "\n":
            self.position += 1

    def _skip_blank(self) -> bool:
        while self.position < len(self.text):
            if self.text[self.position] == "#":
                self._skip_comment()
            elif self.text[self.position] in " \t\n":
                self.position += 1
            else:
                return True
        return False

    def _find_current_line(self) -> int:
        self.line += self.text.count("\n", self.counted_to, self.position)
        self.counted_to = self.position
        return self.line


def _unquote(quoted: str) -> str:
    return next(iter(tomllib.loads(f"{quoted} = 0")))
