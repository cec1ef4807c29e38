"""A whole agent over HTTP, by each of the three interfaces: a turn with tools, and answers that go wrong on the way."""

from pathlib import Path

import pytest

from session_core.vocabulary import events as ev
from session_core.vocabulary.messages import ToolResultPart
from tests.end_to_end._streams import ANSWER_TOKENS, DIALECTS, PROMPT_TOKENS, Dialect
from tests.end_to_end._world import HEADER, KEY, open_world
from tests.session_core.providers._replay_server import Reply

each_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=str)


@each_dialect
async def test_a_turn_with_tools(dialect: Dialect, tmp_path: Path) -> None:
    """The model reads, writes and answers; it is asked with the results, over one connection, and all is recorded."""
    calls = [("write", {"path": "made.txt", "content": "hello\n"}), ("read", {"path": "there.txt"})]
    replies = [Reply(body=dialect.answer("I look.", calls)), Reply(body=dialect.answer("Grüße 🌍, it says 42."))]
    async with open_world(tmp_path, dialect, *replies) as world:
        (tmp_path / "work" / "there.txt").write_text("42\n")
        outcome = await world.say("what is there?")
        said = await world.transcript()
        requests = world.server.requests
    assert ("completed", 2, "Grüße 🌍, it says 42.") == (outcome.status, outcome.steps, outcome.final_text)
    assert ["user", "assistant", "tool", "assistant"] == [message.role for message in said]
    results = [part for part in said[2].parts if isinstance(part, ToolResultPart)]
    assert [("write", "success"), ("read", "success")] == [(part.name, part.status) for part in results]
    assert "hello\n" == (tmp_path / "work" / "made.txt").read_text()
    assert (2 * PROMPT_TOKENS, 2 * ANSWER_TOKENS) == (outcome.usage.input_tokens, outcome.usage.output_tokens)
    assert [dialect.path] * 2 == [request.path for request in requests]
    assert 1 == world.server.connections
    assert b"42" in requests[1].body
    assert [] == world.events(ev.ModelCallFailed)
    for request in requests:
        assert HEADER == request.headers["x-team"]
        assert KEY in {request.headers.get("x-api-key"), request.headers.get("authorization", "")[len("Bearer ") :]}
