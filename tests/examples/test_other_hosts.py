"""Our extensions in a host that offers little, as most do: no state of a session, no lists of keys, nobody to ask."""

import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio

from session_core.processes.child import Launch, open_child
from session_core.rpc.connection import RpcConnection, open_connection
from session_core.rpc.failures import RpcFailed
from session_core.rpc.messages import Request
from session_core.sep.conformance.frames import judge_result
from session_core.sep.protocol.manifest import read_manifest
from session_core.sep.scaffold.template import KINDS, scaffold_extension
from tests.examples._extensions import FOLDER, NAMES
from tests.session_core.sep._children import PATIENCE

COMMAND = {"token": "epoch-1", "tier": "command"}
EVENT = {"token": "epoch-1", "tier": "event"}
REFUSED = {"ui/request": -32001, "exec/run": -32002}
"""What such a host refuses, besides all actions in a session; further than that it knows kv/get and kv/set only."""


async def answer(stored: dict[str, Any], request: Request) -> Any:
    match request.method, request.params:
        case "kv/get", {"key": key}:
            return {"value": stored.get(key)}
        case "kv/set", {"key": key, "value": value}:
            stored[key] = value
            return {}
        case "session/send_message" | "session/send_user_message" | "session/append_entry", _:
            raise RpcFailed(-32004, "there is no session here")
        case method, _:
            raise RpcFailed(REFUSED.get(method, -32601), method)


class OtherHost:
    """A running extension, greeted by a host that offers little."""

    def __init__(self, connection: RpcConnection) -> None:
        self._connection = connection

    async def ask(self, method: str, **params: Any) -> Any:
        return await self._connection.request(method, params, timeout=PATIENCE)

    async def run(self, command: str, **arguments: Any) -> str:
        answer = await self.ask("command/execute", command=command, arguments=arguments, context=COMMAND)
        return str(answer["content"])

    async def judge(self, tool: str) -> str:
        """Have a call judged by the hook `tool_call`, whose input names no session."""
        about = {"tool": tool, "arguments": {"path": "x"}}
        return str((await self.ask("hook", hook="tool_call", input=about, context=COMMAND))["action"])

    async def tell(self, event: str, **payload: Any) -> None:
        await self._connection.notify("event", {"event": event, "context": EVENT, "payload": payload})


@asynccontextmanager
async def running(folder: Path) -> AsyncGenerator[tuple[OtherHost, Any]]:
    """Start an extension and greet it; at the end it is shut down, and must end well."""
    manifest = read_manifest(folder)
    command = sys.executable if manifest.run.command == "python3" else manifest.run.command
    stored: dict[str, Any] = {}
    with trio.fail_after(PATIENCE):
        async with (
            open_child(Launch(argv=(command, "-B", *manifest.run.args), cwd=str(folder))) as child,
            open_connection(child.stdout, child.stdin, handle_request=lambda each: answer(stored, each)) as link,
        ):
            greeting = {"protocol_version": 1, "workspace": {"root": "/", "trusted": True}, "mode": "headless"}
            found = await link.request("initialize", {**greeting, "host": {"name": "other", "version": "1"}})
            host = OtherHost(link)
            yield host, found["registrations"]
            assert {} == await host.ask("shutdown")
            assert 0 == await child.wait()


def places(tmp_path: Path) -> list[Path]:
    """Return all examples, and an extension from each template."""
    for kind in KINDS:
        scaffold_extension(f"a-{kind}", kind, tmp_path / kind, python=sys.executable)
    return [*(FOLDER / name for name in NAMES), FOLDER.parent / "hello_extension", *(tmp_path / kind for kind in KINDS)]


async def test_each_works(tmp_path: Path) -> None:
    """Each starts, blocks nothing that is harmless, answers its commands, outlives events, and ends well."""
    tried = 0
    for folder in places(tmp_path):
        async with running(folder) as (host, registrations):
            assert "continue" == await host.judge("ls")
            for command in (each["name"] for each in registrations.get("commands", ())):
                assert await host.run(command), folder
                assert "unknown command: never" == await host.run("never")
                completed = await host.ask("command/complete", command=command, partial="a", context=COMMAND)
                assert isinstance(completed["completions"], list)
                tried += 1
            for event in ("turn_start", "tool_execution_end", "turn_end"):
                await host.tell(event, agent_id="a", iterations=1, tool="bash", is_error=False)
            assert {} == await host.ask("ping")
    assert 5 == tried


async def test_each_passes_the_checks_of_others(tmp_path: Path) -> None:
    """Each answers calls of what it never registered with results that fit the protocol, and holds no key more."""
    calls: list[tuple[str, dict[str, Any]]] = [
        ("ping", {}),
        ("tool/execute", {"call_id": "c", "tool": "never", "arguments": {"phrase": "hi"}, "context": COMMAND}),
        ("command/execute", {"command": "never", "arguments": {"phrase": "hi"}, "context": COMMAND}),
        ("command/complete", {"command": "never", "partial": "h", "context": COMMAND}),
    ]
    for folder in places(tmp_path):
        async with running(folder) as (host, _):
            answers = {method: await host.ask(method, **params) for method, params in calls}
            assert dict.fromkeys(answers, (None, ())) == {each: judge_result(each, answers[each]) for each in answers}
            assert (True, "unknown command: never", []) == (
                answers["tool/execute"]["is_error"],
                answers["command/execute"]["content"],
                answers["command/complete"]["completions"],
            )


async def test_plan_mode() -> None:
    """Without the name of a session, plan mode is a matter of the only one."""
    async with running(FOLDER / "plan-mode") as (host, _):
        assert (await host.run("plan")).startswith("Planning.")
        planning = [await host.judge(tool) for tool in ("write", "bash", "read")]
        await host.run("plan", state="off")
        assert ["block", "block", "continue"] == planning
        assert "continue" == await host.judge("write")


async def test_todo() -> None:
    """The last task can be ticked off where nobody knows the session."""
    async with running(FOLDER / "todo") as (host, _):
        call = {"call_id": "c", "context": COMMAND}
        await host.ask("tool/execute", tool="add", arguments={"text": "a"}, **call)
        done = await host.ask("tool/execute", tool="done", arguments={"number": 1}, **call)
    assert {"content": "1. [x] a", "is_error": False} == done
