"""One connection: greeting, commands, and what is refused."""

import json
from typing import Any

import pytest
from trio.testing import memory_stream_pair

import session_core as sc
from frontends.server.access import Access
from frontends.server.connection import serve_connection
from session_core.rpc.messages import encode_request
from session_core.testing.scripted import Hang, text
from tests.frontends.server._world import open_world

c = sc.commands


async def test_a_client_greets_and_works() -> None:
    """A client that has said hello gets the same replies as one in the process, with its id in the events."""
    async with open_world(text("hi")) as world, world.client(client_id="ann", name="Ann's laptop", kind="cli") as ann:
        made = await ann.run(c.CreateSession(name="first"))
        sent = await ann.run(c.SendUserMessage(session_id=made.session_id, text="hello"))
        await ann.run(c.WaitForTurn(session_id=made.session_id, turn_id=sent.turn_id))
        assert await world.service.load_session(made.session_id) == await ann.run(
            c.LoadSession(session_id=made.session_id)
        )
        assert (
            sc.ClientPresence(client_id=sc.ClientId("ann"), role="controller", name="Ann's laptop", kind="cli"),
        ) == (await ann.run(c.LoadService())).clients


async def test_presence_ends_with_the_connection() -> None:
    """Everybody is told that a client came and that it went."""
    async with open_world() as world, world.service.follow(None) as session_list:
        await session_list.receive_batch()
        async with world.client(client_id="ann", role="observer"):
            (came,) = await session_list.receive_batch()
        (went,) = await session_list.receive_batch()
        assert isinstance(came, sc.SessionEvent)
        assert isinstance(went, sc.SessionEvent)
        assert sc.events.ClientAttached(client_id=sc.ClientId("ann"), role="observer") == came.event
        assert sc.events.ClientDetached(client_id=sc.ClientId("ann")) == went.event


async def test_nothing_before_hello() -> None:
    """Whatever comes before the greeting is refused and does nothing."""
    async with open_world() as world, world.connected() as client:
        for method, params in (("execute", {"command": {"type": "create_session"}}), ("follow", {}), ("shutdown", {})):
            with pytest.raises(sc.ProtocolError, match="first request must be hello"):
                await client.ask(method, **params)
        assert () == (await world.service.load_service()).sessions
        await client.hello()
        with pytest.raises(sc.ProtocolError, match="already sent its hello"):
            await client.hello()


@pytest.mark.parametrize(
    ("hello", "error", "field"),
    [
        ({"contract": sc.wire.CONTRACT + 1}, "protocol_error", "$.contract"),
        ({"client_id": 7}, "protocol_error", "$.client_id"),
        ({"client_id": "a\nb"}, "invalid_input", "client_id"),
        ({"client_id": "local"}, "conflict", "client_id"),
        ({"client_id": "extension:x"}, "conflict", "client_id"),
        ({"client_id": "http-token"}, "conflict", "client_id"),
        ({"role": "boss"}, "protocol_error", "$.role"),
        ({"kind": "toaster"}, "protocol_error", "$.kind"),
        ({"ui": ["telepathy"]}, "protocol_error", "$.ui[0]"),
        ({"instance": "x" * 201}, "invalid_input", "instance"),
        ({"name": "a\x1b[31m"}, "invalid_input", "name"),
        ({"nonsense": 1}, "protocol_error", "$.nonsense"),
    ],
)
async def test_a_wrong_hello_is_refused(hello: dict[str, Any], error: str, field: str) -> None:
    """A greeting that is wrong is refused with the field at fault, and a right one may follow."""
    async with open_world() as world, world.connected() as client:
        with pytest.raises(sc.SessionCoreError) as refused:
            await client.hello(**hello)
        assert (error, field) == (refused.value.code, refused.value.field)
        assert "ann" == (await client.hello(client_id="ann")).client_id


async def test_one_client_of_a_name() -> None:
    """A second client of the same id is refused while the first is there, whatever secret it makes up."""
    async with open_world() as world, world.client(client_id="ann", instance="secret"), world.connected() as other:
        for instance in ("", "guess"):
            with pytest.raises(sc.Conflict, match="already attached"):
                await other.hello(client_id="ann", instance=instance)


async def test_a_client_takes_the_place_of_its_lost_connection() -> None:
    """A client that comes back with its secret is let in at once, and its old connection hears why it ends."""
    async with open_world() as world, world.client(client_id="ann", instance="secret") as lost:
        async with world.connected() as back:
            assert "ann" == (await back.hello(client_id="ann", instance="secret")).client_id
            (goodbye,) = await lost.until_heard("goodbye")
            assert sc.wire.Goodbye(reason="this client has reconnected", retry=False) == sc.wire.from_json(
                goodbye.params, sc.wire.Goodbye
            )
            await lost.connection.wait_closed()
            assert 1 == len((await back.run(c.LoadService())).clients)
            await back.run(c.CreateSession())


async def test_a_retry_over_another_connection_is_done_once() -> None:
    """A command that is sent again with its key after a reconnect gets the first reply and is not done again."""
    async with open_world() as world:
        command = c.CreateSession(name="once")
        async with world.client(client_id="ann", instance="s") as ann:
            first = await ann.run(command, idempotency_key="k")
        async with world.client(client_id="ann", instance="s") as ann:
            assert first == await ann.run(command, idempotency_key="k")
        assert 1 == len((await world.service.load_service()).sessions)


async def test_errors_arrive_as_they_were_raised() -> None:
    """A typed error of the service is the same typed error in the client."""
    async with open_world() as world, world.client() as client:
        for command in (c.LoadSession(session_id=sc.SessionId("ses_none")), c.CreateSession(cwd="relative")):
            with pytest.raises(sc.SessionCoreError) as ours:
                await world.service.execute(command)
            with pytest.raises(type(ours.value)) as theirs:
                await client.run(command)
            assert (ours.value.code, ours.value.message, ours.value.field) == (
                theirs.value.code,
                theirs.value.message,
                theirs.value.field,
            )
        with pytest.raises(sc.ProtocolError, match=r"\$\.command\.type"):
            await client.ask("execute", command={"type": "nonsense"})
        with pytest.raises(sc.wire.RpcFailed, match="there is no method"):
            await client.ask("nonsense")


async def test_an_observer_cannot_act() -> None:
    """A client that is let in to watch may not act, even if it calls itself a controller."""
    async with open_world() as world, world.client(Access(role="observer"), role="controller") as client:
        with pytest.raises(sc.Forbidden):
            await client.run(c.CreateSession())
        with pytest.raises(sc.AccessDenied):
            await client.ask("shutdown", force=True)
        assert () == (await client.run(c.LoadService())).sessions


async def test_access_to_one_session_shows_no_other() -> None:
    """A client that may see one session can neither read nor follow another one, nor the list, whatever its cursor."""
    async with open_world() as world:
        mine = await world.service.create_session(name="mine")
        other = await world.service.create_session(name="other")
        access = Access(sessions=frozenset({mine.session_id}))
        async with world.client(access) as client:
            assert "mine" == (await client.run(c.LoadSession(session_id=mine.session_id))).name
            await client.follow(mine.session_id, other.cursor)
            with pytest.raises(sc.AccessDenied):
                await client.ask("status")
            for session_id in (other.session_id, None):
                with pytest.raises(sc.AccessDenied):
                    await client.follow(session_id, mine.cursor)
            for command in (
                c.LoadSession(session_id=other.session_id),
                c.LoadService(),
                c.ListSessions(),
                c.SearchMessages(text="x"),
                c.CreateSession(),
                c.DeleteSession(session_id=other.session_id),
            ):
                with pytest.raises(sc.AccessDenied):
                    await client.run(command)
        assert 2 == len((await world.service.load_service()).sessions)


async def test_access_to_one_session_does_not_change_what_binds_it() -> None:
    """Who may act in one session can neither loosen its bounds nor make another one, nor say yes for all sessions."""
    async with open_world() as world:
        mine = (await world.service.create_session(name="mine")).session_id
        before = (await world.service.load_session(mine)).settings
        async with world.client(Access(sessions=frozenset({mine}))) as client:
            for command in (
                c.ChangeSandboxPolicy(session_id=mine, policy=sc.SandboxPolicy(mode="full_access")),
                c.ChangePermissionMode(session_id=mine, mode="full"),
                c.ChangeWorkingDirectory(session_id=mine, cwd="/tmp"),
                c.ChangeTurnLimits(session_id=mine, limits=sc.TurnLimits(cost_micros=9_000_000_000)),
                c.LoginToProvider(session_id=mine, provider="x"),
                c.ForkSession(session_id=mine),
                c.AnswerApproval(session_id=mine, request_id=sc.RequestId("req_x"), decision="allow_always"),
            ):
                with pytest.raises(sc.AccessDenied, match=r"beyond this session|restrictions of a session"):
                    await client.run(command)
            await client.run(c.RenameSession(session_id=mine, name="still mine"))
        assert 1 == len((await world.service.load_service()).sessions)
        assert before == (await world.service.load_session(mine)).settings


async def test_an_observer_does_not_end_the_server() -> None:
    """A client that said it only watches can neither end the server nor let others in, although it might have acted."""
    async with open_world() as world, world.client(role="observer") as client:
        for method in ("shutdown", "login_link"):
            with pytest.raises(sc.Forbidden, match="observer"):
                await client.ask(method, force=True)
        assert not world.server.closing


async def test_only_the_home_own_socket_lets_browsers_in() -> None:
    """A client by HTTP gets no login link: it would be good for longer than what the client came in by."""
    async with open_world() as world, world.client(transport="WebSocket") as client:
        world.server.login_link = lambda: "http://127.0.0.1/login?code=x"
        with pytest.raises(sc.AccessDenied, match="create login links"):
            await client.ask("login_link")


async def test_nobody_is_welcomed_at_the_end() -> None:
    """Who says hello when the end has begun is told so, and nothing of it is done."""
    async with open_world() as world, world.connected() as client:
        await client.connection.flush()
        with pytest.raises(sc.ProtocolError):  # so that it is certain that the server knows this connection
            await client.ask("status")
        world.server.end(sc.wire.Goodbye(reason="enough"))
        with pytest.raises(sc.ServiceClosed, match="shutting down"):
            await client.hello(client_id="late")
        assert () == (await world.service.load_service()).clients


async def test_a_wrong_hello_leaves_the_connection_before_alone() -> None:
    """A client that comes back with a greeting that is refused does not lose the connection that it has."""
    async with (
        open_world() as world,
        world.client(client_id="ann", instance="secret") as ann,
        world.connected() as back,
    ):
        with pytest.raises(sc.InvalidInput):
            await back.hello(client_id="ann", instance="secret", name="a\x1b[31m")
        await ann.run(c.CreateSession())
        assert [] == ann.heard


async def test_a_silent_connection_is_ended(autojump_clock: object) -> None:
    """Whoever connects and does not say who it is gets a goodbye, and its place is free again."""
    async with open_world() as world, world.connected() as client:
        await client.until_heard("goodbye")
        await client.connection.wait_closed()
    assert 0 == world.server.connections


async def test_a_full_server_turns_clients_away() -> None:
    """One connection too many hears why it cannot come in, and disturbs nobody."""
    async with open_world(max_connections=1) as world, world.client() as first:
        async with world.connected() as second:
            (goodbye,) = await second.until_heard("goodbye")
            assert "the limit of this server" in goodbye.params["reason"]
        await first.run(c.CreateSession())


async def test_a_given_up_request_is_cancelled() -> None:
    """A client that gives up a request ends its waiting in the service, and the connection goes on."""
    async with open_world((Hang(),)) as world, world.client() as client:
        made = await client.run(c.CreateSession())
        sent = await client.run(c.SendUserMessage(session_id=made.session_id, text="go"))
        waiting = c.WaitForTurn(session_id=made.session_id, turn_id=sent.turn_id)
        with pytest.raises(sc.wire.RpcTimedOut):
            await client.connection.request("execute", {"command": sc.wire.to_json(waiting)}, timeout=0.01)
        assert 1 == (await client.ask("status"))["running"]
        stopped = await client.run(c.RequestStop(session_id=made.session_id))
        assert [("turn", made.session_id)] == [(each.kind, each.session_id) for each in stopped.ended]


async def test_a_line_that_is_no_message_is_answered() -> None:
    """A client that sends garbage is told so at once, and the connection goes on."""
    async with open_world() as world:
        ours, theirs = memory_stream_pair()
        world.nursery.start_soon(serve_connection, world.server, theirs, theirs)
        async with ours:
            answers = b""
            for line in (b"garbage", b"[]", b'{"jsonrpc": "2.0"}', b'{"jsonrpc": "2.0", "id": 3, "method": 5}'):
                await ours.send_all(line + b"\n")
            await ours.send_all(encode_request(1, "hello", {}))
            while answers.count(b"\n") < 5:
                answers += await ours.receive_some()
        told = [json.loads(line) for line in answers.splitlines()]
        assert [(None, -32700)] * 3 + [(3, -32600)] == [(each["id"], each["error"]["code"]) for each in told[:4]]
        assert "welcome" == told[4]["result"]["type"]
