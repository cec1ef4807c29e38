"""The client without `await`, for scripts and notebooks."""

import gc
import inspect
import sys
import threading
import time
import weakref
from pathlib import Path

import pytest
import trio

import session_core as sc
from frontends.client import open_client
from frontends.client.sync import BlockingMethods, SyncClient, connect
from session_core.ids import new_session_id
from tests.frontends.client._interrupting import interrupt_while_waiting
from tests.frontends.client._real import real_server
from tests.frontends.client._scripted import SESSION, Mirror, ScriptedServer, run


@pytest.fixture(autouse=True)
def leaving_may_take_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread is left behind because the machine is slow."""
    monkeypatch.setattr("frontends.client.sync._LEAVE_S", 60.0)


def new_threads(before: list[threading.Thread]) -> list[str]:
    """The names of threads that were not there before; those of others may have ended meanwhile."""
    return [each.name for each in threading.enumerate() if each not in before]


def test_it_has_every_method() -> None:
    """Each method of the service is there, with the same arguments and words."""
    for name, method in inspect.getmembers(sc.SessionMethods, inspect.isfunction):
        if not name.startswith("_"):
            same = getattr(BlockingMethods, name)
            assert inspect.signature(method).parameters.keys() == inspect.signature(same).parameters.keys()
            assert method.__doc__ == same.__doc__
            assert not inspect.iscoroutinefunction(same)
    assert inspect.signature(open_client).parameters == inspect.signature(connect).parameters


def test_a_script(tmp_path: Path) -> None:
    """A script creates a session, sends a message and reads what becomes of it, by plain calls and a plain loop."""
    with real_server(tmp_path), connect(tmp_path, name="script", kind="script") as client:
        assert "connected" == client.state.phase
        assert client.client_id
        session_id = client.create_session(name="x").session_id
        mirror = Mirror()
        with client.follow(session_id) as feed:
            client.send_user_message(session_id, "hello")
            client.wait_for_turn(session_id)
            truth = client.load_session(session_id)
            for item in feed:
                mirror.take([item])
                assert mirror.state is not None
                if mirror.state.sseq == truth.sseq:
                    break
            assert mirror.state is not None
            assert truth.messages == mirror.state.messages
            assert (1, sc.Resync(reason="initial")) == (feed.resyncs, feed.last_resync)
            assert truth.cursor.epoch == feed.cursor.epoch if feed.cursor is not None else False
            assert [] == feed.receive_batch(timeout_s=0)
            client.execute(sc.commands.RenameSession(session_id=session_id, name="y"))
            assert 1 == len(feed.receive_batch())
            assert 1 == client.status().sessions
            with pytest.raises(sc.NotFound):
                client.load_session(new_session_id())
            client.delete_session(session_id)
            assert [sc.SessionEvent] * len(rest := list(feed)) == [type(each) for each in rest]
            with pytest.raises(EOFError):
                feed.receive_batch()
        client.shutdown()
    with pytest.raises(sc.ServiceClosed):
        client.load_service()


def test_no_server(tmp_path: Path) -> None:
    """Without a server, connecting says so, and leaves no thread behind."""
    before = threading.enumerate()
    with pytest.raises(sc.Disconnected, match="session-core serve"):
        connect(tmp_path)
    assert [] == new_threads(before)


def test_beside_a_running_loop(backend: str, tmp_path: Path) -> None:
    """It can be used from within a running loop, as in a notebook."""
    with real_server(tmp_path):

        async def body() -> None:
            with connect(tmp_path) as client:
                assert () == client.load_service().sessions

        run(backend, body)


@pytest.mark.slow
def test_a_forgotten_client_is_closed(tmp_path: Path) -> None:
    """A client that nobody holds any more leaves the server by itself, but not while one of its feeds is held."""
    with real_server(tmp_path), connect(tmp_path) as other:
        client: SyncClient | None = connect(tmp_path)
        assert client is not None
        feed, gone = client.follow(None), weakref.ref(client)
        client = None
        gc.collect()
        assert feed.receive_batch()
        client = gone()
        assert client is not None
        client.status()  # comes after the batch: by now the client's own thread has let go of the feed, too
        client = None
        del feed
        gc.collect()
        assert gone() is None
        until = time.monotonic() + 300
        while other.status().clients != 1:  # the server notices when it comes to it
            assert time.monotonic() < until


INTERRUPTED = """
import sys, threading
import session_core as sc
from frontends.client import sync
from frontends.client.sync import connect
from tests.frontends.client._interrupting import interrupt_while_waiting

sync._LEAVE_S = 60.0
session_id = sc.SessionId(sys.argv[2])
with connect(address=sys.argv[1]) as client:
    feed = client.follow(session_id)
    next(feed)
    for wait in (lambda: client.wait_for_turn(session_id), lambda: list(feed)):
        # A reply to what was asked later: by then the server knows of the request that waits.
        interrupting = interrupt_while_waiting("call", first=lambda: client.load_session(session_id))
        try:
            wait()
        except KeyboardInterrupt:
            print("interrupted")
        interrupting.join()
    print(client.load_session(session_id).name)
print(*(each.name for each in threading.enumerate()))
forgotten = connect(address=sys.argv[1])
"""


async def test_an_interrupt(tmp_path: Path) -> None:
    """Ctrl-C ends what waits and tells the server, the client can be used on, and a program ends without closing it."""
    server = ScriptedServer(tmp_path / "s")
    async with server.running():
        with trio.fail_after(300):
            done = await trio.run_process(
                [sys.executable, "-W", "error", "-c", INTERRUPTED, str(server.path), SESSION],
                capture_stdout=True,
                capture_stderr=True,
                cwd=Path(__file__).parents[3],
                check=False,
            )
    assert (b"interrupted\ninterrupted\nnew\nMainThread\n", b"", 0) == (done.stdout, done.stderr, done.returncode)
    assert "$/cancel" in server.asked


def test_an_interrupt_while_connecting(tmp_path: Path) -> None:
    """Ctrl-C during the connecting leaves at once, and no thread."""
    before, tried = threading.enumerate(), threading.Event()
    interrupting = interrupt_while_waiting("inner", first=lambda: tried.wait(60))
    with pytest.raises(KeyboardInterrupt):
        connect(tmp_path, wait_s=120, on_state=lambda _: tried.set())
    interrupting.join()
    assert [] == new_threads(before)
