"""`run` with a question or a turn that is in the service already, and leaving it there."""

import os
from collections.abc import Generator
from pathlib import Path

import pytest
import trio

import session_core as sc
from frontends.client import open_client
from frontends.commands.run.attached_service import open_service
from frontends.commands.run.extensions import ui_kinds
from frontends.commands.run.options import ContinuedSession, RunOptions
from frontends.commands.run.run import converse
from frontends.shared.streams import StandardStreams
from tests.frontends._paper import NoSignals, Paper, written
from tests.frontends.server.daemon._service import Service, begin, service_of


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Generator[Service]:
    """A service without extensions, which would have their say about tools."""
    with service_of(tmp_path_factory.mktemp("plain") / "home") as running:
        yield running


async def typing(service: Service, options: RunOptions, typed: bytes | None) -> tuple[int, str, str]:
    """Have `run` attached with a keyboard on which this is typed before it is closed; None is no keyboard at all."""
    keyboard, hand = os.pipe()
    os.write(hand, typed or b"")
    os.close(hand)
    streams = StandardStreams(out=Paper(), err=Paper(), keyboard=None if typed is None else keyboard)
    known = None
    try:
        with trio.fail_after(300):
            async with open_service(service.home, ui_kinds(streams)) as client:
                assert client is not None
                if options.session is not None:
                    sessions = (await client.load_service()).sessions
                    (summary,) = [each for each in sessions if each.session_id == options.session]
                    known = ContinuedSession(summary=summary, short="known")
                code = await converse(client, options, streams, NoSignals(), known)
    finally:
        os.close(keyboard)
    return code, *written(streams)


async def snapshot_of(service: Service, folder: Path) -> sc.SessionSnapshot:
    """The one session of a folder."""
    async with open_client(service.home) as client:
        (made,) = [each for each in (await client.load_service()).sessions if each.cwd == str(folder)]
        return await client.load_session(made.session_id)


@pytest.mark.slow
async def test_closing_the_terminal_is_no_answer(service: Service, tmp_path: Path) -> None:
    """A question whose terminal is closed stays open, and `run --session` shows it, takes the answer and follows."""
    asked = RunOptions(prompt="list the files", cwd=str(tmp_path), home=service.home, permissions="ask_all")
    code, _, left = await typing(service, asked, b"")
    before = await snapshot_of(service, tmp_path)
    again = RunOptions(prompt=None, home=service.home, session=before.session_id)
    followed, _, answered = await typing(service, again, b"y\n")
    after = await snapshot_of(service, tmp_path)

    assert (1, 1, 0) == (code, len(before.approvals), followed)
    assert "the question stays open in the service; to answer it: session-core run " in left
    assert f"--session {before.session_id}" in left
    assert (
        answered.index("The session is busy; following it") < answered.index("Allow list_files") < answered.index("✓")
    )
    assert after.last_outcome is not None
    assert "completed" == after.last_outcome.status


async def test_enter_on_a_terminal_is_a_no(service: Service, tmp_path: Path) -> None:
    """Just Enter denies, in a service as without one."""
    asked = RunOptions(prompt="list the files", cwd=str(tmp_path), home=service.home, permissions="ask_all")
    code, *_ = await typing(service, asked, b"\n")
    results = [part for each in (await snapshot_of(service, tmp_path)).messages for part in each.parts]
    assert 0 == code
    assert ["denied"] == [each.status for each in results if isinstance(each, sc.ToolResultPart)]


async def test_a_question_of_others_is_left_to_them(service: Service, tmp_path: Path) -> None:
    """Who joins without a terminal denies nothing that somebody else was asked."""
    asked = RunOptions(prompt="list the files", cwd=str(tmp_path), home=service.home, permissions="ask_all")
    await typing(service, asked, b"")
    before = await snapshot_of(service, tmp_path)
    again = RunOptions(prompt=None, home=service.home, session=before.session_id)
    codes: list[int] = []

    async def join() -> None:
        codes.append((await typing(service, again, None))[0])

    async with open_client(service.home) as client, client.follow() as session_list, trio.open_nursery() as nursery:
        await session_list.receive_batch()
        nursery.start_soon(join)
        while not any(_has_come(each) for each in await session_list.receive_batch()):
            pass
        (approval,) = (await client.load_session(before.session_id)).approvals
        await client.answer_approval(
            before.session_id, approval.request_id, "allow_once", fingerprint=approval.fingerprint
        )
    assert [0] == codes


def _has_come(item: sc.FeedItem) -> bool:
    return isinstance(item, sc.SessionEvent) and isinstance(item.event, sc.events.ClientAttached)


async def test_a_turn_that_runs_is_followed(service: Service) -> None:
    """Going on with a session that is at work shows its answer from the beginning to the end, and changes nothing."""
    session_id = await begin(service.home, "to be followed", "count to 60")
    code, out, _ = await typing(service, RunOptions(prompt=None, home=service.home, session=session_id), b"")
    assert (0, f"{' '.join(map(str, range(1, 61)))} Done.\n") == (code, out)
