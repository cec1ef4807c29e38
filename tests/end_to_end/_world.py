"""A whole agent as people set it up: home, settings, folder, key, service, and a model server on loopback."""

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

import attrs
import trio

from session_core.assembly.setup import AgentEnvironment, Setup, open_setup
from session_core.ids import SessionId
from session_core.service.service import SessionService, open_session_service
from session_core.storage.maintenance.export_import import export_session
from session_core.storage.sqlite import SqliteStore
from session_core.vocabulary.events import Event, SessionEvent
from session_core.vocabulary.messages import Message
from session_core.vocabulary.sessions import TurnOutcome
from session_core.vocabulary.snapshots import SessionSnapshot
from tests.end_to_end._streams import Dialect
from tests.session_core.providers._replay_server import ReplayServer, Reply, open_replay_server

KEY = "canary-key-0f3a9c55d1"
KEY_ENV = "HARMLESS_NAME"
HEADER = "canary-header-77b1e04c"
MODEL = "local/small"
SILENT_S = 20
"""A silence that only a clock that jumps gets through in a test."""
_PATIENCE_S = 300


def write_config(home: Path, dialect: Dialect, base_url: str, *, key_env: str = KEY_ENV, more: str = "") -> None:
    """Write the settings of somebody whose one model is behind this address."""
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    file = home / "config.toml"
    file.write_text(
        f"""
model = "{MODEL}"
permission_mode = "full"
{more}

[providers.local]
kind = "{dialect.kind}"
base_url = "{base_url}/v1"
key_env = "{key_env}"
headers = {{ x-team = "{HEADER}" }}

[[models]]
name = "{MODEL}"
context_tokens = 200_000
max_output_tokens = 4_000
"""
    )
    file.chmod(0o600)


@attrs.define(kw_only=True)
class World:
    """An agent at work, and the server its model is behind."""

    server: ReplayServer
    service: SessionService
    setup: Setup
    place: AgentEnvironment
    session_id: SessionId
    seen: list[SessionEvent]

    async def say(self, text: str) -> TurnOutcome:
        """Send a message, wait for the end of the turn and return how it ended."""
        with trio.fail_after(_PATIENCE_S):
            async with self.service.follow(self.session_id) as feed:
                before = await anext(feed)
                assert isinstance(before, SessionSnapshot)
                await self.service.send_user_message(self.session_id, text)
                async for item in feed:
                    assert isinstance(item, SessionEvent), "nothing may be lost in a test that looks at every event"
                    self.seen.append(item)
                    if type(item.event).__name__ == "TurnEnded":
                        break
            outcome = (await self.snapshot()).last_outcome
        assert outcome is not None
        return outcome

    async def snapshot(self) -> SessionSnapshot:
        return await self.service.load_session(self.session_id)

    async def transcript(self) -> tuple[Message, ...]:
        return tuple((await self.snapshot()).messages)

    def events(self, *kinds: type[Event]) -> list[Event]:
        """What was seen of these kinds."""
        return [each.event for each in self.seen if isinstance(each.event, kinds)]


@asynccontextmanager
async def open_world(
    folder: Path, dialect: Dialect, *replies: Reply, more: str = "", **variables: str
) -> AsyncGenerator[World]:
    """Set up an agent in a folder, with its home beside it, on a server that gives these replies."""
    home, work = folder / "home", folder / "work"
    work.mkdir(exist_ok=True)
    async with open_replay_server(*replies) as server:
        write_config(home, dialect, server.base_url, more=more)
        environ = {"PATH": "/usr/bin:/bin", "HOME": str(folder / "user"), KEY_ENV: KEY, **variables}
        place = AgentEnvironment(home=home, folder=str(work), environ=environ)
        async with open_setup(place, store=SqliteStore(home)) as setup:
            async with open_session_service(setup.service) as service:
                created = await service.create_session()
                yield World(
                    server=server, service=service, setup=setup, place=place, session_id=created.session_id, seen=[]
                )


async def exported(home: Path, session_id: SessionId) -> bytes:
    """A session as its export, after its service has ended."""
    store = SqliteStore(home)
    async with store.open_reader(), aclosing(export_session(store, session_id)) as lines:
        return b"".join([line async for line in lines])
