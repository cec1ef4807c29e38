"""Prompts that are not messages: an extension command, or a shell line."""

import attrs
import trio

import session_core as sc
from frontends.commands.run.attached_service import Client
from frontends.commands.run.turn_follower import TurnFollower
from frontends.shared.conversation import work_lines
from frontends.shared.sanitise import one_line


@attrs.define
class _CommandRun:
    """The result of an extension command; the session was at `sseq` when it finished."""

    over: bool = False
    sseq: int = 0
    content: str = ""
    said: bool = False
    failure: sc.SessionCoreError | None = None


async def run_extension_command(
    command: sc.extensions.TypedCommand, service: Client, talk: TurnFollower, nursery: trio.Nursery
) -> None:
    """Run an extension command, and show all its effects until the session is idle.

    Raises:
        SessionCoreError: It failed, and was not stopped.
    """
    name = f"/{one_line(command.name, work_lines.NAME_CHARS)}"
    too_late = talk.is_stop_requested
    if too_late:
        await talk.say(f"{name} was stopped before it began.")
        return
    done = _CommandRun()
    talk.own_turn.extension = command.extension
    nursery.start_soon(_run_command_task, command, service, talk, done)
    while not (done.over and talk.at_rest and talk.state.sseq >= done.sseq):
        await talk.receive()
        if done.over and talk.state.partial is None:
            await _show_content(done, talk)
    await _show_content(done, talk)
    if done.failure is not None and not talk.is_stop_requested:
        raise done.failure
    talk.is_done = True
    if talk.outcome is not None:
        await talk.conclude(talk.outcome)
    elif talk.is_stop_requested:
        await talk.say(f"{name} was stopped before it finished.")
    elif talk.interaction.is_narrated and not done.said:
        await talk.remark(f"{name} is done; it returned no text.")


async def _run_command_task(
    command: sc.extensions.TypedCommand, service: Client, talk: TurnFollower, done: _CommandRun
) -> None:
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
    talk.interrupt_receive("the command is done")


async def _show_content(done: _CommandRun, talk: TurnFollower) -> None:
    if done.content:
        await talk.show(done.content, "err" if talk.interaction.json else "out")  # with --json, stdout is for events
        done.content, done.said = "", True


async def run_line(line: str, service: Client, talk: TurnFollower) -> None:
    """Run a shell line, and print its output."""
    if talk.is_stop_requested:
        await talk.say("stopped before the command ran")
        return

    async def send() -> None:
        begun = await service.run_shell_line(talk.state.session_id, line)
        talk.line = begun.call_id
        talk.own_turn.record_sent(turn_id=begun.turn_id, cursor=begun.cursor)

    await talk.send(send)
    await talk.wait_until_ended()
    outcome, result = talk.outcome, talk.line_result
    if result is not None and result.status != "denied" and not talk.interaction.json:
        await talk.show(result.text, "out")
    if outcome is not None:
        await talk.end_with(outcome, None)
