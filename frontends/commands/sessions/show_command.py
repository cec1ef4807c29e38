"""`show`: one stored session as text, even while another process writes to it."""

from pathlib import Path

import attrs
import trio

import session_core as sc
from frontends.commands.sessions import transcript
from frontends.shared.home import StoredHome, format_resume_hint, open_stored_home, stored_snapshot
from frontends.shared.session_lookup import find_or_last_used, short_ids
from frontends.shared.streams import StandardStreams
from frontends.shared.text_width import columns

_PAGE = 500
_WITHOUT_A_WINDOW = 50


@attrs.frozen(kw_only=True)
class ShowOptions:
    """The options of `show`; `last` is a number of messages, None means those in the state, and `whole` means all.

    Without a session it is the last used one of `directory`.
    """

    home: Path
    directory: str = "/"
    session: str | None = None
    last: int | None = None
    whole: bool = False
    json: bool = False


def show(options: ShowOptions) -> int:
    """Run `show` and return the exit code."""
    return trio.run(_show, options, StandardStreams.standard())


async def _show(options: ShowOptions, streams: StandardStreams) -> int:
    async with open_stored_home(options.home) as stored_home:
        summary = find_or_last_used(options.session, stored_home.sessions, options.directory, options.home)
        assert stored_home.reader is not None, "a home without a store has no sessions to find"
        snapshot = await stored_snapshot(stored_home.reader, summary.session_id)
        if options.json:
            await streams.out.write_json(sc.wire.encode(snapshot) + b"\n")
            return 0
        messages = await _messages(stored_home.reader, snapshot, options)
        setting = transcript.TranscriptFormat(
            style=streams.out.style, now=sc.now_ms(), width=columns(), protocol=snapshot.protocol.name
        )
        lines = _conversation_lines(setting, snapshot, messages, options, stored_home)
        await streams.out.write("\n".join(lines) + "\n")
        if summary.activity.name == "interrupted" and not summary.archived:
            short = short_ids(stored_home.sessions)[summary.session_id]
            await streams.remark(streams.err.style.dim(format_resume_hint(short, options.home, interrupted=True)))
    return 0


def _conversation_lines(
    setting: transcript.TranscriptFormat,
    snapshot: sc.SessionSnapshot,
    messages: list[sc.Message],
    options: ShowOptions,
    stored_home: StoredHome,
) -> list[str]:
    short = short_ids(stored_home.sessions)[snapshot.session_id]
    lines = transcript.head_lines(setting, snapshot, short, abandoned=stored_home.abandoned)
    if messages and messages[0].parent_id is not None and not options.whole:
        lines += ["", setting.style.dim("(earlier messages are left out; --all shows them)")]
    lines += transcript.message_lines(setting, messages, snapshot)
    lines += transcript.tail_lines(setting, snapshot, abandoned=stored_home.abandoned)
    return lines


async def _messages(reader: sc.SqliteReader, snapshot: sc.SessionSnapshot, options: ShowOptions) -> list[sc.Message]:
    """Return the newest messages of the conversation, as many as requested, oldest first.

    Messages no longer in the state are read backwards, page by page, and only as far as needed.
    """
    found = list(snapshot.transcript)
    wanted = found[0].parent_id if found else snapshot.head
    enough = options.last or (0 if found else _WITHOUT_A_WINDOW)
    before = snapshot.earlier
    older: list[sc.Message] = []
    while wanted is not None and before > 0 and (options.whole or len(found) + len(older) < enough):
        page = await reader.load_messages(snapshot.session_id, before=before, limit=_PAGE)
        for message in reversed(page.messages):
            if message.message_id == wanted:
                older.append(message)
                wanted = message.parent_id
        before = page.first
    both = [*reversed(older), *found]
    return both[-options.last :] if options.last is not None else both
