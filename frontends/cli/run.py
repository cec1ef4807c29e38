"""`session-core run`: send one prompt to a session and follow it to its end.

The session is one of the service that runs for the home; if there is none, of an embedded one.
"""

import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from time import time_ns

import attrs
import trio

import session_core as sc
from frontends.arguments import UsageError
from frontends.cli import wording
from frontends.cli.agent import DEMO, Agent, Wanted, open_agent, remark_lines
from frontends.cli.attached import (
    OnlyEmbedded,
    ServiceClient,
    about_folder,
    beside_a_service,
    full_name,
    goes_on,
    not_there,
    open_service,
    stays_open,
    telling_what_is_wrong,
)
from frontends.cli.attachments import Attached
from frontends.cli.conversation import Conversation
from frontends.cli.doing import have_done, run_line
from frontends.cli.extensions import CLIENT, about_extensions, ui_kinds, until_started, unused_in
from frontends.cli.options import Continued as Continued
from frontends.cli.options import RunOptions as RunOptions
from frontends.cli.requests import Client
from frontends.cli.saying import have_a_turn
from frontends.cli.typed import Unused, is_for_model, read_prompt
from frontends.console.figures import place
from frontends.console.sanitise import one_line
from frontends.console.signals import LEAVING_SIGNALS, Start, minding_signals
from frontends.console.streams import Streams
from frontends.serving.keys import lacking_in
from frontends.stored.home import how_to_go_on, list_kept
from frontends.stored.which import find, last_used, short_id

_PLACE_CHARS = 200
_LENIENT = frozenset({"auto_edit", "full"})
_LAST_WORDS = 1.0  # seconds that a terminal which takes nothing may hold up the end


def main(options: RunOptions) -> int:
    """Run it on the standard streams and return the exit code."""
    return trio.run(_run, options, Streams.standard())


async def _run(options: RunOptions, streams: Streams) -> int:
    codes: list[int] = []
    # The signals are minded before anything is started: what was begun is then closed again, programs included.
    with trio.open_signal_receiver(signal.SIGINT, *LEAVING_SIGNALS) as signals:
        async with minding_signals(signals) as start:
            known = await _continued(options)
            codes += await _run_attached(options, streams, signals, known, start)
            if not codes:
                with beside_a_service(options.home, embedded=options.embedded):
                    codes.append(await _run_embedded(options, streams, signals, known, start))
    if codes:
        return codes[0]
    with trio.move_on_after(_LAST_WORDS):
        await streams.remark("stopped before the turn began; nothing was sent to the model")
    assert start.exit_code is not None, "only a signal ends the start without an answer"
    return start.exit_code


async def _run_embedded(
    options: RunOptions, streams: Streams, signals: AsyncIterator[int], known: Continued | None, start: Start
) -> int:
    """Have the turn in a service of this process."""
    async with open_agent(wanted(options, known), progress=options.manners.narrated) as agent:
        chosen = options if options.model is None else attrs.evolve(options, model=agent.model)  # not its alias
        await _introduce(agent, options, streams)
        async with sc.open_session_service(agent.service) as service:
            # Attached at once: what can be asked here is what extensions are told at their start.
            with service.attach(CLIENT, ui=ui_kinds(streams)) as client:
                await _extensions_started(agent, chosen, streams)
                start.over()
                return await converse(client, chosen, streams, signals, known, unused=unused_in(agent.extensions))


async def _run_attached(
    options: RunOptions, streams: Streams, signals: AsyncIterator[int], known: Continued | None, start: Start
) -> list[int]:
    """Have the turn in the service that runs for the home; there is no code if none does, or none is to be used."""
    if options.home is None or not options.keeps or options.embedded:
        return []
    folder = options.cwd or (known.summary.cwd if known is not None else str(Path.cwd()))
    async with open_service(options.home, ui_kinds(streams)) as service:
        if service is None:
            return []
        OnlyEmbedded(no_extensions=not options.extensions, flags=options.flags).check(options.home)
        if options.manners.narrated:
            remarks = await about_folder(options.home, folder)
            await streams.err.write(remark_lines(streams.err.style, remarks))
        try:
            async with telling_what_is_wrong(options.home, folder):
                chosen = attrs.evolve(
                    options,
                    model=await full_name(options.home, folder, options.model),
                    cwd=folder if known is None else options.cwd,
                )
                start.over()
                return [
                    await converse(
                        service, chosen, streams, signals, known, meet=partial(_meet, service, chosen, streams)
                    )
                ]
        except sc.NotFound as refused:
            if refused.field != "model":
                raise
            unknown = not_there(options.home, refused)
        raise unknown


async def _meet(service: ServiceClient, options: RunOptions, streams: Streams, state: sc.SessionState) -> None:
    """Say that no real model answers, if the service has none for this session, and what may be the reason."""
    if state.settings.model == DEMO and _asks(options) and not options.manners.quiet:
        await streams.err.write(wording.demo_notice(streams.err.style, state.settings.model) + "\n")
        if options.model is None and options.home is not None:
            lacking = await lacking_in(service, options.home, Path(state.settings.cwd))
            await streams.err.write(remark_lines(streams.err.style, [lacking] if lacking else []))


def _asks(options: RunOptions) -> bool:
    """Tell whether a model is asked."""
    return options.prompt is None or not options.typed or is_for_model(options.prompt)


async def _introduce(agent: Agent, options: RunOptions, streams: Streams) -> None:
    """Say who answers, if anybody is asked, and what people should know before."""
    style, manners = streams.err.style, options.manners
    asks = _asks(options)
    if asks and agent.is_demo and not manners.quiet and not (manners.narrated and agent.told_of_demo):
        await streams.err.write(wording.demo_notice(style, agent.model) + "\n")
    if manners.narrated:
        await streams.err.write(remark_lines(style, agent.remarks if asks else agent.others))


async def _extensions_started(agent: Agent, options: RunOptions, streams: Streams) -> None:
    narrated = options.manners.narrated
    await until_started(agent.extensions, progress=narrated)
    agent.check_model()
    if narrated:
        await streams.err.write(remark_lines(streams.err.style, about_extensions(agent.extensions, options.flags)))


def wanted(options: RunOptions, known: Continued | None) -> Wanted:
    """Return what the agent has to be."""
    assert options.home is not None, "the settings are there"
    folder = options.cwd or (known.summary.cwd if known is not None else str(Path.cwd()))
    return Wanted(
        home=options.home,
        folder=folder,
        keeps=options.keeps,
        model=options.model,
        continued=known.summary if known is not None else None,
        limits=options.limits,
        sees=bool(options.attached.images),
        extensions=options.extensions,
        flags=options.flags,
    )


async def _continued(options: RunOptions) -> Continued | None:
    """Find the session to go on with, before anything is opened or made."""
    if options.home is None or not (options.session is not None or options.go_on):
        return None
    sessions = await list_kept(options.home)
    if options.session is not None:
        found = find(options.session, sessions, options.home)
    else:
        found = last_used(sessions, options.cwd or str(Path.cwd()), options.home)
    if options.cwd is None and not await trio.Path(found.cwd).is_dir():
        raise UsageError(
            f"this session works in {one_line(found.cwd, limit=4_096)!r}, which is gone; say where with --cwd"
        )
    return Continued(summary=found, short=short_id(found.session_id, sessions))


async def converse(
    service: Client,
    options: RunOptions,
    streams: Streams,
    signals: AsyncIterator[int],
    known: Continued | None = None,
    *,
    unused: Sequence[Unused] = (),
    meet: Callable[[sc.SessionState], Awaitable[None]] | None = None,
) -> int:
    """Have one turn, in a new session or a known one, and return the exit code.

    A prompt that is a command has that done instead; extensions that are `unused` may be why there is none. `meet` is
    told of the session before anything happens in it.

    Cancellation: the turn goes on in the service, which interrupts it when it closes.
    """
    if known is not None and options.protocol is not None:
        await _refuse_another_protocol(service, known, options.protocol)
    typed = await _meant(service, options, known, unused)
    session_id = await _begin(service, options, known)
    is_left = is_broken_off = True
    async with service.follow(session_id) as feed, trio.open_nursery() as nursery:
        talk = Conversation(service, feed, options.manners, streams, nursery)

        async def introduce() -> None:
            if meet is not None:
                await meet(talk.state)
            if known is not None and options.manners.narrated:
                await _tell_of(known, talk, options, streams)
            if options.manners.approve == "rules":
                await _leave_it_to_rules(service, talk, options)
            if typed is None and not talk.at_rest and options.manners.narrated:
                await talk.remark("It is at work already; this follows it to its end.")

        # From now on a Ctrl-C is about what we have to say, though that is not said yet.
        talk.own.is_meant = isinstance(typed, sc.TypedMessage | sc.TypedShellLine)
        talk.own.follows = typed is None
        nursery.start_soon(talk.mind_signals, signals, session_id)
        await talk.begin(introduce)
        try:
            match typed:
                case sc.TypedCommand():
                    await have_done(typed, service, talk, nursery)
                case sc.TypedShellLine(line=line):
                    await run_line(line, service, talk)
                case _:
                    text = typed.text if typed is not None else None
                    await have_a_turn(text, service, talk, options, known)
        except Exception:
            with trio.move_on_after(_LAST_WORDS, shield=True):
                await talk.break_off()
                if known is None and not isinstance(typed, sc.TypedMessage | None):
                    await _leave_nothing(service, talk)
            raise
        if known is None and not talk.own.is_awaited:
            is_left = not await _leave_nothing(service, talk)
        if is_left and options.home is not None and options.keeps and options.manners.narrated:
            short = short_id(session_id, (await service.load_service()).sessions)
            await talk.remark(how_to_go_on(short, options.home))
        is_broken_off = False
        nursery.cancel_scope.cancel(reason="the turn is over")
    with trio.move_on_after(_LAST_WORDS):
        if isinstance(service, ServiceClient):
            await _say_what_stays(talk, options, streams)
        elif is_broken_off:
            await _say_interrupted(service, talk, options)
        await talk.break_off()
    return talk.exit_code


async def _say_what_stays(talk: Conversation, options: RunOptions, streams: Streams) -> None:
    """Say what a service still has to do when we leave it."""
    await talk.break_off()  # for those who were asked to leave in the middle of a line
    if talk.deserted:
        await streams.remark(stays_open(options.home, talk.state.session_id))
    elif talk.stopped and talk.turn is not None:
        await streams.remark(goes_on(options.home, talk.state.session_id))


async def _say_interrupted(service: Client, talk: Conversation, options: RunOptions) -> None:
    """Say that our turn ends with this program, and how to go on with it."""
    home = options.home if options.keeps and talk.own.is_awaited else None
    kept = "; what was said is kept" if home is not None else ""
    await talk.leave_off(f"interrupted: this program was asked to end{kept}")
    if home is not None and options.manners.narrated:
        session_id = talk.state.session_id
        short = short_id(session_id, (await service.load_service()).sessions)
        await talk.remark(how_to_go_on(short, home))


async def _refuse_another_protocol(service: Client, known: Continued, wanted: str) -> None:
    has = (await service.load_session(known.summary.session_id)).protocol.name
    if has != wanted:
        raise UsageError(
            f"session {known.short} has the protocol {one_line(has)}, for all of its life, so it cannot go on with "
            f"{one_line(wanted)}; leave --protocol out, or begin a new session with it"
        )


async def _meant(
    service: Client, options: RunOptions, known: Continued | None, unused: Sequence[Unused]
) -> sc.Typed | None:
    """Find out what the prompt is, before anything is made for it."""
    if options.prompt is None:
        await trio.lowlevel.checkpoint()
        return None
    if not options.typed:
        await trio.lowlevel.checkpoint()
        return sc.TypedMessage(text=options.prompt)
    typed = read_prompt(options.prompt, await _commands(service, options, known), unused)
    if not isinstance(typed, sc.TypedMessage):
        alone = options.attached == Attached() and options.output_schema is None
        if not alone:
            raise UsageError("--file and --output-schema go along with a message, and this is a command")
    return typed


async def _commands(service: Client, options: RunOptions, known: Continued | None) -> tuple[sc.ExtensionCommand, ...]:
    """Return the commands of where the session will work, those of the project's own extensions among them."""
    if known is None or options.cwd not in {None, known.summary.cwd}:
        return (await service.list_commands(cwd=options.cwd)).commands
    return (await service.list_commands(known.summary.session_id)).commands


async def _tell_of(known: Continued, talk: Conversation, options: RunOptions, streams: Streams) -> None:
    """Say which session goes on."""
    await talk.say(
        wording.continuing(streams.err.style, talk.state, known.short, used_at=known.summary.updated_at, now=_now())
    )
    if options.cwd is not None and options.cwd != known.summary.cwd:
        where = one_line(place(options.cwd), _PLACE_CHARS)
        await talk.remark(f"{known.short} now works in {where}.")


async def _leave_it_to_rules(service: Client, talk: Conversation, options: RunOptions) -> None:
    """Take away what the tier alone would let through: then a change runs if a rule allows it, and else not at all."""
    tier = talk.state.settings.permission_tier
    if tier in _LENIENT:
        await service.change_permission_tier(talk.state.session_id, "ask_writes")
        if options.manners.narrated:
            said = tier.replace("_", "-")
            await talk.remark(f"--approve rules: the session has ask-writes now, not {said}; only rules allow changes.")


async def _leave_nothing(service: Client, talk: Conversation) -> bool:
    """Delete a session that was made for something which has left nothing in it; returns whether it did."""
    state = talk.state
    if not talk.at_rest or state.messages or state.queue or state.entries or state.wakeups:
        return False
    await service.delete_session(state.session_id)
    return True


async def _begin(service: Client, options: RunOptions, known: Continued | None) -> sc.SessionId:
    """Make a session, or set up the one to go on with."""
    if known is None:
        created = await service.create_session(
            name=_name(options.prompt or ""),
            cwd=options.cwd,
            model=options.model,
            permission_tier=options.permissions,
            thinking=options.thinking,
            protocol=options.protocol,
        )
        await _limit(service, created.session_id, options)
        return created.session_id
    session_id, model = known.summary.session_id, options.model or known.summary.model
    if model != known.summary.model or options.thinking is not None:
        await service.switch_model(session_id, model, thinking=options.thinking)
    if options.cwd is not None and options.cwd != known.summary.cwd:
        await service.change_working_directory(session_id, options.cwd)
    if options.permissions is not None:
        await service.change_permission_tier(session_id, options.permissions)
    await _limit(service, session_id, options)
    return session_id


async def _limit(service: Client, session_id: sc.SessionId, options: RunOptions) -> None:
    """Bound turns as was asked for; an embedded service has given its new sessions these bounds already."""
    said = {name: bound for name, bound in attrs.asdict(options.limits).items() if bound is not None}
    if said:
        before = (await service.load_session(session_id)).settings.limits
        bounds = attrs.evolve(before, **said)
        if bounds != before:
            await service.change_turn_limits(session_id, bounds)


def _name(prompt: str) -> str | None:
    """Make a session name of a prompt; names are printable."""
    return "".join(character for character in one_line(prompt, 60) if character.isprintable()).strip() or None


def _now() -> int:
    return time_ns() // 1_000_000
