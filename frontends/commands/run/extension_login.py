"""`session-core ext login`: an extension logs the user in to one of its providers, and asks on this terminal.

The extensions of this folder are started as `run` starts them, with a temporary session.
"""

import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import trio

import session_core as sc
from frontends.commands.run.extensions import CLIENT, ui_kinds, wait_until_started
from frontends.commands.run.options import InteractionOptions
from frontends.commands.run.turn_follower import EXIT_OK, TurnFollower
from frontends.server.home_service import open_home_service
from frontends.shared.extension_lookup import find_extensions, pick
from frontends.shared.home import format_command
from frontends.shared.parser import UsageError
from frontends.shared.sanitise import one_line
from frontends.shared.signals import LEAVING_SIGNALS, cancel_on_signal
from frontends.shared.streams import StandardStreams


def login(home: Path, cwd: Path, word: str) -> int:
    """Run `ext login` and return the exit code; `word` is the name of an extension, or `name/provider`.

    Raises:
        UsageError: No such extension runs here, or it has no such provider with a login.
        LoginFailed: The extension could not log in.
    """
    name, slash, provider = word.partition("/")
    if not sc.extensions.is_extension_name(name) or (slash and not provider):
        raise UsageError(f"{one_line(word)!r} is neither NAME nor NAME/PROVIDER of an extension")
    entry = pick(find_extensions(home, cwd), name)
    if entry.state not in {"ready", "watched"}:
        info_command = format_command(home, "ext info", name)
        raise UsageError(f"{name} does not run here: {one_line(entry.reason, 300)}; see: {info_command}")
    return trio.run(_login, home, cwd, name, provider, StandardStreams.standard())


async def _login(home: Path, cwd: Path, name: str, provider: str, streams: StandardStreams) -> int:
    codes: list[int] = []
    place = sc.setup.current_environment(home, str(cwd), is_persistent=True)
    with trio.open_signal_receiver(signal.SIGINT, *LEAVING_SIGNALS) as signals:
        async with cancel_on_signal(signals) as start:
            # No model is called, so none has to be set up.
            opening = open_home_service(place, flags={"model": sc.setup.DEMO}, mode="cli", open_folder=True)
            async with opening as (setup, service):
                with service.attach(CLIENT, ui=ui_kinds(streams)) as client:
                    await wait_until_started(setup, str(cwd), progress=True)
                    chosen = _provider(setup.extensions.hosts_in(str(cwd)), home, name, provider)
                    await start.finish_starting()
                    codes.append(await _talk(client, name, chosen, streams, signals))
    if codes:
        return codes[0]
    assert start.exit_code is not None, "only a signal ends the start without an answer"
    return start.exit_code


def _provider(hosts: "Sequence[sc.extensions.ExtensionHost]", home: Path, name: str, wanted: str) -> str:
    """Return the provider to log in to: the named one, or the only one."""
    here = [each for host in reversed(hosts) for each in host.extensions if each.name == name]  # the folder's own first
    extension = here[0] if here else None
    if extension is None or extension.state != "ready":
        why = extension.problem if extension is not None and extension.problem else "extensions are disabled here"
        raise UsageError(f"{name} does not run: {one_line(why, 300)}; see: {format_command(home, 'ext doctor', name)}")
    known = [each.name for each in extension.registrations.providers if each.oauth]
    if wanted in known or (len(known) == 1 and not wanted):
        return wanted or known[0]
    if not known:
        raise UsageError(f"{name} has no provider with a login")
    there = ", ".join(f"{name}/{one_line(each)}" for each in known)
    if wanted:
        raise UsageError(f"{name} has no provider called {one_line(wanted)!r} with a login; choose from: {there}")
    raise UsageError(f"{name} has several providers with a login; name one: {there}")


async def _talk(
    client: sc.AttachedClient, name: str, provider: str, streams: StandardStreams, signals: AsyncIterator[int]
) -> int:
    """Run the login, and answer its questions meanwhile."""
    session_id = (await client.create_session(name=f"login to {one_line(provider, 40)}")).session_id
    refused: sc.SessionCoreError | None = None
    async with client.follow(session_id) as feed, trio.open_nursery() as nursery:
        talk = TurnFollower(client, feed, InteractionOptions(), streams, nursery)
        talk.own_turn.extension = name  # it works for us from the start
        await talk.receive()  # the first snapshot
        nursery.start_soon(talk.stopping.handle_signals, signals, session_id)
        nursery.start_soon(_show, talk)
        try:
            await client.login_to_provider(session_id, provider)
        except sc.SessionCoreError as error:
            refused = error
        nursery.cancel_scope.cancel(reason="the login is over")
    await client.delete_session(session_id)
    if talk.is_stop_requested:
        await streams.remark("stopped; you are not logged in")
        return talk.exit_code
    if refused is not None:
        raise refused
    mark = streams.out.style.green(streams.out.style.symbol("✓"))
    await streams.out.write(f"{mark} logged in to {one_line(provider)} of {name}\n")
    return EXIT_OK


async def _show(talk: TurnFollower) -> None:
    while True:
        await talk.receive()
