"""`session-core run`: send one prompt to a session of an embedded service and follow it to its end."""

import os
import signal
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from time import time_ns

import attrs
import trio

import session_core as sc
from frontends.arguments import UsageError
from frontends.cli import wording
from frontends.cli.agent import Wanted, open_agent, remark_lines
from frontends.cli.attachments import Attached
from frontends.cli.conversation import LEAVING_SIGNALS, Conversation, Manners
from frontends.console.figures import place
from frontends.console.sanitise import one_line
from frontends.console.streams import Streams
from frontends.stored.home import how_to_go_on, list_kept, to_type
from frontends.stored.listing import newest_first
from frontends.stored.which import find, short_id

_PLACE_CHARS = 200
_LAST_WORDS = 1.0  # seconds that a terminal which takes nothing may hold up the end


@attrs.frozen(kw_only=True)
class RunOptions:
    """What was asked for on the command line.

    Attributes:
        prompt: What to say; None goes on with a turn that did not come to its end.
        cwd: An absolute path of a directory; None is where the session works, or this directory for a new one.
        home: Where settings are, and the sessions; None is for those who bring a service of their own.
        keeps: Whether anything is kept in the home.
        session: What was typed to name a session to go on with.
        go_on: Whether to go on with the last used session of this directory.
        model, permissions, thinking: Settings of the session, if they are to differ from what they are.
        limits: What one turn of a new session may use.
        attached: What goes along with the prompt.
        output_schema: The shape of the answer, if it is to be JSON.
        manners: How to show it.
    """

    prompt: str | None
    cwd: str | None = None
    home: Path | None = None
    keeps: bool = True
    session: str | None = None
    go_on: bool = False
    model: str | None = None
    permissions: sc.PermissionTier | None = None
    thinking: sc.Thinking | None = None
    limits: sc.TurnLimits = attrs.field(factory=sc.TurnLimits)
    attached: Attached = attrs.field(factory=Attached)
    output_schema: sc.JsonObject | None = None
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
    known = await _continued(options)
    async with open_agent(wanted(options, known), progress=options.manners.narrated) as agent:
        chosen = options if options.model is None else attrs.evolve(options, model=agent.model)  # not its alias
        style = streams.err.style
        if agent.is_demo and not options.manners.quiet:
            await streams.err.write(wording.demo_notice(style, agent.model) + "\n")
        if options.manners.narrated:
            await streams.err.write(remark_lines(style, agent.remarks))
        with trio.open_signal_receiver(signal.SIGINT, *LEAVING_SIGNALS) as signals:
            async with sc.open_session_service(agent.service) as service:
                return await converse(service, chosen, streams, signals, known)


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


def last_used(sessions: Sequence[sc.SessionSummary], directory: str, home: Path | None = None) -> sc.SessionSummary:
    """Return the session of a directory that was used last; archived ones and those of other agents do not count.

    Raises:
        UsageError: There is none.
    """
    here = os.path.realpath(directory)
    for summary in newest_first(sessions):
        if not summary.archived and summary.parent_id is None and os.path.realpath(summary.cwd) == here:
            return summary
    see = to_type(home, "sessions", "")
    raise UsageError(f"there is no session of {place(directory)!r} to go on with (see: {see})")


async def converse(
    service: sc.SessionService,
    options: RunOptions,
    streams: Streams,
    signals: AsyncIterator[int],
    known: Continued | None = None,
) -> int:
    """Have one turn, in a new session or a known one, and return the exit code.

    Cancellation: the turn goes on in the service, which interrupts it when it closes.
    """
    session_id = await _begin(service, options, known)
    async with service.follow(session_id) as feed, trio.open_nursery() as nursery:
        talk = Conversation(service, feed, options.manners, streams, nursery)
        await talk.receive()  # the snapshot before anything happens
        if known is not None and options.manners.narrated:
            await talk.say(
                wording.continuing(
                    streams.err.style, talk.state, known.short, used_at=known.summary.updated_at, now=_now()
                )
            )
            if options.cwd is not None and options.cwd != known.summary.cwd:
                where = one_line(place(options.cwd), _PLACE_CHARS)
                await talk.say(streams.err.style.dim(f"{known.short} now works in {where}."))
        nursery.start_soon(talk.mind_signals, signals)
        try:
            if await _say(service, session_id, options, is_new=known is None) or not talk.stopped:
                if known is not None and known.summary.archived and options.manners.narrated:
                    await talk.say(streams.err.style.dim(f"{known.short} was archived; it is back in the list."))
                while talk.outcome is None:
                    await talk.receive()
                await talk.conclude(talk.outcome)
            else:  # a stop that came first has withheld the message
                await talk.say("stopped before the turn began; nothing was sent to the model")
        except Exception:
            with trio.move_on_after(_LAST_WORDS, shield=True):
                await talk.break_off()
            raise
        if options.home is not None and options.keeps and options.manners.narrated:
            short = short_id(session_id, (await service.load_service()).sessions)
            await talk.say(streams.err.style.dim(how_to_go_on(short, options.home)))
        nursery.cancel_scope.cancel(reason="the turn is over")
    with trio.move_on_after(_LAST_WORDS):
        await talk.break_off()  # for those who were asked to leave in the middle of a line
    return talk.exit_code


async def _begin(service: sc.SessionService, options: RunOptions, known: Continued | None) -> sc.SessionId:
    """Make a session, or set up the one to go on with."""
    if known is None:
        created = await service.create_session(
            name=_name(options.prompt or ""),
            cwd=options.cwd,
            model=options.model,
            permission_tier=options.permissions,
            thinking=options.thinking,
        )
        return created.session_id
    session_id, model = known.summary.session_id, options.model or known.summary.model
    if model != known.summary.model or options.thinking is not None:
        await service.switch_model(session_id, model, thinking=options.thinking)
    if options.cwd is not None and options.cwd != known.summary.cwd:
        await service.change_working_directory(session_id, options.cwd)
    if options.permissions is not None:
        await service.change_permission_tier(session_id, options.permissions)
    return session_id


async def _say(service: sc.SessionService, session_id: sc.SessionId, options: RunOptions, *, is_new: bool) -> bool:
    """Send the prompt, or go on without one; returns whether a turn was started."""
    if options.prompt is None:
        return (await service.resume_session(session_id)).started
    refused: sc.InvalidInput | None = None
    try:
        sent = await service.send_user_message(
            session_id,
            options.prompt,
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
