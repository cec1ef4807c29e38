"""Commands of extensions beside turns, and what extensions do in sessions."""

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from session_core import limits
from session_core.errors import (
    Conflict,
    ExtensionFailed,
    InternalError,
    InvalidInput,
    NotFound,
    ServiceClosed,
    SessionCoreError,
    Unavailable,
)
from session_core.ids import ClientId, SessionId
from session_core.service.extension_api import extension_client
from session_core.service.service import SessionService
from session_core.testing.checked import open_checked_service
from session_core.testing.scripted import Pause, ScriptedProvider, text
from session_core.vocabulary import commands as c
from session_core.vocabulary import events as ev
from session_core.vocabulary.extensions import Completion, ExtensionDisplay, ExtensionEntry
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import TextPart
from tests.session_core.service._extensions import FakeExtensions
from tests.session_core.service._helpers import actor_held, new_session, of_type, say, scripted

GIT = extension_client("git")
WIDGET = JsonObject({"kind": "widget", "widget_id": "w"})


async def begin(service: SessionService, extensions: FakeExtensions) -> SessionId:
    extensions.service = service
    return await new_session(service)


class Running:
    """A command that runs in the background; `ended` is how it ended."""

    def __init__(self, service: SessionService, session_id: SessionId, name: str = "hang") -> None:
        self._service, self._session_id, self._name = service, session_id, name
        self.ended: str | SessionCoreError | None = None

    async def run(self) -> None:
        try:
            self.ended = (await self._service.run_command(self._session_id, self._name)).content
        except SessionCoreError as error:
            self.ended = error


async def test_a_command_runs_and_answers() -> None:
    """The first extension with a command of that name does it, or the named one, and its words are the reply."""
    extensions = FakeExtensions()
    async with open_checked_service(scripted(extensions=extensions)) as service:
        session_id = await begin(service, extensions)
        first = await service.run_command(session_id, "note", "this")
        second = await service.run_command(session_id, "note", extension="other")
        listed = (await service.list_commands()).commands
        known = (await service.list_extensions()).extensions
        snapshot = await service.load_session(session_id)
        session_list = await service.load_service()

    assert ["done: this", "done: "] == [first.content, second.content]
    assert [("run", "note", "this", "git"), ("run", "note", "", "other")] == extensions.asked
    assert ("git", "note") == (listed[0].extension, listed[0].name)
    assert ["git", "other"] == [each.name for each in known]
    assert 2 == session_list.extensions[0].generation
    assert [JsonObject({"note": "this"}), JsonObject({"note": ""})] == [each.entry for each in snapshot.entries]


async def test_a_command_may_start_a_turn_and_wait_for_it() -> None:
    """The session is not busy with a command: it sends a message, the turn runs, and nothing waits for itself."""
    extensions = FakeExtensions()
    with trio.fail_after(60):
        async with open_checked_service(scripted(text("hello"), extensions=extensions)) as service:
            session_id = await begin(service, extensions)
            reply = await service.run_command(session_id, "talk", "hi")
            (said, _) = (await service.load_session(session_id)).transcript

    assert "hello" == reply.content
    assert ("user", "hi", "git") == (said.role, said.text, said.source)


async def test_a_stop_ends_commands_of_its_session_only() -> None:
    """A stop cancels what extensions do for this session, says so, and leaves the other session's alone."""
    extensions = FakeExtensions()
    async with open_checked_service(scripted(extensions=extensions)) as service, trio.open_nursery() as nursery:
        mine, other = await begin(service, extensions), await new_session(service)
        running, left = Running(service, mine), Running(service, other)
        nursery.start_soon(running.run)
        nursery.start_soon(left.run)
        await wait_all_tasks_blocked()
        assert (await service.load_session(mine)).activity.is_at_rest
        outcome = await service.request_stop(mine)
        again = await service.request_stop(mine)
        extensions.release.set()

    assert isinstance(running.ended, Conflict)
    assert "the command /git.hang was stopped before it was done" == running.ended.message
    assert ("stopped", ["command"]) == (outcome.result, [each.kind for each in outcome.ended])
    assert "nothing_running" == again.result
    assert ["hang"] == extensions.cancelled
    assert "done: " == left.ended


async def test_a_stop_overtakes_a_command_that_still_waits() -> None:
    """A command that was sent before a stop and not yet begun does not begin."""
    extensions = FakeExtensions()
    async with open_checked_service(scripted(extensions=extensions)) as service, trio.open_nursery() as nursery:
        session_id = await begin(service, extensions)
        late = Running(service, session_id)
        await wait_all_tasks_blocked()
        with actor_held(service):
            nursery.start_soon(late.run)
            await wait_all_tasks_blocked()
            outcome = await service.request_stop(session_id)

    assert ("nothing_running", 1) == (outcome.result, outcome.withheld)
    assert isinstance(late.ended, Conflict)
    assert [] == extensions.asked


async def test_a_deleted_session_takes_its_commands_along() -> None:
    """Deleting a session ends what extensions do for it."""
    extensions = FakeExtensions()
    async with open_checked_service(scripted(extensions=extensions)) as service, trio.open_nursery() as nursery:
        session_id = await begin(service, extensions)
        running = Running(service, session_id)
        nursery.start_soon(running.run)
        await wait_all_tasks_blocked()
        await service.delete_session(session_id)

    assert isinstance(running.ended, Conflict)


async def test_the_end_of_the_service_ends_commands() -> None:
    """Whoever waits for a command when the service closes is told so."""
    extensions = FakeExtensions()
    async with trio.open_nursery() as nursery:
        async with open_checked_service(scripted(extensions=extensions)) as service:
            running = Running(service, await begin(service, extensions))
            nursery.start_soon(running.run)
            await wait_all_tasks_blocked()
        nursery.cancel_scope.deadline = trio.current_time() + 60

    assert isinstance(running.ended, ServiceClosed)


async def test_whoever_asked_may_leave() -> None:
    """A caller that goes away leaves the command running; sending it again with its key gives the one reply."""
    extensions = FakeExtensions()
    async with open_checked_service(scripted(extensions=extensions)) as service:
        session_id = await begin(service, extensions)
        hang = c.RunCommand(session_id=session_id, name="hang")
        with trio.CancelScope() as left:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(lambda: service.execute(hang, idempotency_key="k"))
                await wait_all_tasks_blocked()
                left.cancel(reason="the frontend is closed")
        extensions.release.set()
        reply = await service.execute(hang, idempotency_key="k")

    assert [] == extensions.cancelled
    assert ("done: ", 1) == (reply.content, len(extensions.asked))


@pytest.mark.parametrize(
    ("name", "extension", "error", "field"),
    [
        ("fail", None, ExtensionFailed, None),
        ("crash", None, InternalError, None),
        ("nothing", None, NotFound, "name"),
        ("hang", "other", NotFound, "name"),
    ],
)
async def test_commands_that_fail(
    name: str, extension: str | None, error: type[SessionCoreError], field: str | None
) -> None:
    """A failing extension, a bug and a command that does not exist each give one typed error, and all goes on."""
    extensions = FakeExtensions()
    async with open_checked_service(scripted(extensions=extensions)) as service:
        session_id = await begin(service, extensions)
        with pytest.raises(error) as caught:
            await service.run_command(session_id, name, extension=extension)
        assert field == caught.value.field
        assert "done: x" == (await service.run_command(session_id, "note", "x")).content


async def test_commands_at_once_are_bounded() -> None:
    """One command too many in a session is refused; another session is not concerned."""
    extensions = FakeExtensions()
    async with open_checked_service(scripted(extensions=extensions)) as service, trio.open_nursery() as nursery:
        session_id, other = await begin(service, extensions), await new_session(service)
        for _ in range(limits.MAX_COMMANDS_AT_ONCE):
            nursery.start_soon(Running(service, session_id).run)
        await wait_all_tasks_blocked()
        with pytest.raises(Conflict):
            await service.run_command(session_id, "note")
        assert "done: " == (await service.run_command(other, "note")).content
        extensions.release.set()


async def test_completions() -> None:
    """Completions come from the extension; one that fails, and a command that does not exist, have none."""
    extensions = FakeExtensions()
    async with open_checked_service(scripted(extensions=extensions)) as service:
        session_id = await begin(service, extensions)
        found = [
            (await service.complete_command(session_id, name, "fi")).completions for name in ("note", "fail", "nothing")
        ]

    assert [(Completion(value="fi..."),), (), ()] == found


async def test_extensions_are_reloaded_and_switched() -> None:
    """Reload, enable, disable and login reach the extension that is meant; what is no name is refused at once."""
    extensions = FakeExtensions()
    async with open_checked_service(scripted(extensions=extensions)) as service:
        session_id = await begin(service, extensions)
        for call in (service.reload_extension, service.enable_extension, service.disable_extension):
            await call("git")
            with pytest.raises(InvalidInput):
                await call("")
        await service.login_to_provider(session_id, "house")
        with pytest.raises(NotFound) as caught:
            await service.login_to_provider(session_id, "nobody")

    assert "provider" == caught.value.field
    assert [("reload", "git"), ("enable", "git"), ("disable", "git"), ("login", "house")] == extensions.asked


async def test_commands_of_an_extension_that_is_down_are_not_offered() -> None:
    """What is not running offers nothing, and running one of its commands is refused at once."""
    extensions = FakeExtensions()
    async with open_checked_service(scripted(extensions=extensions)) as service:
        session_id = await begin(service, extensions)
        extensions.infos = [attrs.evolve(each, state="failed") for each in extensions.infos]
        with pytest.raises(NotFound):
            await service.run_command(session_id, "note")
        assert () == (await service.list_commands()).commands


async def test_a_service_without_extensions() -> None:
    """Nothing is listed, and what would need an extension is unavailable."""
    async with open_checked_service(scripted()) as service:
        session_id = await new_session(service)
        assert ((), ()) == ((await service.list_extensions()).extensions, (await service.list_commands()).commands)
        commands: tuple[c.Command[object], ...] = (
            c.RunCommand(session_id=session_id, name="x"),
            c.CompleteCommand(session_id=session_id, name="x"),
            c.PressWidgetKey(session_id=session_id, extension="e", widget_id="w", key="k"),
            c.LoginToProvider(session_id=session_id, provider="x"),
            c.ReloadExtension(name="x"),
            c.EnableExtension(name="x"),
            c.DisableExtension(name="x"),
        )
        for command in commands:
            with pytest.raises(Unavailable):
                await service.execute(command)


# --- what extensions do -----------------------------------------------------------------------------------------------


async def test_what_extensions_show_and_keep() -> None:
    """Displays, entries and notices name the extension; a client under another name cannot pass for one."""
    async with open_checked_service(scripted(now=lambda: 7)) as service:
        session_id = await new_session(service)
        entry = JsonObject({"tag": "t"})
        for client in (GIT, ClientId("git")):
            await service.execute(c.ShowDisplay(session_id=session_id, status="main"), client_id=client)
            await service.execute(c.AppendEntry(session_id=session_id, entry=entry), client_id=client)
            await service.execute(c.ShowNotice(session_id=session_id, message="hm", level="warn"), client_id=client)
        snapshot = await service.load_session(session_id)
        notices = of_type(service, session_id, ev.NoticeShown)
        for taken in ("extension:git", "extension:"):
            with pytest.raises(Conflict), service.attach(taken):
                pass

    names = ("git", "client:git")
    assert tuple(ExtensionDisplay(extension=name, status="main") for name in names) == snapshot.displays
    assert tuple(ExtensionEntry(extension=name, entry=entry, at=7) for name in names) == snapshot.entries
    assert [ev.NoticeShown(extension=name, message="hm", level="warn") for name in names] == notices


async def test_keys_go_to_the_widget_that_is_shown() -> None:
    """A key reaches the extension whose widget is shown in the session, and nobody else."""
    extensions = FakeExtensions()
    async with open_checked_service(scripted(extensions=extensions)) as service:
        session_id = await begin(service, extensions)
        with pytest.raises(NotFound) as caught:
            await service.press_widget_key(session_id, "git", "w", "up")
        await service.execute(c.ShowDisplay(session_id=session_id, widget=WIDGET), client_id=GIT)
        await service.press_widget_key(session_id, "git", "w", "up")

    assert "extension" == caught.value.field
    assert [("press", "git", "w", "up")] == extensions.asked


@pytest.mark.parametrize(
    ("command", "field"),
    [
        (c.ShowDisplay(session_id=SessionId("?"), status="x" * (limits.MAX_SUMMARY_CHARS + 1)), "status"),
        (c.ShowDisplay(session_id=SessionId("?"), title="\ud800"), "title"),
        (c.ShowDisplay(session_id=SessionId("?"), widget=JsonObject({"x": "x" * limits.MAX_WIDGET_BYTES})), "widget"),
        (c.AppendEntry(session_id=SessionId("?"), entry=JsonObject({"x": "x" * limits.MAX_ENTRY_BYTES})), "entry"),
        (c.AppendEntry(session_id=SessionId("?"), entry=JsonObject({"x": float("nan")})), "entry"),
        (c.ShowNotice(session_id=SessionId("?"), message=" "), "message"),
        (c.PostMessage(session_id=SessionId("?"), text=""), "text"),
        (c.RunCommand(session_id=SessionId("?"), name="n", arguments="\ud800"), "arguments"),
    ],
)
async def test_what_cannot_be_shown_is_refused(command: c.Command[object], field: str) -> None:
    """Too long, empty where something must be, or not to be encoded: a typed error names the field."""
    async with open_checked_service(scripted()) as service:
        with pytest.raises(InvalidInput) as caught:
            await service.execute(command)
    assert field == caught.value.field


async def test_a_dialog_says_who_asks() -> None:
    """A dialog carries its default and the extension that asks, which cannot pass for another one."""
    async with open_checked_service(scripted()) as service, trio.open_nursery() as nursery:
        session_id = await new_session(service)
        dialog = c.OpenDialog(session_id=session_id, kind="input", title="?", default="main", extension="bank")
        nursery.start_soon(lambda: service.execute(dialog, client_id=GIT))
        nursery.start_soon(lambda: service.execute(dialog))
        await wait_all_tasks_blocked()
        opened = (await service.load_session(session_id)).dialogs
        await service.request_stop(session_id)

    assert {("main", "git"), ("main", "bank")} == {(each.default, each.extension) for each in opened}


# --- messages that extensions post ------------------------------------------------------------------------------------


async def test_a_message_is_posted_at_rest() -> None:
    """At rest it joins the conversation at once, as whose words it says, and no turn begins."""
    async with open_checked_service(scripted()) as service:
        session_id = await new_session(service)
        reply = await service.execute(c.PostMessage(session_id=session_id, text="by the way"), client_id=GIT)
        snapshot = await service.load_session(session_id)

    (message,) = snapshot.transcript
    assert ("added", message.message_id) == (reply.disposition, reply.message_id)
    assert ("assistant", "by the way", "git", None) == (message.role, message.text, message.source, message.turn_id)
    assert ("idle", None) == (snapshot.activity.name, snapshot.last_outcome)


async def test_a_message_posted_in_a_turn_waits_for_its_end(autojump_clock: MockClock) -> None:
    """In a turn it waits, does not make the turn go on, and is not taken for its answer."""
    provider = ScriptedProvider((Pause("go"), *text("the answer")))
    async with open_checked_service(scripted(provider)) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "hello")
        await wait_all_tasks_blocked()
        reply = await service.execute(c.PostMessage(session_id=session_id, text="a note"), client_id=GIT)
        provider.release("go")
        outcome = (await service.wait_for_turn(session_id)).outcome
        snapshot = await service.load_session(session_id)

    assert "queued" == reply.disposition
    assert ["hello", "the answer", "a note"] == [each.text for each in snapshot.transcript]
    assert ("the answer", 1, False) == (outcome.final_text, outcome.steps, outcome.steered)
    assert ((), 1) == (snapshot.queue, len(provider.requests))


async def test_a_message_posted_in_a_turn_that_is_stopped(autojump_clock: MockClock) -> None:
    """It joins the conversation after the stop; what people have sent keeps waiting, and nothing starts."""
    provider = ScriptedProvider(Pause("never"))
    async with open_checked_service(scripted(provider)) as service:
        session_id = await new_session(service)
        await service.send_user_message(session_id, "hello")
        await wait_all_tasks_blocked()
        await service.execute(c.PostMessage(session_id=session_id, text="a note"), client_id=GIT)
        await service.send_user_message(session_id, "and then?")
        await service.request_stop(session_id)
        snapshot = await service.load_session(session_id)
        resumed = await service.resume_session(session_id)
        outcome = (await service.wait_for_turn(session_id)).outcome

    assert ["hello", "a note"] == [each.text for each in snapshot.transcript]
    assert ([(TextPart(text="and then?"),)], "stopped") == (
        [item.parts for item in snapshot.queue],
        snapshot.activity.name,
    )
    assert resumed.started
    assert "completed" == outcome.status


async def test_a_message_posted_while_a_summary_is_made(autojump_clock: MockClock) -> None:
    """It comes after the summary, and no turn begins for it."""
    release = trio.Event()

    async def compactor(_: object) -> str:
        await release.wait()
        return "short"

    async with open_checked_service(scripted(text("hi"), compactor=compactor)) as service:
        session_id = await new_session(service)
        await say(service, session_id, "hello")
        await service.compact_context(session_id)
        await wait_all_tasks_blocked()
        posted = c.PostMessage(session_id=session_id, text="a note", role="user")
        reply = await service.execute(posted, client_id=GIT)
        release.set()
        await wait_all_tasks_blocked()
        snapshot = await service.load_session(session_id)

    assert "queued" == reply.disposition
    assert ["summary", "user"] == [each.role for each in snapshot.transcript[-2:]]
    assert "a note" == snapshot.transcript[-1].text
    assert ((), "idle") == (snapshot.queue, snapshot.activity.name)
