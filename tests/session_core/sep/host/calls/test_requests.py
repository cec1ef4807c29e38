"""What extensions ask of us: the order of the checks, every method, and what they are told when they may not."""

import json
from collections.abc import Mapping
from typing import Any

import pytest
import trio
import trio.testing

from session_core import limits
from session_core.errors import Conflict, Forbidden, InvalidInput
from session_core.rpc.connection import open_connection
from session_core.rpc.failures import RpcFailed
from session_core.rpc.messages import Request
from session_core.sep.host.calls.requests import PROGRAMS_AT_ONCE, InboundRequests
from session_core.sep.protocol.names import Capability, UiKind
from session_core.sep.protocol.service_api import ExtensionCaller, ProgramResult
from tests.session_core.sep._inbound import OTHER_SESSION, SESSION, Service, World, speaking

ACTIONS: dict[str, tuple[dict[str, Any], tuple[Any, ...], Any]] = {
    "session/send_message": ({"text": "hello"}, ("send_message", SESSION, "hello", "assistant"), {}),
    "session/send_user_message": ({"text": "go"}, ("send_user_message", SESSION, "go", "follow_up"), {}),
    "session/append_entry": ({"entry": {"a": [1]}}, ("append_entry", SESSION, {"a": [1]}), {}),
    "session/set_model": ({"model": "m"}, ("set_model", SESSION, "m", None, None), {}),
    "session/state": ({}, ("state", SESSION), {"state": {"name": "a session"}}),
}
"""Guarded methods: params, what reaches the service, and the answer."""


@pytest.fixture
def world() -> World:
    return World()


# --- the order of the checks ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ACTIONS)
async def test_an_open_dispatch_may_act(world: World, method: str) -> None:
    """Within a dispatch, every session action reaches the service, in the session of the dispatch."""
    params, call, answer = ACTIONS[method]
    with world.contexts.dispatch("ext", 1, SESSION) as context:
        assert answer == await world.ask(speaking(), method, {**params, "context": context.wire, "unknown": 1})
    assert [call] == world.service.calls


@pytest.mark.parametrize("method", ACTIONS)
async def test_the_order_of_refusals(world: World, method: str) -> None:
    """A call with everything wrong is told what comes first: tier, token, capability, session, then params."""
    without = speaking(without=("session",))
    for context in (None, "no object", {}, {"token": "t"}, {"token": "t", "tier": "event"}):
        failed = await world.refusal(without, method, {"context": context})
        assert (-32003, "this requires a command-tier context") == (failed.code, failed.message)
    for token in (None, "epoch-1", 7):
        failed = await world.refusal(without, method, {"context": {"token": token, "tier": "command"}})
        assert -32003 == failed.code
        assert "stale" in failed.message
    event = world.contexts.for_event("ext", 1, SESSION)
    failed = await world.refusal(without, method, {"context": {**event.wire, "tier": "command"}})
    assert -32003 == failed.code, "what is claimed about an event does not make it more"
    with world.contexts.dispatch("ext", 1, None) as nowhere, world.contexts.dispatch("ext", 1, SESSION) as here:
        assert -32004 == (await world.refusal(without, method, {"context": here.wire})).code
        failed = await world.refusal(speaking(), method, {"context": nowhere.wire})
        assert (-32004, "there is no session that this could be about") == (failed.code, failed.message)
        if method != "session/state":
            assert -32602 == (await world.refusal(speaking(), method, {"context": here.wire})).code
    failed = await world.refusal(speaking(), method, {"context": here.wire})
    assert -32003 == failed.code, "the dispatch is over"


async def test_a_context_is_good_for_its_process_only(world: World) -> None:
    """A token does not work for another extension, nor for the next process of the same one."""
    with world.contexts.dispatch("ext", 1, SESSION) as context:
        params = {"text": "hello", "context": context.wire}
        assert -32003 == (await world.refusal(speaking("thief"), "session/send_message", params)).code
        with pytest.raises(RpcFailed) as failed:
            await world.ask(speaking(), "session/send_message", params, generation=2)
        assert -32003 == failed.value.code
    assert [] == world.service.calls


async def test_unknown_methods(world: World) -> None:
    """A method that nobody knows is told so before anything else is looked at."""
    failed = await world.refusal(speaking(), "session/explode", {"context": 5})
    assert (-32601, "there is no method 'session/explode'") == (failed.code, failed.message)
    for method in ("initialize", "tool/execute", "hook", ""):
        assert -32601 == (await world.refusal(speaking(), method)).code


@pytest.mark.parametrize(
    ("method", "capability", "params"),
    [
        ("tools/set_active", "tools", {"tools": []}),
        ("ui/request", "ui", {"kind": "confirm", "prompt": "?"}),
        ("exec/run", "exec", {"command": "ls"}),
        ("kv/get", "kv", {"key": "k"}),
        ("kv/set", "kv", {"key": "k", "value": 1}),
        ("kv/delete", "kv", {"key": "k"}),
        ("kv/list", "kv", {}),
    ],
)
async def test_capabilities_are_enforced(
    world: World, method: str, capability: Capability, params: dict[str, Any]
) -> None:
    """What the manifest does not enable is refused by group, and everything else still works."""
    with world.contexts.dispatch("ext", 1, SESSION) as context:
        params = {**params, "context": context.wire}
        failed = await world.refusal(speaking(without=(capability,)), method, params)
        assert (-32004, f"the manifest does not enable {capability}") == (failed.code, failed.message)
        await world.ask(speaking(), method, params)
    assert 1 == len(world.service.calls)


async def test_ping(world: World) -> None:
    """A ping is answered, whatever the manifest allows."""
    assert {} == await world.ask(speaking(without=("kv", "ui", "session")), "ping")


# --- params -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "params", "field"),
    [
        ("session/send_message", {}, "text"),
        ("session/send_message", {"text": 5}, "text"),
        ("session/send_message", {"text": ""}, "text"),
        ("session/send_message", {"text": "x" * (limits.MAX_TEXT_CHARS + 1)}, "text"),
        ("session/send_message", {"text": "x", "role": "system"}, "role"),
        ("session/send_user_message", {"text": "x", "deliver_as": "later"}, "deliver_as"),
        ("session/append_entry", {"entry": [1]}, "entry"),
        ("session/append_entry", {"entry": {"x": "y" * limits.MAX_SHOWN_CHARS}}, "entry"),
        ("session/append_entry", {"entry": {"x": [0] * limits.MAX_SHOWN_CHARS * 5}}, "entry"),
        ("session/set_model", {"model": "m", "thinking": 3}, "thinking"),
        ("tools/set_active", {}, "tools"),
        ("tools/set_active", {"tools": ["ok", 5]}, "tools[1]"),
        ("exec/run", {"args": []}, "command"),
        ("exec/run", {"command": "ls", "args": "-l"}, "args"),
        ("exec/run", {"command": "ls\0", "args": []}, "command"),
        ("ui/request", {"prompt": "?"}, "kind"),
        ("ui/request", {"kind": "confirm"}, "prompt"),
        ("ui/request", {"kind": "select", "prompt": "?", "options": []}, "options"),
        ("ui/request", {"kind": "select", "prompt": "?", "options": ["a", None]}, "options[1]"),
        ("ui/request", {"kind": "notify", "message": "m", "level": "loud"}, "level"),
        ("ui/request", {"kind": "set_widget", "widget": {"kind": "table"}}, "widget.columns"),
        ("ui/request", {"kind": "set_widget"}, "widget"),
        ("kv/get", {}, "key"),
        ("kv/get", {"key": ""}, "key"),
        ("kv/get", {"key": "k" * (limits.MAX_KV_KEY_CHARS + 1)}, "key"),
        ("kv/set", {"key": "k"}, "value"),
        ("kv/list", {"prefix": 5}, "prefix"),
    ],
)
async def test_wrong_params_name_the_field(world: World, method: str, params: dict[str, Any], field: str) -> None:
    """Params that are wrong are refused with the way to what is wrong, before the service sees anything."""
    with world.contexts.dispatch("ext", 1, SESSION) as context:
        failed = await world.refusal(speaking(), method, {**params, "context": context.wire})
    assert (-32602, {"field": field}) == (failed.code, failed.data)
    assert failed.message.startswith(f"{field}: ")


async def test_null_is_the_same_as_missing(world: World) -> None:
    """Optional params that are null count as missing, as some languages write them so."""
    with world.contexts.dispatch("ext", 1, SESSION) as context:
        params = {"model": "m", "provider": None, "thinking": "high", "context": context.wire}
        await world.ask(speaking(), "session/set_model", params)
        run = {"command": "ls", "args": None, "cwd": None, "context": context.wire}
        await world.ask(speaking(), "exec/run", run)
    assert [("set_model", SESSION, "m", None, "high"), ("run_program", SESSION, "ls", (), None)] == world.service.calls


# --- which session, and which request ---------------------------------------------------------------------------------


async def test_dialogs_without_a_context_go_where_the_extension_is_busy(world: World) -> None:
    """Dialogs carry no context in the protocol: they belong to the newest open dispatch, or to the newest event."""
    ask = {"kind": "confirm", "prompt": "Really?"}
    failed = await world.refusal(speaking(), "ui/request", ask)
    assert (-32001, "there is no session that this could be about") == (failed.code, failed.message)
    event = world.contexts.for_event("ext", 1, OTHER_SESSION)
    await world.ask(speaking(), "ui/request", ask)
    with world.contexts.dispatch("ext", 1, SESSION):
        await world.ask(speaking(), "ui/request", ask)
        await world.ask(speaking(), "ui/request", {**ask, "context": event.wire})
        await world.ask(speaking(), "ui/request", {**ask, "context": {"token": "over", "tier": "command"}})
    assert [OTHER_SESSION, SESSION, OTHER_SESSION, SESSION] == [call[1] for call in world.service.calls]


async def test_tools_are_narrowed_only_where_it_is_certain(world: World) -> None:
    """Without a context the only busy session is meant; with several of them, or a dead context, it is refused."""
    params = {"tools": ["read", "write"]}
    assert -32004 == (await world.refusal(speaking(), "tools/set_active", params)).code
    with world.contexts.dispatch("ext", 1, SESSION) as context:
        assert {"active": ["read"]} == await world.ask(speaking(), "tools/set_active", params)
        with world.contexts.dispatch("ext", 1, OTHER_SESSION):
            assert -32003 == (await world.refusal(speaking(), "tools/set_active", params)).code
            await world.ask(speaking(), "tools/set_active", {**params, "context": context.wire})
        dead = {**params, "context": {"token": "over", "tier": "command"}}
        assert -32003 == (await world.refusal(speaking(), "tools/set_active", dead)).code
    assert [("active_tools", SESSION, ("read", "write"))] * 2 == world.service.calls


async def test_programs_need_a_context(world: World) -> None:
    """A program runs in the session of a context that is known, of either tier; without one it is refused."""
    params = {"command": "make", "args": ["-j", ""], "cwd": "sub"}
    assert -32003 == (await world.refusal(speaking(), "exec/run", params)).code
    event = world.contexts.for_event("ext", 1, SESSION)
    answer = await world.ask(speaking(), "exec/run", {**params, "context": event.wire})
    assert {"stdout": "out", "stderr": "err", "exit_code": 3} == answer
    assert [("run_program", SESSION, "make", ("-j", ""), "sub")] == world.service.calls


async def test_an_action_sent_again_is_done_once(world: World) -> None:
    """An action under the same id within its dispatch is a retry, and done once; any other one is done."""
    with world.contexts.dispatch("ext", 1, SESSION) as context, world.contexts.dispatch("ext", 1, SESSION) as later:
        first = {"text": "hello", "context": context.wire}
        for params, number in (
            (first, 1),
            (first, 1),
            (first, "1"),
            (first, 2),
            ({**first, "text": "other"}, 1),
            ({**first, "context": later.wire}, 1),
        ):
            assert {} == await world.ask(speaking(), "session/send_message", params, id=number)
        await world.ask(speaking(), "session/send_user_message", first, id=1)
    assert 6 == len(world.service.callers)


async def test_a_question_sent_again_is_asked_again(world: World) -> None:
    """What a person has answered once is no answer to the next question, whatever its id is."""
    world.contexts.for_event("ext", 1, SESSION)
    for _ in range(3):
        await world.ask(speaking(), "ui/request", {"kind": "confirm", "prompt": "Delete everything?"}, id=1)
    assert 3 == len(world.service.callers)


# --- dialogs ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("params", "shown"),
    [
        ({"kind": "select", "prompt": "Which?", "options": ["a", ""]}, {"prompt": "Which?", "options": ["a", ""]}),
        ({"kind": "confirm", "prompt": "Sure?"}, {"prompt": "Sure?"}),
        ({"kind": "input", "prompt": "Name?"}, {"prompt": "Name?"}),
        ({"kind": "input", "prompt": "Name?", "default": ""}, {"prompt": "Name?", "default": ""}),
        ({"kind": "notify", "message": "Done"}, {"message": "Done", "level": "info"}),
        ({"kind": "notify", "message": "Oh", "level": "error"}, {"message": "Oh", "level": "error"}),
        ({"kind": "set_status", "status": ""}, {"status": ""}),
        ({"kind": "set_title", "title": "T"}, {"title": "T"}),
        (
            {"kind": "set_widget", "widget": {"kind": "markdown", "text": "**x**"}},
            {"widget": {"kind": "markdown", "text": "**x**"}},
        ),
    ],
)
async def test_every_kind_of_dialog(world: World, params: dict[str, Any], shown: dict[str, Any]) -> None:
    """Each kind reaches the service with what belongs to it and nothing else, and its answer comes back."""
    world.service.answer = {"cancelled": True}
    with world.contexts.dispatch("ext", 1, SESSION):
        assert {"cancelled": True} == await world.ask(speaking(), "ui/request", {**params, "unknown": 1})
    assert [("ask", SESSION, params["kind"], shown)] == world.service.calls


async def test_kinds_that_nobody_can_show(world: World) -> None:
    """A kind that nobody watching can deal with, or that nobody knows, is no dialog: the extension is told -32001."""
    world.service.kinds = frozenset({"confirm"})
    with world.contexts.dispatch("ext", 1, SESSION):
        for kind in ("select", "hologram"):
            failed = await world.refusal(speaking(), "ui/request", {"kind": kind})
            assert (-32001, f'nobody who is watching can deal with "{kind}"') == (failed.code, failed.message)
        assert {"confirmed": True} == await world.ask(speaking(), "ui/request", {"kind": "confirm", "prompt": "?"})


# --- values -----------------------------------------------------------------------------------------------------------


async def test_values_belong_to_the_extension_by_its_manifest(world: World) -> None:
    """An extension keeps, lists and lets go of values under its own name, which is that of its manifest."""
    one, two = speaking("one"), speaking("two")
    assert {} == await world.ask(one, "kv/set", {"key": "a/1", "value": {"deep": [None]}})
    assert {} == await world.ask(one, "kv/set", {"key": "a/2", "value": None})
    assert {} == await world.ask(two, "kv/set", {"key": "a/1", "value": "theirs"})
    assert {"value": {"deep": [None]}} == await world.ask(one, "kv/get", {"key": "a/1"})
    assert {"value": None} == await world.ask(one, "kv/get", {"key": "unset"})
    assert {"keys": ["a/1", "a/2"]} == await world.ask(one, "kv/list")
    assert {"keys": ["a/2"]} == await world.ask(one, "kv/list", {"prefix": "a/2"})
    assert {} == await world.ask(one, "kv/delete", {"key": "a/1"})
    assert {"value": None} == await world.ask(one, "kv/get", {"key": "a/1"})
    assert {"value": "theirs"} == await world.ask(two, "kv/get", {"key": "a/1"})


async def test_what_the_store_refuses_names_the_field(world: World) -> None:
    """A value that is too large is refused by the store, and the extension learns which field it was."""
    with pytest.raises(RpcFailed, match="the limit is") as failed:
        await world.ask(speaking(), "kv/set", {"key": "k", "value": "v" * limits.MAX_KV_VALUE_BYTES})
    assert (-32602, {"code": "invalid_input", "field": "value"}) == (failed.value.code, failed.value.data)


# --- what the service does --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "code", "data"),
    [
        (RpcFailed(-32002, "not trusted", {"why": 1}), -32002, {"why": 1}),
        (InvalidInput("too long", field="text"), -32602, {"code": "invalid_input", "field": "text"}),
        (Conflict("a turn runs"), -32603, {"code": "conflict"}),
        (Forbidden("observers cannot act"), -32000, {"code": "forbidden"}),
    ],
)
async def test_errors_of_the_service_reach_the_extension(
    world: World, error: Exception, code: int, data: dict[str, Any]
) -> None:
    """What the service refuses is an error with its own sentence and code; a failure with a code passes as it is."""
    world.service.error = error
    with world.contexts.dispatch("ext", 1, SESSION) as context, pytest.raises(RpcFailed) as failed:
        await world.ask(speaking(), "session/send_message", {"text": "hello", "context": context.wire})
    assert (code, data) == (failed.value.code, failed.value.data)
    assert failed.value.message in {"not trusted", "too long", "a turn runs", "observers cannot act"}


async def test_an_extension_may_take_its_question_back(world: World) -> None:
    """`$/cancel` cancels what the service does, is answered with -32800, and holds nothing else up meanwhile."""
    asked, cancelled = trio.Event(), trio.Event()

    class Waiting(Service):
        async def ask(self, caller: ExtensionCaller, kind: UiKind, params: Mapping[str, Any]) -> Mapping[str, Any]:
            asked.set()
            try:
                await trio.Event().wait()
            finally:
                cancelled.set()
            return {}

    inbound = InboundRequests(world.contexts, Waiting(), world.host)

    async def handle(request: Request) -> Any:
        return await inbound.handle_request(speaking(), 1, request)

    ours, theirs = trio.testing.memory_stream_pair()
    async with ours, theirs, open_connection(ours, ours, handle_request=handle):
        with world.contexts.dispatch("ext", 1, SESSION):
            await theirs.send_all(b'{"id": 7, "method": "ui/request", "params": {"kind": "confirm", "prompt": "?"}}\n')
            await asked.wait()
            await theirs.send_all(b'{"id": 8, "method": "ping"}\n')
            assert {"jsonrpc": "2.0", "id": 8, "result": {}} == json.loads(await theirs.receive_some())
            await theirs.send_all(b'{"method": "$/cancel", "params": {"id": 7}}\n')
            answer = json.loads(await theirs.receive_some())
    assert cancelled.is_set()
    assert (7, -32800) == (answer["id"], answer["error"]["code"])


async def test_few_programs_of_one_extension_run_at_once(world: World) -> None:
    """An extension that starts programs without end has a few of them run; those of another do not wait for it."""
    running: list[str] = []
    go_on = trio.Event()

    class Slow(Service):
        async def run_program(
            self, caller: ExtensionCaller, command: str, args: tuple[str, ...], cwd: str | None
        ) -> ProgramResult:
            running.append(caller.extension)
            await go_on.wait()
            return ProgramResult(stdout="", stderr="", exit_code=0)

    world.inbound = InboundRequests(world.contexts, Slow(), world.host)
    contexts = {name: world.contexts.for_event(name, 1, SESSION).wire for name in ("greedy", "modest")}
    async with trio.open_nursery() as nursery:
        for name in ["greedy"] * (PROGRAMS_AT_ONCE + 3) + ["modest"]:
            nursery.start_soon(world.ask, speaking(name), "exec/run", {"command": "x", "context": contexts[name]})
        await trio.testing.wait_all_tasks_blocked()
        assert [PROGRAMS_AT_ONCE, 1] == [running.count("greedy"), running.count("modest")]
        go_on.set()
    assert PROGRAMS_AT_ONCE + 3 == running.count("greedy")
