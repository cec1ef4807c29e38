"""`token show`, `token rotate` and `serve --login`: access for browsers and other machines.

`serve --token` and `serve --rotate-token` are older names of the first two.
"""

from pathlib import Path

import trio

import session_core as sc
from frontends.server.daemon.attached_client import nothing_runs, talk_if_running
from frontends.shared.home import format_command
from frontends.shared.parser import UsageError
from frontends.shared.streams import StandardStreams, with_streams


@with_streams
async def show_token(streams: StandardStreams, home: Path, *, new: bool) -> int:
    """Print the token of a home, or with `new` a fresh one, and return the exit code."""
    from frontends.server.http.tokens import ensure_token, rotate

    await trio.to_thread.run_sync(sc.setup.prepare_home, home)
    await streams.say(await trio.to_thread.run_sync(rotate if new else ensure_token, home))
    if new:
        await streams.remark(
            "Clients with the previous token, or with one made from it, are disconnected, and so are all browsers."
        )
    return 0


@with_streams
async def login(streams: StandardStreams, home: Path) -> int:
    """Print a link that lets one browser in, and return the exit code."""
    async with talk_if_running(home, name="login") as talk:
        if talk is None:
            raise UsageError(nothing_runs(home, "log in to", start="--http 0"))
        try:
            link = await talk.login_link()
        except sc.Unavailable:
            end, start = format_command(home, "shutdown", ""), format_command(home, "serve", "--http 0")
            raise UsageError(
                f"the service of this home does not serve HTTP; to start it with --http: {end}, then {start}"
            ) from None
    await streams.say(link)
    await streams.remark("The link lets one browser in, once, within a minute.")
    return 0
