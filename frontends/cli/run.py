"""`session-core run`: send one prompt to a session of an embedded service and follow it to its end."""

import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from time import time_ns

import attrs
import trio

import session_core as sc
from frontends.arguments import UsageError
from frontends.cli import wording
from frontends.cli.agent import Agent, Wanted, open_agent, remark_lines
from frontends.cli.attachments import Attached
from frontends.cli.conversation import Conversation, Manners
from frontends.cli.extensions import CLIENT, about_extensions, ui_kinds, until_started, unused_in
from frontends.cli.requests import Client
from frontends.cli.typed import Unused, is_for_model, read_prompt
from frontends.console.figures import place
from frontends.console.sanitise import one_line
from frontends.console.signals import LEAVING_SIGNALS, minding_signals
from frontends.console.streams import Streams
from frontends.stored.home import how_to_go_on, list_kept
from frontends.stored.which import find, last_used, short_id

_PLACE_CHARS = 200
_LAST_WORDS = 1.0  # seconds that a terminal which takes nothing may hold up the end


@attrs.frozen(kw_only=True)
class RunOptions:
    """What was asked for on the command line.

    Attributes:
        prompt: What to say; None goes on with a turn that did not come to its end.
        typed: Whether a person typed the prompt, so that it may be a command; a text from elsewhere never is one.
        cwd: An absolute path of a directory; None is where the session works, or this directory for a new one.
        home: Where settings are, and the sessions; None is for those who bring a service of their own.
        keeps: Whether anything is kept in the home.
        session: What was typed to name a session to go on with.
        go_on: Whether to go on with the last used session of this directory.
        model, permissions, thinking: Settings of the session, if they are to differ from what they are.
        protocol: How the model acts in a new session; one that is gone on with keeps its own.
        limits: What one turn may use; the limits of a session that goes on stay where nothing is said.
        attached: What goes along with the prompt.
        output_schema: The shape of the answer, if it is to be JSON.
        extensions: Whether extensions may be started.
        flags: What they are told, as `name` or `name=value`.
        manners: How to show it.
    """

    prompt: str | None
    typed: bool = True
    cwd: str | None = None
    home: Path | None = None
    keeps: bool = True
    session: str | None = None
    go_on: bool = False
    model: str | None = None
    permissions: sc.PermissionTier | None = None
    thinking: sc.Thinking | None = None
    protocol: str | None = None
    limits: sc.TurnLimits = attrs.field(factory=sc.TurnLimits)
    attached: Attached = attrs.field(factory=Attached)
    output_schema: sc.JsonObject | None = None
    extensions: bool = True
    flags: tuple[str, ...] = ()
    manners: Manners = attrs.field(factory=Manners)


@attrs.frozen(kw_only=True)
class Continued:
    """A session to go on with, and how it was found."""

    summary: sc.SessionSummary
    short: str


def main(options: RunOptions) -> int:
    """Run it on the standard streams and return the exit code."""
    return trio.run(_run, options, Streams.standard())


async def _run(options: RunOptions, streams: Streams) -> int:
    codes: list[int] = []
    # The signals are minded before anything is started: what was begun is then closed again, programs included.
    with trio.open_signal_receiver(signal.SIGINT, *LEAVING_SIGNALS) as signals:
        async with minding_signals(signals) as start:
            known = await _continued(options)
            async with open_agent(wanted(options, known), progress=options.manners.narrated) as agent:
                chosen = options if options.model is None else attrs.evolve(options, model=agent.model)  # not its alias
                await _introduce(agent, options, streams)
                async with sc.open_session_service(agent.service) as service:
                    # Attached at once: what can be asked here is what extensions are told at their start.
                    with service.attach(CLIENT, ui=ui_kinds(streams)) as client:
                        await _extensions_started(agent, chosen, streams)
                        start.over()
                        unused = unused_in(agent.extensions)
                        codes.append(await converse(client, chosen, streams, signals, known, unused=unused))
    if codes:
        return codes[0]
    with trio.move_on_after(_LAST_WORDS):
        await streams.remark("stopped before the turn began; nothing was sent to the model")
    assert start.exit_code is not None, "only a signal ends the start without an answer"
    return start.exit_code


async def _introduce(agent: Agent, options: RunOptions, streams: Streams) -> None:
    """Say who answers, if anybody is asked, and what people should know before."""
    style, manners = streams.err.style, options.manners
    asks = options.prompt is None or not options.typed or is_for_model(options.prompt)
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
        raise UsageError(f"this session works in {one_line(found.cwd)!r}, which is gone; say where with --cwd")
    return Continued(summary=found, short=short_id(found.session_id, sessions))


async def converse(
    service: Client,
    options: RunOptions,
    streams: Streams,
    signals: AsyncIterator[int],
    known: Continued | None = None,
    *,
    unused: Sequence[Unused] = (),
) -> int:
    """Have one turn, in a new session or a known one, and return the exit code.

    A prompt that is a command has that done instead; extensions that are `unused` may be why there is none.

    Cancellation: the turn goes on in the service, which interrupts it when it closes.
    """
    typed = await _meant(service, options, unused)
    session_id = await _begin(service, options, known)
    is_left = True
    async with service.follow(session_id) as feed, trio.open_nursery() as nursery:
        talk = Conversation(service, feed, options.manners, streams, nursery)
        await talk.receive()  # the snapshot before anything happens
        if known is not None and options.manners.narrated:
            await _tell_of(known, talk, options, streams)
        nursery.start_soon(talk.mind_signals, signals)
        try:
            match typed:
                case sc.TypedCommand():
                    await talk.have_done(typed)
                case sc.TypedShellLine(line=line):
                    await talk.run_line(line)
                case _:
                    text = typed.text if typed is not None else None
                    await _have_a_turn(text, service, talk, options, known)
        except Exception:
            with trio.move_on_after(_LAST_WORDS, shield=True):
                await talk.break_off()
                if known is None and not isinstance(typed, sc.TypedMessage | None):
                    await _leave_nothing(service, talk)
            raise
        if known is None and isinstance(typed, sc.TypedCommand):
            is_left = not await _leave_nothing(service, talk)
        if is_left and options.home is not None and options.keeps and options.manners.narrated:
            short = short_id(session_id, (await service.load_service()).sessions)
            await talk.remark(how_to_go_on(short, options.home))
        nursery.cancel_scope.cancel(reason="the turn is over")
    with trio.move_on_after(_LAST_WORDS):
        await talk.break_off()  # for those who were asked to leave in the middle of a line
    return talk.exit_code


async def _meant(service: Client, options: RunOptions, unused: Sequence[Unused]) -> sc.Typed | None:
    """Find out what the prompt is, before anything is made for it."""
    if options.prompt is None:
        await trio.lowlevel.checkpoint()
        return None
    if not options.typed:
        await trio.lowlevel.checkpoint()
        return sc.TypedMessage(text=options.prompt)
    typed = read_prompt(options.prompt, (await service.list_commands()).commands, unused)
    if not isinstance(typed, sc.TypedMessage):
        alone = options.attached == Attached() and options.output_schema is None
        if not alone:
            raise UsageError("--file and --output-schema go along with a message, and this is a command")
    return typed


async def _tell_of(known: Continued, talk: Conversation, options: RunOptions, streams: Streams) -> None:
    """Say which session goes on."""
    await talk.say(
        wording.continuing(streams.err.style, talk.state, known.short, used_at=known.summary.updated_at, now=_now())
    )
    if options.cwd is not None and options.cwd != known.summary.cwd:
        where = one_line(place(options.cwd), _PLACE_CHARS)
        await talk.remark(f"{known.short} now works in {where}.")


async def _have_a_turn(
    text: str | None, service: Client, talk: Conversation, options: RunOptions, known: Continued | None
) -> None:
    """Say something, or go on, and show the turn to its end."""
    if not await _say(service, talk.state.session_id, text, options, is_new=known is None) and talk.stopped:
        # A stop that came first has withheld the message.
        await talk.say("stopped before the turn began; nothing was sent to the model")
        return
    if known is not None and known.summary.archived and options.manners.narrated:
        await talk.remark(f"{known.short} was archived; it is back in the list.")
    while talk.outcome is None:
        await talk.receive()
    await talk.conclude(talk.outcome)


async def _leave_nothing(service: Client, talk: Conversation) -> bool:
    """Delete a session that was made for a command which has left nothing in it; returns whether it did."""
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
        return created.session_id
    session_id, model = known.summary.session_id, options.model or known.summary.model
    if model != known.summary.model or options.thinking is not None:
        await service.switch_model(session_id, model, thinking=options.thinking)
    if options.cwd is not None and options.cwd != known.summary.cwd:
        await service.change_working_directory(session_id, options.cwd)
    if options.permissions is not None:
        await service.change_permission_tier(session_id, options.permissions)
    said = {name: bound for name, bound in attrs.asdict(options.limits).items() if bound is not None}
    if said:
        before = (await service.load_session(session_id)).settings.limits
        await service.change_turn_limits(session_id, attrs.evolve(before, **said))
    return session_id


async def _say(
    service: Client, session_id: sc.SessionId, text: str | None, options: RunOptions, *, is_new: bool
) -> bool:
    """Send a message, or go on without one; returns whether a turn was started."""
    if text is None:
        return (await service.resume_session(session_id)).started
    refused: sc.InvalidInput | None = None
    try:
        sent = await service.send_user_message(
            session_id,
            text,
            images=options.attached.images,
            files=options.attached.files,
            output_schema=options.output_schema,
        )
        return sent.disposition == "started"
    except sc.InvalidInput as error:
        refused = error
    if is_new:  # it would stay behind empty
        await service.delete_session(session_id)
    raise refused


def _name(prompt: str) -> str | None:
    """Make a session name of a prompt; names are printable."""
    return "".join(character for character in one_line(prompt, 60) if character.isprintable()).strip() or None


def _now() -> int:
    return time_ns() // 1_000_000
