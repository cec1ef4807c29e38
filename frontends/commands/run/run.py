"""`session-core run`: send one prompt to a session and follow it to its end.

The session belongs to the home's running service; if there is none, to an embedded one.
"""

import signal
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import trio

import session_core as sc
from frontends.commands.run.attached_service import (
    Client,
    OpenedService,
    ServiceClient,
    explain_home_in_use,
    open_running_service,
)
from frontends.commands.run.embedded_service import open_own_service
from frontends.commands.run.extension_commands import run_extension_command, run_line
from frontends.commands.run.options import ContinuedSession, RunOptions
from frontends.commands.run.prompt_kind import UnusedExtension, read_prompt
from frontends.commands.run.send_and_wait import run_turn
from frontends.commands.run.turn_follower import TurnFollower
from frontends.shared.attachments import PromptAttachments
from frontends.shared.conversation import work_lines
from frontends.shared.figures import format_path
from frontends.shared.home import format_command, format_resume_hint, list_stored_sessions
from frontends.shared.parser import UsageError
from frontends.shared.sanitise import one_line
from frontends.shared.session_lookup import find_or_last_used, short_id
from frontends.shared.signals import LEAVING_SIGNALS, cancel_on_signal
from frontends.shared.streams import StandardStreams

_PLACE_CHARS = 200
_LENIENT = frozenset({"auto_edit", "full"})
_LAST_WORDS = 1.0  # how long a blocked terminal may delay the end, in seconds


def main(options: RunOptions) -> int:
    """Run a prompt on the standard streams and return the exit code."""
    return trio.run(_run, options, StandardStreams.standard())


async def _run(options: RunOptions, streams: StandardStreams) -> int:
    codes: list[int] = []
    # Signals are handled before anything is started, so everything begun is closed again, programs included.
    with trio.open_signal_receiver(signal.SIGINT, *LEAVING_SIGNALS) as signals:
        async with cancel_on_signal(signals) as start:
            known = await _find_continued_session(options)
            async with _open_service(options, known, streams) as opened:
                await start.finish_starting()
                talking = converse(
                    opened.client, opened.options, streams, signals, known, unused=opened.unused, meet=opened.meet
                )
                codes.append(await talking)
    if codes:
        return codes[0]
    with trio.move_on_after(_LAST_WORDS):
        await streams.remark("stopped before the turn began; nothing was sent to the model")
    assert start.exit_code is not None, "only a signal ends the start without an answer"
    return start.exit_code


@asynccontextmanager
async def _open_service(
    options: RunOptions, known: ContinuedSession | None, streams: StandardStreams
) -> AsyncGenerator[OpenedService]:
    """Open the home's running service, or else one in this process."""
    async with open_running_service(options, known, streams) as running:
        if running is not None:
            yield running
            return
    with explain_home_in_use(options.home, embedded=options.embedded):
        async with open_own_service(options, known, streams) as own:
            yield own


async def _find_continued_session(options: RunOptions) -> ContinuedSession | None:
    """Find the session to continue, before anything is opened or created."""
    if options.home is None or not (options.session is not None or options.go_on):
        return None
    sessions = await list_stored_sessions(options.home)
    found = find_or_last_used(options.session, sessions, options.cwd or str(Path.cwd()), options.home)
    if options.cwd is None and not await trio.Path(found.cwd).is_dir():
        raise UsageError(
            f"this session works in {one_line(found.cwd, limit=4_096)!r}, which is gone; "
            "choose another folder with --cwd"
        )
    return ContinuedSession(summary=found, short=short_id(found.session_id, sessions))


async def converse(
    service: Client,
    options: RunOptions,
    streams: StandardStreams,
    signals: AsyncIterator[int],
    known: ContinuedSession | None = None,
    *,
    unused: Sequence[UnusedExtension] = (),
    meet: Callable[[sc.SessionState], Awaitable[None]] | None = None,
) -> int:
    """Run one turn in a new or known session, and return the exit code.

    A prompt that is a command runs that instead; `unused` extensions may explain why a command is missing. `meet` is
    called with the session before anything happens in it.

    Cancellation: the turn goes on in the service, which interrupts it when it closes.
    """
    if known is not None and options.protocol is not None:
        await _refuse_another_protocol(service, known, options.protocol)
    typed = await _parse_prompt(service, options, known, unused)
    session_id = await _begin(service, options, known)
    is_left = is_broken_off = True
    async with service.follow(session_id) as feed, trio.open_nursery() as nursery:
        talk = TurnFollower(service, feed, options.interaction, streams, nursery)

        async def introduce() -> None:
            if meet is not None:
                await meet(talk.state)
            if known is not None and options.interaction.is_narrated:
                await _announce_session(known, talk, options, streams)
            await _announce_no_sandbox(talk, options)
            if options.interaction.approve == "rules":
                await _restrict_to_rules(service, talk, options)
            if typed is None and not talk.at_rest and options.interaction.is_narrated:
                await talk.remark("The session is busy; following it until it is idle.")

        # From now on a Ctrl-C is about our message, although it is not sent yet.
        talk.own_turn.has_message = isinstance(typed, sc.extensions.TypedMessage | sc.extensions.TypedShellLine)
        talk.own_turn.is_follower = typed is None
        nursery.start_soon(talk.stopping.handle_signals, signals, session_id)
        await talk.begin(introduce)
        try:
            match typed:
                case sc.extensions.TypedCommand():
                    await run_extension_command(typed, service, talk, nursery)
                case sc.extensions.TypedShellLine(line=line):
                    await run_line(line, service, talk)
                case _:
                    text = typed.text if typed is not None else None
                    await run_turn(text, service, talk, options, known)
        except Exception:
            with trio.move_on_after(_LAST_WORDS, shield=True):
                await talk.end_open_line()
                if known is None and not isinstance(typed, sc.extensions.TypedMessage | None):
                    await _delete_empty_session(service, talk)
            raise
        if known is None and not talk.own_turn.was_sent:
            is_left = not await _delete_empty_session(service, talk)
        if is_left and options.home is not None and options.is_persistent and options.interaction.is_narrated:
            short = short_id(session_id, (await service.load_service()).sessions)
            await talk.remark(format_resume_hint(short, options.home))
        is_broken_off = False
        nursery.cancel_scope.cancel(reason="the turn is over")
    with trio.move_on_after(_LAST_WORDS):
        if isinstance(service, ServiceClient):
            await _say_what_stays(talk, options, streams)
        elif is_broken_off:
            await _say_interrupted(service, talk, options)
        await talk.end_open_line()
    return talk.exit_code


async def _say_what_stays(talk: TurnFollower, options: RunOptions, streams: StandardStreams) -> None:
    """Report what a service still has to do when we leave it."""
    await talk.end_open_line()  # the signal may have come in the middle of a line
    session_id = talk.state.session_id
    if talk.requests.deserted:
        answer = format_command(options.home, "run", f"--session {session_id}")
        await streams.remark(f"the question stays open in the service; to answer it: {answer}")
    elif talk.is_stop_requested and talk.turn is not None:
        stop = format_command(options.home, "stop", session_id)
        await streams.remark(f"the turn continues in the service; to stop it: {stop}")


async def _say_interrupted(service: Client, talk: TurnFollower, options: RunOptions) -> None:
    """Report that our turn ends with this program, and how to resume it."""
    home = options.home if options.is_persistent and talk.own_turn.was_sent else None
    saved_note = "; the conversation is kept" if home is not None else ""
    await talk.abort_with(f"interrupted: this program was asked to end{saved_note}")
    if home is not None and options.interaction.is_narrated:
        session_id = talk.state.session_id
        short = short_id(session_id, (await service.load_service()).sessions)
        await talk.remark(format_resume_hint(short, home))


async def _refuse_another_protocol(service: Client, known: ContinuedSession, wanted: str) -> None:
    has = (await service.load_session(known.summary.session_id)).protocol.name
    if has != wanted:
        raise UsageError(
            f"session {known.short} has the protocol {one_line(has)}, which never changes, so it cannot continue with "
            f"{one_line(wanted)}; leave out --protocol, or begin a new session with it"
        )


async def _parse_prompt(
    service: Client, options: RunOptions, known: ContinuedSession | None, unused: Sequence[UnusedExtension]
) -> sc.extensions.TypedInput | None:
    """Parse the prompt, before anything is created for it."""
    if options.prompt is None:
        return None
    if not options.typed:
        return sc.extensions.TypedMessage(text=options.prompt)
    typed = read_prompt(options.prompt, await _commands(service, options, known), unused)
    if not isinstance(typed, sc.extensions.TypedMessage):
        alone = options.attached == PromptAttachments() and options.output_schema is None
        if not alone:
            raise UsageError("--file and --output-schema need a message, and this is a command")
    return typed


async def _commands(
    service: Client, options: RunOptions, known: ContinuedSession | None
) -> tuple[sc.extensions.ExtensionCommand, ...]:
    """Return the commands available in the session's folder, including those of the project's own extensions."""
    if known is None or options.cwd not in {None, known.summary.cwd}:
        return (await service.list_commands(cwd=options.cwd)).commands
    return (await service.list_commands(known.summary.session_id)).commands


async def _announce_session(
    known: ContinuedSession, talk: TurnFollower, options: RunOptions, streams: StandardStreams
) -> None:
    """Report which session continues."""
    await talk.say(
        work_lines.format_continued_session(
            streams.err.style, talk.state, known.short, used_at=known.summary.updated_at, now=sc.now_ms()
        )
    )
    if options.cwd is not None and options.cwd != known.summary.cwd:
        where = one_line(format_path(options.cwd), _PLACE_CHARS)
        await talk.remark(f"{known.short} now works in {where}.")


async def _announce_no_sandbox(talk: TurnFollower, options: RunOptions) -> None:
    if talk.state.settings.sandbox.mode == "full_access" and options.interaction.is_narrated:
        await talk.remark("This session has no sandbox: its commands can do anything that you can do.")


async def _restrict_to_rules(service: Client, talk: TurnFollower, options: RunOptions) -> None:
    """Withdraw what the permission mode alone would allow: a change then runs only if a rule allows it."""
    mode = talk.state.settings.permission_mode
    if mode in _LENIENT:
        await service.change_permission_mode(talk.state.session_id, "ask_writes")
        if options.interaction.is_narrated:
            said = mode.replace("_", "-")
            await talk.remark(f"--approve rules: the session has ask-writes now, not {said}; only rules allow changes.")


async def _delete_empty_session(service: Client, talk: TurnFollower) -> bool:
    """Delete a session that was created for something that left nothing in it; return whether it was deleted."""
    state = talk.state
    if not talk.at_rest or state.messages or state.queue or state.entries or state.wakeups:
        return False
    await service.delete_session(state.session_id)
    return True


async def _begin(service: Client, options: RunOptions, known: ContinuedSession | None) -> sc.SessionId:
    """Create a session, or set up the one to continue."""
    if known is None:
        created = await service.create_session(
            name=_name(options.prompt or ""),
            cwd=options.cwd,
            model=options.model,
            permission_mode=options.permissions,
            thinking=options.thinking,
            protocol=options.protocol,
        )
        session_id = created.session_id
    else:
        session_id, model = known.summary.session_id, options.model or known.summary.model
        if model != known.summary.model or options.thinking is not None:
            await service.switch_model(session_id, model, thinking=options.thinking)
        if options.cwd is not None and options.cwd != known.summary.cwd:
            await service.change_working_directory(session_id, options.cwd)
        if options.permissions is not None:
            await service.change_permission_mode(session_id, options.permissions)
    await _choose_sandbox(service, session_id, options)
    await _limit(service, session_id, options)
    return session_id


async def _choose_sandbox(service: Client, session_id: sc.SessionId, options: RunOptions) -> None:
    """Change the mode of the sandbox, if one was given; the rest of the policy stays."""
    if options.sandbox is not None:
        policy = (await service.load_session(session_id)).settings.sandbox
        await service.change_sandbox_policy(session_id, attrs.evolve(policy, mode=options.sandbox))


async def _limit(service: Client, session_id: sc.SessionId, options: RunOptions) -> None:
    """Apply the requested limits; an embedded service has already given them to its new sessions."""
    said = {name: bound for name, bound in attrs.asdict(options.limits).items() if bound is not None}
    if said:
        before = (await service.load_session(session_id)).settings.limits
        bounds = attrs.evolve(before, **said)
        if bounds != before:
            await service.change_turn_limits(session_id, bounds)


def _name(prompt: str) -> str | None:
    """Make a session name from a prompt; names are printable."""
    return "".join(character for character in one_line(prompt, 60) if character.isprintable()).strip() or None
