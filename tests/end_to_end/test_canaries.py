"""Keys and headers as canaries: whatever a server answers or a model tries, nothing kept or shown holds them."""

import base64
import logging
from pathlib import Path
from urllib.parse import quote

import pytest

from session_core.config.load import load_config
from session_core.config.setting_report import describe_settings
from session_core.vocabulary.messages import ToolResultPart
from session_core.wire.codec import encode, encode_event
from tests._needs import NO_SANDBOX
from tests.end_to_end._streams import DIALECTS, Dialect
from tests.end_to_end._world import HEADER, KEY, World, exported, open_world
from tests.session_core.providers._replay_server import CUT, STALL, Reply, json_reply

each_dialect = pytest.mark.parametrize("dialect", DIALECTS, ids=str)
CANARIES = (KEY, HEADER)
ECHO = f"your key {KEY} with x-team: {HEADER} (Bearer {KEY}) {quote(KEY)}"


def _error(kind: str) -> dict[str, object]:
    return {"type": "error", "error": {"type": kind, "code": kind, "message": ECHO}}


def _failures(dialect: Dialect) -> list[Reply]:
    """Each ends a turn, or a try of one; whoever answers says the key aloud wherever it can."""
    begun = dialect.answer("I begin.")[:3]
    named = b"event: error\n" if dialect.kind != "openai_chat" else b""
    said = named + b'data: {"type": "error", "error": {"type": "invalid_request_error", "message": "%s"}}\n\n'
    once_busy = json_reply(429, _error("rate_limit_error"), {"retry-after-ms": "1", "x-echo": KEY})
    return [
        *(json_reply(status, _error("some_error")) for status in (400, 401, 403, 404, 418)),
        Reply(status=400, headers={"content-type": f"text/plain; key={KEY}"}, body=(ECHO.encode(),)),
        Reply(status=302, headers={"location": f"https://elsewhere.example/?key={KEY}&team={HEADER}"}),
        Reply(body=(*begun, said % ECHO.encode())),
        Reply(body=(*begun, b"data: {] %s\n\n" % ECHO.encode())),
        Reply(headers={"content-type": "application/json"}, body=(f'{{"error": "{ECHO}", "type": "x"}}'.encode(),)),
        Reply(raw=True, body=(ECHO.encode() + b"\r\n\r\n",)),
        once_busy,
        json_reply(529, _error("overloaded_error")),
        Reply(body=(*begun, CUT)),
        Reply(body=(*begun, STALL)),
        json_reply(400, {"error": {"code": "context_length_exceeded", "message": ECHO}}),
    ]


def _found(where: str, text: str) -> list[str]:
    return [f"{canary[:10]} in {where}" for canary in CANARIES if canary in text]


def _in_files(folder: Path) -> list[str]:
    kept = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    files = [path for path in kept if path.name != "config.toml"]
    assert any(path.stat().st_size > 10_000 for path in files), "the journal must be among them"
    return [leak for path in files for leak in _found(path.name, path.read_bytes().decode("latin-1"))]


async def _in_memory(world: World) -> list[str]:
    """What frontends and people who debug get to see."""
    places = {
        "the events": repr(world.seen) + repr([encode_event(event) for event in world.seen]),
        "the snapshot": repr(await world.snapshot()) + repr(encode(await world.snapshot())),
        "the session_list": repr(await world.service.load_service()),
        "the set-up": repr(world.setup),
        "the models": repr([vars(each) for each in world.setup.service.models.values()]),
        "the tools": repr([getattr(each, "__dict__", each) for each in world.setup.service.tools]),
    }
    return [leak for where, text in places.items() for leak in _found(where, text)]


@each_dialect
@pytest.mark.usefixtures("quick_retries", "little_patience", "short_answers")
async def test_failures_tell_no_secrets(dialect: Dialect, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """After every kind of failure neither key nor header is in an event, a file, a log, a picture or an export."""
    caplog.set_level(logging.NOTSET)
    failures = _failures(dialect)
    async with open_world(tmp_path, dialect, *failures, Reply(body=dialect.answer("All is well."))) as world:
        outcomes = [await world.say(f"try {number}") for number in range(12)]
        assert {"failed", "completed"} == {outcome.status for outcome in outcomes}
        assert "All is well." == outcomes[-1].final_text
        assert len(failures) < len(world.server.requests)
        leaks = await _in_memory(world)
        tellers = [event for event in world.seen if "***" in repr(event)]
        assert tellers, "the echo must have come through, masked"
        config = load_config(world.place.home, Path(world.place.folder), world.place.environ, {})
        leaks += _found("config show", repr(describe_settings(config, world.place.environ)) + repr(config))
    leaks += _in_files(tmp_path)
    kept = (await exported(tmp_path / "home", world.session_id)).decode()
    assert "All is well." in kept
    leaks += _found("the export", kept)
    leaks += _found("the log", caplog.text + repr([record.__dict__ for record in caplog.records]))
    assert [] == leaks


async def test_a_curious_model_finds_no_secrets(tmp_path: Path) -> None:
    """Neither the shell nor the file tools give a model the key of its provider or the settings that hold a header."""
    settings = tmp_path / "home" / "config.toml"
    search = (
        f"env; cat /proc/self/environ /proc/[0-9]*/environ | tr '\\0' '\\n'; cat {settings}; base64 {settings}; true"
    )
    dialect = DIALECTS[0]
    calls = [
        *([("bash", {"command": search})] if NO_SANDBOX is None else []),  # elsewhere it would be asked about
        ("read", {"path": str(settings)}),
        ("read", {"path": "../home/config.toml"}),
        ("read", {"path": "link"}),
        ("grep", {"pattern": "canary", "path": str(tmp_path / "home")}),
    ]
    replies = [Reply(body=dialect.answer("I look around.", calls)), Reply(body=dialect.answer("Nothing."))]
    async with open_world(tmp_path, dialect, *replies) as world:
        (tmp_path / "work" / "link").symlink_to(settings)
        outcome = await world.say("look around")
        *_, results, _ = await world.transcript()
        leaks = await _in_memory(world)
        asked = world.server.requests[1].body.decode()
    assert "completed" == outcome.status
    parts = [part for part in results.parts if isinstance(part, ToolResultPart)]
    assert {"error"} == {part.status for part in parts[-4:]}, "no file tool may read it"
    for shell in parts[:-4]:
        assert "PATH=" in shell.text, "the shell has run"
        assert base64.b64encode(settings.read_bytes()[:30]).decode()[:20] not in shell.text
    assert [] == leaks + _in_files(tmp_path) + _found("the next question", asked)
