"""Answers that are no answer, over HTTP: refused keys, rubbish and redirects end a turn clearly and are not retried."""

from pathlib import Path

import pytest

from session_core.vocabulary import events as ev
from tests.end_to_end._streams import ANTHROPIC, CHAT, DIALECTS, RESPONSES, Dialect
from tests.end_to_end._world import HEADER, KEY, KEY_ENV, open_world
from tests.session_core.providers._replay_server import Reply, json_reply, open_replay_server

each_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=str)


@each_dialect
async def test_a_key_that_is_not_accepted(dialect: Dialect, tmp_path: Path) -> None:
    """The outcome says which variable to set, and the server is asked once only."""
    no = json_reply(401, {"error": {"type": "authentication_error", "message": f"invalid key {KEY}"}})
    async with open_world(tmp_path, dialect, no, Reply(body=dialect.answer("Hello."))) as world:
        outcome = await world.say("hello")
        assert "failed" == outcome.status
        assert outcome.error is not None
        assert f"set {KEY_ENV} to one that it accepts" in outcome.error
        assert "status 401" in outcome.error
        assert KEY not in outcome.error
        assert 1 == len(world.server.requests)
        assert "Hello." == (await world.say("once more")).final_text


_RUBBISH = {
    "no HTTP": (Reply(raw=True, body=(b"SSH-2.0-OpenSSH_9.9\r\n\r\n",)), "is not HTTP"),
    "a web page": (Reply(headers={"content-type": "text/html"}, body=(b"<html>Log in</html>",)), "text/html"),
    "no stream": (json_reply(200, {"hello": "there"}), "application/json"),
    "no JSON": (Reply(body=(b"data: {]\n\n",)), ""),
    "wrong JSON": (Reply(body=(b"data: [1, 2]\n\n",)), ""),
    "bytes": (Reply(body=(b"data: \xff\xfe\x00{{{\n\n" * 20,)), ""),
    "an error we do not know": (json_reply(418, {"fault": "teapot"}), "status 418"),
}


@pytest.mark.parametrize("dialect", DIALECTS, ids=str)
async def test_rubbish(dialect: Dialect, tmp_path: Path) -> None:
    """Whatever is no answer fails the turn in words, at the first try, and the session can go on."""
    replies = [reply for reply, _ in _RUBBISH.values()]
    async with open_world(tmp_path, dialect, *replies, Reply(body=dialect.answer("Better."))) as world:
        for number, (name, (_, words)) in enumerate(_RUBBISH.items(), start=1):
            outcome = await world.say(name)
            assert "failed" == outcome.status, name
            assert words in (outcome.error or ""), name
            assert "Traceback" not in (outcome.error or "")
            assert number == len(world.server.requests), name
        assert "Better." == (await world.say("again")).final_text
        assert len(_RUBBISH) == len(world.events(ev.ModelCallFailed))
        assert {"user", "assistant"} == {message.role for message in await world.transcript()}


@pytest.mark.parametrize(("dialect", "status"), [(ANTHROPIC, 301), (ANTHROPIC, 307), (CHAT, 302), (RESPONSES, 308)])
async def test_a_redirect_takes_the_key_nowhere(dialect: Dialect, status: int, tmp_path: Path) -> None:
    """A server that sends us elsewhere is not followed: nobody else gets the key, nor even a connection."""
    async with open_replay_server(Reply(body=dialect.answer("Give me the key."))) as elsewhere:
        away = Reply(status=status, headers={"location": f"{elsewhere.base_url}{dialect.path}?key={KEY}&h={HEADER}"})
        async with open_world(tmp_path, dialect, away) as world:
            outcome = await world.say("hello")
            assert 1 == len(world.server.requests)
        assert (0, []) == (elsewhere.connections, elsewhere.requests)
    assert "failed" == outcome.status
    assert outcome.error is not None
    assert "redirect" in outcome.error
    assert "change its address in the settings" in outcome.error
    assert KEY not in outcome.error
    assert HEADER not in outcome.error
