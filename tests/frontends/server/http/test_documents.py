"""What docs/server.md says about HTTP is so."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

import session_core as sc
from frontends.server.http.openapi import openapi_document
from frontends.server.unix_listener import serve_unix
from frontends.shared.socket_path import short_socket_name
from session_core.testing.scripted import text
from tests._needs import needs_curl
from tests.docs._documents import ROOT, blocks
from tests.frontends.server._world import open_world
from tests.frontends.server.http._listener import open_listener

PAGE = (ROOT / "docs" / "server.md").read_text(encoding="utf-8")


@needs_curl
async def test_the_curl_examples_work(tmp_path: Path) -> None:
    """The commands of the page, run as they stand there by a shell, do what they say."""
    [script] = [block.text for block in blocks(PAGE.partition("## curl examples")[2]) if block.language == "sh"]
    for seconds in (1, 10, 60):  # a slow machine does not get everything within the second of the page
        folder = tmp_path / f"{seconds}"
        folder.mkdir()
        if await curl_examples(script.replace("--max-time 1 ", f"--max-time {seconds} "), folder):
            return
    raise AssertionError("the feed has not begun")


async def curl_examples(script: str, tmp_path: Path) -> bool:
    """Run them and look at what came of it; returns whether the time for the feed was long enough."""
    home = tmp_path / "home"
    async with open_listener(home, text("hello to you")) as world:
        environment = {
            "URL": world.url,
            "SESSION_CORE_HOME": str(home),
            "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
            "TMPDIR": str(tmp_path),
        }
        with trio.fail_after(180):
            ran = await trio.run_process(
                ["sh", "-eu", "-c", script], capture_stdout=True, capture_stderr=True, cwd=tmp_path, env=environment
            )
        sessions = (await world.service.load_service()).sessions

    assert b"" == ran.stderr
    lines = ran.stdout.decode().splitlines()
    replies = [json.loads(line)["type"] for line in lines if line.startswith("{")]
    assert [
        "create_session_reply",
        "send_user_message_reply",
        "wait_for_turn_reply",
        "messages_reply",
        "list_sessions_reply",
        "create_session_reply",
        "create_session_reply",
    ] == replies
    assert "hello to you" in ran.stdout.decode()
    assert "session_core_sessions_running 0" in lines
    assert {"from curl": str(tmp_path), "nightly": "/"} == {each.name: each.cwd for each in sessions}
    assert [home] == list(tmp_path.iterdir())  # noqa: ASYNC240 - a test's own folder
    return ["event: followed", "event: feed"] == [line for line in lines if line.startswith("event: ")][:2]


async def test_the_dialogue_works(tmp_path: Path) -> None:
    """The lines of the client, as they stand on the page, get the replies and notifications that stand there."""
    [script] = [block.text for block in blocks(PAGE) if block.text.startswith("C ")]
    told: list[Any] = []
    heard: list[Any] = []
    async with open_world() as world:
        await world.nursery.start(serve_unix, world.server, tmp_path / "s")
        with short_socket_name(tmp_path / "s") as name:
            stream = await trio.open_unix_socket(name)
        async with stream:
            kept = bytearray()
            for line in script.splitlines():
                who, _, message = line.partition(" ")
                if who == "C":
                    await stream.send_all(message.encode() + b"\n")
                    continue
                if world.server.closing and "goodbye" in message:
                    world.nursery.start_soon(world.server.say_goodbye)
                told.append(json.loads(message))
                with trio.fail_after(300):
                    heard.append(json.loads(await _next_line(stream, kept)))

    for each in (told, heard):  # a reply and a notification about the same thing may come in any order
        each.sort(key=lambda message: "method" in message)
    assert told == [_as_told(one, other) for one, other in zip(heard, told, strict=True)]
    methods = {json.loads(line[2:]).get("method") for line in script.splitlines()}
    table = PAGE.partition("## The contract")[2].partition("- **`type`**")[0]
    assert methods - {None} <= set(re.findall(r"^\| `([^`]+)` \|", table, re.MULTILINE))


async def _next_line(stream: trio.abc.ReceiveStream, kept: bytearray) -> bytes:
    while b"\n" not in kept:
        part = await stream.receive_some()
        assert part, "the server has closed the connection"
        kept += part
    line, _, rest = bytes(kept).partition(b"\n")
    kept[:] = rest
    return line


_CHOSEN = {"epoch", "client_id", "session_id", "at", "version"}
"""What is another one each time."""


def _as_told(heard: Any, told: Any, name: str = "") -> Any:
    """What was heard, with those values of the page that are chosen anew, and without what it leaves out."""
    if isinstance(told, dict) and isinstance(heard, dict):
        kept = {
            key: _as_told(value, told.get(key), key) for key, value in heard.items() if "…" not in told or key in told
        }
        return {**kept, "…": 0} if "…" in told else kept
    if isinstance(told, list) and isinstance(heard, list) and len(told) == len(heard):
        return [_as_told(one, other) for one, other in zip(heard, told, strict=True)]
    return told if name in _CHOSEN and type(told) is type(heard) else heard


def test_the_table_of_routes_is_complete() -> None:
    """The page names each route of the document, and no others."""
    named = set(re.findall(r"^\| `(GET|POST) (/[^`?]*)", PAGE, re.MULTILINE))
    described = {
        (method.upper(), re.sub(r"(?<=/v1/commands/)\w+", "{type}", path))
        for path, operations in openapi_document()["paths"].items()
        for method in operations
    }

    assert described == named


def test_the_example_of_a_token_with_fewer_rights_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines of Python on the page make a token that a server of that home takes."""
    from frontends.server.http.tokens import TokenVerifier

    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    [example] = [block.text for block in blocks(PAGE) if "scoped_token" in block.text]
    made: dict[str, str] = {}
    exec(example, made)

    found = TokenVerifier(tmp_path / ".local/share/session-core").credential_of(made["token"])
    assert found is not None
    assert "observer" == found.access.role
    with pytest.raises(sc.AccessDenied):
        found.access.check_session(None)
