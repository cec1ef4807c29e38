"""`session-core import`: a session from lines of JSON that `export` has written."""

import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import BinaryIO

import trio

import session_core as sc
from frontends.shared.figures import format_count, format_size
from frontends.shared.home import format_resume_hint, list_stored_sessions
from frontends.shared.parser import UsageError
from frontends.shared.progress import ProgressLine
from frontends.shared.sanitise import one_line
from frontends.shared.session_lookup import short_id
from frontends.shared.streams import StandardStreams
from frontends.shared.wait_for_home import WaitingStore

STANDARD = "-"
_LONGEST_REMARK = 200
_LONGEST_LINE = 128 * 1024 * 1024  # twice the longest event; a longer line is cut here and rejected later


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


async def _import(home: Path, source: BinaryIO, folder: Path | None, as_new: bool) -> int:  # noqa: FBT001
    streams = StandardStreams.standard()
    settings = None if folder is None else await settings_of_new_session(home, folder)
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


async def settings_of_new_session(home: Path, folder: Path) -> sc.Settings:
    """Return the settings that a new session in this folder would have.

    Raises:
        ConfigInvalid: The configuration is wrong.
    """
    trust = await trio.to_thread.run_sync(sc.setup.find_trusted_fingerprint, home, folder)
    config = await trio.to_thread.run_sync(partial(sc.setup.load_config, home, folder, trust=trust))
    try:
        model = (await sc.setup.default_model(config)).name
    except sc.InvalidInput:  # it has no key here, but is still the configured model
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
