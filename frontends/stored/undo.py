"""`session-core undo`: back to before a message, with the files that were changed since."""

from collections.abc import Sequence
from pathlib import Path

import attrs
import trio

import session_core as sc
from frontends.arguments import UsageError
from frontends.cli.run import last_used
from frontends.console.sanitise import one_line
from frontends.console.streams import Streams
from frontends.console.style import Style, counted
from frontends.stored.home import list_kept, to_type
from frontends.stored.patience import PatientStore
from frontends.stored.which import find, short_id

CHECKPOINTS = "checkpoints"
"""Where a home keeps files as they were."""
_MOST_FILES = 50
_MOST_CANDIDATES = 10
_PATH_CHARS = 300
_SAID_CHARS = 100


@attrs.frozen(kw_only=True)
class UndoOptions:
    """What was asked of `undo`; without a session it is the last used one of `directory`."""

    home: Path
    directory: str
    session: str | None = None
    to: str | None = None
    files: bool = True
    conversation: bool = True
    force: bool = False


def undo(options: UndoOptions) -> int:
    """Run `undo` and return the exit code: 1 if a file could not be brought back."""
    return trio.run(_undo, options, Streams.standard())


async def _undo(options: UndoOptions, streams: Streams) -> int:
    sessions = await list_kept(options.home)
    if options.session is not None:
        found = find(options.session, sessions, options.home)
    else:
        found = last_used(sessions, options.directory, options.home)
    if options.files and not await trio.Path(found.cwd).is_dir():
        gone = f"this session worked in {one_line(found.cwd, _PATH_CHARS)!r}, which is gone"
        raise UsageError(f"{gone}; --conversation-only leaves files alone")
    config = sc.ServiceConfig(
        store=PatientStore(options.home),
        checkpoints=sc.CheckpointStore(options.home / CHECKPOINTS),
        wakeups=False,
    )
    async with sc.open_session_service(config) as service:
        snapshot = await service.load_session(found.session_id)
        target = None if options.to is None else message_meant(options.to, snapshot.transcript)
        reply = await service.restore_to_message(
            found.session_id,
            target,
            files=options.files,
            conversation=options.conversation,
            force=options.force,
        )
    for line in report_lines(streams.out.style, reply, options):
        await streams.say(line)
    short = short_id(found.session_id, sessions)
    if options.conversation:
        again = to_type(options.home, "run", f'--session {short} "..."')
        await streams.remark(streams.err.style.dim(f"Say it differently with: {again}"))
    return 1 if reply.kept or reply.unsaved else 0


def message_meant(typed: str, transcript: Sequence[sc.Message]) -> sc.MessageId:
    """Return the message of the user that begins so, by its words or by its id.

    Raises:
        UsageError: None or several do; they are named.
    """
    wanted = " ".join(typed.split()).casefold()
    said = [each for each in transcript if each.role == "user"]
    fitting = [each for each in said if wanted and _begins_so(each, wanted)]
    if len(fitting) == 1:
        return fitting[0].message_id
    shown = one_line(typed, _SAID_CHARS)
    if fitting:
        what = f"{len(fitting)} of your messages begin with {shown!r}; use the id of the one you mean"
        raise UsageError(what, details=_candidates(fitting))
    raise UsageError(f"none of your messages in this session begins with {shown!r}", details=_candidates(said))


def _begins_so(message: sc.Message, wanted: str) -> bool:
    by_id = message.message_id.casefold()
    words = " ".join(message.text.split()).casefold()
    return words.startswith(wanted) or by_id.startswith(wanted) or by_id.removeprefix("msg_").startswith(wanted)


def _candidates(messages: Sequence[sc.Message]) -> tuple[str, ...]:
    newest = list(reversed(messages))
    lines = [f"{each.message_id}  {one_line(each.text, 60)}" for each in newest[:_MOST_CANDIDATES]]
    left = len(newest) - len(lines)
    return (*lines, *([f"and {left} more"] if left else []))


def report_lines(style: Style, reply: sc.replies.RestoreReply, options: UndoOptions) -> list[str]:
    """Say what was restored, what was removed, and what was left alone and why."""
    good, careful = style.green(style.symbol("✓")), style.yellow(style.symbol("■"))
    lines = [
        *_files(f"{good} restored", reply.restored),
        *_files(f"{good} removed", reply.removed),
        *_files(f"{careful} left alone", reply.kept, "it was changed by somebody else since (--force: all the same)"),
        *_files(
            f"{careful} not brought back", reply.unsaved, "it had not been saved, as it is too large or no plain file"
        ),
    ]
    if options.files and not lines:
        lines.append("No file had been changed.")
    if options.conversation:
        before = one_line(reply.text, _SAID_CHARS)
        lines.append(f'{good} the conversation is where it was before "{before}"')
    return lines


def _files(head: str, paths: Sequence[str], why: str = "") -> list[str]:
    because = f": {why}" if why else ""
    lines = [f"{head} {one_line(path, _PATH_CHARS)}{because}" for path in paths[:_MOST_FILES]]
    left = len(paths) - len(lines)
    return [*lines, *([f"{head} {counted(left, 'more file')}{because}"] if left else [])]
