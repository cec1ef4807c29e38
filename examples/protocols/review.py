"""A protocol of your own: an answer counts only after the model has looked at it once more.

    python examples/protocols/review.py

The model works as always, with the session's tools. When it wants to end its turn, it is asked to check what it has
said, and what it says then is its answer.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

import attrs
import trio

import session_core as sc

QUESTION = "Check your answer: is anything wrong, or missing? Then give the whole answer again; only that counts."


@attrs.frozen(kw_only=True)
class ReviewOptions:
    """`rounds` is fixed when a session is made; helpers have none. `question` is what the program says today."""

    rounds: int = sc.protocols.option(default=1, child_default=0, inherit=False)
    question: str = sc.protocols.option(default=QUESTION, kind="host")

    def __attrs_post_init__(self) -> None:
        if not 0 <= self.rounds <= 5:
            raise sc.InvalidInput("rounds must be from 0 to 5", field="rounds")


class ReviewDriver(sc.protocols.NativeToolDriver):
    """Native tool calling, with a second look before the end; pure, as every driver."""

    def __init__(self, options: ReviewOptions) -> None:
        self._options = options

    def on_checkpoint(
        self, view: sc.protocols.DriverView, kind: sc.protocols.CheckpointKind, *, more: bool
    ) -> sc.protocols.Actions:
        """Ask for a review when the turn would end; what people say meanwhile is answered, and reviewed, first."""
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
    """What a service knows: a name, the options, and how to build what one session needs."""

    id = "review"
    options = ReviewOptions

    def build(self, context: sc.protocols.BuildContext) -> sc.protocols.ProtocolBundle:
        """Make a driver with the session's options, which have been decided before."""
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
