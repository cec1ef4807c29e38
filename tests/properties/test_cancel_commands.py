"""Law 9 for commands: a caller cancelled at any of its steps leaves the command done or not done, never half done."""

import re
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from session_core.ids import ClientId, MessageId, QueueItemId, RequestId, SessionId, TurnId, WakeupId
from session_core.service.extension_api import extension_client
from session_core.service.service import SessionService, open_session_service
from session_core.testing.cancel_sweep import SweepRun, cancel_sweep
from session_core.testing.checked import WitnessStore, check_laws
from session_core.testing.scripted import Pause, ScriptedProvider, ScriptedTool, text, tool_call
from session_core.vocabulary import commands as c
from session_core.vocabulary.commands import COMMANDS, Command
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.protocols import NewMessage
from session_core.vocabulary.sessions import SandboxPolicy, TurnLimits
from session_core.wire.codec import encode
from tests._mostly_slow import mostly_slow
from tests.properties._world import world_config
from tests.session_core.service._extensions import FakeExtensions

MINUTE = 60_000


class SlowWitness(WitnessStore):
    """Is never ahead of the service: every change is waited for, so that a caller can be cancelled after it."""

    durable_seq = 0

    def __setattr__(self, name: str, given: object) -> None:
        if name != "durable_seq":
            super().__setattr__(name, given)

    async def wait_durable(self, seq: int) -> None:
        await trio.lowlevel.checkpoint()
        await trio.lowlevel.checkpoint()


@attrs.frozen(kw_only=True)
class World:
    """A service with a session in each situation."""

    service: SessionService
    witness: WitnessStore
    idle: SessionId
    busy: SessionId
    asking: SessionId
    stopped: SessionId
    archived: SessionId
    said: MessageId
    turn: TurnId
    items: tuple[QueueItemId, ...]
    approval: RequestId
    dialog: RequestId
    wakeup: WakeupId


@asynccontextmanager
async def open_world() -> AsyncGenerator[World]:
    """Make the world, keep the laws: everything that waits in it comes to rest within ten minutes."""
    provider = ScriptedProvider(
        text("one"), text("two"), tool_call("change"), Pause("never"), (Pause("soon"), *text("x"))
    )
    witness, extensions = SlowWitness(), FakeExtensions()
    config = world_config(provider=provider, approval_timeout_ms=MINUTE)
    config = attrs.evolve(
        config,
        tools=(*config.tools, ScriptedTool("bash", effects=("execute",))),
        store=witness,
        extensions=extensions,
    )
    async with open_session_service(config) as service:
        witness.core = service._core
        extensions.service = service
        async with trio.open_nursery() as nursery:
            world = await _furnish(service, witness, nursery)
            nursery.start_soon(_release_later, provider)
            yield world
            nursery.cancel_scope.cancel()
    check_laws(witness)


async def _release_later(provider: ScriptedProvider) -> None:
    await trio.sleep(1)
    provider.release("soon")


async def _furnish(service: SessionService, witness: WitnessStore, nursery: trio.Nursery) -> World:
    names = ("idle", "asking", "stopped", "busy", "archived")
    idle, asking, stopped, busy, archived = [(await service.create_session(name=name)).session_id for name in names]
    for session in (idle, idle):
        await service.send_user_message(session, "hello")
        await service.wait_for_turn(session)
    await service.send_user_message(asking, "hello")
    await wait_all_tasks_blocked()
    await service.send_user_message(stopped, "hello")
    await wait_all_tasks_blocked()
    await service.request_stop(stopped)
    started = await service.send_user_message(busy, "hello")
    await wait_all_tasks_blocked()
    queued = [await service.send_user_message(idle, word, deliver_as="next_turn") for word in ("first", "second")]
    await service.archive_session(archived)
    wakeup = await service.schedule_wakeup(idle, 60 * MINUTE, "wake up")
    widget = c.ShowDisplay(session_id=idle, widget=JsonObject({"kind": "widget"}))
    await service.execute(widget, client_id=extension_client("git"))
    nursery.start_soon(service.execute, c.OpenDialog(session_id=asking, kind="input", title="?", timeout_ms=2 * MINUTE))
    await wait_all_tasks_blocked()
    waiting = await service.load_session(asking)
    resting = await service.load_session(idle)
    assert started.turn_id is not None
    return World(
        service=service,
        witness=witness,
        idle=idle,
        busy=busy,
        asking=asking,
        stopped=stopped,
        archived=archived,
        said=resting.messages[0].message_id,
        turn=started.turn_id,
        items=tuple(reply.queue_item_id for reply in queued if reply.queue_item_id is not None),
        approval=waiting.approvals[0].request_id,
        dialog=waiting.dialogs[0].request_id,
        wakeup=wakeup.wakeup_id,
    )


CASES: dict[str, Callable[[World], Command[Any]]] = {
    "CreateSession": lambda w: c.CreateSession(name="new"),
    "ListSessions": lambda w: c.ListSessions(),
    "LoadService": lambda w: c.LoadService(),
    "LoadMessages": lambda w: c.LoadMessages(session_id=w.idle),
    "SearchMessages": lambda w: c.SearchMessages(text="hello"),
    "ListModels": lambda w: c.ListModels(session_id=w.idle),
    "LoadSession": lambda w: c.LoadSession(session_id=w.idle),
    "RenameSession": lambda w: c.RenameSession(session_id=w.idle, name="other"),
    "ArchiveSession": lambda w: c.ArchiveSession(session_id=w.idle),
    "RestoreSession": lambda w: c.RestoreSession(session_id=w.archived),
    "DeleteSession": lambda w: c.DeleteSession(session_id=w.idle),
    "DeleteSession, busy": lambda w: c.DeleteSession(session_id=w.asking),
    "ForkSession": lambda w: c.ForkSession(session_id=w.idle),
    "SendUserMessage": lambda w: c.SendUserMessage(session_id=w.idle, text="new"),
    "SendUserMessage, busy": lambda w: c.SendUserMessage(session_id=w.busy, text="new", deliver_as="steer"),
    "StartTurnIfIdle": lambda w: c.StartTurnIfIdle(session_id=w.idle, text="new"),
    "RunShellLine": lambda w: c.RunShellLine(session_id=w.idle, line="ls"),
    "EditMessage": lambda w: c.EditMessage(session_id=w.idle, message_id=w.said, text="differently"),
    "SwitchBranch": lambda w: c.SwitchBranch(session_id=w.idle, message_id=w.said),
    "ResumeSession": lambda w: c.ResumeSession(session_id=w.stopped),
    "DismissOutcome": lambda w: c.DismissOutcome(session_id=w.stopped),
    "WaitForTurn": lambda w: c.WaitForTurn(session_id=w.busy, turn_id=w.turn),
    "ClearContext": lambda w: c.ClearContext(session_id=w.idle),
    "CompactContext": lambda w: c.CompactContext(session_id=w.idle),
    "RestoreToMessage": lambda w: c.RestoreToMessage(session_id=w.idle),
    "ListQueue": lambda w: c.ListQueue(session_id=w.idle),
    "EditQueueItem": lambda w: c.EditQueueItem(session_id=w.idle, item_id=w.items[0], text="other"),
    "ReorderQueue": lambda w: c.ReorderQueue(session_id=w.idle, item_ids=w.items[::-1]),
    "RemoveQueueItem": lambda w: c.RemoveQueueItem(session_id=w.idle, item_id=w.items[0]),
    "TakeQueue": lambda w: c.TakeQueue(session_id=w.idle),
    "SwitchModel": lambda w: c.SwitchModel(session_id=w.idle, model="other"),
    "ChangePermissionMode": lambda w: c.ChangePermissionMode(session_id=w.idle, mode="full"),
    "ChangeSandboxPolicy": lambda w: c.ChangeSandboxPolicy(session_id=w.idle, policy=SandboxPolicy(network=True)),
    "ChangeWorkingDirectory": lambda w: c.ChangeWorkingDirectory(session_id=w.idle, cwd="/tmp"),
    "ChangeTurnLimits": lambda w: c.ChangeTurnLimits(session_id=w.idle, limits=TurnLimits(steps=9)),
    "OpenDialog": lambda w: c.OpenDialog(session_id=w.idle, kind="input", title="well?", timeout_ms=500),
    "AnswerDialog": lambda w: c.AnswerDialog(session_id=w.asking, request_id=w.dialog, value="yes"),
    "AnswerApproval": lambda w: c.AnswerApproval(session_id=w.asking, request_id=w.approval, decision="allow_once"),
    "ScheduleWakeup": lambda w: c.ScheduleWakeup(session_id=w.idle, delay_ms=60 * MINUTE, text="again"),
    "CancelWakeup": lambda w: c.CancelWakeup(session_id=w.idle, wakeup_id=w.wakeup),
    "RequestStop": lambda w: c.RequestStop(session_id=w.busy),
    "ListExtensions": lambda w: c.ListExtensions(),
    "ListCommands": lambda w: c.ListCommands(),
    "RunCommand": lambda w: c.RunCommand(session_id=w.idle, name="note", arguments="this"),
    "CompleteCommand": lambda w: c.CompleteCommand(session_id=w.idle, name="note"),
    "ReloadExtension": lambda w: c.ReloadExtension(name="git"),
    "EnableExtension": lambda w: c.EnableExtension(name="git"),
    "DisableExtension": lambda w: c.DisableExtension(name="git"),
    "PressWidgetKey": lambda w: c.PressWidgetKey(session_id=w.idle, extension="git", widget_id="w", key="up"),
    "PostMessage": lambda w: c.PostMessage(session_id=w.idle, text="by the way"),
    "PostMessage, busy": lambda w: c.PostMessage(session_id=w.busy, text="by the way"),
    "AppendEntry": lambda w: c.AppendEntry(session_id=w.idle, entry=JsonObject({"tag": "t"})),
    "ShowDisplay": lambda w: c.ShowDisplay(session_id=w.idle, status="busy"),
    "ShowNotice": lambda w: c.ShowNotice(session_id=w.idle, message="look"),
    "LoginToProvider": lambda w: c.LoginToProvider(session_id=w.idle, provider="house"),
    "ListProtocols": lambda _: c.ListProtocols(),
    "AppendMessages": lambda w: c.AppendMessages(
        session_id=w.idle,
        operation_id="one",
        messages=(NewMessage(role="user", text="before"), NewMessage(role="assistant", text="noted")),
    ),
    "RequestStop, asking": lambda w: c.RequestStop(session_id=w.asking, scope="session", queue="return"),
}

_ID = re.compile(r"\b(ses|msg|turn|call|item|req|wake|run)_[0-9a-z]{26}")
_TIME = re.compile(r'"(\w+_at|at|duration_ms)":\d+')


async def what_can_be_seen(world: World) -> str:
    """All sessions and all their events, with ids replaced by their order of appearance and times left out."""
    listed = await world.service.load_service()
    shown: list[object] = [listed]
    for summary in listed.sessions:
        shown.append(await world.service.load_session(summary.session_id))
        shown += [each.event for each in world.witness.seen if each.session_id == summary.session_id]
    names: dict[str, str] = {}
    seen = "\n".join(encode(each).decode() for each in shown)
    plain = _ID.sub(lambda found: names.setdefault(found[0], f"{found[1]} {len(names)}"), seen)
    return _TIME.sub(r'"\1":0', plain)


async def settle(world: World) -> None:
    await trio.sleep(10 * 60)
    assert (await world.service.load_service()).cursor.seq == world.service.statistics().stream.published


async def still_works(service: SessionService) -> None:
    """A new session does what a new session does."""
    session = (await service.create_session(permission_mode="full")).session_id
    await service.send_user_message(session, "are you there?")
    assert (await service.wait_for_turn(session)).outcome.status == "completed"
    await service.delete_session(session)


async def result_of(case: Callable[[World], Command[Any]] | None) -> str:
    async with open_world() as world:
        if case is not None:
            await world.service.execute(case(world))
        await settle(world)
        return await what_can_be_seen(world)


@pytest.mark.parametrize("name", mostly_slow(CASES, quick=10))
async def test_a_cancelled_command_is_done_or_not_done(name: str, autojump_clock: MockClock) -> None:
    """Cancelled at each step, a command has had all of its effect or none, and the service goes on."""
    case = CASES[name]
    not_done, done = await result_of(None), await result_of(case)
    command_type = getattr(c, name.partition(",")[0])
    assert (not_done == done) == command_type.reads_only
    outcomes: list[str] = []

    async def operation(world: World) -> None:
        await world.service.execute(case(world), client_id=ClientId("local"))

    async def check(world: World, run: SweepRun) -> None:
        await settle(world)
        seen = await what_can_be_seen(world)
        assert seen in ((not_done, done) if run.cancelled else (done,))
        outcomes.append("done" if seen == done else "not done")
        await still_works(world.service)

    steps = await cancel_sweep(open_world, operation, check, max_steps=50)

    assert steps >= 1
    assert outcomes == sorted(outcomes, reverse=True), "once a command has begun to have its effect it has all of it"


def test_every_command_is_swept() -> None:
    """No command is left out but one like another, one that most protocols refuse, and one that waits for threads."""
    swept = {name.partition(",")[0] for name in CASES}
    assert {*swept, "TakeBackUndo", "ApplyExtension", "FindFiles"} == {command.__name__ for command in COMMANDS}
