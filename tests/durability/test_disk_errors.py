"""A disk that fails at any one of its calls: the service says so, can be read, and claims no more than is kept."""

from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
import trio

from session_core.errors import Conflict, ReadOnly, SessionCoreError, StorageFailed, StoreUnusable
from session_core.ids import ClientId, SessionId
from session_core.service.config import ServiceConfig
from session_core.service.service import SessionService, open_session_service
from session_core.storage.sqlite import SqliteStore
from session_core.stream.subscription import Subscription
from session_core.testing.scripted import ScriptedProvider, ScriptedTool, text, tool_call
from session_core.vocabulary import commands as c
from session_core.vocabulary.commands import Command
from session_core.vocabulary.events import StorageStopped
from session_core.vocabulary.snapshots import ServiceSnapshot, SessionSnapshot
from tests._needs import needs
from tests.durability._clients import Promises, Sent
from tests.durability._evidence import check_kept, effects
from tests.durability._faulty_disk import FaultKind, FaultyDisk, available
from tests.durability._kept import check_at_rest, check_consistent, check_home, on_disk

pytestmark = [
    needs(available()),
    pytest.mark.usefixtures("quiet_log"),
]

LONG_ENOUGH_S = 300
"""A run takes a few hundredths of a second: who is not done by then hangs."""


def config_on(home: Path, disk: FaultyDisk) -> ServiceConfig:
    provider = ScriptedProvider(tool_call("change", {}), text("that is done"), text("and that"))
    return ServiceConfig(
        models={"quick": provider},
        tools=(ScriptedTool("change", effects=("write",)),),
        cwd="/",
        permission_mode="full",
        store=SqliteStore(home, connect=on_disk(disk)),
    )


class Scenario:
    """Create, send a message that needs a tool, rename, let a message wait, delete another session, close."""

    def __init__(self) -> None:
        self.promises = Promises()
        self.stops: list[str] = []
        self.read_only: str | None = None
        self.ended_by: SessionCoreError | None = None

    async def play(self, config: ServiceConfig) -> None:
        """Play it to its end, whatever the disk does."""
        try:
            with trio.fail_after(LONG_ENOUGH_S):
                async with trio.open_nursery() as nursery, open_session_service(config) as service:
                    # It reads until the service has closed, and no longer.
                    nursery.start_soon(self._count_stops, service.subscribe())  # noqa: ASYNC111
                    await self._commands(service)
                    await self._check_reading(service)
                    self.read_only = service.statistics().read_only
        except* SessionCoreError as group:
            (self.ended_by,) = group.exceptions  # type: ignore[assignment]

    async def _commands(self, service: SessionService) -> None:
        first = await self._do(service, c.CreateSession(name="first"), "key 1")
        second = await self._do(service, c.CreateSession(name="second"), "key 2")
        if first is not None:
            session_id = first.session_id
            await self._do(service, c.SendUserMessage(session_id=session_id, text="change it"), "key 3")
            await self._until_at_rest(service, session_id)
            await self._do(service, c.RenameSession(session_id=session_id, name="renamed"), "key 4")
            await self._do(service, c.SendUserMessage(session_id=session_id, text="wait", deliver_as="next_turn"))
        if second is not None:
            await self._do(service, c.DeleteSession(session_id=second.session_id))

    async def _do(self, service: SessionService, command: Command[Any], key: str | None = None) -> Any:
        sent = Sent(number=len(self.promises.asked), client_id=ClientId("client"), key=key, command=command)
        self.promises.sent(sent)
        known = service.statistics().read_only
        try:
            reply = await service.execute(command, idempotency_key=key, client_id=sent.client_id)
        except StorageFailed:
            assert known is None, "once the disk has failed, a command is refused before it does anything"
        except ReadOnly:
            self.promises.refused(sent)
        else:
            self.promises.replied(sent, reply)
            return reply

    @staticmethod
    async def _until_at_rest(service: SessionService, session_id: SessionId) -> None:
        if (await service.load_session(session_id)).last_outcome is None:
            with suppress(Conflict):  # it has not even begun
                await service.wait_for_turn(session_id)

    @staticmethod
    async def _check_reading(service: SessionService) -> None:
        """Everything can be read, also when nothing can be written any more."""
        session_list = await service.load_service()
        listed = (await service.list_sessions()).sessions
        assert {each.session_id for each in listed} == {each.session_id for each in session_list.sessions}
        async with service.follow() as feed:
            assert isinstance((await feed.receive_batch())[0], ServiceSnapshot)
        for summary in listed:
            shown = await service.load_session(summary.session_id)
            assert (shown.name, shown.activity) == (summary.name, summary.activity)
            assert shown.activity.is_at_rest, "nothing runs on without a disk"
            async with service.follow(summary.session_id) as feed:
                assert isinstance((await feed.receive_batch())[0], SessionSnapshot)
        await service.search_messages("change")

    async def _count_stops(self, events: Subscription) -> None:
        async with events:
            with suppress(trio.EndOfChannel):
                while True:
                    batch = await events.receive_batch()
                    self.stops += [e.event.reason for e in batch if isinstance(e.event, StorageStopped)]

    def check_told(self) -> None:
        """Prove that a failure was told in every way it can be."""
        failed = [sent for sent in self.promises.asked.values() if sent.number not in self.promises.replies]
        if self.read_only is not None:
            assert self.stops == [self.read_only]
            assert isinstance(self.ended_by, StorageFailed)
        else:
            assert not failed
            assert isinstance(self.ended_by, StorageFailed | StoreUnusable | None)
            if self.stops:  # after the last reply, with nobody left to be refused
                assert self.stops == [getattr(self.ended_by, "message", None)]


async def check_after(home: Path, disk: FaultyDisk, scenario: Scenario) -> None:
    """Prove that on a disk that works again everything acknowledged is there, and nothing that was refused."""
    async with open_session_service(config_on(home, disk)):
        pass
    store = SqliteStore(home, connect=on_disk(disk))
    async with store.open() as opened:
        kept = await check_consistent(store)
    check_kept(scenario.promises, kept)
    for session in kept.values():
        check_at_rest(session)
    for number in scenario.promises.refusals:
        assert effects(scenario.promises.asked[number], kept) == 0
    remembered = {reply.key: reply.reply for reply in opened.replies}
    for sent, reply in scenario.promises.kept:
        assert sent.key is None or remembered[sent.key] == reply


async def fail_at(home: Path, kind: FaultKind, call: int, *, sticky: bool) -> bool:
    """Play the scenario on a disk whose call number `call` fails; returns whether there was such a call."""
    scenario = Scenario()
    with FaultyDisk() as disk:
        disk.failed_sync_forgets = bool(call % 2)
        fault = disk.fail(kind, at=call, sticky=sticky)
        await scenario.play(config_on(home, disk))
        scenario.check_told()
        disk.heal()
        after = disk.lose_power(Random(call)) if call % 2 else disk
        if after is disk:
            await check_after(home, disk, scenario)
    if after is not disk:
        with after:
            await check_after(home, after, scenario)
    if call % 3 == 0:  # it takes longer than all the rest
        check_home(home, after)
    return fault.fired > 0


async def fail_at_each(folder: Path, kind: FaultKind, *, sticky: bool, every: int) -> None:
    call = 1
    while await fail_at(folder / str(call), kind, call, sticky=sticky):
        call += every
    assert call > 100, "the scenario has many calls"


@pytest.mark.slow
@pytest.mark.parametrize("sticky", [False, True], ids=["once", "from then on"])
@pytest.mark.parametrize("kind", ["EIO", "ENOSPC", "short_write"])
async def test_a_disk_that_fails_at_any_call(kind: FaultKind, sticky: bool, tmp_path: Path) -> None:  # noqa: FBT001
    """A command is acknowledged and kept, or says that it is not; people can read on; nobody hangs; it opens again."""
    await fail_at_each(tmp_path, kind, sticky=sticky, every=1)


async def test_a_disk_that_fails_at_one_of_many_calls(tmp_path: Path) -> None:
    """The same holds for every fifth call, which the quick run has the time for."""
    await fail_at_each(tmp_path, "EIO", sticky=False, every=5)
