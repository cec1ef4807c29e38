"""`export` and `import`: a session as lines of JSON, from one home to another; or as a document for people."""

import os
import sys
import tempfile
from collections.abc import AsyncGenerator, AsyncIterator, Generator
from contextlib import aclosing, contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, Literal

import trio

import session_core as sc
from frontends.arguments import UsageError
from frontends.commands.sessions.home import StoredHome, format_resume_hint, list_stored_sessions, open_stored_home
from frontends.commands.sessions.session_lookup import find_session, short_id
from frontends.commands.sessions.wait_for_home import WaitingStore
from frontends.shared.figures import format_size
from frontends.shared.output import OutputFailed
from frontends.shared.progress import ProgressLine
from frontends.shared.sanitise import one_line
from frontends.shared.streams import StandardStreams
from frontends.shared.style import format_count

STANDARD = "-"
Format = Literal["jsonl", "markdown", "html"]
_ENDINGS: Final[dict[str, Format]] = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".html": "html",
    ".htm": "html",
    ".jsonl": "jsonl",
}
_LONGEST_REMARK = 200
_CHUNK_BYTES = 256 * 1024
_LONGEST_LINE = 128 * 1024 * 1024  # twice the longest event; a longer line is cut here and rejected later


def export(home: Path, session: str, file: str, *, force: bool, kind: Format | None = None) -> int:
    """Run `export` and return the exit code; without a kind, the file extension decides."""
    target = None if file == STANDARD else Path(file).absolute()
    if target is not None and target.exists() and not force:
        raise UsageError(f"{file!r} exists already; choose another name, or overwrite it with --force")
    chosen = kind or _ENDINGS.get(Path(file).suffix.lower(), "jsonl")
    return trio.run(_export, home, session, target, chosen, StandardStreams.standard())


def import_session(home: Path, file: str, folder: Path, *, as_new: bool, keep_settings: bool) -> int:
    """Run `import` and return the exit code; the session will work in the folder, unless it keeps its settings."""
    if file == STANDARD:
        if sys.stdin is None:
            raise UsageError("the session should come from stdin, but stdin is closed")
        return trio.run(_import, home, sys.stdin.buffer, None if keep_settings else folder, as_new)
    try:
        source = Path(file).open("rb")  # noqa: SIM115 - closed below; only the opening may fail like this
    except OSError as error:
        raise UsageError(f"{file!r} cannot be read: {error.strerror}") from error
    with source:
        return trio.run(_import, home, source, None if keep_settings else folder, as_new)


# --- export -----------------------------------------------------------------------------------------------------------


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
    from frontends.commands.export.document import document

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


# --- import -----------------------------------------------------------------------------------------------------------


async def _import(home: Path, source: BinaryIO, folder: Path | None, as_new: bool) -> int:  # noqa: FBT001
    streams = StandardStreams.standard()
    settings = None if folder is None else await _settings_of_new_session(home, folder)
    try:
        with ProgressLine.on_stderr() as progress:
            async with aclosing(_lines(source, progress)) as lines:
                report = await sc.maintenance.import_session(
                    lines, WaitingStore(home), settings=settings, as_new=as_new
                )
    except sc.Conflict as conflict:
        raise sc.Conflict(f"{conflict.message} (--as-new)", field=conflict.field) from conflict
    short = short_id(report.session_id, await list_stored_sessions(home))
    await streams.say(short)
    what = f"{format_count(report.messages, 'message')} and {format_count(report.events, 'event')} were imported."
    await streams.remark(what)
    if report.left_out:
        await streams.remark(
            "Not imported, because the file may come from somebody else (if it is your own, use --keep-settings):"
        )
        for line in report.left_out:
            await streams.remark(f"  {one_line(line, _LONGEST_REMARK)}")
    await streams.remark(streams.err.style.dim(format_resume_hint(short, home)))
    return 0


async def _settings_of_new_session(home: Path, folder: Path) -> sc.Settings:
    """Return the settings that a new session in this folder would have.

    Raises:
        ConfigInvalid: The configuration is wrong.
    """
    trust = await trio.to_thread.run_sync(sc.setup.find_trusted_fingerprint, home, folder)
    config = await trio.to_thread.run_sync(partial(sc.setup.load_config, home, folder, trust=trust))
    try:
        model = (await sc.setup.default_model(config)).name
    except sc.InvalidInput:  # the configured model has no key here; it is the one all the same
        model = str(config.model)
    return sc.Settings(
        model=model,
        cwd=str(folder),
        permission_mode=config.permission_mode,
        sandbox=config.sandbox,
        thinking=config.thinking,
        limits=config.limits,
    )


async def _lines(source: BinaryIO, progress: ProgressLine) -> AsyncGenerator[bytes]:
    total = 0
    while line := await trio.to_thread.run_sync(source.readline, _LONGEST_LINE, abandon_on_cancel=True):
        total += len(line)
        progress(f"{format_size(total)} read")
        yield line
