"""An agent inside your own program: a tool, hooks and an answer as JSON: `python examples/agent_with_hooks.py`.

The model is a script, so this runs offline; `sc.setup.open_setup` uses the models of your configuration instead.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager

import trio

import session_core as sc

SCHEMA = sc.JsonObject({"type": "object", "required": ["celsius"], "properties": {"celsius": {"type": "integer"}}})


class Thermometer:
    """A tool that only reads, so it needs no approval."""

    spec = sc.ToolSpec(name="measure", description="Measure a room.", parameters=sc.JsonObject({"type": "object"}))
    effects: frozenset[sc.Effect] = frozenset({"read"})

    async def run(self, arguments: sc.JsonObject, context: sc.ToolContext) -> sc.ToolOutput:
        """Measure and report progress; a stop cancels it at its checkpoint."""
        await trio.lowlevel.checkpoint()
        context.report(f"looking at the {arguments.get('room')}\n")
        return sc.ToolOutput(text="21")


class HouseRules:
    """Hooks see tool calls and results; they pass them on, change them, or block them."""

    def handles(self, hook: str) -> bool:
        """Return whether a hook is handled; other hooks cost nothing."""
        return hook in {"tool_call", "tool_result"}

    async def run(self, hook: str, session_id: sc.SessionId, value: sc.JsonObject) -> sc.JsonObject | sc.Blocked:
        """Block calls for one room, and print every call and result."""
        await trio.lowlevel.checkpoint()
        print(f"{hook}: {sc.wire.encode(value.get('arguments')).decode()}")
        if hook == "tool_call" and "bedroom" in str(value.get("arguments")):
            return sc.Blocked(reason="the bedroom is private")
        return value


class Scripted:
    """A model that measures two rooms and then reports the result."""

    @asynccontextmanager
    async def stream(self, request: sc.ModelRequest) -> AsyncIterator[AsyncIterator[sc.ProviderEvent]]:
        """Answer one request."""
        async with aclosing(self._answer(request.messages[-1])) as answer:
            yield answer

    async def _answer(self, last: sc.Message) -> AsyncGenerator[sc.ProviderEvent, None]:
        await trio.lowlevel.checkpoint()
        if last.role == "tool":
            good = next(p for p in last.parts if isinstance(p, sc.ToolResultPart) and p.status == "success")
            yield sc.TextChunk(text=f'{{"celsius": {good.text}}}')
        for room in ("bedroom", "kitchen") if last.role == "user" else ():
            yield sc.ToolCallOpened(name="measure")
            yield sc.ToolCallChunk(text=f'{{"room": "{room}"}}')
        yield sc.ModelFinished()


async def main() -> None:
    """Ask one question, with an answer as JSON of a given shape."""
    config = sc.ServiceConfig(
        models={"scripted": Scripted()}, tools=(Thermometer(),), hooks=HouseRules(), store=sc.MemoryStore()
    )
    async with sc.open_session_service(config) as service:
        session_id = (await service.create_session()).session_id
        await service.send_user_message(session_id, "How warm is it?", output_schema=SCHEMA)
        outcome = (await service.wait_for_turn(session_id)).outcome
        print(outcome.status, sc.wire.encode(outcome.output).decode())


if __name__ == "__main__":
    trio.run(main)
