"""`export` and `import`: a session as lines of JSON, out of one home and into another; or as a document for people."""

import os
import sys
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final, Literal

import trio

import session_core as sc
from frontends.arguments import UsageError
from frontends.console.figures import size
from frontends.console.output import OutputFailed
from frontends.console.progress import Progress
from frontends.console.sanitise import one_line
from frontends.console.streams import Streams
from frontends.console.style import counted
from frontends.stored.home import Kept, how_to_go_on, list_kept, look_into
from frontends.stored.patience import PatientStore
from frontends.stored.which import find, short_id

STANDARD = "-"
Format = Literal["jsonl", "markdown", "html"]
_ENDINGS: Final[dict[str, Format]] = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".html": "html",
    ".htm": "html",
    ".jsonl": "jsonl",
}
_CHUNK_BYTES = 256 * 1024
_LONGEST_LINE = 128 * 1024 * 1024  # twice the longest event; what is longer is cut here and refused there


def export(home: Path, session: str, file: str, *, force: bool, kind: Format | None = None) -> int:
    """Run `export` and return the exit code; without a kind, the ending of the file decides."""
    target = None if file == STANDARD else Path(file).absolute()
    if target is not None and target.exists() and not force:
        raise UsageError(f"{file!r} exists already; choose another name, or overwrite it with --force")
    chosen = kind or _ENDINGS.get(Path(file).suffix.lower(), "jsonl")
    return trio.run(_export, home, session, target, chosen, Streams.standard())


def bring(home: Path, file: str, *, as_new: bool) -> int:
    """Run `import` and return the exit code."""
    if file == STANDARD:
        if sys.stdin is None:
            raise UsageError("the session was to come from stdin, but stdin is closed")
        return trio.run(_import, home, sys.stdin.buffer, as_new, Streams.standard())
    try:
        source = Path(file).open("rb")  # noqa: SIM115 - closed below; only opening it may fail like this
    except OSError as error:
        raise UsageError(f"{file!r} cannot be read: {error.strerror}") from error
    with source:
        return trio.run(_import, home, source, as_new, Streams.standard())


# --- out --------------------------------------------------------------------------------------------------------------


def write_export(home: Path, session_id: sc.SessionId, target: Path, kind: Format) -> int:
    """Write a session to a file, without a word; returns how many bytes it has. Blocks, and runs a loop of its own.

    Raises:
        NotFound: Nothing is kept of this session here.
        UsageError, OutputFailed: The file cannot be written.
    """

    async def write() -> int:
        async with look_into(home) as kept:
            if all(each.session_id != session_id for each in kept.sessions):
                raise sc.NotFound("nothing is kept of this session, so that there is nothing to write")
            lines = _pieces(kept, session_id, kind)
            async with aclosing(lines), aclosing(_chunks(lines, Progress(None))) as chunks:
                return await _write_file(target, chunks)

    return trio.run(write)


async def _export(home: Path, typed: str, target: Path | None, kind: Format, streams: Streams) -> int:
    async with look_into(home) as kept:
        found = find(typed, kept.sessions, home)
        lines = _pieces(kept, found.session_id, kind)
        with Progress.on_stderr() as progress:
            async with aclosing(lines), aclosing(_chunks(lines, progress)) as chunks:
                if target is None:
                    async for chunk in chunks:
                        await streams.out.write(chunk)
                    return 0
                written = await _write_file(target, chunks)
    short = short_id(found.session_id, kept.sessions)
    await streams.remark(f'{short} "{one_line(found.name, 60)}" is in {target} ({size(written)})')
    return 0


def _pieces(kept: Kept, session_id: sc.SessionId, kind: Format) -> AsyncGenerator[bytes]:
    assert kept.reader is not None, "a home without a store has no sessions to find"
    if kind == "jsonl":
        return sc.export_session(kept.reader, session_id)
    from frontends.exporting.writing import document

    return document(kept, session_id, kind)


async def _chunks(lines: AsyncIterator[bytes], progress: Progress) -> AsyncGenerator[bytes]:
    """Put lines together, so that each write is worth it."""
    pending, total = bytearray(), 0
    async for line in lines:
        pending += line
        if len(pending) >= _CHUNK_BYTES:
            total += len(pending)
            progress(f"{size(total)} written")
            yield bytes(pending)
            pending.clear()
    yield bytes(pending)


async def _write_file(target: Path, chunks: AsyncIterator[bytes]) -> int:
    """Write a file that is complete or not there at all; returns how many bytes it has."""
    written = 0
    with _complete_file(target) as file:
        async for chunk in chunks:
            written += await trio.to_thread.run_sync(file.write, chunk)
    return written


@contextmanager
def _complete_file(target: Path) -> Generator[BinaryIO]:
    """Give a file for its owner alone that gets its name when the block has ended well, and else leaves no trace."""
    try:
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:100]}.")
    except OSError as error:
        raise UsageError(f"{str(target)!r} cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        Path(name).replace(target)
    except OSError as error:
        raise OutputFailed(f"{str(target)!r} could not be written: {error.strerror}") from error
    finally:
        with suppress(OSError):  # gone when all is well
            Path(name).unlink()


# --- in ---------------------------------------------------------------------------------------------------------------


async def _import(home: Path, source: BinaryIO, as_new: bool, streams: Streams) -> int:  # noqa: FBT001
    try:
        with Progress.on_stderr() as progress:
            async with aclosing(_lines(source, progress)) as lines:
                report = await sc.import_session(lines, PatientStore(home), as_new=as_new)
    except sc.Conflict as conflict:
        raise sc.Conflict(f"{conflict.message} (--as-new)", field=conflict.field) from conflict
    short = short_id(report.session_id, await list_kept(home))
    await streams.say(short)
    what = f"{counted(report.messages, 'message')} and {counted(report.events, 'event')} were imported."
    await streams.remark(f"{what}\n{streams.err.style.dim(how_to_go_on(short, home))}")
    return 0


async def _lines(source: BinaryIO, progress: Progress) -> AsyncGenerator[bytes]:
    total = 0
    while line := await trio.to_thread.run_sync(source.readline, _LONGEST_LINE, abandon_on_cancel=True):
        total += len(line)
        progress(f"{size(total)} read")
        yield line
