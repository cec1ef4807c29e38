"""`session-core store ...`: maintenance of the file that holds all sessions."""

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TypeVar

import attrs
import trio

import session_core as sc
from frontends.commands.sessions.import_session import settings_of_new_session
from frontends.shared.figures import format_ago, format_count, format_path, format_size, local_time
from frontends.shared.home import format_command, has_store, list_stored_sessions
from frontends.shared.parser import UsageError
from frontends.shared.progress import ProgressLine
from frontends.shared.sanitise import dump_json, one_line
from frontends.shared.session_lookup import short_ids
from frontends.shared.style import Style, stream_style
from frontends.shared.text_width import columns, cut, pad
from frontends.shared.wait_for_home import retry_while_home_is_busy

T = TypeVar("T")

_ADVICE_CHARS = 400
_SIZE_CELLS = 11
_ID_CHARS = 8
_SESSION = re.compile(r"\bses_\w+")


def verify(home: Path) -> int:
    """Run `store verify` and return the exit code."""
    _need_a_store(home)
    report = _run_with_progress(lambda progress: sc.maintenance.verify_store(home, progress=progress))
    style = stream_style(sys.stdout)
    for line in finding_lines(style, report.findings):
        print(line)
    counts = f"{format_count(report.sessions, 'session')}, {format_count(report.events, 'event')}"
    read = f"{counts}, {format_size(report.bytes)}"
    if report.ok:
        print(f"{style.green(style.symbol('✓'))} {format_path(str(home))} is sound: {read}")
        return 0
    errors = sum(1 for finding in report.findings if finding.severity == "error")
    print(
        f"{style.red(style.symbol('✗'))} {format_count(errors, 'error')} in {format_path(str(home))}: "
        f"{read} could be read"
    )
    return 1


def finding_lines(style: Style, findings: Sequence[sc.maintenance.StoreFinding]) -> list[str]:
    """Describe the findings, grouped by what to do about them."""
    lines: list[str] = []
    for advice in dict.fromkeys(finding.advice for finding in findings):
        for finding in findings:
            if finding.advice == advice:
                error = finding.severity == "error"
                mark = style.red(style.symbol("✗")) if error else style.yellow(style.symbol("●"))
                where = f"{style.cyan(one_line(finding.session_id))}: " if finding.session_id is not None else ""
                lines.append(f"{mark} {where}{one_line(finding.what, _ADVICE_CHARS)}")
        lines.append(f"  {style.dim(one_line(advice, _ADVICE_CHARS))}")
    return lines


def rebuild(home: Path, folder: Path) -> int:
    """Run `store rebuild` and return the exit code: 1 if something was lost.

    Sessions that lost records get the settings of a new session in the folder.
    """
    _need_a_store(home)
    before = _short_ids(home)
    settings = trio.run(settings_of_new_session, home, folder)
    report = _run_with_progress(
        lambda progress: sc.maintenance.rebuild_store(home, settings=settings, progress=progress)
    )
    for line in rebuild_lines(stream_style(sys.stdout), report, {**before, **_short_ids(home)}):
        print(line)
    return 1 if report.lost else 0


def _short_ids(home: Path) -> Mapping[sc.SessionId, str]:
    """Return the short ids of the sessions that can still be listed."""
    try:
        return short_ids(trio.run(list_stored_sessions, home))
    except sc.SessionCoreError:  # damaged, which is why the user is here
        return {}


def rebuild_lines(style: Style, report: sc.maintenance.RebuildReport, ids: Mapping[sc.SessionId, str]) -> list[str]:
    """Describe what was rebuilt, what is lost, and where the old files are; `ids` are the short ones."""

    def shorten_ids(text: str) -> str:
        return _SESSION.sub(lambda found: ids.get(sc.SessionId(found[0]), found[0]), one_line(text, _ADVICE_CHARS))

    good, bad = style.green(style.symbol("✓")), style.red(style.symbol("✗"))
    lines = [f"{good} repaired: {shorten_ids(text)}" for text in report.repaired]
    lines += [f"{bad} lost: {shorten_ids(text)}" for text in report.lost]
    if report.settled:
        lines.append(
            f"{style.yellow(style.symbol('●'))} brought to rest, as records that restricted them may be lost: "
            f"{format_count(len(report.settled), 'session')}, now with the settings of a new session here (of "
            "permission mode and sandbox the stricter of both), and without wake-ups, queued messages, grants and open "
            "requests"
        )
    if not lines:
        lines.append(f"{good} nothing was wrong; everything was rebuilt anyway")
    lines.append(
        f"The new file holds {format_count(report.sessions, 'session')} with {format_count(report.events, 'event')}."
    )
    if report.damaged is not None:
        lines.append(f"The old file is kept: {format_path(str(report.damaged))}")
    if report.set_aside is not None:
        lines.append(f"Events whose predecessors are lost are kept: {format_path(str(report.set_aside))}")
    return lines


def compact(home: Path) -> int:
    """Run `store compact` and return the exit code."""
    _need_a_store(home)
    report = _run_with_progress(lambda progress: sc.maintenance.compact_store(home, progress=progress))
    freed = max(0, report.before_bytes - report.after_bytes)
    print(
        f"{format_size(report.before_bytes)} before, {format_size(report.after_bytes)} now: {format_size(freed)} freed"
    )
    return 0


def backup(home: Path, target: str | None) -> int:
    """Run `store backup` and return the exit code."""
    _need_a_store(home)
    today = datetime.now().astimezone().date()
    chosen = Path(target) if target is not None else _free_name(Path(f"session-core-backup-{today}.sqlite3"))
    if not chosen.absolute().parent.is_dir():
        raise UsageError(f"there is no folder {str(chosen.absolute().parent)!r} for the backup")
    report = _run_with_progress(
        lambda progress: sc.maintenance.backup_store(home, chosen.absolute(), progress=progress)
    )
    print(f"{format_count(report.sessions, 'session')} saved in {report.path} ({format_size(report.bytes)})")
    if report.damaged:
        style = stream_style(sys.stderr)
        mark, see = style.red(style.symbol("✗")), format_command(home, "store verify", "")
        print(f"{mark} the store is damaged, and so is this copy: see {see}", file=sys.stderr)
        return 1
    return 0


def restore(home: Path, file: str) -> int:
    """Run `store restore` and return the exit code."""
    backup = Path(file).absolute()
    if not backup.is_file():
        raise UsageError(f"{file!r} is not a file" if backup.exists() else f"there is no {file!r}")
    report = _run_with_progress(lambda progress: sc.maintenance.restore_store(home, backup, progress=progress))
    print(
        f"{format_count(report.sessions, 'session')} restored into {format_path(str(home))} "
        f"({format_size(report.bytes)})"
    )
    if report.set_aside is not None:
        print(f"The old store is kept: {format_path(str(report.set_aside))}")
    return 0


def _free_name(path: Path) -> Path:
    """Return the path, with a number appended if there is already a backup of today."""
    number, free = 1, path
    while free.exists():
        number += 1
        free = path.with_stem(f"{path.stem}-{number}")
    return free


def stats(home: Path, *, as_json: bool) -> int:
    """Run `store stats` and return the exit code."""
    _need_a_store(home)
    found = _run_with_progress(lambda _: sc.maintenance.store_statistics(home))
    if as_json:
        print(dump_json(attrs.asdict(found)))
        return 0
    for line in statistics_lines(stream_style(sys.stdout), found, home, now=sc.now_ms(), width=columns()):
        print(line)
    return 0


def statistics_lines(
    style: Style, found: sc.maintenance.StoreStatistics, home: Path, *, now: int, width: int
) -> list[str]:
    """Return a small table of what is stored."""
    rows: Mapping[str, str] = {
        "home": format_path(str(home)),
        "sessions": f"{found.sessions:,} ({found.archived:,} archived, {found.running:,} running)",
        "messages": f"{found.messages:,}",
        "events": f"{found.events:,}",
        "blobs": f"{found.blobs:,} ({format_size(found.blob_bytes)})",
        **({"code state": f"{found.leaves:,} ({format_size(found.leaf_bytes)})"} if found.leaves else {}),
        "file": f"{format_size(found.file_bytes)}, and {format_size(found.wal_bytes)} in its log",
        **_times(found, now),
    }
    margin = max(map(len, rows)) + 2
    lines = [f"{style.dim(pad(name, margin))}{cut(text, width - margin)}" for name, text in rows.items()]
    for number, (session_id, name, count) in enumerate(found.largest):
        head = pad("" if number else "largest", margin)
        much = pad(format_size(count), _SIZE_CELLS)
        short = one_line(session_id[-_ID_CHARS:])
        displayed_name = cut(one_line(name, width), max(8, width - margin - _SIZE_CELLS - len(short) - 2))
        lines.append(f"{style.dim(head)}{much}{style.cyan(short)}  {displayed_name}")
    return lines


def _times(found: sc.maintenance.StoreStatistics, now: int) -> dict[str, str]:
    times = {"oldest": found.oldest_at, "last used": found.newest_at}
    return {
        name: f"{local_time(time_ms):%Y-%m-%d %H:%M} ({format_ago(time_ms, now)})"
        for name, time_ms in times.items()
        if time_ms is not None
    }


def _run_with_progress(work: Callable[[ProgressLine], T]) -> T:
    with ProgressLine.on_stderr() as progress:
        return retry_while_home_is_busy(lambda: work(progress))


def _need_a_store(home: Path) -> None:
    """Reject a mistyped path before it is turned into a home or made private."""
    if not has_store(home):
        raise UsageError(f"no sessions are stored in {str(home)!r}")
