"""`session-core stop`: stop what a session is doing, from any shell, and report honestly what happened."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import trio

import session_core as sc
from frontends.server.daemon.attached_client import nothing_runs, talk_if_running
from frontends.server.daemon.runtime_paths import find_holder
from frontends.shared.figures import format_count, format_path
from frontends.shared.home import list_stored_sessions
from frontends.shared.parser import UsageError
from frontends.shared.sanitise import one_line
from frontends.shared.session_lookup import find_or_last_used, find_session, short_ids
from frontends.shared.streams import StandardStreams, with_streams
from frontends.shared.style import Style

EXIT_STILL_STOPPING: Final = 1
EXIT_NOTHING_RAN: Final = 3
_MOST: Final = 20
_NAME_CHARS: Final = 60
_KINDS: Final[Mapping[str, str]] = {
    "turn": "the turn",
    "tool_call": "tool call",
    "approval": "approval",
    "dialog": "question of an extension",
    "compaction": "the compaction of the conversation",
    "restore": "the restoring of files",
    "job": "background command",
    "wakeup": "wake-up",
    "command": "command of an extension",
}
_ALONE: Final = frozenset({"turn", "compaction", "restore"})


@with_streams
async def stop(
    streams: StandardStreams, home: Path, session: str | None, scope: sc.StopScope, *, directory: str = "/"
) -> int:
    """Run `stop` and return the exit code: 3 if nothing was running, 1 if something has not stopped yet.

    Without a session it is the last used one of the directory.
    """
    async with talk_if_running(home, name="stop") as talk:
        if talk is None:
            if session is not None:
                find_session(session, await list_stored_sessions(home), home)  # report a typo first
            if await trio.to_thread.run_sync(find_holder, home) is not None:
                raise UsageError(nothing_runs(home, "stop"))
            await streams.say(f"Nothing is running: there is no service for {format_path(str(home))}.")
            return EXIT_NOTHING_RAN
        sessions = await talk.load_sessions()
        found = find_or_last_used(session, sessions, directory, home)
        outcome = await talk.request_stop(found.session_id, scope=scope)
    for line in outcome_lines(streams.out.style, outcome, found.name, short_ids(sessions)):
        await streams.say(line)
    match outcome.result:
        case "stopped":
            return 0
        case "still_stopping":
            return EXIT_STILL_STOPPING
        case _:
            return 0 if outcome.ended else EXIT_NOTHING_RAN


def outcome_lines(style: Style, outcome: sc.StopOutcome, name: str, ids: Mapping[sc.SessionId, str]) -> list[str]:
    """Describe what ended, what goes on, and what happened to queued messages."""
    called = f'{style.cyan(ids.get(outcome.session_id, outcome.session_id))} "{one_line(name, _NAME_CHARS)}"'
    mark = style.yellow(style.symbol("■"))
    heads = {
        "stopped": f"{mark} {called} was stopped",
        "still_stopping": f"{mark} {called} is being stopped; some work has not ended yet",
        "nothing_running": f"{called}: nothing was running",
    }
    lines = [heads[outcome.result]]
    lines += [f"  ended: {each}" for each in _works(outcome.ended, outcome.session_id, ids)]
    lines += [f"  {style.yellow('goes on')}: {each}" for each in _works(outcome.survived, outcome.session_id, ids)]
    if outcome.kept:
        lines.append(f"  {format_count(len(outcome.kept), 'message')} still in the queue")
    if outcome.returned:
        lines.append(f"  taken out of the queue: {format_count(len(outcome.returned), 'message')}")
    if outcome.withheld:
        lines.append(f"  came too late to begin: {format_count(outcome.withheld, 'command')}")
    return lines


def _works(works: Sequence[sc.StoppedWork], session_id: sc.SessionId, ids: Mapping[sc.SessionId, str]) -> list[str]:
    """Group and count equal works, session by session."""
    kinds = Counter((each.session_id, each.kind) for each in works)
    lines = [
        _work(kind, count, None if owner_id == session_id else ids.get(owner_id, owner_id))
        for (owner_id, kind), count in kinds.items()
    ]
    remaining = len(lines) - _MOST
    return lines if remaining <= 0 else [*lines[:_MOST], f"and {remaining} more"]


def _work(kind: str, count: int, owner: str | None) -> str:
    words = _KINDS.get(kind, kind)
    said = words if kind in _ALONE else format_count(count, words)
    return said if owner is None else f"{said} of {owner}"
