"""Any interleaving of messages, turns, frames, stops and crashes leaves a protocol as a fresh replay would.

The protocol of this test follows its session: it believes to know the conversation, by what it was restored with, what
it was told of, and what it has seen models asked. It may be late, as nobody tells it of answers; but all that it
believes must be there, in this order, and a program that starts again must come to believe the same.
"""

import itertools
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from session_core.ids import MessageId, SessionId
from session_core.protocols.api import ProtocolBundle, ProtocolFactory, ProtocolSession
from session_core.protocols.contexts import BeforeCall, BeforeCallContext, BuildContext, SessionContext, SwitchTo
from session_core.protocols.standard import NativeToolDriver
from session_core.providers.base import ModelRequest
from session_core.service.config import ServiceConfig
from session_core.service.service import SessionService, open_session_service
from session_core.storage.sqlite import SqliteStore
from session_core.testing.scripted import Hang, Pause, ScriptedProvider, ScriptItem, text
from session_core.vocabulary import commands as c
from session_core.vocabulary.frozen import JsonObject
from session_core.vocabulary.messages import Message
from session_core.vocabulary.protocols import NewMessage
from tests.durability._kept import check_at_rest, check_consistent
from tests.properties.test_reopening import CopiedStore

GO_TO = "go to frame "
HANG = "hang"


class Following(ProtocolSession):
    """Believes to know the conversation, and goes to another frame when a message says so."""

    def __init__(self) -> None:
        self.frame = ""
        self.believed: tuple[MessageId, ...] = ()
        self.wrong: list[str] = []

    async def restore(self, context: SessionContext, messages: Sequence[Message]) -> None:
        self.frame, self.believed = context.frame.key, _ids(messages)

    async def appended(self, context: SessionContext, operation_id: str, messages: Sequence[Message]) -> None:
        self._compare("frame", context.frame.key, self.frame)
        self.believed += _ids(messages)

    async def apply_extension(self, context: SessionContext, extension: JsonObject) -> None:
        self._compare("frame", context.frame.key, self.frame)

    async def before_model_call(self, context: BeforeCallContext, request: ModelRequest) -> BeforeCall:
        known = _ids(request.messages)
        self._compare("frame", context.frame.key, self.frame)
        self._compare("messages", tuple(each for each in known if each in self.believed), self.believed)
        self.believed = known
        said = request.messages[-1].text
        key = said.removeprefix(GO_TO)
        if key not in (said, context.frame.key):
            return SwitchTo(key=key, task=f"You are in frame {key} now.")
        return None

    def _compare(self, what: str, there: object, believed: object) -> None:
        if there != believed:
            self.wrong.append(f"{what}: {there} where it believed {believed}")


def _ids(messages: Sequence[Message]) -> tuple[MessageId, ...]:
    return tuple(message.message_id for message in messages)


class FollowingProtocol(ProtocolFactory):
    """Remembers what it has built, for the test to look at."""

    id = "following"

    def __init__(self) -> None:
        self.built: dict[SessionId, Following] = {}

    def build(self, context: BuildContext) -> ProtocolBundle:
        following = self.built[context.session_id] = Following()
        return ProtocolBundle(driver=NativeToolDriver(), session=following)


@attrs.frozen
class Move:
    """One thing that happens, and what is chosen in it."""

    what: str
    pick: int


MOVES = ("turn", "append", "frame") * 2 + ("extend", "branch", "clear", "edit", "edit_note", "stop")
TURNINGS = ("crash", "crash_in_turn", "reopen")
programs = st.lists(st.builds(Move, st.sampled_from(MOVES + TURNINGS), st.integers(0, 7)), min_size=2, max_size=9)


class Life:
    """One run of the program: a service, and the protocol in it."""

    def __init__(self, home: Path) -> None:
        self.store = CopiedStore(home)
        self.protocol = FollowingProtocol()
        self.model = ScriptedProvider(*[self._answer] * 100)
        self.config = ServiceConfig(
            models={"m": self.model},
            tools=(),
            cwd="/",
            store=self.store,
            protocols=(self.protocol,),
            protocol=self.protocol.id,
        )

    @staticmethod
    def _answer(request: ModelRequest) -> Sequence[ScriptItem]:
        said = request.messages[-1].text
        return (Pause(said), Hang()) if said.startswith(HANG) else text(f"I heard: {said}")

    def check(self) -> None:
        """Prove that the protocol was never wrong."""
        assert [] == [wrong for each in self.protocol.built.values() for wrong in each.wrong]


class Lives:
    """A session through many runs of the program."""

    def __init__(self, homes: Iterator[Path]) -> None:
        self._homes = homes
        self._home = next(homes)
        self._numbers = itertools.count()
        self.session_id = SessionId("")

    async def play(self, program: Sequence[Move]) -> None:
        """Live through a program, and compare at its end: going on, and starting again."""
        rest = iter(program)
        while await self._one_life(rest):
            pass
        copy = next(self._homes)
        live = Life(self._home)
        async with open_session_service(live.config) as service:
            await self._turn(service, "before the end")  # so that what follows is not the first that it hears of
            live.store.crash_into(copy)
            await self._turn(service, "the end")
        fresh = Life(copy)
        async with open_session_service(fresh.config) as service:
            await self._turn(service, "the end")
        ends = [
            (
                [(each.role, each.text) for each in life.model.requests[-1].messages],
                following.frame,
                len(following.believed),
            )
            for life in (live, fresh)
            for following in (life.protocol.built[self.session_id],)
        ]
        assert ends[0] == ends[1]
        for life in (live, fresh):
            life.check()
            await self._check_kept(life.store.home)

    @staticmethod
    async def _check_kept(home: Path) -> None:
        store = SqliteStore(home)
        async with store.open():
            for session in (await check_consistent(store)).values():
                check_at_rest(session)

    async def _one_life(self, rest: Iterator[Move]) -> bool:
        """Go on until the program is over; returns whether there is more of it, in another run."""
        life = Life(self._home)
        async with open_session_service(life.config) as service:
            if not self.session_id:
                self.session_id = (await service.create_session()).session_id
            for move in rest:
                match move.what:
                    case "reopen":
                        break
                    case "crash" | "crash_in_turn":
                        if move.what == "crash_in_turn":
                            await self._hang(life, service)
                        self._home = next(self._homes)
                        await service.load_session(self.session_id)
                        life.store.crash_into(self._home)
                        break
                    case _:
                        await self._move(life, service, move)
            else:
                life.check()
                return False
        life.check()
        return True

    async def _move(self, life: Life, service: SessionService, move: Move) -> None:
        session_id, number = self.session_id, next(self._numbers)
        match move.what:
            case "turn":
                await self._turn(service, f"message {number}")
            case "frame":
                await self._turn(service, f"{GO_TO}{('initial', 'a', 'b')[move.pick % 3]}")
            case "append":
                added = tuple(
                    NewMessage(role="user", text=f"note {number}.{each}") for each in range(1 + move.pick % 2)
                )
                append = c.AppendMessages(
                    session_id=session_id, operation_id=f"op {move.pick}.{number}", messages=added
                )
                assert "appended" == (await service.execute(append)).outcome
                if move.pick > 3:
                    assert "replayed" == (await service.execute(append)).outcome
            case "edit" | "edit_note":
                notes = move.what == "edit_note"
                transcript = (await service.load_session(session_id)).transcript
                said = [each for each in transcript if each.role == "user" and each.text.startswith("note") == notes]
                if said:
                    again = said[move.pick % len(said)]
                    sent = await service.edit_message(session_id, again.message_id, f"rather {number}")
                    await service.wait_for_turn(session_id, sent.turn_id)
            case "extend":
                await service.execute(c.ApplyExtension(session_id=session_id, extension=JsonObject()))
            case "branch":
                if messages := (await service.load_session(session_id)).messages:
                    await service.switch_branch(session_id, messages[move.pick % len(messages)].message_id)
            case "clear":
                await service.clear_context(session_id)
            case _:
                await self._hang(life, service)
                await service.request_stop(session_id)

    async def _turn(self, service: SessionService, said: str) -> None:
        sent = await service.send_user_message(self.session_id, said)
        outcome = (await service.wait_for_turn(self.session_id, sent.turn_id)).outcome
        assert ("completed", None) == (outcome.status, outcome.error)

    async def _hang(self, life: Life, service: SessionService) -> None:
        """Start a turn that does not end, and wait until its model is asked."""
        said = f"{HANG} {next(self._numbers)}"
        await service.send_user_message(self.session_id, said)
        await life.model.wait_for_pause(said)


_numbers = itertools.count()


@pytest.mark.slow
@settings(max_examples=max(10, settings().max_examples // 3))  # each opens several stores
@given(program=programs, rnd=st.random_module())
async def test_a_protocol_is_what_a_replay_makes_of_it(*, program: list[Move], rnd: object, tmp_path: Path) -> None:
    """Turns, notes, frames, edits, stops and crashes in any order: a protocol never believes what is not so, and a
    program that starts again goes on from the same."""
    place = tmp_path / str(next(_numbers))
    with trio.fail_after(300):
        await Lives(place / str(number) for number in itertools.count()).play(program)
    shutil.rmtree(place)
