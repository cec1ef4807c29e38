"""Tools of extensions: calls, progress, bounds, and the search for those that are not shown at once."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from session_core import limits
from session_core.ids import CallId, SessionId
from session_core.rpc.failures import RpcFailed
from session_core.rpc.messages import Notification, Request
from session_core.sep.host.calls.contexts import Contexts
from session_core.sep.host.extension import HostedExtension
from session_core.sep.host.tools.tool_search import TOOL_SEARCH, search
from session_core.sep.host.tools.tools import ExtensionTool, ExtensionToolSource
from session_core.testing.cancel_sweep import SweepRun, cancel_sweep
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import text, tool_call
from session_core.tools.base import ToolContext, ToolFailed, ToolOutput
from session_core.vocabulary import events as ev
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import ToolProgress
from session_core.vocabulary.sessions import SandboxPolicy
from session_core.vocabulary.tools import ToolSpec
from tests.session_core.sep import _children
from tests.session_core.sep._gathered import Member, gathered
from tests.session_core.service._helpers import new_session, of_type, say, scripted

SESSION = SessionId("ses_1")
SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def registered(name: str, *, description: str = "", deferred: bool = False, parameters: Any = None) -> dict[str, Any]:
    return {
        "name": name,
        "description": description,
        "parameters": parameters or {"type": "object"},
        "deferred": deferred,
    }


def context(show: Callable[[ToolProgress], None] = lambda _progress: None) -> ToolContext:
    return ToolContext(
        call_id=CallId("call_1"),
        cwd="/",
        sandbox=SandboxPolicy(),
        report=lambda _text: None,
        session_id=SESSION,
        progress=show,
    )


class World:
    """A source over some extensions, which takes their `tool/update` as a host does."""

    def __init__(self) -> None:
        self.extensions: list[HostedExtension] = []
        self.contexts = Contexts()
        self.source = ExtensionToolSource(lambda _: self.extensions, self.contexts)

    def take(self, extension: HostedExtension, notification: Notification) -> None:
        params = notification.params
        news = {key: params.get(key) for key in ("message", "progress", "details")}
        self.source.calls.update(extension.name, params["call_id"], **news)

    def tool(self, name: str = "greeter.greet") -> ExtensionTool:
        found = next(tool for tool in self.source.tools(SESSION) if tool.spec.name == name)
        assert isinstance(found, ExtensionTool)
        return found

    def names(self, session_id: SessionId = SESSION) -> list[str]:
        return [tool.spec.name for tool in self.source.tools(session_id)]


def greeter(answer: Any, **registration: Any) -> Member:
    return Member({"tools": [registered("greet", **registration)], "hooks": ["context"]}, answer)


async def run_once(answer: Any) -> ToolOutput:
    world = World()
    async with gathered(greeter=greeter(answer)) as world.extensions:
        try:
            return await world.tool().run(JsonObject(), context())
        except ToolFailed as error:
            failure = error  # raised where no nursery wraps it
    raise failure


# --- calls ------------------------------------------------------------------------------------------------------------


async def test_a_call_goes_to_the_extension_and_its_result_comes_back(autojump_clock: MockClock) -> None:
    """The bare name and plain arguments go out with a fresh id and a context that is good for as long as it runs."""
    world, seen = World(), []

    async def answer(request: Request) -> Any:
        await trio.lowlevel.checkpoint()
        seen.append(world.contexts.require_dispatch("greeter", 1, request.params["context"]).session_id)
        return {"content": "hello", "details": {"n": [1, {"x": None}]}, "more": 1}

    member = greeter(answer, parameters=SCHEMA, description="Greets.")
    async with gathered(greeter=member) as world.extensions:
        tool = world.tool()
        assert tool.spec.description == "Greets."
        assert tool.effects == {"read", "write", "execute", "network"}
        output = await tool.run(JsonObject({"name": "Ada", "tags": ("a",)}), context())
        await tool.run(JsonObject({"name": "Ada"}), context())
    assert output == ToolOutput(text="hello", details=JsonObject({"n": (1, {"x": None})}))
    first, second = (request.params for request in member.asked)
    assert (first["tool"], first["arguments"]) == ("greet", {"name": "Ada", "tags": ["a"]})
    assert first["call_id"] not in {second["call_id"], "call_1"}
    assert seen == [SESSION, SESSION]
    assert world.contexts.find("greeter", 1, first["context"]) is None


async def test_a_failed_call_keeps_its_words_and_its_details(autojump_clock: MockClock) -> None:
    """What the extension says of its failure goes to the model, and the details to frontends."""
    with pytest.raises(ToolFailed, match=r"^no such file$") as failed:
        await run_once({"content": "no such file", "is_error": True, "details": [404]})
    assert failed.value.details == JsonObject({"value": (404,)})


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        ("hello", "greeter.greet answered with text where an object is needed"),
        ({}, "greeter.greet answered with nothing as its content, which must be text"),
        ({"content": ["x"]}, "greeter.greet answered with a list as its content, which must be text"),
        ({"content": "x", "is_error": "no"}, "greeter.greet did not say whether it failed, but text"),
        ({"content": "", "is_error": True}, "greeter.greet failed and did not say why"),
    ],
)
async def test_results_that_cannot_be_read_are_failures(answer: Any, sentence: str, autojump_clock: MockClock) -> None:
    """The model is told what is wrong with the answer of a tool, and nothing raises."""
    with pytest.raises(ToolFailed) as failed:
        await run_once(answer)
    assert str(failed.value) == sentence


async def test_details_that_are_too_large_are_left_out(autojump_clock: MockClock) -> None:
    """The result counts without them, and the author of the extension finds a line in the log."""
    world, member = World(), greeter({"content": "x", "details": {"x": "y" * limits.MAX_SHOWN_CHARS}})
    async with gathered(greeter=member) as world.extensions:
        assert await world.tool().run(JsonObject(), context()) == ToolOutput(text="x")
        assert "details of a result of greet are lost" in member.notes[-1]


async def test_errors_of_the_extension_are_failures_of_the_tool(autojump_clock: MockClock) -> None:
    """An error, a crash and an extension that does not run are told to the model in one sentence."""

    async def fails(_: Request) -> Any:
        await trio.lowlevel.checkpoint()
        raise RpcFailed(-32004, "not\x00 enabled")

    with pytest.raises(ToolFailed, match=r"^not enabled$"):
        await run_once(fails)

    async def crashes(_: Request) -> Any:
        member.crash()
        await trio.sleep_forever()

    world, member = World(), greeter(crashes)
    async with gathered(greeter=member) as world.extensions:
        tool = world.tool()
        with pytest.raises(ToolFailed, match="connection closed"):
            await tool.run(JsonObject(), context())
        await wait_all_tasks_blocked()
        with pytest.raises(ToolFailed, match="The extension greeter is not running: it fell over"):
            await tool.run(JsonObject(), context())
        assert world.names() == []


async def test_cancelling_a_call_cancels_it_in_the_extension(autojump_clock: MockClock) -> None:
    """The extension is told that nobody waits, and goes on with the next call."""
    cancelled: list[bool] = []

    async def hang(_: Request) -> Any:
        try:
            await trio.sleep_forever()
        finally:
            cancelled.append(True)

    world, member = World(), greeter(hang)
    async with gathered(greeter=member) as world.extensions:
        with trio.move_on_after(5) as scope:
            await world.tool().run(JsonObject(), context())
        await wait_all_tasks_blocked()
        assert (scope.cancelled_caught, cancelled) == (True, [True])
        member.answer = {"content": "again"}
        assert await world.tool().run(JsonObject(), context()) == ToolOutput(text="again")
    assert len(world.source.calls) == 0


async def test_cancelling_at_any_step_leaves_nothing_open(autojump_clock: MockClock) -> None:
    """Wherever a call is cancelled, its token and its place are gone, and the extension answers the next one."""

    @asynccontextmanager
    async def prepare() -> AsyncGenerator[World]:
        world = World()

        async def answer(request: Request) -> Any:
            params = request.params
            world.source.calls.update("greeter", params["call_id"], message="on", progress=0.5, details=None)
            await trio.sleep(1)
            return {"content": "hello"}

        async with gathered(greeter=greeter(answer)) as world.extensions:
            yield world

    async def operation(world: World) -> None:
        await world.tool().run(JsonObject(), context())

    async def check(world: World, _: SweepRun) -> None:
        assert len(world.source.calls) == 0
        assert world.contexts.sessions_of("greeter", 1) == ()
        assert (await world.tool().run(JsonObject(), context())).text == "hello"

    assert await cancel_sweep(prepare, operation, check) >= 2


# --- progress ---------------------------------------------------------------------------------------------------------


async def test_progress_is_shown_now_and_then_and_the_last_of_it_always(autojump_clock: MockClock) -> None:
    """However often an extension tells its progress, it is shown at intervals; nothing that was left is forgotten."""
    world, shown = World(), list[tuple[float, ToolProgress]]()

    async def answer(request: Request) -> Any:
        theirs = member.processes.all[0].theirs
        for number in range(1_000):
            await theirs.notify("tool/update", {"call_id": request.params["call_id"], "progress": number / 1_000})
        await trio.sleep(1)
        await theirs.notify("tool/update", {"call_id": request.params["call_id"], "message": "nearly", "details": [1]})
        await theirs.notify("tool/update", {"call_id": request.params["call_id"], "progress": 1})
        return {"content": "done"}

    world, member = World(), greeter(answer)
    async with gathered(world.take, greeter=member) as world.extensions:
        began = trio.current_time()
        await world.tool().run(
            JsonObject(), context(lambda progress: shown.append((trio.current_time() - began, progress)))
        )
    assert len(shown) < 5
    times, told = [at for at, _ in shown], [progress for _, progress in shown]
    assert all(later - earlier >= 0.05 for earlier, later in pairwise(times[:-1]))
    assert 0.999 in {each.progress for each in told}
    assert told[-1].progress == 1
    assert ("nearly", (1,)) in {(each.message, each.details) for each in told}


async def test_nobody_tells_the_progress_of_calls_that_are_not_its_own(autojump_clock: MockClock) -> None:
    """Progress of an unknown call, of one that is over, and of another extension's is passed over."""
    world, shown = World(), list[ToolProgress]()

    async def answer(request: Request) -> Any:
        await trio.lowlevel.checkpoint()
        update = world.source.calls.update
        update("other", request.params["call_id"], message="lie", progress=0.9, details=None)
        update("greeter", "call_1", message="lie", progress=None, details=None)
        update("greeter", request.params["call_id"], message="truth", progress=float("nan"), details=None)
        return {"content": "done"}

    member = greeter(answer)
    async with gathered(greeter=member) as world.extensions:
        await world.tool().run(JsonObject(), context(shown.append))
    world.source.calls.update("greeter", member.asked[0].params["call_id"], message="late", progress=1, details=None)
    assert shown == [ToolProgress(message="truth")]


async def test_a_silent_call_is_given_up_and_one_that_speaks_goes_on(autojump_clock: MockClock) -> None:
    """A call may be silent for a while; each word begins that anew, up to a bound."""
    world = World()

    async def answer(request: Request) -> Any:
        for _ in range(request.params["arguments"]["words"]):
            await trio.sleep(100)
            world.source.calls.update("greeter", request.params["call_id"], message="on", progress=None, details=None)
        await trio.sleep_forever()

    async with gathered(greeter=greeter(answer)) as world.extensions:
        for words, seconds, why in (
            (0, 120, "no word of it for 120 s"),
            (3, 420, "no word of it for 120 s"),
            (10_000, limits.EXTENSION_TOOL_TOTAL_MS / 1000, "it took longer than 3600 s"),
        ):
            began = trio.current_time()
            with pytest.raises(ToolFailed, match=f"given up: {why}"):
                await world.tool().run(JsonObject({"words": words}), context())
            assert trio.current_time() - began == pytest.approx(seconds)


# --- which tools there are --------------------------------------------------------------------------------------------


def searchable() -> dict[str, Member]:
    mail = [
        registered("send_mail", description="Send a letter.\nMore about it.", deferred=True),
        registered("list", description="List what is in the mailbox.", deferred=True),
        registered("open"),
    ]
    return {"post": Member({"tools": mail}), "calc": Member({"tools": [registered("add", deferred=True)]})}


async def test_deferred_tools_are_found_by_searching_for_them(autojump_clock: MockClock) -> None:
    """A session has a deferred tool once it has searched for it; other sessions do not, and all can be found again."""
    world, other = World(), SessionId("ses_2")
    async with gathered(**searchable()) as world.extensions:
        assert world.names() == ["post.open", TOOL_SEARCH]
        finder = world.source.tools(SESSION)[-1]
        assert "There are 3 that" in finder.spec.description
        assert "calc, post" in finder.spec.description
        output = await finder.run(JsonObject({"query": "send a letter", "limit": 1}), context())
        assert output.text == "These are among your tools from now on:\n- post.send_mail: Send a letter."
        assert output.details == JsonObject({"tools": ("post.send_mail",)})
        assert world.names() == ["post.send_mail", "post.open", TOOL_SEARCH]
        assert world.names(other) == ["post.open", TOOL_SEARCH]
        nothing = await finder.run(JsonObject({"query": "weather"}), context())
        assert nothing.text == "No tool fits. There are: post.send_mail, post.list, calc.add."
        await finder.run(JsonObject({"query": "calc.add post.list"}), context())
        assert world.names() == ["post.send_mail", "post.list", "post.open", "calc.add"]
        world.source.forget(SESSION)
        assert world.names() == ["post.open", TOOL_SEARCH]


@pytest.mark.parametrize("arguments", [{}, {"query": " "}, {"query": 1}, {"query": "x", "limit": 0}, {"q": "x"}])
async def test_searches_that_ask_for_nothing_are_refused(arguments: Any, autojump_clock: MockClock) -> None:
    """A search needs words, and a sensible limit."""
    world = World()
    async with gathered(**searchable()) as world.extensions:
        with pytest.raises(ToolFailed):
            await world.source.tools(SESSION)[-1].run(JsonObject(arguments), context())


def test_names_come_before_descriptions() -> None:
    """A tool that is named in full is the first, then one whose name fits, then one that is described so."""
    specs = [
        ToolSpec(name=name, description=description, parameters=JsonObject())
        for name, description in (("a.z", "reads mail"), ("b.mail", ""), ("c.x", "mail and mails"), ("d.y", "other"))
    ]
    assert [spec.name for spec in search(specs, "mail")] == ["b.mail", "a.z", "c.x"]
    assert search(specs, "please use `d.y` for mail")[0].name == "d.y"
    assert search(specs, "?") == []


@given(st.text(max_size=30), st.lists(st.tuples(st.text(max_size=9), st.text(max_size=30)), max_size=5))
def test_any_search_finds_each_tool_at_most_once(query: str, tools: list[tuple[str, str]]) -> None:
    """Whatever is asked, what is found is among what there is."""
    specs = [ToolSpec(name=f"x.{n}", description=d, parameters=JsonObject()) for n, d in dict(tools).items()]
    found = search(specs, query)
    assert len({spec.name for spec in found}) == len(found) <= len(specs)


async def test_tools_stay_while_their_extension_is_on_its_way_back(autojump_clock: MockClock) -> None:
    """A restart takes no tools away; one that has failed has none."""
    world, member = World(), greeter({})
    member.backoffs = (1,)
    async with gathered(greeter=member) as world.extensions:
        for state, names in (("restarting", ["greeter.greet"]), ("failed", [])):
            member.crash()
            await wait_all_tasks_blocked()
            assert (world.extensions[0].state, world.names()) == (state, names)
            await trio.sleep(2)


# --- in a service, and for real ---------------------------------------------------------------------------------------


async def test_a_model_searches_and_calls_in_a_real_turn(autojump_clock: MockClock) -> None:
    """A model finds a deferred tool, calls it in the next step, and its progress and details reach the session."""
    world = World()

    async def answer(request: Request) -> Any:
        await trio.lowlevel.checkpoint()
        world.source.calls.update("post", request.params["call_id"], message="on", progress=0.5, details=None)
        return {"content": "sent", "is_error": request.params["arguments"].get("bad", False), "details": {"id": 7}}

    members = searchable()
    members["post"].answer = answer
    script = [
        tool_call(TOOL_SEARCH, {"query": "send_mail"}),
        tool_call("post.send_mail", {}),
        tool_call("post.send_mail", {"bad": True}),
        text("done"),
    ]
    async with gathered(**members) as world.extensions:
        config = scripted(*script, tool_sources=(world.source,), permission_mode="full")
        async with open_checked_service(config) as service:
            session_id = await new_session(service)
            assert (await say(service, session_id)).status == "completed"
            results = [event.result for event in of_type(service, session_id, ev.ToolCallFinished)]
            progress = of_type(service, session_id, ev.ToolProgressed)
    assert [(each.name, each.status) for each in results] == [
        (TOOL_SEARCH, "success"),
        ("post.send_mail", "success"),
        ("post.send_mail", "error"),
    ]
    assert [each.details for each in results[1:]] == [JsonObject({"id": 7})] * 2
    assert [(each.message, each.progress) for each in progress] == [("on", 0.5)] * 2


async def test_a_real_process_runs_a_tool(tmp_path: Path) -> None:
    """A plain program's tool is called through its pipes."""
    async with _children.running(_children.script(tmp_path, "plain")) as (extension, _):
        source = ExtensionToolSource(lambda _: [extension], Contexts())
        (tool,) = source.tools(SESSION)
        assert tool.spec.name == "tried.echo"
        assert await tool.run(JsonObject({"text": "hé"}), context()) == ToolOutput(text="hé")
