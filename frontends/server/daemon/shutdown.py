"""`session-core shutdown`: end the service of a home, and wait until its process is gone."""

import os
import signal
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import trio

import session_core as sc
from frontends.server.daemon.attached_client import ClientNotAdmitted, NobodyListens, open_talk
from frontends.server.daemon.runtime_paths import find_cut_off, format_release_mismatch, service_process
from frontends.server.daemon.status import EXIT_NOT_RUNNING, nothing_lines
from frontends.shared.home import format_command, list_stored_sessions
from frontends.shared.progress import ProgressLine
from frontends.shared.session_lookup import short_ids
from frontends.shared.streams import StandardStreams, with_streams

LEAVE_S: Final = 30.0
"""How long a service may take to end: it interrupts running work, and records that."""
_LOOK_EVERY_S: Final = 0.05
_MOST_NAMES: Final = 10


@with_streams
async def shutdown(streams: StandardStreams, home: Path, *, force: bool) -> int:
    """Run `shutdown` and return the exit code: 3 if no service runs."""
    holder = await trio.to_thread.run_sync(service_process, home)
    if holder is None:
        await streams.say(nothing_lines(home, None)[0])
        return EXIT_NOT_RUNNING
    with _watch_process(holder) as process:  # before the request: its pid could belong to another process afterwards
        if not await _ask_to_end(home, holder, streams, force=force):
            await streams.remark("the service keeps running")
            return 1
        with ProgressLine.on_stderr() as doing:
            doing(f"waiting for process {holder.pid} to end")
            with trio.move_on_after(LEAVE_S) as time_limit:
                await _wait_until_gone(home, holder, process)
    if time_limit.cancelled_caught:
        raise sc.Unavailable(
            f"the service was asked to end, but process {holder.pid} is still there after {LEAVE_S:.0f} seconds; "
            f"to end it at once: kill -9 {holder.pid}"
        )
    await streams.say(f"the service has ended (process {holder.pid})")
    return 0


async def _ask_to_end(home: Path, holder: sc.setup.LockHolder, streams: StandardStreams, *, force: bool) -> bool:
    """Ask the service to end, and the person before work is interrupted; return whether it is about to end."""
    try:
        async with open_talk(home, name="shutdown") as talk:
            refused = False
            while True:
                at_work = [] if force else _ids_at_work(await talk.load_sessions())
                if at_work and not await _may_interrupt(home, at_work, streams):
                    return False
                try:
                    await talk.shutdown(force=force or refused or bool(at_work))
                    break
                except sc.Conflict:  # a turn has begun just now, or the work has no activity, like an undo of files
                    refused = True
    except ClientNotAdmitted:
        pass  # another client has already ended it
    except NobodyListens:
        lost = await trio.to_thread.run_sync(find_cut_off, home, holder)
        if lost is not None:
            return await _end_unheard(home, holder, streams, f"the socket of {holder} was deleted", force=force)
        _terminate(holder)  # it is still starting, so nothing runs in it, or already ending
    except sc.ProtocolError:
        why = await trio.to_thread.run_sync(format_release_mismatch, home, holder)
        return await _end_unheard(home, holder, streams, why, force=force)
    except sc.Disconnected as error:
        if not force:
            typed = format_command(home, "shutdown", "--force")
            raise sc.Disconnected(f"{error.message}: {holder}; to have its process end: {typed}") from error
        _terminate(holder)
    return True


async def _end_unheard(
    home: Path, holder: sc.setup.LockHolder, streams: StandardStreams, why: str, *, force: bool
) -> bool:
    """End a service that cannot report what it is doing; every release ends cleanly on SIGTERM.

    The store says which sessions are working; if it cannot, a person must confirm explicitly.
    """
    if not force:
        at_work = await _list_stored_ids_at_work(home)
        if at_work is None and not await _may_end_unseen(home, why, streams):
            return False
        if at_work and not await _may_interrupt(home, at_work, streams, because=why):
            return False
    _terminate(holder)
    await streams.remark(f"{why}; it was sent SIGTERM, so it interrupts its work and ends")
    return True


async def _list_stored_ids_at_work(home: Path) -> list[str] | None:
    """Return the short ids of the working sessions according to the store; None if it cannot be read."""
    try:
        return _ids_at_work(await list_stored_sessions(home))
    except sc.SessionCoreError:
        return None


async def _may_end_unseen(home: Path, why: str, streams: StandardStreams) -> bool:
    unseen = f"{why}; it is unknown whether something is running there"
    if streams.keyboard is None:
        force = format_command(home, "shutdown", "--force")
        raise sc.Conflict(f"{unseen}; to end it anyway, and interrupt any running work: {force}")
    return await streams.confirm(f"{unseen}. End it, and interrupt any running work?")


def _ids_at_work(sessions: Sequence[sc.SessionSummary]) -> list[str]:
    """Return the short ids of the working sessions."""
    ids = short_ids(sessions)
    return [ids[each.session_id] for each in sessions if not each.activity.is_at_rest]


async def _may_interrupt(home: Path, at_work: Sequence[str], streams: StandardStreams, *, because: str = "") -> bool:
    many = len(at_work)
    names = ", ".join([*at_work[:_MOST_NAMES], *(["..."] if many > _MOST_NAMES else [])])
    what, them = ("a session is at work", "it") if many == 1 else (f"{many} sessions are at work", "them")
    what = f"{because}; {what} ({names})" if because else f"{what} ({names})"
    if streams.keyboard is None:
        force = format_command(home, "shutdown", "--force")
        raise sc.Conflict(f"{what}; stop {them} first, or interrupt {them} with: {force}")
    return await streams.confirm(f"{what}. Interrupt {them}?")


def _terminate(holder: sc.setup.LockHolder) -> None:
    """Send SIGTERM to a process of this machine, unless its identity is uncertain."""
    if holder.pid <= 0 or holder.host != os.uname().nodename:
        raise sc.Unavailable(f"the service of this home is {holder}, which cannot be asked to end from here")
    try:
        os.kill(holder.pid, signal.SIGTERM)
    except ProcessLookupError:
        pass
    except PermissionError:
        raise sc.Forbidden(f"process {holder.pid} belongs to another user") from None


@contextmanager
def _watch_process(holder: sc.setup.LockHolder) -> Generator[int | None]:
    """Open a handle on a process to see its end; None if the system cannot do that, or it has ended."""
    try:
        descriptor = os.pidfd_open(holder.pid) if holder.host == os.uname().nodename else None
    except (AttributeError, OSError):
        descriptor = None
    if descriptor is None:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


async def _wait_until_gone(home: Path, holder: sc.setup.LockHolder, process: int | None) -> None:
    if process is not None:
        await trio.lowlevel.wait_readable(process)
        return
    while True:
        now = await trio.to_thread.run_sync(service_process, home)
        if now is None or now.pid != holder.pid:
            return
        await trio.sleep(_LOOK_EVERY_S)
