"""The file search as a separate program: a pattern that takes forever ends with its process.

It needs only the standard library and prints the format of `rg --json`, one JSON document per line, so the reader does
not need to know which of the two has searched. Arguments: the options as JSON, then the files.
"""

import json
import os
import re
import stat
import sys
from base64 import b64encode
from typing import Any


def main(arguments: list[str]) -> int:
    """Search, and return the exit code: 0 for matches, 1 for no match, 2 for an invalid pattern."""
    options = json.loads(arguments[0])
    pattern = re.escape(options["pattern"]) if options["literal"] else options["pattern"]
    try:
        compiled = re.compile(pattern, re.IGNORECASE if options["ignore_case"] else 0)
    except (re.error, OverflowError, RecursionError) as error:
        write_document("error", {"message": str(error)})
        return 2
    found = False
    for path in arguments[1:]:
        lines = read_lines(path, options["max_bytes"])
        if lines is not None:
            found = search(path, lines, compiled, options) or found
    write_document("summary", {})
    return 0 if found else 1


def search(path: str, lines: list[str], pattern: "re.Pattern[str]", options: dict[str, Any]) -> bool:
    """Report every matching line and its context; return whether there was one."""
    context: int = options["context"]
    max_per_file: int = options["max_per_file"]
    last_reported, found = 0, 0
    for number, line in enumerate(lines, 1):
        if not pattern.search(line):
            continue
        found += 1
        for before in range(max(last_reported + 1, number - context), number):
            report_line("context", path, before, lines[before - 1])
        report_line("match", path, number, line)
        last_reported = number
        if found >= max_per_file:
            break
        # Lines after a match are context only up to the next match.
        for after in range(number + 1, min(number + context, len(lines)) + 1):
            if pattern.search(lines[after - 1]):
                break
            report_line("context", path, after, lines[after - 1])
            last_reported = after
    if found:
        write_document("end", {"path": as_text(path), "binary_offset": None})
        sys.stdout.flush()
    return found > 0


def read_lines(path: str, max_bytes: int) -> list[str] | None:
    """Return the lines of a text file without their ends; None if it is not text, too large, or unreadable."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return None
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > max_bytes:
            return None
        try:
            data = file.read(max_bytes)
        except OSError:
            return None
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        text = data.decode("utf-16", errors="replace")
    elif b"\0" in data:
        return None
    else:
        text = data.decode("utf-8", errors="replace").removeprefix("\ufeff")
    *whole, last = text.split("\n")
    return [line.removesuffix("\r") for line in (*whole, *([last] if last else []))]


def report_line(kind: str, path: str, number: int, line: str) -> None:
    """Report one line."""
    write_document(kind, {"path": as_text(path), "lines": {"text": line}, "line_number": number})


def write_document(kind: str, data: dict[str, Any]) -> None:
    """Write one document."""
    sys.stdout.write(json.dumps({"type": kind, "data": data}) + "\n")


def as_text(path: str) -> dict[str, str]:
    """Encode a path as text, or as bytes if it is not valid text."""
    try:
        path.encode()
    except UnicodeEncodeError:
        return {"bytes": b64encode(os.fsencode(path)).decode()}
    return {"text": path}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
