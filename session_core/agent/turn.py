"""The turn loop: ask the model, run its tools, look for new messages, until it has answered.

Rules:
1. Between two steps, messages sent to steer the turn are read. When the model has nothing more to do, waiting
   follow-ups are read; only when there are none the turn ends, in the same step (`TurnDesk.finish_unless_more`).
2. A model call that fails in a way worth another try is tried again after a wait; what it had streamed is withdrawn
   first, so that no text ever appears twice.
3. Settings are read anew for each model call and each tool call: a change takes effect at the next one.
4. Cancellation passes through; whoever started the turn closes what is open.
"""

import random
from collections.abc import Mapping

import attrs
import trio

from session_core import limits
from session_core.agent.answer import AnswerInProgress, clean_text
from session_core.agent.tool_runner import ToolRunner
from session_core.ids import MessageId, new_id
from session_core.providers.base import RETRYABLE, ModelFailed, ModelFinished, ModelRequest, Provider
from session_core.session.desk import TurnDesk
from session_core.tools.base import Tool
from session_core.vocabulary import events as ev

FIRST_RETRY_MS = 500
LONGEST_RETRY_MS = 60_000


@attrs.frozen(kw_only=True)
class Agent:
    """What every turn of a service shares: the models and the tools."""

    models: Mapping[str, Provider]
    tools: Mapping[str, Tool]
    system_prompt: str = ""

    async def run_turn(self, desk: TurnDesk) -> None:
        """Work until the turn has ended and is recorded as ended.

        Cancellation: leaves the turn open; the caller closes it.
        """
        runner = ToolRunner(desk, self.tools)
        while True:
            desk.deliver_waiting(("steer",))
            if desk.state.turn is not None and desk.state.turn.steps >= limits.MAX_STEPS_PER_TURN:
                desk.finish_unless_more("limit_reached", error=f"stopped after {limits.MAX_STEPS_PER_TURN} model calls")
                return
            answer = await self._ask_model(desk)
            if isinstance(answer, ModelFailed):
                desk.finish_unless_more("failed", error=f"{answer.kind}: {shown(answer.message)}")
                return
            message = desk.state.message(answer.message_id)
            if message is not None and message.tool_calls:
                await runner.run(message, answer.malformed)
            elif desk.finish_unless_more("completed"):
                return

    async def _ask_model(self, desk: TurnDesk) -> AnswerInProgress | ModelFailed:
        attempt = 1
        while isinstance(answer := await self._ask_once(desk), ModelFailed):
            if answer.kind not in RETRYABLE or attempt > limits.MAX_RETRIES:
                message = shown(answer.message)
                desk.record(ev.ModelCallFailed(kind=answer.kind, message=message, attempt=attempt, retry_at=None))
                break
            await _wait_to_retry(desk, answer, attempt)
            attempt += 1
        return answer

    async def _ask_once(self, desk: TurnDesk) -> AnswerInProgress | ModelFailed:
        # A stop that came before costs no model call; nor does a tool that swallows its cancellation gain one.
        await trio.lowlevel.checkpoint_if_cancelled()
        conversation = await desk.conversation()
        state = desk.state
        model = state.settings.model
        provider = self.models.get(model)
        if provider is None:
            return ModelFailed(kind="refused", message=f"there is no model called {model!r} here")
        request = ModelRequest(
            model=model,
            messages=conversation,
            tools=tuple(tool.spec for tool in self.tools.values()),
            system=self.system_prompt,
        )
        answer = AnswerInProgress(
            message_id=MessageId(new_id("msg")), parent_id=state.head, turn_id=desk.turn_id, model=model
        )
        desk.record(
            ev.MessageStarted(message_id=answer.message_id, parent_id=state.head, turn_id=desk.turn_id, model=model)
        )
        async with provider.stream(request) as chunks:
            async for chunk in chunks:
                if isinstance(chunk, ModelFailed):
                    return chunk
                if isinstance(chunk, ModelFinished):
                    return _complete(desk, answer, chunk)
                if not answer.has_room_for(chunk):
                    return ModelFailed(kind="malformed", message="the model's answer does not end")
                for event in answer.take(chunk):
                    desk.record(event)
        return ModelFailed(kind="malformed", message="the model's answer ended without an end mark")


def _complete(desk: TurnDesk, answer: AnswerInProgress, finished: ModelFinished) -> AnswerInProgress | ModelFailed:
    message = answer.message(usage=finished.usage, now=desk.now())
    if not message.parts:
        return ModelFailed(kind="malformed", message="the model gave an empty answer")
    desk.record(ev.MessageCompleted(message=message))
    return answer


async def _wait_to_retry(desk: TurnDesk, failure: ModelFailed, attempt: int) -> None:
    delay = retry_delay_ms(failure, attempt)
    if desk.state.partial is not None:
        desk.record(ev.MessageDiscarded(message_id=desk.state.partial.message_id, reason=failure.kind))
    desk.record(
        ev.ModelCallFailed(
            kind=failure.kind, message=shown(failure.message), attempt=attempt, retry_at=desk.now() + delay
        )
    )
    await trio.sleep(delay / 1000)


def retry_delay_ms(failure: ModelFailed, attempt: int) -> int:
    """Return how long to wait: what the provider asked for, else ever longer, with jitter against stampedes."""
    if failure.retry_after_ms is not None:
        return min(max(0, failure.retry_after_ms), LONGEST_RETRY_MS)
    longest = min(FIRST_RETRY_MS * 2 ** (attempt - 1), LONGEST_RETRY_MS)
    return int(random.uniform(longest / 2, longest))  # noqa: S311 - jitter, not a secret


def shown(message: str) -> str:
    """Bound and clean an error message that comes from outside."""
    return clean_text(message)[: limits.MAX_ERROR_CHARS]
