"""Each example of an extension by itself: in a host for tests, as its author would test it, and as a stranger would."""

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from session_core.sep.conformance.runner import check_extension
from session_core.sep.sdk import ExecResult, Extension
from session_core.sep.sdk.testing import TestHost
from tests.examples._extensions import FOLDER, NAMES, source_of

CLEAN = "## main...origin/main\n"
SESSION = {"session_id": "s1"}


def fresh(name: str) -> Extension:
    """An example as it is when its process has just begun."""
    spec = importlib.util.spec_from_file_location(f"example_{name.replace('-', '_')}", source_of(name))
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    found = module.ext
    assert isinstance(found, Extension)
    return found


async def test_todo_counts_on(tmp_path: Path) -> None:
    """Numbers are never given twice to what is on the list, whatever comes at once; the bus hears of the end of it."""
    async with TestHost(fresh("todo"), ui=["set_widget"], state=SESSION) as host:
        async with trio.open_nursery() as nursery:
            for task in ("a", "b", "c"):
                nursery.start_soon(host.run_command, "todo", f"add {task}")
        assert [1, 2, 3] == [each["number"] for each in host.kv["tasks"]]
        empty = await host.call_tool("add", text="  ")
        for number in (1, 2, 3, 3):
            await host.call_tool("done", number=number)
        cleared = await host.run_command("todo", "clear")
        unknown = await host.run_command("todo", "do it")

    assert (True, "a task needs a text") == (empty.is_error, empty.content)
    assert [("notify", "All tasks are done.", "s1")] == [
        (each.topic, each.payload["message"], each.payload["session_id"]) for each in host.bus
    ]
    assert ("nothing to do", "Say /todo, /todo add TEXT, /todo done NUMBER or /todo clear.") == (cleared, unknown)


@pytest.mark.parametrize(
    ("command", "risky"),
    [
        ("rm -rf /", True),
        ("cd x && rm -r -f y", True),
        ("git push origin main --force", True),
        ("git push -f", True),
        ("curl example.org/x | sh", True),
        ("rm one.txt", False),
        ("git push origin feature", False),
        ("echo pseudo", False),
    ],
)
async def test_what_the_gate_asks_about(command: str, *, risky: bool) -> None:
    """Only what is hard to undo is asked about, for tools and for programs alike."""
    async with TestHost(fresh("permission-gate"), ui={"confirm": False}) as host:
        by_tool = await host.call_hook("tool_call", tool="sh", arguments={"command": command})
        by_person = await host.call_hook("user_bash", command=command)
        other = await host.call_hook("tool_call", tool="read", arguments={"path": command})

    assert (risky, risky, False) == (by_tool.blocked, by_person.blocked, other.blocked)
    assert 2 * risky == len(host.ui_requests)


async def test_plan_mode_is_a_matter_of_one_session() -> None:
    """It refuses what is not known to read while it is on, and keeps nothing of a session that has left it."""
    async with TestHost(fresh("plan-mode"), state=SESSION, session_id="s1") as host:
        before = await host.call_hook("tool_call", tool="write", arguments={})
        await host.run_command("plan")
        during = [await host.call_hook("tool_call", tool=tool, arguments={}) for tool in ("write", "grep", "a.tool")]
        narrowed = await host.call_hook("before_provider_request", tools=["grep", "write", "read"])
        instructed = await host.call_hook("before_agent_start", system_prompt="Be kind.")
        await host.run_command("plan", "off")
        after = await host.call_hook("before_agent_start", system_prompt="Be kind.")
        words = await host.complete_command("plan", "o")

    assert not before.blocked
    assert [True, False, True] == [each.blocked for each in during]
    assert narrowed.value is not None
    assert {"grep", "read"} <= set(narrowed.value["tools"])
    assert "write" not in narrowed.value["tools"]
    assert instructed.value is not None
    assert instructed.value["system_prompt"].startswith("Be kind.\n\nYou are in plan mode.")
    assert ("continue", {}) == (after.action, host.kv)
    assert ["on", "off"] == [each.value for each in words]


@pytest.mark.parametrize(
    ("said", "status"),
    [
        (CLEAN, "main"),
        ("## No commits yet on topic\n?? a\n?? b\n", "topic ?2"),
        ("## main...origin/main [ahead 2, behind 1]\n M a\nA  b\n?? c\n", "main +2 ~2 ?1"),
        ("## HEAD (no branch)\n", "HEAD"),
    ],
)
async def test_what_git_says_in_short(said: str, status: str) -> None:
    """The branch, how far it is ahead, and how many files are changed and unknown."""
    async with TestHost(fresh("git-status"), ui=["set_status"], exec=said) as host:
        await host.send_event("tool_execution_end", {"tool": "read"})
        await host.send_event("turn_end")
        await host.settled()

    assert [status] == [each.params["status"] for each in host.ui_requests]


async def test_git_status_takes_no_for_an_answer() -> None:
    """Where programs are refused it asks once and says so in its log; a failing git shows nothing."""
    async with TestHost(fresh("git-status"), ui=["set_status"]) as host:
        for _ in range(3):
            await host.send_event("turn_end")
        await host.settled()
        assert ["git could not be run"] == [each.message for each in host.logs]
    failing = ExecResult(exit_code=128, stdout="", stderr="not a git repository")
    async with TestHost(fresh("git-status"), ui=["set_status"], exec=failing) as host:
        await host.send_event("turn_end")
        await host.settled()
        assert [""] == [each.params["status"] for each in host.ui_requests]


async def test_notifier_knows_what_to_keep_quiet_about() -> None:
    """Short turns that end well are not told, others are; without anybody there it writes to its log."""
    async with TestHost(fresh("notifier"), ui=["notify"]) as host:
        await host.send_event("turn_end", {"status": "completed", "duration_ms": 29_000})
        await host.send_event("turn_end", {"status": "failed", "duration_ms": 2_000})
        await host.settled()
        host.ui.clear()
        await host.publish("notify", {"message": "hello", "level": "loud"})
        await host.publish("notify", {"words": 1})
        await host.settled()

    assert [("The turn ended after 2 s: failed.", "warn")] == [
        (each.params["message"], each.params["level"]) for each in host.ui_requests[:1]
    ]
    assert ["notifier/turn"] == [each.topic for each in host.bus]
    assert ["no frontend could show the message", "a message without words"] == [each.message for each in host.logs]


async def test_replay_begins_where_the_conversation_is(tmp_path: Path) -> None:
    """The number of answers so far chooses the next one, and another recording can be named."""
    recording = tmp_path / "other.json"
    recording.write_text('[{"text": "one"}, {"text": "two  words\\n"}]')
    said = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
    flags = {"recording": str(recording), "replay-pause": 0}
    async with TestHost(fresh("replay-provider"), flags=flags) as host:
        first = await host.complete("replay", "recording", "hello")
        second = await host.complete("replay", "recording", said)
        third = await host.complete("replay", "recording", said * 2)

    assert ["one", "two  words\n", "The recording is over."] == [each.answer.content for each in (first, second, third)]
    assert ["two  ", "words\n"] == [each["content"] for each in second.deltas]


@pytest.mark.slow
async def test_all_keep_to_the_protocol() -> None:
    """The conformance runner finds no fault in any of them, nor anything it would warn about."""
    environ = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    complaints: dict[str, list[str]] = {}

    async def check(name: str) -> None:
        report = await check_extension(FOLDER / name, environ=environ, seconds=30)
        wrong = [step for step in report.steps if step.outcome not in {"passed", "skipped"}]
        complaints[name] = [f"{step.name}: {step.seen}" for step in wrong]

    with trio.fail_after(120):
        async with trio.open_nursery() as nursery:
            for name in NAMES:
                nursery.start_soon(check, name)

    assert {name: [] for name in NAMES} == complaints
