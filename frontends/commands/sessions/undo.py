"""`session-core undo`: goes back to before a message, with the files changed since, and reverts an undo."""

import shlex
from collections.abc import Sequence
from pathlib import Path

import attrs
import trio

import session_core as sc
from frontends.commands.sessions.writable_home import open_session_methods
from frontends.shared.figures import format_count
from frontends.shared.home import format_command, list_stored_sessions
from frontends.shared.parser import UsageError
from frontends.shared.sanitise import one_line
from frontends.shared.session_lookup import find_or_last_used, short_id
from frontends.shared.streams import StandardStreams
from frontends.shared.style import Style

_MOST_FILES = 50
_MOST_CANDIDATES = 10
_PATH_CHARS = 300
_WHY_CHARS = 300
_SAID_CHARS = 100


@attrs.frozen(kw_only=True)
class UndoOptions:
    """The options of `undo`; without a session it is the last used one of `directory`."""

    home: Path
    directory: str
    session: str | None = None
    to: str | None = None
    files: bool = True
    conversation: bool = True
    force: bool = False
    redo: bool = False


def undo(options: UndoOptions) -> int:
    """Run `undo` and return the exit code: 1 if nothing was done, or a file could not be restored."""
    if options.redo and (options.to is not None or not (options.files and options.conversation)):
        raise UsageError("--redo reverts a whole undo, so it cannot be combined with --to")
    return trio.run(_undo, options, StandardStreams.standard())


async def _undo(options: UndoOptions, streams: StandardStreams) -> int:
    sessions = await list_stored_sessions(options.home)
    found = find_or_last_used(options.session, sessions, options.directory, options.home)
    if options.files and not await trio.Path(found.cwd).is_dir():
        gone = f"this session worked in {one_line(found.cwd, _PATH_CHARS)!r}, which is gone"
        raise UsageError(f"{gone}; --conversation-only leaves files alone")
    short = short_id(found.session_id, sessions)
    try:
        async with open_session_methods(options.home, "undo", files=True) as service:
            reply = await _go_back(service, found.session_id, options)
    except sc.FilesChanged as refused:
        for line in refusal_lines(streams.err.style, refused, options, short):
            await streams.remark(line)
        return 1
    for line in report_lines(streams.out.style, reply, options):
        await streams.say(line)
    for line in advice_lines(reply, options, short):
        await streams.remark(streams.err.style.dim(line))
    return 1 if any(each.done == "skipped" for each in reply.files) else 0


async def _go_back(
    service: sc.SessionMethods, session_id: sc.SessionId, options: UndoOptions
) -> sc.replies.RestoreReply:
    if options.redo:
        return await service.take_back_undo(session_id, force=options.force)
    snapshot = await service.load_session(session_id)
    target = None if options.to is None else find_message(options.to, snapshot.transcript)
    return await service.restore_to_message(
        session_id, target, files=options.files, conversation=options.conversation, force=options.force
    )


def find_message(typed: str, transcript: Sequence[sc.Message]) -> sc.MessageId:
    """Return the user message that begins with this text or id.

    Raises:
        UsageError: None or several do; they are named.
    """
    wanted = " ".join(typed.split()).casefold()
    said = [each for each in transcript if each.role == "user"]
    fitting = [each for each in said if wanted and _message_begins_with(each, wanted)]
    if len(fitting) == 1:
        return fitting[0].message_id
    safe_text = one_line(typed, _SAID_CHARS)
    if fitting:
        what = f"{len(fitting)} of your messages begin with {safe_text!r}; use the id of the one you mean"
        raise UsageError(what, details=_candidates(fitting))
    raise UsageError(f"none of your messages in this session begins with {safe_text!r}", details=_candidates(said))


def _message_begins_with(message: sc.Message, wanted: str) -> bool:
    by_id = message.message_id.casefold()
    words = " ".join(message.text.split()).casefold()
    return words.startswith(wanted) or by_id.startswith(wanted) or by_id.removeprefix("msg_").startswith(wanted)


def _candidates(messages: Sequence[sc.Message]) -> tuple[str, ...]:
    newest = list(reversed(messages))
    lines = [f"{each.message_id}  {one_line(each.text, 60)}" for each in newest[:_MOST_CANDIDATES]]
    remaining = len(newest) - len(lines)
    return (*lines, *([f"and {remaining} more"] if remaining else []))


def report_lines(style: Style, reply: sc.replies.RestoreReply, options: UndoOptions) -> list[str]:
    """Describe what was restored, what was removed, and what was left alone and why."""
    good, careful = style.green(style.symbol("✓")), style.yellow(style.symbol("■"))
    lines: list[str] = []
    for done in ("restored", "recreated", "removed"):
        lines += _files(f"{good} {done}", [(each.path, "") for each in reply.files if each.done == done])
    skipped = [(each.path, each.why) for each in reply.files if each.done == "skipped"]
    lines += _files(f"{careful} left alone", skipped)
    if options.files and not lines:
        lines.append("No file had been changed.")
    lines += [f"{careful} {one_line(remark, _WHY_CHARS)}" for remark in reply.remarks[:_MOST_FILES]]
    if options.redo:
        lines.append(f"{good} the undo was reverted")
    elif options.conversation:
        before = one_line(reply.text, _SAID_CHARS)
        lines.append(f'{good} the conversation is where it was before "{before}"')
    return lines


def refusal_lines(style: Style, refused: sc.FilesChanged, options: UndoOptions, short: str) -> list[str]:
    """List each file that is in the way, and what to type to overwrite it anyway."""
    careful = style.yellow(style.symbol("■"))
    what = format_count(len(refused.files), "file")
    return [
        f"Nothing was done, because {what} cannot be restored safely:",
        *_files(careful, refused.files),
        style.dim(
            f"To restore anyway, saving the current content first: {_format_undo_command(options, short, '--force')}"
        ),
    ]


def advice_lines(reply: sc.replies.RestoreReply, options: UndoOptions, short: str) -> list[str]:
    """Describe how to continue, and how to take the undo back."""
    lines: list[str] = []
    if options.conversation and not options.redo:
        again = format_command(options.home, "run", f'--session {short} "..."')
        lines.append(f"Send another message with: {again}")
    if reply.undo_turn_id is not None:
        back = "" if options.redo else "--redo"
        what = "Undo it again with" if options.redo else "Revert it with"
        lines.append(f"{what}: {format_command(options.home, 'undo', f'{short} {back}'.rstrip())}")
    return lines


def _format_undo_command(options: UndoOptions, short: str, further: str) -> str:
    words = [short]
    if options.to is not None:
        words += ["--to", shlex.quote(one_line(options.to, _SAID_CHARS))]
    chosen = {
        "--files-only": not options.conversation,
        "--conversation-only": not options.files,
        "--redo": options.redo,
    }
    words += [flag for flag, wanted in chosen.items() if wanted]
    return format_command(options.home, "undo", " ".join([*words, further]))


def _files(head: str, files: Sequence[tuple[str, str]]) -> list[str]:
    lines = [f"{head} {one_line(path, _PATH_CHARS)}{_because(why)}" for path, why in files[:_MOST_FILES]]
    remaining = len(files) - len(lines)
    return [*lines, *([f"{head} {format_count(remaining, 'more file')}"] if remaining else [])]


def _because(why: str) -> str:
    return f": {one_line(why, _WHY_CHARS)}" if why else ""
