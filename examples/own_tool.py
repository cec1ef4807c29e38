"""A tool and a model of your own, and an approval that a program answers: `python examples/own_tool.py`.

The tool writes, so the default permission mode asks a person first; here a small policy answers instead.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

import trio

import session_core as sc


class SaveNote:
    """A tool has a description for the model, its effects, and `run`."""

    spec = sc.ToolSpec(name="save_note", description="Save a note.", parameters=sc.JsonObject({"type": "object"}))
    effects: frozenset[sc.Effect] = frozenset({"write"})

    def __init__(self) -> None:
        self.notes: list[str] = []

    async def run(self, arguments: sc.JsonObject, context: sc.ToolContext) -> sc.ToolOutput:
        """Save the note; arguments come from a model, so nothing about them is trusted."""
        note = arguments.get("note")
        if not isinstance(note, str) or not note:
            raise sc.ToolFailed("note must be a text that is not empty")
        self.notes.append(note)
        return sc.ToolOutput(text=f"saved note {len(self.notes)}")


class NoteTaker:
    """A model that saves every message as a note, and then reports the result."""

    @asynccontextmanager
    async def stream(self, request: sc.ModelRequest) -> AsyncIterator[AsyncIterator[sc.ProviderEvent]]:
        """Answer one request."""
        async with aclosing(self._answer(request.messages[-1])) as answer:
            yield answer

    async def _answer(self, last: sc.Message) -> AsyncGenerator[sc.ProviderEvent, None]:
        await trio.lowlevel.checkpoint()
        if last.role == "tool":
            results = [f"{part.name}: {part.status}" for part in last.parts if isinstance(part, sc.ToolResultPart)]
            yield sc.TextChunk(text=", ".join(results))
        else:
            yield sc.ToolCallOpened(name="save_note")
            yield sc.ToolCallChunk(text=sc.wire.encode(sc.JsonObject({"note": last.text})).decode())
        yield sc.ModelFinished()


async def answer_approvals(policy: sc.AttachedClient, session_id: sc.SessionId, feed: sc.Feed) -> None:
    """Answer approvals in place of a person: allow every note except passwords."""
    async for item in feed:
        asked: tuple[sc.Approval, ...] = item.approvals if isinstance(item, sc.SessionSnapshot) else ()
        if isinstance(item, sc.SessionEvent) and isinstance(item.event, sc.events.ApprovalRequested):
            asked = (item.event.approval,)
        for approval in asked:
            decision: sc.Decision = "deny" if "password" in str(approval.arguments) else "allow_once"
            await policy.answer_approval(session_id, approval.request_id, decision)


async def main() -> None:
    """Send two notes; one of them is not allowed."""
    config = sc.ServiceConfig(models={"notes": NoteTaker()}, tools=(tool := SaveNote(),), store=sc.MemoryStore())
    async with sc.open_session_service(config) as service:
        session_id = (await service.create_session()).session_id
        with service.attach("policy") as policy:
            async with policy.follow(session_id) as feed, trio.open_nursery() as nursery:
                nursery.start_soon(answer_approvals, policy, session_id, feed)
                for text in ("buy milk", "the password is 1234"):
                    await service.send_user_message(session_id, text)
                    print(text, "->", (await service.wait_for_turn(session_id)).outcome.final_text)
                nursery.cancel_scope.cancel()
    print("notes:", tool.notes)


if __name__ == "__main__":
    trio.run(main)
