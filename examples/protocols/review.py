"""A custom protocol: the model reviews its answer once before the turn ends.

    python examples/protocols/review.py

The model works as usual, with the session's tools. When it would end its turn, it is asked to check its answer. Its
reply to that is the final answer.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

import attrs
import trio

import session_core as sc

QUESTION = "Check your answer: is anything wrong, or missing? Then give the whole answer again; only that counts."


@attrs.frozen(kw_only=True)
class ReviewOptions:
    """`rounds` is fixed when a session is created; subagents have none. `question` may differ at each opening."""

    rounds: int = sc.protocols.option(default=1, child_default=0, inherit=False)
    question: str = sc.protocols.option(default=QUESTION, kind="host")

    def __attrs_post_init__(self) -> None:
        if not 0 <= self.rounds <= 5:
            raise sc.InvalidInput("rounds must be from 0 to 5", field="rounds")


class ReviewDriver(sc.protocols.NativeToolDriver):
    """Native tool calling, with a review before the end; pure, like every driver."""

    def __init__(self, options: ReviewOptions) -> None:
        self._options = options

    def on_checkpoint(
        self, view: sc.protocols.DriverView, kind: sc.protocols.CheckpointKind, *, more: bool
    ) -> sc.protocols.Actions:
        """Ask for a review when the turn would end; messages that came meanwhile are answered and reviewed first."""
        if kind == "after_work" or view.output_schema is not None:  # JSON is checked against its schema already
            return super().on_checkpoint(view, kind, more=more)
        if more:
            return (sc.protocols.Remember(memory=0), sc.protocols.AskModel())
        reviewed = view.memory if isinstance(view.memory, int) else 0
        if reviewed >= self._options.rounds:
            return (sc.protocols.Finish(),)
        return (
            sc.protocols.Remember(memory=reviewed + 1),
            sc.protocols.Tell(text=self._options.question),
            sc.protocols.AskModel(),
        )


class ReviewProtocol(sc.protocols.ProtocolFactory):
    """The protocol as a service sees it: its name, its options, and how to build a session's part."""

    id = "review"
    options = ReviewOptions

    def build(self, context: sc.protocols.BuildContext) -> sc.protocols.ProtocolBundle:
        """Build a driver with the session's options, which are already resolved."""
        return sc.protocols.ProtocolBundle(
            driver=ReviewDriver(sc.protocols.read_options(self.id, ReviewOptions, context.options))
        )


class Hasty:
    """A model that is right the second time."""

    @asynccontextmanager
    async def stream(self, request: sc.ModelRequest) -> AsyncIterator[AsyncIterator[sc.ProviderEvent]]:
        """Answer one request."""
        async with aclosing(self._answer(request.messages[-1].text)) as answer:
            yield answer

    async def _answer(self, asked: str) -> AsyncGenerator[sc.ProviderEvent, None]:
        await trio.lowlevel.checkpoint()
        yield sc.TextChunk(text="It is 42." if asked.startswith("Check") else "It is 41.")
        yield sc.ModelFinished()


async def main() -> None:
    """Ask twice: with a review, and without."""
    config = sc.ServiceConfig(models={"hasty": Hasty()}, protocols=(ReviewProtocol(),), store=sc.MemoryStore())
    async with sc.open_session_service(config) as service:
        for rounds in (1, 0):
            options = sc.JsonObject({"review": {"rounds": rounds}})
            session_id = (await service.create_session(protocol="review", options=options)).session_id
            await service.send_user_message(session_id, "What is six times seven?")
            outcome = (await service.wait_for_turn(session_id)).outcome
            print(f"{rounds} reviews, {outcome.steps} steps: {outcome.final_text}")


if __name__ == "__main__":
    trio.run(main)
