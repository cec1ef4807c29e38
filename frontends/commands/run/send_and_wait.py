"""Sends a message to a session that others may use too, and waits for its answer."""

import session_core as sc
from frontends.commands.run.attached_service import Client
from frontends.commands.run.options import ContinuedSession, RunOptions
from frontends.commands.run.turn_follower import TurnFollower

_NOT_SENT = "nothing was sent to the model"


async def run_turn(
    text: str | None, service: Client, talk: TurnFollower, options: RunOptions, known: ContinuedSession | None
) -> None:
    """Send a message, or resume, and show the turn to its end.

    Running work is not disturbed: without a text it is followed, and a message waits for its end. If it ends badly, the
    message begins its own turn, unless the work was stopped: then the message is withdrawn, as nothing should begin
    after a stop. Nothing is sent after a Ctrl-C.
    """
    if text is None and not talk.at_rest:
        await talk.follow_to_end()
        return
    talk.own_turn.has_message = True
    await _say(service, talk, text, options, is_new=known is None)
    if known is not None and known.summary.archived and options.interaction.is_narrated:
        await talk.remark(f"{known.short} was archived; it is back in the list.")
    if talk.own_turn.item_id is not None and not talk.is_stop_requested and not options.interaction.quiet:
        await talk.remark("The session is busy; your message waits until it is free.")
    while talk.own_turn.was_sent and not await talk.wait_until_ended():
        if not await talk.stopping.take_back(talk.state.session_id):
            await talk.receive()  # shows what happened to it
        elif talk.is_stop_requested or talk.state.activity.name == "stopped":
            break
        else:
            await _say(service, talk, text, options, is_new=False)
    if talk.outcome is not None:
        await talk.conclude(talk.outcome)
    else:
        await talk.say(_explain_unanswered(talk))


def _explain_unanswered(talk: TurnFollower) -> str:
    """Describe why our message was not answered."""
    if talk.is_stop_requested:
        before = "; the work before it continues" if not talk.at_rest else ""
        return f"stopped before the turn began; {_NOT_SENT}{before}"
    if talk.own_turn.was_removed:
        return f"Your message was removed from the queue before its turn began; {_NOT_SENT}."
    return f"The work before it was stopped, so your message was withdrawn; {_NOT_SENT}."


async def _say(service: Client, talk: TurnFollower, text: str | None, options: RunOptions, *, is_new: bool) -> None:
    """Send a message, or resume without one."""
    session_id = talk.state.session_id
    if talk.is_stop_requested:
        return

    async def go_on() -> None:
        begun = await service.resume_session(session_id)
        talk.own_turn.record_sent(turn_id=begun.turn_id, cursor=begun.cursor)

    async def send() -> None:
        assert text is not None
        sent = await service.send_user_message(
            session_id,
            text,
            images=options.attached.images,
            files=options.attached.files,
            output_schema=options.output_schema,
        )
        talk.own_turn.record_sent(
            turn_id=sent.turn_id,
            message_id=sent.message_id,
            item_id=sent.queue_item_id,
            cursor=sent.cursor,
            since=talk.state.earlier + len(talk.state.messages),
        )

    try:
        await talk.send(go_on if text is None else send)
        return
    except sc.InvalidInput as error:
        refused = error
    if is_new and text is not None:  # an empty session would be left behind
        await service.delete_session(session_id)
    raise refused
