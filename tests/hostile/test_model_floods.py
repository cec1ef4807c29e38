"""A hostile model that sends too much, or what is no call at all."""

import hashlib
import json
from typing import Any

import pytest

from session_core import limits
from session_core.providers.base import ModelFinished, TextChunk, ToolCallChunk, ToolCallOpened
from session_core.testing.scripted import Forever, Hang, text
from session_core.tools import search
from tests.hostile._model import Arena, Call, processes_in, shell

WRONG: dict[str, Any] = {
    "not JSON": "{path: notes.txt}",
    "half": '{"path": "notes.',
    "a list": "[1, 2]",
    "text": '"notes.txt"',
    "nothing": "null",
    "a number": "7",
    "endless number": '{"path": NaN}',
    "huge number": '{"path": "notes.txt", "first_line": 1e999}',
    "many digits": '{"path": "notes.txt", "first_line": ' + "9" * 5_000 + "}",
    "deep": '{"path": ' + "[" * 20_000 + "]" * 20_000 + "}",
    "deep objects": '{"a":' * 5_000 + "1" + "}" * 5_000,
    "wrong type": {"path": 7},
    "list of paths": {"path": ["notes.txt"]},
    "object": {"path": {"$ref": "file:///etc/passwd"}},
    "missing": {},
    "unknown": {"path": "notes.txt", "sudo": True},
    "true for a number": {"path": "notes.txt", "first_line": True},
    "below one": {"path": "notes.txt", "first_line": -1},
    "unpaired surrogate": '{"path": "\\ud800"}',
    "twice": '{"path": "../../other/private.txt", "path": "../../other/private.txt"}',
    "secret names": {"path": "x", "__class__": "y", "__proto__": {"approved": True}},
}
NAMES = (
    "",
    "no_such_tool",
    "shell\x00",
    "Shell",
    "shell ",
    "../shell",
    "\x1b[2J",
    "x" * 100_000,
    "\ud800",
    "__import__('os')",
)


@pytest.mark.slow
async def test_wrong_arguments(arena: Arena) -> None:
    """Arguments that are no arguments get a sentence each, and the turn goes on."""
    tools = ("read", "write", "bash", "grep", "web_fetch", "task", "plan", "skill", "job_output", "multi_edit")
    for name, arguments in WRONG.items():
        attacked = await arena.attack([(tool, arguments) for tool in tools])
        assert len(attacked.results) == len(tools), name
        assert set(attacked.statuses) == {"error"}, (name, attacked.statuses)
        assert attacked.outcome.status == "completed", name
        assert all(0 < len(result.text) < 2_000 and "Traceback" not in result.text for result in attacked.results), name
    assert not arena.changes()


async def test_unknown_tools(arena: Arena) -> None:
    """Tools that do not exist are not run, whatever their names."""
    attacked = await arena.attack([(name, {"command": "echo evil > notes.txt"}) for name in NAMES])
    assert attacked.statuses == ["error"] * len(NAMES)
    assert not arena.changes()


async def test_chunks_without_a_call(arena: Arena) -> None:
    """Pieces of arguments that belong to no call do nothing."""
    stray = json.dumps({"command": "echo evil > notes.txt"})
    attacked = await arena.attack(
        (ToolCallChunk(text=stray), TextChunk(text="x"), ToolCallChunk(text=stray), ModelFinished()),
        (ToolCallOpened(name="bash"), ModelFinished(), ToolCallChunk(text=stray)),
    )
    assert set(attacked.statuses) <= {"error"}
    assert not arena.changes()


@pytest.mark.slow
async def test_many_calls(arena: Arena) -> None:
    """Hundreds of calls in one answer are answered one by one, and more than a thousand are refused as a whole."""
    attacked = await arena.attack([("read", {"path": "notes.txt"})] * 300, mode="read_only")
    assert attacked.statuses == ["success"] * 300
    flood: list[Call] = [("write", {"path": "evil.txt", "content": "x"})] * 1_001
    attacked = await arena.attack(flood)
    assert attacked.outcome.status != "completed" or not arena.changes()
    assert arena.changes() == set()


@pytest.mark.slow
async def test_endless_turn(arena: Arena) -> None:
    """A model that never stops calling tools comes to the end of its steps."""
    attacked = await arena.attack(*[("plan", {"items": []})] * (limits.MAX_STEPS_PER_TURN + 20))
    assert attacked.outcome.status != "completed"
    assert len(arena.provider.requests) <= limits.MAX_STEPS_PER_TURN + 1


async def test_endless_answer(arena: Arena) -> None:
    """An answer without an end is cut at its bound, and what it called is not run."""
    attacked = await arena.attack((*text("x")[:1], Forever("evil " * 20_000)))
    assert attacked.outcome.status == "failed"
    session_id = await arena.begin((ToolCallOpened(name="bash"), ToolCallChunk(text='{"command": "'), Hang()))
    await arena.until(lambda: len(arena.provider.requests) == 2)
    assert (await arena.service.request_stop(session_id)).result == "stopped"
    assert (await arena.service.wait_for_turn(session_id)).outcome.status == "stopped"
    assert not arena.changes()


async def test_endless_output(arena: Arena) -> None:
    """Output without an end is read to its end and kept within bounds, in the result, the events and on the disk."""
    attacked = await arena.attack(shell("yes evil | head -c 60M; echo end"), shell("head -c 5M /dev/urandom; echo end"))
    assert attacked.statuses == ["success", "success"]
    assert all(
        len(result.text) <= limits.MAX_TOOL_OUTPUT_CHARS and "end\n" in result.text for result in attacked.results
    )
    assert all("\x00" not in result.text or result.text.isprintable() is False for result in attacked.results)
    kept = sum(path.stat().st_size for path in arena.service_home.rglob("*") if path.is_file())
    assert kept < 40_000_000


async def test_output_of_a_job(arena: Arena) -> None:
    """A job that writes without end keeps its newest output only, and a time limit ends it."""
    attacked = await arena.attack(
        shell("yes evil | head -c 20M; echo end; sleep 1000", background=True),
        ("job_output", {"job_id": "job_1", "wait_ms": 2_000}),
        ("job_stop", {"job_id": "job_1"}),
    )
    assert all(len(result.text) <= limits.MAX_TOOL_OUTPUT_CHARS for result in attacked.results)
    late = await arena.attack(shell("trap '' TERM; sleep 1000", timeout_ms=200))
    assert "time limit" in late.text
    assert not list(processes_in(arena.base))


async def test_many_processes(arena: Arena) -> None:
    """A few hundred processes that one command leaves behind are all gone with it."""
    attacked = await arena.attack(shell("for i in $(seq 300); do setsid sleep 1000 & done >/dev/null 2>&1; echo done"))
    assert "done" in attacked.text
    assert not list(processes_in(arena.base))


PATTERNS = {
    "nested": "(?=e)(e+)+$",
    "alternatives": "(?=e)(e|e|ee)*$",
    "backward": r"(e+)\1+\1+\1+$",
    "many braces": "{a,b}" * 40,
    "many stars": "*e" * 500,
    "many folders": "**/" * 1_000 + "x",
    "repeated": "((e{1,1000}){1,1000}){1,1000}",
    "not a pattern": "((((",
    "option": "--pre=sh",
    "null": "e\x00",
}


async def test_patterns(arena: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    """No pattern holds the service up, and none is an option of the program that searches."""
    monkeypatch.setattr(search, "SEARCH_SECONDS", 0.3)
    (arena.root / "e.txt").write_text("e" * 5_000 + "!\n")
    calls: list[Call] = [("grep", {"pattern": pattern}) for pattern in PATTERNS.values()]
    calls += [("grep", {"pattern": "e", "include": pattern}) for pattern in PATTERNS.values()]
    calls += [("glob", {"pattern": pattern}) for pattern in PATTERNS.values()]
    attacked = await arena.attack(calls)
    assert len(attacked.results) == len(calls)
    assert all("Traceback" not in result.text for result in attacked.results)
    assert arena.changes() == {"e.txt"}


async def test_huge_contents(arena: Arena) -> None:
    """A change too long to be shown says so and names its sum, and a huge file is read in parts."""
    huge = "harmless\n" * 90_000 + "evil\n"
    attacked = await arena.attack(("write", {"path": "huge.txt", "content": huge}), mode="ask_writes")
    assert attacked.statuses == ["denied"]
    assert "the diff is cut" in arena.asked[0].shown
    assert hashlib.sha256(huge.encode()).hexdigest() in arena.asked[0].shown
    made = await arena.attack(
        shell("yes 0123456789 | head -c 30M > huge.txt; echo made"), ("read", {"path": "huge.txt"})
    )
    assert len(made.results[-1].text) <= limits.MAX_TOOL_OUTPUT_CHARS
