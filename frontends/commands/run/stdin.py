"""Input from a stdin that is not a terminal: the prompt itself, or a text attached to it.

Rules:
1. `-` reads the prompt from stdin; so does no prompt at all if stdin is a pipe or a file. With a typed prompt, stdin
   is attached to it as a file called `stdin`. Extension commands and shell lines take no input.
2. A terminal and `/dev/null` have no input. A pipe that stays open and silent is waited for only if there is no
   prompt yet: the caller may simply have passed on its own stdin.
3. Input must be UTF-8 text of at most `MAX_TEXT_CHARS` characters; longer input is rejected, not cut.
"""

import os
import select
import stat
import sys
from collections.abc import Callable
from typing import TextIO

import attrs

import session_core as sc
from frontends.commands.run.prompt_kind import is_for_model
from frontends.shared.attachments import MAX_TEXT_CHARS, PromptAttachments
from frontends.shared.parser import UsageError

STDIN = "stdin"
PATIENCE_S = 3.0
_MOST_BYTES = MAX_TEXT_CHARS * 4
_CHUNK = 1 << 16


@attrs.frozen(kw_only=True)
class PromptInput:
    """A prompt with its attachments; one that was not `typed` is never a command."""

    prompt: str | None
    typed: bool = True
    attached: tuple[sc.FilePart, ...] = ()

    def merge_attachments(self, others: PromptAttachments) -> PromptAttachments:
        """Return all attachments of the prompt, `others` included."""
        return attrs.evolve(others, files=(*self.attached, *others.files))


def read_prompt_input(
    given: str | None, *, goes_on: bool, stdin: TextIO | None = None, remark: Callable[[str], None] | None = None
) -> PromptInput:
    """Return the prompt, with the input from stdin.

    Args:
        given: The prompt on the command line, if there was one.
        goes_on: Whether no prompt is fine too, as an interrupted turn can be resumed.
        stdin: Where to read, unless it is the program's own.
        remark: Reports that the program is waiting for input.

    Raises:
        UsageError: There is no prompt, or stdin is not text or too long.
    """
    source = stdin if stdin is not None else sys.stdin
    tell = remark if remark is not None else _remark
    if given == "-":
        if source is None:
            raise UsageError("the prompt should come from stdin, but stdin is closed")
        return PromptInput(prompt=_require_stdin_text(_read(source.fileno(), "the prompt")), typed=False)
    if given is not None and not given.strip():
        raise UsageError("the prompt is empty")
    fd = _pipe_descriptor(source)
    if fd is None or (given is not None and not is_for_model(given)):
        return PromptInput(prompt=given)
    is_needed = given is None and not goes_on
    if not _has_input(fd, PATIENCE_S):
        if not is_needed:
            tell("no input on stdin, so it is ignored; add < /dev/null to avoid this wait")
            return PromptInput(prompt=given)
        tell("waiting for the prompt on stdin")
    text = _read(fd, "the prompt" if given is None else "the text")
    if not text.strip() and not is_needed:
        return PromptInput(prompt=given)
    if given is None:
        return PromptInput(prompt=_require_stdin_text(text), typed=False)
    return PromptInput(prompt=given, attached=(sc.FilePart(name=STDIN, text=text),))


def _require_stdin_text(text: str) -> str:
    if not text.strip():
        raise UsageError("stdin was empty, and there is no other prompt (see: session-core run --help)")
    return text


def _pipe_descriptor(source: TextIO | None) -> int | None:
    """Return the descriptor of a stdin that may have input."""
    if source is None:
        return None
    try:
        fd = source.fileno()
        mode = os.fstat(fd).st_mode
    except (OSError, ValueError):
        return None
    return fd if stat.S_ISFIFO(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode) else None


def _has_input(fd: int, seconds: float) -> bool:
    """Return whether input or its end arrives within this time."""
    return bool(select.select([fd], [], [], seconds)[0])


def _read(fd: int, what: str) -> str:
    data = bytearray()
    while len(data) <= _MOST_BYTES:
        try:
            chunk = os.read(fd, _CHUNK)
        except BlockingIOError:  # another program left it in non-blocking mode
            select.select([fd], [], [])
            continue
        except OSError as error:
            raise UsageError(f"{what} on stdin cannot be read: {error.strerror}") from error
        if not chunk:
            break
        data += chunk
    too_long = f"{what} on stdin is too long; the limit is {MAX_TEXT_CHARS:,} characters"
    if len(data) > _MOST_BYTES:
        raise UsageError(too_long)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError(f"{what} on stdin is not valid UTF-8 text") from None
    if len(text) > MAX_TEXT_CHARS:
        raise UsageError(too_long)
    if "\0" in text:
        raise UsageError(f"{what} on stdin is not text: there are zero bytes in it")
    return text


def _remark(sentence: str) -> None:
    if sys.stderr is not None:
        print(sentence, file=sys.stderr, flush=True)
