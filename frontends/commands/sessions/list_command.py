"""`sessions`: the list of stored sessions, and a search in them, even while another process writes to them."""

from pathlib import Path

import attrs
import trio

import session_core as sc
from frontends.commands.sessions.list_lines import find_named_sessions, hit_lines, session_lines
from frontends.shared.figures import format_count
from frontends.shared.home import StoredHome, nothing_kept, open_stored_home
from frontends.shared.session_lookup import newest_first, short_ids
from frontends.shared.streams import StandardStreams
from frontends.shared.text_width import columns

ON_A_TERMINAL = 40
MOST_HITS = 50
COUNTED_BEYOND = 1000


@attrs.frozen(kw_only=True)
class ListOptions:
    """The options of `sessions`."""

    home: Path
    archived: bool = False
    search: str | None = None
    limit: int | None = None
    json: bool = False


def list_sessions(options: ListOptions) -> int:
    """Run `sessions` and return the exit code."""
    return trio.run(_list_sessions, options, StandardStreams.standard())


async def _list_sessions(options: ListOptions, streams: StandardStreams) -> int:
    async with open_stored_home(options.home) as stored_home:
        if stored_home.reader is None or not stored_home.sessions:
            await streams.remark(nothing_kept(options.home))
        elif options.search is not None:
            await _search(options, streams, stored_home, stored_home.reader, options.search)
        else:
            await _list(options, streams, stored_home)
    return 0


async def _list(options: ListOptions, streams: StandardStreams, stored_home: StoredHome) -> None:
    matching = [each for each in newest_first(stored_home.sessions) if options.archived or not each.archived]
    limit = options.limit or (ON_A_TERMINAL if streams.out.tty and not options.json else len(matching))
    displayed_sessions = matching[:limit]
    if options.json:
        await streams.out.write_json(b"".join(sc.wire.encode(each) + b"\n" for each in displayed_sessions))
        return
    style = streams.err.style
    if displayed_sessions:
        ids = short_ids(stored_home.sessions)
        lines = session_lines(streams.out.style, displayed_sessions, ids, now=sc.now_ms(), width=columns())
        await streams.out.write("\n".join(lines) + "\n")
    if len(matching) > len(displayed_sessions):
        remaining = format_count(len(matching) - len(displayed_sessions), "older session")
        await streams.remark(style.dim(f"and {remaining} (--limit {len(matching)})"))
    archived = len(stored_home.sessions) - len(matching)
    if archived:
        await streams.remark(style.dim(f"and {format_count(archived, 'archived session')} (--all)"))


async def _search(
    options: ListOptions, streams: StandardStreams, stored_home: StoredHome, reader: sc.SqliteReader, text: str
) -> None:
    limit = options.limit or MOST_HITS
    if options.json:
        hits = await reader.search(text, limit=limit)
        await streams.out.write_json(b"".join(sc.wire.encode(hit) + b"\n" for hit in hits))
        return
    hits = await reader.search(text, limit=limit + COUNTED_BEYOND)
    named = find_named_sessions(stored_home.sessions, text.split())
    if not hits and not named:
        await streams.remark("No message and no session name contains all of these words.")
        return
    lines = hit_lines(
        streams.out.style,
        hits[:limit],
        {each.session_id: each for each in stored_home.sessions},
        short_ids(stored_home.sessions),
        text.split(),
        named=named[:limit],
        now=sc.now_ms(),
        width=columns(),
    )
    await streams.out.write("\n".join(lines) + "\n")
    remaining = len(hits) - limit
    if remaining > 0:
        many = f"at least {remaining}" if remaining == COUNTED_BEYOND else str(remaining)
        await streams.remark(streams.err.style.dim(f"and {many} more (--limit {len(hits)})"))
