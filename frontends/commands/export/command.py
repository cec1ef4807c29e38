"""`session-core export`: a session as lines of JSON for another home, or as a document for people."""

import os
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Final, Literal

import trio

import session_core as sc
from frontends.shared.figures import format_size
from frontends.shared.home import StoredHome, open_stored_home
from frontends.shared.output import OutputFailed
from frontends.shared.parser import UsageError
from frontends.shared.progress import ProgressLine
from frontends.shared.sanitise import one_line
from frontends.shared.session_lookup import find_session, short_id
from frontends.shared.streams import StandardStreams

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


def export(home: Path, session: str, file: str, *, force: bool, kind: Format | None = None) -> int:
    """Run `export` and return the exit code; without a kind, the file extension decides."""
    target = None if file == STANDARD else Path(file).absolute()
    if target is not None and target.exists() and not force:
        raise UsageError(f"{file!r} exists already; choose another name, or overwrite it with --force")
    chosen = kind or _ENDINGS.get(Path(file).suffix.lower(), "jsonl")
    return trio.run(_export, home, session, target, chosen, StandardStreams.standard())


def write_export(home: Path, session_id: sc.SessionId, target: Path, kind: Format) -> int:
    """Write a session to a file without any output; return its size in bytes. Blocks, and runs its own event loop.

    Raises:
        NotFound: This home does not have the session.
        UsageError, OutputFailed: The file cannot be written.
    """

    async def write() -> int:
        async with open_stored_home(home) as stored_home:
            if all(each.session_id != session_id for each in stored_home.sessions):
                raise sc.NotFound("this session is not stored, so there is nothing to export")
            lines = _pieces(stored_home, session_id, kind)
            async with aclosing(lines), aclosing(_chunks(lines, ProgressLine(None))) as chunks:
                return await _write_file(target, chunks)

    return trio.run(write)


async def _export(home: Path, typed: str, target: Path | None, kind: Format, streams: StandardStreams) -> int:
    async with open_stored_home(home) as stored_home:
        found = find_session(typed, stored_home.sessions, home)
        lines = _pieces(stored_home, found.session_id, kind)
        with ProgressLine.on_stderr() as progress:
            async with aclosing(lines), aclosing(_chunks(lines, progress)) as chunks:
                if target is None:
                    write = streams.out.write_json if kind == "jsonl" else streams.out.write
                    async for chunk in chunks:
                        await write(chunk)
                    return 0
                written = await _write_file(target, chunks)
    short = short_id(found.session_id, stored_home.sessions)
    await streams.remark(f'{short} "{one_line(found.name, 60)}" is in {target} ({format_size(written)})')
    return 0


def _pieces(stored_home: StoredHome, session_id: sc.SessionId, kind: Format) -> AsyncGenerator[bytes]:
    assert stored_home.reader is not None, "a home without a store has no sessions to find"
    if kind == "jsonl":
        return sc.maintenance.export_session(stored_home.reader, session_id)
    from frontends.commands.export.document import document  # of no use to the lines of JSON

    return document(stored_home, session_id, kind)


async def _chunks(lines: AsyncIterator[bytes], progress: ProgressLine) -> AsyncGenerator[bytes]:
    """Join lines into chunks that are worth a write."""
    pending, total = bytearray(), 0
    async for line in lines:
        pending += line
        if len(pending) >= _CHUNK_BYTES:
            total += len(pending)
            progress(f"{format_size(total)} written")
            yield bytes(pending)
            pending.clear()
    yield bytes(pending)


async def _write_file(target: Path, chunks: AsyncIterator[bytes]) -> int:
    """Write a file completely or not at all; return its size in bytes."""
    written = 0
    with _complete_file(target) as file:
        async for chunk in chunks:
            written += await trio.to_thread.run_sync(file.write, chunk)
    return written


@contextmanager
def _complete_file(target: Path) -> Generator[BinaryIO]:
    """Yield a private file that gets its name if the block succeeds, and otherwise leaves no trace."""
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
        with suppress(OSError):  # already renamed on success
            Path(name).unlink()
