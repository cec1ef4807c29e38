"""Sessions that are kept already when a test begins, made without a process of their own."""

from pathlib import Path

import attrs
import trio

import session_core as sc
from frontends import entry

NOW = 1_800_000_000_000
MINUTE = 60_000


def summary(session_id: str, name: str = "a session", **changes: object) -> sc.SessionSummary:
    """One line of a list."""
    made = sc.SessionSummary(
        session_id=sc.SessionId(session_id),
        name=name,
        created_at=NOW - 10 * MINUTE,
        updated_at=NOW - 3 * MINUTE,
        archived=False,
        parent_id=None,
        cwd="/srv/project",
        model="demo",
        activity=sc.Activity(name="idle"),
    )
    return attrs.evolve(made, **changes)  # type: ignore[arg-type]


async def keep_sessions(home: Path, *prompts: str, cwd: str = "/") -> list[sc.SessionId]:
    """Have a turn for each prompt, in a session of that name, and leave."""
    config = sc.ServiceConfig(
        store=sc.SqliteStore(home), models={"demo": sc.DemoProvider(pace_ms=0)}, cwd=cwd, tools=()
    )
    made = []
    async with sc.open_session_service(config) as service:
        for prompt in prompts:
            session_id = (await service.create_session(name=prompt)).session_id
            await service.send_user_message(session_id, prompt)
            await service.wait_for_turn(session_id)
            made.append(session_id)
    return made


def keep(home: Path, *prompts: str, cwd: str = "/") -> list[sc.SessionId]:
    """The same, for tests that run no event loop."""

    async def run() -> list[sc.SessionId]:
        return await keep_sessions(home, *prompts, cwd=cwd)

    return trio.run(run)


async def kept_sessions(home: Path) -> dict[str, sc.SessionSummary]:
    """What is in the list of a home, by name."""
    reader = sc.SqliteReader(home)
    async with reader.open_reader():
        return {each.name: each for each in await reader.list_sessions()}


def kept(home: Path) -> dict[str, sc.SessionSummary]:
    """The same, for tests that run no event loop."""
    return trio.run(kept_sessions, home)


def session_core(*arguments: str) -> int:
    """Run the command in this process and return its exit code; what it prints is for `capfd` to catch."""
    return entry.main(list(arguments))
