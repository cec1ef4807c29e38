"""Having something done that is no message: a command of an extension, or a line for the shell."""

import attrs
import trio

import session_core as sc
from frontends.cli import wording
from frontends.cli.conversation import Conversation
from frontends.cli.requests import Client
from frontends.console.sanitise import one_line


@attrs.define
class _Done:
    """What became of a command of an extension; the session had come to `sseq` when it was over."""

    over: bool = False
    sseq: int = 0
    content: str = ""
    said: bool = False
    failure: sc.SessionCoreError | None = None


async def have_done(command: sc.TypedCommand, service: Client, talk: Conversation, nursery: trio.Nursery) -> None:
    """Have an extension do something, and show all that comes of it until the session is at rest.

    Raises:
        SessionCoreError: It failed, and nobody has stopped it.
    """
    name = f"/{one_line(command.name, wording.NAME_CHARS)}"
    too_late = talk.stopped
    if too_late:
        await talk.say(f"{name} was stopped before it was begun.")
        return
    done = _Done()
    talk.own.extension = command.extension
    nursery.start_soon(_do, command, service, talk, done)
    while not (done.over and talk.at_rest and talk.state.sseq >= done.sseq):
        await talk.receive()
        if done.over and talk.state.partial is None:
            await _show_content(done, talk)
    await _show_content(done, talk)
    if done.failure is not None and not talk.stopped:
        raise done.failure
    talk.is_done = True
    if talk.outcome is not None:
        await talk.conclude(talk.outcome)
    elif talk.stopped:
        await talk.say(f"{name} was stopped before it was done.")
    elif talk.manners.narrated and not done.said:
        await talk.remark(f"{name} is done; it had nothing to say.")


async def _do(command: sc.TypedCommand, service: Client, talk: Conversation, done: _Done) -> None:
    session_id = talk.state.session_id
    try:
        reply = await service.run_command(session_id, command.name, command.arguments, extension=command.extension)
        done.content = reply.content
    except sc.ExtensionFailed as failed:
        done.failure = sc.ExtensionFailed(f"/{command.name} of {command.extension} failed: {failed.message}")
    except sc.SessionCoreError as refused:
        done.failure = refused
    done.sseq = (await service.load_session(session_id)).sseq
    done.over = True
    talk.look_up("the command is done")


async def _show_content(done: _Done, talk: Conversation) -> None:
    if done.content:
        await talk.show(done.content, "err" if talk.manners.json else "out")  # there, stdout is for events
        done.content, done.said = "", True


async def run_line(line: str, service: Client, talk: Conversation) -> None:
    """Run a line in the shell, and print what it prints."""
    if talk.stopped:
        await talk.say("stopped before the command was run")
        return

    async def send() -> None:
        begun = await service.run_shell_line(talk.state.session_id, line)
        talk.line = begun.call_id
        talk.own.said(turn_id=begun.turn_id, cursor=begun.cursor)

    await talk.send(send)
    await talk.until_ended()
    outcome, result = talk.outcome, talk.line_result
    if result is not None and result.status != "denied" and not talk.manners.json:
        await talk.show(result.text, "out")
    if outcome is not None:
        await talk.end_with(outcome, None)
